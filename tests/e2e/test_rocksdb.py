"""RocksDB on zones: Debian's own programs by preload, a database that is killed, followed and shared, and RocksDB's crash test."""

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rocksdb
from rocksdb import ROOT, TARGET, run
from test_bad_input import ok

#: Exit status of build-db-stress without a network, or for another RocksDB.
NO_SOURCES = 3

pytestmark = pytest.mark.skipif(bool(rocksdb.missing()), reason=str(rocksdb.missing()))


@pytest.fixture(scope="module")
def library():
    return rocksdb.library()


@pytest.fixture(scope="module")
def contract(library):
    return rocksdb.contract()


@pytest.fixture(scope="module")
def faults(library):
    return rocksdb.faults()


@pytest.fixture
def preload(library):
    return {**os.environ, "LD_PRELOAD": str(library)}


@pytest.fixture
def drive(tmp_path):
    drive = tmp_path / "disk.shingle"
    ok("drive", "create", drive, "--size", "2GiB", "--zone-size", "16MiB")
    ok("files", "format", drive)
    return drive


@pytest.fixture
def uri(drive):
    return f"shingle://file:{drive}"


def checked(drive):
    assert ok("files", "check", drive).endswith("clean\n")


def test_each_call_of_the_file_system(drive, uri, contract, preload):
    run(contract, "calls", uri, env=preload)
    # And by another process, with what the first one left.
    ok("files", "format", drive, "--force", "--yes")
    run(contract, "calls", uri, env={**preload, "SHINGLE_ROCKSDB_CACHE_MIB": "0"})
    checked(drive)
    # With whole tables in memory, as the dissertation has them.
    ok("files", "format", drive, "--force", "--yes")
    run(contract, "calls", uri, env={**preload, "SHINGLE_ROCKSDB_CACHE": "tables"})
    checked(drive)
    refused = subprocess.run([contract, "calls", uri], env={**preload, "SHINGLE_ROCKSDB_CACHE": "files"}, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and "`blocks` or `tables`" in refused.stderr, refused.stderr


def test_rocksdbs_own_programs(drive, uri, preload):
    common = ["--num=60000", "--value_size=200", "--write_buffer_size=2097152", "--target_file_size_base=2097152", "--verify_checksum=1"]
    loads = "fillrandom,overwrite,readrandom,readwhilewriting,multireadrandom,seekrandom,deleterandom,compact,verifychecksum"
    said = run("db_bench", f"--fs_uri={uri}", "--db=/bench", f"--benchmarks={loads}", "--threads=4", "--reads=5000", "--writes=20000",
               *common, env=preload, seconds=300)
    for load in loads.split(","):
        assert load in said
    checked(drive)
    assert "The file is ok" in run("sst_dump", f"--fs_uri={uri}", "--file=/bench", "--command=verify", env=preload)
    ldb = ["ldb", f"--fs_uri={uri}", "--db=/bench"]
    run(*ldb, "put", "a-key", "a-value", env=preload)
    assert run(*ldb, "get", "a-key", env=preload) == "a-value\n"
    run(*ldb, "checkconsistency", env=preload)
    # Copied to the machine's own file system, it is the same database.
    ok("files", "backup", drive, drive.parent / "copy")
    assert run("ldb", f"--db={drive.parent / 'copy' / 'bench'}", "get", "a-key") == "a-value\n"


def test_column_families(drive, uri, contract, preload):
    run(contract, "families", uri, "/db", env=preload)
    checked(drive)


def test_each_error_is_the_one_that_rocksdb_acts_on():
    run(rocksdb.statuses())


@pytest.fixture
def table(drive, tmp_path):
    """A table on the drive, and the place of a byte of it in the drive's file."""
    (tmp_path / "in").mkdir()
    mark = os.urandom(32)
    (tmp_path / "in" / "000009.sst").write_bytes(mark * 3000)
    ok("files", "restore", drive, tmp_path / "in")
    with open(drive, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        return held.find(mark) + 20_000


def test_a_damaged_table_is_told_as_lost_data(drive, uri, faults, preload, table):
    with open(drive, "r+b") as file:
        file.seek(table)
        file.write(b"rotten")
    run(faults, "rotten", uri, "/000009.sst", env=preload)


def test_a_read_that_the_drive_fails_may_be_tried_again(drive, uri, faults, preload, table):
    run(faults, "failing", uri, "/000009.sst", drive, table, env=preload)


@pytest.fixture
def database(drive, uri, faults, preload):
    """A database at /db with a mark in a table, and the place of the mark in the drive's file."""
    mark = os.urandom(32).hex()
    run(faults, "tables", uri, "/db", mark, env=preload)
    with open(drive, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        at = held.find(mark.encode())
        assert at > 0 and held.find(mark.encode(), at + 1) == -1
        return at


def test_a_database_stops_at_a_table_that_is_lost(drive, uri, faults, preload, database):
    with open(drive, "r+b") as file:
        file.seek(database)
        file.write(b"rotten")
    run(faults, "spoilt", uri, "/db", env=preload)


def test_a_database_goes_on_beside_a_table_that_the_drive_cannot_read_now(drive, uri, faults, preload, database):
    run(faults, "cut", uri, "/db", drive, database, env=preload)


def test_errors_without_the_drives_owner_say_that_it_is_to_be_opened_again(drive, uri, contract, faults, preload):
    """And a database stops then, with all that it acknowledged."""
    def started(*command):
        process = subprocess.Popen([str(part) for part in command], env=preload, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout.readline(), process.communicate()[1]
        return process

    owner = started(contract, "fill", uri, "/one", "1")
    try:
        orphan, writer = started(faults, "orphan", uri), started(contract, "fill", uri, "/two", "1")
        time.sleep(0.3)
    finally:
        owner.kill()
        owner.communicate()
    assert orphan.wait(timeout=60) == 0, orphan.communicate()[1]
    lines, error = writer.communicate(timeout=60)
    assert writer.returncode == 1 and "IO error" in error, error
    acknowledged = int(lines.split()[-1]) + 1
    assert int(run(contract, "verify", uri, "/two", acknowledged, env=preload)) >= acknowledged
    checked(drive)


def killed(contract, preload, uri, database, sync, seconds, value=200):
    """Fills a database, kills it, and returns how many keys it acknowledged."""
    process = subprocess.Popen([contract, "fill", uri, database, sync, str(value)], env=preload, stdout=subprocess.PIPE, text=True)
    first = process.stdout.readline()
    assert first, "the database did not open"
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    lines = process.communicate()[0].split("\n")
    # The last line may be cut.
    return int(lines[-2] if len(lines) > 1 else first) + 1


@pytest.mark.parametrize("sync", ["0", "1"])
def test_a_killed_database_has_what_it_acknowledged(drive, uri, contract, preload, sync):
    for seconds in [0.4, 0.05, 0.9]:
        acknowledged = killed(contract, preload, uri, "/db", sync, seconds)
        assert int(run(contract, "verify", uri, "/db", acknowledged, env=preload)) >= acknowledged
    checked(drive)


def test_a_killed_database_has_its_large_commits(drive, uri, contract, preload):
    """Values larger than what gathers before it goes to the owner."""
    for seconds in [0.3, 0.6]:
        acknowledged = killed(contract, preload, uri, "/db", "0", seconds, value=400_000)
        assert int(run(contract, "verify", uri, "/db", acknowledged, 400_000, env=preload)) >= acknowledged
    checked(drive)


def test_others_look_at_a_database_while_it_is_written(drive, uri, contract, preload):
    writers = [subprocess.Popen([contract, "fill", uri, path, "0"], env=preload, stdout=subprocess.PIPE, text=True) for path in ["/one", "/two"]]
    try:
        for writer in writers:
            assert writer.stdout.readline()
        drained = [subprocess.Popen(["cat"], stdin=writer.stdout, stdout=subprocess.DEVNULL) for writer in writers]
        # One of the two owns the drive, the other reaches it through that one, as all these do.
        for path in ["/one", "/two"]:
            run(contract, "follow", uri, path, env=preload)
            refused = subprocess.run(["ldb", f"--fs_uri={uri}", f"--db={path}", "put", "x", "y"], env=preload, capture_output=True, text=True, timeout=60)
            assert refused.returncode != 0 and "locked" in refused.stdout + refused.stderr
        value = run("ldb", f"--fs_uri={uri}", "--db=/one", "--secondary_path=/looks", "get", "0000000005", env=preload)
        assert value.startswith("\5\5\5\5\5\5\5\4")
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    for process in drained:
        process.wait(timeout=30)
    for path in ["/one", "/two"]:
        run(contract, "verify", uri, path, 1, env=preload)
    checked(drive)


def test_a_full_drive_tells_the_database_so_and_loses_nothing(tmp_path, contract, preload):
    drive = tmp_path / "small.shingle"
    ok("drive", "create", drive, "--size", "96MiB", "--zone-size", "4MiB")
    ok("files", "format", drive)
    uri = f"shingle://file:{drive}"
    run(contract, "full", uri, env=preload)
    ok("files", "format", drive, "--force", "--yes")
    filled = subprocess.run([contract, "fill", uri, "/db", "0"], env=preload, capture_output=True, text=True, timeout=240)
    assert filled.returncode == 1 and "no zone of the drive is free" in filled.stderr, filled.stderr
    acknowledged = int(filled.stdout.split()[-1]) + 1
    assert acknowledged * 200 > 25 << 20
    # Read without changing anything: there is no room for that.
    count = run("ldb", f"--fs_uri={uri}", "--db=/db", "--secondary_path=/looks", "scan", "--hex", "--max_keys=1000000", env=preload).count("\n")
    assert count >= acknowledged
    checked(drive)


@pytest.mark.parametrize("rtti", [0, 1])
def test_the_sources_build_with_the_newest_rocksdb(tmp_path, rtti):
    """Its headers are in a crate. RocksDB itself is not built, which takes half an hour."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/lib.rs").touch()
    (tmp_path / "Cargo.toml").write_text(
        """
        [package]
        name = "newest"
        version = "0.0.0"
        [dependencies]
        librocksdb-sys = { version = "0.17", default-features = false }
        [workspace]
        """
    )
    if subprocess.run(["cargo", "fetch", "--quiet"], cwd=tmp_path, timeout=300).returncode != 0:
        pytest.skip("the crate with RocksDB's sources cannot be had")
    packages = json.loads(run("cargo", "metadata", "--format-version=1", "--offline", cwd=tmp_path))["packages"]
    manifest = next(package["manifest_path"] for package in packages if package["name"] == "librocksdb-sys")
    headers = Path(manifest).parent / "rocksdb"
    check = ["PROFILE=dev", "CXXFLAGS=-fsyntax-only", f"RTTI={rtti}", f"TARGET={tmp_path}", f"ROCKSDB={headers}"]
    run("make", "-C", ROOT / "bindings/rocksdb", "objects", *check, seconds=300)


def test_rocksdbs_crash_test(tmp_path, drive, uri, preload):
    """RocksDB's black-box test: db_stress is killed every few seconds, and each time says what is missing."""
    folder = Path(os.environ.get("SHINGLE_DB_STRESS", TARGET / "rocksdb" / "db_stress"))
    built = subprocess.run([ROOT / "tests/rocksdb/build-db-stress", folder], capture_output=True, text=True, timeout=900)
    if built.returncode == NO_SOURCES:
        pytest.skip(f"RocksDB's sources cannot be had here: {built.stderr.strip()}")
    assert built.returncode == 0, built.stderr
    seconds = int(os.environ.get("SHINGLE_DB_STRESS_SECONDS", "24"))
    script = folder / "rocksdb-7.8.3/tools/db_crashtest.py"
    said = run(sys.executable, "-u", script, "blackbox", "--simple", f"--stress_cmd={folder / 'db_stress'}", f"--duration={seconds}",
               "--interval=6", f"--fs_uri={uri}", env={**preload, "TMPDIR": str(tmp_path)}, seconds=seconds + 300)
    assert said.count("KILLED") >= 3
    checked(drive)
