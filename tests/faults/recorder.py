"""Records what happens below a cluster's prefix in etcd, from its first revision on, for history.py.

    recorder = Recorder(["http://127.0.0.1:2379"], "/snowfleet/default/", folder)
    recorder.start()
    ...
    recorder.settle()                 # before etcd is taken away: proves that nothing is missing so far
    recorder.new_segment(endpoints)   # etcd's old data is gone, the restored one does not listen yet
    ...
    proven = recorder.stop()

One watch, which any member may serve, resumes after a cut at the revision after the last one delivered.
It covers one key more than the prefix, the very next one, into which the recorder puts a marker once a
second.  etcd delivers the events of one watch in the order of their revisions, so a marker that comes says
that nothing older is still on its way; one that does not come says that this member is dead or behind, and
the next one is asked.

settle() proves more: it puts a marker and reads the whole prefix in one transaction, and compares that with
what the watch had made of it at that revision.  Then it reads the history once more, with a new watch that
nothing cuts, and compares event by event.

history.<segment>.jsonl has a line for each event,
    {"rev","key" (without the prefix),"value" (null: deleted),"create_rev","mod_rev","version","at_ms"}
with "filled" where it was read later because the revision itself was compacted, and lines with "note":
    segment   the first line
    cut       the watch had to be taken up again (for the reader only)
    gap       "after" to "compacted": revisions that nobody can read any more
    proof     all up to "rev" is here; "reread": and was read twice
    mismatch  it is not, and what differs
    rollback  etcd answered with a revision below one it had before, without new_segment()
    end       new_segment() or stop()
"""

import base64
import http.client
import json
import os
import pathlib
import socket
import threading
import time

MARKER_INTERVAL_S = 1.0
SILENCE_S = 5.0  # without a line, of which there is one a second at the least
REQUEST_S = 2.0


class Cut(Exception):
    """The watch has to be taken up again."""


def _b64(text):
    return base64.b64encode(text.encode()).decode()


def _text(kv, name):
    return base64.b64decode(kv.get(name, "")).decode(errors="replace")


def _connect(endpoint, timeout):
    host, port = endpoint.removeprefix("http://").rsplit(":", 1)
    return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=timeout)


def prefix_end(prefix):
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


class Watch:
    """One watch stream from a revision on: yields lists of events, each (kind, kv)."""

    def __init__(self, endpoint, first, last, revision, silence):
        self.connection = _connect(endpoint, silence)
        self.compacted = 0
        body = {"create_request": {"key": _b64(first), "range_end": _b64(last),
                                   "start_revision": str(revision)}}
        # Ends the stream of a member that has no leader.
        headers = {"Content-Type": "application/json", "Grpc-Metadata-hasleader": "true"}
        self.connection.request("POST", "/v3/watch", json.dumps(body), headers)
        self.socket = self.connection.sock
        self.answer = self.connection.getresponse()
        if self.answer.status != 200:
            raise Cut(f"HTTP {self.answer.status}: {self.answer.read(300)!r}")

    def __iter__(self):
        while True:
            line = self.answer.readline()
            if not line.endswith(b"\n"):
                raise Cut("the stream ended")
            message = json.loads(line)
            if "error" in message:
                raise Cut(str(message["error"]))
            result = message["result"]
            if result.get("canceled"):
                self.compacted = int(result.get("compact_revision", 0))
                raise Cut(result.get("cancel_reason") or f"compacted at {self.compacted}")
            yield [(event.get("type", "PUT"), event["kv"]) for event in result.get("events", [])]

    def wake(self):
        """Ends the wait of another thread for the next line."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self):
        self.connection.close()


class Recorder:
    """See above.  Its methods may be called from any thread, one at a time."""

    def __init__(self, endpoints, prefix, folder):
        self.prefix = prefix
        self.marker = prefix_end(prefix)
        self.folder = pathlib.Path(folder)
        self.segment = 0
        self.thread = None
        self.problem = ""
        self._set(endpoints)

    def _set(self, endpoints):
        """A segment's own state."""
        self.endpoints = list(endpoints)
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.stopping = threading.Event()
        self.revision = 0  # all up to here has been delivered
        self.state = {}  # key: (value, create_revision, mod_revision, version)
        self.events = []  # (rev, key, value, version), to be compared with a second reading
        self.whole_from = 1  # what is below was compacted before it could be read
        self.awaited = {}  # marker's value: None, then (revision, state, number of events) there
        self.proven = False  # nothing was recorded since a proof
        self.heard = 0.0  # when the last marker came
        self.broken = False
        self.watch = None
        self.turn = 0

    # ---- the file ----

    def _write(self, entry):
        self.file.write(json.dumps(entry, separators=(",", ":")) + "\n")

    def _note(self, note, **fields):
        with self.lock:
            self._write({"note": note, **fields, "at_ms": time.time_ns() // 1_000_000})
            self.file.flush()

    def _event(self, revision, key, value, kv, filled=False):
        version = int(kv.get("version", 0))
        created = int(kv.get("create_revision", 0))
        if value is None:
            created = self.state.pop(key, (None, 0))[1]
        else:
            self.state[key] = (value, created, int(kv["mod_revision"]), version)
        entry = {"rev": revision, "key": key, "value": value, "create_rev": created,
                 "mod_rev": int(kv["mod_revision"]), "version": version,
                 "at_ms": time.time_ns() // 1_000_000}
        if filled:
            entry["filled"] = True
        self._write(entry)
        self.events.append((revision, key, value, version))
        self.proven = False

    # ---- life ----

    def start(self):
        self.segment += 1
        self.file = open(self.folder / f"history.{self.segment}.jsonl", "x", encoding="utf-8")
        self._note("segment", segment=self.segment, prefix=self.prefix, endpoints=self.endpoints)
        self.threads = [threading.Thread(target=target, daemon=True)
                        for target in (self._follow, self._mark)]
        for thread in self.threads:
            thread.start()

    def _end(self):
        self.stopping.set()
        watch = self.watch
        if watch:
            watch.wake()
        for thread in self.threads:
            thread.join()
        self._note("end", rev=self.revision, proven=self.proven)
        self.file.close()
        return self.proven

    def new_segment(self, endpoints):
        """etcd's data has been replaced: another history begins, with revisions of its own.  True when the
        end of the old one is proven: settle() came last, and it is for the caller to see that nobody wrote
        after that."""
        proven = self._end()
        self._set(endpoints)
        self.start()
        return proven

    def stop(self, timeout=30):
        """True when it is proven that all is recorded up to the end."""
        self.proven = self.settle(timeout)
        return self._end()

    def healthy(self):
        """Is the history complete up to some seconds ago?  If not, problem says why."""
        with self.lock:
            silent = time.monotonic() - self.heard
            return not self.broken and silent < 3 * SILENCE_S

    # ---- the watch ----

    def _endpoint(self):
        self.turn += 1
        return self.endpoints[self.turn % len(self.endpoints)]

    def _follow(self):
        while not self.stopping.is_set() and not self.broken:
            endpoint = self._endpoint()
            watch = None
            try:
                watch = Watch(endpoint, self.prefix, self.marker + "\0", self.revision + 1, SILENCE_S)
                self.watch = watch
                self._deliver(watch)
            except (Cut, OSError, http.client.HTTPException, ValueError, KeyError) as err:
                self.problem = f"{endpoint}: {type(err).__name__}: {err}"
                if self.revision and not self.stopping.is_set():
                    self._note("cut", rev=self.revision, reason=self.problem)
                if watch and watch.compacted > self.revision + 1:
                    self._fill(watch.compacted)
                self.stopping.wait(0.2)
            finally:
                self.watch = None
                if watch:
                    watch.close()

    def _deliver(self, watch):
        quiet_since = time.monotonic()
        for events in watch:
            if self.stopping.is_set():
                return
            with self.lock:
                for kind, kv in events:
                    self._take(kind, kv)
                self.file.flush()
                self.changed.notify_all()
            # Lines without events do not count: this member may be cut off from the others.
            if events:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > SILENCE_S:
                raise Cut("no event, not even a marker")

    def _take(self, kind, kv):
        revision = int(kv["mod_revision"])
        key = _text(kv, "key")
        if revision < self.revision or (revision == self.revision and self._known(revision, key)):
            return  # etcd before 3.4.24 may deliver again what was delivered
        self.revision = revision
        if key == self.marker:
            value = _text(kv, "value")
            self.heard = time.monotonic()
            if value in self.awaited:
                self.awaited[value] = (revision, dict(self.state), len(self.events))
            return
        name = key.removeprefix(self.prefix)
        self._event(revision, name, None if kind == "DELETE" else _text(kv, "value"), kv)

    def _known(self, revision, key):
        if key == self.marker:
            return False
        name = key.removeprefix(self.prefix)
        for event in reversed(self.events):
            if event[0] != revision:
                return False
            if event[1] == name:
                return True
        return False

    def _fill(self, compacted):
        """What is left of the revisions that the watch can no longer deliver: the last value of each
        key.  history.py tells whether that is enough."""
        answer = self._call("/v3/kv/range", {"key": _b64(self.prefix), "range_end": _b64(self.marker),
                                             "revision": str(compacted)})
        if answer is None:
            return
        self._note("gap", after=self.revision, compacted=compacted)
        with self.lock:
            there = {}
            for kv in sorted(answer.get("kvs", []), key=lambda kv: int(kv["mod_revision"])):
                name = _text(kv, "key").removeprefix(self.prefix)
                there[name] = kv
                if self.state.get(name, (None, 0, 0))[2] != int(kv["mod_revision"]):
                    self._event(int(kv["mod_revision"]), name, _text(kv, "value"), kv, filled=True)
            for name in [name for name in self.state if name not in there]:
                self._event(compacted, name, None, {"mod_revision": compacted}, filled=True)
            self.revision = compacted
            self.whole_from = compacted + 1

    # ---- markers and proof ----

    def _call(self, path, body):
        """One request to the first endpoint that answers; None when none does."""
        for i in range(len(self.endpoints)):
            try:
                connection = _connect(self.endpoints[(self.turn + i) % len(self.endpoints)], REQUEST_S)
                try:
                    connection.request("POST", path, json.dumps(body),
                                       {"Content-Type": "application/json"})
                    answer = connection.getresponse()
                    text = answer.read()
                    if answer.status == 200:
                        return json.loads(text)
                    self.problem = f"{path}: {answer.status} {text[:200]!r}"
                finally:
                    connection.close()
            except (OSError, http.client.HTTPException, ValueError) as err:
                self.problem = f"{path}: {type(err).__name__}: {err}"
        return None

    def _put_marker(self, value, *more):
        """Its revision and the answers to more; None when it is not known to have been put."""
        delivered = self.revision
        answer = self._call("/v3/kv/txn", {"success": [
            {"request_put": {"key": _b64(self.marker), "value": _b64(value)}}, *more]})
        if answer is None:
            return None
        revision = int(answer["header"]["revision"])
        if revision <= delivered and not self.broken:
            self.broken = True
            self.problem = f"etcd is at {revision} after {delivered}"
            self._note("rollback", rev=delivered, came=revision)
        return revision, answer["responses"][1:]

    def _mark(self):
        while not self.stopping.wait(MARKER_INTERVAL_S):
            self._put_marker("tick")

    def _await(self, value, deadline):
        """(revision, state, number of events) when that marker came, or None."""
        with self.lock:
            while self.awaited[value] is None:
                left = deadline - time.monotonic()
                if left <= 0 or self.broken:
                    return None
                self.changed.wait(min(left, 0.5))
            return self.awaited[value]

    def settle(self, timeout=20):
        """True when all that had happened when it was called is recorded, and is proven to be."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and not self.broken:
            value = os.urandom(8).hex()
            self.awaited[value] = None
            put = self._put_marker(value, {"request_range": {
                "key": _b64(self.prefix), "range_end": _b64(self.marker)}})
            if put is None:
                self.stopping.wait(0.2)
                continue
            came = self._await(value, deadline)
            if came is None:
                break
            return self._prove(put, came, deadline)
        self.problem = self.problem or "the marker did not come"
        return False

    def _prove(self, put, came, deadline):
        revision, state, n_events = came
        there = {}
        for kv in put[1][0]["response_range"].get("kvs", []):
            there[_text(kv, "key").removeprefix(self.prefix)] = (
                _text(kv, "value"), int(kv["create_revision"]), int(kv["mod_revision"]),
                int(kv["version"]))
        differing = sorted(name for name in set(there) | set(state)
                           if there.get(name) != state.get(name))
        if put[0] != revision or differing:
            name = differing[0] if differing else self.marker
            self._mismatch(revision, f"{name}: etcd has {there.get(name)}, the watch made "
                                     f"{state.get(name)}")
            return False
        reread = self._reread(revision, self.events[:n_events], deadline)
        if reread is False:
            return False
        self._note("proof", rev=revision, reread=bool(reread))
        with self.lock:
            self.proven = len(self.events) == n_events
        return True

    def _mismatch(self, revision, text):
        self.broken = True
        self.problem = text
        self._note("mismatch", rev=revision, text=text)

    def _reread(self, upto, events, deadline):
        """Reads the history again and compares: True when equal, False when not, None when it cannot be
        read from its beginning any more."""
        start = self.whole_from
        while time.monotonic() < deadline:
            watch = None
            seen = []
            try:
                watch = Watch(self._endpoint(), self.prefix, self.marker + "\0", start, SILENCE_S)
                for batch in watch:
                    for kind, kv in batch:
                        revision, key = int(kv["mod_revision"]), _text(kv, "key")
                        if key != self.marker:
                            seen.append((revision, key.removeprefix(self.prefix),
                                         None if kind == "DELETE" else _text(kv, "value"),
                                         int(kv.get("version", 0))))
                        elif revision >= upto:
                            return self._compare(upto, start, events, seen)
            except (Cut, OSError, http.client.HTTPException, ValueError, KeyError):
                if watch and watch.compacted:
                    if watch.compacted >= upto:
                        return None
                    start = max(start, watch.compacted + 1)
                self.stopping.wait(0.2)
            finally:
                if watch:
                    watch.close()
        return None

    def _compare(self, upto, start, events, seen):
        mine = [event for event in events if start <= event[0] <= upto]
        seen = [event for event in seen if event[0] <= upto]
        for i in range(max(len(mine), len(seen))):
            one = mine[i] if i < len(mine) else None
            other = seen[i] if i < len(seen) else None
            if one != other:
                self._mismatch((one or other)[0], f"recorded {one}, read again {other}")
                return False
        return True if start == self.whole_from else None
