"""`shingle object get|put|rm|stat` of single objects while the server has them open: it is asked through its socket."""

import hashlib
import json
import os
import re
import signal
import subprocess
import time

import pytest
from botocore.exceptions import ClientError

from arrays import spoil
from shingle import BINARY, shingle
from test_bad_input import ok, refused
from test_running import connected, where
from test_s3_array import content, shelves  # noqa: F401: a fixture

MIB = 1 << 20
BUCKETS = ("plain", "cold")


@pytest.fixture
def shelf(shelves):  # noqa: F811
    """A server that runs, with a bucket on drives and one on an array."""
    shelf = shelves()
    s3 = shelf.server.start().s3()
    s3.create_bucket(Bucket="plain")
    s3.create_bucket(Bucket="cold", CreateBucketConfiguration={"LocationConstraint": "shelf"})
    return shelf


def test_objects_are_stored_read_and_deleted_beside_s3_clients(shelf, tmp_path):
    s3, place = shelf.server.s3(), where(shelf)
    body, new, out = content("body", 9 * MIB + 5), tmp_path / "new", tmp_path / "out"
    new.write_bytes(content("new", 21 * MIB + 7))
    for bucket in BUCKETS:
        name = f"{bucket}/a b/ü\n"
        s3.put_object(Bucket=bucket, Key="a b/ü\n", Body=body, ContentType="image/jpeg")
        ok("object", "get", name, "-o", out, *place)
        assert out.read_bytes() == body
        ok("object", "get", name, "-o", out, "--range", "-1000010", *place)
        assert out.read_bytes() == body[-1000010:]
        refused("object", "get", name, "-o", out, "--range", f"{len(body)}-", *place, says=["none of them"], status=1)
        told = json.loads(ok("object", "stat", name, *place, "--json"))
        assert told["size_bytes"] == len(body) and told["metadata"]["content-type"] == "image/jpeg"
        assert told["etag"] == hashlib.md5(body).hexdigest()
        assert "\\n" in ok("object", "stat", name, *place)
        out.unlink()
        refused("object", "get", f"{bucket}/none", "-o", out, *place, says=["no object"], status=1)
        assert not out.exists()
        said = json.loads(ok("object", "put", f"{bucket}/new", new, "--content-type", "text/plain", *place, "--json"))
        assert said["size_bytes"] == 21 * MIB + 7
        found = s3.get_object(Bucket=bucket, Key="new")
        assert found["Body"].read() == new.read_bytes() and found["ContentType"] == "text/plain"
        assert found["ETag"] == f'"{hashlib.md5(new.read_bytes()).hexdigest()}"'
        said = refused("object", "rm", name, f"{bucket}/none", *place, says=["none"], status=1)
        assert "deleted" in said
        assert [row["Key"] for row in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["new"]
    refused("object", "put", "missing/x", new, *place, says=["no bucket `missing`", "s3 mb"], status=1)
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    ok("object", "put", "cold/empty", empty, *place)
    assert ok("object", "get", "cold/empty", *place) == ""


def test_changes_that_commands_make_stand_in_the_access_log(shelves, tmp_path):  # noqa: F811
    """SV-ALOG-2."""
    shelf = shelves()
    shelf.config.write_text('access_log = "access.jsonl"\n' + shelf.config.read_text())
    s3 = shelf.server.start().s3()
    s3.create_bucket(Bucket="plain")
    file = tmp_path / "new"
    file.write_bytes(content("new", 5 * MIB))
    put = subprocess.Popen([BINARY, "object", "put", "plain/a\nb", file, *where(shelf)])
    assert put.wait(60) == 0
    ok("object", "rm", "plain/a\nb", *where(shelf))
    refused("object", "put", "none/x", file, *where(shelf), says=["no bucket"], status=1)
    # One that goes away leaves a line, too.
    with subprocess.Popen([BINARY, "object", "put", "plain/cut", "-", *where(shelf)], stdin=subprocess.PIPE) as cut:
        cut.stdin.write(bytes(5 * MIB))
        cut.stdin.flush()
        time.sleep(1)
        cut.kill()
    log = shelf.server.data / "access.jsonl"
    deadline = time.monotonic() + 20
    while log.read_text().count("\n") < 5:
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    first, stored, removed, wrong, gone = [json.loads(line) for line in log.read_text().splitlines()]
    expected = {"operation": "PutObject", "method": "PUT", "bucket": "plain", "key": "a\nb", "status": 200, "whole": True,
                "received_bytes": 5 * MIB, "sent_bytes": 0, "peer": f"uid={os.getuid()} pid={put.pid}"}
    assert expected.items() <= stored.items() and stored["seconds"] > 0, stored
    expected = {"operation": "DeleteObject", "method": "DELETE", "bucket": "plain", "key": "a\nb", "status": 204}
    assert expected.items() <= removed.items(), removed
    assert {"bucket": "none", "status": 404, "error": "NoSuchBucket"}.items() <= wrong.items(), wrong
    assert {"key": "cut", "status": 0, "whole": False}.items() <= gone.items() and gone["received_bytes"] > 0, gone
    assert len({line["id"] for line in (first, stored, removed, wrong, gone)}) == 5


def test_the_same_is_said_whether_a_server_runs_or_not(shelf, tmp_path):
    shelf.server.s3().put_object(Bucket="cold", Key="x", Body=b"some text", Metadata={"a": "b"})
    verbs = [("get", "cold/x"), ("get", "cold/none"), ("get", "none/x"), ("stat", "cold/x"), ("stat", "cold/x", "--json"),
             ("stat", "cold/none"), ("rm", "cold/none"), ("rm", "none/x"), ("put", "none/x", "/dev/null"),
             ("put", "cold/x", tmp_path / "none")]

    def said():
        done = [shingle("object", *verb, *where(shelf)) for verb in verbs]
        return [(one.returncode, one.stdout, re.sub("http://[^ ]*", "", one.stderr)) for one in done]

    running = said()
    shelf.server.stop()
    assert running == said()


def test_of_a_put_that_breaks_off_nothing_is_left(shelf):
    s3 = shelf.server.s3()
    s3.put_object(Bucket="plain", Key="x", Body=b"old")
    command = [str(BINARY), "object", "put", "plain/x", *map(str, where(shelf))]
    for ending in (signal.SIGINT, signal.SIGKILL):
        put = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        put.stdin.write(content("new", 10 * MIB))
        put.stdin.flush()
        time.sleep(0.5)
        put.send_signal(ending)
        put.wait(timeout=30)
        assert s3.get_object(Bucket="plain", Key="x")["Body"].read() == b"old"
    put = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    put.stdin.write(content("new", 10 * MIB))
    put.stdin.flush()
    time.sleep(0.5)
    # A session under way does not keep the server from stopping.
    began = time.monotonic()
    shelf.server.stop()
    assert time.monotonic() - began < 10
    _, said = put.communicate(content("more", 5 * MIB), timeout=60)
    assert put.returncode == 1 and b"ended before its answer" in said, said
    shelf.server.start()
    assert shelf.server.s3().get_object(Bucket="plain", Key="x")["Body"].read() == b"old"


def test_damaged_bytes_are_an_error_and_not_data(shelf, tmp_path):
    body, out = content("plain/large", 9 * MIB), tmp_path / "out"
    shelf.server.s3().put_object(Bucket="plain", Key="large", Body=body)
    spoil([shelf.server.data / "chunks.shingle"], body[5 * MIB : 5 * MIB + 32])
    refused("object", "get", "plain/large", "-o", out, *where(shelf), says=["from byte 4194304 on", "as it was"], status=1)
    assert not out.exists()
    out.write_text("what was there")
    refused("object", "get", "plain/large", "-o", out, *where(shelf), says=["from byte 4194304 on", "as it was"], status=1)
    assert out.read_text() == "what was there" and list(tmp_path.glob("out*")) == [out]


def test_array_verbs_for_objects_name_commands_that_work_beside_the_server(shelf, tmp_path):
    array = ["--array", shelf.file, *where(shelf)]
    for verb, more in (("get", []), ("put", ["/dev/null"]), ("rm", [])):
        refused("array", verb, "x", *more, *array, says=["in use", f"shingle object {verb} BUCKET/KEY", "aws --endpoint-url"],
                status=8)


def begun(shelf):
    found = connected(shelf)
    found.sendall(b"GET /session HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: shingle-session\r\n\r\n")
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += found.recv(1)
    assert head.startswith(b"HTTP/1.1 101 "), head
    return found


def test_a_session_bears_calls_that_make_no_sense(shelf):
    assert shelf.server.s3().put_object(Bucket="plain", Key="x", Body=b"text")
    for calls in (b"hello\n", b"{}\n", b'{"piece":{"length":99999999999}}\n', b'{"put":{"bucket":"plain"}}\n',
                  b'{"read":{"at":0,"length":-1}}\n', os.urandom(1 << 16), b"x" * (2 << 20)):
        session = begun(shelf)
        try:
            session.sendall(calls)
            assert session.recv(100) == b"", calls[:40]
        except OSError:
            pass
        session.close()
    session = begun(shelf)
    lines = session.makefile("rwb")

    def reply(call):
        lines.write(json.dumps(call).encode() + b"\n")
        lines.flush()
        return json.loads(lines.readline())

    for wrong in ({"read": {"at": 0, "length": 1}}, {"commit": {"etag": "", "metadata": {}}}):
        assert reply(wrong)["refused"]["kind"] == "invalid"
    assert reply({"open": {"bucket": "plain", "key": "x"}})["object"]["size"] == 4
    for at, length in ((0, 5), (4, 1), (2**64 - 1, 2**64 - 1)):
        assert reply({"read": {"at": at, "length": length}})["refused"]["kind"] == "invalid"
    assert reply({"read": {"at": 1, "length": 2}}) == {"piece": {"length": 2}} and lines.read(2) == b"ex"
    # It has a seat as other commands do, and gives it back.
    others = [begun(shelf) for _ in range(7)]
    refused("object", "stat", "plain/x", *where(shelf), says=["8 commands"], status=1)
    for other in (*others, session):
        other.close()
    lines.close()
    time.sleep(0.5)
    ok("object", "stat", "plain/x", *where(shelf))
    with pytest.raises(ClientError):
        shelf.server.s3().get_object(Bucket="plain", Key="none")
