"""`kill -9` in the middle of uploads, deletes and garbage collection: what was acknowledged is there, the rest is not."""

import concurrent.futures
import hashlib
import random
import threading
import time

import botocore.exceptions
import pytest

from shingle import Server, shingle

MIB = 1 << 20
#: What a client sees when the server dies under it.
CUT_OFF = (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError)

SMALL_DRIVE = """
[[drive]]
path = "small.shingle"
[drive.create]
zone_size = "4 MiB"
zones = 96
conventional_zones = 2
open_zones_max = 32
"""


def content(key, generation, size):
    return random.Random(f"{key} {generation}").randbytes(size)


class Client(threading.Thread):
    """Puts and deletes keys of its own until the server dies, and knows for each key what may be there."""

    def __init__(self, s3, number, sizes):
        super().__init__()
        self.s3, self.number, self.sizes = s3, number, sizes
        self.rng = random.Random(number)
        self.acknowledged = 0
        #: For each key the digests of what it may hold; None stands for its absence.
        self.possible = {}

    def run(self):
        generation = 0
        while True:
            generation += 1
            key = f"client {self.number}/key {self.rng.randrange(12)}"
            before = self.possible.get(key, {None})
            delete = self.rng.random() < 0.3
            data = b"" if delete else content(key, generation, self.rng.choice(self.sizes))
            after = None if delete else hashlib.sha256(data).hexdigest()
            self.possible[key] = before | {after}
            try:
                if delete:
                    self.s3.delete_object(Bucket="bucket", Key=key)
                else:
                    self.s3.put_object(Bucket="bucket", Key=key, Body=data)
            except CUT_OFF:
                return
            self.possible[key] = {after}
            self.acknowledged += 1


def digest(s3, key):
    try:
        return hashlib.sha256(s3.get_object(Bucket="bucket", Key=key)["Body"].read()).hexdigest()
    except botocore.exceptions.ClientError as error:
        assert error.response["Error"]["Code"] == "NoSuchKey", error.response
        return None


def listed(s3):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="bucket")
    return {item["Key"] for page in pages for item in page.get("Contents", [])}


def verify(server, possible):
    s3 = server.s3(attempts=3)
    now = {key: digest(s3, key) for key in sorted(possible)}
    for key, found in now.items():
        assert found in possible[key], f"{key} holds something that was never put there, or lost what was acknowledged"
    assert listed(s3) == {key for key, found in now.items() if found is not None}
    return {key: {found} for key, found in now.items()}


def rounds(server, kills, sizes, seconds):
    """Clients at work, a kill after a while, and a look at what is left: `kills` times over."""
    server.s3().create_bucket(Bucket="bucket")
    possible, acknowledged = {}, 0
    rng = random.Random(7)
    for kill in range(kills):
        clients = [Client(server.s3(), kill * 100 + number, sizes) for number in range(4)]
        for client in clients:
            client.start()
        time.sleep(seconds * rng.uniform(0.5, 1.5))
        server.kill()
        for client in clients:
            client.join(timeout=90)
            assert not client.is_alive()
            possible.update(client.possible)
            acknowledged += client.acknowledged
        server.start()
        possible = verify(server, possible)
    assert acknowledged > 10 * kills, f"only {acknowledged} requests came through: nothing was tested"


def check_is_clean(server):
    server.stop()
    config = ["--config", server.config] if server.config else []
    checked = shingle("object", "check", *config, "--data", server.data)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_uploads_and_deletes_survive_kills(server):
    rounds(server, kills=5, sizes=[0, 1, 4096, 100_000, 3 * MIB], seconds=1.5)
    check_is_clean(server)


def test_kills_on_a_small_drive_whose_garbage_is_collected_all_the_time(tmp_path):
    config = tmp_path / "shingle.toml"
    config.write_text(SMALL_DRIVE)
    server = Server(tmp_path / "data", config=config).start()
    try:
        rounds(server, kills=4, sizes=[50_000, MIB, 2 * MIB], seconds=4)
        check_is_clean(server)
    finally:
        if server.process is not None:
            server.kill()


def test_the_index_is_rebuilt_from_the_drives_alone(server):
    s3 = server.s3()
    s3.create_bucket(Bucket="bucket")
    objects = {f"folder {number % 5}/ö {number}": content(number, 0, number * 997) for number in range(120)}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda item: s3.put_object(Bucket="bucket", Key=item[0], Body=item[1]), objects.items()))
    for key in list(objects)[::7]:
        s3.delete_object(Bucket="bucket", Key=key)
        del objects[key]
    server.kill()
    rebuilt = shingle("object", "rebuild-index", "--data", server.data)
    assert rebuilt.returncode == 0, rebuilt.stdout + rebuilt.stderr
    s3 = server.start().s3()
    assert listed(s3) == set(objects)
    for key, data in objects.items():
        assert s3.get_object(Bucket="bucket", Key=key)["Body"].read() == data


def test_an_upload_in_parts_survives_a_kill_and_is_listed_completed_and_aborted(server):
    s3 = server.s3()
    s3.create_bucket(Bucket="bucket")
    parts = [content("part", number, 5 * MIB) for number in range(2)] + [b"the end"]
    kept = s3.create_multipart_upload(Bucket="bucket", Key="kept")["UploadId"]
    gone = s3.create_multipart_upload(Bucket="bucket", Key="gone")["UploadId"]
    etags = [
        s3.upload_part(Bucket="bucket", Key="kept", UploadId=kept, PartNumber=number, Body=part)["ETag"]
        for number, part in enumerate(parts, 1)
    ]
    s3.upload_part(Bucket="bucket", Key="gone", UploadId=gone, PartNumber=1, Body=parts[0])
    # One more part is on its way when the server dies.
    late = threading.Thread(target=lambda: attempt(s3, UploadId=gone, PartNumber=2, Body=content("late", 0, 64 * MIB)))
    late.start()
    time.sleep(0.15)
    s3 = server.restart_after_kill().s3()
    late.join(timeout=90)

    uploads = s3.list_multipart_uploads(Bucket="bucket")["Uploads"]
    assert {(item["Key"], item["UploadId"]) for item in uploads} == {("kept", kept), ("gone", gone)}
    assert listed(s3) == set()
    found = s3.list_parts(Bucket="bucket", Key="kept", UploadId=kept)["Parts"]
    assert [(part["PartNumber"], part["ETag"], part["Size"]) for part in found] == [
        (number, etag, len(part)) for number, (etag, part) in enumerate(zip(etags, parts), 1)
    ]
    s3.complete_multipart_upload(
        Bucket="bucket",
        Key="kept",
        UploadId=kept,
        MultipartUpload={"Parts": [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]},
    )
    s3.abort_multipart_upload(Bucket="bucket", Key="gone", UploadId=gone)
    s3 = server.restart_after_kill().s3()
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="bucket")
    assert listed(s3) == {"kept"}
    assert s3.get_object(Bucket="bucket", Key="kept")["Body"].read() == b"".join(parts)
    with pytest.raises(botocore.exceptions.ClientError):
        s3.list_parts(Bucket="bucket", Key="gone", UploadId=gone)


def attempt(s3, **arguments):
    try:
        s3.upload_part(Bucket="bucket", Key="gone", **arguments)
    except CUT_OFF:
        pass
