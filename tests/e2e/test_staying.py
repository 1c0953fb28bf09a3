"""A server that answers from the first second on, stays with what it has, and ends when it cannot be right."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import time
import urllib.error
import urllib.request

import botocore.exceptions
import pytest

from shingle import BINARY, Server, s3_client, shingle
from test_bad_input import ok

DRIVE = """
[[drive]]
path = "drive.shingle"
create = { zone_size = "4 MiB", zones = 64 }
"""


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def ask(admin, path):
    """Status and words of the admin listener, once it is there."""
    deadline = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(f"http://{admin}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            assert time.monotonic() < deadline, "nobody answers"
            time.sleep(0.05)


@pytest.fixture
def processes():
    running = []
    yield running
    for process in running:
        process.kill()
        process.wait()


def serve(processes, config, data):
    command = [str(BINARY), "serve", "--config", str(config), "--data", str(data)]
    processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    return processes[-1]


def test_requests_are_told_to_come_again_while_a_drive_is_waited_for(tmp_path, processes):
    config, data = tmp_path / "shingle.toml", tmp_path / "data"
    listen, admin = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    config.write_text(f'listen = "{listen}"\nadmin = "{admin}"\ndrive_wait = "1 min"\n{DRIVE}')
    server = Server(data, config=config).start()
    server.s3().create_bucket(Bucket="first")
    keys = server.keys
    server.stop()
    drive, away = data / "drive.shingle", tmp_path / "away"
    drive.rename(away)
    serve(processes, config, data)
    status, said = ask(admin, "/readyz")
    assert status == 503 and "drives: " in said, said
    assert ask(admin, "/livez") == (200, "ok\n")
    s3 = s3_client(f"http://{listen}", keys)
    with pytest.raises(botocore.exceptions.ClientError) as refused:
        s3.list_objects_v2(Bucket="first")
    answer = refused.value.response
    assert answer["Error"]["Code"] == "ServiceUnavailable" and "drive.shingle" in answer["Error"]["Message"], answer
    assert answer["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "5", answer
    away.rename(drive)
    deadline = time.monotonic() + 30
    while ask(admin, "/readyz")[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "Contents" not in s3.list_objects_v2(Bucket="first")


def test_a_missing_drive_is_named_whatever_the_directory_of_the_first_start_was(tmp_path):
    """Nothing tells people to make a drive in its place, and paths mean the same from everywhere."""
    start = [str(BINARY), "serve", "--data", "data", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(start, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said = ""
        while "Keys: " not in said:
            line = process.stdout.readline()
            assert line, said
            said += line
        assert f"Keys: {tmp_path}/data/credentials.toml" in said, said
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    drives = [tmp_path / "data" / f"drive-{number}.zoned" for number in range(2)]
    assert all(f'path = "{drive}"' in (tmp_path / "data/drives.toml").read_text() for drive in drives)
    drives[0].rename(tmp_path / "away")
    config = tmp_path / "shingle.toml"
    config.write_text('drive_wait = "1 s"\n' + "".join(f'[[drive]]\npath = "{drive}"\n' for drive in drives))
    for command in (["serve", "--listen", "127.0.0.1:0"], ["object", "check"]):
        done = shingle(*command, "--config", config, "--data", tmp_path / "data")
        assert done.returncode in (1, 8) and "drive create" not in done.stderr, done
        for part in ("objects of", str(drives[0]), "not there", "bring them back", "allow_missing_drives"):
            assert part in done.stderr, done.stderr
    assert not drives[0].exists()


def test_an_array_that_does_not_open_leaves_the_drives_serving(tmp_path, processes):
    config, data = tmp_path / "shingle.toml", tmp_path / "data"
    admin = f"127.0.0.1:{free_port()}"
    disks = [tmp_path / f"disk{number}.shingle" for number in range(3)]
    for disk in disks:
        ok("drive", "create", disk, "--size", "64MiB", "--zone-size", "4MiB")
    shelf = tmp_path / "shelf.toml"
    ok("array", "format", "--array", shelf, "--code", "2+1", "--segment", "256KiB", *disks)
    array = f'[[array]]\nname = "shelf"\nfile = "{shelf}"\n'
    config.write_text(f'admin = "{admin}"\ndrive_wait = "1 s"\n{DRIVE}{array}')
    server = Server(data, config=config).start()
    s3 = server.s3()
    s3.create_bucket(Bucket="plain")
    s3.create_bucket(Bucket="cold", CreateBucketConfiguration={"LocationConstraint": "shelf"})
    server.stop()
    for disk in disks[:2]:
        disk.rename(disk.with_suffix(".away"))
    try:
        s3 = server.start().s3()
        s3.put_object(Bucket="plain", Key="k", Body=b"x")
        assert s3.get_object(Bucket="plain", Key="k")["Body"].read() == b"x"
        for call in (s3.list_objects_v2, s3.head_bucket):
            with pytest.raises(botocore.exceptions.ClientError) as refused:
                call(Bucket="cold")
            assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["cold", "plain"]
        status, said = ask(admin, "/readyz")
        assert status == 503 and re.search("^shelf: failed: .*disk0", said, re.M) and "drives: ok" in said, said
    finally:
        server.stop()


def test_a_drive_that_cannot_be_opened_keeps_no_array_closed(tmp_path):
    """SV-ARR-2"""
    config, data, admin = tmp_path / "shingle.toml", tmp_path / "data", f"127.0.0.1:{free_port()}"
    disks = [tmp_path / f"disk{number}.shingle" for number in range(3)]
    for disk in disks:
        ok("drive", "create", disk, "--size", "64MiB", "--zone-size", "4MiB")
    shelf = tmp_path / "shelf.toml"
    ok("array", "format", "--array", shelf, "--code", "2+1", "--segment", "256KiB", *disks)
    config.write_text(f'admin = "{admin}"\ndrive_wait = "1 s"\n[[array]]\nname = "shelf"\nfile = "{shelf}"\n')
    server = Server(data, config=config).start()
    server.s3().create_bucket(Bucket="cold")
    server.s3().put_object(Bucket="cold", Key="k", Body=b"x" * 300_000)
    server.stop()
    with disks[1].open("r+b") as disk:
        disk.write(bytes(4096))
    try:
        s3 = server.start().s3()
        assert s3.get_object(Bucket="cold", Key="k")["Body"].read() == b"x" * 300_000
        s3.put_object(Bucket="cold", Key="other", Body=b"y")
        status, said = ask(admin, "/readyz")
        assert status == 200 and re.search("^shelf: degraded: .*disk1.*not a Shingle drive", said, re.M), said
        # It has not come back, either.
        time.sleep(12)
        assert "there again" not in ask(admin, "/readyz")[1]
    finally:
        server.stop()


@pytest.mark.parametrize("text", ["listen = 5", 'log = "verbose"', "[[drive]]\npath = 'uuid:12'", "[[array]]\nname = 'a'"])
def test_a_wrong_configuration_has_a_status_of_its_own(tmp_path, text):
    """The unit is not started again by itself then: RestartPreventExitStatus."""
    (tmp_path / "shingle.toml").write_text(text)
    done = shingle("serve", "--config", tmp_path / "shingle.toml", "--data", tmp_path / "data")
    assert done.returncode == 78 and "shingle.toml" in done.stderr or "log" in done.stderr, (done.returncode, done.stderr)
    assert done.returncode == 78


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_each_of_three_signals_stops_in_order(tmp_path, number):
    config = tmp_path / "shingle.toml"
    config.write_text(DRIVE)
    server = Server(tmp_path / "data", config=config).start()
    server.s3().create_bucket(Bucket="first")
    server.process.send_signal(number)
    assert server.process.wait(timeout=30) == 0, server.lines
    assert any("stopping" in line for line in server.lines)


def test_status_tells_how_a_running_server_is(tmp_path):
    config, data = tmp_path / "shingle.toml", tmp_path / "data"
    text = f'drive_wait = "1 s"\nallow_missing_drives = true\n{DRIVE}{DRIVE.replace("drive.shingle", "other.shingle")}'
    config.write_text(text)

    def status(*options):
        return shingle("status", "--config", config, "--data", data, *options)

    done = status()
    assert done.returncode == 3 and "no server runs" in done.stderr, done
    assert not data.exists()
    server = Server(data, config=config).start()
    try:
        done = status()
        assert done.returncode == 0 and done.stdout.startswith("HEALTHY\n"), done
        assert re.search(r"drive \S+other.shingle: up, [\d.]+ MiB free", done.stdout), done.stdout
        s3 = server.s3()
        s3.create_bucket(Bucket="first")
        for number in range(20):
            s3.put_object(Bucket="first", Key=f"{number}", Body=b"bytes")
        told = json.loads(status("--json").stdout)
        assert told["state"] == "healthy" and told["process"] == server.process.pid, told
        assert f"http://{told['listen']}" == server.endpoint
        assert stat.S_IMODE((data / "status.sock").stat().st_mode) == 0o600
        server.kill()
        # The socket of a server that was killed says nothing.
        assert status().returncode == 3
        (data / "other.shingle").rename(tmp_path / "away")
        server.start()
        done = status()
        assert done.returncode == 2 and done.stdout.startswith("DEGRADED\n"), done
        assert re.search(r"! drive \S+other.shingle .*missing since 20", done.stdout), done.stdout
        # Objects on the missing drive are not lost, and nobody says so.
        s3, told = server.s3(attempts=1), []
        for number in range(20):
            try:
                assert s3.get_object(Bucket="first", Key=f"{number}")["Body"].read() == b"bytes"
            except botocore.exceptions.ClientError as error:
                told.append(error.response)
        assert 0 < len(told) < 20, told
        assert all(answer["ResponseMetadata"]["HTTPStatusCode"] == 503 for answer in told), told
        assert all(answer["Error"]["Code"] == "ServiceUnavailable" for answer in told), told
        assert all("missing" in answer["Error"]["Message"] for answer in told), told
        assert "damage" not in status().stdout
    finally:
        server.stop()
    # With a long path, too: those of sockets are short.
    long = tmp_path / ("d" * 120)
    server = Server(long, config=config)
    config.write_text(DRIVE)
    server.start()
    try:
        assert shingle("status", "--data", long).returncode == 0
    finally:
        server.stop()


def test_status_tells_how_far_an_engine_is_that_does_not_serve(tmp_path, processes):
    config, data = tmp_path / "shingle.toml", tmp_path / "data"
    config.write_text(f'listen = "127.0.0.1:0"\ndrive_wait = "1 min"\n{DRIVE}')
    Server(data, config=config).start().stop()
    (data / "drive.shingle").rename(tmp_path / "away")
    serve(processes, config, data)
    deadline = time.monotonic() + 20
    while "waiting for" not in (done := shingle("status", "--data", data)).stdout:
        assert time.monotonic() < deadline, done
        time.sleep(0.1)
    assert done.returncode == 4 and "OPENING" in done.stdout and "drive.shingle" in done.stdout, done


def test_a_check_before_the_start_changes_nothing_and_names_every_problem(tmp_path):
    """SV-PRE-1"""
    config, data = tmp_path / "shingle.toml", tmp_path / "data"
    config.write_text(DRIVE)

    def check():
        return shingle("serve", "--config", config, "--data", data, "--listen", "127.0.0.1:0", "--check")

    done = check()
    assert done.returncode == 0 and "made at the start" in done.stdout and not data.exists(), done
    Server(data, config=config).start().stop()
    disk = tmp_path / "disk.shingle"
    ok("drive", "create", disk, "--size", "64MiB", "--zone-size", "4MiB")
    before = sorted((path.name, path.stat().st_mtime_ns) for path in data.rglob("*"))
    done = check()
    assert done.returncode == 0 and "ok: " in done.stdout and "problem" not in done.stdout, done
    array = f'[[array]]\nname = "shelf"\ndrives = ["{disk}", "{tmp_path}/none"]\n'
    config.write_text(f'{DRIVE}[[drive]]\npath = "serial:NOBODY-HAS-THIS"\n{array}')
    (data / "credentials.toml").chmod(0o644)
    done = check()
    assert done.returncode == 78, done
    problems = [line for line in done.stdout.splitlines() if line.startswith("problem: ")]
    for words in ("chmod 600", "NOBODY-HAS-THIS", "shelf"):
        assert any(words in line for line in problems), done.stdout
    (data / "credentials.toml").chmod(0o600)
    assert check().returncode == 1
    config.write_text(DRIVE)
    (data / "drive.shingle").rename(tmp_path / "away")
    done = check()
    assert done.returncode == 1 and "objects lie on" in done.stdout, done
    (tmp_path / "away").rename(data / "drive.shingle")
    # Places of volumes, their certificates, and the access log.
    with socket.socket() as taken, socket.socket(socket.AF_UNIX) as served:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        served.bind(str(tmp_path / "taken.sock"))
        served.listen()
        port = taken.getsockname()[1]
        nbd = f'listen = ["127.0.0.1:{port}"]\nsockets = ["{tmp_path}/taken.sock", "{tmp_path}/none/sock"]\n'
        nbd += f'tls_cert = "{tmp_path}/cert.pem"\ntls_key = "{tmp_path}/key.pem"\n'
        volume = f'[[volume]]\ndrive = "{disk}"\n[nbd]\n{nbd}'
        config.write_text(f'access_log = "{tmp_path}/none/log"\n{DRIVE}{volume}')
        done = check()
        assert done.returncode == 78, done
        problems = "".join(line + "\n" for line in done.stdout.splitlines() if line.startswith("problem: "))
        for words in (f"127.0.0.1:{port}", "taken.sock", "none/sock", "cert.pem", "access log"):
            assert words in problems, (words, done.stdout)
    config.write_text(DRIVE)
    assert sorted((path.name, path.stat().st_mtime_ns) for path in data.rglob("*")) == before


def test_the_access_log_has_a_line_for_each_request_and_is_rotated(tmp_path):
    config, data = tmp_path / "shingle.toml", tmp_path / "data"
    config.write_text(f'access_log = "access.jsonl"\n{DRIVE}')
    server = Server(data, config=config).start()
    try:
        s3 = server.s3()
        s3.create_bucket(Bucket="first")
        answer = s3.put_object(Bucket="first", Key="a\nkey\t", Body=b"0123456789")
        log, old = data / "access.jsonl", data / "access.jsonl.1"

        def lines(path, count):
            deadline = time.monotonic() + 20
            while not path.exists() or path.read_text().count("\n") < count:
                assert time.monotonic() < deadline, path
                time.sleep(0.05)
            return [json.loads(line) for line in path.read_text().splitlines()]

        put = lines(log, 2)[1]
        assert put["id"] == answer["ResponseMetadata"]["RequestId"] and put["key_id"] == server.keys[0]
        expected = {"operation": "PutObject", "bucket": "first", "key": "a\nkey\t", "status": 200, "peer": "127.0.0.1"}
        assert expected.items() <= put.items(), put
        log.rename(old)
        server.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + 20
        while not log.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(botocore.exceptions.ClientError):
            s3.get_object(Bucket="first", Key="none")
        assert lines(log, 1)[0]["error"] == "NoSuchKey"
        text = log.read_text() + old.read_text()
        assert len(text.splitlines()) == 3 and server.keys[1] not in text and "Signature" not in text
    finally:
        server.stop()


def test_the_service_manager_is_told_that_it_lives_and_how_long_a_stop_takes(tmp_path, processes):
    config, data = tmp_path / "shingle.toml", tmp_path / "data"
    config.write_text(f'listen = "127.0.0.1:0"\n{DRIVE}')
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        environment = os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "600000"}
        command = [str(BINARY), "serve", "--config", str(config), "--data", str(data)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        processes.append(process)
        heard = []

        def hear(words):
            while not any(words in message for message in heard):
                heard.append(manager.recv(4096).decode())

        hear("READY=1")
        hear("STATUS=ok")
        heard.clear()
        for _ in range(3):
            hear("WATCHDOG=1")
            heard.clear()
        process.send_signal(signal.SIGTERM)
        hear("STOPPING=1")
        assert re.search("^EXTEND_TIMEOUT_USEC=[6-9]0000000$", "".join(heard), re.M), heard
        assert process.wait(timeout=30) == 0
