"""Records the project's own block traces: what ext4 asks of a volume under known loads: `make traces`.

A volume on an emulated drive is exported with `--record` on this machine. A guest (guest.py) attaches it by the kernel's NBD client, makes
ext4 on it, and runs a load. So a trace has all that the kernel's file system asks of a disk, from mkfs to unmounting, and its times: those of the
programs and the kernel under QEMU, and of the volume here. `shingle lab trace list` tells the traces that are built in: crates/app/lab/traces.
"""

import argparse
import gzip
import os
import pathlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from guest import Guest, missing  # noqa: E402
from programs import ROOT  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
LOADS = HERE / "traced_loads.py"
#: Debian has its programs outside of PATH.
POSTGRES = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
#: For each trace: programs that it takes, and the load, in the folder of a fresh file system. SOURCE is an archive of this repository's sources.
TRACES = {
    "ext4-unpack": (["tar"], "tar -xf SOURCE -C FOLDER"),
    "ext4-mail": (["python3"], "python3 LOADS mail FOLDER"),
    "ext4-random": (
        ["fio"],
        "fio --name=random --directory=FOLDER --rw=randwrite --bs=4k --size=64m --io_size=12m --direct=1 --ioengine=libaio --iodepth=8 "
        "--randseed=1 --fallocate=none --output=/dev/null",
    ),
    "ext4-build": (["cc", "ar", "make", "python3"], "python3 LOADS build FOLDER"),
    "ext4-sqlite": (["python3"], "python3 LOADS sqlite FOLDER"),
    **{f"ext4-{load}": (["python3"], f"python3 LOADS {load} FOLDER") for load in ["randomwrite", "singlestreamwrite", "fileserver", "varmail"]},
    "ext4-pgbench": (
        ["runuser", *(str(folder / "initdb") for folder in POSTGRES or [pathlib.Path("/usr/lib/postgresql/VERSION/bin")])],
        """
        mkdir FOLDER/db
        chown postgres FOLDER/db
        mkdir -p /run/postgresql
        chown postgres /run/postgresql
        export PATH=POSTGRES:$PATH
        as() { (cd / && runuser -u postgres -- env PATH=$PATH "$@"); }
        as initdb -D FOLDER/db --no-locale -E UTF8 >/dev/null
        as pg_ctl -D FOLDER/db -w -t 120 -l FOLDER/db/log -o '-c listen_addresses= -c autovacuum=off' start >/dev/null
        as pgbench -i -s 1 -q postgres >/dev/null 2>&1
        as pgbench -c 4 -j 1 -t 100 -n postgres 2>/dev/null | grep processed
        as pg_ctl -D FOLDER/db -w -t 120 stop >/dev/null
        """,
    ),
}
#: The disk. It is small, so that all that is on the traces is close together, as on the outer part of one.
DRIVE = ["--size", "1GiB", "--zone-size", "16MiB", "--conventional", "2"]

ATTACHED = """
set -e
modprobe nbd
nbd-client 10.0.2.2 PORT /dev/nbd0 -N NAME -b 4096 -C 1 >/run/client.log 2>&1 || { cat /run/client.log; exit 1; }
for _ in $(seq 100); do [ "$(cat /sys/block/nbd0/size)" != 0 ] && break; sleep 0.1; done
mkfs.ext4 -q -F -U c0ffee00-0000-4000-8000-000000000001 -E hash_seed=c0ffee00-0000-4000-8000-000000000002 /dev/nbd0
mount -t ext4 /dev/nbd0 /mnt
mkdir /mnt/load
LOAD
sync
umount /mnt
e2fsck -fn /dev/nbd0 >/run/fsck.log 2>&1 || { cat /run/fsck.log; exit 1; }
nbd-client -d /dev/nbd0 >/dev/null
"""


def lacking(name):
    """Programs that a load needs and this machine, whose files the guest sees, has not."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    return [program for program in ["nbd-client", "mkfs.ext4", *TRACES[name][0]] if not shutil.which(program, path=path)]


def archive(file):
    """The sources of this repository as they are committed, in the order of their names."""
    listed = subprocess.run(["git", "ls-files", "crates", "docs"], cwd=ROOT, capture_output=True, text=True, check=True)
    with tarfile.open(file, "w") as tar:
        for name in sorted(listed.stdout.split("\n")[:-1]):
            if (ROOT / name).is_file() and not name.endswith(".gz"):
                tar.add(ROOT / name, name)


def free_port():
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return some.getsockname()[1]


def record(name, shingle, folder, seconds):
    """Runs a load on a recorded volume, and returns the file of the recording."""
    with tempfile.TemporaryDirectory(prefix="shingle-traces-") as scratch:
        scratch = pathlib.Path(scratch)
        drive, recording, port = scratch / f"{name}.shingle", scratch / "recording", free_port()
        subprocess.run([shingle, "drive", "create", drive, *DRIVE], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([shingle, "volume", "create", drive], check=True, stdout=subprocess.DEVNULL)
        command = [shingle, "volume", "export", drive, "--listen", f"127.0.0.1:{port}", "--record", recording]
        export = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert export.stdout.readline().startswith("nbd://"), "the export did not start"
            (scratch / "guest").mkdir()
            archive(scratch / "guest/source.tar")
            with Guest(scratch=scratch / "guest", memory_mib=3072, cpus=2, seconds=seconds) as guest:
                # Programs and files of the load are read from this machine once, so that it does not wait for them.
                guest.ok("cat source.tar >/run/source.tar")
                words = {
                    "LOAD": TRACES[name][1], "SOURCE": "/run/source.tar", "FOLDER": "/mnt/load", "LOADS": shlex.quote(str(LOADS)),
                    "POSTGRES": str(POSTGRES[0]) if POSTGRES else "", "PORT": str(port), "NAME": name,
                }
                script = ATTACHED
                for word, value in words.items():
                    script = script.replace(word, value)
                print(guest.ok(script, seconds=seconds - 60), end="")
        finally:
            export.send_signal(signal.SIGTERM)
            status = export.wait(timeout=120)
        assert status == 0, f"the export ended with status {status}"
        subprocess.run([shingle, "volume", "check", drive], check=True, stdout=subprocess.DEVNULL)
        # Packed as a whole: that is smaller than the parts that a recording is written in.
        with gzip.open(recording) as text:
            packed = gzip.compress(text.read(), 9, mtime=0)
    file = folder / f"{name}.trace.gz"
    file.write_bytes(packed)
    return file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where traces go: NAME.trace.gz")
    parser.add_argument("--shingle", required=True, type=pathlib.Path, help="the command, as it was built")
    parser.add_argument("--only", choices=list(TRACES), action="append")
    parser.add_argument("--seconds", type=int, default=900, help="limit for each")
    options = parser.parse_args()
    if why := missing():
        sys.exit(f"no guest can run here: {why}")
    options.folder.mkdir(parents=True, exist_ok=True)
    left_out = 0
    for name in options.only or TRACES:
        if programs := lacking(name):
            print(f"{name}: LEFT OUT: {', '.join(programs)} not installed", flush=True)
            left_out += 1
            continue
        began = time.monotonic()
        file = record(name, options.shingle.resolve(), options.folder, options.seconds)
        with gzip.open(file) as text:
            ios = sum(1 for _ in text) - 1
        print(f"{name}: {ios} I/Os, {file.stat().st_size} bytes, {time.monotonic() - began:.0f} s: {file}", flush=True)
    sys.exit(1 if left_out else 0)


if __name__ == "__main__":
    main()
