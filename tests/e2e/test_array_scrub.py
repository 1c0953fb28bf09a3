"""A server verifies its arrays in the background: damage is found, mended and counted, and a restart goes on where it was."""

import json
import re
import time

from arrays import spoil
from shingle import shingle
from test_bad_input import ok
from test_s3_array import content, figures, read, shelves  # noqa: F401: a fixture

MIB = 1 << 20
ADMIN = 'admin = "127.0.0.1:0"'


def scrub(server):
    """Figures of verifying, by name."""
    return {name.removeprefix("shingle_array_scrub_").split("{")[0]: value
            for name, value in figures(server.admin).items() if name.startswith("shingle_array_scrub_")}


def wait_for(server, what, seconds=60):
    until = time.monotonic() + seconds
    while not what(found := scrub(server)):
        assert time.monotonic() < until, found
        time.sleep(0.2)
    return found


def state(shelf, what=lambda noted: True):
    """What is noted of the pass that is under way, once `what` holds of it: it is noted after it is counted."""
    [file] = (shelf.server.data / "arrays").glob("*.scrub")
    until = time.monotonic() + 20
    while not what(noted := dict(re.findall(r"^(\w+) = (\d+)$", file.read_text(), re.M))):
        assert time.monotonic() < until, noted
        time.sleep(0.1)
    return noted


def filled(shelf):
    shelf.configure(top=ADMIN, array='scrub_interval = "off"')
    s3 = shelf.server.start().s3()
    s3.create_bucket(Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": "shelf"})
    for number in range(8):
        s3.put_object(Bucket="bucket", Key=f"{number}", Body=content(f"{number}", 8 * MIB))
    time.sleep(0.5)
    assert set(scrub(shelf.server).values()) == {0}
    shelf.server.stop()


def test_damage_is_found_mended_and_counted(shelves):  # noqa: F811
    shelf = shelves(drives=4)
    filled(shelf)
    spoil(shelf.drives, content("3", 8 * MIB)[50_000:50_032])
    shelf.configure(top=ADMIN, array='scrub_interval = "5 seconds"')
    shelf.server.start()
    found = wait_for(shelf.server, lambda found: found["ended_seconds"] > 0)
    assert found["damaged_zones_total"] > 0 and found["repaired_zones_total"] == found["damaged_zones_total"], found
    assert found["lost_parts_total"] == 0 and found["bytes_total"] > 64 * MIB and found["sets_total"] > 1
    # The next pass has nothing to find.
    again = wait_for(shelf.server, lambda now: now["ended_seconds"] > found["ended_seconds"])
    assert again["damaged_zones_total"] == found["damaged_zones_total"]
    assert int(state(shelf)["whole"]) > 0
    assert read(shelf.server.s3(), "bucket", "3") == content("3", 8 * MIB)
    shelf.server.stop()
    assert json.loads(ok("array", "check", "--array", shelf.file, "--json"))["clean"]


def test_a_restart_goes_on_where_it_was(shelves):  # noqa: F811
    """SV-SCRUB-1."""
    shelf = shelves()
    filled(shelf)
    # Some sets now, the others much later.
    shelf.configure(top=ADMIN, array='scrub_interval = "60 seconds"')
    shelf.server.start()
    first = wait_for(shelf.server, lambda found: found["sets_total"] >= 2)
    assert first["left_sets"] > 0
    shelf.server.kill()
    before = state(shelf)
    assert "ended" not in before and int(before["after"]) >= 1
    shelf.server.start()
    wait_for(shelf.server, lambda found: found["sets_total"] >= 1)
    after = state(shelf, lambda noted: int(noted["after"]) > int(before["after"]))
    assert after["began"] == before["began"]
    shelf.server.kill()
    [file] = (shelf.server.data / "arrays").glob("*.scrub")
    file.write_text("nonsense")
    shelf.server.start()
    wait_for(shelf.server, lambda found: found["sets_total"] >= 1)
    state(shelf, lambda noted: noted.get("began", "0") > before["began"])
    # A pass that waits does not keep the server from ending.
    shelf.server.stop()


def test_a_report_of_damage_names_bucket_and_key(shelves):  # noqa: F811
    shelf = shelves()
    filled(shelf)
    # Two of three fragments of one slice: more than parity makes up for.
    data = content("5", 8 * MIB)
    for at in (100_000, 100_000 + 512 * 1024):
        spoil(shelf.drives, data[at : at + 32])
    done = shingle("array", "check", "--array", shelf.file)
    assert done.returncode == 4, done
    lost = [line for line in done.stdout.splitlines() if line.startswith("lost: ")]
    assert lost and all(line.startswith("lost: `bucket/5`: ") for line in lost), done.stdout
    assert all(line.isprintable() for line in done.stdout.splitlines()), done.stdout
    told = json.loads(shingle("array", "check", "--array", shelf.file, "--json").stdout)
    names = {"name": "`bucket/5`", "bucket": "bucket", "key": "5"}
    assert all(finding["objects"] == [names] for finding in told["findings"] if finding["kind"] == "lost"), told
    # One fragment of another: it can be repaired, and is told with the object's name, too.
    spoil(shelf.drives, content("3", 8 * MIB)[50_000:50_032])
    told = json.loads(shingle("array", "check", "--array", shelf.file, "--json").stdout)
    [zone] = [finding for finding in told["findings"] if finding["kind"] == "repairable"]
    names = {"name": "`bucket/3`", "bucket": "bucket", "key": "3"}
    assert names in zone["objects"] and not zone["unnamed"] and zone["more_objects"] == 0, told
    assert zone["words"] in told["damage"] and "`bucket/3`" in zone["words"], told
    # A server that runs tells the same, counts what is lost, and its verifying names both in the log.
    s3 = shelf.server.start().s3()
    where = ("--config", shelf.config, "--data", shelf.server.data)
    beside = json.loads(shingle("array", "check", "--array", shelf.file, *where, "--json").stdout)
    assert beside["findings"] == told["findings"]
    counted = lambda: figures(shelf.server.admin)['shingle_engine_damaged_objects{engine="shelf"}']
    assert counted() == 1
    failed = shingle("object", "get", "bucket/5", "-o", "/dev/null", *where)
    assert failed.returncode == 1 and "2 fragments of the segment" in failed.stderr, failed.stderr
    assert failed.stderr.count("fails its checksum") == 2, "each fragment once: " + failed.stderr
    s3.delete_object(Bucket="bucket", Key="5")
    assert counted() == 0
    shelf.server.stop()


def test_verifying_names_the_objects_in_the_log_and_counts_them(shelves):  # noqa: F811
    shelf = shelves(drives=4)
    filled(shelf)
    data = content("5", 8 * MIB)
    for at in (100_000, 100_000 + 512 * 1024):
        spoil(shelf.drives, data[at : at + 32])
    spoil(shelf.drives, content("3", 8 * MIB)[50_000:50_032])
    shelf.configure(top=ADMIN, array='scrub_interval = "5 seconds"')
    shelf.server.start()
    wait_for(shelf.server, lambda found: found["ended_seconds"] > 0)
    assert figures(shelf.server.admin)['shingle_engine_damaged_objects{engine="shelf"}'] == 1
    shelf.server.stop()
    log = "".join(shelf.server.lines)
    assert "lost: `bucket/5`: " in log, log
    assert any("damaged: zone set " in line and "`bucket/3`" in line for line in log.splitlines()), log
