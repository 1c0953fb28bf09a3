"""The package with the library that cargo built (`cargo test --workspace --no-run`, or `cargo build -p shingle-python`); or, with `--installed`, the one that pip installed."""

import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILT = ROOT / "target" / "debug"


def pytest_addoption(parser):
    parser.addoption("--installed", action="store_true", help="test the package that is installed, and not this build's")


def pytest_configure(config):
    if config.option.installed:
        return
    built = [path for path in (BUILT / "lib_native.so", BUILT / "deps" / "lib_native.so") if path.exists()]
    if not built:
        raise pytest.UsageError(f"there is no lib_native.so in {BUILT}: run `cargo build -p shingle-python` first")
    package = ROOT / "target" / "python"
    shutil.copytree(ROOT / "bindings/python/python", package, dirs_exist_ok=True)
    shutil.copy(max(built, key=lambda path: path.stat().st_mtime), package / "shingle" / "_native.abi3.so")
    sys.path.insert(0, str(package))
