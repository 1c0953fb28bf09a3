//! Opening a store: what the drives hold, what the index knows, and what it must still learn.
//!
//! # Invariants
//! - OS-REC-1: every entry on the drives is in the index when the store opens, so every acknowledged write is found.
//! - OS-REC-2: the drives decide. An index that does not fit them is rebuilt, or refused where it is another store's.
//! - OS-REC-3: a chunk is appended to only from the end that the index knows, and only by an index that was there when it
//!   was written to. A place that the index knows behind a chunk's end gives errors, never bytes of something newer.
//!   `an_end_that_the_index_knows_and_the_drive_lost_is_neither_served_nor_used_again`.
//! - OS-REC-4: an opening that may not have seen all, since a drive is missing or could not be read, takes nothing for left over
//!   and no key for free: blobs, parts and graves stay, and chunks that may be longer are neither appended to nor sealed.
//!   `what_one_opening_cannot_see_is_there_when_the_next_can`.
//! - OS-REC-5: a loss that was accepted is final. The files that may hold entries nobody has seen are rewritten and deleted, and until
//!   they are gone graves stay, so that nothing in them can come back: neither once it can be read again, nor with a lost index. A place
//!   that could be read when the others were shown is not accepted, and its file stays.
//!   `what_an_accepted_loss_took_never_comes_back`, `a_place_that_was_not_shown_is_not_given_up`.
//! - OS-REC-6: recovery writes nothing to a drive; the store does once it serves. So whoever opens it can note which drives it is on before
//!   there is anything of it on a new one. `an_opening_writes_nothing_to_a_drive_before_it_serves`.

mod blocking;
mod inventory;
mod report;
mod scan;
mod trust;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use shingle_base::StoreId;
use shingle_buckets::Names;
use shingle_runtime::Runtime;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

use crate::backup::{BackupFile, BackupState};
use crate::drives::DriveState;
use crate::engine::Recovered;
use crate::errors::{from_index, invalid};
use crate::index::{Batch, Index, IndexResult, Space, Step};
use crate::indexer::{Command, Extent, Group, Indexer, Owner, spoilt};
use crate::options::{Drive, Options};
use crate::records::{BucketRecord, Item};
use blocking::{with_index, with_indexer};
use inventory::Inventory;
use trust::Trust;

pub use report::{Damage, IndexOrigin, OpenReport, Progress, ProgressFn};

/// Above all numbers found, by so much does a store go on: what was handed out and never written stays unused.
const JUMP: u64 = 1 << 20;
/// As [`JUMP`], where something that knew more is lost.
const JUMP_FAR: u64 = 1 << 32;

/// Results of recovery for the engine.
pub(crate) struct Opened {
    pub(crate) recovered: Recovered,
    pub(crate) indexer: Indexer,
    pub(crate) report: OpenReport,
    /// Chunks that were open and are not to be appended to any more.
    pub(crate) to_close: Vec<(u64, u32)>,
}

/// Brings the index up to what is on the drives. With `rebuild`, from nothing, or from a backup if `use_backup`.
pub(crate) async fn open(
    runtime: &Runtime,
    drives: Vec<Drive>,
    index: Arc<dyn Index>,
    options: &Options,
    rebuild: Option<Rebuild>,
    mut progress: Option<ProgressFn>,
) -> StoreResult<Opened> {
    if drives.is_empty() {
        return Err(invalid("an object store needs at least one drive"));
    }
    let stores: BTreeSet<u64> = drives.iter().map(|drive| drive.store.0).collect();
    if stores.len() != drives.len() {
        return Err(invalid("a drive is named twice, or one is a copy of another"));
    }
    let inventory = Inventory::take(&drives).await?;
    let owner = with_index(runtime, &index, |index| Ok(Owner::of(index.as_ref()))).await?;
    let lists_loose = matches!(&owner, Ok(Some(owner)) if owner.lists_loose);
    let verdict = trust::judge(&inventory, &owner, &stores, rebuild.is_some())?;
    let set = verdict.set.unwrap_or_else(|| (runtime.random() as u32).max(1));
    let known = options.known_drives.iter().map(|store| store.0).chain(verdict.stores);
    let mut missing: BTreeSet<u64> = known.filter(|store| !stores.contains(store)).collect();
    refuse_missing(&missing, options)?;
    let mut refused = verdict.refused;
    let mut trusted = verdict.trust == Trust::Keep;
    let indexer = if trusted {
        let loaded = with_index(runtime, &index, |index| Indexer::load(index.clone())).await?;
        match trust::compare(&inventory, loaded.files(), &stores) {
            Ok(()) => Some(loaded),
            Err(why) => {
                refused = Some(why);
                trusted = false;
                None
            }
        }
    } else {
        None
    };
    let mut origin = IndexOrigin::Kept;
    let indexer = match indexer {
        Some(indexer) => indexer,
        None => {
            with_index(runtime, &index, |index| empty(index.as_ref())).await?;
            origin = if inventory.files.is_empty() { IndexOrigin::New } else { IndexOrigin::Scan };
            let from_backup = rebuild.is_none_or(|rebuild| rebuild.use_backup);
            if from_backup && restore_newest(runtime, &inventory, &drives, &index, set).await? {
                origin = IndexOrigin::Backup;
            }
            let loaded = with_index(runtime, &index, |index| Indexer::load(index.clone())).await?;
            // A backup knows drives by its files; of one it knew and that is not there, objects are lost, not deleted.
            let known = loaded.files().values().map(|record| record.store);
            missing.extend(known.filter(|store| !stores.contains(store)));
            loaded
        }
    };
    refuse_missing(&missing, options)?;
    let mut all = stores.clone();
    all.extend(&missing);
    let (indexer, short) = scan::match_files(runtime, &index, indexer, &inventory, &stores, &drives).await?;
    let (indexer, mut found) = scan::tails(runtime, &index, indexer, &inventory, &drives, set, &mut progress).await?;
    let again = found.damage.iter().any(|damage| damage.again);
    let (mut given_up, mut damage): (Vec<_>, Vec<_>) =
        found.damage.drain(..).partition(|damage| is_given_up(damage, &drives, options));
    let incomplete = !missing.is_empty() || again || drives.iter().any(|drive| drive.hides);
    let keep = if incomplete { vec![Command::KeepGraves] } else { Vec::new() };
    let group = Group { commands: keep, ..Group::default() };
    let (indexer, _) = with_indexer(runtime, &index, indexer, move |indexer| indexer.apply(group)).await?;
    let extent = Extent { rebuilt: !trusted, incomplete, lists_loose: trusted && lists_loose };
    let (indexer, finished) =
        with_indexer(runtime, &index, indexer, move |indexer| indexer.finish_recovery(extent)).await?;
    let (indexer, mut dead) = with_indexer(runtime, &index, indexer, |indexer| indexer.dead_blobs()).await?;
    if incomplete {
        // The commit that needs one may be among what was not seen.
        dead.clear();
    }
    // Last of all: an index without an owner is one whose making was interrupted, and is made again.
    let owner = Owner { set, stores: all.into_iter().collect(), lists_loose: true };
    let (indexer, ()) = with_indexer(runtime, &index, indexer, move |indexer| indexer.set_owner(&owner)).await?;
    let buckets = with_index(runtime, &index, |index| buckets(index.as_ref())).await?;

    let highest = found.highest.max(inventory.highest_file()).max(indexer.totals().sequence);
    let jump = if trusted && !incomplete { JUMP } else { JUMP_FAR };
    let states: Vec<DriveState> =
        drives.iter().map(|drive| DriveState::new(drive.client.clone(), drive.store, options.reserve_bytes)).collect();
    let unread = (&damage[..], &given_up[..]);
    let (files, to_close) = inventory.engine_files(indexer.files(), &drives, options, unread, trusted);
    damage.extend(short);
    damage.iter_mut().chain(&mut given_up).for_each(|damage| damage.drive = options.name_of(damage.store));
    let mut backup = BackupState::default();
    for file in inventory.backups.values() {
        match crate::backup::pieces_of(&drives[file.drive].client, file, set).await {
            Ok(_) => backup.complete.push(file.clone()),
            Err(error) if error.is_final() => backup.broken.push(file.clone()),
            Err(error) => {
                tracing::warn!(backup = file.number, %error, "an index backup cannot be read now, and is left alone");
            }
        }
    }
    let report = OpenReport {
        set,
        index: origin,
        index_refused: refused,
        files: inventory.files.len() as u64,
        chunks: inventory.chunks,
        foreign_chunks: inventory.foreign,
        entries: found.entries,
        bytes: found.bytes,
        missing_drives: missing.into_iter().map(StoreId).collect(),
        damage,
        given_up,
        incomplete,
        abandoned_writes: finished.orphan_blobs,
        implied_buckets: finished.implied_buckets,
    };
    let recovered = Recovered {
        set,
        drives: states,
        files,
        totals: indexer.totals(),
        sequence: highest + 1 + jump,
        names: Names::new(buckets),
        dead_blobs: dead.into_iter().collect(),
        backup,
        incomplete,
    };
    Ok(Opened { recovered, indexer, report, to_close })
}

/// True if the opening gives a place up: its drive gave all else that it has, and the place was shown to whoever accepted that, or will not
/// be read another time (OS-REC-5).
fn is_given_up(damage: &Damage, drives: &[Drive], options: &Options) -> bool {
    let Damage { store, place, again, .. } = damage;
    let hides = drives.iter().any(|drive| drive.store == *store && drive.hides);
    !hides && options.accept_loss.contains_key(store) && (!again || options.accepts(*store, place))
}

/// Empties the index. Its owner goes first, durably: whatever a power cut leaves of the rest, nobody will trust it.
fn empty(index: &dyn Index) -> IndexResult<()> {
    let changes = vec![(Space::About, crate::keys::ABOUT_OWNER.to_vec(), None)];
    index.apply(Batch { changes })?;
    index.persist()?;
    index.clear()
}

/// Fails if a drive is missing, or may be.
fn refuse_missing(missing: &BTreeSet<u64>, options: &Options) -> StoreResult<()> {
    if missing.is_empty() || options.allow_missing_drives {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|store| StoreId(*store).to_string()).collect();
    let text = format!("drives that hold a part of the store are missing: {}", names.join(", "));
    Err(StoreError::new(StoreErrorKind::Device, text))
}

/// Parameters of a rebuild of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rebuild {
    pub(crate) use_backup: bool,
}

/// Loads the newest backup that is whole into the empty index.
async fn restore_newest(
    runtime: &Runtime,
    inventory: &Inventory,
    drives: &[Drive],
    index: &Arc<dyn Index>,
    set: u32,
) -> StoreResult<bool> {
    for file in inventory.backups.values().rev() {
        let BackupFile { number, drive, .. } = *file;
        match crate::backup::restore(&drives[drive].client, file, set, index, runtime).await {
            Ok(records) => {
                tracing::info!(backup = number, records, "loaded an index backup");
                return Ok(true);
            }
            Err(crate::backup::BackupError::Index(error)) => return Err(from_index(error)),
            Err(error) => {
                tracing::warn!(backup = number, %error, "an index backup cannot be used");
                with_index(runtime, index, |index| empty(index.as_ref())).await?;
            }
        }
    }
    Ok(false)
}

/// Buckets and when they were created.
fn buckets(index: &dyn Index) -> IndexResult<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    let mut bad = None;
    index.scan(Space::Buckets, b"", &mut |key, value| {
        let record = Item::decode(&value).and_then(|item| BucketRecord::decode(&item.payload));
        match (std::str::from_utf8(key), record) {
            (Ok(name), Ok(record)) => drop(found.insert(name.to_owned(), record.created_unix_ns)),
            (_, Err(error)) => bad = Some(error),
            (Err(_), _) => bad = Some(crate::wire::Malformed("bucket name")),
        }
        if bad.is_none() { Step::Next } else { Step::Stop }
    })?;
    bad.map_or(Ok(found), |error| Err(spoilt(error)))
}
