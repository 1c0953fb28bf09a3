//! The file device beyond the contract: killed processes, space, locks, damage, commands under way together.
//!
//! For each way to the file's bytes: the tests of `shingle-zoned-linux` have them too, with `crate::open` opening theirs.

mod damage;
mod peek;
mod process;
mod space;
mod together;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks};
use shingle_runtime::real;
use shingle_zoned::{CreateOptions, FileDevice, FileDeviceErrorKind as Kind, Geometry};

/// A directory that goes when the test ends.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shingle-file-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn drive(&self) -> PathBuf {
        self.0.join("drive")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Zones of 64 blocks, of which 60 can be written; 2 conventional; at most 4 open and 6 active.
pub(crate) fn geometry() -> Geometry {
    Geometry { conventional_zones: 2, ..Geometry::zns(Blocks(64), Blocks(60), 16, 4, 6) }
}

pub(crate) fn blocks(tag: u64, count: u64) -> Bytes {
    let mut buffer = AlignedBuf::zeroed(Blocks(count));
    for (tag, block) in (tag..).zip(buffer.chunks_exact_mut(BLOCK_SIZE)) {
        block.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&tag.to_le_bytes()));
    }
    buffer.freeze()
}

pub(crate) fn create(path: &Path, geometry: &Geometry) {
    FileDevice::create(path, geometry, CreateOptions::default()).unwrap();
}

/// Bytes the file takes on the file system.
pub(crate) fn space(path: &Path) -> u64 {
    File::open(path).unwrap().sync_all().unwrap();
    fs::metadata(path).unwrap().blocks() * 512
}

pub(crate) fn open_error(path: &Path) -> (Kind, String) {
    let path = path.to_owned();
    let result = real::run(|runtime| async move { crate::open(&path, &runtime).map(drop) }).unwrap();
    let error = result.unwrap_err();
    let text = error.to_string();
    (error.kind, text)
}
