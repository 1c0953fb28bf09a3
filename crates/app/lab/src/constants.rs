//! Assumed constants of drives: those that nobody publishes and nothing is fitted to.
//!
//! # Invariants
//! - LAB-CONST-1: a drive whose constant moves still has every published figure that calibration fits: where one depends on the
//!   constant, the fit is made again.
//! - LAB-CONST-2: a drive whose constant moves is still one that a profile may describe.

mod disk;
mod inside;

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

    /// Multiplies it, if it is assumed of that drive; returns whether it is.
    pub fn scale(self, profile: &mut Profile, by: f64) -> bool {
        disk::scale(self, profile, by) || inside::scale(self, profile, by) || self.scale_any(profile, by)
    }

    /// Constants that drives of every kind have.
    fn scale_any(self, profile: &mut Profile, by: f64) -> bool {
        let translates = profile.translation.is_some();
        match self {
            Self::Overhead => times(&mut profile.queue.overhead_us, by),
            Self::Starvation if profile.mechanics.is_some() => times(&mut profile.queue.starvation_ms, by),
            Self::Interface => times(&mut profile.queue.interface_mb_s, by),
            Self::WriteCache if profile.cache.write_cache || translates => {
                whole(&mut profile.cache.write_cache_mib, by)
            }
            Self::ReadAhead => whole(&mut profile.cache.read_ahead_mib, by),
            Self::ReadSegments => whole(&mut profile.cache.read_segments, by),
            Self::ZoneCommands if published(profile, Figure::ZoneOpen).is_none() => {
                let commands = &mut profile.zones;
                let all = [&mut commands.open_ms, &mut commands.close_ms, &mut commands.erase_ms];
                all.map(|time| times(time, by)).contains(&true)
            }
            _ => false,
        }
    }
}

/// A published figure of a drive.
fn published(profile: &Profile, figure: Figure) -> Option<&shingle_drive_model::Published> {
    profile.published.iter().find(|published| published.figure == figure)
}

/// Multiplies a measure; one of zero is of nothing that the drive has.
fn times(measure: &mut f64, by: f64) -> bool {
    *measure *= by;
    *measure > 0.0
}

/// Multiplies a number of whole things, of which one is left at least; none is none.
fn whole(number: &mut u32, by: f64) -> bool {
    if *number == 0 {
        return false;
    }
    *number = (f64::from(*number) * by).round().max(1.0) as u32;
    true
}

#[cfg(test)]
mod tests {
    use shingle_drive_model::{Command, Drive, Op};
    use shingle_sim::Random;

    use super::*;

    fn moved(name: &str, constant: Constant, by: f64) -> Option<Profile> {
        let mut profile = Profile::named(name).unwrap();
        constant.scale(&mut profile, by).then_some(profile)
    }

    /// LAB-CONST-2.
    #[test]
    fn a_constant_that_moved_still_describes_a_drive() {
        for before in Profile::built_in().unwrap() {
            for constant in Constant::all() {
                for by in [0.5, 1.5] {
                    let Some(profile) = moved(&before.name, constant, by) else { continue };
                    assert_ne!(profile, before, "{}: {constant:?}", before.name);
                    let text = shingle_skylight::emit::toml_of(&profile).unwrap();
                    let parsed = Profile::parse(&text);
                    assert!(parsed.is_ok(), "{}: {constant:?} by {by}: {parsed:?}", before.name);
                }
            }
        }
    }

    #[test]
    fn what_is_published_or_fitted_is_not_assumed() {
        for (name, constant) in [
            ("st20000nm001j", Constant::Seeks),
            ("st20000nm001j", Constant::ZoneCommands),
            ("st20000nm001j", Constant::WriteCache),
            ("st20000nm001j", Constant::Rates),
            ("ha10", Constant::InnerRate),
            ("ha10", Constant::FullSeek),
            ("zns-1tb", Constant::Settle),
            ("st5000as0011", Constant::Quiet),
            ("st5000as0011", Constant::ReadAhead),
            ("emulated-smr-1", Constant::BandSize),
            ("emulated-smr-3", Constant::SpareBands),
        ] {
            assert!(moved(name, constant, 0.5).is_none(), "{name}: {constant:?}");
        }
        for (name, constant) in [
            ("ha10", Constant::ZoneCommands),
            ("ha10", Constant::Seeks),
            ("zns-1tb", Constant::Overhead),
            ("st5000as0011", Constant::Settle),
            ("st5000as0011", Constant::Rates),
            ("st5000as0011", Constant::Scratch),
            ("wd40nmzw", Constant::BandSize),
            ("emulated-smr-3", Constant::Quiet),
            ("ssd-3840", Constant::EraseBlock),
        ] {
            assert!(moved(name, constant, 0.5).is_some(), "{name}: {constant:?}");
        }
    }

    /// LAB-CONST-1: the drive is measured, in its first 6 TB.
    #[test]
    fn where_seeks_are_fitted_the_fit_outlives_another_stroke_and_settling() {
        let mean_ms = |profile: &Profile| {
            let mut drive = Drive::new(profile, 1);
            let mut number = Random::new(3);
            let (mut now, mut done) = (0, Vec::new());
            for id in 0..8000 {
                let read = Command { op: Op::Read, at: number.below(22_352 * 65_536), blocks: 1, opens: false };
                drive.submit(now, id, read);
                while done.is_empty() {
                    now = drive.next_event().unwrap();
                    drive.advance(now, &mut done);
                }
                done.clear();
            }
            now as f64 / 8000.0 / 1e6
        };
        let before = mean_ms(&Profile::named("st20000nm001j").unwrap());
        for (constant, by) in [(Constant::Settle, 0.5), (Constant::Settle, 1.5), (Constant::FullSeek, 1.5)] {
            let after = mean_ms(&moved("st20000nm001j", constant, by).unwrap());
            assert!((after / before - 1.0).abs() < 0.02, "{constant:?} by {by}: {before} and {after} ms");
        }
    }
}
