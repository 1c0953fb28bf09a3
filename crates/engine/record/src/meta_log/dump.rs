//! The log as it lies in its zones, needed or not, for people.

use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_zoned::ZonedDevice;

use crate::meta_log::error::MetaLogError;
use crate::meta_log::format::{END, JOURNAL, LINK, PART, START, parse_journal};
use crate::meta_log::opening::{Entry, MetaLogConfig};
use crate::meta_log::reader::Generation;
use crate::meta_log::recover::{find_generations, read_zone};

/// One record of the log, or a place where one should be, for dumps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Its zone.
    pub zone: ZoneId,
    /// Its first block in the zone.
    pub block: u32,
    /// Its position in the log; zero where that is not known.
    pub position: u64,
    /// Name of the record's type.
    pub kind: &'static str,
    /// Bytes of payload.
    pub length: u32,
    /// The journal entries, if it holds any.
    pub entries: Vec<Entry>,
}

/// All records in the log's zones, by generation of the zone and block, with the places that cannot be read.
///
/// # Errors
/// The device's.
pub async fn dump(dev: &Rc<dyn ZonedDevice>, config: &MetaLogConfig) -> Result<Vec<LogRecord>, MetaLogError> {
    let mut generations = find_generations(dev, config, &mut 0).await?;
    generations.sort_by_key(|found| match found.generation {
        Generation::Known { epoch, .. } => epoch,
        _ => 0,
    });
    let place = |zone, block, kind| LogRecord { zone, block, position: 0, kind, length: 0, entries: Vec::new() };
    let mut all = Vec::new();
    for found in &generations {
        let zone = found.info.zone;
        if found.generation == Generation::Unknown {
            all.push(place(zone, 0, "unreadable zone"));
        }
        let Generation::Known { epoch, .. } = found.generation else { continue };
        let read = read_zone(dev, config, &found.info, epoch).await?;
        all.extend(read.lost.iter().map(|&block| place(zone, block, "lost")));
        all.extend(read.mended.iter().map(|&(block, _)| place(zone, block, "bad block, made up for")));
        for record in read.records {
            let kind = match record.header.kind {
                JOURNAL => "journal",
                START => "checkpoint start",
                PART => "checkpoint part",
                END => "checkpoint end",
                LINK => "link",
                _ => continue,
            };
            let journal = record.header.kind == JOURNAL;
            let entries = if journal { parse_journal(&record.payload).unwrap_or_default() } else { Vec::new() };
            let (block, position) = (record.header.place.block, record.info.position);
            all.push(LogRecord { zone, block, position, kind, length: record.header.length, entries });
        }
    }
    Ok(all)
}
