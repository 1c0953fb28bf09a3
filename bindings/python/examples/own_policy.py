"""A translation layer of one's own, beside TL1 and TL2, in virtual time: `python own_policy.py policies.png`.

The layer empties the zone whose sectors were written longest ago, as long as that wins half a zone; else the emptiest one.
"""

import random
import sys

import shingle
from shingle import control
from shingle.layers import tl1, tl2

SIZE = 12 * 250 << 20


def patient():
    shape = yield control.shape()
    full = shape["zone_sectors_scattered"]
    while (yield control.wait(0.2)) != "closing":
        zones = [zone for zone in (yield control.zones()) if zone["used"] in ("written", "copied") and 0 < zone["live"] < full]
        if len(zones) == 0 or (yield control.room()) > 4 * shape["zone_blocks"]:
            continue
        worth = [zone for zone in zones if zone["live"] * 2 < full]
        victim = max(worth, key=lambda zone: zone["age"]) if worth else min(zones, key=lambda zone: zone["live"])
        for window in (yield control.living_in(victim["name"])):
            yield control.copy(window, source=victim["name"])


def trace(count=20_000, length=256 << 10):
    """Nine of ten writes go to a tenth of the volume."""
    draw = random.Random(1)
    blocks = SIZE // length
    return [("w", draw.randrange(blocks // 10 if draw.random() < 0.9 else blocks) * length, length) for _ in range(count)]


def main(picture):
    import matplotlib.pyplot as plot

    figure, (times, waits) = plot.subplots(1, 2, figsize=(11, 4))
    for name, layer in [("TL1", tl1()), ("TL2", tl2()), ("TL2, hot and cold", tl2(young=4)), ("patient", patient)]:
        run = shingle.simulate(layer, trace(), zones=32, size=SIZE, depth=4)
        print(f"{name:18} {run['seconds']:7.1f} s, write amplification {run['write_amplification']:.2f}")
        times.plot(run["ended"], [at * 0.25 for at in range(len(run["ended"]))], label=name)
        took = sorted(run["took"])
        waits.plot([wait * 1e3 for wait in took], [at / len(took) for at in range(len(took))], label=name)
    times.set(xlabel="seconds", ylabel="MiB written")
    waits.set(xlabel="milliseconds that a write took", ylabel="share of writes", xscale="log")
    times.legend()
    figure.tight_layout()
    figure.savefig(picture)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "policies.png")
