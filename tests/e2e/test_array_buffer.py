"""Small objects in an array's buffer, two files on two SSDs: seen, kept, and asked for, whatever is missing."""

import json
import shutil
import subprocess
import time

import pytest

from arrays import blank  # noqa: F401: a fixture
from shingle import BINARY, Server, shingle
from test_bad_input import ok, refused

SMALL = {f"small/{number}": b"%d" % number * 300 for number in range(20)}


class Shelf:
    """An array with a buffer, and a server on it."""

    def __init__(self, folder, drives):
        self.folder, self.file, self.drives = folder, folder / "shelf.toml", drives
        self.files = [folder / f"ssd{number}" / "shelf.buffer" for number in (1, 2)]
        for file in self.files:
            file.parent.mkdir()
        ok("array", "format", "--array", self.file, "--code", "2+1", "--segment", "256KiB",
           "--buffer", *self.files, *drives[:3])
        config = folder / "server.toml"
        config.write_text(f'[[array]]\nname = "shelf"\nfile = "{self.file}"\n')
        self.server = Server(folder / "data", config=config)

    def run(self, verb, *arguments):
        return ok("array", verb, "--array", self.file, *arguments)

    def refused(self, verb, *arguments, **what):
        return refused("array", verb, "--array", self.file, *arguments, **what)

    def killed(self):
        """Small objects are put, and the server is killed before they are written to the drives."""
        self.server.start()
        s3 = self.server.s3()
        s3.create_bucket(Bucket="bucket")
        for name, data in SMALL.items():
            s3.put_object(Bucket="bucket", Key=name, Body=data)
        self.server.kill()

    def served(self):
        self.server.start()
        s3 = self.server.s3()
        for name, data in SMALL.items():
            assert s3.get_object(Bucket="bucket", Key=name)["Body"].read() == data, name
        self.server.stop()

    def stat(self):
        return json.loads(self.run("stat", "--json"))

    def without_buffer(self):
        """The file's text before; after it no buffer is named."""
        text = self.file.read_text()
        lines = [line for line in text.splitlines() if not line.startswith("buffer")]
        assert len(lines) < len(text.splitlines())
        self.file.write_text("\n".join(lines) + "\n")
        return text


@pytest.fixture
def shelf(tmp_path, blank):  # noqa: F811
    shelf = Shelf(tmp_path, blank)
    yield shelf
    if shelf.server.process is not None:
        shelf.server.kill()


def held(shelf):
    return [file.read_bytes() if file.exists() else None for file in shelf.files]


def test_commands_that_read_see_what_is_buffered_and_change_nothing(shelf):
    shelf.killed()
    before = held(shelf), [drive.read_bytes() for drive in shelf.drives[:3]]
    names = shelf.run("ls")
    assert names.count("small/") == len(SMALL)
    seen = shelf.stat()
    assert seen["buffered_bytes"] >= sum(map(len, SMALL.values())) and seen["objects"] > len(SMALL)
    checked = json.loads(shelf.run("check", "--json"))
    assert checked["clean"] and checked["objects"] == seen["objects"] and checked["buffer"] == []
    # Of the names that a server gives objects, only that of a bucket can be said here; it holds nothing.
    name = next(line.split(maxsplit=1)[1] for line in names.splitlines() if line.endswith("bucket"))
    assert shelf.run("get", name) == "" and shelf.run("stat", name)
    assert "objects may wait" in shelf.run("dump")
    # One of the two is enough; a command that reads does not make it again.
    shelf.files[0].rename(shelf.files[0].with_suffix(".away"))
    assert shelf.run("ls") == names and not shelf.files[0].exists()
    assert "first file" in shingle("array", "check", "--array", shelf.file).stdout
    shelf.files[0].with_suffix(".away").rename(shelf.files[0])
    assert (held(shelf), [drive.read_bytes() for drive in shelf.drives[:3]]) == before
    shelf.served()


def test_the_buffer_is_asked_for_until_it_is_empty(shelf):
    shelf.killed()
    text = shelf.without_buffer()
    for verb in ("ls", "stat", "check", "gc"):
        shelf.refused(verb, says=["buffer", "not named"])
    shelf.file.write_text(text.replace("ssd1", "ssd3").replace("ssd2", "ssd3/2"))
    for verb in ("ls", "gc"):
        shelf.refused(verb, says=["buffer", "ssd3" if verb == "gc" else "neither"])
    shelf.file.write_text(text)
    # Any command that writes writes it to the drives when it closes the array.
    shelf.run("gc")
    assert shelf.stat()["buffered_bytes"] == 0 and "empty" in shelf.run("dump")
    shelf.without_buffer()
    shutil.rmtree(shelf.files[0].parent)
    shelf.served()


def test_a_lost_file_is_made_from_the_other_and_a_stale_one_is_not_believed(shelf):
    shelf.killed()
    stale = shelf.files[1].read_bytes()
    shelf.files[1].unlink()
    shelf.server.start()
    s3 = shelf.server.s3()
    s3.put_object(Bucket="bucket", Key="small/0", Body=b"new")
    s3.delete_object(Bucket="bucket", Key="small/1")
    shelf.server.kill()
    assert any("second file" in line for line in shelf.server.lines), shelf.server.lines
    first, second = held(shelf)
    assert first[:4096] == second[:4096]
    # The SSD that was lost is back, with what it held then; it is all that is there.
    shelf.files[1].write_bytes(stale)
    shelf.server.start()
    s3 = shelf.server.s3()
    assert s3.get_object(Bucket="bucket", Key="small/0")["Body"].read() == b"new"
    assert "small/1" not in {item["Key"] for item in s3.list_objects_v2(Bucket="bucket")["Contents"]}
    shelf.server.stop()


def test_a_deleted_object_stays_deleted_when_a_later_command_is_killed(shelf):
    small = shelf.folder / "small.txt"
    small.write_bytes(b"small" * 100)
    shelf.run("put", "small", small)
    shelf.run("rm", "small")
    shelf.run("snapshot")
    before = held(shelf)
    command = [BINARY, "array", "put", "--array", shelf.file, "other", "-"]
    put = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE)
    try:
        # A new buffer was begun in the files: from here on the array is not closed in order.
        for _ in range(300):
            if held(shelf) != before:
                break
            time.sleep(0.1)
        assert held(shelf) != before
        time.sleep(0.5)
    finally:
        put.kill()
        put.wait()
    assert shelf.run("ls") == ""
    shelf.refused("get", "small", says=["small"])


def test_lost_files_are_given_up_only_if_told_so(shelf):
    shelf.killed()
    for file in shelf.files:
        file.unlink()
    said = shelf.refused("ls", says=["neither", "--abandon-buffer"])
    assert "panicked" not in said
    shelf.refused("gc", says=["neither", "--abandon-buffer"])
    assert not any(file.exists() for file in shelf.files)
    shelf.run("snapshot", "--abandon-buffer")
    assert "small/" not in shelf.run("ls")
    # From here on it is used again.
    assert all(file.exists() for file in shelf.files)


def test_a_buffer_that_makes_no_sense_is_refused_in_words(shelf, tmp_path):
    text = shelf.file.read_text()
    shelf.file.write_text(text.replace("ssd2", "ssd1"))
    shelf.refused("gc", says=["both files", "ssd1"])
    shelf.file.write_text(text.replace("ssd2", "nowhere"))
    shelf.refused("gc", says=["nowhere", "no folder"])
    # Nothing is in it: whoever only reads needs no file of it.
    shelf.run("ls")
    shelf.file.write_text(text.replace(str(shelf.files[1]), str(tmp_path)))
    shelf.refused("gc", says=["cannot be used"])
    refused("array", "format", "--array", tmp_path / "new.toml", "--code", "2+1",
            "--buffer", shelf.files[0], shelf.files[0], *shelf.drives[3:], says=["both files"])
    shelf.file.write_text(text)
    # The file is written anew with its buffer when a drive joins.
    shelf.run("add", shelf.drives[3])
    assert str(shelf.files[1]) in shelf.file.read_text()
