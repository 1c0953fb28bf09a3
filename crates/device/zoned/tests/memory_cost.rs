//! Memory of a metadata-only device. Alone in its process, so that nobody else's memory counts.

use shingle_base::{AlignedBuf, Blocks, ZoneId};
use shingle_runtime::real;
use shingle_zoned::{GeometrySpec, MemoryDevice, ZonedDevice};

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// A piece of which 96 bytes are kept costs well under 200 bytes, and the bookkeeping of a 20 TB drive little.
#[test]
fn a_drive_of_twenty_terabytes_fits_in_memory() {
    real::run(|_| async {
        let geometry = GeometrySpec::hm_smr("20TB".parse().unwrap()).build().unwrap();
        let before = resident();
        let device = MemoryDevice::metadata_only(geometry, |_| 96);
        let empty = resident() - before;
        assert!(empty < 4 << 20, "{empty} bytes for an empty drive");
        let piece = AlignedBuf::zeroed(Blocks(1)).freeze();
        let before = resident();
        let pieces = 400_000;
        for at in 0..pieces / 40 {
            // As records come: headers and payload in turn, in zones that fill side by side.
            device.append(ZoneId(1000 + at % 128), vec![piece.clone(); 40]).await.unwrap();
        }
        let each = (resident() - before) as f64 / f64::from(pieces);
        assert!(each < 175.0, "{each} bytes a piece");
        assert_eq!(device.held_bytes(), u64::from(pieces) * 96);
    })
    .unwrap();
}
