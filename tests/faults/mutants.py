"""Negative controls in a real cluster: builds with one rule removed (common/mutant.h), each under the faults
that its rule is for.  The oracles have to find it, and find nothing when the ordinary build goes through
the same.

A scenario is given a Run without programs.  It starts what it needs, does what has to be done, and
returns; what came of it is then judged.
"""

import base64
import random
import re
import time

import fleet as fleets
import lib
import restore

SLOT = 5
DENSE = {"counts": ((4096, 1),), "pause_s": 0.02}  # so many that two on one millisecond meet
STEADY = {"counts": ((1, 1), (20, 1)), "pause_s": 0.02}


def _b64(fleet, key):
    return re.escape(base64.b64encode(fleet.key(key).encode()).decode())


def _wait_more(run, n=500):
    goal = run.load.taken() + n
    lib.wait_until(lambda: run.load.taken() >= goal, 20, f"{n} more IDs")


def _worker(run, *args, ready=True, name=None):
    worker = run.fleet.add_worker("--assign-wait=0s", *args, name=name)
    if ready:
        worker.wait_ready()
    return worker


def _begin(run, *args, **load):
    """One worker on SLOT, with clients."""
    run.fleet.init(*fleets.INIT)
    worker = _worker(run, f"--machine-id={SLOT}", *args)
    run.serve([worker], **(load or STEADY))
    _wait_more(run)
    return worker


def _hor(run):
    """(horizon, claim, n) as stored."""
    horizon, claim, n = run.fleet.get(f"hor/{SLOT:04}").value.split(":")
    return int(horizon), claim, int(n)


def extend_without_compare(run):
    """An extension lands long after its own retry."""
    worker = _begin(run)
    rule = run.fleet.proxy.rule("delay", link=f"{worker.name}>*", path="/v3/kv/txn", body="request_put",
                                ms=(5000, 5000), limit=1)
    lib.wait_until(lambda: run.fleet.proxy.hits(rule), 10, "an extension is held")
    n = _hor(run)[2]
    lib.wait_until(lambda: _hor(run)[2] >= n + 2, 15, "others have been made meanwhile")
    time.sleep(6)
    _wait_more(run)


def claim_without_compare(run):
    """A claim lands after another one has come and gone."""
    run.fleet.init(*fleets.INIT)
    own = _b64(run.fleet, f"own/{SLOT:04}")
    rule = run.fleet.proxy.rule("delay", link="late>*", path="/v3/kv/txn", body=f"request_put.*{own}",
                                ms=(10000, 10000), limit=1)
    late = _worker(run, f"--machine-id={SLOT}", "--lease-ttl=60s", "--etcd-timeout=20s", ready=False, name="late")
    lib.wait_until(lambda: run.fleet.proxy.hits(rule), 10, "its claim is under way")
    first = _worker(run, f"--machine-id={SLOT}", name="first")
    run.serve([first], **STEADY)
    _wait_more(run)
    lib.equal(_hor(run)[1], first.status()["machines"][0]["claim"], "the other one holds it")
    run.load.stop()
    first.down = True
    first.kill()
    run.fleet.etcd.delete(run.fleet.key(f"own/{SLOT:04}"))
    late.wait_ready()
    run.serve([late], **STEADY)
    _wait_more(run)


def start_at_horizon(run):
    """The next holder's clock stands at the very horizon."""
    first = _begin(run, **DENSE)
    run.load.stop()
    first.down = True
    first.terminate(10)
    horizon_ms = _hor(run)[0]
    second = _worker(run, f"--machine-id={SLOT}", "--max-backward-wait=9s", ready=False, name="second")
    second.kill()
    second.clock.freeze_at(horizon_ms / 1000 + 1.5)
    second.restart()
    lib.wait_until(lambda: second.status()["machines"][0]["limit_ms"] not in ("0", None)
                   and _hor(run)[2] == 1, 20, "it claims")
    second.clock.freeze_at(horizon_ms / 1000 + 0.0005)
    run.serve([second], **DENSE)
    time.sleep(2)
    second.clock.set()
    _wait_more(run)


def raise_before_answer(run):
    """No extension arrives any more."""
    worker = _begin(run)
    run.fleet.proxy.rule("lose_up", link=f"{worker.name}>*", path="/v3/kv/txn", late=0)
    time.sleep(fleets.WINDOW_S + 3)


def timeout_is_success(run):
    """As before; here it is the time-out that counts."""
    raise_before_answer(run)


def _give_up(run):
    run.fleet.ctl("reclaim", "--yes", "--force", str(SLOT), code=None)


def release_while_issuing(run):
    """A worker is ordered to hand its machine ID back, under load."""
    _begin(run, "--assign-wait=3s", counts=((4096, 1),), pause_s=0.001)
    _give_up(run)
    time.sleep(2)


def reopen_after_release(run):
    """... and the answer to the release is lost."""
    worker = _begin(run, "--assign-wait=3s", counts=((20, 1),), pause_s=0.002)
    release = run.fleet.proxy.rule("eat", link=f"{worker.name}>*", path="/v3/kv/txn", then="hang",
                                   body="request_delete_range.*request_put")
    _give_up(run)
    lib.wait_until(lambda: run.fleet.proxy.hits(release), 10, "the release is under way")
    # What it reads then comes late, so that there is time to see what it does until then.
    rule = run.fleet.proxy.rule("delay", link=f"{worker.name}>*", path="/v3/kv/txn", ms=(900, 900), way="answer")
    time.sleep(4)
    run.fleet.proxy.remove(rule)


def resume_anywhere(run):
    """A worker wakes up when another one has held its machine ID, and died."""
    first = _begin(run)
    first.pause()
    time.sleep(fleets.WINDOW_S + 2)
    lib.wait_until(lambda: run.fleet.get(f"own/{SLOT:04}") is None, 20, "its lease has expired")
    second = _worker(run, f"--machine-id={SLOT}", name="second")
    lib.equal(second.status()["machines"][0]["machine_id"], SLOT, "the other one holds it")
    lib.equal(len(second.ids(10)), 10)
    second.down = True
    second.kill()
    run.fleet.etcd.delete(run.fleet.key(f"own/{SLOT:04}"))
    first.resume()
    _wait_more(run)


def recover_without_floor(run):
    """A worker that the backup does not know has died; the next one on its machine ID has a slow clock."""
    run.fleet.init(*fleets.INIT)
    backup = run.folder / "backup.db"
    restore.back_up(run.fleet, backup)
    lost = _worker(run, f"--machine-id={SLOT}", name="lost")
    run.serve([lost], **DENSE)
    _wait_more(run)
    run.load.stop()
    since = time.time() - 1
    lost.down = True
    lost.kill()
    lost.state_file.unlink()
    restore.lose_history(run.fleet, run.recorder, backup, 1, random.Random(1))
    slow = _worker(run, f"--machine-id={SLOT}", ready=False, name="slow")
    slow.kill()
    slow.clock.set(since - time.time())
    slow.restart()
    slow.wait_ready(60)
    run.serve([slow], **DENSE)
    _wait_more(run)


SCENARIOS = {function.__name__: function for function in (
    extend_without_compare, claim_without_compare, start_at_horizon, raise_before_answer, release_while_issuing,
    resume_anywhere, timeout_is_success, reopen_after_release, recover_without_floor)}


def binaries(name):
    """The mutant's programs (-DSNOWFLEET_MUTANT_BINARIES=ON)."""
    folder = lib.BIN / "mutants" / name
    found = {path.name: path for path in folder.glob("snowfleet*")} if folder.is_dir() else {}
    if not found:
        raise FileNotFoundError(f"{folder}: no program; configure with -DSNOWFLEET_MUTANT_BINARIES=ON and build")
    return found
