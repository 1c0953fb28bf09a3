"""A tree of files as large as a kernel's source, in this machine's own file systems on a volume: `make volume-trees`.

    source_tree.py --shingle target/release/shingle [--files 80000] [--only ext4] [--json]

For each file system: a volume on an emulated drive is attached (`shingle volume attach`, as root) and formatted. The tree is copied in; the
server is killed (`kill -9`) while a second copy is under way, and started again; the file system is mounted anew, and all that was synced is
compared with what was written, by name, size and SHA-256. Then the second copy is removed, the first is copied again, and the volume is unmounted,
checked by the file system's own checker and by `shingle volume check`. By default files and bytes are those of Linux 6.1: 80,000 files with
1.2 GB, in 5,000 folders.
"""

import argparse
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

#: How to make one, and to look at it when it is not mounted. Each look fails if anything is wrong, and changes nothing.
FILE_SYSTEMS = {
    "ext4": (["mkfs.ext4", "-q", "-F"], ["e2fsck", "-fn"]),
    "xfs": (["mkfs.xfs", "-q", "-f"], ["xfs_repair", "-n"]),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], ["btrfs", "check", "--readonly"]),
}
#: Sources of a kernel are small, but for a few: the mean is 15 kB.
SIZES, WEIGHTS = [500, 2_000, 6_000, 16_000, 50_000, 400_000], [14, 26, 27, 22, 10, 1.4]
FILES_OF_A_FOLDER = 16
SECONDS = 600


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=SECONDS)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


class Tree:
    """The same folders, names and bytes each time. Bytes are cut from a pool, behind the file's own number."""

    def __init__(self, files):
        rng = random.Random(1)
        self.pool = rng.randbytes(1 << 20)
        self.files = []
        for number in range(files):
            folder = number // FILES_OF_A_FOLDER
            name = f"part-{folder % 40:02}/unit-{folder // 40:03}/source-{number:06}.c"
            size = int(rng.choices(SIZES, WEIGHTS)[0] * rng.uniform(0.5, 1.5))
            self.files.append((name, size, rng.randrange(len(self.pool) >> 1)))
        self.bytes = sum(size for _, size, _ in self.files)

    def data(self, at):
        name, size, begin = self.files[at]
        head = name.encode() + b"\n"
        return (head + self.pool[begin : begin + size])[: max(size, len(head))]

    def write(self, folder, until=lambda: False):
        """Writes the files that are not there yet, until told to stop, and returns how many there are then."""
        for at, (name, _, _) in enumerate(self.files):
            if until():
                return at
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.data(at))
        return len(self.files)

    def compare(self, folder):
        """Ends the program unless all files are there, and nothing else is."""
        found = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
        if extra := found ^ {name for name, _, _ in self.files}:
            raise SystemExit(f"{folder}: {len(extra)} files are missing or too many, such as {min(extra)}")
        for at, (name, _, _) in enumerate(self.files):
            with open(folder / name, "rb") as file:
                if hashlib.file_digest(file, "sha256").digest() != hashlib.sha256(self.data(at)).digest():
                    raise SystemExit(f"{folder / name} has other bytes than were written")


class Disk:
    """A volume that is attached."""

    def __init__(self, shingle, drive):
        self.shingle, self.drive = shingle, drive
        self.process, self.node = None, None

    def attach(self):
        self.process = subprocess.Popen([self.shingle, "volume", "attach", self.drive], stdout=subprocess.PIPE, text=True)
        self.node = self.process.stdout.readline().strip()
        if not self.node.startswith("/dev/"):
            raise SystemExit("the volume could not be attached")

    def detach(self):
        run(self.shingle, "volume", "detach", self.node)
        self.process.wait(timeout=60)

    def kill(self):
        """Like a crash of the server: the file system's disk fails from then on."""
        self.process.kill()
        self.process.wait()


def dropped(node, mount):
    """Unmounts a file system whose disk is gone, and takes the rest of the disk away."""
    subprocess.run(["umount", "-l", mount], capture_output=True)
    backing = pathlib.Path("/sys/block", os.path.basename(node), "loop/backing_file")
    file = backing.read_text().strip() if backing.exists() else ""
    for _ in range(100):
        # It stays busy until the kernel has given up all that it had to write.
        subprocess.run(["losetup", "-d", node], capture_output=True)
        if not backing.exists():
            break
        time.sleep(0.1)
    if file:
        subprocess.run(["umount", "-l", os.path.dirname(file)], capture_output=True)


def on(name, tree, shingle, scratch):
    """The whole course on a file system. Returns seconds of each step."""
    make, check = FILE_SYSTEMS[name]
    drive, mount, took = scratch / f"{name}.shingle", scratch / "mount", {}
    mount.mkdir(exist_ok=True)
    size = max(1 << 30, 4 * (tree.bytes + 4096 * len(tree.files)))
    run(shingle, "drive", "create", drive, "--size", size, "--zone-size", "64MiB", "--conventional", "2")
    run(shingle, "volume", "create", drive)
    disk = Disk(shingle, drive)
    disk.attach()
    began = time.monotonic()

    def step(what):
        nonlocal began
        took[what] = round(time.monotonic() - began, 1)
        began = time.monotonic()

    try:
        run(*make, disk.node)
        run("mount", "-t", name, disk.node, mount)
        tree.write(mount / "first")
        os.sync()
        step("copied and synced")
        stop = time.monotonic() + took["copied and synced"] / 3
        second = tree.write(mount / "second", until=lambda: time.monotonic() > stop)
        disk.kill()
        dropped(disk.node, mount)
        disk.attach()
        run("mount", "-t", name, disk.node, mount)
        step(f"killed while {second} more files were copied, and mounted again")
        tree.compare(mount / "first")
        step("compared")
        shutil.rmtree(mount / "second", ignore_errors=True)
        run("cp", "-a", mount / "first", mount / "third")
        run("umount", mount)
        run("mount", "-t", name, disk.node, mount)
        tree.compare(mount / "third")
        step("copied once more and compared")
        run("umount", mount)
        run(*check, disk.node)
        disk.detach()
        if not json.loads(run(shingle, "volume", "check", drive, "--json"))["clean"]:
            raise SystemExit(f"{drive} is not clean")
        step("checked")
    finally:
        subprocess.run(["umount", "-l", mount], capture_output=True)
        if disk.process.poll() is None:
            disk.process.terminate()
            disk.process.wait(timeout=60)
    drive.unlink()
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shingle", required=True, type=pathlib.Path, help="the command, as it was built")
    parser.add_argument("--files", type=int, default=80_000)
    parser.add_argument("--only", choices=list(FILE_SYSTEMS), action="append")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for drives: four times the tree [default: that of temporary files]")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("only root makes disks")
    tree, all_took = Tree(options.files), {}
    for name in options.only or FILE_SYSTEMS:
        known = pathlib.Path("/proc/filesystems").read_text().split()
        if name not in known and subprocess.run(["modprobe", name], capture_output=True).returncode != 0:
            print(f"{name}: LEFT OUT: this kernel has no such file system", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="shingle-trees-", dir=options.scratch) as scratch:
            all_took[name] = on(name, tree, options.shingle.resolve(), pathlib.Path(scratch))
        if not options.json:
            print(f"{name}: " + ", ".join(f"{what} in {seconds} s" for what, seconds in all_took[name].items()), flush=True)
    if options.json:
        print(json.dumps({"files": len(tree.files), "bytes": tree.bytes, "seconds": all_took}))


if __name__ == "__main__":
    main()
