"""Commands that look at objects and arrays while a server has them open: they ask it through its socket."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from arrays import spoil
from shingle import BINARY, shingle
from test_bad_input import ok
from test_s3_array import Shelf, content, figures, shelves  # noqa: F401: a fixture

MIB = 1 << 20
CONTROL = "evil\x1b[31m\u202ename"


def filled(shelf, more=()):
    """Starts the server with some objects on drives and array."""
    s3 = shelf.server.start().s3()
    s3.create_bucket(Bucket="plain")
    s3.create_bucket(Bucket="cold", CreateBucketConfiguration={"LocationConstraint": "shelf"})
    sizes = {"small": 17, CONTROL: 300_000, "large": 9 * MIB, **dict(more)}
    for bucket in ("plain", "cold"):
        for key, size in sizes.items():
            s3.put_object(Bucket=bucket, Key=key, Body=content(f"{bucket}/{key}", size))
    return s3


def where(shelf):
    return ["--config", shelf.config, "--data", shelf.server.data]


def verbs(shelf):
    """What each verb says, with its status."""
    said = {}
    for verb in (["object", "ls"], ["object", "ls", "la"], ["object", "ls", "--json"], ["object", "stat"],
                 ["object", "stat", "--json"], ["object", "check"], ["object", "check", "--json"],
                 ["object", "check", "--quick"]):
        done = shingle(*verb, *where(shelf))
        said[" ".join(verb)] = (done.returncode, done.stdout, done.stderr)
    for verb in (["array", "ls"], ["array", "ls", "--json"], ["array", "stat"], ["array", "stat", "--json"],
                 ["array", "check"], ["array", "check", "--json"], ["array", "stat", "no such object"]):
        done = shingle(*verb, "--array", shelf.file, *where(shelf))
        said[" ".join(verb)] = (done.returncode, done.stdout, done.stderr)
    return said


def settled(said):
    """Without what a stop and a start change: when and how the array was opened, and the sets that hold its index."""
    return [
        re.sub(r"(opened {5}|zone sets  ).*|[\d.]+ [KMG]iB (verified|live)|"
               r'"(opening|zone_sets|zone_sets_\w+|clean|verified_bytes|read_bytes)": ?(\{[^}]*\}|\w+)', "", text)
        if isinstance(text, str) else text
        for text in said
    ]


def test_verbs_say_the_same_whether_a_server_runs_or_not(shelves):  # noqa: F811
    shelf = shelves()
    filled(shelf)
    running = verbs(shelf)
    shelf.server.stop()
    stopped = verbs(shelf)
    for verb, said in running.items():
        assert settled(said) == settled(stopped[verb]), verb
    assert {verb: said[0] for verb, said in running.items() if said[0]} == {"array stat no such object": 1}
    assert "plain/evil\\u{1b}[31m\\u{202e}name" in running["object ls"][1]
    assert len(json.loads(running["object ls --json"][1])["objects"]) == 6
    assert json.loads(running["object check --json"][1])["clean"]
    assert json.loads(running["array check --json"][1])["verified_bytes"] > 9 * MIB


def test_an_array_is_found_by_its_drives_and_a_server_without_it_says_nothing(shelves, tmp_path):  # noqa: F811
    shelf = shelves()
    filled(shelf)
    drives = [argument for drive in shelf.drives[:2] for argument in ("--drive", drive)]
    assert ok("array", "ls", *drives, "--data", shelf.server.data)
    # The folder of a server, as it is found where it is started.
    done = shingle("array", "ls", "--array", shelf.file, cwd=tmp_path)
    assert done.returncode == 8 and "--data" in done.stderr and "in use" in done.stderr, done.stderr
    os.rename(shelf.server.data, tmp_path / "shingle-data")
    assert shingle("array", "ls", "--array", shelf.file, cwd=tmp_path).returncode == 0
    other = tmp_path / "other"
    other.mkdir()
    alone = Shelf(other)
    assert ok("array", "stat", "--array", alone.file, "--data", tmp_path / "shingle-data")


def test_what_others_change_during_a_check_is_no_damage(shelves):  # noqa: F811
    shelf = shelves(drives=4)
    s3 = filled(shelf)
    ended, failures = threading.Event(), []

    def work(number):
        own = shelf.server.s3()
        turn = 0
        while not ended.is_set():
            turn += 1
            for bucket in ("plain", "cold"):
                key, size = f"w{number}/{turn % 7}", (turn * 7919 * (number + 1)) % (3 * MIB)
                try:
                    own.put_object(Bucket=bucket, Key=key, Body=content(key, size))
                    if turn % 3 == 0:
                        own.delete_object(Bucket=bucket, Key=f"w{number}/{(turn + 3) % 7}")
                except Exception as error:  # noqa: BLE001: told below
                    failures.append(error)
                    return

    workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(3):
            ok("object", "check", *where(shelf))
            ok("array", "check", "--array", shelf.file, *where(shelf))
            ok("object", "check", "--quick", *where(shelf))
    finally:
        ended.set()
        for worker in workers:
            worker.join()
    assert not failures, failures
    assert s3.get_object(Bucket="plain", Key="small")["Body"].read() == content("plain/small", 17)


def test_damage_is_found_while_the_server_runs(shelves):  # noqa: F811
    shelf = shelves()
    shelf.configure(top='admin = "127.0.0.1:0"')
    s3 = filled(shelf)
    chunks = shelf.server.data / "chunks.shingle"
    spoil([chunks], content("plain/large", 9 * MIB)[5 * MIB : 5 * MIB + 32])
    spoil(shelf.drives, content("cold/large", 9 * MIB)[50_000:50_032])
    known = figures(shelf.server.admin)
    assert known['shingle_engine_damaged_objects{engine="drives"}'] == 0
    with pytest.raises(Exception):  # noqa: B017: the connection breaks in the middle of the body
        s3.get_object(Bucket="plain", Key="large")["Body"].read()
    known = figures(shelf.server.admin)
    assert known['shingle_engine_damaged_objects{engine="drives"}'] == 1
    assert known["shingle_memory_limit_bytes"] > MIB and known["shingle_memory_waiting"] == 0
    done = shingle("object", "check", *where(shelf))
    assert done.returncode == 4 and "damaged object: plain/large" in done.stdout, done.stdout
    [place] = [line for line in done.stdout.splitlines() if line.startswith("damaged: ")]
    assert place.endswith("; it touches `plain/large`"), done.stdout
    [zone] = [line for line in done.stdout.splitlines() if line.startswith("array shelf: damaged:")]
    assert "; it touches " in zone and "`cold/large`" in zone, done.stdout
    known = figures(shelf.server.admin)
    assert known['shingle_engine_damaged_objects{engine="drives"}'] == 1
    assert all(known[f'shingle_engine_damaged_places{{engine="{engine}"}}'] > 0 for engine in ("drives", "shelf"))
    status = shingle("status", "--data", shelf.server.data)
    assert status.returncode == 2 and "1 object is known to be damaged: `shingle object check` names it" in status.stdout, status.stdout
    told = json.loads(shingle("object", "check", *where(shelf), "--json").stdout)
    assert told["damaged_objects"] == [{"bucket": "plain", "key": "large"}] and not told["clean"]
    assert told["findings"][0]["objects"] == [{"name": "`plain/large`", "bucket": "plain", "key": "large"}], told
    assert {"name": "`cold/large`", "bucket": "cold", "key": "large"} in told["arrays"][0]["findings"][0]["objects"], told
    quick = ok("object", "check", "--quick", *where(shelf))
    assert "their bytes were not read" in quick and "0 B" not in quick, quick
    assert "their bytes were not read" in ok("array", "check", "--quick", "--array", shelf.file, *where(shelf))
    done = shingle("array", "check", "--array", shelf.file, *where(shelf))
    assert done.returncode == 4 and "`shingle array scrub` repairs it" in done.stdout
    s3.delete_object(Bucket="plain", Key="large")
    assert figures(shelf.server.admin)['shingle_engine_damaged_objects{engine="drives"}'] == 0


def start_check(shelf, *more):
    command = [str(BINARY), "object", "check", *map(str, where(shelf)), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_there_is_one_check_at_a_time_and_it_ends_with_who_asked(shelves):  # noqa: F811
    """SV-ASK-2, SV-ASK-3."""
    shelf = shelves()
    filled(shelf, more={f"more{number}": 40 * MIB for number in range(8)}.items())
    for ending in (signal.SIGINT, signal.SIGKILL):
        deadline = time.monotonic() + 60
        while True:
            first, second = start_check(shelf), None
            # However short it is, others that begin meanwhile meet it; or it meets one of them.
            while first.poll() is None:
                second = shingle("object", "check", *where(shelf))
                if second.returncode != 0:
                    break
            if second and second.returncode != 0:
                break
            assert time.monotonic() < deadline, "the checks did not meet"
        assert second.returncode == 8 and "checked already" in second.stdout + second.stderr, second
        first.send_signal(ending)
        first.wait()
        # It has ended in the server, too.
        deadline = time.monotonic() + 5
        while shingle("object", "check", "--quick", *where(shelf)).returncode == 8:
            assert time.monotonic() < deadline, "the check goes on that nobody waits for"
            time.sleep(0.2)


def test_a_server_stops_in_order_during_a_check(shelves):  # noqa: F811
    shelf = shelves()
    filled(shelf, more={f"more{number}": 40 * MIB for number in range(8)}.items())
    array = [str(BINARY), "array", "check", "--array", str(shelf.file), *map(str, where(shelf))]
    for begin in (lambda: start_check(shelf),
                  lambda: subprocess.Popen(array, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)):
        check = begin()
        time.sleep(0.5)
        began = time.monotonic()
        shelf.server.stop()
        assert time.monotonic() - began < 10
        out, said = check.communicate(timeout=20)
        assert check.returncode in (0, 8), said
        assert check.returncode == 0 or any(
            words in out + said for words in ("ended before its answer", "stopped", "closed")), out + said
        shelf.server.start()


def connected(shelf):
    found = socket.socket(socket.AF_UNIX)
    found.settimeout(30)
    folder = os.open(shelf.server.data, os.O_RDONLY)
    try:
        found.connect(f"/proc/self/fd/{folder}/status.sock")
    finally:
        os.close(folder)
    return found


def post(shelf, text):
    found = connected(shelf)
    found.sendall(b"POST /ask HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
    return found


def answered(found):
    said = b""
    while piece := found.recv(1 << 16):
        said += piece
    found.close()
    return said


def test_the_socket_bears_bad_questions_and_those_who_do_not_listen(shelves):  # noqa: F811
    """SV-ASK-3."""
    shelf = shelves()
    filled(shelf)
    for text, status in ((b"", b"400"), (b"hello", b"400"), (b'{"verb":"object-rm"}', b"400"),
                         (b'{"verb":"object-ls","prefix":"' + b"x" * (300 << 10) + b'"}', b"413")):
        assert answered(post(shelf, text)).split(b" ")[1] == status, text[:40]
    raw = connected(shelf)
    try:
        raw.sendall(os.urandom(1 << 16))
        answered(raw)
    except OSError:
        pass
    # An answer of several pages that is not read waits, and so do others past the seats; the server goes on.
    s3 = shelf.server.s3()
    for number in range(1500):
        s3.put_object(Bucket="plain", Key=f"{number:04}/{'x' * 900}", Body=b"")
    silent = [post(shelf, b'{"verb":"object-ls","prefix":""}') for _ in range(8)]
    time.sleep(1)
    done = shingle("object", "ls", *where(shelf))
    assert done.returncode == 8 and "8 commands" in done.stderr, done.stderr
    assert shingle("status", "--data", shelf.server.data).returncode == 0
    lines = answered(silent[0]).split(b"\r\n\r\n", 1)[1].splitlines()
    assert len(lines) == 1500 + 6 + 1 and lines[-1] == b'"end"'
    for other in silent[1:]:
        other.close()
    time.sleep(0.5)
    assert len(ok("object", "ls", *where(shelf)).splitlines()) == 1506
    assert (pathlib.Path(shelf.server.data) / "status.sock").stat().st_mode & 0o777 == 0o600
