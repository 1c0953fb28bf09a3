"""Partitions: a drive that is divided, stores on its parts, and volumes that a server has beside its objects."""

import json
import random
import threading

import pytest

from shingle import Server, shingle
from test_bad_input import ok, refused
from volumes import BLOCK, READ, WRITE, Client, Export

MIB = 1 << 20


@pytest.fixture
def drive(tmp_path):
    """A drive with a partition for objects and two for volumes."""
    path = tmp_path / "disk.shingle"
    ok("drive", "create", path, "--size", "1GiB", "--zone-size", "4MiB", "--conventional", "2", "--max-open", "40", "--max-active", "40")
    ok("drive", "partition", "add", path, "store=400MiB", "vm1=200MiB", "vm2=max,open=8,active=8")
    return path


def part(drive, name):
    return f"{drive}#{name}"


def test_a_drive_is_divided_looked_at_and_joined_again(tmp_path, drive):
    told = json.loads(ok("drive", "partition", "ls", drive, "--json"))
    assert told["free_zones"] == 0
    parts = {one["name"]: one for one in told["partitions"]}
    assert [parts[name]["size_bytes"] for name in ("store", "vm1")] == [400 * MIB, 200 * MIB]
    assert parts["vm2"]["open_zones_max"] == 8 and parts["store"]["open_zones_max"] == 15
    ends = [one["first_zone"] + one["zones"] for one in told["partitions"]]
    assert [one["first_zone"] for one in told["partitions"]][1:] == ends[:-1] and ends[-1] == 256
    ok("volume", "create", part(drive, "vm1"))
    ok("chunk", "format", part(drive, "store"))
    lines = ok("drive", "ls", drive).splitlines()
    assert len(lines) == 5 and "partitions" in lines[1] and "chunk store" in lines[2] and "volume" in lines[3]
    volumes = json.loads(ok("volume", "ls", drive, "--json"))["volumes"]
    assert [one["drive"] for one in volumes] == [part(drive, "vm1")]
    assert ok("drive", "identify", f"uuid:{volumes[0]['volume']}", drive).strip() == part(drive, "vm1")
    # Nothing takes the drive from its partitions by mistake.
    refused("volume", "create", drive, says=["divided into partitions", "#NAME"])
    refused("chunk", "format", drive, says=["divided into partitions"])
    refused("volume", "stat", part(drive, "vm3"), says=["no partition `vm3`", "store, vm1, vm2"])
    refused("drive", "partition", "add", drive, "more=1GiB", says=["no zone left"])
    refused("drive", "partition", "rm", part(drive, "vm1"), says=["volume", "will be lost", "--yes"])
    ok("drive", "partition", "rm", part(drive, "vm1"), "--yes")
    refused("drive", "partition", "add", drive, "more=300MiB", says=["the longest run", "50 zones"])
    refused("drive", "partition", "add", drive, "more=1MiB,open=30", says=["30 open zones", "15 left of 40"])
    ok("drive", "partition", "add", drive, "again=max")
    # Nothing of the old volume is found in its place.
    refused("volume", "stat", part(drive, "again"), says=["holds no volume"], status=8)
    assert "chunk store" in ok("drive", "partition", "ls", drive)
    plain = tmp_path / "plain.shingle"
    ok("drive", "create", plain, "--size", "64MiB", "--zone-size", "1MiB")
    refused("drive", "partition", "ls", plain, says=["no partitions", "drive partition"])
    ok("volume", "create", plain)
    refused("drive", "partition", "add", plain, "a=max", says=["volume", "--force"])


def test_volumes_on_one_drive_are_served_by_one_process(tmp_path, drive):
    names = ("vm1", "vm2")
    for name in names:
        ok("volume", "create", part(drive, name))
    export = Export(tmp_path, *[part(drive, name) for name in names])
    for life in range(3):
        with export:
            clients = [Client(export.socket, name) for name in names]
            for client, name in zip(clients, names):
                if life > 0:
                    assert client.call(READ, (life - 1) * BLOCK, BLOCK) == f"{name}, {life - 1}".encode().ljust(BLOCK, b".")
                client.call(WRITE, life * BLOCK, data=f"{name}, {life}".encode().ljust(BLOCK, b"."), flags=1)
            # The drive has one process, whichever partition it uses.
            refused("volume", "check", part(drive, "vm1"), says=["in use"], status=8)
            refused("chunk", "format", part(drive, "store"), says=["in use"])
            ok("volume", "snapshot", "take", part(drive, "vm2"), f"life-{life}")
            if life < 2:
                export.kill()
            else:
                export.stop()
    told = json.loads(ok("volume", "snapshot", "ls", part(drive, "vm2"), "--json"))["snapshots"]
    assert [one["name"] for one in told] == ["life-0", "life-1", "life-2"]
    for name in names:
        assert json.loads(ok("volume", "check", part(drive, name), "--json"))["clean"]


def test_a_server_has_volumes_beside_its_objects(tmp_path, drive):
    """SV-VOL-4, and SV-PART-1: objects and volumes on one drive, at once and through kill -9."""
    ok("volume", "create", part(drive, "vm1"))
    config = tmp_path / "config.toml"
    config.write_text(
        f'[[drive]]\npath = "{part(drive, "store")}"\n'
        f'[[volume]]\ndrive = "{part(drive, "vm1")}"\nlayer = "tl2"\n'
        f'[[volume]]\ndrive = "{part(drive, "vm2")}"\nname = "second"\n'
        f'[nbd]\nsockets = ["{tmp_path}/nbd.sock"]\n'
    )
    checked = shingle("serve", "--check", "--config", config, "--data", tmp_path / "data").stdout
    assert "volume vm1: volume" in checked and "volume second:" in checked and "volume create" in checked, checked
    server = Server(tmp_path / "data", config)
    rng = random.Random(3)
    bodies = {f"key-{number}": rng.randbytes(300_000) for number in range(12)}
    blocks = {at: rng.randbytes(BLOCK) for at in range(0, 600, 3)}
    try:
        server.start()
        assert f"nbd+unix:///vm1?socket={tmp_path}/nbd.sock" in "".join(server.lines)
        status = shingle("status", "--data", server.data)
        # The second volume was never made: that keeps nothing else from being served.
        assert status.returncode != 0 and "volume vm1: ok" in status.stdout, status.stdout
        assert "volume second: FAILED" in status.stdout and "holds no volume" in status.stdout, status.stdout
        s3 = server.s3()
        s3.create_bucket(Bucket="bucket")

        def put():
            for key, body in bodies.items():
                s3.put_object(Bucket="bucket", Key=key, Body=body)

        putting = threading.Thread(target=put)
        putting.start()
        client = Client(tmp_path / "nbd.sock", "vm1")
        for at, data in blocks.items():
            client.call(WRITE, at * BLOCK, data=data, flags=1)
        putting.join(timeout=120)
        server.restart_after_kill()
        s3 = server.s3()
        for key, body in bodies.items():
            assert s3.get_object(Bucket="bucket", Key=key)["Body"].read() == body
        client = Client(tmp_path / "nbd.sock", "vm1")
        for at, data in blocks.items():
            assert client.call(READ, at * BLOCK, BLOCK) == data
        client.close()
        server.stop()
    finally:
        if server.process is not None:
            server.kill()
    assert json.loads(ok("volume", "check", part(drive, "vm1"), "--json"))["clean"]
    assert json.loads(ok("volume", "stat", part(drive, "vm1"), "--json"))["opening"]["pairs"] == 0, "it was closed in order"
    ok("chunk", "check", part(drive, "store"))


def test_impossible_volumes_are_named_before_anything_is_started(tmp_path, drive):
    config = tmp_path / "config.toml"
    config.write_text(
        f'[[drive]]\npath = "{drive}"\n[[volume]]\ndrive = "{drive}"\n[[volume]]\ndrive = "a/{drive.name}"\n'
        '[nbd]\ntls_cert = "cert.pem"\n'
    )
    refused(
        "serve", "--config", config, "--data", tmp_path / "data",
        says=["named for a volume and for objects", "two volumes are called `disk`", "tls_cert and nbd.tls_key go together"],
    )
