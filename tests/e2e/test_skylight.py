"""`shingle skylight`: modelled drives, and files, of which it must claim nothing."""

import json
import os
import signal
import subprocess
import time

import pytest

from shingle import BINARY, TARGET, shingle

#: Files on the build's file system have direct access; those in memory may not.
PLACE = TARGET


def looked(*arguments):
    done = shingle("skylight", *arguments, "--json")
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def answers(found):
    return {known["name"]: known["answer"] for known in found["report"]["properties"]}


def test_a_modelled_drive_is_told_with_its_meaning_profile_and_figures(tmp_path):
    profile, figures = tmp_path / "emitted.toml", tmp_path / "figures"
    found = looked("model:st5000as0011", "--profile", profile, "--figures", figures)
    assert (found["schema"], found["writable"]) == (1, True)
    said = answers(found)
    assert "shingled" in said["type"] and "outer" in said["cache-location"] and "8 MiB" in said["streaming"], said
    assert {meaning["of"] for meaning in found["report"]["meanings"]} >= {"File systems", "RAID", "Backups"}
    drawn = {path.name.split("-")[1] for path in figures.glob("*.svg")}
    assert drawn >= {"2.4", "2.7", "2.8", "2.10", "2.15", "2.16", "2.17", "2.18", "2.19", "2.21", "2.22"}, drawn
    again = answers(looked(f"model:{profile}"))
    assert again["type"] == said["type"] and again["bands"] == said["bands"], again
    words = shingle("skylight", f"model:{profile}")
    assert "File systems" in words.stdout and "% sure" in words.stdout, words.stdout


def test_a_conventional_drive_and_an_ssd_are_not_called_shingled():
    assert answers(looked("model:st4000nc001"))["type"].startswith("conventional")
    assert answers(looked("model:ssd-3840"))["type"] is None


def test_a_loop_device_is_never_called_shingled():
    if os.geteuid() != 0 or subprocess.run(["losetup", "--find"], capture_output=True).returncode != 0:
        pytest.skip("this machine has no loop devices for us")
    file = PLACE / f"skylight-loop-{os.getpid()}.img"
    file.write_bytes(b"")
    os.truncate(file, 1 << 30)
    device = None
    try:
        made = subprocess.run(["losetup", "--find", "--show", file], capture_output=True, text=True)
        if made.returncode != 0:
            pytest.skip(f"no loop device: {made.stderr}")
        device = made.stdout.strip()
        found = looked(device)
        assert not found["writable"] and answers(found)["type"] is None, found["report"]
        found = looked(device, "--destroy", device)
        kind = answers(found)["type"]
        assert found["writable"] and (kind is None or kind.startswith("conventional")), found["report"]
    finally:
        if device is not None:
            subprocess.run(["losetup", "--detach", device], check=True)
        file.unlink(missing_ok=True)


def test_a_file_is_never_called_shingled_and_is_written_only_if_it_is_named():
    file = PLACE / f"skylight-{os.getpid()}.img"
    try:
        file.write_bytes(b"")
        os.truncate(file, 2 << 30)
        found = looked(file)
        assert not found["writable"] and answers(found)["type"] is None, found["report"]
        wrong = shingle("skylight", file, "--destroy", "/another/file")
        assert wrong.returncode == 1 and "must be the same path" in wrong.stderr, wrong
        assert file.stat().st_blocks == 0, "it was written"
        found = looked(file, "--destroy", file)
        assert found["writable"], found
        kind = answers(found)["type"]
        assert kind is None or kind.startswith("conventional"), found["report"]
    finally:
        file.unlink(missing_ok=True)


def test_a_stopped_survey_goes_on_and_a_state_of_another_drive_is_refused(tmp_path):
    state = tmp_path / "drive.state"
    stopped = subprocess.Popen(
        [BINARY, "skylight", "model:st8000as0002", "--state", state, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not state.exists() and stopped.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    stopped.send_signal(signal.SIGINT)
    _, said = stopped.communicate(timeout=60)
    assert stopped.returncode == 130 and "the same command goes on" in said, (stopped.returncode, said)
    kept = json.loads(state.read_text())
    assert kept["findings"]["turn"] and not kept["findings"]["torn"], "it was stopped before its end"
    resumed = shingle("skylight", "model:st8000as0002", "--state", state, "--json")
    assert resumed.returncode == 0 and "steps left" in resumed.stderr, resumed
    found = json.loads(resumed.stdout)["findings"]
    assert found["turn"] == kept["findings"]["turn"] and found["torn"], found
    other = shingle("skylight", "model:st5000as0011", "--state", state)
    assert other.returncode == 1 and "another drive" in other.stderr, other
    state.write_text('{"kind": "shingle-skylight-state", "schema": 99}')
    newer = shingle("skylight", "model:st8000as0002", "--state", state)
    assert newer.returncode == 1 and "version 99" in newer.stderr, newer


def test_what_cannot_be_examined_is_refused():
    for arguments, words in [
        (["model:hc650"], "zoned drive"),
        (["model:st4000nc001", "--destroy", "model:st4000nc001"], "real drives"),
        (["/nonexistent"], "no such drive"),
        (["model:st4000nc001", "--skip", "nothing"], "no step `nothing`"),
    ]:
        done = shingle("skylight", *arguments)
        assert done.returncode == 1 and words in done.stderr and done.stdout == "", done
