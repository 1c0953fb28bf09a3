"""Looking after a drive: report, map, and zone commands that ask first, also on a real terminal."""

import csv
import io
import json
import os
import pty
import re
import select
import stat
import subprocess
import time
import xml.etree.ElementTree as ElementTree

import pytest

from shingle import BINARY, shingle
from test_bad_input import ok, refused

MIB = 1 << 20
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def blank(tmp_path):
    """Sixty-four zones, two of them conventional, four of the others full."""
    path = tmp_path / "disk.shingle"
    ok("drive", "create", path, "--size", "256MiB", "--zone-size", "4MiB", "--conventional", "2", "--max-open", "8")
    ok("drive", "finish", path, "10-12", "20", "--yes")
    return path


@pytest.fixture
def stored(tmp_path):
    """A chunk store with two chunks, of which one was deleted."""
    path = tmp_path / "store.shingle"
    ok("drive", "create", path, "--size", "256MiB", "--zone-size", "4MiB", "--conventional", "2")
    ok("chunk", "format", path)
    for chunk in ("1", "2"):
        ok("chunk", "create", path, chunk)
        (tmp_path / "bytes").write_bytes(os.urandom(MIB))
        ok("chunk", "append", path, chunk, tmp_path / "bytes")
    refused("chunk", "rm", path, "2", says=["will be lost", "--yes"])
    ok("chunk", "delete", path, "2", "--yes")
    return path


def rows(path):
    return {row["zone"]: row for row in json.loads(ok("drive", "report", path, "--json"))["zones"]}


def on_a_terminal(*arguments, answer=None, size=(24, 80), environment=()):
    """Runs a command on a terminal of its own, types the answer once it is asked, and returns status and output."""
    main, terminal = pty.openpty()
    subprocess.run(["stty", "rows", str(size[0]), "cols", str(size[1])], stdin=terminal, check=True)
    process = subprocess.Popen(
        [str(BINARY), *map(str, arguments)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm-256color", **dict(environment)},
        start_new_session=True,
    )
    os.close(terminal)
    said, ends = b"", time.monotonic() + 60
    while time.monotonic() < ends:
        if select.select([main], [], [], 0.2)[0]:
            try:
                piece = os.read(main, 65536)
            except OSError:
                break
            if not piece:
                break
            said += piece
        if answer is not None and b"to go on:" in said:
            os.write(main, answer.encode() + b"\n")
            answer = None
    status = process.wait(timeout=60)
    os.close(main)
    return status, said.decode()


def test_a_report_is_the_same_as_text_csv_and_json(blank):
    zones = rows(blank)
    assert len(zones) == 64
    assert (zones[0]["condition"], zones[0]["type"]) == ("nw", "CONVENTIONAL")
    assert (zones[2]["condition"], zones[2]["type"]) == ("em", "SEQ_WRITE_REQUIRED")
    assert (zones[10]["condition"], zones[10]["written_bytes"], zones[10]["size_bytes"]) == ("fu", 4 * MIB, 4 * MIB)
    table = list(csv.DictReader(io.StringIO(ok("drive", "report", blank, "--csv"))))
    assert [{key: str(value) for key, value in zone.items()} for zone in zones.values()] == table
    text = ok("drive", "report", blank, "--first", "9", "--count", "2").splitlines()
    assert "start (byte)" in text[0] and len(text) == 3
    assert text[2].split()[-2:] == ["fu", "SEQ_WRITE_REQUIRED"] and "4 MiB" in text[2]


def with_nobody_reading(*arguments):
    """Runs a command whose standard output nobody reads any more: status and words of complaint."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([str(BINARY), *map(str, arguments)], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    return done.returncode, done.stderr


COMMANDS = ["drive ls", "drive identify", "drive report", "drive report --json", "drive map", "drive doctor -v"]
COMMANDS += ["chunk ls", "chunk ls --json", "chunk stat", "chunk check", "chunk dump", "chunk seal 1", "chunk read 1"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_reader_that_has_had_enough_ends_a_command_without_a_word(stored, command):
    """CLI-OUT-1."""
    group, verb, *rest = command.split()
    assert with_nobody_reading(group, verb, stored, *rest) == (141, "")
    assert ok("chunk", "check", stored)


def test_output_that_has_no_room_is_an_error_in_words(stored):
    for arguments in (["drive", "report", stored], ["chunk", "ls", stored], ["chunk", "read", stored, "1"], ["lab", "list"]):
        with open("/dev/full", "w") as full:
            command = [str(BINARY), *map(str, arguments)]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert done.returncode == 1 and "standard output: No space left" in done.stderr and "panicked" not in done.stderr


def test_a_map_shows_every_zone_once(blank):
    lines = ok("drive", "map", blank, "--width", "80").split("\n\n")[0].splitlines()
    cells = "".join(line.split()[1] for line in lines)
    assert len(cells) == 64
    assert cells[:2] == "cc" and cells[10:13] == "###" and cells[20] == "#" and set(cells[21:]) == {"."}


def test_a_map_of_a_store_shows_what_lives(stored):
    text = ok("drive", "map", stored, "--width", "80")
    assert "share of written bytes that live" in text and "in chunk store" in text and "m store's own" in text


def test_a_large_drive_is_compressed_and_says_so(tmp_path):
    path = tmp_path / "large.shingle"
    ok("drive", "create", path, "--size", "20TB")
    for width, most in ((80, 40), (40, 40), (200, 40)):
        text = ok("drive", "map", path, "--width", width)
        drawn = text.split("\n\n")[0].splitlines()
        assert len(drawn) <= most and max(map(len, drawn)) <= width
        assert re.search(r"A cell stands for \d+ zones of 256 MiB", text)


def test_colours_are_for_terminals_that_want_them(blank):
    status, said = on_a_terminal("drive", "map", blank)
    assert status == 0 and "\x1b[48;5;" in said
    plain = re.sub(r"\x1b\[[0-9;]*m", "", said)
    assert all(len(line) <= 80 for line in plain.splitlines())
    assert "\x1b" not in on_a_terminal("drive", "map", blank, environment={"NO_COLOR": "1"})[1]
    assert "\x1b" not in ok("drive", "map", blank)


def test_a_map_as_a_picture(stored, tmp_path):
    picture = tmp_path / "map.svg"
    ok("drive", "map", stored, "--svg", picture)
    root = ElementTree.parse(picture).getroot()
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert titles[0].startswith("Zones of ")
    assert sum(title.startswith("zone ") for title in titles) == 64
    assert "zone 0: conventional" in titles and any("% live" in title for title in titles)
    text = picture.read_text()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", ""), "it needs something from elsewhere"


def test_the_file_of_a_drive_is_for_the_user_who_made_it(blank):
    assert stat.S_IMODE(blank.stat().st_mode) == 0o600


def test_a_reset_needs_a_yes_where_nobody_can_be_asked(blank):
    said = refused("drive", "reset", blank, "10", "11-13", says=["12 MiB written in 3 of them", "--yes"], status=1)
    assert "Nothing was done" in said
    assert rows(blank)[10]["condition"] == "fu"
    ok("drive", "reset", blank, "10", "11-13", "--yes")
    assert [rows(blank)[zone]["condition"] for zone in (10, 11, 12, 20)] == ["em", "em", "em", "fu"]
    refused("drive", "finish", blank, "5", says=["--yes"])
    assert ok("drive", "reset", blank, "--all", "--yes") == "1 zone reset\n"
    assert {row["condition"] for row in rows(blank).values()} == {"nw", "em"}


def test_a_reset_asks_on_a_terminal(blank):
    status, said = on_a_terminal("drive", "reset", blank, "10-12", answer="no")
    assert status == 1 and "12 MiB written" in said and "will be lost" in said and "nothing was done" in said
    assert rows(blank)[10]["condition"] == "fu"
    status, said = on_a_terminal("drive", "reset", blank, "10-12", answer="yes")
    assert status == 0, said
    assert rows(blank)[10]["condition"] == "em"


def test_a_reset_names_the_store_that_would_be_hurt(stored):
    """CLI-MAN-1."""
    store = re.search(r"^store\s+(\S+)", ok("chunk", "stat", stored), re.M)[1]
    refused("drive", "reset", stored, "--all", says=[store, "chunk store"])
    assert "1" in ok("chunk", "ls", stored)


def test_open_and_close_lose_nothing_and_do_not_ask(blank):
    ok("drive", "open", blank, "30-32")
    assert [rows(blank)[zone]["condition"] for zone in (30, 31, 32)] == ["oe"] * 3
    ok("drive", "close", blank, "--all")
    assert rows(blank)[30]["condition"] == "em"


def test_open_and_close_ask_before_they_meddle_with_a_store(stored):
    store = re.search(r"^store\s+(\S+)", ok("chunk", "stat", stored), re.M)[1]
    before = rows(stored)
    for verb in ("open", "close"):
        said = refused("drive", verb, stored, "30", says=[store, "may lose data", "--yes"], status=1)
        assert "Nothing was done" in said
        status, said = on_a_terminal("drive", verb, stored, "30", answer="no")
        assert status == 1 and "nothing was done" in said
    assert rows(stored) == before
    ok("drive", "open", stored, "30", "--yes")
    assert rows(stored)[30]["condition"] == "oe"
    ok("drive", "close", stored, "30", "--yes")
    assert rows(stored) == before
    assert "clean" in ok("chunk", "check", stored)


def test_a_second_open_adds_to_the_first(blank):
    ok("drive", "open", blank, "30")
    ok("drive", "open", blank, "31")
    assert [rows(blank)[zone]["condition"] for zone in (30, 31)] == ["oe"] * 2
    assert ok("drive", "close", blank, "--all") == "2 zones closed\n"


@pytest.mark.parametrize("zones", [["64"], ["0-64"], ["9-7"], ["x"], ["-1"], []])
def test_zones_that_are_none_are_refused_before_anything_is_done(blank, zones):
    refused("drive", "reset", blank, "10", *zones, "--yes") if zones else refused("drive", "reset", blank, "--yes")
    assert rows(blank)[10]["condition"] == "fu"


def test_a_conventional_zone_is_not_reset(blank):
    for verb in ("open", "close", "finish", "reset"):
        said = refused("drive", verb, blank, "10", "0", "--yes", says=["zone 0 is conventional"])
        assert "NotWritePointer" not in said
    assert rows(blank)[10]["condition"] == "fu"


def test_mistakes_are_answered_with_what_to_do(blank, tmp_path):
    refused("drive", "report", tmp_path, says=["this is a directory"])
    refused("drive", "ls", tmp_path, says=["this is a directory"])
    refused("drive", "ls", tmp_path / "none", says=["no such drive", "drive ls --all"])
    refused("drive", "map", tmp_path / "none", says=["no such file", "drive create"])
    refused("drive", "report", blank, "--first", "64", says=["no zone 64", "0 to 63"])
    refused("drive", "create", blank, "--size", "1GiB", says=["--overwrite"])
    refused("drive", "create", tmp_path / "none" / "disk", "--size", "1GiB", says=["no directory", "mkdir -p"])
    refused("drive", "map", blank, "--svg", tmp_path / "none" / "x.svg", says=["the picture", "cannot be written"])
    refused("chunk", "ls", blank, says=["format it first", "shingle chunk format"])
    refused("bench", "device", "--device", blank, "--yes", says=["no zoned block device", "--dir"])


def test_a_drive_that_one_may_not_touch_is_refused_in_words(blank):
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    os.chmod(blank, 0o600)
    for folder in (blank.parent, *blank.parent.parents):
        if folder.stat().st_uid == 0 and str(folder).startswith("/tmp/"):
            os.chmod(folder, 0o755)
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(BINARY), "drive", "report", str(blank)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 8 and "permission denied" in done.stderr.lower() and "chown" in done.stderr, done.stderr
