"""README.md's examples of gRPC clients, run as they are printed; only the worker's address is another."""

import pathlib
import re
import subprocess

import lib
import test_grpc_node

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRINTED = "127.0.0.1:50051"


def example(language):
    """The only block of that language."""
    (block,) = re.findall(f"^```{language}\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return block


def run(fleet, command, **environment):
    done = subprocess.run(command, cwd=fleet.folder, capture_output=True, text=True, timeout=60 * lib.SLOW, check=False,
                          env=lib.clean_env(environment))
    lib.equal(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def standalone(fleet):
    worker = lib.Daemon("worker", [
        lib.BIN / "snowfleet-worker", "--standalone", "--init", f"--state-file={fleet.folder}/state",
        "--http-listen=127.0.0.1:0", "--grpc-listen=127.0.0.1:0"], fleet.folder)
    fleet.processes.append(worker)
    worker.wait_ready()
    (fleet.folder / "proto").symlink_to(ROOT / "proto")  # as seen from the repository
    return worker


def write(fleet, worker, language, name):
    text = example(language)
    lib.equal(text.count(PRINTED), 1, "addresses of a worker")
    (fleet.folder / name).write_text(text.replace(PRINTED, worker.grpc_address))
    return text


def is_next_three(worker, printed, before):
    """What the example has printed is three IDs, the next of this worker."""
    numbers = list(map(int, re.findall(r"\d+", printed)))
    lib.equal(len(numbers), 3, printed)
    lib.check(before < numbers[0] < numbers[1] < numbers[2] < worker.ids(1)[0], f"{before}, then {printed}")


def test_the_python_example():
    with lib.Fleet(start_etcd=False) as fleet:
        worker = standalone(fleet)
        text = write(fleet, worker, "python", "example.py")
        (made_by,) = re.findall(r"# (protoc .*)", text)
        run(fleet, made_by.split())
        before = worker.ids(1)[0]
        is_next_three(worker, run(fleet, ["/usr/bin/python3", "example.py"]), before)


def test_the_node_example():
    with lib.Fleet(start_etcd=False) as fleet:
        worker = standalone(fleet)
        text = write(fleet, worker, "js", "example.js")
        (needed,) = re.findall(r"// npm install (.*)", text)
        modules = test_grpc_node.install() / "node_modules"
        for package in needed.split():
            lib.check((modules / package / "package.json").exists(), f"{package} is what the tests have")
        before = worker.ids(1)[0]
        is_next_three(worker, run(fleet, ["node", "example.js"], NODE_PATH=str(modules)), before)


if __name__ == "__main__":
    lib.main()
