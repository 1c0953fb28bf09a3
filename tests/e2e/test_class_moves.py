"""Objects that go from storage class to storage class while they are listed and the server is killed."""

import random
import threading
import time

from test_kill import CUT_OFF
from test_s3_array import classes, content, read, shelves  # noqa: F401: a fixture

MIB = 1 << 20
CLASSES = ("STANDARD", "STANDARD_IA")
SIZES = (0, 10, 100_000, 2 * MIB)
KEYS = [f"key {number}" for number in range(4)]


class Mover(threading.Thread):
    """Puts one key in one class after the other, until the server dies."""

    def __init__(self, s3, key, first):
        super().__init__()
        self.s3, self.key = s3, key
        self.acknowledged = self.tried = first

    def run(self):
        while True:
            number = self.tried + 1
            body = content(f"{self.key} {number}", SIZES[number % len(SIZES)])
            self.tried = number
            try:
                storage_class = CLASSES[number % 2 if self.key != KEYS[0] else number // 2 % 2]
                self.s3.put_object(Bucket="bucket", Key=self.key, Body=body, StorageClass=storage_class)
            except CUT_OFF:
                return
            self.acknowledged = number


def numbers_of(mover):
    """What may be there after a kill: the last acknowledged, or the one that was under way."""
    return {number: content(f"{mover.key} {number}", SIZES[number % len(SIZES)])
            for number in {mover.acknowledged, mover.tried}}


def test_a_move_that_is_killed_leaves_one_version_and_listings_miss_none(shelves):  # noqa: F811
    shelf = shelves()
    shelf.server.start().s3().create_bucket(Bucket="bucket")
    s3 = shelf.server.s3()
    for key in KEYS:
        s3.put_object(Bucket="bucket", Key=key, Body=content(f"{key} 0", 0))
    at, moves = dict.fromkeys(KEYS, 0), 0
    rng = random.Random(3)
    for kill in range(4):
        movers = [Mover(shelf.server.s3(), key, at[key]) for key in KEYS]
        for mover in movers:
            mover.start()
        s3, until, listings = shelf.server.s3(), time.monotonic() + rng.uniform(0.5, 2), 0
        while time.monotonic() < until:
            assert sorted(classes(s3, "bucket")) == KEYS, f"kill {kill}, listing {listings}"
            listings += 1
        shelf.server.kill()
        for mover in movers:
            mover.join(timeout=90)
        s3 = shelf.server.start().s3()
        listed = classes(s3, "bucket")
        assert sorted(listed) == KEYS and listings > 0
        for mover in movers:
            possible = numbers_of(mover)
            found = read(s3, "bucket", mover.key)
            assert found in possible.values(), (mover.key, mover.acknowledged, mover.tried)
            head = s3.head_object(Bucket="bucket", Key=mover.key)
            assert head["ContentLength"] == len(found) and head.get("StorageClass", "STANDARD") == listed[mover.key]
            moves += mover.acknowledged - at[mover.key]
            # Numbers are given once: what was under way may have come to pass.
            at[mover.key] = mover.tried
            s3.put_object(Bucket="bucket", Key=mover.key, StorageClass=CLASSES[kill % 2],
                          Body=content(f"{mover.key} {mover.tried}", SIZES[mover.tried % len(SIZES)]))
    assert moves > 20, moves
    s3.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": key} for key in KEYS]})
    assert classes(s3, "bucket") == {}
    shelf.server.stop()
    assert classes(shelf.server.start().s3(), "bucket") == {}
