"""The program stub_holders: many machine IDs held in one process (tests/support/stub_holders.c)."""

import signal

import lib


class Holders(lib.Daemon):
    """Started at once; what it says is under the subject "stub" in its log."""

    def wait_held(self, timeout=30):
        """Until all are held; the log entry that says so."""
        def held():
            return self.logged("stub", "held") or not self.alive()
        lib.wait_until(held, timeout, "all are held")
        lib.check(self.alive(), f"{self.name} ended with {self.popen.returncode}: {self.errors()}")
        return self.logged("stub", "held")[0]

    def reports(self):
        return self.logged("stub", "extensions")

    def hand_back_one(self):
        """The machine ID of --release."""
        self.signal(signal.SIGUSR1)


def start(fleet, *args):
    holders = Holders(fleet._name("holders"), [
        lib.BIN / "stub_holders", "--etcd-endpoints", fleet.etcd.url, "--cluster", fleet.cluster,
        *args], fleet.folder)
    fleet.processes.append(holders)
    return holders
