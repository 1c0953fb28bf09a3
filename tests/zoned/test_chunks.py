"""The chunk store on real devices, by its commands: kill -9 and power cuts lose nothing that was acknowledged."""

import json
import os
import random

import pytest

from devices import make_device, read_errors
from guest import Guest, Zns

MIB = 1 << 20
#: Chunks for as long as nothing stops it: what is acknowledged is said, with its digest, after it is. Each is a piece of
#: the file `bytes`, which the seed decides on.
LOAD = """
n=0 RANDOM=SEED
while :; do
    n=$((n + 1)) id=$(printf %x $n)
    skip=$(((RANDOM * 32768 + RANDOM) % 14000000)) length=$(((RANDOM * 32768 + RANDOM) % 1500000 + 1))
    tail -c +$((skip + 1)) FOLDER/bytes | head -c $length >part.$n
    SHINGLE chunk create NODE $id && SHINGLE chunk append NODE $id part.$n || exit
    echo "appended $id $(sha256sum <part.$n | cut -c 1-64)"
    if [ $((n % 3)) = 0 ]; then SHINGLE chunk seal NODE $id || exit; fi
    if [ $((n % 4)) = 0 ]; then
        echo "deleting $(printf %x $((n - 2)))"
        SHINGLE chunk delete NODE $(printf %x $((n - 2))) --yes || exit
    fi
done
"""


def acknowledged(said):
    """Digests of the chunks that must be there; those that may be gone, since a deletion of them had begun, are not."""
    kept = {}
    # What a cut left of the last line says nothing.
    for line in said.splitlines(keepends=True):
        words = line.split()
        if line.endswith("\n") and words[:1] == ["appended"] and len(words) == 3:
            kept[words[1]] = words[2]
        elif words[:1] == ["deleting"]:
            kept.pop(words[1] if len(words) > 1 else None, None)
    return kept


@pytest.fixture
def seed():
    """Of the bytes and lengths of a test, which says it where it fails; when the cut comes is left to chance."""
    seed = int(os.environ.get("SHINGLE_SEED") or random.randrange(1 << 31))
    print(f"again with the same load: SHINGLE_SEED={seed}")
    return seed


def make_bytes(guest, name, seed, count):
    (guest.scratch / name).write_bytes(random.Random(f"{name} {seed}").randbytes(count))


def look(guest, shingle, node, kept):
    guest.ok(f"{shingle} chunk check {node}", seconds=300)
    for chunk, digest in kept.items():
        found = guest.ok(f"{shingle} chunk read {node} {chunk} | sha256sum")[:64]
        assert found == digest, f"chunk {chunk} is not what was acknowledged"
    guest.ok(f"{shingle} chunk stat {node} && {shingle} chunk ls {node} | head -n 3")


@pytest.mark.short
@pytest.mark.parametrize("device", ["limits", "zns"])
def test_a_chunk_store_from_end_to_end(guest, shingle, device, seed):
    node = make_device(guest, device)
    chunk = f"{shingle} chunk"
    make_bytes(guest, "one", seed, 2_500_000)
    make_bytes(guest, "two", seed, 70_000)
    guest.ok("cat one two >both")
    guest.ok(f"{chunk} format {node} && {chunk} create {node} 2a && {chunk} append {node} 2a one")
    guest.ok(f"{chunk} append {node} 2a <two && {chunk} seal {node} 2a && {chunk} read {node} 2a | cmp - both")
    guest.ok(f"{chunk} create {node} 2b --stream meta && {chunk} append {node} 2b two")
    status, said = guest.run(f"{chunk} append {node} 2a two")
    assert status != 0 and "seal" in said, said
    status, said = guest.run(f"{chunk} format {node}")
    assert status != 0 and "force" in said, said
    guest.ok(f"{chunk} delete {node} 2a --yes && ! {chunk} read {node} 2a && {chunk} read {node} 2b | cmp - two")
    guest.ok(f"{chunk} gc {node} && {chunk} check {node}")


@pytest.mark.parametrize("device", ["capacity", "limits", "zns"])
def test_kill_9_in_the_middle_of_appends(guest, shingle, device, seed):
    node = make_device(guest, device)
    make_bytes(guest, "large", seed, 40_000_000)
    guest.ok(f"{shingle} chunk format {node}")
    # By what has reached the device, and not by the clock: on a busy machine nothing is under way for seconds.
    for kill, mib in enumerate([0, 1, 6, 16]):
        # What is appended is a prefix, and what was there stays.
        guest.ok(
            f"{shingle} chunk create {node} {kill + 1}\n"
            f"sectors() {{ read -r _ _ _ _ _ _ written _ </sys/block/{node.removeprefix('/dev/')}/stat; }}\n"
            f"sectors; enough=$((written + {mib * 2048}))\n"
            f"setsid {shingle} chunk append {node} {kill + 1} large & job=$!\n"
            "for _ in {1..1200}; do sectors; [ $written -ge $enough ] && break; kill -0 $job || break; sleep 0.05; done\n"
            "kill -9 $job; wait $job; true"
        )
        for chunk in range(1, kill + 2):
            guest.ok(f"{shingle} chunk read {node} {chunk} >found; cmp -n $(stat -c %s found) found large")
    guest.ok(f"{shingle} chunk check {node}")
    sizes = guest.ok(f"for c in 1 2 3 4; do {shingle} chunk read {node} $c | wc -c; done").split()
    assert any(0 < int(size) for size in sizes), f"nothing was under way at any kill: {sizes}"


def test_a_block_that_stays_unreadable_is_given_up_once(guest, shingle, seed):
    node, chunk = make_device(guest, "scsi"), f"{shingle} chunk"
    make_bytes(guest, "large", seed, 2 << 20)
    # Killed: no checkpoint says what the data zones hold, so that an opening has to read them.
    guest.ok(
        f"{chunk} format {node} && {chunk} create {node} 1 && {chunk} create {node} 2\n"
        f"{chunk} append {node} 2 <<<whole\n"
        "sectors() { read -r _ _ _ _ _ _ written _ </sys/block/sda/stat; }\n"
        "sectors; enough=$((written + 4096))\n"
        f"{{ cat large; exec sleep 60; }} 2>/dev/null | {chunk} append {node} 1 & job=$!\n"
        "for _ in {1..600}; do sectors; [ $written -ge $enough ] && break; sleep 0.05; done\n"
        "kill -9 $job; pkill sleep; wait; true"
    )
    records = json.loads(guest.ok(f"{chunk} dump {node}"))["chunks"][0]["records"]
    assert len(records) > 1, records
    bad = records[-1]
    with read_errors(guest, bad["zone"], bad["block"]):
        for _ in range(2):
            status, said = guest.run(f"{chunk} check {node}")
            assert status == 4 and "cannot be read" in said, said
        status, said = guest.run(f"{chunk} accept-loss {node} </dev/null")
        assert status == 1 and "add --yes" in said, said
        said = guest.ok(f"{chunk} accept-loss {node} --yes")
        assert "given up" in said, said
        said = guest.ok(f"{chunk} accept-loss {node}")
        assert "nothing to give up" in said, said
        before = f"{chunk} read {node} 1 --length {bad['offset']}"
        guest.ok(f"[ $({chunk} read {node} 2) = whole ] && {before} | cmp -n {bad['offset']} - large")
    guest.ok(f"{chunk} delete {node} 1 --yes && {chunk} check {node}")


def test_a_bad_block_where_marks_of_others_are_looked_for_closes_no_store(guest, shingle):
    node, chunk = make_device(guest, "scsi"), f"{shingle} chunk"
    guest.ok(f"{chunk} format {node} && {chunk} create {node} 1 && {chunk} append {node} 1 <<<whole")
    with read_errors(guest, 0, 3):
        status, _ = guest.run(f"dd if={node} of=/dev/null bs=4096 skip=3 count=1 iflag=direct")
        assert status != 0, "the block can be read"
        guest.ok(f"{chunk} stat {node} && [ $({chunk} read {node} 1) = whole ]")


def test_a_power_cut_loses_no_acknowledged_chunk(tmp_path, shingle, seed):
    zns = Zns(tmp_path / "zns", zones=64, zone_mib=8, capacity_mib=6, open_max=14, active_max=14)
    node, kept, cuts = "/dev/nvme0n1", {}, 2
    with Guest(scratch=tmp_path / "scratch", drives=[zns], seconds=600) as guest:
        make_bytes(guest, "bytes", seed, 16 * MIB)
        for cut in range(cuts):
            # What was kept is looked at after each cut; then the store begins anew.
            guest.ok(f"blkzone reset {node} && {shingle} chunk format {node}")
            words = {"SHINGLE": shingle, "NODE": node, "FOLDER": str(guest.scratch), "SEED": str(seed % 30_000 + cut)}
            load = LOAD
            for word, value in words.items():
                load = load.replace(word, value)
            guest.start(f"cd $(mktemp -d)\n{load}")
            said = guest.hear(lambda said, cut=cut: said.count("appended") >= 4 + 2 * cut)
            kept = acknowledged(said + guest.power_cut())
            assert len(kept) >= 3, said
            look(guest, shingle, node, kept)
        assert guest.boots == 1 + cuts
