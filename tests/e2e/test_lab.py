"""`shingle lab` is a program of its own, beside the command: a server's program draws no figures."""

import json
import re
import shutil
import subprocess

import pytest
from shingle import BINARY, shingle

LAB = BINARY.with_name("shingle-lab")
# The name of the figures' font, in its table of names; places in the library that draws; the head of a recording.
DRAWING = ["Ubuntu".encode("utf-16-be"), b"plotters-0.", b"shingle-trace 1"]


def test_the_command_hands_over_to_the_lab(tmp_path):
    listed = shingle("lab", "list")
    assert listed.returncode == 0 and "calibrate" in listed.stdout and listed.stderr == "", listed
    wrong = shingle("lab", "run", "no-such", "--out", tmp_path)
    assert wrong.returncode == 1 and "there is no experiment `no-such`" in wrong.stderr, wrong
    unknown = shingle("lab", "run", "--no-such")
    assert unknown.returncode == 2 and "--no-such" in unknown.stderr, unknown
    assert "shingle lab run" in shingle("lab", "run", "--help").stdout


def test_a_command_without_the_lab_says_where_it_looked(tmp_path):
    alone = tmp_path / "bin" / "shingle"
    alone.parent.mkdir()
    shutil.copy(BINARY, alone)
    done = subprocess.run([alone, "lab", "list"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == "", done
    for part in (tmp_path / "bin/shingle-lab", tmp_path / "libexec/shingle/shingle-lab", "cargo build"):
        assert str(part) in done.stderr, done.stderr


@pytest.mark.parametrize("other", ["another version", "another build"])
def test_a_lab_of_another_version_or_build_is_not_run(tmp_path, other):
    alone, lab, ran = tmp_path / "shingle", tmp_path / "shingle-lab", tmp_path / "ran"
    shutil.copy(BINARY, alone)
    own = shingle("--version").stdout.strip().removeprefix("shingle ")
    version, build = re.fullmatch(r"(\S+) \(build ([0-9a-f]{16})\)", own).groups()
    assert shingle("-V").stdout.split() == ["shingle", version]
    other = f"{version} (build {build[::-1]})" if other == "another build" else "0.0.9"
    lab.write_text(f'#!/bin/sh\ncase "$1" in --version) echo "shingle {other}";; *) touch {ran};; esac\n')
    lab.chmod(0o755)
    done = subprocess.run([alone, "lab", "list"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == "" and not ran.exists(), done
    for part in (str(lab), f"version {other},", f"version {own}:", "cargo build --release --bins"):
        assert part in done.stderr, done.stderr


def test_only_the_lab_can_draw():
    command, lab = BINARY.read_bytes(), LAB.read_bytes()
    for part in DRAWING:
        assert part in lab and part not in command, part


def test_the_lab_does_nothing_else():
    done = subprocess.run([LAB, "status"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "call `shingle lab`" in done.stderr, done


def test_a_foreign_trace_is_converted_told_and_replayed(tmp_path):
    lines = [f"{100 + at * 100_000},web,0,{'Write' if at % 4 else 'Read'},{at * 7919 % 4096 * 4096},8192,90000" for at in range(200)]
    csv, trace = tmp_path / "web.csv", tmp_path / "web.trace.gz"
    csv.write_text("\n".join(lines) + "\n")
    unnamed = shingle("lab", "trace", "stat", csv)
    assert unnamed.returncode == 1 and "--format" in unnamed.stderr, unnamed
    done = shingle("lab", "trace", "convert", csv, trace, "--format", "msr", "--infer-dependencies", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["ios"] == 200, done
    stat = json.loads(shingle("lab", "trace", "stat", trace, "--json").stdout)
    assert (stat["format"], stat["reads"]["ios"], stat["writes"]["ios"]) == ("shingle", 50, 150), stat
    assert stat["timed"] == 200 and stat["dependent"] == 199, stat
    how = ["--scale", "quick", "--out", tmp_path / "out", "--json"]
    ran = shingle("lab", "run", "block-replay", "--trace", trace, "--pace", "closed", *how)
    grids = json.loads(ran.stdout.splitlines()[-1])["grids"]
    assert [grid["name"] for grid in grids] == ["block-replay-trace-closed"] and len(grids[0]["rows"]) == 27, ran
    # Nine systems behind three hosts, a volume of ours among them.
    systems = [row["system"] for row in grids[0]["rows"]]
    assert len(set(systems)) == 9 and sum("volume" in system for system in systems) == 3, systems
    assert (tmp_path / "out" / "block-replay-trace-closed.csv").exists()
    other = shingle("lab", "run", "micro-write", "--trace", trace, *how)
    assert other.returncode == 1 and "block-replay" in other.stderr, other
