"""The kernel's dm-zoned beside the lab's model of it (crates/app/lab/src/baseline/dm_zoned): blocks that go to the drive for the same writes.

dmzadm is in no Debian package here, so the metadata of an empty target is written by hand, as Linux's
Documentation/admin-guide/device-mapper/dm-zoned.rst and drivers/md/dm-zoned-metadata.c describe it."""

import json
import pathlib
import random
import struct
import subprocess
import zlib

import pytest

from devices import NULL_BLK
from programs import built

HERE = pathlib.Path(__file__).resolve().parent
BLOCK = 4096
#: MiB of a zone, zones, conventional ones among them, and those that are for reclaim alone (dmzadm's default).
ZONE_MIB, ZONES, CONVENTIONAL, RESERVED = 4, 160, 16, 16
ZONE_BLOCKS = ZONE_MIB * (1 << 20) // BLOCK
#: Seconds without a write, in which both reclaim what they can: they are idle after ten.
QUIET = 35
NODE, TARGET = "/dev/nullb0", "/dev/mapper/zoned"


def shape():
    """Blocks of the map and of all bitmaps, zones of a set of metadata, and chunks."""
    mapping = -(-ZONES // 512)
    bitmaps = ZONES * max(1, ZONE_BLOCKS // (BLOCK * 8))
    sets = -(-(1 + mapping + bitmaps) // ZONE_BLOCKS)
    return mapping, bitmaps, sets, ZONES - 2 * sets - RESERVED


def metadata(number):
    """A set of metadata of an empty target: its place in blocks, and its bytes."""
    mapping, bitmaps, sets, chunks = shape()
    generation, at = 1, number * sets * ZONE_BLOCKS
    fields = (0x445A4244, 1, generation, at, 1 + mapping + bitmaps, RESERVED, chunks, mapping, bitmaps)
    block = bytearray(struct.pack("<IIQQIIIII", *fields).ljust(BLOCK, b"\0"))
    # The kernel's CRC begins with the generation, and inverts nothing at its ends.
    checksum = zlib.crc32(block, generation ^ 0xFFFFFFFF) ^ 0xFFFFFFFF
    block[44:48] = struct.pack("<I", checksum)
    return at, bytes(block) + b"\xff" * (mapping * BLOCK) + bytes(bitmaps * BLOCK)


def make_target(guest):
    """A dm-zoned target without data, on a device in memory."""
    settings = {"blocksize": BLOCK, "size": ZONE_MIB * ZONES, "memory_backed": 1, "zoned": 1, "zone_size": ZONE_MIB}
    settings |= {"zone_nr_conv": CONVENTIONAL, "power": 1}
    lines = ["modprobe null_blk nr_devices=0", f"[ ! -e {NULL_BLK} ] || rmdir {NULL_BLK}", f"mkdir {NULL_BLK}"]
    lines += [f"echo {value} >{NULL_BLK}/{key}" for key, value in settings.items()]
    for number in (0, 1):
        at, content = metadata(number)
        (guest.scratch / f"set{number}").write_bytes(content)
        lines.append(f"dd if=set{number} of={NODE} bs={BLOCK} seek={at} oflag=direct conv=notrunc status=none")
    sectors = ZONE_MIB * ZONES * 2048
    lines += ["modprobe dm-zoned", f"dmsetup create zoned --noudevsync --table '0 {sectors} zoned {NODE}'"]
    # No udev runs there.
    lines += ["dmsetup mknodes zoned", f"[ -b {TARGET} ] || {{ dmesg | tail -n 5; exit 1; }}"]
    guest.ok("set -e\n" + "\n".join(lines))


def written_blocks(guest):
    """Blocks that were written to the device so far, as the kernel counts them."""
    return int(guest.ok("cat /sys/block/nullb0/stat").split()[6]) * 512 // BLOCK


def visits(seed, chunks, passes, writes, blocks):
    """Writes at random places of one chunk after the other, in another order in each pass."""
    draw = random.Random(seed)
    for _ in range(passes):
        for chunk in draw.sample(range(chunks), chunks):
            for _ in range(writes):
                yield chunk * ZONE_BLOCKS + draw.randrange(ZONE_BLOCKS - blocks + 1), blocks


def stream(chunks, passes, blocks):
    """Chunks written in order, from the first to the last block."""
    for _ in range(passes):
        for block in range(0, chunks * ZONE_BLOCKS, blocks):
            yield block, blocks


#: Name, writes, and the largest share by which the model may differ: while writes go on, and in all.
LOADS = {
    # More chunks than random zones, so that reclaim works while writes go on: the moments decide some of it.
    "visits": (lambda: visits(seed=1, chunks=24, passes=3, writes=40, blocks=4), 0.25, 0.25),
    # Few chunks: all of it is buffered, and reclaimed when nobody writes.
    "few": (lambda: visits(seed=2, chunks=6, passes=4, writes=60, blocks=4), 0.01, 0.01),
    "stream": (lambda: stream(chunks=8, passes=2, blocks=64), 0.01, 0.01),
}


@pytest.fixture(scope="module")
def model():
    """The lab's model, as a program."""
    return built("lab", "example", "dm-zoned-load", "build", "--workspace")


@pytest.mark.parametrize("load", LOADS)
def test_the_model_writes_as_much_as_the_kernels_own(guest, model, load):
    if guest.run("modprobe -n dm-zoned")[0] != 0 or guest.run("command -v dmsetup")[0] != 0:
        pytest.skip("the guest's kernel has no dm-zoned, or dmsetup is not installed")
    writes, while_busy, in_all = LOADS[load]
    lines = [f"{ZONES} {CONVENTIONAL} {ZONE_BLOCKS}"] + [f"{block} {blocks}" for block, blocks in writes()]
    (guest.scratch / "load").write_text("\n".join(lines) + "\n")
    make_target(guest)
    try:
        before = written_blocks(guest)
        guest.ok(f"python3 {HERE / 'dm_zoned_load.py'} {TARGET} load")
        busy = written_blocks(guest) - before
        guest.ok(f"sleep {QUIET}")
        kernel = {"busy_blocks": busy, "all_blocks": written_blocks(guest) - before}
    finally:
        guest.ok("dmsetup remove --noudevsync zoned")
    said = subprocess.run([model, guest.scratch / "load", str(QUIET)], capture_output=True, text=True, check=True).stdout
    found = json.loads(said)
    for name, largest in (("busy_blocks", while_busy), ("all_blocks", in_all)):
        per_block = [counted[name] / found["user_blocks"] for counted in (kernel, found)]
        print(f"{load}, {name} for each block of a write: {per_block[0]:.3f} by the kernel, {per_block[1]:.3f} by the model")
        assert abs(found[name] / kernel[name] - 1) <= largest, (load, name, kernel, found)
