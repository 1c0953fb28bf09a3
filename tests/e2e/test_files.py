"""Files of databases: copied in and out, listed, removed, killed in the middle, damaged, and refused where they must be."""

import filecmp
import json
import os
import random
import signal
import subprocess
import time

import pytest

from shingle import BINARY
from test_bad_input import ok, refused

MIB = 1 << 20


@pytest.fixture
def drive(tmp_path):
    drive = tmp_path / "disk.shingle"
    ok("drive", "create", drive, "--size", "256MiB", "--zone-size", "4MiB", "--conventional", "2")
    ok("files", "format", drive)
    return drive


@pytest.fixture
def database(tmp_path):
    """A directory that looks like a database's."""
    chance = random.Random(7)
    root = tmp_path / "database"
    (root / "archive" / "old").mkdir(parents=True)
    for number in range(12):
        (root / f"{number:06}.sst").write_bytes(chance.randbytes(chance.randrange(1, 5 * MIB)))
    (root / "000013.log").write_bytes(chance.randbytes(300_001))
    (root / "CURRENT").write_text("MANIFEST-000004\n")
    (root / "MANIFEST-000004").write_bytes(chance.randbytes(5000))
    (root / "archive" / "old" / "empty").write_bytes(b"")
    return root


def same(left, right):
    compared = filecmp.dircmp(left, right)
    assert not (compared.left_only or compared.right_only or compared.funny_files), compared.report_full_closure()
    for name in compared.common_files:
        assert (left / name).read_bytes() == (right / name).read_bytes(), name
    for name in compared.common_dirs:
        same(left / name, right / name)


def test_a_database_goes_in_and_out(tmp_path, drive, database):
    assert "copied" in ok("files", "restore", drive, database)
    listed = json.loads(ok("files", "ls", drive, "--recursive", "--json"))["files"]
    kinds = {entry["path"]: entry["kind"] for entry in listed}
    assert kinds["000001.sst"] == "table" and kinds["000013.log"] == "log" and kinds["archive/old"] == "dir"
    assert kinds["MANIFEST-000004"] == "manifest" and kinds["CURRENT"] == "file"
    sizes = {entry["path"]: entry.get("size_bytes") for entry in listed}
    assert sizes["000013.log"] == 300_001
    assert ok("files", "cat", drive, "CURRENT") == "MANIFEST-000004\n"
    assert "000013.log" in ok("files", "ls", drive) and "empty" in ok("files", "ls", drive, "archive/old")
    check = json.loads(ok("files", "check", drive, "--json"))
    assert check["clean"] and check["verified_bytes"] == sum(size or 0 for size in sizes.values())
    copy = tmp_path / "copy"
    ok("files", "backup", drive, copy)
    same(database, copy)
    refused("files", "backup", drive, copy, says=["not empty"])
    refused("files", "restore", drive, database, says=["exists"])
    assert "files " in ok("drive", "identify", drive)


def test_zones_are_drawn_by_use(drive, database):
    ok("files", "restore", drive, database)
    drawn = ok("files", "map", drive, "--width", 40)
    assert "a file of its own" in drawn and "logs" in drawn and "A cell is one zone of 4 MiB" in drawn, drawn
    found = json.loads(ok("files", "map", drive, "--json"))
    dumped = json.loads(ok("files", "dump", drive))
    assert [zone["use"] for zone in found["zones"]] == [zone["use"] for zone in dumped["zones"]]
    uses = {use["use"]: use for use in found["uses"]}
    assert sum(use["zones"] for use in uses.values()) == len(found["zones"]) == dumped["stats"]["zones"]
    assert sum(use["live_bytes"] for use in uses.values()) == dumped["stats"]["live_bytes"]
    assert uses["logs"]["live_bytes"] >= 300_001


def test_files_are_removed_and_their_room_comes_back(drive, database):
    ok("files", "restore", drive, database)
    used = json.loads(ok("files", "df", drive, "--json"))["stats"]
    refused("files", "rm", drive, "000001.sst", says=["will be lost", "--yes"])
    ok("files", "rm", drive, "000001.sst", "--yes")
    refused("files", "cat", drive, "000001.sst", says=["no file or directory"])
    refused("files", "rm", drive, "archive", "--yes", says=["--recursive"])
    ok("files", "rm", drive, "/", "--recursive", "--yes")
    empty = json.loads(ok("files", "df", drive, "--json"))["stats"]
    assert used["live_bytes"] > 20 * MIB and empty["live_bytes"] == 0 and empty["files"] == 0
    assert empty["zones_free"] > used["zones_free"]
    assert json.loads(ok("files", "ls", drive, "--recursive", "--json"))["files"] == []


def test_a_restore_that_is_killed_leaves_whole_files(tmp_path, drive, database):
    chance = random.Random(3)
    for _ in range(6):
        process = subprocess.Popen([BINARY, "files", "restore", drive, database], stdout=subprocess.DEVNULL)
        time.sleep(chance.random() * 0.15)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert json.loads(ok("files", "check", drive, "--json"))["clean"]
        for entry in json.loads(ok("files", "ls", drive, "--recursive", "--json"))["files"]:
            source = database / entry["path"]
            if entry["kind"] != "dir":
                assert source.read_bytes().startswith(
                    subprocess.run([BINARY, "files", "cat", drive, entry["path"]], capture_output=True, check=True).stdout
                )
        ok("files", "rm", drive, "/", "--recursive", "--yes")
    ok("files", "restore", drive, database)
    copy = tmp_path / "copy"
    ok("files", "backup", drive, copy)
    same(database, copy)


def test_damage_is_found_and_named(tmp_path, drive, database):
    ok("files", "restore", drive, database)
    # Some bytes of a table, wherever they lie in the drive's file.
    wanted = (database / "000003.sst").read_bytes()[50_000:50_064]
    with open(drive, "r+b") as file:
        data = file.read()
        at = data.find(wanted)
        assert at > 0
        file.seek(at)
        file.write(os.urandom(8))
    check = json.loads(refused("files", "check", drive, "--json", status=4))
    assert not check["clean"] and len(check["damage"]) == 1 and "000003.sst" in check["damage"][0], check
    refused("files", "cat", drive, "000003.sst", says=["record at block"])
    refused("files", "backup", drive, tmp_path / "a", says=["000003.sst"])
    refused("files", "backup", drive, tmp_path / "b", "--accept-loss", status=4, says=["left out", "000003.sst"])
    assert (tmp_path / "b" / "000004.sst").read_bytes() == (database / "000004.sst").read_bytes()
    assert not (tmp_path / "b" / "000003.sst").exists()
    ok("files", "rm", drive, "000003.sst", "--yes")
    assert json.loads(ok("files", "check", drive, "--json"))["clean"]


def test_other_stores_and_owners_are_left_alone(tmp_path, drive):
    other = tmp_path / "volume.shingle"
    ok("drive", "create", other, "--size", "256MiB", "--zone-size", "4MiB")
    refused("files", "df", other, says=["holds no files", "files format"], status=8)
    ok("volume", "create", other)
    refused("files", "format", other, says=["holds a store"])
    refused("files", "ls", other, says=["another engine"], status=8)
    refused("volume", "stat", drive, says=["another engine"], status=8)
    refused("files", "format", other, "--force", says=["volume", "will be lost"])
    ok("files", "format", other, "--force", "--yes")
    assert json.loads(ok("files", "df", other, "--json"))["stats"]["files"] == 0
