"""Commands of translation layers.

Yield one, and get its answer: ``zones = yield control.zones()``. A command whose precondition does not hold raises ``ValueError``, one for which there is no room ``OSError``;
neither changes anything. A zone is named by its number and its generation; a name is stale once the zone has been reset.
"""

from ._native import Command

#: Waits until few zones are free ("room"), the volume closes ("closing"), or so many seconds have passed ("timer").
wait = Command.wait
#: Waits for so many seconds.
sleep = Command.sleep
#: Sizes that never change: sectors, sector_bytes, zones, zone_sectors, zone_sectors_scattered, zone_blocks.
shape = Command.shape
#: Counters of the volume.
stats = Command.stats
#: All data zones: name, used ("free", "writes", "copies", "written", "copied", "dead"), live, kept (those of them that only snapshots have), blocks, age, run (a sequential run writes it), stuck.
zones = Command.zones
#: Extents of the map from a sector on, as (first sector, sector behind the last, zone), and where the next ones begin; None at the end.
extents = Command.extents
#: The ranges of sectors that live in a zone: a list of windows, each a list in the order of the volume, to be copied one after the other.
living_in = Command.living_in
#: Seconds since a caller last asked for something.
idle_for = Command.idle_for
#: Blocks that writers have left.
room = Command.room
#: Bytes that an earlier life of the layer saved.
saved = Command.saved
#: Has the next frontier that needs a zone take this free one.
feed = Command.feed
#: Opens a free zone for copies with ``taken=True``. Returns its name.
take = Command.take
#: Copies ranges of sectors to the head of the log, or to the zone that was taken: all of them, or those that lie in ``source``. Returns their number.
copy = Command.copy
#: Has a checkpoint written, with which zones become free in which nothing lives.
checkpoint = Command.checkpoint
#: Writers wait while they have no more than so many blocks left, for two seconds at most.
low_water = Command.low_water
#: Writers get half of the last zone of their room as so many sectors are copied; with 0 the copies are over, and they get more.
pace = Command.pace
#: Wants so many zones to be free: ``wait`` tells of fewer.
want_free = Command.want_free
#: Has the volume's own cleaner win a zone, if few are free.
reclaim = Command.reclaim
#: One frontier for all writes.
route_single = Command.route_single
#: One frontier for sectors in the zones opened last, another for all others.
route_heat = Command.route_heat
#: A frontier for each long sequential run, in zones that begin at the multiples of ``align`` sectors; another for all others.
route_sequential = Command.route_sequential
#: Keeps up to 64 KiB for the layer's next life. Durable with the next checkpoint.
save = Command.save
