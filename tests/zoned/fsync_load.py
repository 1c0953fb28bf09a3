"""Writes to files in a mounted file system, each write made durable by fsync before it is said; and looks for them afterwards.

    fsync_load.py write FOLDER SEED        writes until it fails, or is killed; says `synced FILE BLOCK STAMP` after each fsync
    fsync_load.py verify FOLDER SYNCED     holds the files against the lines of the file SYNCED
"""

import os
import pathlib
import random
import struct
import sys

FILES, BLOCKS, BLOCK = 12, 96, 4096


def stamped(file, block, stamp):
    return struct.pack("<QQQQ", file, block, stamp, file ^ block ^ stamp) * (BLOCK // 32)


def write(folder, seed):
    rng = random.Random(seed)
    files = []
    for number in range(FILES):
        file = os.open(folder / f"file-{number}", os.O_CREAT | os.O_RDWR, 0o644)
        os.pwrite(file, bytes(BLOCKS * BLOCK), 0)
        os.fsync(file)
        files.append(file)
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    stamp = 0
    while True:
        number = rng.randrange(FILES)
        blocks = rng.sample(range(BLOCKS), rng.randrange(1, 5))
        stamp += 1
        for block in blocks:
            os.pwrite(files[number], stamped(number, block, stamp), block * BLOCK)
        os.fsync(files[number])
        print("".join(f"synced {number} {block} {stamp}\n" for block in blocks), end="", flush=True)
        if stamp % 16 == 0:
            # A file that is made, written and put in the place of another, as editors and databases do.
            with open(folder / "new", "wb") as new:
                new.write(stamped(0, 0, stamp))
                new.flush()
                os.fsync(new.fileno())
            os.rename(folder / "new", folder / "replaced")
            os.fsync(directory)
            print(f"replaced {stamp}", flush=True)


def verify(folder, synced):
    durable, replaced = {}, 0
    # A line that was cut short says nothing.
    for line in synced.read_text(errors="replace").splitlines(keepends=True):
        words = line.split()
        if line.endswith("\n") and words[:1] == ["synced"] and len(words) == 4:
            durable[int(words[1]), int(words[2])] = int(words[3])
        elif line.endswith("\n") and words[:1] == ["replaced"] and len(words) == 2:
            replaced = int(words[1])
    assert durable, "nothing was synced"
    for (number, block), stamp in durable.items():
        with open(folder / f"file-{number}", "rb") as file:
            file.seek(block * BLOCK)
            data = file.read(BLOCK)
        found = struct.unpack("<Q", data[16:24])[0] if len(data) == BLOCK else None
        whole = found is not None and data == stamped(number, block, found)
        assert whole and found >= stamp, f"file {number}, block {block}: {stamp} was synced, {found} is there"
    if replaced:
        data = (folder / "replaced").read_bytes()
        found = struct.unpack("<Q", data[16:24])[0]
        assert data == stamped(0, 0, found) and found >= replaced, f"{replaced} was put in place, {found} is there"
    print(f"{len(durable)} blocks are there")


if __name__ == "__main__":
    what, folder, third = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    if what == "write":
        write(folder, third)
    else:
        verify(folder, pathlib.Path(third))
