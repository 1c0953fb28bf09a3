"""Bad input is answered clearly: with what is wrong and what to do, with an exit status, never with a panic."""

import json
import random
import shutil
import socket
import subprocess

import botocore.exceptions
import pytest

from shingle import BINARY, Server, shingle

MIB = 1 << 20


@pytest.fixture
def drive(tmp_path):
    """A formatted drive with a chunk of some bytes in it."""
    path = tmp_path / "disk.shingle"
    ok("drive", "create", path, "--size", "256MiB", "--zone-size", "4MiB", "--conventional", "2")
    ok("chunk", "format", path)
    ok("chunk", "create", path, "2a")
    (tmp_path / "bytes").write_bytes(random.Random(1).randbytes(300_000))
    ok("chunk", "append", path, "2a", tmp_path / "bytes")
    return path


def ok(*arguments):
    done = shingle(*arguments)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def refused(*arguments, says=(), status=None):
    """Runs a command that must fail in words, and returns what it said."""
    done = shingle(*arguments)
    said = done.stdout + done.stderr
    assert done.returncode > 0, (arguments, said)
    assert done.returncode != 101 and "panicked" not in said, (arguments, said)
    assert said.strip(), (arguments, "nothing was said")
    if status is not None:
        assert done.returncode == status, (arguments, done.returncode, said)
    for word in says:
        assert word.lower() in said.lower(), (arguments, word, said)
    return said


def serve_refused(data, *arguments, says=()):
    return refused("serve", "--data", data, *arguments, says=says)


@pytest.mark.parametrize(
    "content",
    [b"", b"hello\n", bytes(1 << 20), random.Random(3).randbytes(1 << 20)],
    ids=["empty", "text", "zeros", "random"],
)
def test_a_file_that_is_no_drive_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "photo.jpg"
    path.write_bytes(content)
    for command in (["chunk", "format"], ["chunk", "ls"], ["chunk", "check"], ["drive", "report"]):
        refused(*command, path, says=["photo.jpg"])
    refused("drive", "create", path, "--size", "256MiB", says=["photo.jpg"])
    assert path.read_bytes() == content
    assert shingle("chunk", "check", path).returncode == 8


def test_a_drive_that_is_not_there_is_named(tmp_path):
    refused("chunk", "ls", tmp_path / "nowhere", says=["nowhere"])
    refused("chunk", "check", tmp_path / "nowhere", says=["nowhere"], status=8)


def test_a_drive_without_a_store_is_told_so(tmp_path):
    path = tmp_path / "blank.shingle"
    ok("drive", "create", path, "--size", "256MiB", "--zone-size", "4MiB")
    refused("chunk", "ls", path, says=["format"])
    refused("chunk", "check", path, status=8)


def everything_below(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_looking_where_there_is_no_store_is_status_8_and_makes_nothing(tmp_path):
    """Of each verb that looks: on nothing, directories, files, and drives that hold no store."""
    ok("drive", "create", tmp_path / "blank.shingle", "--size", "64MiB", "--zone-size", "4MiB")
    (tmp_path / "empty").mkdir()
    (tmp_path / "photo.jpg").write_bytes(b"a photo")
    (tmp_path / "blank.toml").write_text('drives = ["blank.shingle"]\n')
    (tmp_path / "away.toml").write_text('drives = ["away.shingle"]\n')
    before = everything_below(tmp_path)
    for name in ("nowhere", "empty", "photo.jpg", "blank.shingle"):
        at = tmp_path / name
        for verb in (["ls"], ["stat"], ["check"], ["dump"], ["get"]):
            chunk = ["2a"] if verb == ["get"] else []
            refused("chunk", *verb, at, *chunk, status=8, says=[name])
        for verb in (["ls"], ["stat"], ["stat", "b/k"], ["check"], ["get", "b/k"]):
            refused("object", *verb, "--data", at, status=8, says=[name])
        if name != "blank.shingle":
            refused("drive", "report", at, status=8, says=[name])
            refused("drive", "map", at, status=8, says=[name])
    for name in ("nowhere.toml", "empty", "photo.jpg", "blank.toml", "away.toml"):
        named = {"blank.toml": "blank.shingle", "away.toml": "away.shingle"}.get(name, name)
        for verb in (["ls"], ["stat"], ["stat", "a"], ["check"], ["dump"], ["get", "a"], ["salvage"]):
            refused("array", *verb, "--array", tmp_path / name, status=8, says=[named])
    assert everything_below(tmp_path) == before


def test_nothing_is_asked_about_that_cannot_be_done_or_costs_nothing(tmp_path):
    """Of formats and of making drives anew."""
    tiny, disk = tmp_path / "tiny.shingle", tmp_path / "disk.shingle"
    ok("drive", "create", tiny, "--size", "64MiB", "--zone-size", "4MiB")
    ok("drive", "create", disk, "--size", "64MiB", "--zone-size", "4MiB")
    ok("chunk", "format", tiny)
    # Too few zones: there is no question to answer.
    said = refused("chunk", "format", tiny, "--force", "--metazones", "100", says=["at least 107", "tiny.shingle"])
    assert "--yes" not in said and "will be lost" not in said, said
    ok("chunk", "check", tiny)
    said = refused("drive", "create", disk, "--size", "64MiB", "--overwrite", says=["--yes", "nothing in its zones"])
    assert "will be lost" not in said, said
    refused("drive", "create", tiny, "--size", "64MiB", "--overwrite", says=["chunk store", "will be lost", "--yes"])
    # Nothing is there to be lost.
    ok("chunk", "format", disk, "--force")


def test_zones_with_bytes_of_nobody_known_are_asked_about(drive):
    # Its superblock is gone, and all other zones are as they were.
    ok("drive", "reset", drive, "2", "--yes")
    refused("chunk", "format", drive)
    refused("chunk", "format", drive, "--force", says=["no store", "will be lost", "--yes"])
    refused("drive", "create", drive, "--size", "64MiB", "--overwrite", says=["no store", "will be lost", "--yes"])
    ok("chunk", "format", drive, "--force", "--yes")


def test_a_store_is_not_formatted_over(drive):
    refused("chunk", "format", drive, says=["force"])
    assert "2a" in ok("chunk", "ls", drive)


def test_a_truncated_drive_gives_an_error_or_damage(drive):
    with open(drive, "r+b") as file:
        file.truncate(10_000)
    refused("chunk", "ls", drive)
    assert shingle("chunk", "check", drive).returncode in (4, 8)


@pytest.mark.parametrize("seed", range(12))
def test_a_corrupted_drive_gives_an_error_or_damage_never_a_panic(drive, tmp_path, seed):
    rng = random.Random(seed)
    data = (tmp_path / "bytes").read_bytes()
    raw = bytearray(drive.read_bytes())
    # Bytes that are not zero, so that what is hit means something.
    used = [at for at in range(0, len(raw), 512) if any(raw[at : at + 512])]
    for _ in range(rng.choice([1, 10, 200])):
        at = rng.choice(used) + rng.randrange(512)
        raw[at] ^= rng.randrange(1, 256)
    drive.write_bytes(raw)
    for command in (["chunk", "check"], ["chunk", "ls"], ["chunk", "dump"], ["drive", "report"]):
        done = shingle(*command, drive)
        assert done.returncode in (0, 1, 4, 8), (seed, command, done.stdout[-500:], done.stderr[-2000:])
        assert "panicked" not in done.stderr, (seed, command, done.stderr)
    read = subprocess.run([BINARY, "chunk", "get", drive, "2a"], capture_output=True, timeout=60)
    assert b"panicked" not in read.stderr, (seed, read.stderr)
    # What is read was written; what is damaged is not returned.
    assert data.startswith(read.stdout), seed
    if read.returncode == 0:
        assert read.stdout == data, seed


def test_a_flipped_bit_of_data_is_found_by_check_and_by_read(drive, tmp_path):
    data = (tmp_path / "bytes").read_bytes()
    raw = bytearray(drive.read_bytes())
    at = raw.find(data[200_000:200_032])
    assert at > 0
    raw[at] ^= 1
    drive.write_bytes(raw)
    refused("chunk", "check", drive, status=4, says=["damage"])
    refused("chunk", "get", drive, "2a", tmp_path / "out")


def test_chunks_that_cannot_be_are_refused(drive):
    refused("chunk", "create", drive, "2a", says=["2a"])
    refused("chunk", "get", drive, "2b", says=["2b"])
    refused("chunk", "stat", drive, "2b", says=["2b"])
    refused("chunk", "create", drive, "no-hex")
    refused("chunk", "get", drive, "2a", "--offset", "300000", "--length", "1")
    ok("chunk", "seal", drive, "2a")
    refused("chunk", "append", drive, "2a", drive, says=["seal"])


@pytest.mark.parametrize("size", ["", "much", "-1GiB", "1XiB", "0", "99999999999999PiB"])
def test_sizes_that_are_none_are_refused(tmp_path, size):
    refused("drive", "create", tmp_path / "disk", f"--size={size}")
    assert not (tmp_path / "disk").exists()


def test_a_port_in_use_is_named(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        serve_refused(tmp_path / "data", "--listen", address, says=[address, "in use"])


def test_a_data_directory_in_use_is_named(server):
    serve_refused(server.data, "--listen", "127.0.0.1:0", says=["use", str(server.process.pid)])
    refused("object", "gc", "--data", server.data, status=8)
    refused("object", "accept-loss", "--yes", "--data", server.data, says=["in use", "stop"], status=8)
    assert server.s3().list_buckets()["Buckets"] == []


def test_a_drive_in_use_is_named(server):
    drives = list(server.data.glob("*.zoned"))
    assert drives, "the server made no drives"
    refused("chunk", "ls", drives[0], says=["use"])


def test_a_drive_of_another_store_is_refused_and_loses_nothing(tmp_path):
    config = 'data = "unused"\n[[drive]]\npath = "only.shingle"\n'
    create = '[drive.create]\nzone_size = "4 MiB"\nzones = 64\nconventional_zones = 2\nopen_zones_max = 32\n'
    (tmp_path / "make.toml").write_text(config + create)
    (tmp_path / "open.toml").write_text(config)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for data, key in ((ours, "ours"), (theirs, "theirs")):
        server = Server(data, config=tmp_path / "make.toml").start()
        s3 = server.s3()
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key=key, Body=key.encode())
        server.stop()
    shutil.move(ours / "only.shingle", tmp_path / "kept.shingle")
    shutil.copy(theirs / "only.shingle", ours / "only.shingle")
    serve_refused(ours, "--config", tmp_path / "open.toml", "--listen", "127.0.0.1:0", says=["only.shingle"])
    # Back where it belongs, each drive serves what it had.
    shutil.move(ours / "only.shingle", theirs / "only.shingle")
    shutil.move(tmp_path / "kept.shingle", ours / "only.shingle")
    for data, key in ((ours, "ours"), (theirs, "theirs")):
        server = Server(data, config=tmp_path / "open.toml").start()
        assert server.s3().get_object(Bucket="bucket", Key=key)["Body"].read() == key.encode()
        server.stop()


@pytest.mark.parametrize("verb", ["check", "ls", "stat", "gc", "rebuild-index", "accept-loss"])
def test_a_directory_without_a_store_is_told_so_and_stays_as_it_is(tmp_path, verb):
    (tmp_path / "readme.txt").write_text("not a store")
    refused("object", verb, "--data", tmp_path, says=["no data directory", "--data"], status=8)
    refused("object", verb, "--data", tmp_path / "nowhere", says=["nowhere"], status=8)
    assert [path.name for path in tmp_path.iterdir()] == ["readme.txt"]


def test_a_newer_version_is_refused_as_such(server):
    server.stop()
    drives = server.data / "drives.toml"
    text = drives.read_text()
    drives.write_text(text.replace("version = 1", "version = 99"))
    serve_refused(server.data, "--listen", "127.0.0.1:0", says=["version", "newer"])
    drives.write_text(text)
    server.start()


@pytest.mark.parametrize(
    "text, says",
    [
        ("listen = 5", "listen"),
        ("no such thing", "toml"),
        ('colour = "red"', "colour"),
        ('[[drive]]\npath = "missing.shingle"', "missing.shingle"),
        ('[[drive]]\npath = "d"\n[drive.create]\nzone_size = "7 bytes"', "zone_size"),
    ],
)
def test_a_configuration_that_is_wrong_is_refused(tmp_path, text, says):
    (tmp_path / "shingle.toml").write_text(text)
    config = ["--config", tmp_path / "shingle.toml", "--listen", "127.0.0.1:0"]
    serve_refused(tmp_path / "data", *config, says=[says])
    refused("serve", "--config", tmp_path / "absent.toml", says=["absent.toml"])


def test_an_object_larger_than_the_free_space_is_refused_and_nothing_is_lost(tmp_path):
    config = tmp_path / "shingle.toml"
    config.write_text(
        '[[drive]]\npath = "small.shingle"\n'
        '[drive.create]\nzone_size = "4 MiB"\nzones = 64\nconventional_zones = 2\nopen_zones_max = 32\n'
    )
    server = Server(tmp_path / "data", config=config).start()
    try:
        s3 = server.s3()
        s3.create_bucket(Bucket="bucket")
        kept = random.Random(5).randbytes(3 * MIB)
        s3.put_object(Bucket="bucket", Key="kept", Body=kept)
        with pytest.raises(botocore.exceptions.ClientError) as caught:
            s3.put_object(Bucket="bucket", Key="too large", Body=bytes(400 * MIB))
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] >= 400
        assert s3.get_object(Bucket="bucket", Key="kept")["Body"].read() == kept
        assert [item["Key"] for item in s3.list_objects_v2(Bucket="bucket")["Contents"]] == ["kept"]
        s3.put_object(Bucket="bucket", Key="after", Body=kept)
        s3 = server.restart_after_kill().s3()
        assert s3.get_object(Bucket="bucket", Key="after")["Body"].read() == kept
    finally:
        if server.process is not None:
            server.kill()


def test_what_is_no_http_does_not_stop_the_server(server):
    host, port = server.endpoint.removeprefix("http://").split(":")
    rng = random.Random(11)
    for attempt in range(20):
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(rng.randbytes(rng.randrange(1, 5000)) if attempt % 2 else b"GET / HTTP/9\r\n\r\n")
    assert server.s3().list_buckets()["Buckets"] == []


def test_where_all_can_be_read_no_loss_is_accepted(server):
    server.s3().create_bucket(Bucket="bucket")
    server.s3().put_object(Bucket="bucket", Key="key", Body=b"bytes")
    server.stop()
    said = ok("object", "accept-loss", "--data", server.data)
    assert "nothing to give up" in said
    assert json.loads(ok("object", "accept-loss", "--data", server.data, "--json"))["given_up"] == []
    for drive in server.data.glob("*.zoned"):
        assert "nothing to give up" in ok("chunk", "accept-loss", drive)
    server.start()
    assert server.s3().get_object(Bucket="bucket", Key="key")["Body"].read() == b"bytes"
