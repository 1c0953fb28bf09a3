//! Figures of blue stores.

use shingle_base::Blocks;
use shingle_blue_objects::BlueFigures;

use super::text::Text;
use crate::reports::answers::{Answers, Figures};

/// A figure: its name, help text and source.
type Figure = (&'static str, &'static str, fn(&BlueFigures) -> u64);

const GAUGES: [Figure; 13] = [
    ("capacity_bytes", "Bytes that the zones of data hold.", |f| f.store.capacity_bytes),
    ("live_bytes", "Bytes of live data, in whole blocks.", |f| f.store.live_bytes),
    ("stale_bytes", "Bytes in zones that are needed no more, and that cleaning wins back.", |f| f.store.stale_bytes),
    ("room_bytes", "Bytes that can be written without cleaning.", |f| f.store.room_bytes),
    ("deferred_bytes", "Bytes of small writes that are in the metadata still.", |f| f.store.deferred_bytes),
    ("metadata_room_bytes", "Bytes of metadata that there is room for.", |f| f.store.metadata_room_bytes),
    ("objects", "Objects in buckets, as far as they have been counted since the start.", |f| f.objects),
    ("object_bytes", "Their bytes.", |f| f.object_bytes),
    ("purging", "Deleted objects and parts whose bytes are being removed.", |f| f.purging),
    ("zones", "Zones of data.", |f| f.store.zones.into()),
    ("zones_free", "Of them, those that are free.", |f| f.store.zones_free.into()),
    ("zones_broken", "Of them, those that take no more writes.", |f| f.store.zones_broken.into()),
    ("cache_bytes", "Memory of the caches of data and metadata.", |f| f.store.cache_bytes),
];

const COUNTERS: [Figure; 13] = [
    ("transactions_total", "Transactions that became durable.", |f| f.store.counters.transactions),
    ("written_bytes_total", "Bytes that they wrote.", |f| f.store.counters.bytes_written),
    ("deferred_bytes_total", "Of them, bytes that went to the metadata first.", |f| f.store.counters.bytes_deferred),
    ("read_bytes_total", "Bytes returned by reads.", |f| f.store.counters.bytes_read),
    ("zone_writes_total", "Commands that wrote data.", |f| f.store.counters.writes),
    ("zone_written_bytes_total", "Bytes that they wrote, copies included.", |f| {
        Blocks(f.store.counters.blocks_written).bytes()
    }),
    ("zone_copied_bytes_total", "Of them, bytes that cleaning copied.", |f| {
        Blocks(f.store.counters.blocks_copied).bytes()
    }),
    ("metadata_bytes_total", "Bytes of metadata written.", |f| f.store.counters.metadata_bytes),
    ("cleaned_zones_total", "Zones that cleaning emptied.", |f| f.store.counters.cleaned),
    ("freed_zones_total", "Zones that became free.", |f| f.store.counters.freed),
    ("cache_hits_total", "Uses of the cache of data that found their bytes.", |f| f.store.data_hits),
    ("cache_misses_total", "Uses of the cache of data that did not.", |f| f.store.data_misses),
    ("object_cache_misses_total", "Objects that had to be read from the metadata.", |f| f.store.object_misses),
];

pub(super) fn render(text: &mut Text, answers: &Answers) {
    let of = |figures: &Option<Figures>| match figures {
        Some(Figures::Blue(figures)) => Some((**figures).clone()),
        _ => None,
    };
    let known: Vec<_> = answers
        .0
        .iter()
        .filter_map(|answer| Some((format!("blue=\"{}\"", answer.name), of(&answer.figures)?)))
        .collect();
    if known.is_empty() {
        return;
    }
    for (kind, figures) in [("gauge", &GAUGES[..]), ("counter", &COUNTERS[..])] {
        for (name, help, figure) in figures {
            let name = format!("shingle_blue_{name}");
            text.family(&name, kind, help);
            known.iter().for_each(|(labels, figures)| text.sample(&name, labels, figure(figures)));
        }
    }
}
