"""Buckets and objects on an array behind the S3 server: by location, by storage class, with drives lost and servers killed."""

import concurrent.futures
import hashlib
import json
import os
import random
import re
import subprocess
import time
import urllib.request

import botocore.exceptions
import pytest

from shingle import BINARY, Server, does_all_of_s3, shingle
from test_bad_input import ok
from test_kill import rounds

MIB = 1 << 20
#: Bytes of the object that must pass in bounded memory; 10 GiB are 10737418240.
LARGE_BYTES = int(os.environ.get("SHINGLE_LARGE_BYTES", 512 * MIB))
#: What the server may take for it beyond what it takes at rest, whatever the object's size.
LARGE_MEMORY = 256 * MIB

CHUNKS = """
[[drive]]
path = "chunks.shingle"
create = { zone_size = "16 MiB", zones = 96 }
"""


class Shelf:
    """An array of emulated drives, and a server with it."""

    def __init__(self, folder, code="2+1", drives=3, size="1GiB", segment="1MiB", more=CHUNKS, zone="8MiB"):
        self.folder, self.more = folder, more
        self.drives = [folder / f"disk{number}.shingle" for number in range(drives)]
        for drive in self.drives:
            ok("drive", "create", drive, "--size", size, "--zone-size", zone)
        self.file = folder / "shelf.toml"
        ok("array", "format", "--array", self.file, "--code", code, "--segment", segment, *self.drives)
        self.config = folder / "server.toml"
        self.configure()
        self.server = Server(folder / "data", config=self.config)

    def configure(self, array="", top=""):
        text = f'{top}\n{self.more}\n[[array]]\nname = "shelf"\nfile = "{self.file}"\n{array}\n'
        self.config.write_text(text)

    def refused(self):
        """That a server of the array alone does not start; what it says."""
        whole = self.config.read_text()
        self.config.write_text(whole.replace(self.more, ""))
        done = shingle("serve", "--config", self.config, "--data", self.server.data, "--listen", "127.0.0.1:0")
        self.config.write_text(whole)
        said = done.stdout + done.stderr
        assert done.returncode > 0 and "panicked" not in said, said
        return said


@pytest.fixture
def shelves(tmp_path):
    """Makes shelves, and ends their servers."""
    made = []

    def make(**shape):
        made.append(Shelf(tmp_path, **shape))
        return made[-1]

    yield make
    for shelf in made:
        if shelf.server.process is not None:
            shelf.server.kill()


def content(name, size):
    return random.Random(name).randbytes(size)


def upload(s3, bucket, key, parts, **options):
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key, **options)["UploadId"]
    etags = [
        s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=part)["ETag"]
        for number, part in enumerate(parts, 1)
    ]
    named = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
    s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": named})


def classes(s3, bucket, **options):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, **options)
    return {item["Key"]: item["StorageClass"] for page in pages for item in page.get("Contents", [])}


def read(s3, bucket, key, **options):
    return s3.get_object(Bucket=bucket, Key=key, **options)["Body"].read()


def objects_of(shelf):
    """What lies on the array itself, as its own command sees it; the server must not run."""
    return ok("array", "ls", "--array", shelf.file).splitlines()


def test_a_bucket_lives_on_the_array_that_its_location_names(shelves):
    shelf = shelves()
    s3 = shelf.server.start().s3()
    s3.create_bucket(Bucket="cold", CreateBucketConfiguration={"LocationConstraint": "shelf"})
    s3.create_bucket(Bucket="plain")
    assert s3.get_bucket_location(Bucket="cold")["LocationConstraint"] == "shelf"
    assert s3.get_bucket_location(Bucket="plain")["LocationConstraint"] is None
    with pytest.raises(botocore.exceptions.ClientError, match="IllegalLocationConstraint"):
        s3.create_bucket(Bucket="nowhere", CreateBucketConfiguration={"LocationConstraint": "nowhere"})
    objects = {name: content(name, size) for name, size in
               {"empty": 0, "a/small": 17, "a/whole": MIB, "b/large": 7 * MIB + 5, "ö ü": 3000}.items()}
    for key, data in objects.items():
        s3.put_object(Bucket="cold", Key=key, Body=data, ContentType="text/x-test", Metadata={"name": "value"})
    parts = [content("p1", 5 * MIB + 1), content("p2", 6 * MIB), b"the end"]
    upload(s3, "cold", "parts", parts)
    objects["parts"] = b"".join(parts)
    for key, data in objects.items():
        assert read(s3, "cold", key) == data, key
        head = s3.head_object(Bucket="cold", Key=key)
        assert (head["ContentLength"], head["StorageClass"]) == (len(data), "STANDARD_IA")
        if key != "parts":
            assert (head["ContentType"], head["Metadata"]) == ("text/x-test", {"name": "value"})
            assert head["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    whole = objects["parts"]
    for first, last in ((0, 0), (5 * MIB - 3, 5 * MIB + 9), (11 * MIB - 7, len(whole) - 1)):
        assert read(s3, "cold", "parts", Range=f"bytes={first}-{last}") == whole[first : last + 1]
    assert read(s3, "cold", "parts", PartNumber=2) == parts[1]
    assert set(classes(s3, "cold")) == set(objects)
    page = s3.list_objects_v2(Bucket="cold", Delimiter="/", MaxKeys=2)
    assert [prefix["Prefix"] for prefix in page["CommonPrefixes"]] == ["a/", "b/"] and page["IsTruncated"]
    with pytest.raises(botocore.exceptions.ClientError, match="BucketNotEmpty"):
        s3.delete_bucket(Bucket="cold")
    # After an orderly end, and after a kill.
    shelf.server.stop()
    s3 = shelf.server.start().s3()
    assert read(s3, "cold", "b/large") == objects["b/large"]
    s3.delete_object(Bucket="cold", Key="b/large")
    s3 = shelf.server.restart_after_kill().s3()
    del objects["b/large"]
    assert set(classes(s3, "cold")) == set(objects) and read(s3, "cold", "parts") == whole
    for key in objects:
        s3.delete_object(Bucket="cold", Key=key)
    s3.delete_bucket(Bucket="cold")
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["plain"]
    # The space of parts comes back, too.
    deadline = time.monotonic() + 60
    shelf.server.stop()
    while objects_of(shelf) and time.monotonic() < deadline:
        shelf.server.start()
        time.sleep(0.5)
        shelf.server.stop()
    assert objects_of(shelf) == []


def test_an_object_lies_on_the_array_by_its_storage_class(shelves):
    shelf = shelves()
    shelf.configure(array='class = "GLACIER_IR"')
    s3 = shelf.server.start().s3()
    s3.create_bucket(Bucket="bucket")
    cold = {"StorageClass": "GLACIER_IR"}
    s3.put_object(Bucket="bucket", Key="1/hot", Body=b"hot")
    s3.put_object(Bucket="bucket", Key="2/cold", Body=content("cold", 3 * MIB), **cold)
    s3.put_object(Bucket="bucket", Key="3/hot", Body=b"hot", StorageClass="STANDARD")
    upload(s3, "bucket", "4/parts", [content("p1", 5 * MIB), b"p2"], **cold)
    expected = {"1/hot": "STANDARD", "2/cold": "GLACIER_IR", "3/hot": "STANDARD", "4/parts": "GLACIER_IR"}
    assert classes(s3, "bucket") == expected
    assert classes(s3, "bucket", PaginationConfig={"PageSize": 1}) == expected
    assert s3.head_object(Bucket="bucket", Key="2/cold")["StorageClass"] == "GLACIER_IR"
    assert "StorageClass" not in s3.head_object(Bucket="bucket", Key="1/hot")
    attributes = s3.get_object_attributes(Bucket="bucket", Key="4/parts", ObjectAttributes=["StorageClass"])
    assert attributes["StorageClass"] == "GLACIER_IR"
    for call in (s3.put_object, s3.create_multipart_upload):
        with pytest.raises(botocore.exceptions.ClientError, match="InvalidStorageClass"):
            call(Bucket="bucket", Key="5", StorageClass="NO_SUCH")
    # From one to the other, by a copy onto itself, and by a put.
    source = {"Bucket": "bucket", "Key": "1/hot"}
    s3.copy_object(Bucket="bucket", Key="1/hot", CopySource=source, **cold)
    s3.put_object(Bucket="bucket", Key="2/cold", Body=b"warm")
    with pytest.raises(botocore.exceptions.ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket="bucket", Key="1/hot", Body=b"no", IfNoneMatch="*")
    expected |= {"1/hot": "GLACIER_IR", "2/cold": "STANDARD"}
    assert classes(s3, "bucket") == expected
    s3 = shelf.server.restart_after_kill().s3()
    assert classes(s3, "bucket") == expected
    assert (read(s3, "bucket", "1/hot"), read(s3, "bucket", "2/cold")) == (b"hot", b"warm")
    assert read(s3, "bucket", "4/parts") == content("p1", 5 * MIB) + b"p2"
    with pytest.raises(botocore.exceptions.ClientError, match="BucketNotEmpty"):
        s3.delete_bucket(Bucket="bucket")
    s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": key} for key in expected]})
    assert classes(s3, "bucket") == {}
    s3.delete_bucket(Bucket="bucket")
    assert s3.list_buckets()["Buckets"] == []


def test_a_server_can_have_arrays_only_and_survives_kills(shelves):
    shelf = shelves(more="", size="2GiB")
    server = shelf.server.start()
    assert not list(shelf.server.data.glob("*.zoned")), "drives were made that nobody asked for"
    rounds(server, kills=3, sizes=[0, 1, 4096, 100_000, 3 * MIB], seconds=1.5)
    server.stop()
    assert json.loads(ok("array", "dump", "--array", shelf.file, "--json"))["clean"]


def test_everything_that_s3_clients_do_works_on_an_array(shelves):
    shelf = shelves(code="5+1", drives=6, size="4GiB", segment="20MiB", zone="64MiB", more="")
    server = shelf.server.start()
    does_all_of_s3(server)


def test_an_upload_in_parts_survives_a_kill(shelves):
    shelf = shelves(more="")
    s3 = shelf.server.start().s3()
    s3.create_bucket(Bucket="bucket")
    upload = s3.create_multipart_upload(Bucket="bucket", Key="kept")["UploadId"]
    parts = [content("1", 5 * MIB), b"the end"]
    etags = [
        s3.upload_part(Bucket="bucket", Key="kept", UploadId=upload, PartNumber=number, Body=part)["ETag"]
        for number, part in enumerate(parts, 1)
    ]
    s3 = shelf.server.restart_after_kill().s3()
    assert [item["UploadId"] for item in s3.list_multipart_uploads(Bucket="bucket")["Uploads"]] == [upload]
    found = s3.list_parts(Bucket="bucket", Key="kept", UploadId=upload)["Parts"]
    assert [(part["PartNumber"], part["ETag"]) for part in found] == list(enumerate(etags, 1))
    named = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
    s3.complete_multipart_upload(Bucket="bucket", Key="kept", UploadId=upload, MultipartUpload={"Parts": named})
    s3 = shelf.server.restart_after_kill().s3()
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="bucket")
    assert read(s3, "bucket", "kept") == b"".join(parts)


def figures(admin):
    text = urllib.request.urlopen(f"{admin}/metrics", timeout=10).read().decode()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line[0] != "#"}


def test_a_lost_drive_is_waited_for_named_and_done_without_unless_told_not_to(shelves):
    shelf = shelves()
    s3 = shelf.server.start().s3()
    s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": "shelf"})
    objects = {f"{number}": content(number, size) for number, size in enumerate((5, 100_000, MIB + 1, 9 * MIB))}
    for key, data in objects.items():
        s3.put_object(Bucket="bucket", Key=key, Body=data)
    shelf.server.stop()
    gone = shelf.drives[1]
    gone.rename(gone.with_suffix(".away"))
    shelf.configure(array="degraded = false", top='drive_wait = "1 s"')
    said = shelf.refused()
    assert all(word in said for word in ("shelf", gone.name, "waited for", "degraded = false")), said
    # Nothing was changed by that: it is there again, and all is well.
    gone.with_suffix(".away").rename(gone)
    shelf.server.start()
    shelf.server.stop()
    gone.rename(gone.with_suffix(".away"))
    shelf.configure(top='drive_wait = "1 s"\nadmin = "127.0.0.1:0"')
    shelf.server.start()
    s3 = shelf.server.s3()
    for key, data in objects.items():
        assert read(s3, "bucket", key) == data
    s3.put_object(Bucket="bucket", Key="new", Body=objects["3"])
    assert read(s3, "bucket", "new", Range="bytes=5-9") == objects["3"][5:10]
    with urllib.request.urlopen(f"{shelf.server.admin}/readyz", timeout=10) as ready:
        said = ready.read().decode()
    # A balancer must not lose a server that serves.
    assert ready.status == 200 and "shelf: degraded" in said and gone.name in said, said
    now = figures(shelf.server.admin)
    assert now['shingle_array_drives_missing{array="shelf"}'] == 1 and now['shingle_array_up{array="shelf"}'] == 1
    assert now['shingle_array_drives{array="shelf"}'] == 3 and now["shingle_up"] == 1
    assert now['shingle_array_reconstructed_bytes_total{array="shelf"}'] > 0
    told = shingle("status", "--data", shelf.server.data)
    words = ("DEGRADED", f"drive {gone} missing since 20", "no further drive may be lost")
    assert told.returncode == 2 and all(word in told.stdout for word in words), told.stdout
    gone.with_suffix(".away").rename(gone)
    deadline = time.monotonic() + 60
    while "array readmit" not in shingle("status", "--data", shelf.server.data).stdout:
        assert time.monotonic() < deadline, "nobody says that the drive is there again"
        time.sleep(1)
    gone.rename(gone.with_suffix(".away"))
    shelf.server.stop()
    other = shelf.drives[2]
    other.rename(other.with_suffix(".away"))
    said = shelf.refused()
    assert all(word in said for word in (other.name, "without 1", "nothing was changed")), said


def test_what_was_on_a_lost_drive_is_rebuilt_while_objects_are_served(shelves):
    shelf = shelves(drives=4, more="")
    s3 = shelf.server.start().s3()
    s3.create_bucket(Bucket="bucket")
    objects = {f"{number}": content(number, size) for number, size in enumerate((5, 100_000, MIB + 1, 40 * MIB))}
    for key, data in objects.items():
        s3.put_object(Bucket="bucket", Key=key, Body=data)
    shelf.server.stop()
    gone = shelf.drives[1]
    gone.rename(gone.with_suffix(".away"))
    shelf.configure(top='drive_wait = "1 s"\nadmin = "127.0.0.1:0"')
    s3 = shelf.server.start().s3()
    s3.put_object(Bucket="bucket", Key="while", Body=objects["3"])
    objects["while"] = objects["3"]
    deadline = time.monotonic() + 120
    while figures(shelf.server.admin)['shingle_array_drives_missing{array="shelf"}'] > 0:
        assert time.monotonic() < deadline, "nothing was rebuilt"
        time.sleep(0.2)
    # Nothing is missing any more.
    with urllib.request.urlopen(f"{shelf.server.admin}/readyz", timeout=10) as ready:
        assert ready.read() == b"ok\nshelf: ok\n"
    assert shingle("status", "--data", shelf.server.data).returncode == 0
    # Another one may go now.
    shelf.server.stop()
    other = shelf.drives[2]
    other.rename(other.with_suffix(".away"))
    s3 = shelf.server.start().s3()
    for key, data in objects.items():
        assert read(s3, "bucket", key) == data, key


def test_what_cannot_be_served_is_refused_in_words(shelves):
    shelf = shelves()
    ok("drive", "create", shelf.folder / "blank.shingle", "--size", "64MiB", "--zone-size", "4MiB")
    good = shelf.file.read_text()
    shelf.file.write_text(f'drives = ["{shelf.folder}/blank.shingle"]\n')
    assert "shingle array format" in shelf.refused()
    shelf.file.write_text("drives = 5\n")
    assert "shelf.toml" in shelf.refused()
    shelf.file.write_text(good)
    subprocess.run([BINARY, "array", "put", "--array", shelf.file, "films/one"], input=b"data", check=True)
    said = shelf.refused()
    assert "films/one" in said and "array put" in said
    ok("array", "rm", "--array", shelf.file, "films/one")
    shelf.server.start()
    # While it serves, nobody else has the array.
    done = shingle("array", "ls", "--array", shelf.file)
    assert done.returncode > 0 and "use" in done.stderr, done.stderr


def memory(server, field):
    status = open(f"/proc/{server.process.pid}/status").read()
    return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.M)[1]) << 10


def test_a_large_object_passes_in_bounded_memory(shelves):
    """Its size does not matter: a server takes as much memory for 10 GiB as for what is tested by default."""
    drive = max(1 << 30, LARGE_BYTES // 4 + LARGE_BYTES // 16)
    shelf = shelves(code="5+1", drives=6, size=drive - drive % (64 * MIB), segment="20MiB", zone="64MiB", more="")
    server = shelf.server.start()
    s3 = server.s3()
    s3.create_bucket(Bucket="bucket")
    rest = memory(server, "VmRSS")
    block = random.Random(1).randbytes(MIB)
    part_bytes = 64 * MIB
    count = -(-LARGE_BYTES // part_bytes)

    def body(number):
        size = min(part_bytes, LARGE_BYTES - (number - 1) * part_bytes)
        return (number.to_bytes(8, "big") + block[8:]) * -(-size // MIB), size

    began = time.monotonic()
    upload = s3.create_multipart_upload(Bucket="bucket", Key="large")["UploadId"]

    def send(number):
        data, size = body(number)
        part = s3.upload_part(Bucket="bucket", Key="large", UploadId=upload, PartNumber=number, Body=data[:size])
        return {"PartNumber": number, "ETag": part["ETag"]}

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(send, range(1, count + 1)))
    s3.complete_multipart_upload(Bucket="bucket", Key="large", UploadId=upload, MultipartUpload={"Parts": parts})
    written = time.monotonic() - began
    peak_writing = memory(server, "VmHWM")
    assert s3.head_object(Bucket="bucket", Key="large")["ContentLength"] == LARGE_BYTES

    began = time.monotonic()
    answer = s3.get_object(Bucket="bucket", Key="large")["Body"]
    for number in range(1, count + 1):
        data, size = body(number)
        assert answer.read(size) == data[:size], f"part {number}"
    assert answer.read(1) == b""
    took = time.monotonic() - began
    peak = memory(server, "VmHWM")
    print(
        f"{LARGE_BYTES / MIB:.0f} MiB: at rest {rest / MIB:.0f} MiB, peak {peak_writing / MIB:.0f} MiB after writing "
        f"({LARGE_BYTES / MIB / written:.0f} MiB/s), {peak / MIB:.0f} MiB after reading ({LARGE_BYTES / MIB / took:.0f} MiB/s)"
    )
    assert peak - rest < LARGE_MEMORY
    s3.delete_object(Bucket="bucket", Key="large")
