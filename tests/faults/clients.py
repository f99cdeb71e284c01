"""Clients that write down every ID they are given, with its claim, and when they were given none."""

import http.client
import random
import threading
import time

# How many IDs one request asks for, and how often: mostly few, sometimes a whole millisecond's worth.
COUNTS = ((1, 50), (20, 40), (500, 4), (4096, 0.4))
ANSWER_WAIT_S = 20  # longer than any worker is stopped: what it answers when it wakes up counts too


class Outages:
    """The longest time without an answer, from the first answer on."""

    def __init__(self):
        self.lock = threading.Lock()
        self.last = None
        self.longest_s = 0.0

    def good(self):
        now = time.monotonic()
        with self.lock:
            if self.last is not None:
                self.longest_s = max(self.longest_s, now - self.last)
            self.last = now

    def longest(self):
        """With the one that lasts at this moment."""
        with self.lock:
            return max(self.longest_s, time.monotonic() - self.last) if self.last is not None else None


class Client:
    """One client of one worker: asks, writes down, asks again.  A file for each incarnation of the worker:
    ids.WORKER.INCARNATION.NUMBER.txt, lines "<id> <claim>" in the order received."""

    def __init__(self, folder, worker, number, seed, outages, counts=COUNTS, pause_s=0.1):
        self.folder, self.worker, self.number = folder, worker, number
        self.outages = outages
        self.chance = random.Random(f"{seed} {worker.name} {number}")
        self.counts, self.pause_s = counts, pause_s
        self.ids = self.answers = self.refusals = self.broken = 0
        self.last_good = 0.0  # monotonic
        self.connection = self.file = None
        self.incarnation = 0
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        numbers, weights = zip(*self.counts)
        while not self._stop.is_set():
            try:
                self._ask(self.chance.choices(numbers, weights)[0])
            except (OSError, http.client.HTTPException, ValueError):
                self.broken += 1
                self._hang_up()
            self._stop.wait(self.pause_s * self.chance.uniform(0.2, 1.8))
        self._hang_up()

    def _connect(self):
        # A port has one process at a time, and the number is raised before the next one is started: so
        # what answers on this connection is that incarnation or, if it has just died, nobody.
        incarnation = self.worker.starts
        host, port = self.worker.serves_at.rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_WAIT_S)
        self.connection.connect()
        if incarnation != self.worker.starts:
            raise ConnectionError("restarted at this very moment")
        if incarnation != self.incarnation or self.file is None:
            self._close_file()
            self.incarnation = incarnation
            path = self.folder / f"ids.{self.worker.name}.{incarnation}.{self.number}.txt"
            self.file = open(path, "a", encoding="ascii")

    def _ask(self, count):
        if self.connection is None:
            self._connect()
        self.connection.request("GET", f"/v1/ids?count={count}&claim=1")
        answer = self.connection.getresponse()
        body = answer.read()
        if answer.status == 200:
            self._note(body)
        else:
            self.refusals += 1
        if answer.getheader("Connection", "").lower() == "close":
            self._hang_up()

    def _note(self, body):
        # {"kind":"snowflake","count":2,"ids":["1","2"],"claim":"..."}, taken apart without a parser: it is
        # most of what this process does.
        text = body.decode("ascii")
        ids = text[text.index('"ids":["') + 8:text.index('"]')].split('","')
        at = text.index('"claim":"') + 9
        claim = text[at:at + 32]
        if not claim.isalnum() or not all(map(str.isdecimal, ids)):
            raise ValueError(text[:200])
        self.file.write(f" {claim}\n".join(ids) + f" {claim}\n")
        self.file.flush()
        self.ids += len(ids)
        self.answers += 1
        self.last_good = time.monotonic()
        for outages in self.outages:
            outages.good()

    def _hang_up(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def _close_file(self):
        if self.file:
            self.file.close()
        self.file = None

    def stop(self):
        self._stop.set()

    def join(self):
        self.thread.join(ANSWER_WAIT_S + 5)
        self._close_file()


class Clients:
    """A fixed number of clients for each worker."""

    def __init__(self, folder, workers, seed, each=2, **kwargs):
        self.folder, self.seed, self.each, self.kwargs = folder, seed, each, kwargs
        self.fleet = Outages()
        self.outages = {}
        self.clients = []
        for worker in workers:
            self.add(worker)

    def add(self, worker):
        mine = self.outages[worker.name] = Outages()
        self.clients += [Client(self.folder, worker, number, self.seed, (mine, self.fleet), **self.kwargs)
                         for number in range(self.each)]

    def of(self, worker):
        return [client for client in self.clients if client.worker is worker]

    def taken(self, worker=None):
        return sum(client.ids for client in self.clients if worker is None or client.worker is worker)

    def last_good(self, worker):
        """When a client of this worker last had an answer, by the monotonic clock; 0: never."""
        return max(client.last_good for client in self.of(worker))

    def figures(self):
        longest = {name: outage.longest() for name, outage in self.outages.items()}
        return {
            "ids": self.taken(), "answers": sum(client.answers for client in self.clients),
            "refusals": sum(client.refusals for client in self.clients),
            "broken_requests": sum(client.broken for client in self.clients),
            "longest_unavailable_s": {name: None if gap is None else round(gap, 1)
                                      for name, gap in longest.items()},
            "longest_unavailable_fleet_s": round(self.fleet.longest() or 0.0, 2),
        }

    def stop(self):
        for client in self.clients:
            client.stop()
        for client in self.clients:
            client.join()
