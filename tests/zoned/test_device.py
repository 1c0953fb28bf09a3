"""The device itself: its contract, and others' views of it beside ours."""

import re
import struct
import uuid
import zlib

import pytest

from devices import blkzone, make_device, report, sufferings

MIB = 1 << 20


def contract_suite(guest, contract, node):
    variables = {"SHINGLE_ZONED_DEVICE": node, **sufferings(guest, node)}
    environment = " ".join(f"{name}='{value}'" for name, value in variables.items())
    said = guest.ok(f"{environment} {contract['device']} --test-threads=1 --nocapture", seconds=600)
    print(said)
    passed = re.search(r"test result: ok. (\d+) passed", said)
    assert passed and int(passed[1]) > 0, said


SHORT = pytest.param("zns", marks=pytest.mark.short)


# The suite takes longest of all here; what `plain` and `conventional` are, `limits` and `zns` are, too.
@pytest.mark.parametrize("device", [SHORT, "capacity", "limits", "scsi"])
def test_the_device_keeps_its_contract(guest, contract, device):
    contract_suite(guest, contract, make_device(guest, device))


def test_an_ordinary_disk_is_an_emulated_zoned_one(guest, contract):
    said = guest.ok(f"SHINGLE_BLOCK_DEVICE=/dev/vda {contract['node']} --test-threads=1 --nocapture", seconds=400)
    assert re.search(r"test result: ok. [1-9]", said) and "skipped" not in said, said


#: Of the ordinary disk, in which partition tables count.
BLOCK = 4096


def gpt_backup(size):
    """The second partition table of a disk: its place, and its entries and head as partition editors write them."""
    entries = bytearray(128 * 128)
    entries[:16] = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4").bytes_le
    entries[16:32] = uuid.uuid4().bytes_le
    last = size // BLOCK - 1
    entries[32:48] = struct.pack("<QQ", 256, last - 256)
    at = last - len(entries) // BLOCK
    places = last, 1, 1 + len(entries) // BLOCK, at - 1
    fields = [b"EFI PART", 0x10000, 92, 0, 0, *places, uuid.uuid4().bytes, at, 128, 128, zlib.crc32(entries)]
    head = lambda: struct.pack("<8sIIIIQQQQ16sQIII", *fields)  # noqa: E731
    fields[3] = zlib.crc32(head())
    return at * BLOCK, bytes(entries) + head().ljust(BLOCK, b"\0")


def md_at_the_end(size):
    """The superblock of an md array of format 1.0: its place, and as much of it as it is recognised by."""
    at = (size // 512 - 16) // 8 * 8
    block = bytearray(4096)
    block[:8], block[128:144] = struct.pack("<II", 0xA92B4EFC, 1), struct.pack("<QQ", 0, 0)
    block[144:152] = struct.pack("<Q", at)
    checksum = sum(struct.unpack("<64I", block[:256]))
    block[216:220] = struct.pack("<I", (checksum & 0xFFFFFFFF) + (checksum >> 32) & 0xFFFFFFFF)
    return at * 512, bytes(block)


def mbr(size):
    """A partition table with one partition on nearly all of the disk."""
    entry = struct.pack("<B3sB3sII", 0, b"\0" * 3, 0x83, b"\0" * 3, 256, size // BLOCK - 512)
    return 0, bytes(446) + entry.ljust(64, b"\0") + b"\x55\xaa"


MARKS = {"btrfs": "mkfs.btrfs -q", "swap": "mkswap", "gpt": gpt_backup, "linux_raid_member": md_at_the_end, "dos": mbr}


@pytest.mark.parametrize("mark", MARKS)
def test_an_emulated_drive_on_a_disk_is_not_taken_for_what_was_there(guest, shingle, mark):
    node = "/dev/vda"
    size = int(guest.ok(f"blockdev --getsize64 {node}"))
    create = f"{shingle} drive create --zone-size 4MiB {node}"
    guest.ok(f"blkdiscard -z {node}")
    if isinstance(MARKS[mark], str):
        guest.ok(f"{MARKS[mark]} {node}")
    else:
        at, content = MARKS[mark](size)
        (guest.scratch / "mark").write_bytes(content)
        guest.ok(f"dd if=mark of={node} bs=512 seek={at // 512} conv=notrunc,fsync status=none")
    guest.ok(f"blockdev --rereadpt {node}")
    assert mark in guest.ok(f"wipefs {node}")
    status, said = guest.run(f"{create} 2>&1")
    assert status == 1 and f"wipefs --all {node}" in said and "blkzone" not in said, said
    guest.ok(f"{create} --force --yes")
    assert guest.ok(f"wipefs {node}") == "", f"a trace of {mark} is left"
    # The kernel has no partition any more, either: the drive is taken as it is.
    guest.ok(f"{shingle} chunk format {node} && {shingle} chunk check {node}")


def test_what_fio_wrote_is_reported_as_the_kernel_reports_it(guest, shingle, node):
    zones = blkzone(guest, node)
    assert report(guest, shingle, node) == zones
    size = zones[1][0]
    first = next(at for at, zone in enumerate(zones) if zone[3] == "em")
    # Whole zones, then parts of three at once.
    guest.ok(fio(node, first * size, 2 * size, "--bs=256k"))
    guest.ok(fio(node, (first + 4) * size, 6 * size, "--bs=64k", "--rw=randwrite", f"--io_size={3 * MIB}"))
    guest.ok(f"blkzone finish -o {(first + 12) * size // 512} -c 1 {node}")
    guest.ok(f"blkzone open -o {(first + 13) * size // 512} -c 1 {node}")
    seen = blkzone(guest, node)
    assert {zone[3] for zone in seen} >= {"em", "fu", "oe"}, seen
    assert sum(zone[2] for zone in seen[first + 4 : first + 10]) == 3 * MIB
    assert report(guest, shingle, node) == seen


def test_zones_stay_as_they_are_between_commands_by_hand(guest, shingle, node):
    zones = blkzone(guest, node)
    size = zones[1][0]
    one, two, three = [at for at, zone in enumerate(zones) if zone[3] == "em"][:3]
    condition = lambda *numbers: [blkzone(guest, node)[number][3] for number in numbers]  # noqa: E731
    guest.ok(f"dd if=/dev/zero of={node} bs=64k count=1 oflag=direct,seek_bytes seek={one * size} conv=notrunc status=none")
    assert condition(one) == ["oi"]
    guest.ok(f"{shingle} drive open {node} {two}")
    guest.ok(f"{shingle} drive open {node} {three}")
    assert condition(one, two, three) == ["oi", "oe", "oe"]
    assert "3 zones closed" in guest.ok(f"{shingle} drive close {node} --all")
    assert set(condition(one, two, three)) <= {"cl", "em"}
    # An engine takes all places for open zones; by hand one then has to say that one means it.
    guest.ok(f"{shingle} drive open {node} {two} && {shingle} drive reset --yes {node} {one}")
    assert condition(one, two) == ["em", "oe"]
    guest.ok(f"{shingle} chunk format {node}")
    assert "oe" not in {zone[3] for zone in blkzone(guest, node)}
    status, said = guest.run(f"{shingle} drive open {node} {three} </dev/null 2>&1", 60)
    assert status == 1 and "chunk store" in said and "--yes" in said, said


def test_what_clears_somebody_elses_mark_is_what_the_refusal_says(guest, shingle, node):
    conventional = blkzone(guest, node)[0][3] == "nw"
    if conventional:
        guest.ok(f"mkswap {node}")
        what, command = "swap space", f"wipefs --all {node}"
    else:
        # No program makes a file system of one block.
        guest.ok("head -c 4096 /dev/zero >block; printf XFSB | dd of=block conv=notrunc status=none")
        guest.ok(f"dd if=block of={node} bs=4096 oflag=direct conv=notrunc status=none")
        what, command = "an XFS file system", f"blkzone reset {node}"
    status, said = guest.run(f"{shingle} drive open {node} 20 2>&1", 60)
    assert status == 1 and what in said and command in said, said
    guest.ok(command)
    guest.ok(f"{shingle} drive open {node} 20 && {shingle} drive close {node} 20")


def test_what_is_written_through_the_engine_is_what_others_read(guest, shingle, node):
    # A pattern that fio knows is stored, and found again on the raw device by its own words.
    guest.ok("yes 'the same bytes by any other way' | head -c 3000000 >bytes")
    guest.ok(f"{shingle} chunk format {node} && {shingle} chunk create {node} 2a && {shingle} chunk append {node} 2a bytes")
    written = [zone for zone in blkzone(guest, node) if zone[2] > 0]
    # dd reads a device past what is written, too: nothing depends on where that ends.
    script = "".join(
        f"dd if={node} bs=64k iflag=direct,skip_bytes,count_bytes skip={start} count={length} status=none\n"
        for start, _, length, _ in written
    )
    count = guest.ok(f"({script}) | grep -ao 'the same bytes by any other way' | wc -l")
    # Some are cut in two by the frames around them.
    assert 3_000_000 // 32 * 0.95 < int(count) <= 3_000_000 // 32 + 1
    guest.ok(f"{shingle} chunk read {node} 2a | cmp - bytes")
    assert report(guest, shingle, node) == blkzone(guest, node)


def fio(node, offset, size, *more):
    options = ["--name=w", f"--filename={node}", "--direct=1", "--zonemode=zbd", "--ioengine=io_uring", "--iodepth=1"]
    options += [f"--offset={offset}", f"--size={size}", "--verify=crc32c", "--do_verify=1", "--output-format=terse"]
    return " ".join(["fio", *options, *(["--rw=write"] if not any("--rw=" in word for word in more) else []), *more])
