"""TL1: a persistent cache in front of home zones. (FSTL, section IV-A, Algorithm 1.)"""

from collections import defaultdict

from shingle import control

POLL_S = 0.2
#: Zones that are to be free in any case: merges take some before a checkpoint frees those that they emptied.
WANTED_FREE_MIN = 8
#: Time that the volume's own cleaner gets to win a zone.
RECLAIM_S = 0.02


class Census:
    """Sectors in zones, by home."""

    def __init__(self, home_sectors):
        self.home_sectors = home_sectors
        self.zones = defaultdict(lambda: defaultdict(int))
        self.open = set()
        self.runs = set()

    def take(self):
        start = 0
        while start is not None:
            extents, start = yield control.extents(start)
            for lba, end, zone in extents:
                while lba < end:
                    home = lba // self.home_sectors
                    until = min(end, (home + 1) * self.home_sectors)
                    self.zones[zone][home] += until - lba
                    lba = until
        for zone in (yield control.zones()):
            if zone["used"] in ("writes", "copies"):
                self.open.add(zone["name"])
                if zone["run"]:
                    self.runs.add(zone["name"])
        self.spread = defaultdict(int)
        for homes in self.zones.values():
            for home in homes:
                self.spread[home] += 1

    def is_home(self, zone):
        """All that it holds is of one home, which has nothing elsewhere."""
        homes = self.zones[zone]
        return zone not in self.open and len(homes) == 1 and all(self.spread[home] == 1 for home in homes)

    def cache(self):
        """Zones of the cache to which nothing more is written. One whose sectors a run overwrites becomes empty by itself."""
        streamed = {home for zone in self.runs for home in self.zones[zone]}
        closed = [zone for zone in self.zones if zone not in self.open and not self.is_home(zone)]
        return [zone for zone in closed if not streamed.issuperset(self.zones[zone])]


def fifo(census, zone):
    """The oldest zone first."""
    return zone[1]


def min_valid(census, zone):
    """The zone with the fewest sectors alive first."""
    return sum(census.zones[zone].values())


def min_assoc(census, zone):
    """The zone whose sectors are of the fewest homes first."""
    return len(census.zones[zone])


def dense(census, zone):
    """The zone whose homes have the most cached sectors each, in all of the cache, first."""
    homes = census.zones[zone]
    return -sum(census.zones[other].get(home, 0) for other in census.cache() for home in homes) / len(homes)


def tl1(policy=min_assoc, cache_zones=100, idle_s=1.0, sequential=2048):
    """Returns a layer: a function that returns a generator."""

    def layer():
        shape = yield control.shape()
        home_sectors = shape["zone_sectors"]
        if sequential:
            yield control.route_sequential(sequential, home_sectors)
        homes = -(-shape["sectors"] // home_sectors)
        # The homes have their zones, whether or not they were ever merged.
        most = max(min(cache_zones, shape["zones"] - homes - WANTED_FREE_MIN), 2)
        yield control.want_free(WANTED_FREE_MIN)
        known = set()
        while (event := (yield control.wait(POLL_S))) != "closing":
            idle = idle_s is not None and (yield control.idle_for()) >= idle_s
            if event == "room" or (yield from is_due(known, most, idle)):
                census = Census(home_sectors)
                yield from census.take()
                known = {zone for zone in census.zones if census.is_home(zone)}
                if event != "room" and not (yield from is_due(known, most, idle)):
                    continue  # Some of the zones that seemed to be of the cache are homes.
                if not (yield from clean(shape, census, policy, idle_s if idle else None)):
                    yield control.sleep(POLL_S)

    return layer


def is_due(known, most, idle):
    """The cache has less than a zone left, or the volume is idle and there is something in the cache."""
    zones = yield control.zones()
    cached = [zone for zone in zones if zone["used"] in ("writes", "written") and zone["live"] > 0 and zone["name"] not in known]
    return len(cached) >= most or (idle and len(cached) > 1)


def clean(shape, census, policy, idle_s):
    """Merges the homes that have sectors in a zone of the cache. False if there is none, or no room."""
    cache = census.cache()
    if not cache:
        return False
    victim = min(cache, key=lambda zone: (policy(census, zone), zone[1]))
    homes = sorted(census.zones[victim])
    room = min((yield control.room()), shape["zone_blocks"])
    try:
        for done, home in enumerate(homes):
            if idle_s is None:
                # Writers get the last zone of their room bit by bit: by the time it is used up, there is more.
                yield control.low_water(room - room * (done + 1) // len(homes))
            elif (yield control.idle_for()) < idle_s:
                return True
            yield from merge(shape, census.home_sectors, home)
        yield control.checkpoint()
        yield control.low_water(0)
    except OSError:
        return False
    return True


def merge(shape, home_sectors, home):
    """Copies all sectors of a home to one zone."""
    try:
        yield control.take()
    except OSError:
        # Zones that merges have emptied become free with a checkpoint; else the volume has to win one.
        yield control.checkpoint()
        yield control.reclaim()
        yield control.sleep(RECLAIM_S)
        yield control.take()
    start = home * home_sectors
    yield control.copy([(start, min(start + home_sectors, shape["sectors"]))], taken=True)
