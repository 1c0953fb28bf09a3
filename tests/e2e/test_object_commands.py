"""`shingle object` on a stopped server with drives and an array, and commands that lose something: they ask before."""

import hashlib
import json
import os
import pty
import subprocess

from shingle import BINARY, Server, shingle
from test_bad_input import ok, refused
from test_s3_array import Shelf

MIB = 1 << 20
CONTROL = "evil\x1b[31m\u202ename"


def test_object_commands_cover_drives_and_arrays_and_name_what_is_damaged(tmp_path):
    shelf = Shelf(tmp_path)
    shelf.server.start()
    try:
        s3 = shelf.server.s3()
        s3.create_bucket(Bucket="plain")
        s3.create_bucket(Bucket="shelved", CreateBucketConfiguration={"LocationConstraint": "shelf"})
        bodies = {f"key{number}": os.urandom(300_000) for number in range(3)} | {CONTROL: os.urandom(9 * MIB)}
        for key, body in bodies.items():
            s3.put_object(Bucket="plain", Key=key, Body=body)
            s3.put_object(Bucket="shelved", Key=key, Body=body)
    finally:
        shelf.server.stop()
    where = ["--config", shelf.config, "--data", shelf.server.data]
    listed = json.loads(ok("object", "ls", *where, "--json"))["objects"]
    assert {(row["bucket"], row["key"]) for row in listed} == {(b, k) for b in ("plain", "shelved") for k in bodies}
    shown = ok("object", "ls", *where)
    assert "\x1b" not in shown and "\u202e" not in shown and "plain/evil\\u{1b}[31m\\u{202e}name" in shown
    stat = json.loads(ok("object", "stat", *where, "--json"))
    assert stat["objects"] == 4 and [array["array"] for array in stat["arrays"]] == ["shelf"]
    clean = json.loads(ok("object", "check", *where, "--json"))
    assert clean["clean"] and clean["arrays"][0]["clean"] and clean["arrays"][0]["objects"] > 0

    # A bit of the large object, which lies in segments, on the drive that belongs to no array.
    drive = shelf.server.data / "chunks.shingle"
    assert flip(drive, bodies[CONTROL][5 * MIB : 5 * MIB + 64])
    done = shingle("object", "check", *where)
    assert done.returncode == 4 and "damaged object: plain/evil\\u{1b}[31m\\u{202e}name" in done.stdout, done.stdout
    assert "\x1b" not in done.stdout and "array shelf: clean" in done.stdout
    told = json.loads(shingle("object", "check", *where, "--json").stdout)
    assert told["damaged_objects"] == [{"bucket": "plain", "key": CONTROL}] and not told["clean"]

    # Without one drive of the array all is there; without two much is away, and not lost; without three nothing can be said.
    for away, outcome in zip(shelf.drives, ("clean", "away", "error")):
        away.rename(away.with_suffix(".away"))
        done = shingle("object", "check", *where, "--json")
        array = json.loads(done.stdout)["arrays"][0]
        assert done.returncode == 4 and array.get(outcome) and not array.get("lost"), (outcome, array)


def flip(drive, marker):
    """Spoils a bit of the first place of these bytes; false if the drive has none."""
    with drive.open("r+b") as raw:
        at = raw.read(400 * MIB).find(marker)
        if at < 0:
            return False
        raw.seek(at)
        byte = raw.read(1)[0]
        raw.seek(at)
        raw.write(bytes([byte ^ 1]))
    return True


def test_lines_about_places_name_the_drive_as_the_configuration_does(tmp_path):
    drives = [tmp_path / name for name in ("upper.shingle", "lower.shingle")]
    create = 'create = { zone_size = "4 MiB", zones = 64, conventional_zones = 2 }\n'
    config = tmp_path / "two.toml"
    config.write_text("".join(f'[[drive]]\npath = "{drive}"\n{create}' for drive in drives))
    server = Server(tmp_path / "data", config=config).start()
    bodies = {f"key{number}": os.urandom(200_000) for number in range(12)}
    try:
        s3 = server.s3()
        s3.create_bucket(Bucket="plain")
        for key, body in bodies.items():
            s3.put_object(Bucket="plain", Key=key, Body=body)
    finally:
        server.stop()
    places = {drive: [key for key, body in bodies.items() if flip(drive, body[100:164])] for drive in drives}
    assert all(places.values()) and sum(map(len, places.values())) == len(bodies), places
    where = ["--config", config, "--data", server.data]
    told = json.loads(shingle("object", "check", *where, "--json").stdout)
    for drive, keys in places.items():
        for key in keys:
            lines = [line for line in told["damage"] if f"plain/{key}`" in line]
            assert lines and all(f" of {drive}: chunk " in line for line in lines), (drive, key, told["damage"])

    # Its drive is away: the same.
    drives[0].rename(tmp_path / "away")
    config.write_text(f"allow_missing_drives = true\n{config.read_text()}")
    done = shingle("object", "check", "--quick", *where)
    key = places[drives[0]][0]
    assert done.returncode == 4 and f"object plain/{key} in file " in done.stdout, done
    assert f" of {drives[0]}: the drive is missing" in done.stdout and str(drives[1]) not in done.stdout, done.stdout
    refused("object", "get", f"plain/{key}", "-o", tmp_path / "out", *where, says=["the drive with store"], status=1)


def test_single_objects_are_read_stored_and_deleted_without_the_server(tmp_path):
    shelf = Shelf(tmp_path)
    where = ["--config", shelf.config, "--data", shelf.server.data]
    refused("object", "get", "plain/x", *where, says=["no data directory"], status=8)
    shelf.server.start()
    try:
        s3 = shelf.server.s3()
        s3.create_bucket(Bucket="plain")
        s3.create_bucket(Bucket="shelved", CreateBucketConfiguration={"LocationConstraint": "shelf"})
        body = os.urandom(9 * MIB)
        for bucket in ("plain", "shelved"):
            s3.put_object(Bucket=bucket, Key="a b/c", Body=body, ContentType="image/jpeg")
    finally:
        shelf.server.stop()
    new, out = tmp_path / "new", tmp_path / "out"
    new.write_bytes(os.urandom(5 * MIB))
    for bucket in ("plain", "shelved"):
        name = f"{bucket}/a b/c"
        ok("object", "get", name, "-o", out, *where)
        assert out.read_bytes() == body
        ok("object", "get", name, "-o", out, "--range", "1000000-1000009", *where)
        assert out.read_bytes() == body[1000000:1000010]
        told = json.loads(ok("object", "stat", name, *where, "--json"))
        assert told["size_bytes"] == len(body) and told["metadata"]["content-type"] == "image/jpeg"
        status, said = on_a_terminal("object", "get", name, *where)
        assert status == 1 and "--force" in said
        out.unlink()
        refused("object", "get", f"{bucket}/none", "-o", out, *where, says=["no object"], status=1)
        assert not out.exists()
        ok("object", "put", f"{bucket}/new", new, "--content-type", "text/plain", *where)
        refused("object", "rm", name, f"{bucket}/none", *where, says=["none"], status=1)
    refused("object", "put", "missing/x", new, *where, says=["no bucket `missing`", "s3 mb"], status=1)
    shelf.server.start()
    try:
        s3 = shelf.server.s3()
        for bucket in ("plain", "shelved"):
            assert [row["Key"] for row in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["new"]
            found = s3.get_object(Bucket=bucket, Key="new")
            assert found["Body"].read() == new.read_bytes() and found["ContentType"] == "text/plain"
            assert found["ETag"] == f'"{hashlib.md5(new.read_bytes()).hexdigest()}"'
    finally:
        shelf.server.stop()


def on_a_terminal(*arguments, answer=b""):
    """Status and output of a command whose standard streams are a terminal, where somebody types `answer`."""
    master, slave = pty.openpty()
    process = subprocess.Popen([str(BINARY), *map(str, arguments)], stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    os.write(master, answer)
    said = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(master)
    return process.wait(timeout=60), said.decode(errors="replace")


def test_what_destroys_asks_and_scripts_say_yes(tmp_path):
    drive = tmp_path / "disk.shingle"
    create = ["drive", "create", drive, "--size", "1GiB", "--zone-size", "16MiB"]
    ok(*create)
    ok("chunk", "format", drive)
    ok("chunk", "create", drive, "2a")
    for command in ([*create, "--overwrite"], ["chunk", "format", "--force", drive]):
        refused(*command, says=["disk.shingle", "chunk store", "will be lost", "--yes"], status=1)
        status, said = on_a_terminal(*command, answer=b"no\n")
        assert status == 1 and "will be lost" in said and "nothing was done" in said
        assert "2a" in ok("chunk", "ls", drive)
    status, said = on_a_terminal("chunk", "format", "--force", drive, answer=b"yes\n")
    assert status == 0 and "store" in said, said
    assert ok("chunk", "ls", drive) == ""
    ok(*create, "--overwrite", "--yes")
    refused("chunk", "ls", drive)


def test_bytes_go_to_a_terminal_only_by_force(tmp_path):
    drive = tmp_path / "disk.shingle"
    ok("drive", "create", drive, "--size", "1GiB", "--zone-size", "16MiB")
    ok("chunk", "format", drive)
    ok("chunk", "create", drive, "2a")
    (tmp_path / "bytes").write_bytes(b"\x1b[31mred")
    ok("chunk", "append", drive, "2a", tmp_path / "bytes")
    status, said = on_a_terminal("chunk", "get", drive, "2a")
    assert status == 1 and "\x1b" not in said and "--force" in said
    assert on_a_terminal("chunk", "get", drive, "2a", "--force")[1] == "\x1b[31mred"
    # The names that these verbs had go on.
    assert ok("chunk", "read", drive, "2a") == "\x1b[31mred"
    ok("chunk", "delete", drive, "2a", "--yes")


def test_the_operating_system_speaks_in_words(tmp_path):
    said = refused("chunk", "append", tmp_path / "none", "2a", tmp_path / "missing")
    assert "No such file" in said and "os error" not in said
