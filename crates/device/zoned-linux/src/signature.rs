//! Marks of other software on a drive: file systems, volumes, partition tables.
//!
//! **Owns** the table. Conservative: a mark is enough, even if all else is damaged. **Knows nothing of** Shingle's own
//! formats, none of which looks like any of these.

use std::io;
use std::os::unix::fs::FileExt;

use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks};

/// Bytes looked at from the start of a drive; the farthest mark there (ZFS) lies in the first 256 KiB.
const HEAD_BYTES: u64 = 256 << 10;
/// Bytes looked at before the end of an ordinary drive: RAID of old formats, and the second partition table.
const TAIL_BYTES: u64 = 128 << 10;

/// Magic number of md, as its superblock begins, of any format.
const MD: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9];

/// A mark at fixed places from the start: one of these runs of bytes at one of these offsets.
struct Mark {
    what: &'static str,
    places: &'static [usize],
    bytes: &'static [&'static [u8]],
}

const fn mark(what: &'static str, places: &'static [usize], bytes: &'static [&'static [u8]]) -> Mark {
    Mark { what, places, bytes }
}

const MARKS: &[Mark] = &[
    mark("an XFS file system", &[0], &[b"XFSB"]),
    // On a zoned drive the superblock begins a zone.
    mark("a btrfs file system", &[0x10040, 0x40], &[b"_BHRfS_M"]),
    mark("an F2FS file system", &[0x400], &[&[0x10, 0x20, 0xf5, 0xf2]]),
    mark("a bcachefs or bcache volume", &[0x1018], &[&[0xc6, 0x85, 0x73, 0xf6]]),
    mark("a LUKS volume", &[0], &[b"LUKS\xba\xbe"]),
    // In the second logical block, of 512 or 4096 bytes.
    mark("a GUID partition table", &[512, 4096], &[b"EFI PART"]),
    mark("swap space", &[4086], &[b"SWAPSPACE2", b"SWAP-SPACE"]),
    mark("a RAID member (md)", &[0, 4096], &[MD]),
    mark("an NTFS file system", &[3], &[b"NTFS    "]),
    mark("an exFAT file system", &[3], &[b"EXFAT   "]),
    mark("a FAT file system", &[0x52], &[b"FAT32   "]),
    mark("a FAT file system", &[0x36], &[b"FAT16   ", b"FAT12   "]),
    mark("an ISO 9660 file system", &[0x8001], &[b"CD001"]),
    mark("a UDF file system", &[0x8001], &[b"BEA01"]),
    mark("a ReiserFS file system", &[0x10034], &[b"ReIsEr"]),
    mark("a JFS file system", &[0x8000], &[b"JFS1"]),
    mark("a Ceph BlueStore", &[0], &[b"bluestore block device"]),
    mark("a dm-zoned volume", &[0], &[b"DBZD"]),
    mark("a zonefs file system", &[0], &[b"SFOZ"]),
];

/// Little-endian number at `at`.
fn number(head: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?))
}

/// ext2, ext3 and ext4 mark themselves with two bytes only, so their block size and revision are looked at too.
fn ext(head: &[u8]) -> bool {
    head.get(0x438..0x43a) == Some(&[0x53, 0xef])
        && number(head, 0x418).is_some_and(|log| log <= 6)
        && number(head, 0x44c).is_some_and(|revision| revision <= 1)
}

/// LVM labels one of the first four sectors.
fn lvm(head: &[u8]) -> bool {
    let labelled = |sector: &[u8]| sector.starts_with(b"LABELONE") && sector.get(24..32) == Some(b"LVM2 001");
    head.chunks(512).take(4).any(labelled)
}

/// ZFS writes uberblocks in the second half of its first label, in the byte order of the machine.
fn zfs(head: &[u8]) -> bool {
    let label = head.get(128 << 10..256 << 10).unwrap_or_default();
    label
        .chunks(1024)
        .any(|slot| slot.starts_with(&[0x0c, 0xb1, 0xba, 0]) || slot.starts_with(&[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c]))
}

/// A partition table of four entries, one of them used, each with a possible flag.
fn mbr(head: &[u8]) -> bool {
    let (Some(entries), Some(&[0x55, 0xaa])) = (head.get(446..510), head.get(510..512)) else { return false };
    let mut entries = entries.chunks_exact(16);
    entries.clone().all(|entry| matches!(entry.first(), Some(0 | 0x80)))
        && entries.any(|entry| entry.get(4).is_some_and(|&kind| kind != 0))
}

/// Owner of the mark in the first bytes of a drive.
pub(crate) fn in_head(head: &[u8]) -> Option<&'static str> {
    let marked = |at: usize, bytes: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(bytes));
    let left = |mark: &&Mark| mark.places.iter().any(|&at| mark.bytes.iter().any(|bytes| marked(at, bytes)));
    if let Some(mark) = MARKS.iter().find(left) {
        return Some(mark.what);
    }
    match () {
        () if ext(head) => Some("an ext2, ext3 or ext4 file system"),
        () if lvm(head) => Some("an LVM volume"),
        () if zfs(head) => Some("a ZFS volume"),
        () if mbr(head) => Some("a partition table"),
        () => None,
    }
}

/// Owner of the mark in the last bytes of a drive.
fn in_tail(tail: &[u8]) -> Option<&'static str> {
    let from_end = |back: usize| tail.len().checked_sub(back).and_then(|at| tail.get(at..)).unwrap_or_default();
    if from_end(512).starts_with(b"EFI PART") || from_end(4096).starts_with(b"EFI PART") {
        return Some("a GUID partition table");
    }
    // Format 0.90 lies in the last whole 64 KiB, format 1.0 at least 8 KiB before the end, on 4 KiB.
    let old = tail.chunks(4096).any(|block| block.starts_with(MD));
    old.then_some("a RAID member (md)")
}

/// `length` bytes, whole blocks, from byte `at` of `file`, with zeros for blocks that cannot be read, and the error of the last of those.
fn read(file: &impl FileExt, at: u64, length: u64) -> (AlignedBuf, Option<io::Error>) {
    let mut buffer = AlignedBuf::zeroed(Blocks(length / BLOCK_SIZE as u64));
    let mut failed = None;
    if file.read_exact_at(&mut buffer, at).is_err() {
        for (number, block) in buffer.chunks_mut(BLOCK_SIZE).enumerate() {
            if let Err(error) = file.read_exact_at(block, at + (number * BLOCK_SIZE) as u64) {
                block.fill(0);
                failed = Some(error);
            }
        }
    }
    (buffer, failed)
}

/// Owner of the mark on an ordinary drive of `size` bytes, which may be about to be overwritten.
///
/// # Errors
/// No mark was seen, and one may lie where the drive cannot be read.
pub(crate) fn on_ordinary(file: &impl FileExt, size: u64) -> io::Result<Option<&'static str>> {
    let whole = size / BLOCK_SIZE as u64 * BLOCK_SIZE as u64;
    let (head, unread_head) = read(file, 0, HEAD_BYTES.min(whole));
    let length = TAIL_BYTES.min(whole);
    let (tail, unread_tail) = read(file, whole - length, length);
    match (in_head(&head).or_else(|| in_tail(&tail)), unread_head.or(unread_tail)) {
        (None, Some(error)) => Err(error),
        (found, _) => Ok(found),
    }
}

/// Owner of the mark in a zone of which `written` bytes from byte `at` can be read. Only a mark that was read is a reason to refuse a zone: its
/// store has its own words for one that is unreadable, and a bad block among its first ones must not keep the store closed for ever.
pub(crate) fn in_zone(file: &impl FileExt, at: u64, written: u64) -> Option<&'static str> {
    let length = written.min(HEAD_BYTES) / BLOCK_SIZE as u64 * BLOCK_SIZE as u64;
    in_head(&read(file, at, length).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(at: usize, mark: &[u8]) -> Vec<u8> {
        let mut head = vec![0; HEAD_BYTES as usize];
        head[at..at + mark.len()].copy_from_slice(mark);
        head
    }

    #[test]
    fn every_mark_is_seen_and_lies_where_it_is_looked_for() {
        let each = |mark: &'static Mark| {
            let all = move |&at: &'static usize| mark.bytes.iter().map(move |bytes| (mark.what, at, *bytes));
            mark.places.iter().flat_map(all)
        };
        for (what, at, mark) in MARKS.iter().flat_map(each) {
            assert!(at + mark.len() <= HEAD_BYTES as usize);
            assert_eq!(in_head(&head(at, mark)), Some(what));
            assert_eq!(in_head(&head(at, mark)[..at + mark.len() - 1]), None, "cut short");
        }
        let mut ext4 = head(0x438, &[0x53, 0xef]);
        (ext4[0x418], ext4[0x44c]) = (2, 1);
        assert_eq!(in_head(&ext4), Some("an ext2, ext3 or ext4 file system"));
        ext4[0x418] = 200;
        assert_eq!(in_head(&ext4), None);
        let mut lvm = head(512, b"LABELONE");
        lvm[536..544].copy_from_slice(b"LVM2 001");
        assert_eq!(in_head(&lvm), Some("an LVM volume"));
        assert_eq!(in_head(&head((128 << 10) + 3072, &[0x0c, 0xb1, 0xba, 0])), Some("a ZFS volume"));
        let mut mbr = head(510, &[0x55, 0xaa]);
        assert_eq!(in_head(&mbr), None, "no partition");
        mbr[450] = 0x83;
        assert_eq!(in_head(&mbr), Some("a partition table"));
        mbr[446] = 0x33;
        assert_eq!(in_head(&mbr), None, "a boot sector's end, not a table");
    }

    #[test]
    fn the_end_of_a_drive_is_looked_at() {
        let mut tail = vec![0; TAIL_BYTES as usize];
        assert_eq!(in_tail(&tail), None);
        let end = tail.len();
        tail[end - 8192..end - 8188].copy_from_slice(MD);
        assert_eq!(in_tail(&tail), Some("a RAID member (md)"));
        tail[end - 512..end - 504].copy_from_slice(b"EFI PART");
        assert_eq!(in_tail(&tail), Some("a GUID partition table"));
        assert_eq!(in_tail(&[]), None);
    }

    /// A drive of which these bytes can be read, but for one block.
    struct Worn(Vec<u8>, u64);

    impl FileExt for Worn {
        fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
            let bad = self.1 * BLOCK_SIZE as u64;
            if at < bad + BLOCK_SIZE as u64 && bad < at + buffer.len() as u64 {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            buffer.copy_from_slice(&self.0[at as usize..][..buffer.len()]);
            Ok(buffer.len())
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
            unreachable!("nothing is written")
        }
    }

    #[test]
    fn a_bad_block_hides_its_own_mark_and_no_other() {
        let btrfs = head(0x10040, b"_BHRfS_M");
        for (bad, seen) in [(0, true), (0x10, false), (0x11, true), (63, true)] {
            let worn = Worn(btrfs.clone(), bad);
            assert_eq!(in_zone(&worn, 0, HEAD_BYTES).is_some(), seen, "block {bad}");
            let ordinary = on_ordinary(&worn, HEAD_BYTES);
            assert_eq!(ordinary.is_ok(), seen, "block {bad}: an ordinary drive may be another's if it cannot be read");
            assert_eq!(ordinary.ok().flatten().is_some(), seen, "block {bad}");
        }
        assert_eq!(in_zone(&Worn(head(0, b"XFSB"), 0), 0, 4096), None, "nothing of it can be read");
    }

    #[test]
    fn nothing_is_seen_in_nothing() {
        assert_eq!(in_head(&[]), None);
        assert_eq!(in_head(&head(0, b"")), None);
    }
}
