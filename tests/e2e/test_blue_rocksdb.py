"""Objects on a blue store whose metadata are in RocksDB: the same promises, through kills; and a machine without the library."""

import json

import pytest

import rocksdb
from test_bad_input import ok, refused
from test_blue import MIB, blues, file, kill_puts, made  # noqa: F401: fixtures
from test_kill import rounds

pytestmark = pytest.mark.skipif(rocksdb.missing() is not None, reason=str(rocksdb.missing()))


@pytest.fixture(scope="module", autouse=True)
def library():
    """The library beside the program, where `shingle` looks for it."""
    return rocksdb.library()


def test_puts_that_are_killed_leave_a_whole_store(tmp_path, file):  # noqa: F811
    drive = made(tmp_path / "disk.shingle", size="768MiB", zone="4MiB", metadata="rocksdb")
    kill_puts(drive, file)


def test_a_server_survives_kills(blues):  # noqa: F811
    blue = blues(metadata="rocksdb")
    server = blue.server.start()
    rounds(server, kills=4, sizes=[0, 1, 4096, 100_000, 3 * MIB, 9 * MIB], seconds=1.5)
    server.stop()
    assert blue.check()["clean"]


def test_without_the_library_a_drive_is_refused_and_the_word_says_what_is_missing(tmp_path, file, monkeypatch):  # noqa: F811
    drive = made(tmp_path / "disk.shingle", size="512MiB", zone="4MiB", metadata="rocksdb")
    assert json.loads(ok("blue", "df", drive, "--json"))["stats"]["live_bytes"] == 0
    ok("blue", "put", drive, "b/k", file, "--create-bucket")
    other = tmp_path / "other.shingle"
    ok("drive", "create", other, "--size", "512MiB", "--zone-size", "4MiB")
    missing = tmp_path / "none.so"
    monkeypatch.setenv("SHINGLE_ROCKSDB_LIBRARY", str(missing))
    says = ["there is no libshingle_rocksdb.so", "make -C bindings/rocksdb"]
    refused("blue", "df", drive, says=says, status=8)
    refused("blue", "format", other, "--metadata", "rocksdb", says=says)
    missing.write_bytes(b"not a library")
    refused("blue", "df", drive, says=["none.so"], status=8)
    monkeypatch.delenv("SHINGLE_ROCKSDB_LIBRARY")
    assert json.loads(ok("blue", "df", drive, "--json"))["stats"]["live_bytes"] >= 7 * MIB
