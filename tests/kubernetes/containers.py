"""podman as the tests of the image and of the pods use it: storage, settings and network of its own, a base
image made here, and nothing left behind.  As root only, since that is what works in a container too."""

import ctypes
import fcntl
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

import lib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE = "docker.io/library/debian:bookworm-slim"
# podman finds netavark and aardvark-dns in places of its own, so those are asked for as packages.
NEEDED = ("podman", "runc", "mmdebstrap", "iptables", "catatonit", "unshare")
SETTINGS = """[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{folder}/tmp"
[network]
network_config_dir = "{folder}/networks"
"""
INSIDE = "CONTAINER_TESTS_INSIDE"
_CLONE_NEWNET = 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def isolate(needed=NEEDED):
    """Starts this program again in PID and mount namespaces of its own, with a first process that reaps: however
    the test ends, its containers and mounts end with it.  Returns None there, or why that cannot be."""
    if os.environ.get(INSIDE):
        # Locks, network namespaces and given addresses have fixed places; these are ours alone.
        for place in ("/dev/shm", "/run/netns", "/run/containers"):
            os.makedirs(place, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True, timeout=60)
        return None
    if os.geteuid() != 0:
        return "needs root"
    for program in needed:
        if not shutil.which(program):
            return f"no {program} here; deploy/install-packages.sh long brings it"
    unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"]
    tried = subprocess.run([*unshare, "true"], capture_output=True, text=True, timeout=60, check=False)
    if tried.returncode != 0:
        return f"no namespaces here: {tried.stderr.strip()}"
    os.environ[INSIDE] = "1"
    os.execvp("unshare", [*unshare, "catatonit", "--", sys.executable, *sys.argv])


def leave_network():
    """From here on this thread, and what it starts, is in a network of its own, which reaches nobody."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket() as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


class Podman:
    """podman(arguments...) gives what it printed.  folder should have a short name: sockets are below it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "networks").mkdir(exist_ok=True)
        settings = self.folder / "containers.conf"
        settings.write_text(SETTINGS.format(folder=self.folder))
        self.environment = lib.clean_env({"CONTAINERS_CONF": str(settings), "LC_ALL": "C"})
        self.command = ["podman", "--root", str(self.folder / "root"), "--runroot", str(self.folder / "run")]

    def try_to(self, *arguments, timeout=120):
        # Files, not pipes: a program that stays behind would keep a pipe open.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            done = subprocess.run([*self.command, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=err, env=self.environment, timeout=timeout * lib.SLOW, check=False)
            for file in (out, err):
                file.seek(0)
            return done.returncode, out.read().decode(errors="replace"), err.read().decode(errors="replace")

    def __call__(self, *arguments, timeout=120):
        code, out, err = self.try_to(*arguments, timeout=timeout)
        lib.equal(code, 0, f"podman {' '.join(map(str, arguments))}: {out[-3000:]}{err[-3000:]}")
        return out.strip()

    def inspect(self, *what):
        return json.loads(self(*what[:-1], "inspect", what[-1]))[0]

    def make_base(self):
        """Debian under the name that the Containerfile asks for, without any registry of images."""
        archive = self.folder / "base.tar"
        made = subprocess.run(["mmdebstrap", "--mode=root", "--variant=apt", "--include=ca-certificates", "bookworm",
                               str(archive)], capture_output=True, text=True, timeout=1200, check=False,
                              env=lib.clean_env({"LC_ALL": "C"}))
        lib.equal(made.returncode, 0, f"mmdebstrap: {made.stderr[-3000:]}")
        self("import", archive, BASE, timeout=300)
        archive.unlink()

    def works(self):
        """None, or what podman says when it is to run anything at all."""
        code, _, err = self.try_to("run", "--rm", "--pull=never", "--network=none", BASE, "true", timeout=120)
        return None if code == 0 else err.strip()

    def build(self, containerfile, tag, context):
        self("build", "--pull=never", "--network=host", "--file", containerfile, "--tag", tag, context, timeout=1500)

    def remove(self):
        """Everything: containers, mounts, files."""
        self.try_to("rm", "--force", "--all", "--time=0")
        self.try_to("network", "rm", "--force", "pods")
        for mount in reversed(pathlib.Path("/proc/self/mounts").read_text().splitlines()):
            if mount.split()[1].startswith(str(self.folder)):
                subprocess.run(["umount", "--lazy", mount.split()[1]], check=False, timeout=60)
        shutil.rmtree(self.folder, ignore_errors=True)
