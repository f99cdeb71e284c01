"""Carries out the faults of a schedule, each in a thread of its own, and puts all right in the end.

A fault is a generator: up to its yield it does harm, after it that harm is undone.  Victims are taken from
those that nothing else happens to at the moment.  What cannot be done, since another fault is in the way
(no etcd to revoke a lease in), is counted as missed.
"""

import contextlib
import http.client
import json
import os
import random
import shutil
import subprocess
import threading
import time

import fleet as fleets
import lib
import restore
import schedule

END_S = (1704067200000 + 2**41 - 1) / 1000  # of the epoch: 2093-09-06T15:47:35.551Z
PATHS = ("*", "/v3/kv/*", "/v3/kv/txn", "/v3/lease/*", "/v3/lease/keepalive", "/v3/watch")
SMALL_STEPS_S = (0.001, 0.003, 0.02, 0.2, 0.9)
STEPS_S = (1.5, 10, 60, 3600, 86400)
DISK_BYTES = 1 << 20


class Missed(Exception):
    """This fault cannot be done now; says why."""


class Carrier:
    """run(faults) does them all, then heal().  counts, missed and findings say what came of it."""

    def __init__(self, fleet, recorder, say):
        self.fleet, self.recorder, self.say = fleet, recorder, say
        self.counts, self.missed, self.findings = {}, {}, []
        self.restores = []
        self.lock = threading.Condition()
        self.busy = set()      # names of what something happens to
        self.active = 0        # faults under way
        self.etcd_turn = threading.Lock()  # of those that three members bear one at a time
        self.squatters = fleet.folder / "squatters.txt"
        self.squatters.touch()
        self.disk = fleet.folder / "disk"
        self.began = 0.0

    # -- the run --

    def run(self, faults):
        self.began = time.monotonic()
        threads = []
        for fault in faults:
            while (left := self.began + fault.begin_s - time.monotonic()) > 0:
                self.look_for_the_dead()
                time.sleep(min(left, 0.2))
            thread = threading.Thread(target=self._carry, args=(fault,), daemon=True)
            thread.start()
            threads.append(thread)
        for thread in threads:
            while thread.is_alive():
                self.look_for_the_dead()
                thread.join(0.2)

    def _carry(self, fault):
        with contextlib.ExitStack() as stack:
            self._carry_on(fault, stack)

    def _carry_on(self, fault, stack):
        alone = schedule.KINDS[fault.kind].alone
        with self.lock:
            self.lock.wait_for(lambda: not self.active if alone else self.active >= 0)
            self.active += -1000 if alone else 1
        try:
            if schedule.KINDS[fault.kind].etcd:
                stack.enter_context(self.etcd_turn)
            self.say(f"begin {fault}")
            with contextlib.contextmanager(getattr(self, fault.kind))(fault, random.Random(fault.chance)):
                self.counts[fault.kind] = self.counts.get(fault.kind, 0) + 1
                self.sleep_until(fault.end_s)
            self.say(f"end   #{fault.number} {fault.kind}")
        except (Missed, lib.Failure, OSError, subprocess.SubprocessError) as why:
            self.say(f"missed #{fault.number} {fault.kind}: {type(why).__name__} {str(why)[:300]}")
            self.missed[fault.kind] = self.missed.get(fault.kind, 0) + 1
        except Exception as err:  # pylint: disable=broad-except
            self.finding("suite", f"{fault}: {type(err).__name__}: {err}")
        finally:
            with self.lock:
                self.active -= -1000 if alone else 1
                self.lock.notify_all()

    def sleep_until(self, at_s):
        time.sleep(max(0.0, self.began + at_s - time.monotonic()))

    def finding(self, rule, text):
        self.say(f"FINDING {rule}: {text}")
        self.findings.append({"rule": rule, "text": text})

    def look_for_the_dead(self):
        """A program that ended by itself is a finding."""
        for program in self.fleet.programs:
            with self.lock:
                if program.down or program.alive() or program.name in self.busy:
                    continue
                self.finding("crash", f"{program.name} ended with {program.popen.returncode}: "
                             f"{program.errors()[-1000:]} {program.output()[-500:]}")
                program.restart()

    @contextlib.contextmanager
    def taken(self, candidates, fault):
        """One of candidates that nothing else happens to; the others keep off until it is given back."""
        candidates = list(candidates)
        with self.lock:
            start = fault.victim % len(candidates)
            free = [each for each in candidates[start:] + candidates[:start] if each.name not in self.busy]
            if not free:
                raise Missed("all are busy")
            victim = free[0]
            self.busy.add(victim.name)
        try:
            yield victim
        finally:
            with self.lock:
                self.busy.discard(victim.name)

    # -- processes --

    def _killed(self, program):
        program.down = True
        program.kill()

    def kill_worker(self, fault, _, programs=None):
        with self.taken(programs or self.fleet.workers, fault) as program:
            self._killed(program)
            yield
            program.restart()

    def kill_coordinator(self, fault, chance):
        yield from self.kill_worker(fault, chance, self.fleet.coordinators)

    def restart_worker(self, fault, _):
        with self.taken(self.fleet.workers, fault) as worker:
            worker.down = True
            worker.signal(15)
            begun = time.monotonic()
            try:
                code = worker.wait(20)
                if code != 0:
                    self.finding("exit", f"{worker.name} ended with {code} on SIGTERM: {worker.errors()[-500:]}")
            except lib.Failure:
                self.finding("exit", f"{worker.name} runs {time.monotonic() - begun:.0f} s after SIGTERM")
                worker.kill()
            yield
            worker.restart()

    def kill_etcd(self, fault, _):
        with self.taken(self.fleet.etcd.members, fault) as member:
            member.kill()
            yield
            member.start()

    def stop_worker(self, fault, _, programs=None):
        with self.taken(programs or self.fleet.workers, fault) as program:
            program.pause()
            yield
            program.resume()

    def stop_coordinator(self, fault, chance):
        yield from self.stop_worker(fault, chance, self.fleet.coordinators)

    def stop_etcd_leader(self, fault, chance):
        yield from self.stop_worker(fault, chance, [self.fleet.etcd.leader()])

    def two_members_down(self, fault, chance):
        with self.taken(self.fleet.etcd.members, fault) as one, self.taken(self.fleet.etcd.members, fault) as two:
            stop = chance.random() < 0.5
            for member in (one, two):
                (member.pause if stop else member.kill)()
            yield
            for member in (one, two):
                (member.resume if stop else member.start)()

    def move_leader(self, fault, chance):
        leader = self.fleet.etcd.leader()
        others = [member for member in self.fleet.etcd.members if member is not leader and member.alive()]
        self.etcdctl(leader, "move-leader", f"{chance.choice(others).id():x}")
        yield

    def etcdctl(self, member, *args):
        subprocess.run(["etcdctl", "--endpoints", member.url, *args], check=True, timeout=30,
                       capture_output=True, env=lib.clean_env({"ETCDCTL_API": "3"}))

    # -- the network --

    def _programs(self, chance):
        """A pattern for links: one program's, or everybody's."""
        if chance.random() < 0.3:
            return "*>etcd*"
        if chance.random() < 0.15:
            return "coordinators>*"
        return f"{chance.choice(self.fleet.programs).name}>*"

    def _ruled(self, *rules):
        numbers = [self.fleet.proxy.rule(kind, **fields) for kind, fields in rules]
        yield
        for number in numbers:
            self.fleet.proxy.remove(number)

    def _cut_off(self, kind, fault, chance, member="*"):
        program = self.fleet.programs[fault.victim % len(self.fleet.programs)]
        rules = [(kind, {"link": f"{program.name}>{member}", "late": chance.choice([0, 0.5, 1])})]
        if chance.random() < 0.5:
            rules.append((kind, {"link": f"coordinators>{program.name}", "late": 0.5}))
        yield from self._ruled(*rules)

    def partition(self, fault, chance):
        yield from self._cut_off("black_hole", fault, chance)

    def partition_up(self, fault, chance):
        yield from self._cut_off("lose_up", fault, chance)

    def partition_down(self, fault, chance):
        yield from self._cut_off("lose_down", fault, chance)

    def partition_member(self, fault, chance):
        yield from self._cut_off("black_hole", fault, chance, f"etcd{chance.randrange(3)}")

    def _some(self, kind, chance, **fields):
        yield from self._ruled((kind, {"link": self._programs(chance), "path": chance.choice(PATHS),
                                       "p": chance.choice([0.1, 0.3, 0.7]), **fields}))

    def cut(self, _, chance):
        yield from self._some("cut", chance)

    def delay(self, _, chance):
        yield from self._some("delay", chance, way=chance.choice(["request", "request", "answer"]),
                              ms=chance.choice([(5, 200), (500, 1500), (1000, 6000)]))

    def reorder(self, _, chance):
        yield from self._some("reorder", chance, way=chance.choice(["request", "request", "answer"]),
                              ms=(0, chance.choice([300, 1500, 5000])))

    def repeat(self, _, chance):
        yield from self._some("repeat", chance, ms=chance.choice([(0, 50), (500, 3000)]))

    def eat(self, _, chance):
        yield from self._some("eat", chance, then=chance.choice(["cut", "hang"]))

    def probes_lost(self, fault, chance):
        worker = self.fleet.workers[fault.victim % len(self.fleet.workers)].name
        yield from self._ruled((chance.choice(["black_hole", "cut", "lose_down"]),
                                {"link": chance.choice(["coordinators>*", f"coordinators>{worker}"])}))

    # -- clocks --

    def _clock(self, fault, ahead_s=0.0, rate_ppm=0):
        clocks = [program for program in self.fleet.programs if not program.clock.bent]
        program = clocks[fault.victim % len(clocks)]
        program.clock.set(ahead_s, rate_ppm)
        yield
        program.clock.set()

    def clock_step_small(self, fault, chance):
        yield from self._clock(fault, chance.choice([-1, 1]) * chance.choice(SMALL_STEPS_S))

    def clock_step(self, fault, chance):
        yield from self._clock(fault, chance.choice([-1, 1]) * chance.choice(STEPS_S))

    def clock_step_year(self, fault, chance):
        yield from self._clock(fault, chance.choice([-1, 1]) * schedule.YEAR_S)

    def clock_1970(self, fault, _):
        yield from self._clock(fault, -time.time())

    def clock_2093(self, fault, chance):
        yield from self._clock(fault, END_S - time.time() + chance.uniform(-3, 3))

    def clock_rate(self, fault, chance):
        yield from self._clock(fault, rate_ppm=chance.choice([-50000, 50000]))

    # -- keys --

    def _held_by(self, fault):
        worker = self.fleet.workers[fault.victim % len(self.fleet.workers)]
        key = self.fleet.holding(worker)
        if key is None:
            raise Missed(f"{worker.name} holds nothing")
        return key

    def revoke_lease(self, fault, chance):
        key = self._held_by(fault)
        if chance.random() < 0.3:
            key = self.fleet.get(f"node/{key.json()['instance']}") or key
        self.fleet.etcd.revoke(key.lease)
        yield

    def delete_own(self, fault, _):
        self.fleet.etcd.delete(self._held_by(fault).name)
        yield

    def reclaim_live(self, fault, _):
        key = self._held_by(fault)
        self.fleet.ctl("reclaim", "--yes", "--force", str(int(key.name[-4:])), code=None)
        yield

    def slots_taken(self, fault, _):
        """Somebody sits on every free slot, under a lease, and serves nothing; then a worker needs one."""
        lease = self.fleet.etcd.grant(60)
        own = self.fleet.key("own/")
        taken = {key.name for key in self.fleet.etcd.prefix(own)}
        records = {}
        for number in range(fleets.MACHINE_IDS):
            if f"{own}{number:04}" not in taken:
                records[f"{own}{number:04}"] = {"claim": os.urandom(16).hex(), "instance": os.urandom(16).hex(),
                                                "identity": "squatter",
                                                "addresses": {"http": "127.0.0.3:9", "grpc": ""}}
        with open(self.squatters, "a", encoding="ascii") as file:
            file.writelines(record["claim"] + "\n" for record in records.values())
        for name, record in records.items():
            self._put_if_absent(name, json.dumps(record), lease)
        with self.taken(self.fleet.workers, fault) as worker:
            self._killed(worker)
            worker.restart()
        yield
        self.fleet.etcd.revoke(lease)

    def _put_if_absent(self, name, value, lease):
        key = lib._b64(name)  # pylint: disable=protected-access
        self.fleet.etcd.call("/v3/kv/txn", {
            "compare": [{"key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0"}],
            "success": [{"request_put": {"key": key, "value": lib._b64(value),  # pylint: disable=protected-access
                                         "lease": str(lease)}}]})

    def freeze(self, _, __):
        self.fleet.ctl("freeze", "--reason", "a fault")
        yield
        self.fleet.ctl("thaw", code=None)  # heal() sees to it that it is

    # -- coordination --

    def stale_leader(self, fault, _):
        """The leader is stopped when it has read and its transaction is under way, which lands much later:
        after its lease has expired and another one leads."""
        leader = self.fleet.leading()
        if leader is None:
            raise Missed("nobody leads")
        with self.taken([leader], fault):
            late_ms = int(fault.lasts_s * 1000) + 300
            rule = self.fleet.proxy.rule("delay", link=f"{leader.name}>*", path="/v3/kv/txn",
                                         ms=(late_ms, late_ms), limit=3)
            try:
                lib.wait_until(lambda: self.fleet.proxy.hits(rule), 3, "a transaction of the leader", 0.005)
                leader.pause()
                yield
                leader.resume()
            finally:
                self.fleet.proxy.remove(rule)

    # -- disks --

    def no_space(self, _, __):
        for member in self.fleet.etcd.members:
            if member.alive() and not member.stopped:
                self._alarm("ACTIVATE", member.id())
                break
        yield
        self.make_space()

    def _alarm(self, action, member_id):
        self.fleet.etcd.call("/v3/maintenance/alarm",
                             {"action": action, "alarm": "NOSPACE", "memberID": str(member_id)})

    def make_space(self):
        alarms = self.fleet.etcd.call("/v3/maintenance/alarm", {"action": "GET"}).get("alarms", [])
        for alarm in alarms:
            self._alarm("DEACTIVATE", alarm["memberID"])
        if alarms:
            self._outlive_the_alarm()

    def _outlive_the_alarm(self):
        """etcd stores the alarm at once, but how far it has applied its log only with the next write that
        succeeds.  A member killed between the two goes through the log again, without the alarm, and then
        does what was refused before: its history is another one from there on (seen with 3.4.23; etcd-io/etcd
        issues 16106 and 21636).  That is no etcd that anything can be built on, so it must not happen here."""
        stamp = str(time.time_ns())
        self.fleet.etcd.put("/snowfleet-faults/room", stamp)
        for member in self.fleet.etcd.members:
            def applied(member=member):
                answer = lib.request(member.address, "POST", "/v3/kv/range", json.dumps(
                    {"key": lib._b64("/snowfleet-faults/room"), "serializable": True}))  # pylint: disable=protected-access
                return lib._unb64(answer.json()["kvs"][0]["value"]) == stamp  # pylint: disable=protected-access
            lib.wait_until(applied, 20, f"{member.name} has applied it")
            lib.request(member.address, "POST", "/v3/maintenance/defragment", "{}", timeout=20)  # commits

    def disk_full(self, fault, chance):
        """Either the worker may not write to any file (its log neither), or the disk of the state files is
        full, and one has to be made anew."""
        with self.taken(self.fleet.workers, fault) as worker:
            if not os.path.ismount(self.disk) or chance.random() < 0.5:
                fleets.limit_file_size(worker.pid, 0)
                yield
                fleets.limit_file_size(worker.pid, None)
                return
            self._killed(worker)
            worker.state_file.unlink(missing_ok=True)
            with open(self.disk / "junk", "wb", buffering=0) as junk, contextlib.suppress(OSError):
                while junk.write(bytes(4096)):
                    pass
            worker.restart()
            yield
            (self.disk / "junk").unlink()

    def state_lost(self, fault, _):
        with self.taken(self.fleet.workers, fault) as worker:
            self._killed(worker)
            worker.state_file.unlink(missing_ok=True)
            yield
            worker.restart()

    def state_old(self, fault, _):
        """The copy of the last time is put back, and today's is kept for the next."""
        with self.taken(self.fleet.workers, fault) as worker:
            saved = self.fleet.folder / f"{worker.name}.state.saved"
            kept = saved.read_bytes() if saved.exists() else None
            self._killed(worker)
            if worker.state_file.exists():
                shutil.copyfile(worker.state_file, saved)
            if kept is not None:
                worker.state_file.write_bytes(kept)
            yield
            worker.restart()

    def save_states(self):
        for worker in self.fleet.workers:
            if worker.state_file.exists():
                shutil.copyfile(worker.state_file, self.fleet.folder / f"{worker.name}.state.saved")

    # -- etcd's history --

    def restore(self, fault, chance):
        self.heal()
        self.restores.append(restore.carry_out(self, fault, chance))
        yield

    # -- the end --

    def heal(self):
        """All that was done is undone, and etcd has its three members again."""
        self.fleet.proxy.clear()
        for program in self.fleet.programs:
            if program.clock.bent:
                program.clock.set()
            if program.alive():
                fleets.limit_file_size(program.pid, None)
                if program.stopped:
                    program.resume()
            else:
                program.restart()
        (self.disk / "junk").unlink(missing_ok=True)
        for member in self.fleet.etcd.members:
            if not member.alive():
                member.start()
            elif member.stopped:
                member.resume()
        lib.wait_until(lambda: all(member.reachable() for member in self.fleet.etcd.members), 30,
                       "three members answer")
        self.make_space()
        lib.wait_until(lambda: all(member.healthy() for member in self.fleet.etcd.members), 30,
                       "three members are healthy")
        meta = self.fleet.get("meta").json()
        if meta["mode"] == "FROZEN":
            if meta["reason"] != "a fault":
                self.finding("frozen", f"the cluster is frozen: {meta['reason']}")
            lib.wait_until(lambda: self.fleet.ctl_raw("thaw").returncode == 0, 10, "it is thawed")
        self.replace_those_in_the_future()
        for key in self.fleet.etcd.prefix(self.fleet.key("own/")):
            if key.json()["identity"] == "squatter":
                with contextlib.suppress(lib.Failure):  # two of them share a lease
                    self.fleet.etcd.revoke(key.lease)

    def replace_those_in_the_future(self):
        """A worker whose clock was far ahead has issued IDs of that time, and now waits until it has come: an
        operator would start it anew, which takes another machine ID."""
        for worker in self.fleet.workers:
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                last_ms = max((int(machine["last_issued_ms"] or 0) for machine in worker.status()["machines"]),
                              default=0)
                if last_ms > time.time() * 1000 + 1000:
                    self.say(f"{worker.name} is {last_ms / 1000 - time.time():.0f} s ahead: started anew")
                    self._killed(worker)
                    worker.restart()
