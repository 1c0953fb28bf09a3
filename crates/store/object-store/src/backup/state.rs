//! The backups that there are.

/// A backup on a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackupFile {
    pub(crate) number: u64,
    pub(crate) drive: usize,
    /// Its chunks, by ordinal.
    pub(crate) chunks: Vec<u32>,
}

/// State of backups.
#[derive(Debug, Default)]
pub(crate) struct BackupState {
    /// Complete backups, oldest first.
    pub(crate) complete: Vec<BackupFile>,
    /// Remains of others.
    pub(crate) broken: Vec<BackupFile>,
    /// Log bytes when the last backup was taken.
    pub(super) taken_at_bytes: u64,
    pub(super) running: bool,
}
