"""Finding drives and what is wrong with them, on machines that are made up: trees of /sys, /proc and /dev."""

import gzip
import json
import os
import re

import pytest

from shingle import Server, shingle
from test_bad_input import ok, refused

DISK = {
    "size": "27344764928",
    "ro": "0",
    "queue/zoned": "host-managed",
    "queue/chunk_sectors": "524288",
    "queue/nr_zones": "52156",
    "queue/max_open_zones": "128",
    "queue/max_active_zones": "0",
    "queue/max_sectors_kb": "1024",
    "queue/max_hw_sectors_kb": "4096",
    "queue/logical_block_size": "512",
    "queue/physical_block_size": "4096",
    "queue/scheduler": "none [mq-deadline]",
    "queue/write_cache": "write through",
    "queue/rotational": "1",
    "device/model": "HSH721414AL",
    "device/queue_depth": "32",
    "device/wwid": "naa.5000cca258c0ffee",
    "serial": "VDH7XYZK",
}


class Machine:
    """A made-up machine, well in every respect until something is put there."""

    def __init__(self, root):
        self.root = root
        self.put("proc/sys/kernel/osrelease", "6.1.0-56-amd64")
        self.put("boot/config-6.1.0-56-amd64", "CONFIG_BLK_DEV_ZONED=y\nCONFIG_IO_URING=y")
        self.put("proc/self/limits", "Max locked memory         unlimited            unlimited            bytes")
        self.put("proc/self/mountinfo", "")
        self.put("etc/group", "root:x:0:\ndisk:x:6:")
        (root / "sys/block").mkdir(parents=True)

    def put(self, path, text):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def disk(self, name, number, **attributes):
        folder = self.root / "sys/devices" / name
        wanted = {**DISK, "dev": number, **{key.replace("__", "/"): value for key, value in attributes.items()}}
        for attribute, value in wanted.items():
            if value is not None:
                self.put(folder.relative_to(self.root) / attribute, value)
        (self.root / "sys/block" / name).symlink_to(folder)
        self.put(f"dev/{name}", "")
        os.chmod(self.root / "dev" / name, 0o660)

    def run(self, *arguments, status=0):
        done = shingle("drive", *arguments, "--root", self.root)
        assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
        assert "panicked" not in done.stderr
        return done.stdout

    def refused(self, *arguments):
        """What a command that must fail says."""
        return refused("drive", *arguments, "--root", self.root, status=1)

    def doctor(self, *arguments, status):
        """Findings that are not ok, by what was looked at."""
        answer = json.loads(self.run("doctor", "--json", *arguments, status=status))
        bad = {finding["check"]: finding for finding in answer["findings"] if finding["level"] != "ok"}
        assert len(bad) == answer["problems"] + answer["advice"]
        for finding in bad.values():
            assert finding["why"] and finding["found"], finding
        return bad


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_the_doctor_is_content_with_a_machine_that_is_well(machine):
    machine.disk("sdb", "8:16")
    assert machine.doctor(status=0) == {}
    assert "0 problems" in machine.run("doctor")
    assert "mq-deadline" in machine.run("doctor", "-v")


@pytest.mark.parametrize(
    "check, level, attributes, change",
    [
        ("scheduler", "problem", {"queue__scheduler": "[none] mq-deadline"}, "echo mq-deadline >/sys/block/sdb/queue/scheduler"),
        ("scheduler", "problem", {"queue__scheduler": "[none]"}, "modprobe mq-deadline"),
        ("write-cache", "advice", {"queue__write_cache": "write back"}, "hdparm -W 0"),
        ("write-cache", "advice", {"queue__write_cache": "write back", "device__vendor": "SEAGATE"}, "sdparm"),
        ("queue-depth", "advice", {"device__queue_depth": "1"}, "queue_depth"),
        ("transfer-size", "advice", {"queue__max_sectors_kb": "512"}, "echo 1024 >/sys/block/sdb/queue/max_sectors_kb"),
        ("zone-model", "problem", {"ro": "1"}, "blockdev --setrw"),
        ("in-use", "problem", {"sdb1/partition": "1", "sdb1/dev": "8:17"}, "wipefs"),
        ("in-use", "problem", {"holders/dm-0": ""}, "lsblk"),
    ],
)
def test_the_doctor_says_what_to_change_on_a_drive(machine, check, level, attributes, change):
    machine.disk("sdb", "8:16", **attributes)
    bad = machine.doctor(status=4 if level == "problem" else 1)
    assert list(bad) == [check]
    assert bad[check]["level"] == level and change in bad[check]["change"] and bad[check]["subject"].endswith("/dev/sdb")


@pytest.mark.parametrize(
    "check, level, path, text, change",
    [
        ("kernel-version", "problem", "proc/sys/kernel/osrelease", "5.4.0-9-amd64", "newer kernel"),
        ("kernel-zoned", "problem", "boot/config-6.1.0-56-amd64", "CONFIG_IO_URING=y\n# CONFIG_BLK_DEV_ZONED is not set", "linux-image"),
        ("kernel-io-uring", "problem", "boot/config-6.1.0-56-amd64", "CONFIG_BLK_DEV_ZONED=y", "linux-image"),
        ("io-uring", "problem", "proc/sys/kernel/io_uring_disabled", "2", "io_uring_disabled=0"),
    ],
)
def test_the_doctor_says_what_to_change_on_a_machine(machine, check, level, path, text, change):
    machine.disk("sdb", "8:16")
    machine.put("boot/config-5.4.0-9-amd64", "CONFIG_BLK_DEV_ZONED=y\nCONFIG_IO_URING=y")
    machine.put(path, text)
    bad = machine.doctor(status=4)
    assert list(bad) == [check] and bad[check]["level"] == level and change in bad[check]["change"]


def test_newer_kernels_need_no_scheduler_and_a_packed_configuration_is_read(machine):
    machine.put("proc/sys/kernel/osrelease", "6.12.1")
    (machine.root / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_BLK_DEV_ZONED=y\nCONFIG_IO_URING=y\n"))
    machine.disk("sdb", "8:16", queue__scheduler="[none] mq-deadline")
    assert machine.doctor(status=0) == {}


def test_the_doctor_looks_at_the_file_of_an_emulated_drive(tmp_path):
    ok("drive", "create", tmp_path / "disk.shingle", "--size", "256MiB", "--zone-size", "4MiB")
    assert "its file system has" in ok("drive", "doctor", "-v", tmp_path / "disk.shingle")
    refused("drive", "doctor", tmp_path / "nowhere", status=8)


def test_drives_are_listed(machine):
    machine.disk("sdb", "8:16")
    machine.disk("sda", "8:0", queue__zoned="none", queue__nr_zones="0", serial="ORD1", device__wwid=None)
    text = machine.run("ls")
    assert "VDH7XYZK" in text and "HSH721414AL" in text and "52156" in text and "ORD1" not in text
    assert "ORD1" in machine.run("ls", "--all")
    drive = json.loads(machine.run("ls", "--json"))["drives"][0]
    assert (drive["zones"], drive["zone_size_bytes"], drive["open_zones_max"]) == (52156, 256 << 20, 128)
    assert drive["names"][:2] == ["serial:VDH7XYZK", "wwn:naa.5000cca258c0ffee"]


def test_a_drive_is_found_by_what_does_not_change(machine):
    machine.disk("sdb", "8:16")
    machine.disk("sdc", "8:32", serial="OTHER", device__wwid="naa.5000cca258c0fff0")
    node = f"{machine.root}/dev/sdb\n"
    for name in ("serial:VDH7XYZK", "VDH7XYZK", "wwn:naa.5000cca258c0ffee", "wwn:0x5000CCA258C0FFEE"):
        assert machine.run("identify", name) == node
    machine.run("identify", "serial:NOBODY", status=1)
    machine.run("identify", "uuid:0123456789abcdef", status=1)
    assert "serial:VDH7XYZK" in machine.run("identify", machine.root / "dev/sdb")


def test_a_name_that_two_drives_have_is_refused(machine):
    # Two actuators: one serial number, two drives.
    machine.disk("sdb", "8:16")
    machine.disk("sdc", "8:32", device__wwid="naa.5000cca258c0ffef")
    said = machine.refused("identify", "serial:VDH7XYZK")
    assert "dev/sdb" in said and "dev/sdc" in said and "another of its names" in said
    assert machine.run("identify", "wwn:naa.5000cca258c0ffef") == f"{machine.root}/dev/sdc\n"
    assert "same drive" not in machine.run("ls")


def test_two_paths_to_one_drive_are_said_to_be_that_and_neither_is_picked(machine):
    machine.disk("sdb", "8:16")
    machine.disk("sdc", "8:32")
    for name in ("serial:VDH7XYZK", "wwn:naa.5000cca258c0ffee"):
        said = machine.refused("identify", name)
        assert "dev/sdb" in said and "dev/sdc" in said and "paths to one drive" in said and "multipathd" in said
    assert f"the same drive as {machine.root}/dev/sdc" in machine.run("ls")
    assert [drive["same_drive"] for drive in json.loads(machine.run("ls", "--json"))["drives"]] == [
        [f"{machine.root}/dev/sdc"],
        [f"{machine.root}/dev/sdb"],
    ]


def test_what_joins_two_paths_is_the_drive(machine):
    machine.disk("sdb", "8:16", **{"holders/dm-0": ""})
    machine.disk("sdc", "8:32", **{"holders/dm-0": ""})
    own = {key.replace("/", "__"): None for key in DISK if key.startswith("device/") or key == "serial"}
    machine.disk("dm-0", "253:0", dm__uuid="mpath-35000cca258c0ffee", **own)
    slaves = machine.root / "sys/devices/dm-0/slaves"
    slaves.mkdir()
    for name in ("sdb", "sdc"):
        (slaves / name).symlink_to(machine.root / "sys/devices" / name)
    for name in ("serial:VDH7XYZK", "wwn:naa.5000cca258c0ffee", "VDH7XYZK"):
        assert machine.run("identify", name) == f"{machine.root}/dev/dm-0\n"
    rows = {line.split()[0].rpartition("/")[2]: line for line in machine.run("ls").splitlines()[1:]}
    assert "a path to" in rows["sdb"] and "a path to" in rows["sdc"] and "VDH7XYZK" in rows["dm-0"]
    assert f"joins the paths {machine.root}/dev/sdb, {machine.root}/dev/sdc" in rows["dm-0"]


def test_an_emulated_drive_is_found_by_its_store(tmp_path):
    drives = [tmp_path / name for name in ("a.shingle", "b.shingle")]
    for path in drives:
        ok("drive", "create", path, "--size", "256MiB", "--zone-size", "4MiB")
        ok("chunk", "format", path)
    store = re.search(r"^store\s+(\S+)", ok("drive", "identify", drives[1]), re.M)[1]
    assert ok("drive", "identify", f"uuid:{store}", *drives) == f"{drives[1]}\n"
    assert store in ok("drive", "ls", *drives) and store in ok("chunk", "stat", drives[1])


def test_a_drive_that_is_served_can_be_looked_at(tmp_path):
    server = Server(tmp_path / "data").start()
    try:
        drive = tmp_path / "data" / "drive-0.zoned"
        assert "chunk store" in ok("drive", "ls", drive)
        assert len(ok("drive", "report", drive).splitlines()) == 257
        assert "in use" in ok("drive", "map", drive)
        refused("drive", "reset", drive, "20", "--yes", says=["in use"])
    finally:
        server.stop()


def test_a_server_says_that_a_drive_it_is_told_of_is_not_there(tmp_path):
    (tmp_path / "shingle.toml").write_text('[[drive]]\npath = "serial:NOBODY-HAS-THIS"\n')
    refused("serve", "--config", tmp_path / "shingle.toml", "--data", tmp_path / "data", says=["NOBODY-HAS-THIS", "drive ls"])
