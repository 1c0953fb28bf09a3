//! Ends of logs that processes left.

use std::path::PathBuf;

/// The end of a log that a process left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// Number of the log's file.
    pub(crate) serial: u64,
    /// Its path when it was made.
    pub(crate) path: String,
    /// Offset in the log, and bytes, in the order of offsets.
    pub(crate) records: Vec<(u64, Vec<u8>)>,
    /// Files that have them.
    pub(crate) files: Vec<PathBuf>,
}

impl Left {
    /// Bytes that a log of `size` bytes lacks.
    pub(crate) fn missing(&self, size: u64) -> Vec<u8> {
        let mut missing = Vec::new();
        for (offset, bytes) in &self.records {
            let end = size + missing.len() as u64;
            if *offset > end {
                break;
            }
            missing.extend_from_slice(bytes.get((end - offset) as usize..).unwrap_or_default());
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_ends_what_is_missing() {
        let records = vec![(10, vec![1; 10]), (20, vec![2; 5]), (30, vec![3; 5])];
        let left = Left { serial: 1, path: String::new(), records, files: Vec::new() };
        assert_eq!(left.missing(9), b"");
        assert_eq!(left.missing(12), [vec![1; 8], vec![2; 5]].concat());
        assert_eq!(left.missing(25), b"");
        assert_eq!(left.missing(31), [3; 4]);
        assert_eq!(left.missing(99), b"");
    }
}
