//! Names of assumed constants, and the ways to multiply them.

use shingle_drive_model::{Figure, Profile};

/// A constant that is assumed of some drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Constant {
    /// Seek to the next track.
    Settle,
    /// Seek over the whole stroke, where the mean is fitted.
    FullSeek,
    /// All seeks, where nothing of them is published.
    Seeks,
    /// Additional settling before a write.
    WriteSettle,
    /// Change of surface.
    HeadSwitch,
    /// Surfaces.
    Heads,
    /// Rate at the inner diameter, where no mean rate is published.
    InnerRate,
    /// Rates at all diameters, where none is published.
    Rates,
    /// Recording zones.
    Bands,
    /// Data on one surface before the next.
    RunLength,
    /// Shift of tracks.
    Skew,
    /// From a command's arrival to its work.
    Overhead,
    /// Longest time a command may be passed over.
    Starvation,
    /// Rate between host and drive.
    Interface,
    /// Data that a drive with a write cache holds, or one that translates, whose cache can be turned on.
    WriteCache,
    /// Read-ahead.
    ReadAhead,
    /// Ranges that are kept after reads.
    ReadSegments,
    /// Open, close and reset of a zone, where they are not published; of an SSD, erasure of a block.
    ZoneCommands,
    /// Room of a media cache's ring.
    Ring,
    /// Part of a turn behind an entry of it.
    Gap,
    /// Time in which writes gather for an entry.
    Gathering,
    /// The most data in one.
    Entry,
    /// Room for the map of a media cache.
    MapRoom,
    /// Scratch room for a band, as far as a band fits into it.
    Scratch,
    /// Time that a write waits in a volatile cache for others that follow it.
    Hold,
    /// Quiet time before a drive cleans, where it is not published.
    Quiet,
    /// Size of a band, where it is not published.
    BandSize,
    /// Size of a drive's own zones.
    InnerZones,
    /// Spare bands.
    SpareBands,
    /// Share of the time that cleaning takes beside the host's work.
    Mixing,
    /// Flash that works side by side.
    Dies,
    /// Consecutive data in one die.
    Stripe,
    /// Time to sense a page.
    FlashSense,
    /// A die's rates.
    FlashRates,
    /// Time to take a write into a buffer of flash.
    FlashTake,
    /// Room of that buffer.
    FlashBuffer,
    /// Size of an erase block of an SSD.
    EraseBlock,
    /// Rows that an SSD makes free while it is quiet.
    IdleFree,
}

impl Constant {
    /// All of them, and their names: those of their fields in a profile, if they are one.
    const NAMED: [(Self, &'static str); 38] = [
        (Self::Settle, "settle_ms"),
        (Self::FullSeek, "full_seek_ms"),
        (Self::Seeks, "all seeks"),
        (Self::WriteSettle, "write_settle_ms"),
        (Self::HeadSwitch, "head_switch_ms"),
        (Self::Heads, "heads"),
        (Self::InnerRate, "inner_mb_s"),
        (Self::Rates, "all rates"),
        (Self::Bands, "bands"),
        (Self::RunLength, "run_mib"),
        (Self::Skew, "skew_ms"),
        (Self::Overhead, "overhead_us"),
        (Self::Starvation, "starvation_ms"),
        (Self::Interface, "interface_mb_s"),
        (Self::WriteCache, "write_cache_mib"),
        (Self::ReadAhead, "read_ahead_mib"),
        (Self::ReadSegments, "read_segments"),
        (Self::ZoneCommands, "zone commands"),
        (Self::Ring, "ring_gib"),
        (Self::Gap, "gap_ms"),
        (Self::Gathering, "gather_ms"),
        (Self::Entry, "entry_max_kib"),
        (Self::MapRoom, "map_mib"),
        (Self::Scratch, "scratch_mib"),
        (Self::Hold, "hold_ms"),
        (Self::Quiet, "idle_ms"),
        (Self::BandSize, "band_mib"),
        (Self::InnerZones, "zone_gib"),
        (Self::SpareBands, "spare"),
        (Self::Mixing, "mix_share"),
        (Self::Dies, "dies"),
        (Self::Stripe, "stripe_kib"),
        (Self::FlashSense, "read_us"),
        (Self::FlashRates, "rates of dies"),
        (Self::FlashTake, "write_us"),
        (Self::FlashBuffer, "buffer_mib"),
        (Self::EraseBlock, "erase_block_kib"),
        (Self::IdleFree, "idle_free"),
    ];

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMED.into_iter().map(|named| named.0)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|named| named.0 == self).map_or("", |named| named.1)
    }
}

/// A published figure of a drive.
pub(super) fn published(profile: &Profile, figure: Figure) -> Option<&shingle_drive_model::Published> {
    profile.published.iter().find(|published| published.figure == figure)
}

/// Multiplies a measure; one of zero is of nothing that the drive has.
pub(super) fn times(measure: &mut f64, by: f64) -> bool {
    *measure *= by;
    *measure > 0.0
}

/// Multiplies a number of whole things, of which one is left at least; none is none.
pub(super) fn whole(number: &mut u32, by: f64) -> bool {
    if *number == 0 {
        return false;
    }
    *number = (f64::from(*number) * by).round().max(1.0) as u32;
    true
}
