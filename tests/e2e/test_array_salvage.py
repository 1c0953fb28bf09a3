"""`shingle array salvage`: objects that lost their records with the array's buffer get them back by hand, with no server."""

import json

from arrays import blank  # noqa: F401: a fixture
from test_array_buffer import shelf  # noqa: F401: a fixture
from test_s3_array import content

MIB = 1 << 20
LARGE = {name: content(name, size) for name, size in {"one": 3 * MIB, "two": 2 * MIB + 17}.items()}


def salvage(shelf, *options):  # noqa: F811
    return json.loads(shelf.run("salvage", "--abandon-buffer", "--json", *options))


def test_objects_without_records_are_listed_and_restored(shelf):  # noqa: F811
    s3 = shelf.server.start().s3()
    s3.create_bucket(Bucket="films")
    for key, data in LARGE.items():
        s3.put_object(Bucket="films", Key=key, Body=data, Metadata={"name": key})
    shelf.server.kill()
    # Their bytes are on the drives; the bucket and their records were in the buffer alone.
    for file in shelf.files:
        file.unlink()
    listed = {(key, len(data)) for key, data in LARGE.items()}
    for _ in range(2):
        seen = salvage(shelf)
        assert {(found["key"], found["bytes"]) for found in seen["objects"]} == listed
        assert not any(found["restored"] for found in seen["objects"])
    said = shelf.run("salvage", "--abandon-buffer")
    assert "nothing was changed" in said and "can be restored: films/one" in said
    done = salvage(shelf, "--yes")
    assert {(found["key"], found["bytes"]) for found in done["objects"]} == listed
    assert all(found["restored"] for found in done["objects"])
    assert json.loads(shelf.run("salvage", "--json"))["objects"] == []
    said = shelf.run("salvage")
    assert "no object has lost its record; looked at: 2 large objects or parts of uploads" in said, said
    s3 = shelf.server.start().s3()
    for key, data in LARGE.items():
        found = s3.get_object(Bucket="films", Key=key)
        assert found["Body"].read() == data and found["Metadata"] == {"name": key}
    shelf.server.stop()
