"""TL1: a persistent cache in front of home zones. (FSTL, section IV-A, Algorithm 1.)"""

from collections import defaultdict

from shingle import control
from shingle.layers.tl2 import move_zone

POLL_S = 0.2
#: Zones that are to be free in any case: merges take some before a checkpoint frees those that they emptied.
WANTED_FREE_MIN = 8
#: Time that the volume's own cleaner gets to win a zone.
RECLAIM_S = 0.02


class Census:
    """Sectors in zones, by home.

    The base of a home is the zone that holds most of its sectors, of those that hold no others. All other zones are of the cache.
    """

    def __init__(self, home_sectors):
        self.home_sectors = home_sectors
        self.zones = defaultdict(lambda: defaultdict(int))
        self.sizes = defaultdict(int)
        self.cached = defaultdict(int)

    def take(self):
        start = 0
        while start is not None:
            extents, start = yield control.extents(start)
            for lba, end, zone in extents:
                while lba < end:
                    home = lba // self.home_sectors
                    until = min(end, (home + 1) * self.home_sectors)
                    self.zones[zone][home] += until - lba
                    self.sizes[home] += until - lba
                    lba = until
        views = {zone["name"]: zone for zone in (yield control.zones()) if zone["name"] in self.zones}
        self.open = {name for name, zone in views.items() if zone["used"] in ("writes", "copies")}
        self.bases = {}
        for zone in sorted(self.zones):
            homes = self.zones[zone]
            home = min(homes)
            if zone not in self.open and len(homes) == 1 and homes[home] > self.zones.get(self.bases.get(home), {}).get(home, 0):
                self.bases[home] = zone
        for home, size in self.sizes.items():
            self.cached[home] = size - (self.zones[self.bases[home]][home] if home in self.bases else 0)
        streams = [name for name, zone in views.items() if zone["run"] and name in self.open]
        streamed = {home for name in streams for home in self.zones[name]}
        # A zone whose sectors a run overwrites becomes empty by itself; one that cannot be read, never.
        kept = self.open | set(self.bases.values()) | {name for name, zone in views.items() if zone["stuck"]}
        self.cache = [zone for zone in sorted(views) if zone not in kept and not streamed.issuperset(self.zones[zone])]


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
    return -sum(census.cached[home] for home in homes) / len(homes)


def of_zone(rank):
    """Merges of all homes that have sectors in the zone of the lowest rank."""

    def choose(census, idle):
        victim = min(census.cache, key=lambda zone: (rank(census, zone), zone[1]), default=None)
        return victim and (None, sorted(census.zones[victim]))

    return choose


def cheapest(census, idle):
    """The work that copies the fewest sectors for each one of room: a move of what lives in a zone, or the merge of a home."""
    full, works = census.home_sectors, []
    for zone in census.cache:
        live = sum(census.zones[zone].values())
        if live < full and not idle:
            works.append((live / (full - live), (zone, [])))
        works += [(census.sizes[home] / census.cached[home], (None, [home])) for home in census.zones[zone]]
    return min(works, key=lambda work: work[0])[1] if works else None


def tl1(choose=cheapest, cache_zones=100, idle_s=1.0, sequential=2048):
    """Returns a layer: a function that returns a generator. `choose` is `cheapest`, or `of_zone(fifo)` and its like."""

    def layer():
        shape = yield control.shape()
        home_sectors = shape["zone_sectors"]
        if sequential:
            yield control.route_sequential(sequential, home_sectors)
        homes = -(-shape["sectors"] // home_sectors)
        # The homes have their zones, whether or not they were ever merged.
        most = max(min(cache_zones, shape["zones"] - homes - WANTED_FREE_MIN), 2) * shape["zone_blocks"]
        yield control.want_free(WANTED_FREE_MIN)
        bases = set()
        while (event := (yield control.wait(POLL_S))) != "closing":
            idle = idle_s is not None and (yield control.idle_for()) >= idle_s
            if event == "room" or (yield from is_due(bases, most, idle)):
                census = Census(home_sectors)
                yield from census.take()
                bases = set(census.bases.values())
                if event != "room" and not (yield from is_due(bases, most, idle)):
                    continue  # Some of the zones that seemed to be of the cache are bases.
                if not (yield from clean(shape, bases, census, choose(census, idle), idle_s if idle else None)):
                    yield control.sleep(POLL_S)

    return layer


def is_due(bases, most, idle):
    """The cache is full by its written blocks, or the volume is idle and a zone of the cache is written to no more."""
    zones = yield control.zones()
    cached = [zone for zone in zones if zone["live"] > zone["kept"] and not zone["stuck"] and zone["name"] not in bases]
    closed = any(zone["used"] in ("written", "copied") for zone in cached)
    return sum(zone["blocks"] for zone in cached) >= most or (idle and closed)


def clean(shape, bases, census, work, idle_s):
    """Moves what lives in a zone, or merges homes. False if there is nothing to do, or no room."""
    if work is None:
        yield control.reclaim()  # Zones that only snapshots need are left to the volume's own cleaner.
        return False
    zone, homes = work
    try:
        if zone:
            yield from move_zone(zone)
        if homes and idle_s is None:
            yield control.pace(sum(census.sizes[home] for home in homes))
        for home in homes:
            if idle_s is not None and (yield control.idle_for()) < idle_s:
                return True
            bases.add((yield from merge(shape, census.home_sectors, home)))
        yield control.checkpoint()
        yield control.pace(0)
    except OSError:
        yield control.pace(0)
        return False
    return True


def merge(shape, home_sectors, home):
    """Copies all sectors of a home to one zone."""
    try:
        base = yield control.take()
    except OSError:
        # Zones that merges have emptied become free with a checkpoint; else the volume has to win one.
        yield control.checkpoint()
        yield control.reclaim()
        yield control.sleep(RECLAIM_S)
        base = yield control.take()
    start = home * home_sectors
    yield control.copy([(start, min(start + home_sectors, shape["sectors"]))], taken=True)
    return base
