"""Memory of a server whose clients are slow: bounded by `limits.memory`, and given back when they have left."""

import random
import re
import socket
import time
import urllib.parse

import boto3
import pytest
from botocore.config import Config

from shingle import REGION, Server

MIB = 1 << 20
READERS, SENDERS = 200, 56


def memory(server, field):
    status = open(f"/proc/{server.process.pid}/status").read()
    return (int(re.search(rf"^{field}:\s+(\d+) kB", status, re.M)[1]) << 10) / MIB


@pytest.fixture
def server(tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(f'[limits]\nconnections = {READERS + SENDERS + 8}\nmemory = "64 MiB"\n')
    server = Server(tmp_path / "data", config).start()
    yield server
    server.stop()


def begun(url, method, length=None):
    """A connection with a request on it, whose answer nobody takes."""
    parts = urllib.parse.urlparse(url)
    connection = socket.socket()
    # The kernel is to hold little of the answer.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
    connection.connect((parts.hostname, parts.port))
    body = f"Content-Length: {length}\r\n" if length else ""
    connection.sendall(f"{method} {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\n{body}\r\n".encode())
    return connection


def test_slow_clients_take_the_memory_that_they_may_and_leave_it_behind(server):
    access, secret = server.keys
    config = Config(s3={"addressing_style": "path"}, signature_version="s3v4")
    s3 = boto3.client("s3", endpoint_url=server.endpoint, region_name=REGION, aws_access_key_id=access,
                      aws_secret_access_key=secret, config=config)
    s3.create_bucket(Bucket="bucket")
    data = random.Random(1).randbytes(32 * MIB)
    s3.put_object(Bucket="bucket", Key="large", Body=data)
    at_first = memory(server, "VmRSS")
    get = s3.generate_presigned_url("get_object", Params={"Bucket": "bucket", "Key": "large"})
    slow = [begun(get, "GET") for _ in range(READERS)]
    for number in range(SENDERS):
        put = s3.generate_presigned_url("put_object", Params={"Bucket": "bucket", "Key": f"part-{number}"})
        slow.append(begun(put, "PUT", 32 * MIB))
        # Three quarters of a segment: it waits for the rest.
        slow[-1].sendall(data[: 3 * MIB])
    time.sleep(5)
    assert s3.get_object(Bucket="bucket", Key="large")["Body"].read() == data
    most = memory(server, "VmHWM") - at_first
    for connection in slow:
        connection.close()
    # Bodies, half as much for buffers of connections, appends on their way, and buffers of drives. Unbounded, readers alone take a
    # piece that goes out and one that is read ahead: 400 MiB; and senders 170.
    assert most < 300, f"{most:.0f} MiB more than at first"
    # A part stays: buffers of drives to be used again, and what they share pages with.
    deadline = time.monotonic() + 60
    while memory(server, "VmRSS") - at_first > most * 2 / 3:
        assert time.monotonic() < deadline, f"{memory(server, 'VmRSS') - at_first:.0f} of {most:.0f} MiB are left"
        time.sleep(0.5)
