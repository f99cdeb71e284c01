"""What a worker refuses to start with: non-zero exit, and a line that names the value and the range."""

import subprocess

import lib

WORKER = str(lib.BIN / "snowfleet-worker")


def run(*args, env=None):
    done = subprocess.run([WORKER, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env=lib.clean_env(env), timeout=20, check=False)
    lib._refuse_reports("snowfleet-worker", done.returncode, done.stderr)
    return done


def refused(done, *words):
    lib.check(done.returncode == 64, f"exit {done.returncode}: {done.stdout}{done.stderr}")
    lib.equal(len(done.stderr.splitlines()), 1, f"one line: {done.stderr!r}")
    for word in words:
        lib.check(word in done.stderr, f"{word!r} is in {done.stderr!r}")


def test_a_machine_id_out_of_range_is_named_and_never_masked():
    for value in ("1024", "1025", "65536", "-1", "1.5", "", "abc", "0x3", " 7", "+7", "07", "1e3",
                  "18446744073709551616", "٣"):
        refused(run(f"--machine-id={value}"), "--machine-id", value if value.isascii() else "\\x")
        refused(run(env={"SNOWFLEET_MACHINE_ID": value}), "SNOWFLEET_MACHINE_ID")
    refused(run("--machine-id=1024"), "0..1023")


def test_the_same_from_a_file():
    with lib.Fleet(start_etcd=False) as fleet:
        for value in ("1024", "-1", "1.5", "abc", "0x3"):
            path = fleet.folder / "worker.conf"
            path.write_text(f"# a comment\nmachine-id = {value}\n")
            refused(run(f"--config={path}"), f"{path.name}:2", value)
        path.write_text("machine_id = 7\n")
        refused(run(f"--config={path}"), f"{path.name}:1", "machine_id")
        refused(run(f"--config={fleet.folder}/none.conf"), "none.conf")
        refused(run(f"--config={fleet.folder}"), str(fleet.folder))


def test_other_settings():
    for args, words in (
            (["--lease-ttl=1s"], ["--lease-ttl=1s", "2s..600s"]),
            (["--lease-ttl=15"], ["--lease-ttl=15"]),
            (["--lease-ttl=2500ms"], ["whole seconds"]),
            (["--keepalive-interval=8s"], ["--keepalive-interval", "half"]),
            (["--window=0s"], ["--window=0s"]),
            (["--window=60"], ["--window=60", "with its unit"]),
            (["--window=2h"], ["--window=2h", "3600s"]),
            (["--machine-ids=0"], ["--machine-ids=0"]),
            (["--clock-strategy=guess"], ["--clock-strategy=guess", "wait", "offset", "bounded"]),
            (["--max-clock-error=5s"], ["--max-clock-error=5s", "1ms..4000ms"]),
            (["--max-clock-error=250"], ["--max-clock-error=250"]),
            (["--clock-drift=0"], ["--clock-drift=0", "1..10000"]),
            (["--max-forward-step=2m"], ["--max-forward-step=2m", "0m..1m"]),
            (["--max-commit-wait=9s"], ["--max-commit-wait=9s", "1ms..8000ms"]),
            (["--rotate-above=1ms"], ["--rotate-above=1ms", "10ms..1h"]),
            (["--chrony-port=65536"], ["--chrony-port=65536", "0..65535"]),
            (["--etcd-endpoints=ftp://a:1"], ["--etcd-endpoints", "ftp://a:1"]),
            (["--etcd-endpoints="], ["--etcd-endpoints"]),
            (["--cluster=a/b"], ["--cluster", "a/b"]),
            (["--http-listen=127.0.0.1"], ["--http-listen=127.0.0.1"]),
            (["--http-listen=127.0.0.1:65536"], ["65536"]),
            (["--http-listen="], ['--http-listen="": must be HOST:PORT']),
            (["--advertise=127.0.0.1:8080"],
             ["--advertise=127.0.0.1:8080: must be a host name or an IP address, without a port"]),
            (["--identity=two words"], ["two words"]),
            (["--no-such-option"], ["no-such-option"]),
            (["--window"], ["--window"]),
            (["--window=5s", "--window=6s"], ["--window"]),
            (["operand"], ["operand"])):
        refused(run(*args), *words)
    refused(run(env={"SNOWFLEET_NO_SUCH": "1"}), "SNOWFLEET_NO_SUCH")


def test_a_port_in_use_is_said():
    with lib.Fleet() as fleet:
        fleet.init("--new")
        first = fleet.worker()
        done = run(f"--etcd-endpoints={fleet.etcd.url}", f"--http-listen={first.address}",
                   "--grpc-listen=127.0.0.1:0")
        lib.equal(done.returncode, 1)
        lib.check("in use" in done.stderr and first.address in done.stderr, done.stderr)
        done = run(f"--etcd-endpoints={fleet.etcd.url}", "--http-listen=127.0.0.1:0",
                   f"--grpc-listen={first.grpc_address}")
        lib.equal(done.returncode, 1)
        lib.check("in use" in done.stderr and "--grpc-listen" in done.stderr and first.grpc_address in done.stderr, done.stderr)


def test_help_and_version_need_nothing():
    text = run("--help").stdout
    for words in ("--machine-id", "0..1023", "--window", "60s", "SNOWFLEET_WINDOW"):
        lib.check(words in text, f"{words!r} is in --help")
    lib.check(run("--version").stdout.startswith("snowfleet-worker "), "--version")


def test_the_effective_settings_are_logged_with_the_flag_first():
    with lib.Fleet() as fleet:
        path = fleet.folder / "worker.conf"
        path.write_text("window = 7s\nassign-wait = 7s\nmachine-ids = 2\n")
        worker = fleet.worker(f"--config={path}", "--window=9s",
                              env={"SNOWFLEET_WINDOW": "8s", "SNOWFLEET_ASSIGN_WAIT": "8s"})
        worker.address
        settings = {entry["name"]: entry["value"] for entry in worker.logged("options", "effective")}
        lib.equal((settings["window"], settings["assign-wait"], settings["machine-ids"],
                   settings["lease-ttl"]), ("9s", "8s", "2", "15s"))


if __name__ == "__main__":
    lib.main()
