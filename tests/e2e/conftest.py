"""One server for all tests of a process that do not need to kill it, and one binary for all."""

import os
import signal
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.dirname(__file__))
# The clients of this environment come before any that the machine has.
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
from shingle import BINARY, Server  # noqa: E402

_shared = {}


def pytest_configure(config):
    """Starts the server that the tests of the S3 operations find in the environment, unless one is named there."""
    # A shell that starts the tests in the background has them ignore SIGINT. The commands that they start would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get("SHINGLE_ENDPOINT") or config.option.collectonly:
        return
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        # Each of the processes that run the tests has a server of its own.
        return
    if not BINARY.exists():
        raise pytest.UsageError(f"there is no {BINARY}: run `cargo build --bin shingle --bin shingle-lab` first")
    _shared["folder"] = tempfile.TemporaryDirectory(prefix="shingle-e2e-")
    server = _shared["server"] = Server(os.path.join(_shared["folder"].name, "data")).start()
    access, secret = server.keys
    os.environ.update(SHINGLE_ENDPOINT=server.endpoint, SHINGLE_ACCESS_KEY=access, SHINGLE_SECRET_KEY=secret)


def pytest_unconfigure(config):
    server = _shared.pop("server", None)
    if server is not None:
        try:
            server.stop()
        finally:
            _shared.pop("folder").cleanup()


@pytest.fixture
def server(tmp_path):
    """A server of the test's own, which it may kill."""
    server = Server(tmp_path / "data").start()
    yield server
    if server.process is not None:
        server.kill()
