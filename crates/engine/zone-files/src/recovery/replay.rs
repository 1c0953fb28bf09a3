//! Changes since the checkpoint, in their order: entries of the journal, and records of logs.

use super::load::Loaded;
use super::report::RecoveryReport;
use super::scan::LogRecord;
use crate::config::FileKind;
use crate::error::{FilesError, FilesResult};
use crate::format::Op;
use crate::tree::Tree;

/// A change of the tree.
enum Change {
    Ops(Vec<Op>),
    Record(LogRecord),
}

/// The tree as it was in the end: files without a name are not in it.
pub(super) fn replay(loaded: &mut Loaded, records: &[LogRecord], report: &mut RecoveryReport) -> FilesResult<Tree> {
    let mut tree = std::mem::take(&mut loaded.tree);
    let mut changes: Vec<(u64, Change)> = Vec::new();
    for record in records {
        loaded.last = loaded.last.max(record.number);
        changes.push((record.number, Change::Record(*record)));
    }
    for (number, ops) in std::mem::take(&mut loaded.groups) {
        report.entries += 1;
        changes.push((number, Change::Ops(ops)));
    }
    changes.sort_by_key(|(number, _)| *number);
    for (_, change) in changes {
        match change {
            Change::Ops(ops) => {
                for op in &ops {
                    tree.apply(op).map_err(|_| FilesError::senseless("journal entry"))?;
                }
            }
            Change::Record(record) => add_record(&mut tree, &record)?,
        }
    }
    let unnamed: Vec<u64> = tree.files().filter(|(_, node)| node.links == 0).map(|(serial, _)| serial).collect();
    unnamed.into_iter().for_each(|serial| drop(tree.remove_file(serial)));
    for (serial, node) in tree.files() {
        let lost: u64 = node.extents.iter().filter(|extent| extent.is_lost()).map(|extent| extent.length).sum();
        if lost > 0 {
            report.lost.push((serial, lost));
        }
    }
    Ok(tree)
}

/// A record of a log goes to the end of its file, if it still has one. A record of bytes that the file has already was written a second
/// time, or copied.
fn add_record(tree: &mut Tree, record: &LogRecord) -> FilesResult<()> {
    let Some(node) = tree.file_mut(record.serial).filter(|node| node.kind == FileKind::Wal) else { return Ok(()) };
    if record.extent.offset < node.extents.size() {
        return Ok(());
    }
    node.extents.place(&[record.extent]).map_err(|_| FilesError::senseless("record of a log"))
}
