//! Partitions in paths: `disk.shingle#vm1` is the partition `vm1` of the drive `disk.shingle`.

use std::path::{Path, PathBuf};

use shingle_partitions::is_name;

/// Character between a drive and its partition.
const MARK: char = '#';

/// The drive, and the partition that the end of its path names. A file whose own name looks so is that file.
pub fn split(path: &Path) -> (PathBuf, Option<String>) {
    let whole = || (path.to_owned(), None);
    if path.exists() {
        return whole();
    }
    path.to_str().and_then(split_text).map_or_else(whole, |(drive, name)| (drive.into(), Some(name.to_owned())))
}

/// As [`split`], for any name of a drive.
pub(crate) fn split_text(text: &str) -> Option<(&str, &str)> {
    text.rsplit_once(MARK).filter(|(drive, name)| !drive.is_empty() && is_name(name))
}

/// The path of a partition.
pub fn joined(drive: &Path, name: &str) -> PathBuf {
    let mut path = drive.as_os_str().to_owned();
    path.push(format!("{MARK}{name}"));
    path.into()
}

/// The node or file that holds a drive or partition.
pub fn holder(path: &Path) -> PathBuf {
    split(path).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_path_names_a_partition_unless_there_is_such_a_file() {
        let there = |path: &str| split(Path::new(path));
        assert_eq!(there("disk.shingle#vm1"), ("disk.shingle".into(), Some("vm1".to_owned())));
        assert_eq!(there("/dev/a#b#c"), ("/dev/a#b".into(), Some("c".to_owned())));
        for plain in ["disk.shingle", "disk#", "#vm1", "disk#a/b", "disk#a b"] {
            assert_eq!(there(plain), (plain.into(), None));
        }
        let path = std::env::temp_dir().join(format!("shingle-{}#vm1", std::process::id()));
        std::fs::write(&path, "").unwrap();
        assert_eq!(split(&path), (path.clone(), None));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(joined(&split(&path).0, "vm1"), path);
    }
}
