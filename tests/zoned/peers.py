"""Records what real file systems and our own engine ask of a zoned drive under the lab's multi-stream load: `make peers`.

Owns the recording: devices, mkfs, the kernel's trace, and its conversion to the format of crates/app/lab/src/trace/recording.rs. The load
is crates/app/lab/examples/peers-load. Played by `shingle lab run peers-replay --traces DIR`.
"""

import argparse
import gzip
import os
import pathlib
import re
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from guest import Disk, Guest, Zns, missing  # noqa: E402
from programs import built  # noqa: E402

#: The drive, in MiB: crates/app/lab/src/experiments/peers/replay.rs runs ours on the same.
ZONE, ZONES, CONVENTIONAL = 8, 384, 8
#: The load: what is stored when deletion begins, 75 % of the sequential zones, and what is written from then on.
FULL, CHURN, SEED = 2304, 1536, 1
#: F2FS has its metadata on a second drive, as the kernel demands where the first has no conventional zones; it is recorded
#: as such zones. Where the zoned one is named in the guest is known by asking.
PEERS = {
    "f2fs": ("modprobe f2fs && mkfs.f2fs -f -m -c $zoned $disk && mount -t f2fs $disk /mnt", "/mnt"),
    "btrfs": ("modprobe btrfs && mkfs.btrfs -q -f -m single -d single $zoned && mount -t btrfs $zoned /mnt", "/mnt"),
    # Our own engine, on the device itself.
    "shingle": ("true", "$zoned"),
}
#: Commands a second that the recorded drives take, about what a disk does: so that commands queue as they would there, and
#: what the file systems do at once is seen to be at once.
IOPS = 400

BLOCK = 4096
ZONE_BLOCKS = (ZONE << 20) // BLOCK

RECORD = """
set -e
for disk in /dev/nvme?n1; do
    case $(cat /sys/block/${disk##*/}/queue/zoned) in none) plain=$disk ;; *) zoned=$disk ;; esac
done
disk=$plain
# What keeps writes to a zone in order, before Linux 6.10.
echo mq-deadline >/sys/block/${zoned##*/}/queue/scheduler
trace=/sys/kernel/tracing
echo 16384 >$trace/buffer_size_kb
for event in nvme_setup_cmd nvme_complete_rq; do
    echo 'qid != 0' >$trace/events/nvme/$event/filter
    echo 1 >$trace/events/nvme/$event/enable
done
cat $trace/trace_pipe >/dev/shm/trace & reader=$!
echo "zoned ${zoned##*/}"
MAKE || exit 1
df -m /mnt
timeout SECONDS LOAD PLACE $trace/trace_marker ZONE FULL CHURN SEED || echo "load: status $?"
df -m /mnt
dmesg | grep -i 'error (device' | head -n 5
sleep 2
kill $reader
gzip -1 </dev/shm/trace >NAME.raw.gz
"""


def record(name, load, folder, seconds):
    """Runs the load on one of them, and returns what the kernel said of its commands."""
    throttle = f",throttling.iops-total={IOPS},throttling.group=disk,discard=unmap,detect-zeroes=unmap"
    with tempfile.TemporaryDirectory(prefix="shingle-peers-") as drives:
        zns = Zns(f"{drives}/zns", ZONES, ZONE, options=throttle)
        disk = Disk(f"{drives}/disk", CONVENTIONAL * ZONE, nvme=True, options=throttle)
        make, place = PEERS[name]
        script = RECORD.replace("MAKE", make).replace("PLACE", place)
        script = script.replace("LOAD", str(load)).replace("SECONDS", str(seconds))
        for word, value in {"NAME": name, "ZONE": ZONE, "FULL": FULL, "CHURN": CHURN, "SEED": SEED}.items():
            script = re.sub(rf"\b{word}\b", str(value), script)
        with Guest(scratch=folder, drives=[zns, disk], cpus=2, seconds=seconds + 120) as guest:
            said = guest.ok(script, seconds=seconds + 90)
    print(said)
    if "load: status" in said:
        print(f"{name}: the load did not come to its end; the recording ends where it gave up", file=sys.stderr)
    zoned = re.search(r"^zoned (\S+)", said, re.M)[1]
    with gzip.open(folder / f"{name}.raw.gz", "rt", errors="replace") as raw:
        return list(convert(raw, zoned))


def convert(raw, zoned):
    """Lines of a recording from lines of the kernel's trace."""
    base = CONVENTIONAL * ZONE_BLOCKS
    # Commands, and for each zone the blocks written.
    under_way, written = set(), {}
    for line in raw:
        if "LOST" in line and "EVENTS" in line:
            raise SystemExit(f"the kernel's trace has a gap: {line.strip()}")
        if mark := re.search(r"tracing_mark_write: shingle (\S+) ?(\d*)", line):
            word, number = mark.groups()
            if word == "appended":
                yield f"M {number}"
            elif word == "full":
                yield "D"
            elif word in ("nospace", "end"):
                yield {"nospace": "N", "end": "Z"}[word]
            continue
        event = re.search(r"(nvme_setup_cmd|nvme_complete_rq): (nvme\d+): disk=(\w+), qid=(\d+), cmdid=(\d+)", line)
        if not event:
            continue
        kind, controller, disk, queue, number = event.groups()
        if kind == "nvme_complete_rq":
            # How often an id was used before is in its upper bits, which the completion does not have in all kernels.
            under_way.discard((controller, queue, int(number) & 0xFFF))
            continue
        q = len(under_way)
        under_way.add((controller, queue, int(number) & 0xFFF))
        command = re.search(r"cmd=\((\w+) (.*)\)", line)
        if not command:
            continue
        name, rest = command.groups()
        fields = {key: int(value, 0) for key, value in re.findall(r"(\w+)=(0x[0-9a-f]+|\d+)", rest)}
        at = fields.get("slba", 0) + (base if disk == zoned else 0)
        blocks = fields.get("len", 0) + 1
        if name == "nvme_cmd_flush":
            yield f"F {q}"
        elif name == "nvme_cmd_zone_append":
            written[at] = written.get(at, 0) + blocks
            yield f"A {at // ZONE_BLOCKS} {blocks} {q}"
        elif name in ("nvme_cmd_write", "nvme_cmd_write_zeroes", "nvme_cmd_read"):
            letter = "R" if name == "nvme_cmd_read" else "W"
            while blocks > 0:
                # The second drive has no zones for its commands to end at.
                part = min(blocks, ZONE_BLOCKS - at % ZONE_BLOCKS)
                zone = at - at % ZONE_BLOCKS
                if letter == "W" and disk == zoned:
                    assert at == zone + written.get(zone, 0), f"a write off the pointer ({written.get(zone)}): {line}"
                    written[zone] = written.get(zone, 0) + part
                    yield f"A {zone // ZONE_BLOCKS} {part} {q}"
                else:
                    yield f"{letter} {at} {part} {q}"
                at, blocks = at + part, blocks - part
        elif name == "nvme_cmd_zone_mgmt_send":
            letter = {1: "C", 2: "E", 3: "O", 4: "X"}.get(fields["zsa"])
            zones = range(base, base + ZONES * ZONE_BLOCKS, ZONE_BLOCKS) if fields.get("all") else [at]
            for zone in zones:
                # Before it is used, mkfs empties a drive that is empty.
                if letter and (letter != "X" or written.get(zone)):
                    if letter == "X":
                        del written[zone]
                    yield f"{letter} {zone // ZONE_BLOCKS} {q}"
        # Else it is a discard or a report of zones, which cost a drive next to nothing.


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where recordings go: NAME.trace.gz")
    parser.add_argument("--only", choices=list(PEERS), action="append")
    parser.add_argument("--seconds", type=int, default=420, help="limit for each")
    parser.add_argument("--keep-raw", action="store_true", help="keep the kernel's own trace beside the recording")
    options = parser.parse_args()
    if why := missing():
        sys.exit(f"no guest can run here: {why}")
    load = built("lab", "example", "peers-load", "build", "--workspace")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.only or PEERS:
        began = time.monotonic()
        lines = record(name, load, options.folder.resolve(), options.seconds)
        head = f"shingle-trace 1 {name} {ZONE_BLOCKS} {ZONES + CONVENTIONAL} {CONVENTIONAL}"
        file = options.folder / f"{name}.trace.gz"
        file.write_bytes(gzip.compress("".join(f"{line}\n" for line in [head, *lines]).encode(), 9, mtime=0))
        if not options.keep_raw:
            (options.folder / f"{name}.raw.gz").unlink()
        seconds = time.monotonic() - began
        print(f"{name}: {len(lines)} lines, {file.stat().st_size} bytes, {seconds:.0f} s: {file}", flush=True)


if __name__ == "__main__":
    main()
