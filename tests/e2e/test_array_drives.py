"""Drives of an array: missing, given up, taken back, replaced, rotten; those that join and leave."""

import json

from arrays import OBJECTS, Array, array, blank, blank_drive, filled, spoil  # noqa: F401: fixtures
from shingle import shingle
from test_bad_input import ok, refused


def test_a_missing_drive_is_named_and_done_without_if_told_so(array):
    """CLI-AOPEN-1."""
    filled(array)
    gone = array.drives[2]
    gone.rename(gone.with_suffix(".away"))
    # Reading does without it, and changes nothing for it.
    for name, data in OBJECTS.items():
        assert array.get(name) == data, name
    for command in (["rm", "large"], ["gc"], ["snapshot"]):
        array.refused(*command, says=[gone.name, "--degraded"], status=8)
    gone.with_suffix(".away").rename(gone)
    assert all(drive["state"] == "ok" for drive in array.stat()["drives"])
    gone.rename(gone.with_suffix(".away"))
    array.put("more", OBJECTS["large"], "--degraded")
    # From then on it needs no telling.
    array.put("more", OBJECTS["large"])
    assert array.get("more") == OBJECTS["large"]
    states = {drive["name"]: drive["state"] for drive in array.stat()["drives"]}
    assert states.pop(str(gone)) == "missing" and set(states.values()) == {"ok"}
    seen = shingle("array", "stat", "--array", array.file)
    assert seen.returncode == 4 and any(gone.name in line and "missing" in line for line in seen.stdout.splitlines())


def test_a_drive_that_was_given_up_is_taken_back(array):
    filled(array)
    gone = array.drives[3]
    away = gone.with_suffix(".away")
    gone.rename(away)
    array.put("more", OBJECTS["large"], "--degraded")
    array.run("rm", "films/small", "--degraded")
    away.rename(gone)
    assert [drive["state"] for drive in array.stat()["drives"]].count("out of use") == 1
    array.refused("readmit", "drive 1", says=["disk1", "given up"], status=8)
    back = json.loads(array.run("readmit", gone, "--json"))
    [drive] = back["readmitted"]
    assert (drive["was"], drive["drive"], back["failed"]) == (3, 6, 0) and drive["missed"] > 0
    assert json.loads(array.run("check", "--json"))["clean"]
    # Another may be lost now.
    array.drives[0].rename(array.drives[0].with_suffix(".away"))
    assert array.get("more") == OBJECTS["large"]
    assert "films/small" not in array.names()
    array.refused("readmit", "--degraded", says=["out of use"], status=1)


def test_adding_a_drive_that_the_file_names_takes_it_back(array, tmp_path):
    filled(array)
    array.refused("add", array.drives[1], says=["disk1", "drive 1", "already"], status=1)
    gone, away = array.drives[3], array.drives[3].with_suffix(".away")
    gone.rename(away)
    array.put("more", OBJECTS["large"], "--degraded")
    array.refused("add", gone, says=["there is no drive", "disk3"], status=1)
    away.rename(gone)
    # By another way to name it, too.
    (tmp_path / "link.shingle").symlink_to(gone)
    said = array.run("add", tmp_path / "link.shingle")
    assert "disk3" in said and "drive 6" in said and "rebuilt" in said, said
    assert all(drive["state"] in ("ok", "removed") for drive in array.stat()["drives"])
    assert array.file.read_text().count("disk3") == 1 and "link" not in array.file.read_text()
    # Another may be lost now.
    array.drives[0].rename(tmp_path / "gone")
    for name, data in [*OBJECTS.items(), ("more", OBJECTS["large"])]:
        assert array.get(name) == data, name


def test_a_new_drive_that_the_file_names_already_is_added(array, tmp_path):
    new = blank_drive(tmp_path, "new.shingle")
    array.file.write_text(array.file.read_text().replace("drives = [", f'drives = ["{new}",', 1))
    assert json.loads(array.run("add", new, "--json")) == {"added": [{"drive": 6, "name": str(new)}]}
    assert array.file.read_text().count("new.shingle") == 1
    assert [drive["state"] for drive in array.stat()["drives"]] == ["ok"] * 7


def test_a_drive_is_named_in_the_file_although_the_next_one_could_not_be_added(array, tmp_path):
    before = array.file.read_text()
    new, small = blank_drive(tmp_path, "new.shingle"), blank_drive(tmp_path, "small.shingle", size="12MiB")
    array.refused("add", new, small, says=["small"], status=1)
    assert array.file.read_text().count("new.shingle") == 1 and "small.shingle" not in array.file.read_text()
    assert array.file.with_suffix(".toml.before").read_text() == before
    assert [drive["state"] for drive in array.stat()["drives"]] == ["ok"] * 7


def test_a_drive_whose_header_is_destroyed_is_done_without_as_a_missing_one(array):
    """CLI-AOPEN-3."""
    filled(array)
    with array.drives[2].open("r+b") as drive:
        drive.write(bytes(4096))
    for name, data in OBJECTS.items():
        assert array.get(name) == data, name
    array.refused("rm", "large", says=["disk2", "not a Shingle drive", "--degraded"], status=8)
    array.put("more", OBJECTS["large"], "--degraded")
    array.put("more", OBJECTS["large"])
    assert array.get("more") == OBJECTS["large"]
    assert [drive["state"] for drive in array.stat()["drives"]].count("missing") == 1
    # To make an array of it is another matter.
    refused("array", "format", "--array", array.folder / "other.toml", "--code", "5+1", *array.drives, "--yes",
            says=["disk2", "not a Shingle drive"], status=8)


def test_two_missing_drives_of_5_plus_1_are_an_error_that_names_them(array):
    filled(array)
    for drive in array.drives[1:3]:
        drive.rename(drive.with_suffix(".away"))
    names = [drive.name for drive in array.drives[1:3]]
    array.refused("get", "large", says=[*names, "2 of", "without 1"], status=1)
    array.refused("rm", "large", "--degraded", says=[*names, "2 of", "without 1"], status=8)
    assert "missing" in array.run("dump")
    # Back again, all is there.
    for drive in array.drives[1:3]:
        drive.with_suffix(".away").rename(drive)
    assert array.get("large") == OBJECTS["large"]


def test_a_drive_too_many_is_not_given_up_even_if_told_so(tmp_path, blank):
    spare = tmp_path / "disk6.shingle"
    ok("drive", "create", spare, "--size", "128MiB", "--zone-size", "4MiB", "--conventional", "1")
    array = filled(Array(tmp_path, [*blank, spare]))
    first, second = array.drives[1], array.drives[4]
    first.rename(first.with_suffix(".away"))
    array.put("more", b"more", "--degraded")
    second.rename(second.with_suffix(".away"))
    # Objects that can be read are listed, with a word that they may be older than those that are missing.
    seen = shingle("array", "ls", "--array", array.file)
    assert seen.returncode == 0 and second.name in seen.stderr and "without 1" in seen.stderr, seen
    array.refused("rm", "large", "--degraded", says=[second.name, "without 1"], status=8)
    second.with_suffix(".away").rename(second)
    assert array.get("large") == OBJECTS["large"]


def test_a_lost_drive_is_replaced_by_a_new_one_and_another_may_be_lost(array, tmp_path):
    filled(array)
    array.drives[2].unlink()
    array.refused("add", blank_drive(tmp_path, "new.shingle"), says=["disk2", "--degraded"], status=8)
    # It may only be unplugged.
    array.refused("rebuild", says=["disk2", "unplugged", "--yes"], status=1)
    assert {drive["in_use"] for drive in array.stat()["drives"]} == {True}
    array.refused("rebuild", "--degraded", says=["add a drive"], status=1)
    assert [drive["in_use"] for drive in array.stat()["drives"]].count(False) == 1
    array.run("add", tmp_path / "new.shingle", "--degraded")
    done = json.loads(array.run("rebuild", "--json"))
    assert done["zones"] == done["rebuilt"] > 0 and done["failed"] == 0 and done["bytes"] > 0
    assert "nothing to rebuild" in array.run("rebuild")
    states = {drive["name"]: drive["state"] for drive in array.stat()["drives"]}
    assert states.pop(str(array.drives[2])) == "removed" and set(states.values()) == {"ok"}
    array.drives[4].rename(tmp_path / "gone")
    for name, data in OBJECTS.items():
        assert array.get(name) == data, name
    assert json.loads(array.run("check", "--json"))["missing_drives"]


def test_drives_join_and_leave(array, tmp_path):
    filled(array)
    before = array.stat()["capacity_bytes"]
    array.refused("remove", "0", says=["add a drive first"], status=1)
    array.refused("remove", "disk9", says=["disk9", "disk0"], status=1)
    array.refused("add", array.drives[1], says=["disk1"], status=1)
    new = [blank_drive(tmp_path, f"new{number}.shingle", size="256MiB") for number in range(6)]
    array.run("add", *new)
    assert array.stat()["capacity_bytes"] > 2.5 * before
    array.refused("remove", "isk0.shingle", says=["isk0"], status=1)
    # By the end of its path, as `format` may have been told.
    array.run("remove", array.drives[0].name)
    assert "disk0" not in array.file.read_text() and "new3" in array.file.read_text()
    for name, data in OBJECTS.items():
        assert array.get(name) == data, name
    # It is nobody's now; its zones still hold what was moved to others.
    refused("chunk", "format", array.drives[0], says=["holds no store", "hold data", "--force"], status=1)
    ok("chunk", "format", array.drives[0], "--force", "--yes")
    checked = json.loads(array.run("check", "--json"))
    assert checked["clean"] and checked["damage"] == checked["missing_drives"] == []


def test_rot_is_found_by_check_and_mended_by_scrub(array, tmp_path):
    filled(array)
    assert json.loads(array.run("check", "--json"))["clean"]
    spoilt = spoil(array.drives, OBJECTS["large"][50_000:50_032])
    done = shingle("array", "check", "--array", array.file, "--json")
    found = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 4 and not found["clean"] and any(spoilt.name in line for line in found["damage"])
    assert array.get("large") == OBJECTS["large"]
    mended = json.loads(array.run("scrub", "--json"))
    assert mended["repaired"] >= 1 and mended["damage"] == [] and not mended["clean"]
    assert json.loads(array.run("check", "--json"))["clean"]
    again = json.loads(array.run("scrub", "--json"))
    assert again["clean"] and again["repaired"] == 0
    next(drive for drive in array.drives if drive != spoilt).rename(tmp_path / "gone")
    for name, data in OBJECTS.items():
        assert array.get(name) == data, name
    refused("array", "check", "--array", tmp_path / "nowhere.toml", status=8)
