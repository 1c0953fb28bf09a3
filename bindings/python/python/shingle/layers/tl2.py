"""TL2: a log of all sectors, whose zones are emptied to its head. (FSTL, section IV-B, Algorithm 2.)"""

from shingle import control

POLL_S = 0.2


def fifo(zone, full):
    """The oldest zone first."""
    return zone["name"][1]


def greedy(zone, full):
    """The zone with the fewest sectors alive first."""
    return zone["live"]


def cost_benefit(zone, full):
    """The zone with the best ratio of space to be won, weighted by age, to sectors to be copied, first. (LFS, section 3.)"""
    return -((full - zone["live"]) * (zone["age"] + 1)) / (full + zone["live"])


def tl2(policy=cost_benefit, young=None):
    """Returns a layer: a function that returns a generator."""

    def layer():
        shape = yield control.shape()
        if young is not None:
            yield control.route_heat(young)
        while True:
            event = yield control.wait(POLL_S)
            if event == "closing":
                return
            if event == "room" and not (yield from clean(shape, policy)):
                yield control.sleep(POLL_S)

    return layer


def clean(shape, policy):
    """Empties a zone. False if there is none."""
    full = shape["zone_sectors_scattered"]
    zones = yield control.zones()
    candidates = [
        zone for zone in zones if zone["used"] in ("written", "copied") and 0 < zone["live"] < full and not zone["stuck"]
    ]
    if not candidates:
        return False
    victim = min(candidates, key=lambda zone: (policy(zone, full), zone["name"]))
    try:
        yield from move_zone(victim["name"])
    except OSError:
        # Zones that were emptied become free with a checkpoint.
        yield control.checkpoint()
        return False
    return True


def move_zone(victim):
    """Copies all that lives in a zone to the head of the log, at the pace that writers can bear."""
    windows = yield control.living_in(victim)
    # Writers get the last zone of their room bit by bit: by the time it is used up, there is more.
    yield control.pace(max(1, sum(end - start for window in windows for start, end in window)))
    try:
        for window in windows:
            yield control.copy(window, source=victim)
    except OSError:
        yield control.pace(0)
        raise
    yield control.pace(0)
