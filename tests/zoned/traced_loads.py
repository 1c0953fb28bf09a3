"""Loads of the project's own traces (traces.py): the same files and bytes each time.

    traced_loads.py mail|build|sqlite|randomwrite|singlestreamwrite|fileserver|varmail FOLDER
"""

import os
import pathlib
import random
import sqlite3
import subprocess
import sys
import threading

#: Sizes of mails by a rough law of thirds, in bytes.
MAILS, BOXES, MAIL_SIZES = 400, 8, [1500, 3000, 6000, 12_000, 24_000, 96_000]
#: Sources of a build, in libraries.
LIBRARIES, SOURCES = 4, 10
ROWS, TRANSACTIONS = 2000, 250
#: Filebench's loads (FSTL, Table II), with the table's sizes of I/Os and files, and fewer of them.
FILE_MIB, RANDOM_WRITES, STREAMS = 64, 4000, 3
SERVER = {"files": 200, "file_bytes": 128 << 10, "append_bytes": 16 << 10, "threads": 16, "rounds": 20}
MAILBOX = {"files": 100, "file_bytes": 16 << 10, "append_bytes": 16 << 10, "threads": 16, "rounds": 12}


def synced(folder):
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def mail(folder, rng):
    """Deliveries as maildir has them: each mail is written in `tmp`, fsynced, moved to `new`, and its folder is fsynced. Some are
    read and moved to `cur`, and some deleted."""
    boxes = [folder / f"box-{number}" for number in range(BOXES)]
    for box in boxes:
        for part in ("tmp", "new", "cur"):
            (box / part).mkdir(parents=True)
    there = []
    for number in range(MAILS):
        box = rng.choice(boxes)
        with open(box / "tmp" / f"{number}", "wb") as file:
            file.write(rng.randbytes(rng.choices(MAIL_SIZES, weights=[8, 8, 6, 4, 2, 1])[0]))
            file.flush()
            os.fsync(file.fileno())
        os.rename(box / "tmp" / f"{number}", box / "new" / f"{number}")
        synced(box / "new")
        there.append((box, "new", number))
        if rng.random() < 0.4:
            at = rng.randrange(len(there))
            box, part, other = there[at]
            (box / part / f"{other}").read_bytes()
            os.rename(box / part / f"{other}", box / "cur" / f"{other}")
            there[at] = (box, "cur", other)
        if rng.random() < 0.3:
            box, part, other = there.pop(rng.randrange(len(there)))
            os.unlink(box / part / f"{other}")
            synced(box / part)


def build(folder, rng):
    """C sources that are made, compiled by two processes, put in archives and linked; then some change, and all is built again."""
    names = [(library, source) for library in range(LIBRARIES) for source in range(SOURCES)]
    def written(library, source):
        lines = [f"static const int table_{line}[] = {{{', '.join(str(rng.randrange(1 << 20)) for _ in range(40))}}};" for line in range(20)]
        lines += [f"int of_{library}_{source}_{line}(int at) {{ return table_{line}[at % 40] + at; }}" for line in range(20)]
        (folder / f"source_{library}_{source}.c").write_text("\n".join(lines) + "\n")
    for name in names:
        written(*name)
    objects = " ".join(f"source_{library}_{source}.o" for library, source in names)
    rules = ["CFLAGS = -O1 -g", "program: main.o " + " ".join(f"lib{library}.a" for library in range(LIBRARIES)), "\tcc -o $@ $^"]
    for library in range(LIBRARIES):
        own = " ".join(f"source_{library}_{source}.o" for source in range(SOURCES))
        rules += [f"lib{library}.a: {own}", "\tar rcs $@ $^"]
    (folder / "Makefile").write_text("\n".join(rules) + f"\nclean:\n\trm -f {objects} program\n")
    calls = "".join(f"int of_{library}_{source}_0(int);\n" for library, source in names)
    total = " + ".join(f"of_{library}_{source}_0(argc)" for library, source in names)
    (folder / "main.c").write_text(f"{calls}int main(int argc, char **argv) {{ (void)argv; return ({total}) & 1; }}\n")
    for changed in (names[:0], names[::5]):
        for name in changed:
            written(*name)
        subprocess.run(["make", "-s", "-j2", "-C", folder], check=True)
        os.sync()


def sqlite(folder, rng):
    """Transactions in a database with its journal, each durable when it is over: of what is there some rows change, some go, some
    come."""
    database = sqlite3.connect(folder / "database", isolation_level=None)
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE things (number INTEGER PRIMARY KEY, name TEXT, body BLOB)")
    database.execute("CREATE INDEX names ON things (name)")
    database.execute("BEGIN")
    row = lambda number: (number, f"{rng.randrange(1 << 40):010x}", rng.randbytes(200))  # noqa: E731
    database.executemany("INSERT INTO things VALUES (?, ?, ?)", [row(number) for number in range(ROWS)])
    database.execute("COMMIT")
    for transaction in range(TRANSACTIONS):
        database.execute("BEGIN")
        for _ in range(3):
            database.execute("UPDATE things SET body = ? WHERE number = ?", (rng.randbytes(200), rng.randrange(ROWS)))
        database.execute("DELETE FROM things WHERE number = ?", (rng.randrange(ROWS),))
        database.execute("INSERT INTO things VALUES (?, ?, ?)", row(ROWS + transaction))
        database.execute("COMMIT")
    database.close()


def one_file(folder, rng):
    """A large file, made before the load and durable."""
    with open(folder / "file", "wb") as file:
        for _ in range(FILE_MIB):
            file.write(rng.randbytes(1 << 20))
    os.sync()
    return os.open(folder / "file", os.O_WRONLY)


def randomwrite(folder, rng):
    """Writes of 8 KiB at random in one file, through the page cache."""
    file, data = one_file(folder, rng), rng.randbytes(8 << 10)
    for _ in range(RANDOM_WRITES):
        os.pwrite(file, data, rng.randrange(FILE_MIB << 7) << 13)
    os.close(file)


def singlestreamwrite(folder, rng):
    """Overwrites one file from its beginning to its end, 1 MiB at a time, through the page cache."""
    file, data = one_file(folder, rng), rng.randbytes(1 << 20)
    for _ in range(STREAMS):
        for at in range(FILE_MIB):
            os.pwrite(file, data, at << 20)
    os.close(file)


class Files:
    """Files that threads make, append to, read and delete, each a file of its own at a time."""

    def __init__(self, folder, rng, shape):
        self.folder, self.rng, self.shape = folder, rng, shape
        self.there, self.next, self.lock = [], 0, threading.Lock()
        for _ in range(shape["files"]):
            self.give(self.make(self.drawn_bytes()))
        os.sync()

    def drawn_bytes(self):
        return max(1, int(self.rng.gammavariate(1.5, self.shape["file_bytes"] / 1.5)))

    def make(self, size):
        with self.lock:
            name, data = self.folder / f"{self.next:06}", self.rng.randbytes(size)
            self.next += 1
        name.write_bytes(data)
        return name

    def take(self):
        with self.lock:
            return self.there.pop(self.rng.randrange(len(self.there)))

    def give(self, name):
        with self.lock:
            self.there.append(name)

    def append(self, name, sync):
        with self.lock:
            data = self.rng.randbytes(self.rng.randint(1, self.shape["append_bytes"]))
        with open(name, "ab") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())

    def run(self, loop):
        """Has all threads go through the loop for their rounds."""
        def rounds():
            for _ in range(self.shape["rounds"]):
                loop(self)
        threads = [threading.Thread(target=rounds) for _ in range(self.shape["threads"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def fileserver(folder, rng):
    """A file is made, another is appended to, one is read, one is deleted, one is looked up."""
    def loop(files):
        files.give(files.make(files.drawn_bytes()))
        name = files.take()
        files.append(name, sync=False)
        name.read_bytes()
        files.give(name)
        files.take().unlink()
        name = files.take()
        name.stat()
        files.give(name)
    Files(folder, rng, SERVER).run(loop)


def varmail(folder, rng):
    """A mail is deleted; one comes, and is synced; one is read and appended to, and synced; one is read."""
    def loop(files):
        files.take().unlink()
        name = files.make(0)
        files.append(name, sync=True)
        files.give(name)
        name = files.take()
        name.read_bytes()
        files.append(name, sync=True)
        files.give(name)
        name = files.take()
        name.read_bytes()
        files.give(name)
    Files(folder, rng, MAILBOX).run(loop)


if __name__ == "__main__":
    loads = [mail, build, sqlite, randomwrite, singlestreamwrite, fileserver, varmail]
    load = {load.__name__: load for load in loads}[sys.argv[1]]
    load(pathlib.Path(sys.argv[2]), random.Random(1))
