"""Layers in Python under a real NBD client."""

import shutil
import subprocess
import time

import pytest

import shingle
from shingle import control
from shingle.layers import tl2

needs_qemu_io = pytest.mark.skipif(not shutil.which("qemu-io"), reason="qemu-io (package qemu-utils) is not installed")


def qemu_io(uri, *commands):
    arguments = [word for command in commands for word in ("-c", command)]
    done = subprocess.run(["qemu-io", "-f", "raw", *arguments, uri], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stdout and "mismatch" not in done.stdout, done.stdout


@pytest.fixture
def drive(tmp_path):
    path = str(tmp_path / "drive.shingle")
    shingle.create_drive(path, zones=40, zone_mib=1)
    shingle.create_volume(path)
    return path


def write_much(uri):
    for byte in range(1, 6):
        qemu_io(uri, *[f"write -P {byte} {at}M 1M" for at in range(0, 16)], "flush")


@needs_qemu_io
def test_a_layer_cleans_under_a_client(drive, tmp_path):
    seen = []

    def policy():
        layer = tl2()()
        answer = None
        while True:
            try:
                command = layer.send(answer)
            except StopIteration:
                return
            answer = yield command
            seen.append(answer)

    with shingle.Export(drive, str(tmp_path / "socket"), policy) as export:
        write_much(export.uri)
        qemu_io(export.uri, *[f"read -P 5 {at}M 1M" for at in range(0, 16)])
    assert "room" in seen or "timer" in seen
    with shingle.Export(drive, str(tmp_path / "socket")) as export:
        qemu_io(export.uri, *[f"read -P 5 {at}M 1M" for at in range(0, 16)])


@needs_qemu_io
@pytest.mark.parametrize("bad", ["hangs", "raises"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_policy_that_fails_holds_up_nobody_for_long(drive, tmp_path, bad):
    def policy():
        yield control.wait(0.01)
        if bad == "raises":
            raise RuntimeError("a bug")
        time.sleep(20)

    with shingle.Export(drive, str(tmp_path / "socket"), policy) as export:
        write_much(export.uri)
        qemu_io(export.uri, "read -P 5 0 16M")


@needs_qemu_io
@pytest.mark.parametrize("layer", ["tl1", "tl1:fifo", "tl2:greedy"])
def test_a_native_layer_cleans_under_a_client(drive, tmp_path, layer):
    with shingle.Export(drive, str(tmp_path / "socket"), layer) as export:
        write_much(export.uri)
        qemu_io(export.uri, "read -P 5 0 16M")


def test_an_unknown_layer_is_refused_with_those_that_there_are(drive, tmp_path):
    with pytest.raises(ValueError, match="tl2:POLICY"):
        shingle.Export(drive, str(tmp_path / "socket"), "tl3")


@needs_qemu_io
def test_what_a_client_asked_for_is_recorded_and_simulated(drive, tmp_path):
    trace = str(tmp_path / "load.trace.gz")
    with shingle.Export(drive, str(tmp_path / "socket"), tl2(), record=trace) as export:
        qemu_io(export.uri, "write -P 1 1M 1M", "write -z -u 0 64k", "discard 1M 4k", "flush", "read -P 1 1536k 64k")
    ios = list(shingle.traces.read(trace))
    for expected in [("w", 1 << 20, 1 << 20), ("z", 0, 64 << 10), ("t", 1 << 20, 4096), ("f", 0, 0), ("r", 1536 << 10, 64 << 10)]:
        assert expected in ios, ios
    assert len(shingle.simulate(None, ios, zones=40)["took"]) == len(ios)
    with pytest.raises(OSError, match="another file"):
        shingle.Export(drive, str(tmp_path / "socket"), record=trace)


def test_what_is_no_trace_is_named_with_its_line(tmp_path):
    head, io = '{"shingle_trace":3,"name":"x","size":4096}\n', '{"at":0,"op":"read","length":512}\n'
    for text, line in [("", None), (head, None), (head + io, None), (head + "x\n", 2), (head + io + '{"op":"jump"}\n', 3), ("{}\n", 1),
                       (head.replace("3", "9", 1), 1), ("[]\n", 1)]:
        file = tmp_path / "trace"
        file.write_text(text)
        if line is None:
            assert list(shingle.traces.read(file)) == [("r", 0, 512)] * text.count("read")
        else:
            with pytest.raises(ValueError, match=f"line {line}: "):
                list(shingle.traces.read(file))


def test_errors_name_the_drive(tmp_path):
    with pytest.raises(OSError):
        shingle.Export(str(tmp_path / "none"), str(tmp_path / "socket"))
    path = str(tmp_path / "drive.shingle")
    shingle.create_drive(path, zones=40, zone_mib=1)
    with pytest.raises(ValueError, match="holds no volume"):
        shingle.Export(path, str(tmp_path / "socket"))
