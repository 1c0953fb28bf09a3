"""Volumes that are recorded, kept by snapshots, grow and shrink."""

import contextlib
import json
import os
import random
import socket
import time

import pytest

from test_bad_input import ok, refused
from test_volume import MIB, drive, export, made, need, run  # noqa: F401 (fixtures are found by name)
from volumes import BLOCK, FLUSH, READ, WRITE, Client, Export, Refused


def traced(*arguments):
    """The lab's figures of a trace."""
    return json.loads(ok("lab", "trace", "stat", *arguments, "--json").splitlines()[-1])


def test_what_clients_asked_for_is_recorded_and_the_lab_replays_it(tmp_path, drive):
    need("fio", "qemu-io", "nbdcopy")
    trace = tmp_path / "disk.trace.gz"
    with Export(tmp_path, drive, options=["--record", trace]) as export:
        job = ["--name=r", "--ioengine=nbd", f"--uri={export.unix}", "--rw=randrw", "--bs=8k", "--size=8m", "--iodepth=8", "--randseed=3"]
        said = json.loads((text := run("fio", *job, f"--aux-path={tmp_path}", "--output-format=json"))[text.index("{"):])["jobs"][0]
        script = ["write -f -P 7 16M 64k", "write -z -u 17M 1M", "discard 16M 4k", "flush"]
        run("qemu-io", "-f", "raw", *[word for line in script for word in ("-c", line)], export.unix)
        content = random.Random(1).randbytes(4 * MIB)
        (tmp_path / "in").write_bytes(content)
        run("nbdcopy", tmp_path / "in", export.tcp)
        export.stop()
        assert "recording" not in "".join(export.lines)
    told = traced(trace)
    assert (told["name"], told["ios"], told["timed"]) == ("disk", told["timed"], told["ios"])
    assert told["reads"]["ios"] >= said["read"]["total_ios"] > 100
    assert told["writes"]["bytes"] == said["write"]["io_bytes"] + 64 * 1024 + 4 * MIB
    assert told["zeros"] == 1 and told["trims"] >= 1 and told["flushes"] >= 1 and told["fua"] >= 1
    # All but those that the first client had outstanding at its start wait for something.
    assert told["ios"] - told["dependent"] <= 8
    # The whole of it on a layer and on drives, by arrival and by dependencies.
    for experiment, pace in (("stl-replay", "closed"), ("stl-replay", "open"), ("block-replay", "closed")):
        replayed = json.loads(ok("lab", "run", experiment, "--trace", trace, "--pace", pace, "--scale", "quick", "--out", tmp_path, "--json").splitlines()[-1])
        assert replayed["grids"] and all(row["cells"] for grid in replayed["grids"] for row in grid["rows"]), replayed["grids"]
    # The file stays as it was.
    refused("volume", "export", drive, "--socket", tmp_path / "x.sock", "--record", trace, says=[str(trace), "another file"], status=78)
    refused("volume", "export", drive, "--socket", tmp_path / "x.sock", "--record", tmp_path / "no/such", says=["no/such"], status=78)
    refused("volume", "export", drive, "--record", "a", "--record", "b", says=["1 drives, and 2 files"])
    assert not (tmp_path / "x.sock").exists() and traced(trace) == told


def test_a_full_disk_ends_a_recording_and_nothing_else(tmp_path, drive):
    with Export(tmp_path, drive, options=["--record", "/dev/full"]) as export:
        client = Client(export.socket)
        for at in range(200):
            client.call(WRITE, at * BLOCK, data=bytes([at]) * BLOCK, flags=1)
        time.sleep(1.5)
        assert all(client.call(READ, at * BLOCK, BLOCK) == bytes([at]) * BLOCK for at in range(200))
        client.close()
        export.stop()
        said = "".join(export.lines)
        assert "/dev/full" in said and "the export goes on" in said and "No space left" in said, said
    assert json.loads(ok("volume", "check", drive, "--json"))["clean"]


def test_a_recording_survives_kill_9_up_to_its_last_second(tmp_path, drive):
    trace = tmp_path / "disk.trace.gz"
    with Export(tmp_path, drive, options=["--record", trace]) as export:
        client = Client(export.socket)
        for at in range(300):
            client.call(WRITE, at * BLOCK, data=bytes(BLOCK), flags=1)
        time.sleep(2.5)
        client.call(FLUSH)
        export.kill()
    told = traced(trace)
    assert told["writes"]["ios"] == told["fua"] == 300


def as_nobody(drive, question):
    """The answer of the volume's server to another user (SV-VOL-3)."""
    found = os.stat(drive)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            with socket.socket(socket.AF_UNIX) as asking:
                asking.settimeout(30)
                asking.connect(f"\0shingle-volume/file-{found.st_dev}-{found.st_ino}".encode())
                with contextlib.suppress(BrokenPipeError):
                    # The refusal may come before the question.
                    asking.sendall(question)
                os.write(writing, asking.recv(4096))
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return answer.read()


def test_snapshots_are_taken_read_and_removed_while_the_volume_is_served(tmp_path, drive, export):
    need("nbdcopy", "nbdinfo")
    before, after = os.urandom(8 * MIB), os.urandom(8 * MIB)
    (tmp_path / "before").write_bytes(before)
    (tmp_path / "after").write_bytes(after)
    run("nbdcopy", tmp_path / "before", export.unix)
    said = ok("volume", "snapshot", "take", drive, "before-upgrade")
    assert "before-upgrade is taken" in said
    run("nbdcopy", tmp_path / "after", export.unix)
    at = export.unix.replace("disk?", "disk%40before-upgrade?")
    listed = {found["export-name"]: found for found in json.loads(run("nbdinfo", "--list", "--json", export.unix))["exports"]}
    assert set(listed) == {"disk", "disk@before-upgrade"} and listed["disk@before-upgrade"]["is_read_only"]
    run("nbdcopy", at, tmp_path / "old")
    run("nbdcopy", export.unix, tmp_path / "new")
    with open(tmp_path / "old", "rb") as old, open(tmp_path / "new", "rb") as new:
        assert old.read(8 * MIB) == before and new.read(8 * MIB) == after
    with pytest.raises(Refused):
        Client(export.socket, "disk@before-upgrade").call(WRITE, data=bytes(BLOCK))
    refused("volume", "snapshot", "take", drive, "before-upgrade", says=["already"])
    refused("volume", "snapshot", "take", drive, "no/name", says=["letters"])
    snapshot = json.loads(ok("volume", "snapshot", "ls", drive, "--json"))["snapshots"][0]
    assert (snapshot["name"], snapshot["kept_bytes"]) == ("before-upgrade", 8 * MIB)
    if os.geteuid() == 0:
        assert "another user" in as_nobody(drive, b'"list"\n')
    # Killed and started again, it is there, and offered.
    export.kill()
    export.start()
    run("nbdcopy", export.unix.replace("disk?", "disk%40before-upgrade?"), tmp_path / "old")
    with open(tmp_path / "old", "rb") as old:
        assert old.read(8 * MIB) == before
    refused("volume", "snapshot", "rm", drive, "before-upgrade", says=["gone for good", "--yes"])
    ok("volume", "snapshot", "rm", drive, "before-upgrade", "--yes")
    assert [found["export-name"] for found in json.loads(run("nbdinfo", "--list", "--json", export.unix))["exports"]] == ["disk"]
    export.stop()
    # Without a server the commands open the volume themselves.
    ok("volume", "snapshot", "take", drive, "later")
    assert "later" in ok("volume", "snapshot", "ls", drive)
    assert json.loads(ok("volume", "check", drive, "--json"))["clean"]
    ok("volume", "snapshot", "rm", drive, "later", "--yes")
    refused("volume", "snapshot", "rm", drive, "later", "--yes", says=["no snapshot named later"])


def test_a_volume_grows_and_shrinks(tmp_path):
    drive = made(tmp_path, "disk", "256MiB", "--size", "100MiB")
    with Export(tmp_path, drive) as export:
        refused("volume", "resize", drive, "120MiB", says=["in use"], status=8)
        client = Client(export.socket)
        assert client.size == 100 * MIB
        export.stop()
    assert "120" in ok("volume", "resize", drive, "120MiB")
    refused("volume", "resize", drive, "1TiB", says=["can have up to"])
    refused("volume", "resize", drive, "much", says=["much"])
    with Export(tmp_path, drive) as export:
        client = Client(export.socket)
        assert client.size == 120 * MIB
        client.call(WRITE, offset=119 * MIB, data=b"x" * BLOCK)
        export.stop()
    refused("volume", "resize", drive, "50MiB", says=["will be lost", "--yes"])
    ok("volume", "resize", drive, "50MiB", "--yes")
    ok("volume", "resize", drive, "max")
    stats = json.loads(ok("volume", "stat", drive, "--json"))["stats"]
    assert stats["size_bytes"] == stats["size_max_bytes"] > 150 * MIB and stats["used_bytes"] == 0
    assert json.loads(ok("volume", "check", drive, "--json"))["clean"]
