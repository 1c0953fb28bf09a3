"""Objects on a blue store: by commands, and behind the S3 server; killed, damaged, full, and refused where they must be."""

import hashlib
import json
import os
import random
import signal
import subprocess
import time
import urllib.request

import botocore.exceptions
import pytest

from shingle import BINARY, Server, does_all_of_s3, shingle
from test_bad_input import ok, refused
from test_kill import rounds
from test_s3_array import classes, content, figures, read, upload

MIB = 1 << 20


def made(path, size="1GiB", zone="8MiB", metadata="log"):
    ok("drive", "create", path, "--size", size, "--zone-size", zone)
    ok("blue", "format", path, "--metadata", metadata)
    return path


@pytest.fixture
def drive(tmp_path):
    return made(tmp_path / "disk.shingle", size="512MiB", zone="4MiB")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(content("file", 7 * MIB + 5))
    return path


class Blue:
    """A server with a blue store, alone or beside drives."""

    def __init__(self, folder, more="", settings="", top="", **shape):
        self.folder, self.drive = folder, made(folder / "disk.shingle", **shape)
        self.more = more
        self.config = folder / "server.toml"
        self.configure(settings, top)
        self.server = Server(folder / "data", config=self.config)

    def configure(self, settings="", top=""):
        blue = f'[[blue]]\nname = "one"\ndrive = "{self.drive}"\n{settings}\n'
        self.config.write_text(f"{top}\n{self.more}\n{blue}")

    def check(self, *more):
        """What a check of the drive says; the server must not run."""
        return json.loads(ok("blue", "check", self.drive, "--deep", "--json", *more))


@pytest.fixture
def blues(tmp_path):
    """Makes servers, and ends them."""
    all_made = []

    def make(**shape):
        all_made.append(Blue(tmp_path, **shape))
        return all_made[-1]

    yield make
    for blue in all_made:
        if blue.server.process is not None:
            blue.server.kill()


def test_objects_go_in_and_out_by_commands(tmp_path, drive, file):
    refused("blue", "put", drive, "photos/one", file, says=["no bucket `photos`", "--create-bucket"])
    told = json.loads(ok("blue", "put", drive, "photos/one", file, "--create-bucket", "--content-type", "a/b", "--json"))
    data = file.read_bytes()
    assert (told["size_bytes"], told["etag"]) == (len(data), hashlib.md5(data).hexdigest())
    small = tmp_path / "small"
    small.write_bytes(b"a few bytes")
    ok("blue", "put", drive, "photos/two/x", small)
    ok("blue", "put", drive, "photos/zero", "/dev/null")
    out = tmp_path / "out"
    ok("blue", "get", drive, "photos/one", "-o", out)
    assert out.read_bytes() == data
    ok("blue", "get", drive, "photos/one", "-o", out, "--range", "4194300-4194310")
    assert out.read_bytes() == data[4194300:4194311]
    assert ok("blue", "get", drive, "photos/two/x") == "a few bytes"
    assert [bucket["bucket"] for bucket in json.loads(ok("blue", "ls", drive, "--json"))["buckets"]] == ["photos"]
    listed = json.loads(ok("blue", "ls", drive, "photos", "--json"))["objects"]
    assert [(row["key"], row["size_bytes"]) for row in listed] == [("one", len(data)), ("two/x", 11), ("zero", 0)]
    assert "photos/two/x" in ok("blue", "ls", drive, "photos/t") and "one" not in ok("blue", "ls", drive, "photos/t")
    stat = ok("blue", "stat", drive, "photos/one")
    assert "content-type: a/b" in stat and str(len(data)) in stat
    room = json.loads(ok("blue", "df", drive, "--json"))["stats"]
    assert len(data) <= room["live_bytes"] < len(data) + MIB < room["capacity_bytes"]
    assert "for data" in ok("blue", "df", drive)
    dump = json.loads(ok("blue", "dump", drive, "--metadata"))
    assert sum(zone["live_bytes"] for zone in dump["zones"]) == room["live_bytes"]
    assert any("omap of object" in row["words"] and "two/x" in row["words"] for row in dump["metadata"])
    assert "metadata" not in json.loads(ok("blue", "dump", drive))
    check = json.loads(ok("blue", "check", drive, "--deep", "--json"))
    assert check["clean"] and (check["objects"], check["buckets"], check["going"]) == (3, 1, 0)
    refused("blue", "check", drive, "--repair", says=["--yes"])
    repaired = json.loads(ok("blue", "check", drive, "--deep", "--json", "--repair", "--yes"))
    assert repaired == check, "there is nothing to repair"
    assert "blue store" in ok("drive", "identify", drive)
    refused("blue", "rm", drive, "photos/one", says=["will be lost", "--yes"])
    refused("blue", "rm", drive, "photos/", "--yes", says=["holds objects"])
    ok("blue", "rm", drive, "photos/one", "photos/two/x", "photos/zero", "--yes")
    refused("blue", "rm", drive, "photos/one", "--yes", says=["there is no `photos/one`"])
    ok("blue", "rm", drive, "photos", "--yes")
    refused("blue", "ls", drive, "photos", says=["no bucket"])
    assert json.loads(ok("blue", "df", drive, "--json"))["stats"]["live_bytes"] == 0


def test_a_put_that_is_killed_leaves_a_whole_store(drive, file):
    kill_puts(drive, file)


def kill_puts(drive, file):
    ok("blue", "put", drive, "b/kept", file, "--create-bucket")
    chance = random.Random(5)
    for _ in range(8):
        process = subprocess.Popen([BINARY, "blue", "put", drive, "b/new", file], stdout=subprocess.DEVNULL)
        time.sleep(chance.random() * 0.2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert json.loads(ok("blue", "check", drive, "--deep", "--json"))["clean"]
        for row in json.loads(ok("blue", "ls", drive, "b", "--json"))["objects"]:
            got = subprocess.run([BINARY, "blue", "get", drive, f"b/{row['key']}"], capture_output=True, check=True)
            assert got.stdout == file.read_bytes()
    ok("blue", "put", drive, "b/new", file)
    ok("blue", "rm", drive, "b/new", "b/kept", "--yes")
    # All that was begun has gone, soon after an opening that may write.
    deadline = time.monotonic() + 30
    while json.loads(ok("blue", "df", drive, "--json"))["stats"]["live_bytes"] > 0:
        assert time.monotonic() < deadline, "bytes stay that nobody names"
        shingle("blue", "rm", drive, "b/none", "--yes")


def test_damage_is_found_and_named(drive, file):
    for key in ("one", "two"):
        ok("blue", "put", drive, f"b/{key}", file, "--create-bucket")
    wanted = file.read_bytes()[50_000:50_064]
    with open(drive, "r+b") as opened:
        at = opened.read().find(wanted)
        assert at > 0
        opened.seek(at)
        opened.write(os.urandom(8))
    assert json.loads(ok("blue", "check", drive, "--json"))["clean"], "no data are read"
    check = json.loads(refused("blue", "check", drive, "--deep", "--json", status=4))
    [finding] = check["findings"]
    [hurt] = finding["objects"]
    assert hurt["bucket"] == "b" and hurt["key"] in ("one", "two")
    other = {"one": "two", "two": "one"}[hurt["key"]]
    refused("blue", "get", drive, f"b/{hurt['key']}", "--force", says=["cannot be read from byte", "not those that were written"])
    assert "clean" not in refused("blue", "check", drive, "--deep", status=4, says=["damaged", f"b/{hurt['key']}"]).splitlines()
    ok("blue", "rm", drive, f"b/{hurt['key']}", "--yes")
    got = subprocess.run([BINARY, "blue", "get", drive, f"b/{other}"], capture_output=True, check=True)
    assert got.stdout == file.read_bytes()
    assert json.loads(ok("blue", "check", drive, "--deep", "--json"))["clean"]


def test_other_stores_and_owners_are_left_alone(tmp_path, drive):
    other = tmp_path / "files.shingle"
    ok("drive", "create", other, "--size", "512MiB", "--zone-size", "4MiB")
    refused("blue", "df", other, says=["holds no store", "format"], status=8)
    refused("blue", "check", tmp_path / "none", status=8)
    ok("files", "format", other)
    refused("blue", "format", other, says=["holds"])
    refused("blue", "ls", other, says=["another engine"], status=8)
    refused("files", "df", drive, says=["another engine"], status=8)
    refused("blue", "format", other, "--force", says=["files", "will be lost"])
    ok("blue", "format", other, "--force", "--yes")
    assert json.loads(ok("blue", "df", other, "--json"))["stats"]["live_bytes"] == 0
    tiny = tmp_path / "tiny.shingle"
    ok("drive", "create", tiny, "--size", "32MiB", "--zone-size", "4MiB")
    refused("blue", "format", tiny, says=["zones"])


def test_a_partition_is_a_drive_for_it(tmp_path, file):
    drive = tmp_path / "disk.shingle"
    ok("drive", "create", drive, "--size", "1GiB", "--zone-size", "4MiB")
    ok("drive", "partition", "add", drive, "objects=600MiB", "rest=200MiB")
    refused("blue", "format", drive, says=["divided into partitions"])
    ok("blue", "format", f"{drive}#objects")
    ok("blue", "put", f"{drive}#objects", "b/k", file, "--create-bucket")
    assert json.loads(ok("blue", "check", f"{drive}#objects", "--deep", "--json"))["clean"]


def test_a_server_serves_it_beside_drives_by_location_and_class(blues):
    chunks = '[[drive]]\npath = "chunks.shingle"\ncreate = { zone_size = "16 MiB", zones = 96 }\n'
    blue = blues(more=chunks, top='admin = "127.0.0.1:0"', settings='compression = "zstd"\ncache = "16 MiB"')
    assert "blue store one" in ok("serve", "--config", blue.config, "--data", blue.folder / "data", "--check")
    s3 = blue.server.start().s3()
    s3.create_bucket(Bucket="here", CreateBucketConfiguration={"LocationConstraint": "one"})
    s3.create_bucket(Bucket="both")
    objects = {"empty": b"", "a/small": b"x" * 17, "a/text": b"words " * 400_000, "b/large": content("l", 9 * MIB + 5)}
    for key, data in objects.items():
        s3.put_object(Bucket="here", Key=key, Body=data, ContentType="text/x-test", Metadata={"name": "value"})
    parts = [content("p1", 5 * MIB + 1), content("p2", 6 * MIB), b"the end"]
    upload(s3, "here", "parts", parts)
    objects["parts"] = whole = b"".join(parts)
    for key, data in objects.items():
        assert read(s3, "here", key) == data, key
        head = s3.head_object(Bucket="here", Key=key)
        assert (head["ContentLength"], head["StorageClass"]) == (len(data), "ONEZONE_IA")
        if key != "parts":
            assert (head["ContentType"], head["Metadata"]) == ("text/x-test", {"name": "value"})
            assert head["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    for first, last in ((0, 0), (5 * MIB - 3, 5 * MIB + 9), (11 * MIB - 7, len(whole) - 1)):
        assert read(s3, "here", "parts", Range=f"bytes={first}-{last}") == whole[first : last + 1]
    assert read(s3, "here", "parts", PartNumber=2) == parts[1]
    page = s3.list_objects_v2(Bucket="here", Delimiter="/", MaxKeys=2)
    assert [prefix["Prefix"] for prefix in page["CommonPrefixes"]] == ["a/", "b/"] and page["IsTruncated"]
    s3.put_object(Bucket="both", Key="hot", Body=b"hot")
    s3.put_object(Bucket="both", Key="cold", Body=b"cold", StorageClass="ONEZONE_IA")
    assert classes(s3, "both") == {"hot": "STANDARD", "cold": "ONEZONE_IA"}
    now = figures(blue.server.admin)
    assert now['shingle_blue_objects{blue="one"}'] == 6 and now["shingle_up"] == 1
    assert now['shingle_blue_live_bytes{blue="one"}'] < sum(map(len, objects.values())), "text is compressed"
    with urllib.request.urlopen(f"{blue.server.admin}/readyz", timeout=10) as ready:
        assert b"one: ok" in ready.read()
    told = json.loads(ok("status", "--data", blue.server.data, "--json"))
    [engine] = [engine for engine in told["engines"] if engine["name"] == "one"]
    assert (engine["kind"], engine["state"], engine["space"]["objects"]) == ("blue", "serving", 6)
    assert "one (blue store): ok" in ok("status", "--data", blue.server.data)
    refused("blue", "ls", blue.drive, says=["in use"], status=8)
    server = ("--config", blue.config, "--data", blue.server.data)
    assert "here/b/large" in ok("object", "ls", *server) and "blue store one: 6 objects" in ok("object", "stat", *server)
    refused("object", "check", *server, status=8, says=["blue store one: not checked", "stop the server"])
    s3 = blue.server.restart_after_kill().s3()
    for key, data in objects.items():
        assert read(s3, "here", key) == data, key
    blue.server.stop()
    # The commands for objects have them while it is stopped, too.
    assert "here/b/large" in ok("object", "ls", *server)
    assert ok("object", "get", "here/a/small", *server) == "x" * 17
    ok("object", "rm", "here/a/text", *server)
    checked = json.loads(ok("object", "check", *server, "--json"))
    assert checked["clean"] and checked["blues"][0]["objects"] == 5
    assert blue.check()["objects"] == 5
    s3 = blue.server.start().s3()
    del objects["a/text"]
    for key in objects:
        s3.delete_object(Bucket="here", Key=key)
    s3.delete_bucket(Bucket="here")
    s3.delete_object(Bucket="both", Key="cold")
    deadline = time.monotonic() + 60
    while figures(blue.server.admin)['shingle_blue_live_bytes{blue="one"}'] > 0:
        assert time.monotonic() < deadline, "the space of deleted objects does not come back"
        time.sleep(0.2)


def test_a_server_can_have_it_alone_and_survives_kills(blues):
    blue = blues()
    server = blue.server.start()
    assert not list(blue.server.data.glob("*.zoned")), "drives were made that nobody asked for"
    rounds(server, kills=4, sizes=[0, 1, 4096, 100_000, 3 * MIB, 9 * MIB], seconds=1.5)
    server.stop()
    assert blue.check()["clean"]


def test_everything_that_s3_clients_do_works_on_it(blues):
    blue = blues(size="8GiB", zone="32MiB")
    server = blue.server.start()
    does_all_of_s3(server)
    server.stop()
    assert blue.check()["clean"]


def test_an_upload_in_parts_survives_a_kill_and_one_that_ends_leaves_nothing(blues):
    blue = blues()
    s3 = blue.server.start().s3()
    s3.create_bucket(Bucket="bucket")
    kept, ended = (s3.create_multipart_upload(Bucket="bucket", Key=key)["UploadId"] for key in ("kept", "ended"))
    parts = [content("1", 5 * MIB), b"the end"]
    etags = {}
    for key, id in (("kept", kept), ("ended", ended)):
        etags[key] = [
            s3.upload_part(Bucket="bucket", Key=key, UploadId=id, PartNumber=number, Body=part)["ETag"]
            for number, part in enumerate(parts, 1)
        ]
    s3.abort_multipart_upload(Bucket="bucket", Key="ended", UploadId=ended)
    s3 = blue.server.restart_after_kill().s3()
    assert [item["UploadId"] for item in s3.list_multipart_uploads(Bucket="bucket")["Uploads"]] == [kept]
    found = s3.list_parts(Bucket="bucket", Key="kept", UploadId=kept)["Parts"]
    assert [(part["PartNumber"], part["ETag"]) for part in found] == list(enumerate(etags["kept"], 1))
    named = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags["kept"], 1)]
    s3.complete_multipart_upload(Bucket="bucket", Key="kept", UploadId=kept, MultipartUpload={"Parts": named})
    s3 = blue.server.restart_after_kill().s3()
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="bucket")
    assert read(s3, "bucket", "kept") == b"".join(parts)
    s3.delete_object(Bucket="bucket", Key="kept")
    blue.server.stop()
    checked = blue.check()
    assert checked["clean"] and checked["objects"] == 0


def test_a_full_drive_says_so_and_takes_objects_again(blues):
    blue = blues(size="256MiB", zone="4MiB")
    s3 = blue.server.start().s3()
    s3.create_bucket(Bucket="bucket")
    data = content("full", 9 * MIB)
    stored = 0
    with pytest.raises(botocore.exceptions.ClientError) as error:
        for stored in range(100):
            s3.put_object(Bucket="bucket", Key=str(stored), Body=data)
    assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] in (503, 507), error.value
    assert stored > 10
    s3 = blue.server.restart_after_kill().s3()
    for key in range(3):
        s3.delete_object(Bucket="bucket", Key=str(key))
    s3 = blue.server.s3(attempts=10)
    s3.put_object(Bucket="bucket", Key="again", Body=data)
    assert read(s3, "bucket", "again") == data and read(s3, "bucket", str(stored - 1)) == data
    blue.server.stop()
    assert blue.check()["clean"]


def test_what_cannot_be_served_is_refused_in_words(blues):
    blue = blues()
    data = blue.server.data

    def wrong(text, *says):
        blue.config.write_text(text)
        refused("serve", "--config", blue.config, "--data", data, says=says, status=78)

    one = f'[[blue]]\nname = "one"\ndrive = "{blue.drive}"\n'
    wrong(one + one, "two engines are called `one`", "something else")
    wrong(one.replace('"one"', '"drives"'), "name of the store on the [[drive]]s")
    wrong(one + 'class = "GLACIER"\n', "class cannot be GLACIER")
    wrong(one + f'[[drive]]\npath = "{blue.drive}"\n', "something else")
    wrong(one + 'compression = "zip"\n', "zip")
    other = blue.folder / "blank.shingle"
    ok("drive", "create", other, "--size", "512MiB", "--zone-size", "4MiB")
    blue.config.write_text(f'drive_wait = "off"\n{one.replace(str(blue.drive), str(other))}')
    refused("serve", "--config", blue.config, "--data", data, "--check", says=["holds nothing", "shingle blue format"])
    refused("serve", "--config", blue.config, "--data", data, "--listen", "127.0.0.1:0", says=["blue store one", "format"])
    blue.config.write_text(f'drive_wait = "off"\n{one.replace(str(blue.drive), str(other) + ".none")}')
    refused("serve", "--config", blue.config, "--data", data, "--listen", "127.0.0.1:0", says=["is not there"])
