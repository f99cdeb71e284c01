"""Clients that take IDs from workers and remember every one of them."""

import collections
import http.client
import threading
import time

import lib

EPOCH_MS = 1704067200000


def parts(number):
    """(Unix ms, machine ID, sequence) by plain arithmetic."""
    return (number >> 22) + EPOCH_MS, number >> 12 & 1023, number & 4095


def no_duplicates(ids, what="IDs"):
    seen = collections.Counter(ids)
    twice = [number for number, times in seen.items() if times > 1]
    lib.check(not twice, f"{what}: {len(twice)} issued twice, such as {twice[:3]}")
    return len(seen)


class Load:
    """Clients, each with a connection of its own, that ask a worker for count IDs again and again.

    ids: everything received.  refusals: [(monotonic time, status, error)].  broken: requests whose
    connection failed.  All may be read while it runs.
    """

    def __init__(self, addresses, clients=4, count=1, pause=0.0):
        self.addresses = [addresses] if isinstance(addresses, str) else list(addresses)
        self.count = count
        self.pause = pause
        self.lock = threading.Lock()
        self.ids, self.refusals, self.broken = [], [], 0
        self.answers = 0
        self.longest_gap = 0.0  # between two good answers, over all clients
        self._last_good = time.monotonic()
        self._stop = threading.Event()
        self.threads = [threading.Thread(target=self._client, args=(i,), daemon=True)
                        for i in range(clients)]
        for thread in self.threads:
            thread.start()

    def _client(self, number):
        address = self.addresses[number % len(self.addresses)]
        connection = None
        while not self._stop.is_set():
            try:
                if connection is None:
                    host, port = address.rsplit(":", 1)
                    connection = http.client.HTTPConnection(host, int(port), timeout=10)
                connection.request("GET", f"/v1/ids?count={self.count}",
                                   headers={"Accept": "text/plain"})
                answer = connection.getresponse()
                body = answer.read().decode()
                self._note(answer.status, body)
                if answer.getheader("Connection", "").lower() == "close":
                    connection.close()
                    connection = None
                if answer.status != 200:
                    self._stop.wait(0.02)
            except (OSError, http.client.HTTPException):
                with self.lock:
                    self.broken += 1
                if connection:
                    connection.close()
                connection = None
                self._stop.wait(0.05)
            if self.pause:
                self._stop.wait(self.pause)
        if connection:
            connection.close()

    def _note(self, status, body):
        now = time.monotonic()
        with self.lock:
            if status != 200:
                self.refusals.append((now, status, body))
                return
            self.answers += 1
            self.longest_gap = max(self.longest_gap, now - self._last_good)
            self._last_good = now
            self.ids.extend(map(int, body.split()))

    def taken(self):
        with self.lock:
            return len(self.ids)

    def wait_more(self, more=100, timeout=10):
        """Waits until that many more IDs have come."""
        goal = self.taken() + more
        lib.wait_until(lambda: self.taken() >= goal, timeout, f"{more} more IDs")

    def stop(self):
        """Ends the clients; returns all IDs."""
        self._stop.set()
        for thread in self.threads:
            thread.join(30)
        return self.ids

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
