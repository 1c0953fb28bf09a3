"""Writes of a file on a block device, one at a time, past the page cache. Runs in the guest.

`dm_zoned_load.py NODE FILE`: the file as the lab's example `dm-zoned-load` reads it."""

import mmap
import os
import sys

BLOCK = 4096


def main():
    node, file = sys.argv[1:]
    with open(file) as lines:
        next(lines)
        writes = [tuple(map(int, line.split())) for line in lines]
    # Its memory is aligned, as direct I/O needs it.
    buffer = mmap.mmap(-1, BLOCK * max(blocks for _, blocks in writes))
    device = os.open(node, os.O_WRONLY | os.O_DIRECT)
    for block, blocks in writes:
        data = memoryview(buffer)[: blocks * BLOCK]
        assert os.pwrite(device, data, block * BLOCK) == len(data)


if __name__ == "__main__":
    main()
