"""20 workers released at one moment on an empty fleet get 20 machine IDs, and no ID comes twice."""

import lib
import load

WORKERS = 20
ROUNDS = 10
COUNT = 10000


def rounds(with_coordinator):
    with lib.Fleet() as fleet:
        for number in range(ROUNDS):
            fleet.cluster = f"round{number}"
            coordinator = fleet.coordinator("--lease-ttl=2s") if with_coordinator else None
            workers = [fleet.worker("--assign-wait=" + ("20s" if with_coordinator else "0s"))
                       for _ in range(WORKERS)]
            for worker in workers:
                lib.wait_until(lambda: worker.status()["state"] == "CLAIMING", 20,
                               f"{worker.name} waits for meta")
            fleet.init("--new")  # what they all wait for
            for worker in workers:
                worker.wait_ready(40)
            batches = lib.in_parallel([lambda each=each: each.ids(COUNT) for each in workers])
            machines = set()
            for worker, ids in zip(workers, batches):
                lib.equal(len(ids), COUNT)
                lib.check(all(a < b for a, b in zip(ids, ids[1:])), "an answer is in order")
                of_worker = {load.parts(number)[1] for number in ids}
                lib.equal(len(of_worker), 1, f"{worker.name}: machine IDs in one answer")
                machine = of_worker.pop()
                machines.add(machine)
                own = fleet.get(f"own/{machine:04}").json()
                lib.equal(own["instance"], worker.instance, f"who holds {machine}")
            lib.equal(len(machines), WORKERS, "different machine IDs")
            lib.equal(load.no_duplicates(number for ids in batches for number in ids),
                      WORKERS * COUNT)
            for worker in workers:
                worker.kill()
            if coordinator:
                coordinator.kill()


def test_with_a_coordinator():
    rounds(True)


def test_without_one():
    rounds(False)


if __name__ == "__main__":
    lib.main()
