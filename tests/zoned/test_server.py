"""The S3 server on real devices: kill -9 of the server and power cuts of its machine lose nothing that was acknowledged.

Clients are boto3's, on this machine, by way of a forwarded port; they are those of the tests on emulated drives."""

import json
import socket
import time

import pytest
from botocore.exceptions import ClientError

from devices import make_device, read_errors
from guest import ADDRESS, Disk, Guest, Zns
from shingle import keys_in, s3_client
from test_kill import Client, verify

MIB = 1 << 20
PORT = 9000


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Machine:
    """A guest with a server on a zoned device. Its data directory is in ext4 on a disk, so that a power cut hits it, too."""

    def __init__(self, folder, shingle, seconds, device="zns"):
        self.shingle, self.port, self.device = shingle, free_port(), device
        zns = Zns(folder / "zns", zones=96, zone_mib=8, capacity_mib=6, open_max=14, active_max=14)
        disk = Disk(folder / "disk", 256)
        self.guest = Guest(
            scratch=folder / "scratch", drives=[zns, disk], forward=[(self.port, PORT)], seconds=seconds
        )

    def __enter__(self):
        self.guest.__enter__()
        try:
            self.guest.ok("modprobe ext4 && mkfs.ext4 -q /dev/vda")
            self.node = make_device(self.guest, self.device)
            self.start()
            self.keys = keys_in(self.guest.ok("cat /mnt/data/credentials.toml"))
        except BaseException:
            self.guest.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_):
        self.guest.__exit__(None, None, None)

    def start(self):
        config = f'listen = "{ADDRESS}:{PORT}"\ndata = "/mnt/data"\n[[drive]]\npath = "{self.node}"\n'
        self.guest.ok(
            "modprobe ext4; mountpoint -q /mnt || mount /dev/vda /mnt || exit 1\n"
            f"cat >/run/shingle.toml <<'END'\n{config}END\n"
            f"setsid {self.shingle} serve --config /run/shingle.toml </dev/null >/run/log 2>&1 & echo $! >/run/server\n"
            "for _ in {1..600}; do grep -q Ready: /run/log && exit; kill -0 $(cat /run/server) || break; sleep 0.1; done\n"
            "cat /run/log; exit 1"
        )

    def kill(self):
        self.guest.ok("kill -9 $(cat /run/server); while kill -0 $(cat /run/server) 2>/dev/null; do sleep 0.1; done")

    def stop(self):
        self.guest.ok("kill $(cat /run/server); while kill -0 $(cat /run/server) 2>/dev/null; do sleep 0.1; done")

    def power_cut(self):
        self.guest.power_cut()

    def check(self):
        self.stop()
        self.guest.ok(f"{self.shingle} object check --config /run/shingle.toml", seconds=300)

    def s3(self, attempts=1):
        # After a power cut nobody says that a connection is gone.
        return s3_client(f"http://127.0.0.1:{self.port}", self.keys, attempts, connect_timeout=20, read_timeout=20)


@pytest.fixture
def machine(tmp_path, shingle, limit):
    with Machine(tmp_path, shingle, limit(900)) as machine:
        yield machine


def rounds(machine, interruptions, sizes, at_least):
    """Clients at work until enough was acknowledged, then an interruption, then a look at what is left."""
    machine.s3().create_bucket(Bucket="bucket")
    possible = {}
    for number, interrupt in enumerate(interruptions):
        clients = [Client(machine.s3(), 100 * number + client, sizes) for client in range(3)]
        for client in clients:
            client.start()
        deadline = time.monotonic() + 120
        while sum(client.acknowledged for client in clients) < at_least and time.monotonic() < deadline:
            time.sleep(0.05)
        interrupt()
        for client in clients:
            client.join(timeout=120)
            assert not client.is_alive()
            possible.update(client.possible)
        acknowledged = sum(client.acknowledged for client in clients)
        assert acknowledged >= at_least, f"only {acknowledged} requests came through: nothing was tested"
        machine.start()
        possible = verify(machine, possible)
    machine.check()


@pytest.mark.short
def test_objects_survive_a_kill_and_a_power_cut(machine):
    rounds(machine, [machine.kill, machine.power_cut], sizes=[1, 4096, 100_000, MIB], at_least=15)


def test_objects_survive_kills_and_power_cuts_one_after_the_other(machine):
    interruptions = [machine.power_cut, machine.kill, machine.power_cut]
    rounds(machine, interruptions, sizes=[0, 4096, 100_000, 2 * MIB], at_least=30)


def test_what_a_drive_gives_no_more_is_given_up_once(tmp_path, shingle, limit):
    """A block that stays unreadable, and the index is lost: each start reports it, until the loss is accepted."""
    with Machine(tmp_path, shingle, limit(600), device="scsi") as machine:
        guest, accept = machine.guest, f"{shingle} object accept-loss --config /run/shingle.toml"
        body = lambda number: f"object {number} ".encode() * 10_000  # noqa: E731
        s3 = machine.s3()
        s3.create_bucket(Bucket="bucket")
        for number in range(20):
            s3.put_object(Bucket="bucket", Key=str(number), Body=body(number))
        machine.kill()
        chunks = json.loads(guest.ok(f"{shingle} chunk dump {machine.node}"))["chunks"]
        bad = max((record for chunk in chunks for record in chunk["records"]), key=lambda record: record["bytes"])
        with read_errors(guest, bad["zone"], bad["block"]):
            for _ in range(2):
                guest.ok("rm -r /mnt/data/index")
                machine.start()
                said = guest.ok("cat /run/log")
                assert "could not be read" in said, said
                machine.stop()
            status, said = guest.run(f"{accept} </dev/null")
            assert status == 1 and "cannot be read: " in said and "add --yes" in said, said
            said = guest.ok(f"{accept} --yes")
            assert "given up" in said and "stays" not in said, said
            assert "nothing to give up" in guest.ok(accept)
            machine.start()
            assert "could not be read" not in guest.ok("cat /run/log")
            s3, found = machine.s3(), 0
            for number in range(20):
                try:
                    assert s3.get_object(Bucket="bucket", Key=str(number))["Body"].read() == body(number)
                    found += 1
                except ClientError as error:
                    assert error.response["Error"]["Code"] in ("NoSuchKey", "NoSuchBucket"), error
            assert found < 20, "nothing was lost"
            machine.check()
