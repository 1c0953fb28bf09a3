"""An array of emulated drives by its commands: round trips, and what they say."""

import json
import signal
import subprocess

import pytest

from arrays import OBJECTS, SEGMENT, array, blank, filled  # noqa: F401: fixtures
from shingle import BINARY, shingle
from test_bad_input import ok, refused


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
