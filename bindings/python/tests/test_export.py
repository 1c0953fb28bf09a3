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


def test_errors_name_the_drive(tmp_path):
    with pytest.raises(OSError):
        shingle.Export(str(tmp_path / "none"), str(tmp_path / "socket"))
    path = str(tmp_path / "drive.shingle")
    shingle.create_drive(path, zones=40, zone_mib=1)
    with pytest.raises(ValueError, match="holds no volume"):
        shingle.Export(path, str(tmp_path / "socket"))
