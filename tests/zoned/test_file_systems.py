"""Real file systems of a real kernel on a volume: made, filled, killed in the middle of fsyncs, mounted again, checked.

The volume is on a ZNS namespace, `shingle volume export` serves it on a Unix socket, and the kernel's NBD client makes a disk of it."""

import os
import pathlib
import shutil

import pytest

from guest import Guest, Zns

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NODE, DISK, SOCKET = "/dev/nvme0n1", "/dev/nbd0", "/run/volume.sock"
#: How to make one, and to look at it when it is not mounted. Each look fails if anything is wrong, and changes nothing.
FILE_SYSTEMS = {
    "ext4": ("mkfs.ext4 -q -F", "e2fsck -fn"),
    "xfs": ("mkfs.xfs -q -f", "xfs_repair -n"),
    "btrfs": ("mkfs.btrfs -q -f", "btrfs check --readonly"),
}
SHORT_TREE = [ROOT / "crates/engine/translation", ROOT / "docs/formats"]
LONG_TREE = [ROOT / "crates", ROOT / "docs", ROOT / "tests", pathlib.Path("/usr/include/linux")]

#: Functions of the guest's shell.
FUNCTIONS = f"""
set -e
serve() {{
    SHINGLE volume export {NODE} --socket {SOCKET} >/run/uris 2>>/run/export.log &
    echo $! >/run/export.pid
    for _ in $(seq 300); do [ -s /run/uris ] && break; sleep 0.1; done
    [ -s /run/uris ] || {{ cat /run/export.log; exit 1; }}
    modprobe nbd
    nbd-client -unix {SOCKET} {DISK} -N nvme0n1 -b 4096 -C 2 >>/run/export.log 2>&1 || {{ cat /run/export.log; exit 1; }}
    for _ in $(seq 100); do [ "$(cat /sys/block/nbd0/size)" != 0 ] && break; sleep 0.1; done
}}
unserve() {{
    nbd-client -d {DISK} >>/run/export.log 2>&1 || true
    for _ in $(seq 100); do [ ! -e /sys/block/nbd0/pid ] && break; sleep 0.1; done
}}
stop() {{
    unserve
    kill -TERM $(cat /run/export.pid)
    for _ in $(seq 300); do [ -e /proc/$(cat /run/export.pid)/exe ] || return 0; sleep 0.1; done
    exit 1
}}
compare() {{
    for tree in TREE; do diff -r --no-dereference $tree /mnt/tree/$(basename $tree); done
}}
load() {{
    mkdir -p /mnt/load
    python3 LOAD write /mnt/load SEED
}}
"""
#: All of it, but for the crash.
FILL = """
SHINGLE volume create NODE --force --yes
serve
MKFS DISK
mount -t NAME DISK /mnt
mkdir /mnt/tree
for tree in TREE; do cp -a $tree /mnt/tree/; done
sync
echo 3 >/proc/sys/vm/drop_caches
compare
"""
KILL = """
load >/run/synced 2>/run/load.err &
for _ in $(seq 600); do [ "$(wc -l </run/synced)" -ge LINES ] && break; sleep 0.1; done
kill -9 $(cat /run/export.pid)
# The kernel would wait for half a minute for the server to come back.
nbd-client -d DISK >>/run/export.log 2>&1 || true
wait $! || true
[ "$(wc -l </run/synced)" -ge LINES ] || { cat /run/load.err /run/export.log; exit 1; }
umount /mnt || umount -l /mnt
unserve
serve
"""
LOOK = """
mount -t NAME DISK /mnt
python3 LOAD verify /mnt/load SYNCED
echo 3 >/proc/sys/vm/drop_caches
compare
umount /mnt
CHECK DISK
stop
SHINGLE volume check NODE
"""


def need(*tools):
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    for tool in tools:
        if not shutil.which(tool, path=path):
            pytest.skip(f"{tool} is not installed")


def programs_of(name):
    make, check = FILE_SYSTEMS[name]
    return "nbd-client", make.split()[0], check.split()[0]


def script(text, shingle, name, tree, **names):
    make, check = FILE_SYSTEMS[name]
    there = [str(folder) for folder in tree if folder.exists()]
    known = {
        "SHINGLE": str(shingle), "NODE": NODE, "DISK": DISK, "NAME": name, "MKFS": make, "CHECK": check,
        "TREE": " ".join(there), "LOAD": str(HERE / "fsync_load.py"), "SEED": "7", "SYNCED": "/run/synced", **names,
    }
    text = FUNCTIONS + text
    for word, value in known.items():
        text = text.replace(word, value)
    return text


@pytest.fixture
def machine(tmp_path, limit):
    """A guest of the test's own, with a ZNS namespace of 900 MiB."""
    zns = Zns(tmp_path / "zns", zones=150, zone_mib=8, capacity_mib=6, open_max=14, active_max=14)
    with Guest(scratch=tmp_path / "scratch", drives=[zns], seconds=limit(900)) as guest:
        yield guest


@pytest.mark.short
def test_ext4_survives_kill_9_of_the_server(machine, shingle):
    need(*programs_of("ext4"))
    said = machine.ok(script(FILL + KILL + LOOK, shingle, "ext4", SHORT_TREE, LINES="200"), seconds=400)
    assert "blocks are there" in said and said.rstrip().endswith("clean"), said


@pytest.mark.parametrize("name", FILE_SYSTEMS)
def test_what_was_fsynced_survives_kill_9_and_a_power_cut(machine, shingle, name):
    need(*programs_of(name))
    again = "mount -t NAME DISK /mnt\npython3 LOAD verify /mnt/load SYNCED\nrm -r /mnt/load\n"
    said = machine.ok(script(FILL + KILL + again, shingle, name, LONG_TREE, LINES="600"), seconds=500)
    assert "blocks are there" in said, said
    machine.start(script("load", shingle, name, LONG_TREE))
    said = machine.hear(lambda said: said.count("\n") > 600, seconds=200) + machine.power_cut()
    synced = machine.scratch / "synced"
    synced.write_text(said)
    said = machine.ok(script("serve\n" + LOOK, shingle, name, LONG_TREE, SYNCED=str(synced)), seconds=300)
    assert "blocks are there" in said and said.rstrip().endswith("clean"), said
