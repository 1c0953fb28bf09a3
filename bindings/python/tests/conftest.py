"""The package with the library that cargo built (`cargo build -p shingle-python`); or, with `--installed`, the one that pip installed."""

import pathlib
import shutil
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILT = ROOT / "target" / "debug" / "lib_native.so"


def pytest_addoption(parser):
    parser.addoption("--installed", action="store_true", help="test the package that is installed, and not this build's")


def pytest_configure(config):
    if config.option.installed:
        return
    if not BUILT.exists():
        raise pytest.UsageError(f"there is no {BUILT}: run `cargo build -p shingle-python` first")
    package = ROOT / "target" / "python"
    shutil.copytree(ROOT / "bindings/python/python", package, dirs_exist_ok=True)
    shutil.copy(BUILT, package / "shingle" / "_native.abi3.so")
    sys.path.insert(0, str(package))
