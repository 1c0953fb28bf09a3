"""What tests with real zoned devices share: the programs under test, and guests to run them in."""

import pathlib
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/e2e")]
import programs  # noqa: E402
from devices import DEVICES, make_device  # noqa: E402
from guest import Disk, Guest, NotStarted, Zns, missing  # noqa: E402

#: Of the short part, whatever else the machine does: when no other test begins, and when guests are ended.
SHORT_SECONDS, SHORT_END_SECONDS = 120, 170
_began = time.monotonic()


def pytest_addoption(parser):
    parser.addoption("--short", action="store_true", help="only the tests that are part of `make test`")


def pytest_configure(config):
    config.addinivalue_line("markers", "short: part of `make test`")


def pytest_collection_modifyitems(config, items):
    if config.option.short:
        config.hook.pytest_deselected(items=[item for item in items if not item.get_closest_marker("short")])
        # What takes longest comes last: where time runs out, it is that.
        short = [item for item in items if item.get_closest_marker("short")]
        items[:] = sorted(short, key=lambda item: "contract" in item.name)
    if why := missing():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=why))


def taken():
    """Seconds since all began, but for what cargo took."""
    return time.monotonic() - _began - programs.spent


def pytest_runtest_setup(item):
    if item.config.option.short and taken() > SHORT_SECONDS:
        pytest.skip(f"left out after {SHORT_SECONDS} s: this machine is slow or busy; `make test-zoned` runs it")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where no guest comes to life, or time runs out under one, `make test` says so and goes on; `make test-zoned` fails."""
    report = yield
    if item.config.option.short and call.excinfo is not None and report.outcome == "failed":
        why = None
        if call.excinfo.errisinstance(NotStarted):
            said = str(call.excinfo.value).splitlines()
            last = next((line for line in reversed(said[1:]) if not line.endswith(":")), "nothing was said")
            why = f"{said[0].partition(';')[0]}: {last}"
        elif taken() >= SHORT_END_SECONDS:
            why = f"ended after {SHORT_END_SECONDS} s: this machine is slow or busy, or the test hangs"
        if why:
            report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {why}; `make test-zoned` runs it")
    return report


@pytest.fixture(scope="session")
def shingle():
    """The command under test. The guest sees the machine's files, so its path there is the same."""
    return programs.shingle()


@pytest.fixture(scope="session")
def contract():
    """The test programs of crate zoned-linux, which run the device contract suite on a node: `device` on a zoned one, `node`
    on an ordinary one."""
    return {name: programs.built("zoned-linux", "test", name) for name in ("device", "node")}


@pytest.fixture(scope="session")
def limit(request):
    """Seconds that a guest may run: as many as are named, and in the short part no more than are left."""
    short = request.config.option.short
    return lambda seconds: max(1, int(min(seconds, SHORT_END_SECONDS - taken()))) if short else seconds


@pytest.fixture(scope="session")
def guest(tmp_path_factory, limit):
    """A guest for all tests that do not cut its power, with a ZNS namespace at /dev/nvme0n1 and a disk at /dev/vda."""
    folder = tmp_path_factory.mktemp("guest")
    zns = Zns(folder / "zns", zones=64, zone_mib=8, capacity_mib=6, open_max=14, active_max=14)
    drives = [zns, Disk(folder / "disk", 128)]
    with Guest(scratch=folder / "scratch", drives=drives, seconds=limit(1200)) as guest:
        yield guest


@pytest.fixture(params=DEVICES)
def node(guest, request):
    """A fresh device of each kind and shape."""
    return make_device(guest, request.param)
