//! Adding to the index what the drives hold beyond it.

use std::collections::BTreeSet;
use std::sync::Arc;

use shingle_runtime::Runtime;
use shingle_store_api::{StoreErrorKind, StoreResult};
use tokio::sync::mpsc;

use super::blocking::with_indexer;
use super::inventory::{FoundFile, Inventory};
use super::report::{Damage, Progress, ProgressFn};
use crate::errors::from_chunk;
use crate::format::ChunkName;
use crate::index::Index;
use crate::indexer::{Command, Group, Indexer};
use crate::options::{Drive, Place};
use crate::records::Position;
use crate::scan::{Next, Scanner};

/// Entries applied in one batch.
const GROUP: usize = 512;

/// Findings of the scan.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// The highest number in any entry.
    pub(super) highest: u64,
    pub(super) damage: Vec<Damage>,
}

/// Message of a drive's scan.
#[derive(Debug, Default)]
struct Finding {
    commands: Vec<Command>,
    /// Everything in this file before this has been sent.
    upto: Option<(u64, Position)>,
    damage: Vec<Damage>,
    bytes_passed: u64,
    bytes_read: u64,
    file_done: bool,
}

/// Tells the indexer of files it does not know, and of those that are gone. Returns the ends of chunks that the index knows
/// and the drives do not have (OS-REC-3).
///
/// If the drive could be read, such an end is lost: that is told once, and nothing is looked for behind it any more. If
/// it could not, the index keeps it, for a later opening may see it.
pub(super) async fn match_files(
    runtime: &Runtime,
    index: &Arc<dyn Index>,
    indexer: Indexer,
    inventory: &Inventory,
    stores: &BTreeSet<u64>,
    drives: &[Drive],
) -> StoreResult<(Indexer, Vec<Damage>)> {
    let (mut commands, mut indexed, mut short) = (Vec::new(), Vec::new(), Vec::new());
    for (number, found) in &inventory.files {
        let record = indexer.files().get(number).filter(|record| !record.dropping);
        let Some(drive) = drives.get(found.drive) else { continue };
        if let Some((ordinal, size)) = record.and_then(|record| found.short_of(record.indexed)) {
            let known = record
                .map_or(size, |record| if record.indexed.ordinal == ordinal { record.indexed.offset } else { size });
            let why = "the chunk ends before what the index knows of it".to_owned();
            tracing::warn!(file = number, ordinal, from = size, to = known, why);
            let place = Place { file: *number, ordinal, from: size, to: known };
            short.push(Damage { store: drive.store, drive: String::new(), place, why, again: drive.hides });
            if !drive.hides {
                indexed.push((*number, Position { ordinal: ordinal + 1, offset: 0 }));
            }
        }
        let first = found.chunks.keys().next().copied().unwrap_or(0);
        if indexer.files().get(number).is_none_or(|record| record.first < first) {
            commands.push(Command::AddFile { file: *number, store: drive.store.0, first });
        }
    }
    for (number, record) in indexer.files() {
        if !inventory.files.contains_key(number) && stores.contains(&record.store) {
            commands.push(Command::Dropped { file: *number });
        }
    }
    let group = Group { commands, indexed, ..Group::default() };
    let (indexer, _) = with_indexer(runtime, index, indexer, move |indexer| indexer.apply(group)).await?;
    Ok((indexer, short))
}

/// Scans every file from where the index knows it, all drives at once.
pub(super) async fn tails(
    runtime: &Runtime,
    index: &Arc<dyn Index>,
    mut indexer: Indexer,
    inventory: &Inventory,
    drives: &[Drive],
    set: u32,
    progress: &mut Option<ProgressFn>,
) -> StoreResult<(Indexer, Found)> {
    let mut total = Progress::default();
    let mut findings = Vec::new();
    let (sender, mut receiver) = mpsc::channel(4);
    for (number, drive) in drives.iter().enumerate() {
        let mut work = Vec::new();
        for (file, found) in inventory.files.iter().filter(|(_, found)| found.drive == number) {
            let Some(record) = indexer.files().get(file).filter(|record| !record.dropping) else { continue };
            let bytes = beyond(found, record.indexed);
            if bytes > 0 {
                total.files += 1;
                total.bytes += bytes;
                work.push((*file, found.clone(), record.indexed));
            }
        }
        let (drive, sender) = (drive.clone(), sender.clone());
        findings.push(runtime.spawn(async move {
            for (file, found, from) in work {
                scan_file(&drive, set, file, &found, from, &sender).await?;
            }
            Ok(())
        }));
    }
    drop(sender);
    let mut found = Found::default();
    while let Some(finding) = receiver.recv().await {
        found.bytes += finding.bytes_read;
        total.bytes_done += finding.bytes_passed;
        total.files_done += u64::from(finding.file_done);
        total.entries += finding.commands.len() as u64;
        found.damage.extend(finding.damage);
        for command in &finding.commands {
            if let Command::Entry { version, .. } = command {
                found.highest = found.highest.max(*version);
            }
        }
        let group = Group { commands: finding.commands, indexed: finding.upto.into_iter().collect(), sequence: 0 };
        (indexer, _) = with_indexer(runtime, index, indexer, move |indexer| indexer.apply(group)).await?;
        if let Some(progress) = progress {
            progress(total);
        }
    }
    for task in findings {
        let result: StoreResult<()> = task.await.map_err(crate::errors::lost)?;
        result?;
    }
    found.entries = total.entries;
    Ok((indexer, found))
}

/// Bytes of a file beyond a position.
fn beyond(found: &FoundFile, from: Position) -> u64 {
    let after = found
        .chunks
        .range(from.ordinal..)
        .map(|(ordinal, chunk)| chunk.size.saturating_sub(if *ordinal == from.ordinal { from.offset } else { 0 }));
    after.sum()
}

async fn scan_file(
    drive: &Drive,
    set: u32,
    file: u64,
    found: &FoundFile,
    from: Position,
    sender: &mpsc::Sender<Finding>,
) -> StoreResult<()> {
    let gone = |_| shingle_store_api::StoreError::new(StoreErrorKind::Unavailable, "recovery was given up");
    // Unreadable places may hold entries that are nowhere else: the watermark stays before them, so that every later
    // start looks again. Readable bytes that make no sense are told once: no start will find more.
    let mut whole = true;
    for (ordinal, chunk) in found.chunks.range(from.ordinal..) {
        let name = ChunkName { file, ordinal: *ordinal, stream: found.stream, set };
        let begin = if *ordinal == from.ordinal { from.offset } else { 0 };
        let mut scanner = Scanner::new(drive.client.clone(), name, begin, chunk.size);
        let (mut passed, mut read) = (begin, 0);
        loop {
            let mut finding = Finding::default();
            let mut ended = false;
            while finding.commands.len() < GROUP {
                match scanner.next().await.map_err(from_chunk)? {
                    Next::Entry(scanned) => {
                        let end = Position { ordinal: *ordinal, offset: scanned.location.end() };
                        finding.upto = whole.then_some((file, end));
                        finding.bytes_passed += scanned.location.end().saturating_sub(passed);
                        passed = scanned.location.end();
                        finding.commands.push(Command::Entry {
                            version: scanned.version,
                            body: scanned.body,
                            location: scanned.location,
                        });
                    }
                    Next::Damage { from, to, why, again } => {
                        tracing::warn!(chunk = %name.id(), from, to, why, "a part of a chunk cannot be read");
                        // A hole in a chunk of a store that hides something may be filled later.
                        let again = again || drive.hides;
                        whole &= !again;
                        let place = Place { file, ordinal: *ordinal, from, to };
                        let (store, drive) = (drive.store, String::new());
                        finding.damage.push(Damage { store, drive, place, why, again });
                    }
                    Next::End => {
                        ended = true;
                        break;
                    }
                }
            }
            if ended {
                let open = !chunk.sealed && found.chunks.keys().next_back() == Some(ordinal);
                let end = Position { ordinal: *ordinal, offset: chunk.size };
                let next = Position { ordinal: ordinal + 1, offset: 0 };
                finding.upto = whole.then_some((file, if open { end } else { next }));
                finding.bytes_passed += chunk.size.saturating_sub(passed);
                finding.file_done = found.chunks.keys().next_back() == Some(ordinal);
            }
            finding.bytes_read = scanner.read - read;
            read = scanner.read;
            sender.send(finding).await.map_err(gone)?;
            if ended {
                break;
            }
        }
    }
    Ok(())
}
