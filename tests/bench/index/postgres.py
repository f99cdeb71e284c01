"""A PostgreSQL of its own for run.py: a temporary cluster on a unix socket, never on a port."""
import glob
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import time

CHECKPOINTS = 20
KEY_TYPES = {
    "autoincrement": "bigint GENERATED ALWAYS AS IDENTITY",
    "snowflake": "bigint",
    "uuidv4": "uuid",
    "uuidv7": "uuid",
    "ulid-text": "text",
    "ulid-binary": "bytea",
    "public": "text",
}
# Checkpoints come after so many rows and not after so much time, or the counts would depend on the
# machine's load.  All else that is set here keeps its disk out of the measurement.
SETTINGS = {
    "listen_addresses": "",
    "checkpoint_timeout": "1d",
    "max_wal_size": "200GB",
    "fsync": "off",
    "autovacuum": "off",
    "bgwriter_lru_maxpages": "0",
}
STATE = """SELECT wal_bytes, wal_fpi,
    buffers_checkpoint + buffers_clean + buffers_backend FROM pg_stat_wal, pg_stat_bgwriter"""


def tools():
    """PATH does not have initdb on Debian."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
    if not found:
        raise SystemExit("run.py: no PostgreSQL: deploy/install-packages.sh bench")
    return found[-1]


def cpu_s(server):
    """What a server and its processes have used, those that have ended included."""
    while True:
        try:
            return cpu_now_s(server)
        except (FileNotFoundError, ProcessLookupError):
            pass  # one ended meanwhile: what it used is the server's now


def cpu_now_s(server):
    children = pathlib.Path(f"/proc/{server}/task/{server}/children").read_text(encoding="ascii").split()
    ticks = 0
    for pid in [server, *children]:
        # After the name, in brackets: user, system, and both of the children that have ended.
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        ticks += sum(int(x) for x in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


class Postgres:
    name = "PostgreSQL"

    def __init__(self, folder):
        self.folder = folder
        self.bin = tools()
        # It refuses to run as root.
        self.user = {}
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            self.user = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        cluster = f"{folder}/cluster"
        self._run("initdb", "--pgdata", cluster, "--username", "bench", "--auth", "trust",
                  "--encoding", "UTF8", "--locale", "C", "--no-sync")
        options = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        self.log = open(f"{folder}/log", "w")
        self.server = subprocess.Popen(
            [f"{self.bin}/postgres", "-D", cluster, f"-cunix_socket_directories={folder}", *options],
            cwd=folder, stdout=self.log, stderr=self.log, **self.user)
        try:
            self._wait_until_it_answers()
            self._sql("CREATE EXTENSION pgstattuple")
        except BaseException:
            self.close()
            raise

    def close(self):
        if self.server.poll() is None:
            self.server.send_signal(signal.SIGINT)  # the fast shutdown
            self.server.wait(120)
        self.log.close()

    def _run(self, tool, *args, **more):
        return subprocess.run([f"{self.bin}/{tool}", *args], check=True, cwd=self.folder, text=True,
                              stdout=subprocess.PIPE, **self.user, **more).stdout

    def _wait_until_it_answers(self):
        deadline = time.monotonic() + 60
        while subprocess.run([f"{self.bin}/pg_isready", "-q", "-h", self.folder], cwd=self.folder,
                             **self.user).returncode != 0:
            if self.server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"run.py: PostgreSQL does not start: {open(self.log.name).read()}")
            time.sleep(0.1)

    def _sql(self, sql):
        """The last row that sql answers with, as texts."""
        out = self._run("psql", "-X", "-q", "-A", "-t", "-F", " ", "-v", "ON_ERROR_STOP=1",
                        "-h", self.folder, "-U", "bench", "-d", "postgres", input=sql + ";\n")
        return out.splitlines()[-1].split(" ") if out else []

    def measure(self, kind, rows, n_rows):
        """Inserts the rows of a file and tells what that took."""
        parts = f"{self.folder}/parts"
        os.mkdir(parts, 0o755)
        # \x is how COPY is told of bytes.
        change = r"s/^/\\\\x/" if kind == "ulid-binary" else ""
        with open(rows) as source:
            sed = subprocess.Popen(["sed", change], stdin=source, stdout=subprocess.PIPE)
            subprocess.run(["split", "-l", str(-(-n_rows // CHECKPOINTS)), "-", f"{parts}/"],
                           stdin=sed.stdout, check=True)
            sed.stdout.close()
            if sed.wait() != 0:
                raise SystemExit("run.py: sed failed")
        columns = "payload" if kind == "autoincrement" else "id, payload"
        copies = ";\n".join(f"COPY t ({columns}) FROM '{part}'; CHECKPOINT"
                            for part in sorted(glob.glob(f"{parts}/*")))
        self._sql(f"CREATE TABLE t (id {KEY_TYPES[kind]} PRIMARY KEY, payload text NOT NULL); "
                  "CHECKPOINT")
        before = [int(x) for x in self._sql(STATE)]
        cpu_before = cpu_s(self.server.pid)
        started = time.monotonic()
        self._sql(copies)
        seconds = time.monotonic() - started
        # What the session of the copies counted is there once it has ended.
        self._sql("CHECKPOINT")
        cpu = cpu_s(self.server.pid) - cpu_before
        after = [int(x) for x in self._sql(STATE)]
        count, index, table, density = self._sql(
            "SELECT (SELECT count(*) FROM t), index_size, pg_table_size('t'), avg_leaf_density "
            "FROM pgstatindex('t_pkey')")
        self._sql("DROP TABLE t; CHECKPOINT")
        shutil.rmtree(parts)
        if int(count) != n_rows:
            raise SystemExit(f"run.py: {kind}: {count} rows of {n_rows} are in PostgreSQL")
        return {
            "rows_per_s": n_rows / seconds,
            "rows_per_cpu_s": n_rows / cpu if cpu else float("nan"),
            "index_bytes": int(index),
            "bytes": int(index) + int(table),
            "density": float(density),
            "log_bytes": after[0] - before[0],
            "page_images": after[1] - before[1],
            "pages_written": after[2] - before[2],
        }
