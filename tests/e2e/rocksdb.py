"""The library with RocksDB's file system, and the program that holds it to RocksDB's contract, out of what the tests' build made."""

import contextlib
import fcntl
import shutil
import subprocess
from pathlib import Path

from shingle import BINARY

ROOT = Path(__file__).resolve().parents[2]
TARGET = BINARY.parent


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


def contract():
    """The program of tests/rocksdb/contract.cc; its head tells what it does."""
    program, source = TARGET / "rocksdb" / "contract", ROOT / "tests/rocksdb/contract.cc"
    with alone():
        header = ROOT / "bindings/rocksdb/include"
        if not program.exists() or program.stat().st_mtime < max(path.stat().st_mtime for path in [source, header / "shingle/files.h"]):
            run("g++", "-std=c++17", "-O1", "-Wall", "-Werror", f"-I{header}", source, "-o", program, "-lrocksdb", "-ldl", seconds=300)
    return program
