"""The Debian package under a real systemd and udev: rights to drives, the unit's sandbox, restarts, watchdog, and stop.

The unit forbids much (system calls, devices, files), and nothing but a real service manager shows that a server can work so."""

import os
import pathlib
import subprocess

import pytest

from guest import ADDRESS, Guest, Zns
from shingle import keys_in, s3_client
from systemd import Systemd
from test_server import PORT, free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
NODE = "/dev/nvme0n1"
UNIT = "shingle"
CONFIG = f'data = "/var/lib/shingle"\nlisten = "{ADDRESS}:{PORT}"\n[[drive]]\npath = "{NODE}"\n'
#: Seconds without a sign of life after which the service manager ends the server, here.
WATCHDOG_SECONDS = 6
MIB = 1 << 20


class Machine:
    """A guest with the package installed; the service is neither enabled nor started."""

    def __init__(self, guest, port):
        self.guest, self.port = guest, port
        self.systemd = Systemd(guest)
        # Triggers would index the manuals of the whole machine.
        self.systemd.ok(f"dpkg --force-unsafe-io --no-triggers -i {guest.scratch}/*.deb 2>&1", seconds=200)

    def configure(self, text):
        self.systemd.ok(f"cat >/etc/shingle/config.toml <<'END'\n{text}END")

    def start(self):
        """Starts the service; it has a drive, and clients that know its keys."""
        self.configure(CONFIG)
        self.systemd.ok(f"systemctl reset-failed {UNIT}; systemctl start {UNIT} || {{ journalctl -u {UNIT} | tail -40; exit 1; }}")
        self.ready()

    def ready(self):
        url = f"http://{ADDRESS}:{PORT}/"
        # Whatever the answer: one that is not 503 comes of an open engine.
        look = f'[ "$(curl -s -o /dev/null -w %{{http_code}} {url})" = 403 ] && exit'
        status, _ = self.systemd.run(f"for _ in $(seq 200); do {look}; sleep 0.2; done; exit 1")
        assert status == 0, self.systemd.journal(UNIT)

    def s3(self):
        keys = keys_in(self.guest_file("/var/lib/shingle/credentials.toml"))
        return s3_client(f"http://127.0.0.1:{self.port}", keys, attempts=1, connect_timeout=20, read_timeout=30)

    def guest_file(self, path):
        return self.systemd.ok(f"cat {path}")

    def process(self):
        return self.systemd.show(UNIT, "MainPID")["MainPID"]


@pytest.fixture(scope="module")
def machine(tmp_path_factory, shingle, limit):
    folder = tmp_path_factory.mktemp("service")
    scratch = folder / "scratch"
    quick = {**os.environ, "DPKG_DEB_COMPRESSOR_TYPE": "none"}
    build = [ROOT / "packaging/deb/build", "--binary", shingle, "--out", scratch]
    subprocess.run(build, check=True, env=quick, stdout=subprocess.DEVNULL)
    zns = Zns(folder / "zns", zones=96, zone_mib=8, capacity_mib=6, open_max=14, active_max=14)
    port = free_port()
    with Guest(scratch=scratch, drives=[zns], forward=[(port, PORT)], seconds=limit(900)) as guest:
        yield Machine(guest, port)


@pytest.fixture
def service(machine):
    """The service, running; stopped after the test."""
    machine.start()
    yield machine
    machine.systemd.run(f"systemctl stop {UNIT}; systemctl reset-failed {UNIT}")


def test_the_package_starts_nothing_and_gives_its_user_the_drive(machine):
    assert machine.systemd.run(f"systemctl is-enabled {UNIT}")[1].strip() == "disabled"
    assert machine.systemd.show(UNIT, "ActiveState")["ActiveState"] == "inactive"
    machine.systemd.ok("getent passwd shingle")
    machine.systemd.ok("udevadm settle")
    assert machine.systemd.ok(f"stat -c '%G %a' {NODE}").strip() == "shingle 660"


def test_a_server_works_within_the_limits_of_the_unit(service):
    process = service.process()
    status = dict(line.split(":", 1) for line in service.guest_file(f"/proc/{process}/status").splitlines())
    user = service.systemd.ok("id -u shingle").strip()
    assert status["Uid"].split() == [user] * 4
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    core = next(line for line in service.guest_file(f"/proc/{process}/limits").splitlines() if "core file" in line)
    assert core.split()[4:6] == ["0", "0"]
    assert service.guest_file(f"/sys/fs/cgroup/system.slice/{UNIT}.service/memory.max").strip() != "max"
    s3 = service.s3()
    s3.create_bucket(Bucket="bucket")
    body = os.urandom(3 * MIB)
    s3.put_object(Bucket="bucket", Key="key", Body=body)
    assert s3.get_object(Bucket="bucket", Key="key")["Body"].read() == body
    # The socket of the running server, and the state that the service manager shows.
    assert "drives" in service.systemd.ok(f"{UNIT} status --config /etc/shingle/config.toml")
    assert service.systemd.show(UNIT, "StatusText")["StatusText"] != ""


def test_a_server_that_dies_is_started_again_with_all_that_was_acknowledged(service):
    s3 = service.s3()
    s3.create_bucket(Bucket="kept")
    bodies = {f"key-{number}": os.urandom(100_000 + number) for number in range(8)}
    for key, body in bodies.items():
        s3.put_object(Bucket="kept", Key=key, Body=body)
    service.systemd.ok(f"kill -9 {service.process()}")
    service.systemd.wait(UNIT, {"NRestarts": 1, "ActiveState": "active"})
    service.ready()
    for key, body in bodies.items():
        assert service.s3().get_object(Bucket="kept", Key=key)["Body"].read() == body


def test_a_server_that_hangs_is_ended_and_started_again(service):
    folder = f"/run/systemd/system/{UNIT}.service.d"
    try:
        service.systemd.ok(
            f"mkdir -p {folder}; printf '[Service]\\nWatchdogSec={WATCHDOG_SECONDS}\\n' >{folder}/watchdog.conf\n"
            f"systemctl daemon-reload; systemctl restart {UNIT}"
        )
        service.ready()
        # One that works is left alone.
        service.systemd.ok(f"sleep {2 * WATCHDOG_SECONDS}")
        assert service.systemd.show(UNIT, "NRestarts", "ActiveState") == {"NRestarts": "0", "ActiveState": "active"}
        service.systemd.ok(f"kill -STOP {service.process()}")
        service.systemd.wait(UNIT, {"NRestarts": 1, "ActiveState": "active"}, seconds=10 * WATCHDOG_SECONDS)
        assert "Failed with result 'watchdog'" in service.systemd.journal(UNIT)
        service.ready()
    finally:
        service.systemd.ok(f"rm -r {folder}; systemctl daemon-reload")


def test_a_wrong_configuration_ends_the_service_and_is_not_tried_again(machine):
    machine.configure(CONFIG + 'size = "many"\n')
    assert machine.systemd.run(f"systemctl start {UNIT}")[0] != 0
    # Longer than the unit waits before it starts a server again.
    machine.systemd.ok("sleep 8")
    shown = machine.systemd.show(UNIT, "ActiveState", "ExecMainStatus", "NRestarts")
    assert shown == {"ActiveState": "failed", "ExecMainStatus": "78", "NRestarts": "0"}
    assert "size" in machine.systemd.journal(UNIT)


def test_a_stop_is_orderly_and_removal_leaves_the_data(service):
    s3 = service.s3()
    s3.create_bucket(Bucket="left")
    s3.put_object(Bucket="left", Key="key", Body=b"body")
    service.systemd.ok(f"systemctl stop {UNIT}")
    shown = service.systemd.show(UNIT, "ActiveState", "Result", "ExecMainStatus")
    assert shown == {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"}
    check = f"{UNIT} object check --config /etc/shingle/config.toml"
    service.systemd.ok(f"runuser -u shingle -- {check}")
    service.start()
    service.systemd.ok("dpkg --force-unsafe-io --no-triggers -r shingle 2>&1", seconds=200)
    assert service.systemd.run(f"systemctl is-active {UNIT}")[0] != 0
    service.systemd.ok("[ -s /var/lib/shingle/credentials.toml ] && [ -e /etc/shingle/config.toml ] && [ ! -e /usr/bin/shingle ]")
