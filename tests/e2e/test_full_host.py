"""The file system of the data directory is full: writes are refused, reads go on, and it recovers by itself."""

import os
import pathlib
import shutil
import subprocess
import time

import botocore.exceptions
import pytest

from shingle import Server, keys_in, shingle

CONFIG = """
[[drive]]
path = "{drive}"
create = {{ zone_size = "4 MiB", zones = 128 }}
"""

#: A mount namespace of its own, with a small file system where the data directory is.
MOUNTED = 'mount -t tmpfs -o size=160m none "$0" && exec "$@"'


def namespaces():
    probe = ["unshare", "-rm", "sh", "-c", "mount -t tmpfs -o size=1m none /mnt"]
    return shutil.which("unshare") and subprocess.run(probe, capture_output=True).returncode == 0


class Small(Server):
    """A server whose data directory is a small file system."""

    def command(self):
        return ["unshare", "-rm", "sh", "-c", MOUNTED, str(self.data), *super().command()]

    @property
    def inside(self):
        """The data directory as the server sees it."""
        return pathlib.Path(f"/proc/{self.process.pid}/root{self.data}")

    @property
    def keys(self):
        return keys_in((self.inside / "credentials.toml").read_text())


def fill(path):
    """Takes what room there is, to the last byte."""
    with open(path, "wb", buffering=0) as filler:
        block = bytes(1 << 20)
        while block:
            try:
                filler.write(block)
            except OSError:
                block = block[: len(block) // 2]


def put_within(seconds, s3, body):
    """Puts an object, which may be refused for want of room so long."""
    began = time.monotonic()
    while True:
        try:
            return s3.put_object(Bucket="first", Key="after", Body=body)
        except botocore.exceptions.ClientError as error:
            assert time.monotonic() - began < seconds, error.response
            time.sleep(0.5)


@pytest.mark.skipif(not namespaces(), reason="needs a mount namespace")
def test_a_full_data_directory_refuses_writes_and_recovers_by_itself(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    config = tmp_path / "shingle.toml"
    config.write_text(CONFIG.format(drive=tmp_path / "drive.shingle"))
    server = Small(data, config=config).start()
    try:
        s3 = server.s3()
        s3.create_bucket(Bucket="first")
        kept = {f"kept/{number}": os.urandom(1000) for number in range(20)}
        for key, body in kept.items():
            s3.put_object(Bucket="first", Key=key, Body=body)
        fill(server.inside / "filler")
        status, began, tries = 200, time.monotonic(), 0
        # What is under way when it happens may appear later, so it is answered 503.
        while status in (200, 503):
            assert time.monotonic() - began < 120, f"{tries} objects went into a full index"
            # Long keys and metadata fill what the index has left of its own.
            tries += 1
            try:
                s3.put_object(Bucket="first", Key=f"{tries:06d}" + "k" * 900, Body=b"x", Metadata={"m": "v" * 1900})
            except botocore.exceptions.ClientError as error:
                refused = error.response
                status = refused["ResponseMetadata"]["HTTPStatusCode"]
        assert status == 507 and refused["Error"]["Code"] == "InsufficientStorage", refused
        assert "room" in refused["Error"]["Message"], refused
        for key, body in kept.items():
            assert s3.get_object(Bucket="first", Key=key)["Body"].read() == body, "reads go on"
        assert s3.list_objects_v2(Bucket="first", Prefix="kept/")["KeyCount"] == len(kept)

        (server.inside / "filler").unlink()
        put_within(60, s3, b"there is room again")
        assert s3.get_object(Bucket="first", Key="after")["Body"].read() == b"there is room again"
        for key, body in kept.items():
            assert s3.get_object(Bucket="first", Key=key)["Body"].read() == body
    finally:
        server.stop()


@pytest.mark.skipif(not namespaces(), reason="needs a mount namespace")
def test_drives_on_a_full_file_system_say_so_once_and_in_the_status(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    config = tmp_path / "shingle.toml"
    config.write_text(CONFIG.format(drive="drive.shingle"))
    server = Small(data, config=config).start()
    try:
        s3 = server.s3()
        s3.create_bucket(Bucket="first")
        body = os.urandom(4 << 20)
        for number in range(8):
            s3.put_object(Bucket="first", Key=f"{number}", Body=body)
        fill(server.inside / "filler")
        for number in range(30):
            try:
                s3.put_object(Bucket="first", Key=f"more{number}", Body=body)
            except botocore.exceptions.ClientError as error:
                refused = error.response
        assert refused["Error"]["Code"] == "InsufficientStorage", refused
        time.sleep(2)
        told = shingle("status", "--data", server.inside)
        assert told.returncode == 2 and "drive.shingle: the file system that holds it was full" in told.stdout, told
        said = [line for line in server.lines if "file system" in line and "listening" not in line]
        assert 1 <= len(said) < 10, "".join(said)
        (server.inside / "filler").unlink()
        put_within(10, s3, body)
        time.sleep(2)
        told = shingle("status", "--data", server.inside)
        assert told.returncode == 0 and "file system" not in told.stdout and "failed" not in told.stdout, told
    finally:
        server.stop()
