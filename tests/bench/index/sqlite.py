"""SQLite for run.py: once with tables as they come, where all but a whole number as primary key is an
index beside the table, and once WITHOUT ROWID, where the table is kept in the order of its key."""
import os
import sqlite3
import time

COMMIT_ROWS = 1000
KEY_TYPES = {
    "autoincrement": "INTEGER",
    "snowflake": "INTEGER",
    "uuidv4": "BLOB",
    "uuidv7": "BLOB",
    "ulid-text": "TEXT",
    "ulid-binary": "BLOB",
    "public": "TEXT",
}


def key_of(kind, text):
    key_type = KEY_TYPES[kind]
    if key_type == "INTEGER":
        return int(text)
    return bytes.fromhex(text.replace("-", "")) if key_type == "BLOB" else text


def batches(kind, rows):
    batch = []
    with open(rows) as source:
        for line in source:
            fields = line.rstrip("\n").split("\t")
            batch.append((None if kind == "autoincrement" else key_of(kind, fields[0]), fields[-1]))
            if len(batch) == COMMIT_ROWS:
                yield batch
                batch = []
    if batch:
        yield batch


def written_bytes():
    """What this process has given to write(), whatever the kernel has done with it since."""
    with open("/proc/self/io") as counters:
        return next(int(line.split()[1]) for line in counters if line.startswith("wchar:"))


class Sqlite:
    def __init__(self, folder, clustered):
        self.file = f"{folder}/bench.sqlite"
        self.clustered = clustered
        self.name = "SQLite WITHOUT ROWID" if clustered else "SQLite"

    def close(self):
        pass

    def measure(self, kind, rows, n_rows):
        """Inserts the rows of a file and tells what that took."""
        by_rowid = KEY_TYPES[kind] == "INTEGER"
        db = sqlite3.connect(self.file, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")
        db.execute(f"CREATE TABLE t (id {KEY_TYPES[kind]} PRIMARY KEY NOT NULL, payload TEXT NOT NULL)" +
                   (" WITHOUT ROWID" if self.clustered and not by_rowid else ""))
        before = written_bytes()
        seconds = cpu = 0
        for batch in batches(kind, rows):
            started, cpu_started = time.monotonic(), time.process_time()
            db.execute("BEGIN")
            db.executemany("INSERT INTO t VALUES (?, ?)", batch)
            db.execute("COMMIT")
            seconds += time.monotonic() - started
            cpu += time.process_time() - cpu_started
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        written = written_bytes() - before
        index = "t" if self.clustered or by_rowid else "sqlite_autoindex_t_1"
        count = db.execute("SELECT count(*) FROM t").fetchone()[0]
        density, = db.execute("SELECT 100.0 * (sum(pgsize) - sum(unused)) / sum(pgsize) FROM dbstat "
                              "WHERE name = ? AND pagetype = 'leaf'", [index]).fetchone()
        db.close()
        size = os.path.getsize(self.file)
        os.unlink(self.file)
        if count != n_rows:
            raise SystemExit(f"run.py: {kind}: {count} rows of {n_rows} are in SQLite")
        return {
            "rows_per_s": n_rows / seconds,
            "rows_per_cpu_s": n_rows / cpu,
            "bytes": size,
            "density": density,
            "pages_written": written // 4096,
        }
