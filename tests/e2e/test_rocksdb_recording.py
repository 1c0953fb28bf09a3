"""RocksDB's file calls are recorded, and made again on modelled drives."""

import json
import os
import subprocess
import sys

import pytest

import rocksdb
from rocksdb import ROOT, TARGET
from shingle import shingle

sys.path.insert(0, str(ROOT / "tests/rocksdb"))
import record  # noqa: E402

pytestmark = pytest.mark.skipif(bool(rocksdb.missing()), reason=str(rocksdb.missing()))

PAIRS, TABLE = 120_000, 4 << 20


@pytest.fixture(scope="module")
def library():
    rocksdb.make("recorder")
    return TARGET / "libshingle_rocksdb_recorder.so"


def test_db_bench_is_recorded_and_made_again(library, tmp_path):
    text, packed = tmp_path / "calls", tmp_path / "calls.gz"
    record.record(library, text, tmp_path / "database", record.load(PAIRS, TABLE), quiet=True)
    record.pack(text, packed)
    lines = [line.split() for line in text.read_text().splitlines()[1:]]
    made = {line[2]: line[7] for line in lines if line[0] == "c"}
    logged = sum(int(line[7]) for line in lines if line[0] == "a" and made.get(line[2], "").endswith(".log"))
    # Keys of 20 bytes and values of 400, and RocksDB's heads.
    assert 420 * PAIRS < logged < 470 * PAIRS, logged
    tables = [file for file, name in made.items() if name.endswith(".sst")]
    synced = {line[2] for line in lines if line[0] == "s"}
    assert len(tables) > 10 and set(tables) <= synced, "each table is synced"
    assert {line[1] for line in lines if line[0] == "r" and line[2] in tables}, "compactions read tables"
    how = ["--out", tmp_path / "out", "--json"]
    done = shingle("lab", "run", "rocksdb-hmsmr", "--trace", packed, *how, timeout=600)
    assert done.returncode == 0, done
    found = json.loads(done.stdout.splitlines()[-1])
    times = {row["system"]: row["cells"][0]["value"] for row in found["grids"][0]["rows"]}
    assert len(times) == 6 and all(seconds > 0.1 for seconds in times.values()), times
    done = shingle("lab", "run", "rocksdb-zns", "--trace", text, *how, timeout=600)
    assert done.returncode == 0 and len(json.loads(done.stdout.splitlines()[-1])["rows"]) == 3, done
    assert (tmp_path / "out" / "rocksdb-hmsmr.csv").exists()


def test_what_is_no_recording_is_refused(tmp_path):
    bad = tmp_path / "bad"
    bad.write_text("shingle-files 1\na 0 7 1 1 1 1 5\n")
    done = shingle("lab", "run", "rocksdb-zns", "--trace", bad, "--out", tmp_path)
    assert done.returncode == 1 and "line 2: no file 7" in done.stderr, done
    done = shingle("lab", "run", "rocksdb-zns", "--trace", bad, "--pace", "closed", "--out", tmp_path)
    assert done.returncode == 1 and "block traces" in done.stderr, done


def test_a_recorder_without_a_file_says_so(library, tmp_path):
    environment = {**os.environ, "LD_PRELOAD": str(library), "SHINGLE_ROCKSDB_RECORD": ""}
    done = subprocess.run(["db_bench", "--fs_uri=shingle-record://", f"--db={tmp_path / 'db'}", "--benchmarks=fillseq", "--num=10"],
                          env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "SHINGLE_ROCKSDB_RECORD must name" in done.stdout + done.stderr, done
