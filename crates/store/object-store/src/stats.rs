//! Counters of the engine, for metrics and people.

/// Counters since the engine was opened, and sizes now. Counters never go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectStats {
    /// Objects put, parts and large objects included.
    pub puts: u64,
    /// Bytes of objects and parts appended.
    pub put_bytes: u64,
    /// Objects opened for reading.
    pub opens: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Objects deleted.
    pub deletes: u64,
    /// Entries appended to the log, GC's included.
    pub entries: u64,
    /// Bytes appended to the log, GC's included.
    pub entry_bytes: u64,
    /// Appends that failed and were made again elsewhere.
    pub append_retries: u64,
    /// Writes refused for want of space.
    pub no_space: u64,
    /// Batches of index changes.
    pub index_batches: u64,
    /// Files that GC has gone through.
    pub gc_files: u64,
    /// Bytes of entries GC has copied.
    pub gc_copied_bytes: u64,
    /// Bytes of files GC has deleted.
    pub gc_freed_bytes: u64,
    /// Files GC could not read wholly, which therefore stay.
    pub gc_damaged_files: u64,
    /// Index backups written.
    pub backups: u64,
    /// Bytes of the last one.
    pub backup_bytes: u64,
    /// Files now.
    pub files: u64,
    /// Bytes in files now.
    pub file_bytes: u64,
    /// Bytes of entries that are needed now.
    pub live_bytes: u64,
    /// Live objects now.
    pub objects: u64,
    /// Their bytes.
    pub object_bytes: u64,
}
