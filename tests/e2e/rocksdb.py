"""The library with RocksDB's file system, and the program that holds it to RocksDB's contract, out of what the tests' build made."""

import contextlib
import fcntl
import shutil
import subprocess
from pathlib import Path

from shingle import BINARY

ROOT = Path(__file__).resolve().parents[2]
TARGET = BINARY.parent
CHECKS = ROOT / "tests/rocksdb/checks.h"


def missing():
    """Why RocksDB cannot be tested on this machine; nothing where it can."""
    if not (Path("/usr/include/rocksdb/db.h").exists() and shutil.which("db_bench") and shutil.which("g++")):
        return "RocksDB's programs and headers are missing: scripts/setup installs librocksdb-dev, rocksdb-tools and g++"
    return None


def run(*command, seconds=120, **options):
    """What a command says, which must succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, errors="replace", timeout=seconds, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@contextlib.contextmanager
def alone():
    """Tests in several processes make one thing after the other."""
    with open(TARGET / ".making-rocksdb", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make(*arguments):
    """Calls the Makefile of the library, for a quick build."""
    with alone():
        run("make", "-C", ROOT / "bindings/rocksdb", "PROFILE=dev", f"TARGET={TARGET.parent}", *arguments, seconds=600)


def library():
    built = [*TARGET.glob("deps/libshingle_rocksdb-*.a"), *TARGET.glob("libshingle_rocksdb.a")]
    assert built, "there is no libshingle_rocksdb.a: run `cargo test --workspace --no-run` first"
    newest = max(built, key=lambda path: path.stat().st_mtime)
    make(f"RUST={newest}")
    return TARGET / "libshingle_rocksdb.so"


def program(name, *others, libraries=()):
    """A program of tests/rocksdb, with sources and headers of the library that it needs."""
    binding = ROOT / "bindings/rocksdb"
    made, sources = TARGET / "rocksdb" / name, [ROOT / f"tests/rocksdb/{name}.cc", *(path for path in others if path.suffix == ".cc")]
    with alone():
        if not made.exists() or made.stat().st_mtime < max(path.stat().st_mtime for path in [*sources, *others]):
            includes = [f"-I{binding / 'include'}", f"-I{binding / 'cpp'}"]
            made.parent.mkdir(parents=True, exist_ok=True)
            run("g++", "-std=c++17", "-O1", "-Wall", "-Werror", *includes, *sources, "-o", made, "-lrocksdb", *libraries, seconds=300)
    return made


def contract():
    """The program of tests/rocksdb/contract.cc; its head tells what it does."""
    return program("contract", CHECKS, ROOT / "bindings/rocksdb/include/shingle/files.h", libraries=["-ldl"])


def faults():
    """The program of tests/rocksdb/faults.cc; its head tells what it does."""
    return program("faults", CHECKS)


def statuses():
    """The program of tests/rocksdb/statuses.cc."""
    binding = ROOT / "bindings/rocksdb"
    return program("statuses", binding / "cpp/status.cc", binding / "cpp/status.h", binding / "include/shingle/files.h")
