//! Layout of F2FS on a zoned drive: checkpoints, SIT, NAT and SSA in conventional zones, then the main area, whose
//! sections are zones. (mkfs.f2fs -m; F2FS, FAST'15, section 2.1.)

use shingle_zoned::Geometry;

/// Blocks of a segment.
pub(crate) const SEGMENT: u32 = 512;
/// Segments that a block of the segment information table describes.
const SIT_ENTRIES: u64 = 55;
/// Nodes that a block of the node address table describes.
const NAT_ENTRIES: u64 = 455;
/// Segments of the node address table at most: its bitmap must fit in a checkpoint block.
const NAT_SEGMENTS_MAX: u64 = 60;
/// Logs that need a section each.
const LOGS: f64 = 6.0;

/// Places of the metadata areas, and the size of the main area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Blocks of a section.
    pub(crate) section: u32,
    /// The first zone of the main area.
    pub(crate) first_zone: u32,
    /// Sections of the main area.
    pub(crate) sections: u32,
    /// Sections that only cleaning may use.
    pub(crate) reserved: u32,
    /// Blocks that files may fill.
    pub(crate) user_blocks: u64,
    sit: u64,
    nat: u64,
    ssa: u64,
}

impl Layout {
    /// The layout of a device. `like`: sections of the large drive whose shares for cleaning a small one is to have.
    /// `None` if the conventional zones do not hold the metadata, or nothing is left for data.
    pub(crate) fn new(geometry: &Geometry, like: Option<u32>) -> Option<Self> {
        let section = geometry.zone_size.0;
        let segments = u64::from(geometry.zone_count) * section / u64::from(SEGMENT);
        let segment = |blocks: u64| blocks.next_multiple_of(u64::from(SEGMENT));
        let sit = 3 * u64::from(SEGMENT);
        let nat = sit + 2 * segment(segments.div_ceil(SIT_ENTRIES));
        let nat_segments = (segments / NAT_ENTRIES).clamp(1, NAT_SEGMENTS_MAX);
        let ssa = nat + 2 * nat_segments * u64::from(SEGMENT);
        let first_zone = (ssa + segment(segments)).div_ceil(section) as u32;
        if first_zone > geometry.conventional_zones || geometry.zone_count < first_zone + 16 {
            return None;
        }
        let sections = geometry.zone_count - first_zone;
        let (reserved, spare) = shares(like.unwrap_or(sections));
        let scale = f64::from(sections) / f64::from(like.unwrap_or(sections));
        let (reserved, spare) = ((reserved * scale).max(10.0) as u32, (spare * scale) as u32);
        let usable = sections.checked_sub(reserved + spare).filter(|&usable| usable > 0)?;
        let user_blocks = u64::from(usable) * section;
        Some(Self { section: section as u32, first_zone, sections, reserved, user_blocks, sit, nat, ssa })
    }

    /// The block of the checkpoint pack that is written `number`th.
    pub(crate) fn checkpoint(&self, number: u64) -> u64 {
        u64::from(SEGMENT) * (1 + number % 2)
    }

    /// The block with a segment's valid bits.
    pub(crate) fn sit(&self, segment: u32) -> u64 {
        self.sit + u64::from(segment) / SIT_ENTRIES
    }

    /// The block with a node's address.
    pub(crate) fn nat(&self, node: u32) -> u64 {
        self.nat + u64::from(node) / NAT_ENTRIES % ((self.ssa - self.nat) / 2)
    }

    /// The block that names the owners of a segment's blocks.
    pub(crate) fn ssa(&self, segment: u32) -> u64 {
        self.ssa + u64::from(segment)
    }
}

/// Sections that mkfs reserves for cleaning, and those it takes off what files may fill: it tries shares from 0.01 % to
/// 10 % for the one that leaves most.
fn shares(sections: u32) -> (f64, f64) {
    let all = f64::from(sections);
    let cost = |share: f64| {
        let reserved = 2.0 * (100.0 / share + 1.0) + LOGS;
        (reserved, (all - reserved).max(0.0) * share / 100.0)
    };
    let candidates = (1..=1000).map(|step| cost(f64::from(step) * 0.01));
    candidates.min_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1))).unwrap_or((0.0, 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig::drives::LabDrive;

    #[test]
    fn shares_of_a_drive_are_as_mkfs_takes_them() {
        let geometry = LabDrive::new("st20000nm001j").unwrap().first_zones(22_352).geometry();
        let layout = Layout::new(&geometry, None).unwrap();
        // 1 % reserved and 1 % more off, for a drive of 6 TB.
        assert!((200..240).contains(&layout.reserved), "{layout:?}");
        let share = layout.user_blocks as f64 / (u64::from(layout.sections) * 65_536) as f64;
        assert!((0.975..0.985).contains(&share), "{share}");
        assert!((40..100).contains(&layout.first_zone));
        let small = LabDrive::new("st20000nm001j").unwrap().every(100).geometry();
        let small = Layout::new(&small, Some(layout.sections)).unwrap();
        let share = small.user_blocks as f64 / (u64::from(small.sections) * 65_536) as f64;
        assert!((0.97..0.985).contains(&share), "{share}");
    }
}
