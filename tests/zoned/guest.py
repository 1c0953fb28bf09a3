"""A throw-away virtual machine with a real Linux kernel, for what needs zoned block devices.

Owns one QEMU process, the initramfs it starts from, and a channel to the shell inside it (`guest/agent`). Knows nothing of
what runs there. The guest's root is this machine's, read-only, under a layer in its memory: a program built here runs
there, and what it writes outside the shared folder ends with it. Nothing here needs root.

Invariants:
- GUEST-1: a command's status and output are its own: the agent runs one at a time, and ends each with a NUL byte.
- GUEST-2: no guest outlives its time limit, nor the `with` block it was started in.
"""

import gzip
import json
import lzma
import os
import pathlib
import queue
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "zoned-guest"
QEMU = "qemu-system-x86_64"
#: What must be in the kernel before there is a root to load anything else from.
BOOT_MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_net", "virtio_blk", "virtio_console"]
#: Under emulation a boot takes 5 to 10 s where nothing else runs.
BOOT_SECONDS = 120
#: The files behind drives. This machine is not what fails here, so nothing is flushed to its disk.
IMAGE = "format=raw,cache=unsafe"
#: The guest's address on QEMU's user network; the machine's loopback is 10.0.2.2 from there.
ADDRESS = "10.0.2.15"


class GuestError(Exception):
    """The guest did not do what it was told: it did not start, died, or took too long."""


class NotStarted(GuestError):
    """The guest did not come to life on this machine, which says nothing of what was to be tested in it."""


def missing():
    """Why no guest can run on this machine, in words; nothing where one can."""
    for program, package in ((QEMU, "qemu-system-x86"), ("busybox", "busybox-static"), ("modprobe", "kmod")):
        if not _program(program):
            return f"{program} is not installed (Debian package {package})"
    if os.uname().machine != "x86_64":
        return f"the guest is made for x86_64, and this machine is {os.uname().machine}"
    if kernel() is None:
        return "there is no kernel with its modules under /boot and /lib/modules (Debian package linux-image-amd64)"
    if b"ld-linux" in pathlib.Path(_program("busybox")).read_bytes()[: 1 << 12]:
        return "busybox is not linked statically (Debian package busybox-static)"
    return None


class Kernel:
    """A kernel with its modules, installed or only unpacked."""

    def __init__(self, root, version):
        self.version, self.packed = version, root / "boot" / f"vmlinuz-{version}"
        self.modules = (root / "lib/modules").resolve() / version

    def usable(self):
        return self.modules.joinpath("modules.dep").exists() and os.access(self.packed, os.R_OK)

    def at_least(self, *number):
        return self.numbers()[: len(number)] >= list(number)

    def numbers(self):
        return [int(part) for part in re.findall(r"\d+", self.version)]


def kernel(root=pathlib.Path("/")):
    """The newest kernel below `root` that can be read."""
    names = [path.name.removeprefix("vmlinuz-") for path in (root / "boot").glob("vmlinuz-*")]
    usable = [found for found in (Kernel(root, name) for name in names) if found.usable()]
    return max(usable, key=Kernel.numbers, default=None)


def kernel_from(*number):
    """An installed kernel of this version or a newer one; else the one that `scripts/guest-kernel` has downloaded."""
    candidates = [found for found in (kernel(), kernel(CACHE / "kernel")) if found and found.at_least(*number)]
    return candidates[0] if candidates else None


def _program(name):
    # A user's PATH may lack the sbin directories, where kmod is.
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def _unpacked(packed, kind):
    """The content of a compressed file; nothing where what unpacks it is not installed."""
    if kind == "xz":
        return lzma.LZMADecompressor().decompress(packed)
    if kind == "gz":
        return gzip.decompress(packed)
    if kind == "zst":
        # Behind the frame a kernel image has its length, over which zstd complains when all is said.
        return subprocess.run(["zstd", "-dcq"], input=packed, capture_output=True).stdout if _program("zstd") else None
    return packed


def _image(kernel):
    """The kernel for QEMU to enter: unpacked where that is possible, since unpacking itself takes emulation seconds."""
    packed, image = kernel.packed, CACHE / f"vmlinux-{kernel.version}"
    if image.exists() and image.stat().st_mtime >= packed.stat().st_mtime:
        return image
    data = packed.read_bytes()
    # Linux's Documentation/x86/boot.rst: setup sectors, then the payload's place and length.
    word = lambda at: int.from_bytes(data[at : at + 4], "little")  # noqa: E731
    start = ((data[0x1F1] or 4) + 1) * 512 + word(0x248)
    payload = data[start : start + word(0x24C)]
    kinds = {b"\xfd7zX": "xz", b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst"}
    kind = next((kind for magic, kind in kinds.items() if payload.startswith(magic)), None)
    unpacked = _unpacked(payload, kind) if kind else None
    if not unpacked or not unpacked.startswith(b"\x7fELF"):
        return packed
    _write(image, unpacked)
    return image


def _write(path, data):
    """Puts a file into place whole: another run may be reading it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(data)
    os.replace(file.name, path)


def _boot_modules(folder):
    """Files of the modules to load, each after those it needs."""
    needs = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        file, _, rest = line.partition(":")
        needs[re.sub(r"\.ko(\..*)?$", "", file.rsplit("/", 1)[-1]).replace("-", "_")] = (file, rest.split())
    files = []
    for name in BOOT_MODULES:
        # One that is not there is built into the kernel.
        file, rest = needs.get(name, (None, []))
        # modules.dep has what is needed last first.
        for needed in [*reversed(rest), file]:
            if needed and needed not in files:
                files.append(needed)
    return [folder / file for file in files]


def _initramfs(kernel):
    """A static busybox, the modules that lead to the root, and `guest/init`, as a cpio archive."""
    archive = CACHE / f"initramfs-{kernel.version}.cpio"
    sources = [HERE / "guest/init", pathlib.Path(__file__), kernel.modules / "modules.dep"]
    if archive.exists() and archive.stat().st_mtime >= max(source.stat().st_mtime for source in sources):
        return archive
    entries = [(name, 0o040755, b"") for name in ("bin", "modules", "proc", "sys", "dev", "lower", "upper", "new")]
    entries.append(("bin/busybox", 0o100755, pathlib.Path(_program("busybox")).read_bytes()))
    entries.append(("init", 0o100755, (HERE / "guest/init").read_bytes()))
    for number, file in enumerate(_boot_modules(kernel.modules)):
        kind = file.suffix.removeprefix(".")
        content = _unpacked(file.read_bytes(), kind)
        if content is None:
            raise GuestError(f"{file} is compressed and zstd is not installed")
        entries.append((f"modules/{number:02}-{file.name.partition('.')[0]}.ko", 0o100644, content))
    entries.append(("TRAILER!!!", 0, b""))
    pad = lambda part: part + bytes(-len(part) % 4)  # noqa: E731
    out = bytearray()
    for inode, (name, mode, content) in enumerate(entries):
        path = name.encode() + b"\0"
        fields = [inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0]
        out += pad(b"070701" + b"".join(b"%08X" % field for field in fields) + path) + pad(content)
    _write(archive, bytes(out))
    return archive


def accelerator():
    """How QEMU runs the guest's instructions: `kvm` where that works, else `tcg`.

    That /dev/kvm can be opened says little: inside some virtual machines a guest under it never comes to life. So one
    is started, once, and has to."""
    if chosen := os.environ.get("SHINGLE_GUEST_ACCEL"):
        return chosen
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    known = CACHE / "accelerator"
    if not known.exists() or known.read_text().split()[0] != boot:
        try:
            with Guest(accel="kvm", boot_seconds=20):
                works = "kvm"
        except GuestError:
            works = "tcg"
        _write(known, f"{boot} {works}\n".encode())
    return known.read_text().split()[1]


class Zns:
    """A ZNS namespace. Its bytes are in a file; its zones' states are with QEMU, and survive the guest's power cuts."""

    def __init__(self, file, zones, zone_mib, capacity_mib=None, open_max=0, active_max=0, options=""):
        self.file, self.bytes = pathlib.Path(file), zones * zone_mib << 20
        self.limits = (zone_mib, capacity_mib or zone_mib, open_max, active_max)
        self.options = options

    def arguments(self, number):
        with open(self.file, "wb") as file:
            file.truncate(self.bytes)
        zone, capacity, open_max, active_max = self.limits
        return [
            *("-drive", f"file={self.file},if=none,id=zns{number},{IMAGE}{self.options}"),
            # mdts=0: no limit on a command below the kernel's own.
            *("-device", f"nvme,serial=shingle-zns-{number},id=nvme{number},mdts=0"),
            "-device",
            f"nvme-ns,drive=zns{number},bus=nvme{number},nsid=1,logical_block_size=4096,physical_block_size=4096,"
            f"zoned=true,zoned.zone_size={zone}M,zoned.zone_capacity={capacity}M,"
            f"zoned.max_open={open_max},zoned.max_active={active_max}",
        ]


class Disk:
    """An ordinary disk: /dev/vda and so on, or an NVMe namespace."""

    def __init__(self, file, mib, nvme=False, options=""):
        self.file, self.bytes, self.nvme, self.options = pathlib.Path(file), mib << 20, nvme, options

    def arguments(self, number):
        with open(self.file, "ab") as file:
            file.truncate(self.bytes)
        return [
            *("-drive", f"file={self.file},if=none,id=disk{number},{IMAGE}{self.options}"),
            *(self._nvme(number) if self.nvme else self._virtio(number)),
        ]

    def _virtio(self, number):
        return ["-device", f"virtio-blk-pci,drive=disk{number},logical_block_size=4096,physical_block_size=4096"]

    def _nvme(self, number):
        controller = f"nvme,serial=shingle-disk-{number},id=nvme{number},mdts=0"
        namespace = f"nvme-ns,drive=disk{number},bus=nvme{number},nsid=1,logical_block_size=4096,physical_block_size=4096"
        return ["-device", controller, "-device", namespace]


class Guest:
    """A machine that runs as long as the `with` block does."""

    def __init__(
        self,
        scratch=None,
        drives=(),
        forward=(),
        memory_mib=2048,
        cpus=1,
        seconds=600,
        accel=None,
        boot_seconds=BOOT_SECONDS,
        console=None,
        kernel=None,
    ):
        #: Shared read-write, at the same path inside; the working directory of commands.
        self.scratch = pathlib.Path(scratch).resolve() if scratch else None
        self.drives, self.forward = list(drives), list(forward)
        self.memory_mib, self.cpus, self.seconds, self.accel = memory_mib, cpus, seconds, accel
        self.boot_seconds = boot_seconds
        self.console = console or os.environ.get("SHINGLE_GUEST_CONSOLE")
        #: The newest installed one, where none is named.
        self.kernel = kernel
        self.boots = 0
        self._process = self._own = None
        self._said, self._rest = queue.Queue(), b""

    def __enter__(self):
        self._own = tempfile.mkdtemp(prefix="shingle-guest-")
        try:
            self.scratch = self.scratch or pathlib.Path(self._own) / "scratch"
            self.scratch.mkdir(parents=True, exist_ok=True)
            self.console = pathlib.Path(self.console or os.path.join(self._own, "console")).resolve()
            command = self._command(self.accel or accelerator())
            with open(f"{self._own}/qemu", "wb") as errors:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
                )
            threading.Thread(target=self._listen, args=(self._process.stdout,), daemon=True).start()
            self._await_boot()
        except GuestError as error:
            self.__exit__(None, None, None)
            raise NotStarted(f"no guest could start here: {error}") from None
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        shutil.rmtree(self._own, ignore_errors=True)

    def _command(self, accel):
        own = self.kernel or kernel()
        if own is None:
            raise GuestError(missing())
        emulated = accel.startswith("tcg")
        parameters = [
            *("console=ttyS0", "panic=-1", "mitigations=off", "nokaslr", "cryptomgr.notests"),
            *(["tsc=reliable"] if emulated else []),
            f"shingle.scratch={self.scratch}",
            f"shingle.modules={own.modules}",
            f"shingle.agent={HERE / 'guest/agent'}",
        ]
        share = "security_model=none,multidevs=remap"
        command = [
            # The limit holds also where this process is killed.
            *("timeout", "-k", "5", str(self.seconds)),
            *(QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-monitor", "none"),
            *("-machine", "pc", "-accel", f"{accel},thread=multi,tb-size=512" if accel == "tcg" else accel),
            # Five-level page tables cost an emulated guest time and serve nothing here.
            *("-cpu", "max,la57=off" if emulated else "host"),
            *("-smp", str(self.cpus), "-m", f"{self.memory_mib}M"),
            *("-kernel", str(_image(own)), "-initrd", str(_initramfs(own)), "-append", " ".join(parameters)),
            *("-serial", f"file:{self.console}", "-qmp", f"unix:{self._own}/qmp,server=on,wait=off"),
            *("-device", "virtio-serial-pci", "-chardev", "stdio,id=agent,signal=off"),
            *("-device", "virtserialport,chardev=agent,nr=1"),
            *("-virtfs", f"local,path=/,mount_tag=root,readonly=on,{share}"),
            *("-virtfs", f"local,path={self.scratch},mount_tag=scratch,{share}"),
        ]
        forward = "".join(f",hostfwd=tcp:127.0.0.1:{here}-:{there}" for here, there in self.forward)
        # romfile=: nothing boots from it, and the ROMs are in a package of their own.
        command += ["-netdev", f"user,id=net{forward}", "-device", "virtio-net-pci,netdev=net,romfile="]
        for number, drive in enumerate(self.drives):
            command += drive.arguments(number)
        return command

    def _listen(self, output):
        while data := output.read(1 << 16):
            self._said.put(data)
        self._said.put(None)

    def _until_nul(self, deadline, heard=None):
        """What the agent says up to its next message, and that message. `heard` is given the former as it comes."""
        before = b""
        while True:
            part, nul, rest = self._rest.partition(b"\0")
            before += part
            if heard and part:
                heard(part)
            self._rest = rest
            if nul:
                message, end, after = rest.partition(b"\n")
                if end:
                    self._rest = after
                    return before, message.decode()
                # The message has not come to its end: what was found is looked at again.
                self._rest = nul + rest
            self._rest += self._more(deadline, before)

    def _more(self, deadline, said):
        """What comes next, behind what was `said`."""
        try:
            data = self._said.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise GuestError(f"the guest took too long{self._last_words(said)}") from None
        if data is None:
            raise GuestError(f"the guest is gone (QEMU ended){self._last_words(said)}")
        return data

    def _last_words(self, said):
        def end(file, lines):
            return file.read_text(errors="replace").splitlines()[-lines:] if file.exists() else []

        said = said.decode(errors="replace").splitlines()[-10:]
        console, qemu = end(self.console, 15), end(pathlib.Path(self._own) / "qemu", 5)
        return "\n".join(["; last it said:", *said, "its console:", *console, "QEMU:", *qemu])

    def _await_boot(self):
        _, message = self._until_nul(time.monotonic() + self.boot_seconds)
        if message != "ready":
            raise GuestError(f"the guest said {message!r} when it should have begun")
        self.boots += 1

    def start(self, command):
        """Gives the guest a command (bash), to be waited for with `finish`, or to be cut off by `power_cut`."""
        self._process.stdin.write(command.encode() + b"\0")

    def finish(self, seconds=300, heard=None):
        """Waits for the end of the command: its exit status, and all it said."""
        said, message = self._until_nul(time.monotonic() + seconds, heard)
        if message == "ready":
            raise GuestError(f"the guest started again by itself{self._last_words(said)}")
        return int(message), said.decode(errors="replace")

    def run(self, command, seconds=300, heard=None):
        """Runs a command (bash) to its end: its exit status, and all it said on either output."""
        self.start(command)
        return self.finish(seconds, heard)

    def ok(self, command, seconds=300):
        """Runs a command that must succeed, and returns what it said."""
        status, said = self.run(command, seconds)
        assert status == 0, f"in the guest, status {status}: {command}\n{said[-6000:]}"
        return said

    def hear(self, enough, seconds=300):
        """Listens to a command that was started until `enough(all it said)`, and returns that; it goes on."""
        deadline, said = time.monotonic() + seconds, b""
        while not enough(said.decode(errors="replace")):
            data = self._more(deadline, said)
            if b"\0" in data:
                raise GuestError(f"the command ended too early{self._last_words(said + data)}")
            said += data
        return said.decode(errors="replace")

    def power_cut(self):
        """Resets the machine in the middle of whatever it does, lets it start again, and returns what was said before."""
        self._qmp("system_reset")
        said, message = self._until_nul(time.monotonic() + self.boot_seconds)
        if message != "ready":
            # A command ended in the very moment.
            more, message = self._until_nul(time.monotonic() + self.boot_seconds)
            said += more
        assert message == "ready", message
        self.boots += 1
        return said.decode(errors="replace")

    def _qmp(self, command):
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.settimeout(30)
            monitor.connect(f"{self._own}/qmp")
            with monitor.makefile("rw") as lines:
                lines.readline()
                for name in ("qmp_capabilities", command):
                    lines.write(json.dumps({"execute": name}) + "\n")
                    lines.flush()
                    while "return" not in (answer := json.loads(lines.readline())):
                        if "error" in answer:
                            raise GuestError(f"QEMU: {answer['error']}")


if __name__ == "__main__":
    # Ends in order where guests can run here, else with the reason. `guest.py 6.6` also asks for a kernel of that version or newer.
    wanted = [int(part) for part in sys.argv[1].split(".")] if sys.argv[1:] else None
    lacking = "no kernel of that version is here" if wanted and kernel_from(*wanted) is None else None
    sys.exit(missing() or lacking)
