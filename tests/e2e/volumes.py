"""A real `shingle volume export` on sockets of its own, to start, kill and start again; and a small NBD client."""

import pathlib
import queue
import signal
import socket
import struct
import subprocess
import threading

from shingle import BINARY

START_SECONDS = 60
READ, WRITE, FLUSH, TRIM, WRITE_ZEROES = 0, 1, 3, 4, 6
FUA = 1
BLOCK = 4096


class Export:
    """Volumes, served by one process after another."""

    def __init__(self, folder, *drives, options=()):
        self.folder, self.drives, self.options = pathlib.Path(folder), drives, list(map(str, options))
        self.socket = self.folder / "nbd.sock"
        self.process, self.uris, self.lines = None, [], []

    def command(self):
        places = ["--socket", str(self.socket), "--listen", "127.0.0.1:0"]
        return [str(BINARY), "volume", "export", *map(str, self.drives), *places, *self.options]

    def start(self):
        assert self.process is None, "it runs already"
        self.process = subprocess.Popen(
            self.command(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        said, lines = queue.Queue(), []
        self.uris, self.lines = [], lines

        def drain(output):
            for line in output:
                lines.append(line)
                if line.startswith("nbd"):
                    said.put(line.strip())
            said.put(None)

        threading.Thread(target=drain, args=(self.process.stdout,), daemon=True).start()
        for _ in range(2 * len(self.drives)):
            try:
                uri = said.get(timeout=START_SECONDS)
            except queue.Empty:
                uri = None
            if uri is None:
                self.kill()
                raise AssertionError("the export did not start:\n" + "".join(lines[-40:]))
            self.uris.append(uri)
        return self

    @property
    def tcp(self):
        return self.uris[0]

    @property
    def unix(self):
        return self.uris[1]

    def kill(self):
        """Like a crash of the process: nothing is said, nothing is closed."""
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self):
        """Ends it in order, as systemd does."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("the export did not stop") from None
        self.process = None
        assert status == 0, f"the export ended with status {status}:\n" + "".join(self.lines[-40:])

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process is not None:
            self.kill()


class Refused(Exception):
    """The server answered a request with an error number."""


class Client:
    """One connection, by simple replies."""

    def __init__(self, path, name=""):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(str(path))
        self.cookie, self.size = 0, None
        self._handshake(name.encode())

    def _handshake(self, name):
        magic, _ = self._take(16), self._take(2)
        assert magic == b"NBDMAGICIHAVEOPT", magic
        # Sizes are asked for, so that the server keeps to its sectors.
        data = struct.pack(f">I{len(name)}sHH", len(name), name, 1, 3)
        self.socket.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 7, len(data)) + data)
        while True:
            _, _, kind, length = struct.unpack(">QIII", self._take(20))
            data = self._take(length)
            if kind == 1:
                return
            if kind >= 1 << 31:
                raise Refused(data.decode(errors="replace"))
            if data[:2] == b"\0\0":
                self.size = struct.unpack(">Q", data[2:10])[0]

    def _take(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the server has closed the connection")
            data += more
        return data

    def send(self, command, offset=0, length=0, data=b"", flags=0):
        """Sends a request, and returns its cookie."""
        self.cookie += 1
        length = length or len(data)
        head = struct.pack(">IHHQQI", 0x25609513, flags, command, self.cookie, offset, length)
        self.socket.sendall(head + data)
        return self.cookie

    def answer(self, lengths=None):
        """The next answer: its cookie and error number. Data of a read is behind them, its length by the cookie."""
        magic, error, cookie = struct.unpack(">IIQ", self._take(16))
        assert magic == 0x67446698, hex(magic)
        return cookie, error, self._take((lengths or {}).get(cookie, 0)) if error == 0 else b""

    def call(self, command, offset=0, length=0, data=b"", flags=0):
        cookie = self.send(command, offset, length, data, flags)
        found, error, data = self.answer({cookie: length} if command == READ else None)
        assert found == cookie, (found, cookie)
        if error:
            raise Refused(error)
        return data

    def close(self):
        self.socket.close()


class Writer(threading.Thread):
    """Writes to blocks of its own until the server dies, and knows for each of them the bytes that it may hold."""

    def __init__(self, export, number, first, count, rng):
        super().__init__()
        self.client, self.first, self.count, self.rng = Client(export.socket), first, count, rng
        self.number, self.written, self.durable = number, 0, 0
        #: For each block the stamps that it may have; the first is the one that is durable, 0 for zeros.
        self.possible = {block: [0] for block in range(first, first + count)}

    def run(self):
        try:
            while True:
                self._round()
        except (OSError, ConnectionError):
            return

    def _round(self):
        """Some writes side by side, a part of them with FUA, and now and then a flush of them all."""
        blocks = self.rng.sample(range(self.first, self.first + self.count), self.rng.randrange(1, 17))
        waits = {}
        for block in blocks:
            self.written += 1
            fua = self.rng.random() < 0.3
            self.possible[block].append(self.written)
            cookie = self.client.send(WRITE, block * BLOCK, data=stamped(self.number, block, self.written), flags=FUA if fua else 0)
            waits[cookie] = (block, self.written, fua)
        while waits:
            cookie, error, _ = self.client.answer()
            block, stamp, fua = waits.pop(cookie)
            # A server that ends says so.
            if error:
                raise ConnectionError(error)
            if fua:
                self._is_durable(block, stamp)
        if self.rng.random() < 0.2:
            self.client.call(FLUSH)
            for block in self.possible:
                self._is_durable(block, self.possible[block][-1])

    def _is_durable(self, block, stamp):
        stamps = self.possible[block]
        self.durable += stamps[0] != stamp
        self.possible[block] = stamps[stamps.index(stamp):]

    def verify(self, client):
        """Each block holds what was durable, or what was written later, as a whole."""
        for block, stamps in self.possible.items():
            data = client.call(READ, block * BLOCK, BLOCK)
            allowed = [stamped(self.number, block, stamp) for stamp in stamps]
            assert data in allowed, f"block {block} of writer {self.number}: {data[:24]!r} is none of {stamps}"
            self.possible[block] = [stamps[allowed.index(data)]]


def stamped(number, block, stamp):
    """The bytes of a block: unlike those of any other block, and of any other write."""
    if stamp == 0:
        return bytes(BLOCK)
    return struct.pack(">QQQ", number + 1, block, stamp) * (BLOCK // 24) + bytes(BLOCK % 24)
