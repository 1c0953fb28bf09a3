//! A file read and written directly, with times.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use shingle_zoned_linux::{DirectCommand, DirectDrive, DirectOp, OpenErrorKind};

/// A file of some blocks of zeros in the build's own folder, whose file system has direct access.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, blocks: u64) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        File::create(&path).unwrap().set_len(blocks * 4096).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn command(op: DirectOp, at: u64, blocks: u64) -> DirectCommand {
    DirectCommand { op, at, blocks }
}

#[test]
fn commands_are_timed_in_order_and_writes_reach_the_file() {
    let scratch = Scratch::new("direct", 300);
    let mut drive = DirectDrive::open(&scratch.0, true).unwrap();
    assert_eq!((drive.blocks(), drive.is_writable(), drive.writes_through()), (300, true, false));
    let mut commands: Vec<_> = (0..100).map(|number| command(DirectOp::Write, 3 * number, 2)).collect();
    commands.push(command(DirectOp::Flush, 0, 0));
    for depth in [1, 7] {
        let times = drive.run(depth, &commands).unwrap();
        assert_eq!(times.len(), commands.len());
        assert!(times.iter().all(|taken| taken.begun < taken.ended && !taken.unreadable), "{times:?}");
        let alone = times.windows(2).filter(|two| two[0].ended <= two[1].begun).count();
        assert!(
            (depth == 1) == (alone == 100),
            "{alone} of 100 began behind the end of the one before, {depth} at once"
        );
    }
    let reads: Vec<_> = (0..300).map(|at| command(DirectOp::Read, at, 1)).collect();
    assert!(drive.run(31, &reads).unwrap().iter().all(|taken| taken.begun < taken.ended));
    let file = File::open(&scratch.0).unwrap();
    let mut block = [0u8; 4096];
    for at in 0..300 {
        file.read_exact_at(&mut block, at * 4096).unwrap();
        assert_eq!(block.iter().all(|&byte| byte == 0), at % 3 == 2, "block {at}");
    }
}

/// ZL-DIR-1.
#[test]
fn a_file_opened_to_be_read_is_not_written() {
    let scratch = Scratch::new("direct-read", 16);
    let mut drive = DirectDrive::open(&scratch.0, false).unwrap();
    for op in [DirectOp::Write, DirectOp::Flush] {
        let error = drive.run(1, &[command(op, 0, 1)]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    }
    assert!(std::fs::read(&scratch.0).unwrap().iter().all(|&byte| byte == 0));
    assert!(drive.run(4, &[command(DirectOp::Read, 16, 1)]).is_err(), "behind the end");
    assert!(drive.run(4, &[]).unwrap().is_empty());
}

/// ZL-DIR-1: an emulated drive that somebody has open is not destroyed.
#[test]
fn a_file_in_use_is_not_written() {
    let scratch = Scratch::new("direct-used", 16);
    let owner = File::open(&scratch.0).unwrap();
    owner.try_lock().unwrap();
    assert!(DirectDrive::open(&scratch.0, false).is_ok());
    let error = DirectDrive::open(&scratch.0, true).err().unwrap();
    assert!(matches!(error.kind, OpenErrorKind::InUse), "{error}");
    drop(owner);
    assert!(DirectDrive::open(&scratch.0, true).is_ok());
}

#[test]
fn what_is_no_drive_is_refused() {
    let text = |path: &str| DirectDrive::open(path.as_ref(), false).err().unwrap().to_string();
    assert!(text("/nonexistent/file").contains("no such drive"), "{}", text("/nonexistent/file"));
    assert!(text("/").contains("neither a block device nor a file"), "{}", text("/"));
}
