"""Records the file calls of RocksDB's `db_bench` under the dissertation's load (section 5.5.1), for `shingle lab run rocksdb-hmsmr --trace FILE`.

docs/formats/file-calls.md describes what is recorded. Needs Debian's rocksdb-tools and librocksdb-dev, and room for the database, some 15 GB for
the default of a quarter of the dissertation's sizes.
"""

import argparse
import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The dissertation's pairs, and the sizes that it tuned.
PAIRS = 150_000_000
TABLE = 256 << 20
#: Bytes of appends to a log that become one line, and waiting in microseconds that ends a line.
JOINED = 1 << 20
WAITS = 1000


def recorder(target):
    """The library that records, as the Makefile builds it."""
    built = subprocess.run(["make", "-C", ROOT / "bindings/rocksdb", "recorder", f"TARGET={target}"], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return Path(target) / "release" / "libshingle_rocksdb_recorder.so"


def load(pairs, table):
    """Options of db_bench."""
    return ["--benchmarks=fillrandom,waitforcompaction", f"--num={pairs}", "--key_size=20", "--value_size=400", "--seed=1",
            f"--write_buffer_size={table}", f"--target_file_size_base={table}", f"--max_bytes_for_level_base={table}",
            "--compaction_readahead_size=2097152", "--max_background_jobs=4", "--compression_type=snappy", "--compression_ratio=0.5"]


def record(library, out, database, options, quiet=False):
    """Runs db_bench on the machine's file system, and writes what it calls to `out`."""
    shutil.rmtree(database, ignore_errors=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), "SHINGLE_ROCKSDB_RECORD": str(out)}
    command = ["db_bench", "--fs_uri=shingle-record://", f"--db={database}", *options]
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL if quiet else None, stderr=subprocess.PIPE, text=True)
    shutil.rmtree(database, ignore_errors=True)
    assert done.returncode == 0, done.stderr


class Joined:
    """Appends of a thread to a log that follow each other, which become one line."""

    def __init__(self, file, end, took, worked, queued, length):
        self.file, self.end, self.took, self.worked, self.queued, self.length = file, end, took, worked, queued, length

    def add(self, end, took, worked, queued, length):
        self.end, self.took = end, self.took + took
        self.worked, self.queued, self.length = self.worked + worked, self.queued + queued, self.length + length


def join(lines):
    """The same recording with fewer lines: (end, words before the end, words behind it)."""
    logs, ends, open_, now = set(), {}, {}, 0
    joined = []

    def close(thread):
        run = open_.pop(thread, None)
        if run:
            joined.append((run.end, f"a {thread} {run.file}", f"{run.took} {run.worked} {run.queued} {run.length}"))

    for line in lines:
        kind, thread, file, since, took, worked, queued, *rest = line.split()
        now += int(since)
        numbers = int(took), int(worked), int(queued)
        if kind == "c" and rest[0].endswith(".log"):
            logs.add(file)
        waited = now - numbers[0] - ends.get(thread, 0) - numbers[1] - numbers[2]
        ends[thread] = now
        run = open_.get(thread)
        if kind == "a" and file in logs:
            if run and run.file == file and waited < WAITS and run.length < JOINED:
                run.add(now, *numbers, int(rest[0]))
                continue
            close(thread)
            open_[thread] = Joined(file, now, *numbers, int(rest[0]))
            continue
        close(thread)
        joined.append((now, f"{kind} {thread} {file}", " ".join([took, worked, queued, *rest])))
    for thread in list(open_):
        close(thread)
    return sorted(joined, key=lambda call: call[0])


def pack(recorded, packed):
    """Packs a recording."""
    with open(recorded) as lines:
        head = next(lines)
        calls = join(lines)
    last = 0
    with open(packed, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as text:
        text.write(head.encode())
        for end, before, behind in calls:
            text.write(f"{before} {end - last} {behind}\n".encode())
            last = end


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="the recording")
    parser.add_argument("--part", type=int, default=4, help="the dissertation's sizes are divided by this [default: 4]")
    parser.add_argument("--database", type=Path, default=ROOT / "target/recorded-database", help="a folder that is emptied, and removed at the end")
    parser.add_argument("--target", type=Path, default=ROOT / "target", help="the build's folder")
    given = parser.parse_args()
    if not shutil.which("db_bench"):
        sys.exit("db_bench is missing: install rocksdb-tools and librocksdb-dev")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    text = given.out.with_suffix(".text")
    record(recorder(given.target.resolve()), text, given.database, load(PAIRS // given.part, TABLE // given.part))
    pack(text, given.out)
    text.unlink()
    print(f"{given.out}: {given.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
