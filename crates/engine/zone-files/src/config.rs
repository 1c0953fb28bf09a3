//! Parameters: of a format, of an opening, and of a new file.

use shingle_base::StoreId;

/// Parameters of a format. All are fixed then.
#[derive(Clone, Copy, Debug, Default)]
pub struct FormatOptions {
    /// Zones of the metadata log; `None` = as many as the drive's size asks for.
    pub metazones: Option<u32>,
    /// Formats also a drive that holds a store, or data.
    pub force: bool,
    /// Identity of the store; `None` = a random one.
    pub store: Option<StoreId>,
}

/// Parameters of an opening.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Zones that are free before cleaning ends.
    pub low_water: u32,
    /// Zones of the metadata log that an opening reads at a time.
    pub recovery_depth: u32,
    /// Bytes of a file that wait for the drive before its next append waits, too.
    pub waiting_bytes: u64,
    /// Goes on where an opening is refused, because it cannot be told where a log ends or whose bytes are lost. The report says which
    /// blocks they are.
    pub accept_loss: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { low_water: 4, recovery_depth: 8, waiting_bytes: 8 << 20, accept_loss: false }
    }
}

/// Use of a file, which decides about its zones and the cost of its sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A write-ahead log: a sync is one write to the drive, and an opening finds its end. (Section 5.4.1 of the dissertation.)
    Wal,
    /// A sorted table.
    Sst,
    /// A log of versions, small and synced often.
    Manifest,
    /// Any other file.
    #[default]
    Other,
}

impl FileKind {
    /// The kind that a database means by a name: `.log`, `.sst`, `MANIFEST-`.
    pub fn of_name(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name.rsplit_once('.') {
            Some((number, "log")) if number.bytes().all(|byte| byte.is_ascii_digit()) => Self::Wal,
            Some((_, "sst" | "ldb" | "blob")) => Self::Sst,
            _ if name.starts_with("MANIFEST") => Self::Manifest,
            _ => Self::Other,
        }
    }
}

/// Expected lifetime of a file: those of one lifetime share zones. The names are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteLifetime {
    /// Unknown.
    #[default]
    None,
    /// Gone first.
    Short,
    /// Gone soon.
    Medium,
    /// Kept long.
    Long,
    /// Kept longest.
    Extreme,
}

/// Parameters of a new file.
#[derive(Clone, Copy, Debug, Default)]
pub struct CreateOptions {
    /// Its use.
    pub kind: FileKind,
    /// Its expected lifetime.
    pub lifetime: WriteLifetime,
    /// Its expected size, zero if unknown: a file of about a zone or more begins a zone. (ZF-SPARE-2)
    pub expected_bytes: u64,
    /// Fails if the name is taken; else the file that has it is replaced.
    pub exclusive: bool,
}

#[cfg(test)]
mod tests {
    use super::FileKind;

    #[test]
    fn names_of_a_database_tell_kinds() {
        let kinds = ["db/000012.log", "000013.sst", "MANIFEST-000004", "LOG", "CURRENT", "a.log", "db.log/x"];
        use FileKind::{Manifest, Other, Sst, Wal};
        assert_eq!(kinds.map(FileKind::of_name), [Wal, Sst, Manifest, Other, Other, Other, Other]);
    }
}
