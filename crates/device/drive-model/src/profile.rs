//! Profiles: the constants of one kind of drive, as TOML.
//!
//! The built-in ones are in `profiles/`; a user writes more in the same form (`docs/drive-profiles.md`).

mod jitter;
pub(crate) mod translation;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use jitter::Jitter;
pub use translation::{CachePlace, FullyAssociative, MediaCache, PageMapped, SetAssociative, Translation};

use crate::seek::SeekCurve;

/// Kind of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A conventional disk: any block can be overwritten.
    Cmr,
    /// A host-managed shingled disk.
    HmSmr,
    /// A drive-managed shingled disk: any block can be overwritten, and the drive translates inside.
    DmSmr,
    /// A zoned flash drive.
    Zns,
    /// A conventional flash drive: any block can be overwritten, and the drive translates inside.
    Ssd,
}

impl Kind {
    /// True if the host sees zones that it has to write in order.
    pub fn is_zoned(self) -> bool {
        matches!(self, Self::HmSmr | Self::Zns)
    }
}

/// The constants of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name in commands: lower case, no spaces.
    pub name: String,
    /// Maker and model.
    pub model: String,
    /// Source of the constants.
    pub source: String,
    /// Kind of the drive.
    pub kind: Kind,
    /// Zones.
    pub shape: Shape,
    /// Arm and spindle, for disks.
    pub mechanics: Option<Mechanics>,
    /// Tracks, for disks.
    pub recording: Option<Recording>,
    /// Dies, for flash.
    pub flash: Option<Flash>,
    /// The mapping layer, for drives that translate inside.
    pub translation: Option<Translation>,
    /// The command queue.
    pub queue: Queue,
    /// Caches.
    pub cache: Cache,
    /// Costs of zone commands.
    pub zones: Zones,
    /// Deviations from the nominal times; none if it is left out.
    pub jitter: Option<Jitter>,
    /// Published figures of the drive, for calibration.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// The zones of a drive. A conventional disk is divided in the same way, only for addressing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Zone size in MiB.
    pub zone_mib: u32,
    /// Writable size of a zone in MiB, if less than its size.
    pub zone_capacity_mib: Option<u32>,
    /// Number of zones.
    pub zones: u32,
    /// Number of conventional zones, the first of the drive.
    pub conventional_zones: u32,
    /// The most zones open at once.
    pub open_zones_max: Option<u32>,
    /// The most zones open or closed at once.
    pub active_zones_max: Option<u32>,
}

/// Arm and spindle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mechanics {
    /// Revolutions a minute.
    pub rpm: u32,
    /// Recording surfaces.
    pub heads: u32,
    /// Seek to a neighbouring track, in milliseconds, settling included.
    pub settle_ms: f64,
    /// Mean seek over random pairs of places.
    pub average_seek_ms: f64,
    /// Seek from the outermost to the innermost track.
    pub full_seek_ms: f64,
    /// Additional settling before a write, in milliseconds.
    pub write_settle_ms: f64,
    /// Switch to another surface at the same cylinder.
    pub head_switch_ms: f64,
}

/// Tracks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// Sequential rate at the outer diameter, in MB/s, track switches included.
    pub outer_mb_s: f64,
    /// The same at the inner diameter.
    pub inner_mb_s: f64,
    /// Recording zones from the outer to the inner diameter.
    pub bands: u32,
    /// Adjacent tracks of one surface that are filled before the next surface, in MiB.
    pub run_mib: u32,
    /// Delay of each track's start against the one before, in milliseconds: covers the track switch.
    pub skew_ms: f64,
    /// Extra revolutions for each track written, on drives that read back their writes.
    #[serde(default)]
    pub verify_revolutions: f64,
}

/// The dies of a flash drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Units that work side by side.
    pub dies: u32,
    /// Consecutive KiB that lie in one die.
    pub stripe_kib: u32,
    /// Time to sense a page.
    pub read_us: f64,
    /// A die's transfer rate, in MB/s.
    pub die_read_mb_s: f64,
    /// A die's programming rate, in MB/s.
    pub die_write_mb_s: f64,
    /// Time to take a write into the drive's buffer.
    pub write_us: f64,
    /// Size of that buffer in MiB.
    pub buffer_mib: u32,
}

/// The command queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Commands the drive holds; more wait in the host.
    pub depth: u32,
    /// From a command's arrival to the start of its work.
    pub overhead_us: f64,
    /// Longest time a command may be passed over for ones nearer to the head.
    pub starvation_ms: f64,
    /// Rate between host and drive, in MB/s.
    pub interface_mb_s: f64,
}

/// Caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// A write completes before it is on the medium.
    pub write_cache: bool,
    /// Without a write cache: a write that goes on where the last one ended waits for no turn, since the drive takes it into a buffer
    /// that outlives a loss of power while it still writes the last one. Otherwise it loses a turn unless it was queued before.
    #[serde(default)]
    pub streams_writes: bool,
    /// Dirty MiB it holds at most.
    pub write_cache_mib: u32,
    /// MiB read ahead after a read.
    pub read_ahead_mib: u32,
    /// Recently read ranges that are kept.
    pub read_segments: u32,
}

/// Costs of zone commands, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zones {
    /// Open, explicit or by a first write.
    pub open_ms: f64,
    /// Close or finish.
    pub close_ms: f64,
    /// Reset.
    pub erase_ms: f64,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The measured figure.
    pub figure: Figure,
    /// Its value, in the figure's unit.
    pub value: f64,
    /// It was measured over so many zones, the first of the drive; over all if it is left out.
    pub zones: Option<u32>,
    /// Place of publication.
    pub source: String,
}

/// Figures that calibration measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Random reads of 4 KiB, one at a time: a second.
    RandomReadIops,
    /// Sequential writes of 512 KiB, 32 outstanding, at the outer diameter: MB/s.
    SequentialWriteOuter,
    /// The same for reads.
    SequentialReadOuter,
    /// Sequential writes over the whole drive: MB/s, all bytes over all time.
    SequentialWriteMean,
    /// The same for reads.
    SequentialReadMean,
    /// Open of an empty zone: milliseconds.
    ZoneOpen,
    /// Close of an open zone: milliseconds.
    ZoneClose,
    /// Reset of a written zone: milliseconds.
    ZoneErase,
}

impl Figure {
    /// Name and unit.
    pub fn label(self) -> (&'static str, &'static str) {
        match self {
            Self::RandomReadIops => ("4 KiB random read, QD 1", "1/s"),
            Self::SequentialWriteOuter => ("512 KiB sequential write, QD 32, outer", "MB/s"),
            Self::SequentialReadOuter => ("512 KiB sequential read, QD 32, outer", "MB/s"),
            Self::SequentialWriteMean => ("sequential write, mean over the drive", "MB/s"),
            Self::SequentialReadMean => ("sequential read, mean over the drive", "MB/s"),
            Self::ZoneOpen => ("zone open", "ms"),
            Self::ZoneClose => ("zone close", "ms"),
            Self::ZoneErase => ("zone erase", "ms"),
        }
    }
}

/// Reason why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError(pub String);

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProfileError {}

/// The built-in profiles.
const BUILT_IN: [&str; 14] = [
    include_str!("../profiles/st20000nm001j.toml"),
    include_str!("../profiles/st16000nm001g.toml"),
    include_str!("../profiles/ha10.toml"),
    include_str!("../profiles/hc650.toml"),
    include_str!("../profiles/hsh721414al.toml"),
    include_str!("../profiles/zns-1tb.toml"),
    include_str!("../profiles/st5000as0011.toml"),
    include_str!("../profiles/st8000as0002.toml"),
    include_str!("../profiles/st4000nc001.toml"),
    include_str!("../profiles/emulated-smr-1.toml"),
    include_str!("../profiles/emulated-smr-2.toml"),
    include_str!("../profiles/emulated-smr-3.toml"),
    include_str!("../profiles/wd40nmzw.toml"),
    include_str!("../profiles/ssd-3840.toml"),
];

impl Profile {
    /// Reads a profile from TOML and checks it.
    ///
    /// # Errors
    /// The line or field that is wrong, and why.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text).map_err(|error| ProfileError(error.to_string()))?;
        profile.check()?;
        Ok(profile)
    }

    /// The built-in profiles.
    ///
    /// # Errors
    /// As [`Profile::parse`]; none, as a test sees to.
    pub fn built_in() -> Result<Vec<Self>, ProfileError> {
        BUILT_IN.iter().map(|text| Self::parse(text)).collect()
    }

    /// The built-in profile of that name.
    ///
    /// # Errors
    /// There is none; the message lists those there are.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        let all = Self::built_in()?;
        let names = all.iter().map(|profile| profile.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = all.iter().find(|profile| profile.name == name).cloned();
        found.ok_or_else(|| ProfileError(format!("there is no drive profile `{name}`; there are {names}")))
    }

    fn check(&self) -> Result<(), ProfileError> {
        let wrong = |text: String| Err(ProfileError(format!("profile `{}`: {text}", self.name)));
        let shape = &self.shape;
        if shape.zones == 0 || shape.zone_mib == 0 || shape.zone_mib > 1 << 16 {
            return wrong("a drive has at least one zone, of 1 MiB to 64 GiB".to_owned());
        }
        if shape.zone_capacity_mib.is_some_and(|capacity| capacity == 0 || capacity > shape.zone_mib) {
            return wrong("zone_capacity_mib must be 1 to zone_mib".to_owned());
        }
        if shape.conventional_zones > shape.zones {
            return wrong("there are more conventional zones than zones".to_owned());
        }
        if !(1..=1024).contains(&self.queue.depth) {
            return wrong("the queue's depth must be 1 to 1024".to_owned());
        }
        for (name, value) in self.numbers() {
            if !(value.is_finite() && (0.0..=1e9).contains(&value)) {
                return wrong(format!("{name} = {value} is no measure of a drive"));
            }
        }
        self.jitter.map_or(Ok(()), |jitter| jitter.check()).or_else(wrong)?;
        match (self.kind, &self.mechanics, &self.recording, &self.flash) {
            (Kind::Zns | Kind::Ssd, None, None, Some(flash)) => {
                let rates = flash.die_read_mb_s.min(flash.die_write_mb_s);
                if flash.dies == 0 || flash.stripe_kib < 4 || rates <= 0.0 || flash.buffer_mib == 0 {
                    return wrong("[flash] needs dies, a stripe of 4 KiB or more, rates and a buffer".to_owned());
                }
            }
            (Kind::Cmr | Kind::HmSmr, Some(mechanics), Some(recording), None) => {
                check_disk(mechanics, recording).or_else(wrong)?;
            }
            (Kind::DmSmr, Some(mechanics), Some(recording), _) => {
                check_disk(mechanics, recording).or_else(wrong)?;
            }
            (Kind::Zns | Kind::Ssd, ..) => {
                return wrong("a zns drive or ssd has [flash], and no [mechanics] or [recording]".to_owned());
            }
            _ => return wrong("a disk has [mechanics] and [recording], and no [flash]".to_owned()),
        }
        if self.queue.interface_mb_s <= 0.0 {
            return wrong("interface_mb_s must be above zero".to_owned());
        }
        match (self.kind, &self.translation) {
            (Kind::DmSmr, Some(translation)) => {
                let volatile = self.cache.write_cache.then_some(self.cache.write_cache_mib);
                translation.check(self.flash.is_some(), volatile).or_else(wrong)
            }
            (Kind::Ssd, Some(Translation::PageMapped(layer))) => {
                let pages = u64::from(shape.zones) * u64::from(shape.zone_mib) * 256;
                self.flash.map_or(Ok(()), |flash| layer.check(pages, flash.dies, flash.stripe_kib)).or_else(wrong)
            }
            (Kind::Ssd, _) => wrong("an ssd has a [translation] of the layer `page-mapped`".to_owned()),
            (Kind::DmSmr, None) => wrong("a dm-smr drive has a [translation]".to_owned()),
            (_, Some(_)) => wrong("only dm-smr drives and ssds have a [translation]".to_owned()),
            (_, None) => Ok(()),
        }
    }

    /// All numbers that may not be negative or absurd, by name.
    fn numbers(&self) -> Vec<(&'static str, f64)> {
        let mut numbers = vec![
            ("overhead_us", self.queue.overhead_us),
            ("starvation_ms", self.queue.starvation_ms),
            ("interface_mb_s", self.queue.interface_mb_s),
            ("open_ms", self.zones.open_ms),
            ("close_ms", self.zones.close_ms),
            ("erase_ms", self.zones.erase_ms),
        ];
        if let Some(mechanics) = &self.mechanics {
            numbers.extend([
                ("settle_ms", mechanics.settle_ms),
                ("average_seek_ms", mechanics.average_seek_ms),
                ("full_seek_ms", mechanics.full_seek_ms),
                ("write_settle_ms", mechanics.write_settle_ms),
                ("head_switch_ms", mechanics.head_switch_ms),
            ]);
        }
        if let Some(recording) = &self.recording {
            numbers.extend([
                ("outer_mb_s", recording.outer_mb_s),
                ("inner_mb_s", recording.inner_mb_s),
                ("skew_ms", recording.skew_ms),
                ("verify_revolutions", recording.verify_revolutions),
            ]);
        }
        if let Some(flash) = &self.flash {
            numbers.extend([
                ("read_us", flash.read_us),
                ("die_read_mb_s", flash.die_read_mb_s),
                ("die_write_mb_s", flash.die_write_mb_s),
                ("write_us", flash.write_us),
            ]);
        }
        numbers
    }
}

fn check_disk(mechanics: &Mechanics, recording: &Recording) -> Result<(), String> {
    if !(100..=100_000).contains(&mechanics.rpm) || !(1..=64).contains(&mechanics.heads) {
        return Err("rpm must be 100 to 100000, heads 1 to 64".to_owned());
    }
    let curve = SeekCurve::new(mechanics.settle_ms, mechanics.average_seek_ms, mechanics.full_seek_ms);
    if !curve.is_sound() {
        return Err("no seek curve has these settle, average and full times".to_owned());
    }
    let rates = recording.outer_mb_s.min(recording.inner_mb_s);
    if rates < 1.0 || recording.inner_mb_s > recording.outer_mb_s {
        return Err("the outer rate must be at least the inner one, and that 1 MB/s".to_owned());
    }
    if !(1..=1000).contains(&recording.bands) || recording.run_mib == 0 {
        return Err("bands must be 1 to 1000, run_mib at least 1".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_profile_is_sound_and_found_by_its_name() {
        for profile in Profile::built_in().unwrap() {
            assert_eq!(Profile::named(&profile.name).unwrap(), profile);
        }
        let missing = Profile::named("floppy").unwrap_err();
        assert!(missing.0.contains("st20000nm001j"), "{missing}");
    }

    #[test]
    fn a_profile_that_describes_no_drive_is_refused_with_the_reason() {
        let good = include_str!("../profiles/st20000nm001j.toml");
        for (from, to, expected) in [
            ("settle_ms =", "settle_ms = -1.0 #", "settle_ms"),
            ("average_seek_ms =", "average_seek_ms = 90.0 #", "seek curve"),
            ("depth = 32", "depth = 0", "depth"),
            ("kind = \"hm-smr\"", "kind = \"zns\"", "[flash]"),
            ("zones = 74508", "zones = 10", "conventional"),
            ("rpm = 7200", "rpm = 7200\nwheels = 4", "wheels"),
        ] {
            assert!(good.contains(from), "{from}");
            let error = Profile::parse(&good.replace(from, to)).unwrap_err();
            assert!(error.0.contains(expected), "{error}");
        }
    }
}
