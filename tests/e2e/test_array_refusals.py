"""Arrays and their drives are not taken for something else, and what makes no sense is refused."""

from arrays import array, blank  # noqa: F401: fixtures
from test_bad_input import ok, refused


def test_what_a_drive_holds_is_not_formatted_over(array, tmp_path):
    array.put("kept", b"kept")
    command = ["array", "format", "--array", array.file, "--code", "5+1"]
    refused(*command, says=[array.drives[0].name, "lost", "--yes"], status=1)
    assert array.get("kept") == b"kept"
    refused(*command, *array.drives, says=["there already"], status=1)
    ok(*command, "--yes")
    assert array.names() == []


def test_a_drive_of_an_array_is_known_as_one_and_not_taken_for_empty(array, tmp_path):
    array.put("kept", b"kept")
    drive = array.drives[0]
    refused("chunk", "format", drive, says=["disk0", "array", "--force"], status=1)
    (tmp_path / "serve.toml").write_text(f'[[drive]]\npath = "{drive}"\n')
    serve = ["serve", "--config", tmp_path / "serve.toml", "--data", tmp_path / "data", "--listen", "127.0.0.1:0"]
    refused(*serve, says=["disk0", "array"])
    refused("drive", "reset", drive, "5", says=["array"])
    assert array.get("kept") == b"kept" and all(drive["state"] == "ok" for drive in array.stat()["drives"])


def test_a_drive_with_a_chunk_store_is_not_formatted_over(tmp_path, blank):
    ok("chunk", "format", blank[3])
    command = ["array", "format", "--array", tmp_path / "shelf.toml", "--code", "5+1", *blank]
    refused(*command, says=["disk3", "chunk store", "--yes"], status=1)
    assert not (tmp_path / "shelf.toml").exists()
    ok("chunk", "ls", blank[3])
    ok(*command, "--force")


def test_what_makes_no_sense_is_refused_in_words(array, tmp_path):
    refused("array", "ls", says=["--array", "--drive", "SHINGLE_ARRAY"], status=8)
    refused("array", "ls", "--array", tmp_path / "nowhere.toml", says=["nowhere.toml"], status=8)
    for text, says in (("drives = []", "no drives"), ("drives = 5", "drives"), ("colour = 1\ndrives = ['a']", "colour")):
        (tmp_path / "bad.toml").write_text(text)
        refused("array", "ls", "--array", tmp_path / "bad.toml", says=["bad.toml", says], status=8)
    array.refused("put", "", array.file, says=["name"])
    array.refused("put", "n" * 1281, array.file, says=["1280"])
    array.refused("put", "name", tmp_path / "nowhere", says=["nowhere"])
    array.refused("put", "name", tmp_path, says=["directory"])
    array.refused("rm", "nosuch", says=["nosuch"], status=1)
    array.refused("stat", "nosuch", says=["nosuch"], status=1)
    assert array.names() == []
    other = tmp_path / "other.toml"
    for code in ("5", "0+1", "5+0", "20+1", "a+b", ""):
        refused("array", "format", "--array", other, f"--code={code}", *array.drives)
    refused("array", "format", "--array", other, "--code", "6+1", *array.drives, says=["7 drives"])
    refused("array", "format", "--array", other, "--code", "5+1", *array.drives, tmp_path / "none", says=["none"])
    refused("array", "format", "--array", other, "--code", "5+1", "--segment", "0", "--yes", *array.drives, says=["segment"])
    assert not other.exists()


def test_a_drive_of_another_array_is_named(array, tmp_path):
    others = [tmp_path / f"other{number}.shingle" for number in range(2)]
    for drive in others:
        ok("drive", "create", drive, "--size", "64MiB", "--zone-size", "4MiB")
    refused("array", "ls", *(word for drive in others for word in ("--drive", drive)), says=["format"])
    ok("array", "format", "--code", "1+1", *others)
    text = array.file.read_text().replace("disk5", "other1")
    array.file.write_text(text)
    array.refused("ls", says=["another array", "shingle"], status=8)
