//! Room on the file systems of emulated drives, which sparse files can outgrow.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file that may still grow.
struct Growing {
    file_system: u64,
    bytes: u64,
}

/// A file system that drives in sparse files can outgrow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Short {
    /// One of the files on it.
    pub(crate) example: PathBuf,
    /// Bytes that all of them may still take.
    pub(crate) wanted: u64,
    /// Bytes that are free.
    pub(crate) free: u64,
}

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [wanted, free] = [self.wanted, self.free].map(shingle_base::ByteSize);
        let example = self.example.display();
        write!(
            f,
            "the drives in files beside {example} may still take {wanted}, and their file system has {free} left: writes are refused \
             when it is full; make room there, or use fewer of these drives"
        )
    }
}

/// File systems that have less room than the drives in files on them may still take.
pub(crate) fn short(drives: impl IntoIterator<Item = PathBuf>) -> Vec<Short> {
    let files = drives.into_iter().filter_map(|path| Some((growing(&path)?, path)));
    add_up(files, |path| {
        let stat = rustix::fs::statvfs(path).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    })
}

fn growing(path: &Path) -> Option<Growing> {
    let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    let bytes = file.len().saturating_sub(file.blocks().saturating_mul(512));
    Some(Growing { file_system: file.dev(), bytes })
}

fn add_up(files: impl IntoIterator<Item = (Growing, PathBuf)>, free: impl Fn(&Path) -> Option<u64>) -> Vec<Short> {
    let mut sums: BTreeMap<u64, (PathBuf, u64)> = BTreeMap::new();
    for (Growing { file_system, bytes }, path) in files {
        let sum = sums.entry(file_system).or_insert((path, 0));
        sum.1 = sum.1.saturating_add(bytes);
    }
    let short = |(example, wanted): (PathBuf, u64)| {
        let free = free(&example)?;
        (wanted > free).then_some(Short { example, wanted, free })
    };
    sums.into_values().filter_map(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_one_file_system_share_its_room() {
        let file = |file_system, bytes, path: &str| (Growing { file_system, bytes }, PathBuf::from(path));
        let files = || [file(1, 60, "a"), file(2, 60, "b"), file(1, 50, "c")];
        let found = add_up(files(), |_| Some(100));
        assert_eq!(found, [Short { example: "a".into(), wanted: 110, free: 100 }]);
        assert!(found[0].to_string().contains("may still take 110 B"), "{}", found[0]);
        assert!(add_up(files(), |_| Some(110)).is_empty());
        assert!(add_up(files(), |_| None).is_empty());
    }
}
