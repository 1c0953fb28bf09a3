"""Volumes: made, looked at, served to real NBD clients, killed in the middle of writing, and refused where they must be."""

import fcntl
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time

import pytest

from shingle import BINARY, ROOT, shingle
from test_bad_input import ok, refused
from volumes import BLOCK, FLUSH, READ, TRIM, WRITE, WRITE_ZEROES, Client, Export, Refused, Writer

MIB = 1 << 20


def need(*tools):
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"{tool} is not installed")


def run(*command, status=0):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, (command, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def made(tmp_path, name="disk", size="256MiB", *options):
    """A drive with an empty volume."""
    drive = tmp_path / f"{name}.shingle"
    ok("drive", "create", drive, "--size", size, "--zone-size", "4MiB", "--conventional", "2")
    ok("volume", "create", drive, *options)
    return drive


@pytest.fixture
def drive(tmp_path):
    return made(tmp_path)


@pytest.fixture
def export(tmp_path, drive):
    """A volume that is served; the test may kill the server."""
    with Export(tmp_path, drive) as export:
        yield export


def test_a_volume_is_made_found_and_removed(tmp_path, drive):
    volume = json.loads(ok("volume", "ls", drive, "--json"))["volumes"][0]
    assert volume["drive"] == str(drive) and volume["sector_bytes"] == 4096
    assert volume["size_bytes"] > 150 * MIB and volume["size_bytes"] % 4096 == 0
    assert volume["volume"] in ok("volume", "ls", drive) and volume["volume"] in ok("volume", "stat", drive)
    assert f"volume {volume['volume']}" in ok("drive", "ls", drive)
    assert f"store   {volume['volume']}" in ok("drive", "identify", drive)
    stat = json.loads(ok("volume", "stat", drive, "--json"))
    assert stat["volume"] == volume["volume"] and stat["stats"]["used_bytes"] == 0
    dump = json.loads(ok("volume", "dump", drive))
    assert len(dump["zones"]) == dump["stats"]["zones"] == dump["data_zones"][1] - dump["data_zones"][0]
    check = json.loads(ok("volume", "check", drive, "--json"))
    assert (check["clean"], check["damage"], check["verified_bytes"]) == (True, [], 0)
    refused("volume", "rm", drive, says=["will be lost", "--yes"])
    ok("volume", "rm", drive, "--yes")
    refused("volume", "stat", drive, says=["holds no volume", "volume create"], status=8)
    assert json.loads(ok("volume", "ls", drive, "--json"))["volumes"] == []
    # Nothing stands in the way of another one.
    ok("volume", "create", drive, "--size", "100MiB", "--sector", "512")
    volume = json.loads(ok("volume", "ls", drive, "--json"))["volumes"][0]
    assert (volume["size_bytes"], volume["sector_bytes"]) == (100 * MIB, 512)


def test_bytes_go_in_and_out_by_real_clients(tmp_path, drive, export):
    """SV-VOL-1: after an orderly end nothing has to be read again."""
    need("nbdinfo", "nbdcopy")
    for uri in export.uris:
        told = json.loads(run("nbdinfo", "--json", uri))["exports"][0]
        assert told["export-name"] == "disk" and told["can_fua"] and told["can_trim"] and told["can_multi_conn"]
        assert told["block_size_minimum"] == 4096 and told["can_fast_zero"]
    content = random.Random(1).randbytes(20 * MIB) + bytes(4 * MIB) + b"end".ljust(BLOCK, b".")
    (tmp_path / "in").write_bytes(content)
    run("nbdcopy", tmp_path / "in", export.tcp)
    totals = json.loads(run("nbdinfo", "--map", "--totals", "--json", export.unix))
    mapped = sum(part["size"] for part in totals if part["description"] == "data")
    assert mapped == 20 * MIB + BLOCK, "zeros take no room"
    run("nbdcopy", export.unix, tmp_path / "out")
    with open(tmp_path / "out", "rb") as out:
        assert out.read(len(content)) == content
    export.stop()
    stat = json.loads(ok("volume", "stat", drive, "--json"))
    assert stat["stats"]["used_bytes"] == mapped and stat["opening"]["pairs"] == 0, "the end wrote a checkpoint"
    assert json.loads(ok("volume", "check", drive, "--json"))["verified_bytes"] == mapped
    assert not export.socket.exists()


def test_qemu_writes_trims_and_zeroes(export):
    need("qemu-io")
    script = ["write -f -P 7 1M 64k", "read -P 7 1M 64k", "write -P 9 1M 4k", "write -z 2M 1M", "discard 1032k 16k", "flush"]
    script += ["read -P 9 1M 4k", "read -P 7 1028k 4k", "read -P 0 1032k 16k", "read -P 7 1048k 8k"]
    said = run("qemu-io", "-f", "raw", *[word for line in script for word in ("-c", line)], export.unix)
    assert "verification failed" not in said, said


def test_fio_verifies_what_it_wrote(tmp_path, export):
    need("fio")
    job = ["--name=volume", "--ioengine=nbd", f"--uri={export.unix}", "--rw=randrw", "--bsrange=4k-64k", "--blockalign=4k"]
    job += ["--size=24m", "--io_size=32m", "--iodepth=16", "--verify=crc32c", "--do_verify=1", "--fsync=32", "--randseed=7"]
    job += ["--verify_fatal=1", "--output-format=json", f"--aux-path={tmp_path}"]
    said = run("fio", *job)
    told = json.loads(said[said.index("{"):])["jobs"][0]
    assert told["error"] == 0 and told["write"]["io_bytes"] > 0


@pytest.mark.parametrize("kills", [3])
def test_every_fsynced_block_is_there_after_kill_9(tmp_path, drive, kills):
    export = Export(tmp_path, drive)
    rng = random.Random(20)
    writers = []
    with export:
        blocks = Client(export.socket).size // BLOCK
    # The blocks of a writer lie on all of the volume, so that cleaning has something to move.
    share = blocks // 5
    durable = 0
    for kill in range(kills):
        with export:
            client = Client(export.socket)
            for old in writers:
                old.verify(client)
            client.close()
            fresh = [Writer(export, number, number * share, share, random.Random(rng.random())) for number in range(4)]
            for new, old in zip(fresh, writers):
                new.possible, new.written = old.possible, old.written
            writers = fresh
            for writer in writers:
                writer.start()
            time.sleep(2.0 + rng.random())
            export.kill()
            for writer in writers:
                writer.join(timeout=30)
                assert not writer.is_alive()
                durable += writer.durable
    assert durable > 100, "hardly anything was acknowledged"
    assert json.loads(ok("volume", "check", drive, "--json"))["clean"]
    with export:
        client = Client(export.socket)
        for writer in writers:
            writer.verify(client)
        client.close()
        export.stop()
    assert json.loads(ok("volume", "check", drive, "--json"))["clean"]


def test_kill_9_under_fio_leaves_a_volume_that_opens(tmp_path, export, drive):
    need("fio")
    job = ["--name=kill", "--ioengine=nbd", f"--uri={export.unix}", "--rw=randwrite", "--bs=16k", "--size=64m", "--iodepth=32"]
    job += ["--time_based", "--runtime=20", "--verify=crc32c", "--do_verify=0", f"--aux-path={tmp_path}"]
    fio = subprocess.Popen(["fio", *job], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2.5)
    export.kill()
    try:
        fio.wait(timeout=60)
    finally:
        fio.kill()
    export.start()
    # All that is there is what fio wrote, whole: its own checksums say so.
    client = Client(export.socket)
    blocks = [client.call(READ, at, 16 << 10) for at in range(0, 64 * MIB, 16 << 10)]
    client.close()
    written = [at for at, data in enumerate(blocks) if any(data)]
    assert len(written) > 50
    assert all(blocks[at][:2] == b"\xca\xac" for at in written), "a block was torn"
    export.stop()
    assert json.loads(ok("volume", "check", drive, "--json"))["clean"]


def test_several_volumes_are_served_by_one_process(tmp_path):
    drives = [made(tmp_path, name, "128MiB") for name in ("one", "two")]
    with Export(tmp_path, *drives) as export:
        assert [uri.split("/")[3].partition("?")[0] for uri in export.uris] == ["one", "one", "two", "two"]
        clients = [Client(export.socket, name) for name in ("one", "two")]
        for client, byte in zip(clients, (b"1", b"2")):
            client.call(WRITE, BLOCK, data=byte * BLOCK, flags=1)
        assert [client.call(READ, BLOCK, BLOCK)[:1] for client in clients] == [b"1", b"2"]
        # Neither of two exports is the one without a name.
        with pytest.raises(Refused):
            Client(export.socket)
        export.stop()


STRANGER = """
import socket, sys
bound = socket.socket(socket.AF_UNIX)
bound.bind("\\0" + sys.argv[1])
bound.listen()
print("listening", flush=True)
asking, _ = bound.accept()
asking.recv(4096)
asking.sendall(b'{"Ok":[]}\\n')
"""


def test_a_stranger_who_has_the_name_of_the_socket_is_not_believed(drive):
    """SV-VOL-3."""
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    found = drive.stat()
    command = ["/usr/bin/python3", "-c", STRANGER, f"shingle-volume/file-{found.st_dev}-{found.st_ino}"]
    with drive.open("rb") as held, subprocess.Popen(command, user=65534, cwd="/", stdout=subprocess.PIPE) as stranger:
        try:
            # The drive is in use: whoever has it would be asked.
            fcntl.flock(held, fcntl.LOCK_EX)
            assert stranger.stdout.readline() == b"listening\n"
            refused("volume", "snapshot", "ls", drive, says=["user 65534"])
        finally:
            stranger.kill()


def test_what_was_read_only_takes_no_writes(tmp_path, drive):
    with Export(tmp_path, drive, options=["--read-only"]) as export:
        client = Client(export.socket)
        for command, data in ((WRITE, bytes(BLOCK)), (TRIM, b""), (WRITE_ZEROES, b"")):
            with pytest.raises(Refused, match="1"):
                client.call(command, 0, BLOCK, data)
        client.call(FLUSH)
        assert client.call(READ, 0, BLOCK) == bytes(BLOCK)
        export.stop()


def test_a_damaged_sector_is_named_and_all_others_are_served(tmp_path, drive, export):
    client = Client(export.socket)
    for number in range(64):
        client.call(WRITE, number * BLOCK, data=b"%03d " % number * (BLOCK // 4))
    client.call(FLUSH)
    client.close()
    export.stop()
    # The bytes of sector 40, wherever they lie on the drive.
    image = bytearray(drive.read_bytes())
    at = image.find(b"040 " * 100)
    assert at > 0
    image[at] ^= 1
    drive.write_bytes(image)
    done = shingle("volume", "check", drive, "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 4 and not told["clean"], done.stderr
    assert told["bad_sectors"] == 1 and told["damage"][0].startswith("sector 40: "), told
    assert "sector 40: " in shingle("volume", "check", drive).stdout
    export.start()
    client = Client(export.socket)
    assert client.call(READ, 39 * BLOCK, BLOCK)[:3] == b"039" and client.call(READ, 41 * BLOCK, BLOCK)[:3] == b"041"
    with pytest.raises(Refused, match="5"):
        client.call(READ, 40 * BLOCK, BLOCK)
    client.call(WRITE, 40 * BLOCK, data=b"new " * (BLOCK // 4))
    assert client.call(READ, 40 * BLOCK, BLOCK)[:3] == b"new"
    client.close()
    export.stop()
    assert json.loads(ok("volume", "check", drive, "--json"))["clean"]


@pytest.mark.parametrize("layer", ["builtin", "tl1", "tl1:min_assoc", "tl2", "tl2:greedy"])
def test_a_full_volume_takes_any_number_of_rewrites(tmp_path, layer):
    drive = made(tmp_path, "small", "96MiB")
    with Export(tmp_path, drive, options=["--layer", layer]) as export:
        client, rng = Client(export.socket), random.Random(5)
        count = client.size // (16 * BLOCK)
        for at in [*range(count), *(rng.randrange(count) for _ in range(2 * count))]:
            client.call(WRITE, at * 16 * BLOCK, data=at.to_bytes(4, "big") * (4 * BLOCK))
        for at in range(count):
            assert client.call(READ, at * 16 * BLOCK, 16 * BLOCK) == at.to_bytes(4, "big") * (4 * BLOCK)
        client.close()
        export.stop()
    assert json.loads(ok("volume", "check", drive, "--json"))["clean"]


def test_clients_over_tls_get_in_and_others_do_not(tmp_path, drive):
    need("nbdinfo", "openssl")
    pki = tmp_path / "pki"
    pki.mkdir()
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=authority",
        "-keyout", pki / "ca-key.pem", "-out", pki / "ca-cert.pem")
    for who in ("server", "client"):
        run("openssl", "req", "-newkey", "rsa:2048", "-nodes", *subject, "-keyout", pki / f"{who}-key.pem", "-out", pki / f"{who}.csr")
        run("openssl", "x509", "-req", "-days", "2", "-CA", pki / "ca-cert.pem", "-CAkey", pki / "ca-key.pem", "-CAcreateserial",
            "-copy_extensions", "copy", "-in", pki / f"{who}.csr", "-out", pki / f"{who}-cert.pem")
    files = ["--tls-cert", pki / "server-cert.pem", "--tls-key", pki / "server-key.pem", "--tls-clients", pki / "ca-cert.pem"]
    with Export(tmp_path, drive, options=files) as export:
        assert export.tcp.startswith("nbds://127.0.0.1:")
        assert "with TLS" in run("nbdinfo", f"{export.tcp}?tls-certificates={pki}")
        plain = subprocess.run(["nbdinfo", export.tcp.replace("nbds", "nbd")], capture_output=True, text=True)
        assert plain.returncode != 0 and "disk" not in plain.stdout
        # One without a certificate.
        stranger = tmp_path / "stranger"
        stranger.mkdir()
        shutil.copy(pki / "ca-cert.pem", stranger)
        done = subprocess.run(["nbdinfo", f"{export.tcp}?tls-certificates={stranger}"], capture_output=True, text=True)
        assert done.returncode != 0 and "export-size" not in done.stdout
        # The Unix socket's file is guard enough.
        assert "without TLS" in run("nbdinfo", export.unix)
        export.stop()
    said = refused("volume", "export", drive, "--tls-cert", pki / "server-cert.pem", "--tls-key", pki / "client-key.pem",
                   "--socket", tmp_path / "x.sock", status=78)
    assert "PRIVATE" not in said


def test_bad_input_is_refused_in_words(tmp_path, drive, export):
    nowhere = tmp_path / "nowhere.shingle"
    for command in ("create", "stat", "check", "dump", "rm"):
        refused("volume", command, nowhere, says=["nowhere"], status=8)
        refused("volume", command, drive, says=["in use"], status=8)
    refused("volume", "export", nowhere, "--socket", tmp_path / "x.sock", says=["nowhere"])
    refused("volume", "export", drive, "--socket", tmp_path / "x.sock", says=["in use"])
    refused("volume", "create", drive, "--sector", "1024", says=["512"])
    export.stop()
    refused("volume", "create", drive, says=["holds a store", "--force"])
    refused("volume", "create", drive, "--force", says=["will be lost", "--yes"])
    other = tmp_path / "other.shingle"
    ok("drive", "create", other, "--size", "256MiB", "--zone-size", "4MiB")
    refused("volume", "create", other, "--size", "1GiB", says=["hold a volume of", "at most"])
    refused("volume", "create", other, "--size", "0B", says=["one sector"])
    refused("volume", "create", other, "--metazones", "100", says=["at most"])
    refused("volume", "export", other, "--socket", tmp_path / "x.sock", says=["no volume", "volume create"])
    ok("chunk", "format", other)
    refused("volume", "stat", other, says=["another engine"], status=8)
    refused("volume", "rm", other, "--yes", says=["chunk store"], status=8)
    refused("chunk", "stat", drive, status=8)
    plain = tmp_path / "plain"
    plain.write_bytes(bytes(MIB))
    refused("volume", "create", plain, "--yes")
    refused("volume", "export", drive, drive, "--socket", tmp_path / "x.sock", says=["the name `disk`"], status=78)
    refused("volume", "export", drive, other, "--name", "x", says=["one drive"])


def test_places_that_are_taken_are_named(tmp_path, drive, export):
    """SV-VOL-2."""
    other = made(tmp_path, "other", "128MiB")
    refused("volume", "export", other, "--socket", export.socket, says=[str(export.socket), "--socket"])
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused("volume", "export", other, "--listen", f"127.0.0.1:{port}", says=[str(port), "--listen"])
    # Neither attempt has kept the drive.
    ok("volume", "stat", other)


def test_an_attached_volume_is_a_disk_with_a_file_system(tmp_path, drive):
    if os.geteuid() != 0:
        pytest.skip("only root makes disks")
    need("nbdfuse", "losetup", "mkfs.ext4", "mount")
    if not os.path.exists("/dev/fuse") or subprocess.run(["losetup", "--find"], capture_output=True).returncode != 0:
        pytest.skip("this machine has no FUSE or no loop devices")
    mount, tree = tmp_path / "mount", ROOT / "docs"
    mount.mkdir()
    for end in ("detach", "signal"):
        process = subprocess.Popen([str(BINARY), "volume", "attach", str(drive)], stdout=subprocess.PIPE, text=True)
        try:
            node = process.stdout.readline().strip()
            assert node.startswith("/dev/")
            if end == "detach":
                run("mkfs.ext4", "-q", "-F", node)
            run("mount", node, mount)
            try:
                if end == "detach":
                    shutil.copytree(tree, mount / "tree")
                run("diff", "-r", tree, mount / "tree")
                refused("volume", "detach", node, says=["in use", str(mount)])
            finally:
                run("umount", mount)
            if end == "detach":
                ok("volume", "detach", node)
            else:
                process.terminate()
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
            process.wait()
    assert json.loads(ok("volume", "check", drive, "--json"))["clean"]


def test_a_tree_of_sources_outlives_kill_9_in_a_file_system(tmp_path):
    """The short form of `make volume-trees`."""
    if os.geteuid() != 0:
        pytest.skip("only root makes disks")
    need("nbdfuse", "losetup", "mkfs.ext4", "mount")
    if not os.path.exists("/dev/fuse") or subprocess.run(["losetup", "--find"], capture_output=True).returncode != 0:
        pytest.skip("this machine has no FUSE or no loop devices")
    script = ROOT / "tests/volumes/source_tree.py"
    said = run(sys.executable, script, "--shingle", BINARY, "--files", 800, "--only", "ext4", "--scratch", tmp_path, "--json")
    assert json.loads(said)["files"] == 800 and "checked" in json.loads(said)["seconds"]["ext4"]


def test_the_service_manager_is_told_and_the_socket_is_in_its_directory(tmp_path, drive):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(30)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "RUNTIME_DIRECTORY": str(tmp_path)}
        export = Export(tmp_path, drive)
        command = export.command()[:4]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline() == f"nbd+unix:///disk?socket={tmp_path}/disk.sock\n"
            heard = ""
            while "READY=1" not in heard:
                heard += manager.recv(4096).decode()
            assert Client(tmp_path / "disk.sock").size > 0
            process.terminate()
            assert process.wait(timeout=30) == 0
            while "STOPPING=1" not in heard:
                heard += manager.recv(4096).decode()
        finally:
            process.kill()
            process.wait()
