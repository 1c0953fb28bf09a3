"""Shingle's drives and volumes as disks of the kernel, by ublk: the kernel's own rules, tools and file systems on them.

Needs a kernel with ublk's zoned disks (6.6); `scripts/guest-kernel` downloads one."""

import os
import re
import shutil

import pytest

from devices import blkzone, report
from guest import Guest, kernel_from
from test_device import contract_suite, fio

MIB = 1 << 20
#: Shapes of emulated drives: a disk, and an SSD whose zones are not writable to their ends.
SHAPES = {
    "hm-smr": "--kind hm-smr --size 1GiB --zone-size 4MiB --conventional 16 --max-open 14",
    "zns": "--kind zns --size 1GiB --zone-size 8MiB --zone-capacity 6MiB --max-open 14 --max-active 14",
}
DRIVE = "/run/drive.shingle"
#: Ends the serving process in order, and waits for that. The node of NBD stays.
END = "kill -TERM $(cat /run/served.pid); for _ in $(seq 300); do [ -e /proc/$(cat /run/served.pid)/exe ] || exit 0; sleep 0.1; done; exit 1"


@pytest.fixture(scope="module")
def machine(tmp_path_factory, limit):
    """A guest with a kernel that has ublk."""
    kernel = kernel_from(6, 6)
    if kernel is None:
        pytest.skip("no kernel with ublk's zoned disks is here: `scripts/guest-kernel` downloads one")
    with Guest(scratch=tmp_path_factory.mktemp("ublk") / "scratch", seconds=limit(1200), kernel=kernel) as guest:
        yield guest


class Served:
    """A process of `shingle` that serves a disk in a guest, from `verb` on."""

    def __init__(self, guest, shingle, verb, drive=DRIVE, options=""):
        self.guest, self.command = guest, f"{shingle} {verb} {drive} {options} --log info"
        self.start()

    def start(self):
        self.guest.ok(f"rm -f /run/node; {self.command} >/run/node 2>>/run/served.log & echo $! >/run/served.pid")
        self.node = self.guest.ok(
            "for _ in $(seq 200); do [ -s /run/node ] && break; sleep 0.1; done; cat /run/node; "
            "[ -s /run/node ] || { tail -n 20 /run/served.log; exit 1; }"
        ).strip()

    def kill(self, signal):
        """Ends the process: its node must go, and after an end in order all of the disk."""
        self.guest.ok(f"kill -{signal} $(cat /run/served.pid)")
        self.gone()

    def gone(self, seconds=120):
        self.guest.ok(
            f"for _ in $(seq {seconds * 10}); do [ -e /proc/$(cat /run/served.pid)/exe ] || [ -e {self.node} ] || exit 0; sleep 0.1; done; "
            "tail -n 20 /run/served.log; exit 1"
        )

    def left(self):
        """Nodes that are left of disks."""
        return self.guest.ok("ls /dev | grep -E 'ublk[bc]' || true").split()


@pytest.fixture
def drive(machine, shingle, request):
    """An attached drive of the shape that the test names, or of that of an SSD."""
    shape = getattr(request, "param", "zns")
    machine.ok(f"rm -f {DRIVE} && {shingle} drive create {DRIVE} {SHAPES[shape]}")
    served = Served(machine, shingle, "drive attach")
    yield served
    machine.run("umount /mnt 2>/dev/null; kill -TERM $(cat /run/served.pid)")
    served.gone()


def test_a_kernel_without_ublk_is_told_of_with_the_remedy(guest, shingle):
    if guest.run("[ -e /dev/ublk-control ] || modprobe ublk_drv")[0] == 0:
        pytest.skip("the installed kernel has ublk")
    guest.ok(f"{shingle} drive create {DRIVE} {SHAPES['hm-smr']}")
    status, said = guest.run(f"{shingle} drive attach {DRIVE} 2>&1", 60)
    assert status == 1 and "no ublk driver" in said and "modprobe ublk_drv" in said, said
    # A volume goes by NBD then, unless ublk was asked for.
    guest.ok(f"{shingle} volume create {DRIVE} --yes")
    status, said = guest.run(f"{shingle} volume attach {DRIVE} --by ublk 2>&1", 60)
    assert status == 1 and "no ublk driver" in said, said
    if shutil.which("nbd-client", path=os.environ["PATH"] + ":/usr/sbin"):
        served = Served(guest, shingle, "volume attach")
        assert served.node.startswith("/dev/nbd"), served.node
        guest.ok(END)


@pytest.mark.parametrize("drive", SHAPES, indirect=True)
def test_the_kernel_sees_the_drive_as_shingle_does(machine, shingle, drive):
    zones = blkzone(machine, drive.node)
    assert report(machine, shingle, DRIVE) == zones and len(zones) in (128, 256)
    limits = machine.ok("cd /sys/block/ublkb0/queue; cat zoned max_open_zones max_active_zones write_cache logical_block_size")
    active = "14" if zones[0][3] == "em" else "0"
    assert limits.split("\n")[:5] == ["host-managed", "14", active, "write back", "4096"], limits
    first = next(at for at, zone in enumerate(zones) if zone[3] == "em")
    size = zones[1][0]
    sector = lambda zone: (first + zone) * size // 512  # noqa: E731
    # Whole zones, then parts of several at once; all of it read back and verified.
    machine.ok(fio(drive.node, first * size, 2 * size, "--bs=256k"))
    machine.ok(fio(drive.node, (first + 4) * size, 6 * size, "--bs=64k", "--rw=randwrite", f"--io_size={3 * MIB}"))
    machine.ok(f"blkzone finish -o {sector(12)} -c 1 {drive.node} && blkzone open -o {sector(13)} -c 1 {drive.node}")
    machine.ok(f"blkzone open -o {sector(14)} -c 1 {drive.node} && blkzone close -o {sector(14)} -c 1 {drive.node}")
    machine.ok(f"blkzone reset -o {sector(0)} -c 1 {drive.node}")
    seen = blkzone(machine, drive.node)
    assert [zone[3] for zone in seen[first : first + 2]] == ["em", "fu"]
    assert [zone[3] for zone in seen[first + 12 : first + 15]] == ["fu", "oe", "em"]
    assert sum(zone[2] for zone in seen[first + 4 : first + 10]) == 3 * MIB
    assert report(machine, shingle, DRIVE) == seen
    machine.ok(f"blkzone reset {drive.node}")
    assert {zone[3] for zone in blkzone(machine, drive.node)[first:]} == {"em"}
    drive.kill("TERM")
    assert drive.left() == [], "an end in order leaves nothing"
    assert report(machine, shingle, DRIVE) == zones
    drive.start()
    assert blkzone(machine, drive.node) == zones


def test_rules_of_zones_hold(machine, shingle, drive):
    """UB-ACK-1, and ZL-UB-2: were a refused command not answered, the end in order would wait for ever."""
    node, size = drive.node, 8 * MIB
    write = f"dd if=/dev/urandom of={node} bs=64k oflag=direct,seek_bytes conv=notrunc status=none"
    machine.ok(f"{write} count=2 seek=0")
    status, said = machine.run(f"{write} count=1 seek={size + 65536}")
    assert status != 0 and "Input/output error" in said, "away from the write pointer"
    assert machine.run(f"{write} count=1 seek=0")[0] != 0, "written again"
    # Behind the pointer are zeros, in the zone and behind its capacity.
    read = f"dd if={node} bs=64k count=126 iflag=skip_bytes,direct skip=131072 status=none"
    assert machine.ok(f"{read} | wc -c; {read} | tr -d '\\0' | wc -c").split() == [str(126 * 65536), "0"]
    # 14 places: one is the written zone's.
    for zone in range(1, 14):
        machine.ok(f"blkzone open -o {zone * size // 512} -c 1 {node}")
    status, said = machine.run(f"blkzone open -o {14 * size // 512} -c 1 {node}")
    assert status != 0 and re.search("Too many references|Value too large|Input/output", said), said
    assert [zone[3] for zone in blkzone(machine, node)[:15]] == ["oi"] + ["oe"] * 13 + ["em"]
    machine.ok(f"blkzone close -o 0 -c {14 * size // 512} {node}")
    # Written to the end of its capacity, it is full, and takes no more.
    machine.ok(f"{write} count=94 seek=131072")
    assert blkzone(machine, node)[0][2:] == (6 * MIB, "fu")
    assert machine.run(f"{write} count=1 seek={6 * MIB}")[0] != 0


def test_the_device_contract_holds_through_the_kernel(machine, contract, drive):
    contract_suite(machine, contract, drive.node)


def test_a_drive_is_attached_once_and_detached_by_its_node(machine, shingle, drive):
    status, said = machine.run(f"{shingle} drive attach {DRIVE} 2>&1", 60)
    assert status == 1 and "in use" in said, said
    status, said = machine.run(f"{shingle} drive attach {drive.node} 2>&1", 60)
    assert status == 78 and "zoned disk of the kernel already" in said, said
    for other in ("/dev/vda", "/dev/ublkb7", "/dev/null"):
        status, said = machine.run(f"{shingle} drive detach {other} 2>&1", 60)
        assert status == 1 and "no disk that Shingle made" in said, said
    machine.ok(f"{shingle} drive detach {drive.node}")
    drive.gone()
    assert drive.left() == []
    drive.command += " --read-only"
    drive.start()
    assert machine.ok("cat /sys/block/ublkb0/ro").strip() == "1"
    assert machine.run(f"blkzone finish {drive.node} -c 16384")[0] != 0
    assert {zone[3] for zone in blkzone(machine, drive.node)} == {"em"}


#: Of zoned file systems: how to make one, and to mount it.
FILE_SYSTEMS = [
    pytest.param("hm-smr", "f2fs", "mkfs.f2fs -q -f -m", "fsck.f2fs --dry-run", id="f2fs"),
    pytest.param("hm-smr", "btrfs", "mkfs.btrfs -q -f -d single -m single", "btrfs check --readonly", id="btrfs"),
    pytest.param("zns", "btrfs", "mkfs.btrfs -q -f -d single -m single", "btrfs check --readonly", id="btrfs on an SSD"),
]


def need(*commands):
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    for tool in (command.split()[0] for command in commands):
        if not shutil.which(tool, path=path):
            pytest.skip(f"{tool} is not installed")


@pytest.mark.parametrize("drive, name, make, check", FILE_SYSTEMS, indirect=["drive"])
def test_zoned_file_systems_work_on_it(machine, shingle, drive, name, make, check):
    need(make, check)
    tree = "/usr/include/linux"
    again = f"mount -t {name} {drive.node} /mnt && diff -r {tree} /mnt/tree && umount /mnt && {check} {drive.node}"
    machine.ok(f"{make} {drive.node} && mount -t {name} {drive.node} /mnt && cp -a {tree} /mnt/tree && sync && umount /mnt")
    machine.ok(again, seconds=200)
    # The drive's file has all of it.
    drive.kill("TERM")
    drive.start()
    machine.ok(again, seconds=200)


def test_kill_9_costs_nothing_that_was_answered(machine, shingle, drive):
    """SV-DSK-1."""
    node = drive.node
    # Stamped blocks, one zone after the other, and a line for each that was answered.
    writer = f"""python3 - >/run/answered 2>/run/writer.err <<'END' &
import mmap, os, struct
disk = os.open("{node}", os.O_WRONLY | os.O_DIRECT)
memory = mmap.mmap(-1, 16384)
zone = block = 0
while True:
    memory[:] = b"".join(struct.pack("<Q", zone << 32 | block + number) * 512 for number in range(4))
    assert os.pwrite(disk, memory, zone * {8 * MIB} + block * 4096) == 16384
    print(zone, block, flush=True)
    block += 4
    if block == 1536:
        zone, block = zone + 1, 0
END"""
    machine.ok(writer)
    machine.ok("for _ in $(seq 300); do [ $(wc -l </run/answered) -ge 300 ] && exit 0; sleep 0.1; done; cat /run/writer.err; exit 1", 60)
    drive.kill("KILL")
    answered = machine.ok("cat /run/answered").splitlines()
    drive.start()
    assert [name for name in drive.left() if name.startswith("ublkb")] == [os.path.basename(drive.node)]
    assert [name for name in drive.left() if name.startswith("ublkc")] == ["ublkc" + drive.node.removeprefix("/dev/ublkb")]
    assert report(machine, shingle, DRIVE) == blkzone(machine, drive.node)
    checker = f"""
import struct, sys
disk = open("{drive.node}", "rb")
for line in open("/run/answered"):
    zone, block = map(int, line.split())
    disk.seek(zone * {8 * MIB} + block * 4096)
    found = disk.read(16384)
    assert found == b"".join(struct.pack("<Q", zone << 32 | block + number) * 512 for number in range(4)), line
print("all", "are", "there")
"""
    (machine.scratch / "checker.py").write_text(checker)
    assert 300 <= len(answered)
    assert "all are there" in machine.ok(f"python3 {machine.scratch}/checker.py")
    # It goes on at the write pointer.
    zone, block = map(int, answered[-1].split())
    pointer = blkzone(machine, drive.node)[zone][2]
    assert pointer >= block * 4096 + 16384
    machine.ok(f"dd if=/dev/zero of={drive.node} bs=4096 count=1 oflag=direct seek={zone * 2048 + pointer // 4096} conv=notrunc status=none")


VOLUME = "/run/volume.shingle"
LOAD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fsync_load.py")


@pytest.fixture
def volume(machine, shingle):
    """An attached volume on an emulated drive."""
    machine.ok(f"rm -f {VOLUME} && {shingle} drive create {VOLUME} {SHAPES['hm-smr']} && {shingle} volume create {VOLUME} --yes")
    served = Served(machine, shingle, "volume attach", VOLUME)
    yield served
    machine.run("umount /mnt 2>/dev/null; kill -TERM $(cat /run/served.pid)")
    served.gone()


def test_a_volume_is_an_ordinary_disk(machine, shingle, volume):
    assert volume.node.startswith("/dev/ublkb"), "the kernel has ublk, so that is the way"
    queue = f"/sys/block/{os.path.basename(volume.node)}/queue"
    said = machine.ok(f"cd {queue}; cat zoned write_cache fua logical_block_size; cat discard_max_bytes write_zeroes_max_bytes")
    assert said.split("\n")[:6] == ["none", "write back", "1", "4096", str(1 << 30), str(1 << 30)], said
    options = f"--filename={volume.node} --direct=1 --ioengine=io_uring --iodepth=16 --size=24M --output-format=terse"
    machine.ok(f"fio --name=w {options} --rw=randwrite --bs=4k --verify=crc32c --do_verify=1 --fdatasync=64")
    machine.ok(f"fio --name=w {options} --rw=write --bs=1M --verify=crc32c --do_verify=1")
    # Zeros that are asked for, and a discard; all around stays.
    first = f"dd if={volume.node} bs=1M count=3 iflag=direct status=none"
    kept = machine.ok(f"{first} | head -c 1048576 | sha256sum")
    machine.ok(f"blkdiscard -z -o 1048576 -l 2097152 {volume.node}")
    assert machine.ok(f"{first} | tail -c 2097152 | tr -d '\\0' | wc -c").strip() == "0"
    machine.ok(f"blkdiscard -o {8 << 20} -l {32 << 20} {volume.node}")
    assert machine.ok(f"{first} | head -c 1048576 | sha256sum") == kept
    # Commands reach the volume while it is attached.
    machine.ok(f"{shingle} volume snapshot take {VOLUME} before")
    assert "before" in machine.ok(f"{shingle} volume snapshot ls {VOLUME}")
    machine.ok(f"mkfs.ext4 -q -F {volume.node} && mount {volume.node} /mnt")
    status, said = machine.run(f"{shingle} volume detach {volume.node} 2>&1", 60)
    assert status == 1 and "/mnt" in said and "unmount it first" in said, said
    machine.ok(f"umount /mnt && {shingle} volume detach {volume.node}")
    volume.gone()
    assert volume.left() == []
    assert machine.ok(f"{shingle} volume check {VOLUME}").rstrip().endswith("clean")
    volume.command += " --read-only"
    volume.start()
    assert machine.run(f"blkdiscard {volume.node}")[0] != 0
    machine.ok(f"e2fsck -fn {volume.node}")


def test_the_way_to_a_disk_can_be_chosen(machine, shingle, volume):
    status, said = machine.run(f"{shingle} volume attach {VOLUME} --by ublk --device /dev/nbd0 2>&1", 60)
    assert status == 1 and "for a disk by NBD" in said, said
    volume.kill("TERM")
    if shutil.which("nbd-client", path=os.environ["PATH"] + ":/usr/sbin"):
        volume.command += " --by nbd"
        volume.start()
        assert volume.node.startswith("/dev/nbd")
        machine.ok(END)
        volume.command = volume.command.replace(" --by nbd", "")
    volume.start()


def test_ext4_survives_an_end_in_order_while_it_is_mounted(machine, shingle, volume):
    """UB-END-1."""
    tree = "/usr/include/linux"
    machine.ok(f"mkfs.ext4 -q -F {volume.node} && mount {volume.node} /mnt && cp -a {tree} /mnt/tree")
    # Nothing was synced: the kernel writes what it holds before the disk goes.
    machine.ok(END)
    machine.ok("umount /mnt")
    volume.start()
    # The journal is played first.
    machine.ok(f"mount {volume.node} /mnt && diff -r --no-dereference {tree} /mnt/tree && umount /mnt && e2fsck -fn {volume.node}")


@pytest.mark.parametrize("rounds", [2])
def test_what_was_fsynced_survives_kill_9(machine, shingle, volume, rounds):
    tree = "/usr/include/linux"
    machine.ok(f"mkfs.ext4 -q -F {volume.node} && mount {volume.node} /mnt && mkdir /mnt/load && cp -a {tree} /mnt/tree && sync")
    for number in range(rounds):
        machine.ok(f"rm -rf /mnt/load/* && python3 {LOAD} write /mnt/load {number} >/run/synced 2>/run/load.err &")
        machine.ok("for _ in $(seq 600); do [ $(wc -l </run/synced) -ge 400 ] && exit 0; sleep 0.1; done; cat /run/load.err; exit 1", 120)
        volume.kill("KILL")
        machine.ok("for _ in $(seq 100); do pgrep -f fsync_load.py >/dev/null || break; sleep 0.1; done; umount /mnt || umount -l /mnt")
        volume.start()
        machine.ok(f"mount {volume.node} /mnt")
        assert "blocks are there" in machine.ok(f"python3 {LOAD} verify /mnt/load /run/synced")
        machine.ok(f"echo 3 >/proc/sys/vm/drop_caches; diff -r --no-dereference {tree} /mnt/tree")
    machine.ok(f"umount /mnt && e2fsck -fn {volume.node}")
    volume.kill("TERM")
    assert machine.ok(f"{shingle} volume check {VOLUME}").rstrip().endswith("clean")


def test_a_partition_is_a_disk_of_its_own(machine, shingle):
    machine.ok(f"rm -f {DRIVE} && {shingle} drive create {DRIVE} {SHAPES['zns']}")
    machine.ok(f"{shingle} drive partition add {DRIVE} one=256MiB,open=4,active=4 two=max --yes")
    served = Served(machine, shingle, "drive attach", f"'{DRIVE}#one'")
    zones = blkzone(machine, served.node)
    assert report(machine, shingle, f"'{DRIVE}#one'") == zones and {zone[3] for zone in zones} == {"em"}
    assert machine.ok("cd /sys/block/ublkb0/queue; cat max_open_zones max_active_zones").split() == ["4", "4"]
    machine.ok(fio(served.node, 0, 2 * 8 * MIB, "--bs=256k"))
    seen = blkzone(machine, served.node)
    assert [zone[3] for zone in seen[:3]] == ["fu", "fu", "em"]
    served.kill("TERM")
    assert report(machine, shingle, f"'{DRIVE}#one'") == seen
    assert {zone[3] for zone in report(machine, shingle, f"'{DRIVE}#two'")} == {"em"}
