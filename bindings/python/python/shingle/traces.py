"""Block traces (docs/formats/block-trace.md), such as :class:`shingle.Export` records, for :func:`shingle.simulate`."""

import gzip
import json
from collections.abc import Iterator
from os import PathLike
from typing import Literal

Kind = Literal["r", "w", "t", "f", "z"]

_KINDS: dict[str, Kind] = {"read": "r", "write": "w", "trim": "t", "flush": "f", "zero": "z"}
_PACKED = b"\x1f\x8b"


def read(file: str | PathLike[str]) -> Iterator[tuple[Kind, int, int]]:
    """I/Os of a trace in the order of their arrival: kind, first byte, number of bytes. Times and dependencies are left out.

    Raises ValueError if it is no trace of version 2 or 3, with the number of the line."""
    with open(file, "rb") as raw:
        packed = raw.read(len(_PACKED)) == _PACKED
    with (gzip.open if packed else open)(file, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                io = json.loads(line)
                if number > 1:
                    yield _KINDS[io["op"]], io.get("offset", 0), io.get("length", 0)
                elif io["shingle_trace"] not in (2, 3):
                    raise KeyError(io["shingle_trace"])
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{file}, line {number}: no part of a block trace of version 2 or 3: {error}") from None
