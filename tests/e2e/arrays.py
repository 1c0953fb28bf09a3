"""Arrays of emulated drives, by their commands."""

import json
import random
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
        # A watcher of the status alone learns that a drive is missing.
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


def blank_drive(folder, name, size="128MiB"):
    drive = folder / name
    ok("drive", "create", drive, "--size", size, "--zone-size", "4MiB", "--conventional", "1")
    return drive


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
