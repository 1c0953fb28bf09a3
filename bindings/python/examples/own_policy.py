# %% [markdown]
# # A translation layer of one's own, beside TL1 and TL2
#
# A notebook of cells (open it in Jupyter by jupytext, in VS Code or Spyder), and a program: `python own_policy.py policies.png [TRACE]`.
# All of it runs in virtual time, on a modelled disk of 25 zones, which the volume nearly fills. The same cells give the same figures on any machine.

# %%
import random
import sys

import matplotlib.pyplot as plot
import shingle
from shingle import control
from shingle.layers import tl1, tl2

SIZE = 12 * 250 << 20
# In a notebook, set these by hand.
arguments = [] if "get_ipython" in globals() else sys.argv[1:]
PICTURE = arguments[0] if arguments else "policies.png"
TRACE = arguments[1] if len(arguments) > 1 else None

# %% [markdown]
# ## The layer
#
# It is a generator: it yields commands, and gets their answers. This one empties the zone whose sectors were written longest ago, as long as that wins
# half a zone; else the emptiest one.


# %%
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


# %% [markdown]
# ## The load
#
# Nine of ten writes go to a tenth of the volume. With a trace (`shingle volume export --record`, or `shingle.Export(..., record=...)`) it is that, so often over
# that the drive fills.


# %%
def skewed(count=40_000, length=256 << 10):
    draw = random.Random(1)
    blocks = SIZE // length
    return [("w", draw.randrange(blocks // 10 if draw.random() < 0.9 else blocks) * length, length) for _ in range(count)]


def recorded(file, written=4 * SIZE):
    once = [(kind, at, length) for kind, at, length in shingle.traces.read(file) if at + length <= SIZE]
    each = sum(length for kind, _, length in once if kind == "w")
    return once * max(1, written // each)


load = recorded(TRACE) if TRACE else skewed()

# %% [markdown]
# ## The runs

# %%
layers = {"TL1": tl1(), "TL2": tl2(), "TL2, hot and cold": tl2(young=4), "patient": patient}
runs = {name: shingle.simulate(layer, load, zones=25, size=SIZE, depth=4) for name, layer in layers.items()}
for name, run in runs.items():
    print(f"{name:18} {run['seconds']:8.1f} s, write amplification {run['write_amplification']:.2f}")

# %% [markdown]
# ## The plot
#
# Left: how fast the load is done. Right: how long a request takes.

# %%
figure, (course, waits) = plot.subplots(1, 2, figsize=(11, 4))
for name, run in runs.items():
    share = [(at + 1) / len(run["took"]) for at in range(len(run["took"]))]
    course.plot(run["ended"], [part * 100 for part in share], label=name)
    waits.plot([took * 1e3 for took in sorted(run["took"])], share, label=name)
course.set(xlabel="seconds", ylabel="requests done (%)")
waits.set(xlabel="milliseconds that a request took", ylabel="share of requests", xscale="log")
course.legend()
figure.tight_layout()
figure.savefig(PICTURE)
