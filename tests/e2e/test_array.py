"""An array of emulated drives by its commands: round trips, lost drives, bad input."""

import json
import random
import signal
import subprocess

import pytest

from shingle import BINARY, shingle
from test_bad_input import ok, refused

DRIVES = 6
SEGMENT = 256 << 10


@pytest.fixture
def blank(tmp_path):
    """Drives that hold nothing."""
    drives = [tmp_path / f"disk{number}.shingle" for number in range(DRIVES)]
    for drive in drives:
        ok("drive", "create", drive, "--size", "128MiB", "--zone-size", "4MiB", "--conventional", "1")
    return drives


class Array:
    def __init__(self, folder, drives):
        self.folder, self.drives, self.file = folder, drives, folder / "shelf.toml"
        ok("array", "format", "--array", self.file, "--code", "5+1", "--segment", "256KiB", *drives)

    def run(self, verb, *arguments):
        return ok("array", verb, "--array", self.file, *arguments)

    def refused(self, verb, *arguments, **what):
        return refused("array", verb, "--array", self.file, *arguments, **what)

    def put(self, name, data, *arguments):
        done = subprocess.run(
            [BINARY, "array", "put", "--array", self.file, name, "--json", *arguments],
            input=data, capture_output=True, timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["size_bytes"] == len(data)

    def get(self, name, *arguments):
        done = subprocess.run(
            [BINARY, "array", "get", "--array", self.file, name, *arguments], capture_output=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def stat(self, *arguments):
        done = shingle("array", "stat", "--array", self.file, "--json", *arguments)
        told = json.loads(done.stdout)
        states = {drive["state"] for drive in told.get("drives", [])}
        # Whoever watches an array by the status alone learns that a drive is missing.
        assert done.returncode == (0 if states <= {"ok", "removed"} else 4), done
        return told

    def names(self, *arguments):
        return [object["name"] for object in json.loads(self.run("ls", "--json", *arguments))["objects"]]


@pytest.fixture
def array(tmp_path, blank):
    return Array(tmp_path, blank)


OBJECTS = {
    "empty": b"",
    "films/small": b"hello\n",
    "films/segment": random.Random(1).randbytes(SEGMENT),
    "large": random.Random(2).randbytes(20 * SEGMENT + 4321),
}


def filled(array):
    for name, data in OBJECTS.items():
        array.put(name, data)
    return array


def test_objects_come_back_as_they_were_put(array, tmp_path):
    filled(array)
    for name, data in OBJECTS.items():
        assert array.get(name) == data, name
        assert array.stat(name)["size_bytes"] == len(data)
    assert array.names() == sorted(OBJECTS) and array.names("films/") == ["films/segment", "films/small"]
    assert array.run("ls", "films/sm").split() == ["6", "films/small"]
    # By files, too; and what was there is replaced.
    (tmp_path / "in").write_bytes(OBJECTS["films/segment"])
    array.run("put", "large", tmp_path / "in")
    array.run("get", "large", "-o", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == OBJECTS["films/segment"]
    array.run("rm", "large", "empty")
    assert array.names() == ["films/segment", "films/small"]
    array.refused("get", "large", "-o", tmp_path / "none", says=["no object", "large"], status=1)
    assert not (tmp_path / "none").exists()


def test_ranges_are_those_of_http(array):
    data = OBJECTS["large"]
    array.put("large", data)
    for text, expected in (
        ("0-0", data[:1]),
        (f"{SEGMENT - 5}-{2 * SEGMENT + 5}", data[SEGMENT - 5 : 2 * SEGMENT + 6]),
        (f"{len(data) - 3}-", data[-3:]),
        ("-7", data[-7:]),
        ("5-99999999999", data[5:]),
    ):
        assert array.get("large", "--range", text) == expected, text
    array.refused("get", "large", "--range", f"{len(data)}-", says=["range"])
    array.refused("get", "large", "--range", "7-3", says=["range"])


@pytest.mark.parametrize("index", [False, True])
def test_every_command_leaves_the_array_closed(array, tmp_path, index):
    place = ["--index", tmp_path / "index"] if index else []
    for command in (["put", "name", array.file], ["ls"], ["gc"], ["snapshot"], ["rm", "name"]):
        array.run(*command, *place)
        assert json.loads(array.run("dump", "--json"))["clean"], command
        assert array.stat(*place)["opening"]["index_taken"] == index, command
    # As the help and the man pages say of it.
    assert (tmp_path / "index").is_file() == index
    # Also where it failed.
    array.refused("get", "name", *place, status=1)
    assert json.loads(array.run("dump", "--json"))["clean"]


def test_ctrl_c_closes_the_array_and_stores_nothing(array):
    """CLI-AOPEN-2."""
    process = subprocess.Popen(
        [BINARY, "array", "put", "--array", array.file, "half"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    # More than a pipe and a piece hold, so the command is reading; no end, so it goes on reading.
    process.stdin.write(bytes(12 << 20))
    process.stdin.flush()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    process.stdin.close()
    assert json.loads(array.run("dump", "--json"))["clean"] and array.names() == []


def test_gc_wins_back_what_was_deleted(array):
    for round in range(4):
        array.put("churn", OBJECTS["large"])
    array.put("kept", OBJECTS["films/segment"])
    array.run("rm", "churn")
    answer = json.loads(array.run("gc", "--json"))
    assert answer["sets"] >= 0 and array.stat()["live_bytes"] == SEGMENT
    assert array.get("kept") == OBJECTS["films/segment"]


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


def test_what_a_drive_holds_is_not_formatted_over(array, tmp_path):
    array.put("kept", b"kept")
    command = ["array", "format", "--array", array.file, "--code", "5+1"]
    refused(*command, says=[array.drives[0].name, "lost", "--yes"], status=1)
    assert array.get("kept") == b"kept"
    refused(*command, *array.drives, says=["there already"], status=1)
    ok(*command, "--yes")
    assert array.names() == []


def test_a_drive_of_an_array_is_known_as_one_and_not_taken_for_empty(array, tmp_path):
    array.put("kept", b"kept")
    drive = array.drives[0]
    refused("chunk", "format", drive, says=["disk0", "array", "--force"], status=1)
    (tmp_path / "serve.toml").write_text(f'[[drive]]\npath = "{drive}"\n')
    serve = ["serve", "--config", tmp_path / "serve.toml", "--data", tmp_path / "data", "--listen", "127.0.0.1:0"]
    refused(*serve, says=["disk0", "array"])
    refused("drive", "reset", drive, "5", says=["array"])
    assert array.get("kept") == b"kept" and all(drive["state"] == "ok" for drive in array.stat()["drives"])


def test_a_drive_too_many_is_not_given_up_even_if_told_so(tmp_path, blank):
    spare = tmp_path / "disk6.shingle"
    ok("drive", "create", spare, "--size", "128MiB", "--zone-size", "4MiB", "--conventional", "1")
    array = filled(Array(tmp_path, [*blank, spare]))
    first, second = array.drives[1], array.drives[4]
    first.rename(first.with_suffix(".away"))
    array.put("more", b"more", "--degraded")
    second.rename(second.with_suffix(".away"))
    # What can be read is: it may be older than what is missing, and that is said.
    seen = shingle("array", "ls", "--array", array.file)
    assert seen.returncode == 0 and second.name in seen.stderr and "without 1" in seen.stderr, seen
    array.refused("rm", "large", "--degraded", says=[second.name, "without 1"], status=8)
    second.with_suffix(".away").rename(second)
    assert array.get("large") == OBJECTS["large"]


def test_a_drive_with_a_chunk_store_is_not_formatted_over(tmp_path, blank):
    ok("chunk", "format", blank[3])
    command = ["array", "format", "--array", tmp_path / "shelf.toml", "--code", "5+1", *blank]
    refused(*command, says=["disk3", "chunk store", "--yes"], status=1)
    assert not (tmp_path / "shelf.toml").exists()
    ok("chunk", "ls", blank[3])
    ok(*command, "--force")


def test_drives_may_be_named_one_by_one_in_any_order(array):
    array.put("name", b"data")
    drives = [word for drive in reversed(array.drives) for word in ("--drive", drive)]
    assert ok("array", "get", "name", *drives) == "data"
    refused("array", "ls", "--array", array.file, *drives, says=["both"])
    refused("array", "ls", *drives, *drives[:2], says=["twice"])


def test_the_array_file_may_be_named_in_the_environment(array):
    import os

    done = shingle("array", "ls", env={**os.environ, "SHINGLE_ARRAY": str(array.file)})
    assert done.returncode == 0, done.stderr


def test_what_makes_no_sense_is_refused_in_words(array, tmp_path):
    refused("array", "ls", says=["--array", "--drive", "SHINGLE_ARRAY"], status=8)
    refused("array", "ls", "--array", tmp_path / "nowhere.toml", says=["nowhere.toml"], status=8)
    for text, says in (("drives = []", "no drives"), ("drives = 5", "drives"), ("colour = 1\ndrives = ['a']", "colour")):
        (tmp_path / "bad.toml").write_text(text)
        refused("array", "ls", "--array", tmp_path / "bad.toml", says=["bad.toml", says], status=8)
    array.refused("put", "", array.file, says=["name"])
    array.refused("put", "n" * 1281, array.file, says=["1280"])
    array.refused("put", "name", tmp_path / "nowhere", says=["nowhere"])
    array.refused("put", "name", tmp_path, says=["directory"])
    array.refused("rm", "nosuch", says=["nosuch"], status=1)
    array.refused("stat", "nosuch", says=["nosuch"], status=1)
    assert array.names() == []
    other = tmp_path / "other.toml"
    for code in ("5", "0+1", "5+0", "20+1", "a+b", ""):
        refused("array", "format", "--array", other, f"--code={code}", *array.drives)
    refused("array", "format", "--array", other, "--code", "6+1", *array.drives, says=["7 drives"])
    refused("array", "format", "--array", other, "--code", "5+1", *array.drives, tmp_path / "none", says=["none"])
    refused("array", "format", "--array", other, "--code", "5+1", "--segment", "0", "--yes", *array.drives, says=["segment"])
    assert not other.exists()


def test_a_drive_of_another_array_is_named(array, tmp_path):
    others = [tmp_path / f"other{number}.shingle" for number in range(2)]
    for drive in others:
        ok("drive", "create", drive, "--size", "64MiB", "--zone-size", "4MiB")
    refused("array", "ls", *(word for drive in others for word in ("--drive", drive)), says=["format"])
    ok("array", "format", "--code", "1+1", *others)
    text = array.file.read_text().replace("disk5", "other1")
    array.file.write_text(text)
    array.refused("ls", says=["another array", "shingle"], status=8)


def blank_drive(folder, name, size="128MiB"):
    drive = folder / name
    ok("drive", "create", drive, "--size", size, "--zone-size", "4MiB", "--conventional", "1")
    return drive


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


def test_what_commands_change_they_say_in_json(tmp_path, blank):
    file = tmp_path / "shelf.toml"
    formatted = json.loads(ok("array", "format", "--array", file, "--code", "2+1", "--segment", "256KiB", "--json", *blank[:3]))
    assert formatted["code"] == "2+1" and formatted["segment_bytes"] == SEGMENT
    assert formatted["drives"] == [str(drive) for drive in blank[:3]]
    place = ("--array", file, "--json")
    put = json.loads(ok("array", "put", "name", file, *place))
    assert put == json.loads(ok("array", "stat", "name", *place))
    assert json.loads(ok("array", "stat", *place))["array"] == formatted["array"]
    assert json.loads(ok("array", "snapshot", *place)) == {"objects": 1}
    assert json.loads(ok("array", "add", blank[3], *place)) == {"added": [{"drive": 3, "name": str(blank[3])}]}
    # What was done is said also where not all could be.
    done = shingle("array", "rm", "nosuch", "name", *place)
    assert done.returncode == 1 and "nosuch" in done.stderr
    assert json.loads(done.stdout) == {"deleted": ["name"], "absent": ["nosuch"]}
    assert json.loads(ok("array", "ls", *place)) == {"objects": []}


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


def spoil(drives, data):
    """Overwrites some bytes behind the array's back; the drive that holds them."""
    for drive in drives:
        at = drive.read_bytes().find(data)
        if at >= 0:
            with open(drive, "r+b") as file:
                file.seek(at)
                file.write(bytes(len(data)))
            return drive
    raise AssertionError("no drive holds them")


def test_commands_say_what_they_did_and_the_state_agrees(array):
    data = OBJECTS["films/segment"]
    array.put("one", data)
    small = array.file.with_name("small")
    small.write_bytes(bytes(764))
    # Below 1 KiB a size is said once.
    assert array.run("put", "two\x1b[2J", small) == "stored `two\\u{1b}[2J`: 764 B\n"
    assert array.run("rm", "one") == "deleted `one`\n"
    for told in (array.stat(), json.loads(array.run("dump", "--json"))):
        assert told["clean"] is True
    said = array.run("stat")
    for word in ("ready to be filled", "1 being filled", "index made anew from 1 zone set, "):
        assert word in said, said


def in_a_terminal(*command):
    """Status and what a terminal shows."""
    import os
    import pty

    ours, theirs = pty.openpty()
    done = subprocess.Popen([BINARY, *command], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 1 << 16):
            shown += piece
    except OSError:
        pass
    _, error = done.communicate(timeout=120)
    os.close(ours)
    return done.returncode, shown, error.decode()


def test_binary_goes_to_a_terminal_only_by_force(array):
    array.put("text", "Übung\n".encode())
    array.put("binary", b"a\x1b[2Jb")
    get = lambda name, *more: in_a_terminal("array", "get", "--array", array.file, name, *more)
    assert get("text") == (0, "Übung\r\n".encode(), "")
    status, shown, error = get("binary")
    assert (status, shown) == (1, b"") and "--force" in error and "-o" in error, error
    assert get("binary", "--force") == (0, b"a\x1b[2Jb", "")


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

