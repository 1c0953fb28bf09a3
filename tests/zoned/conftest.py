"""What tests with real zoned devices share: the programs under test, and guests to run them in."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/e2e")]
from devices import DEVICES, make_device  # noqa: E402
from guest import Disk, Guest, Zns, missing  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--short", action="store_true", help="only the tests that are part of `make test`")


def pytest_configure(config):
    config.addinivalue_line("markers", "short: part of `make test`")


def pytest_collection_modifyitems(config, items):
    if config.option.short:
        config.hook.pytest_deselected(items=[item for item in items if not item.get_closest_marker("short")])
        items[:] = [item for item in items if item.get_closest_marker("short")]
    if why := missing():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=why))


def built(*arguments):
    """Has cargo build something, and returns the paths of the programs that came of it."""
    command = ["cargo", *arguments, "--quiet", "--message-format=json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, f"failed: {' '.join(command)}"
    artifacts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [artifact["executable"] for artifact in artifacts if artifact.get("executable")]


@pytest.fixture(scope="session")
def shingle():
    """The command under test. The guest sees the machine's files, so its path there is the same."""
    if named := os.environ.get("SHINGLE_BINARY"):
        # Relative to here, and not to where the guest runs it.
        return os.path.abspath(named)
    return built("build", "--bin", "shingle")[-1]


@pytest.fixture(scope="session")
def contract():
    """The test programs of crate zoned-linux, which run the device contract suite on a node: `device` on a zoned one, `node`
    on an ordinary one."""
    names = ("device", "node")
    return {name: built("test", "--no-run", "-p", "shingle-zoned-linux", "--test", name)[-1] for name in names}


@pytest.fixture(scope="session")
def guest(tmp_path_factory):
    """A guest for all tests that do not cut its power, with a ZNS namespace at /dev/nvme0n1 and a disk at /dev/vda."""
    folder = tmp_path_factory.mktemp("guest")
    zns = Zns(folder / "zns", zones=64, zone_mib=8, capacity_mib=6, open_max=14, active_max=14)
    with Guest(scratch=folder / "scratch", drives=[zns, Disk(folder / "disk", 128)], seconds=900) as guest:
        yield guest


@pytest.fixture(params=DEVICES)
def node(guest, request):
    """A fresh device of each kind and shape."""
    return make_device(guest, request.param)
