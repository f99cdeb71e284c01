"""The Debian package: built by CPack, installed, tried and removed in a chroot of its own.  Needs root,
mmdebstrap, and a package mirror; --all runs it."""

import os
import pathlib
import shutil
import subprocess
import tempfile

import lib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*command, **kwargs):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=1200,
                          env=lib.clean_env({"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}), check=False, **kwargs)
    lib.equal(done.returncode, 0, f"{' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def files_below(folder):
    """All files, but what the package tools themselves write."""
    own = ("proc/", "sys/", "dev/", "tmp/", "var/lib/dpkg/", "var/lib/apt/", "var/cache/", "var/log/", "etc/ld.so.cache")
    names = set()
    for place, folders, files in os.walk(folder):
        where = os.path.relpath(place, folder)
        found = {os.path.normpath(os.path.join(where, name)): name for name in folders + files}
        wanted = {path for path in found if not (path + "/").startswith(own)}
        folders[:] = [name for path, name in found.items() if path in wanted and name in folders]  # and not into /proc
        names |= wanted
    return names


def libraries():
    lines = (ROOT / "deploy" / "packages.txt").read_text().splitlines()
    return [line.split()[0] for line in lines if line.startswith("lib") and line.endswith(" run")]


def build(folder):
    """The package, as deploy/README.md says."""
    run("cmake", "-DCMAKE_INSTALL_PREFIX=/usr", "-S", ROOT, "-B", folder / "build", "-G", "Ninja")
    run("cmake", "--build", folder / "build")
    run("cpack", "--config", folder / "build/CPackConfig.cmake", "-B", folder / "packages")
    found = list((folder / "packages").glob("*.deb"))
    lib.equal(len(found), 1, f"packages {found}")
    return found[0]


def install_and_remove(chroot, package):
    shutil.copy(package, chroot / "tmp" / package.name)
    inside = ("chroot", chroot)
    before = files_below(chroot)
    run(*inside, "dpkg", "-i", f"/tmp/{package.name}")
    installed = files_below(chroot) - before
    for wanted in ("usr/bin/snowfleet-worker", "usr/bin/snowfleet-coordinator", "usr/bin/snowfleetctl",
                   "usr/lib/systemd/system/snowfleet-worker.service", "etc/snowfleet/worker.conf",
                   "usr/share/man/man8/snowfleet-worker.8", "usr/share/bash-completion/completions/snowfleetctl"):
        lib.check(wanted in installed or wanted + ".gz" in installed, f"{wanted} is installed")
    for program in ("snowfleet-worker", "snowfleet-coordinator"):
        lib.check(program in run(*inside, program, "--version"), f"{program} runs")
    lib.check(run(*inside, "snowfleetctl", "version"), "snowfleetctl runs")
    lib.check("snowfleet" in run(*inside, "getent", "passwd", "snowfleet"), "the user is made")
    lib.equal(run(*inside, "stat", "-c", "%a %U %G", "/etc/snowfleet").strip(), "750 root snowfleet", "the folder")
    links = run(*inside, "sh", "-c", "ls /etc/systemd/system/multi-user.target.wants")
    lib.check("snowfleet" not in links, "no unit is enabled by itself")
    # Once more: as an upgrade to the same version.
    run(*inside, "dpkg", "-i", f"/tmp/{package.name}")
    run(*inside, "dpkg", "--remove", "snowfleet")
    lib.check("etc/snowfleet/worker.conf" in files_below(chroot), "settings stay when it is removed")
    run(*inside, "dpkg", "--purge", "snowfleet")
    left = sorted(name for name in files_below(chroot) - before if "snowfleet" in name)
    lib.equal(left, [], "left after purging")


def test_build_install_remove():
    for program in ("mmdebstrap", "dpkg-shlibdeps"):
        if os.geteuid() != 0 or not shutil.which(program):
            print(f"skipped: needs root and {program}")
            return
    with tempfile.TemporaryDirectory(prefix="snowfleet-deb-") as name:
        folder = pathlib.Path(name)
        package = build(folder)
        print(run("dpkg-deb", "--info", package))
        chroot = folder / "chroot"
        # systemd brings systemd-sysusers; the libraries are those that deploy/packages.txt has for running, so
        # one that is missing there is found out.
        run("mmdebstrap", "--mode=root", "--variant=apt", f"--include=systemd,{','.join(libraries())}", "bookworm",
            chroot)
        run("mount", "-t", "proc", "proc", chroot / "proc")
        try:
            install_and_remove(chroot, package)
        finally:
            run("umount", chroot / "proc")


lib.main()
