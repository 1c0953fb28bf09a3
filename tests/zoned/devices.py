"""Zoned devices in a guest, and two views of their zones: the kernel's and ours."""

import contextlib
import json

#: Shapes of null_blk. What is not said is the kernel's default: no conventional zones, capacity as large as size, no limits.
SHAPES = {
    "plain": {"zone_size": 4},
    "conventional": {"zone_size": 4, "zone_nr_conv": 8},
    "capacity": {"zone_size": 8, "zone_capacity": 6},
    "limits": {"zone_size": 4, "zone_nr_conv": 4, "zone_max_open": 14, "zone_max_active": 20},
}
#: A host-managed SCSI disk with blocks of 512 bytes, some of them unreadable if told so.
SCSI = "zbc=host-managed zone_size_mb=4 zone_nr_conv=4 zone_max_open=14 dev_size_mb=256 sector_size=512 delay=0"
DEVICES = [*SHAPES, "zns", "scsi"]
#: Where the drivers are told what their devices do.
NULL_BLK = "/sys/kernel/config/nullb/nullb0"
SCSI_DEBUG = "/sys/bus/pseudo/drivers/scsi_debug"


def make_device(guest, name):
    """A device of that name with nothing on it: its node."""
    if name == "zns":
        guest.ok("blkzone reset /dev/nvme0n1")
        return "/dev/nvme0n1"
    if name == "scsi":
        guest.ok(f"modprobe -r scsi_debug; modprobe sd_mod; modprobe scsi_debug {SCSI}\n" + wait_for("/dev/sda"))
        return "/dev/sda"
    settings = {"blocksize": 4096, "size": 384, "memory_backed": 1, "zoned": 1, **SHAPES[name], "power": 1}
    lines = ["modprobe null_blk nr_devices=0", f"[ ! -e {NULL_BLK} ] || rmdir {NULL_BLK}", f"mkdir {NULL_BLK}"]
    lines += [f"echo {value} >{NULL_BLK}/{key}" for key, value in settings.items()]
    guest.ok("set -e\n" + "\n".join(lines))
    return "/dev/nullb0"


@contextlib.contextmanager
def read_errors(guest, zone, block):
    """A block of the SCSI disk, by its place in a zone, cannot be read meanwhile."""
    parameters = "/sys/module/scsi_debug/parameters"
    sector = (zone * 1024 + block) * 8
    guest.ok(f"echo {sector} >{parameters}/medium_error_start; echo 8 >{parameters}/medium_error_count")
    guest.ok(f"echo 2 >{SCSI_DEBUG}/opts")
    try:
        yield
    finally:
        guest.ok(f"echo 0 >{SCSI_DEBUG}/opts")


def wait_for(node):
    return f"for _ in $(seq 100); do [ -b {node} ] && exit; sleep 0.1; done; exit 1"


def sufferings(guest, node):
    """What a device can be made to suffer: variables of crates/device/zoned-linux/tests/device.rs."""
    if node == "/dev/nullb0":
        can = {"SHINGLE_ZONED_REMOVE": f"echo 0 >{NULL_BLK}/power", "SHINGLE_ZONED_RESTORE": f"echo 1 >{NULL_BLK}/power"}
        # Linux 6.2 brought it, and later updates of 6.1.
        if guest.run(f"[ -e {NULL_BLK}/zone_readonly ]")[0] == 0:
            can["SHINGLE_ZONED_READONLY"] = f"echo $SECTOR >{NULL_BLK}/zone_readonly"
            can["SHINGLE_ZONED_OFFLINE"] = f"echo $SECTOR >{NULL_BLK}/zone_offline"
        return can
    if node == "/dev/sda":
        disk = "/sys/block/sda/device"
        return {
            "SHINGLE_ZONED_REMOVE": f"echo 1 >{disk}/delete",
            "SHINGLE_ZONED_RESTORE": "for host in /sys/class/scsi_host/*; do echo - - - >$host/scan; done; sleep 2",
            # The driver's own place for unreadable sectors is 0x1234.
            "SHINGLE_ZONED_BAD": str(0x1234 // 8),
            "SHINGLE_ZONED_BREAK": f"echo 2 >{SCSI_DEBUG}/opts",
            "SHINGLE_ZONED_MEND": f"echo 0 >{SCSI_DEBUG}/opts",
            # Every command is lost; the kernel tries for half a minute to bring the disk to reason, and gives it up.
            "SHINGLE_ZONED_STALL": f"echo 1 >{disk}/timeout; echo 1 >{disk}/eh_timeout; "
            f"echo 4 >{SCSI_DEBUG}/opts; echo 1 >{SCSI_DEBUG}/every_nth",
            "SHINGLE_ZONED_RESUME": f"echo 0 >{SCSI_DEBUG}/opts; echo 0 >{SCSI_DEBUG}/every_nth; "
            f"echo running >{disk}/state; echo 30 >{disk}/timeout; echo 10 >{disk}/eh_timeout",
        }
    if node == "/dev/nvme0n1":
        return {
            "SHINGLE_ZONED_REMOVE": "echo 1 >/sys/class/nvme/nvme0/device/remove",
            "SHINGLE_ZONED_RESTORE": f"echo 1 >/sys/bus/pci/rescan; {wait_for(node)}",
        }
    return {}


def blkzone(guest, node):
    """The kernel's view of all zones: (start, capacity, written, condition), bytes; of conventional zones nothing was
    written, and of full ones all was."""
    zones = []
    for line in guest.ok(f"blkzone report {node}").splitlines():
        if "start:" not in line:
            continue
        field = lambda name: int(line.split(f"{name} 0x")[1].split(",")[0].split()[0], 16) * 512  # noqa: E731
        condition = line.split("(")[1].split(")")[0]
        capacity = field("cap")
        written = {"nw": 0, "fu": capacity}.get(condition, field("wptr"))
        zones.append((field("start:"), capacity, written, condition))
    return zones


def report(guest, shingle, node):
    """The same in shingle's view."""
    zones = json.loads(guest.ok(f"{shingle} drive report {node} --json"))["zones"]
    fields = ("start_bytes", "capacity_bytes", "written_bytes", "condition")
    return [tuple(zone[field] for field in fields) for zone in zones]
