//! Opening an array: what is on its drives, in its buffer and in its index becomes one state, and is durable before it
//! is shown.
//!
//! # Invariants
//! - AS-LOSS-2: an accepted loss of the drives with the newest superblocks outlasts them: should they come back, all that they
//!   hold is older than what the array has written since.

use std::path::PathBuf;

use shingle_runtime::Runtime;

use crate::buffer::{Attached, BufferFiles, RING_MAX, RING_MIN, Wanted, open_file, open_to_read, two_files};
use crate::config::Options;
use crate::drives::Drives;
use crate::drives::verdict::enough;
use crate::engine::{Engine, Parts};
use crate::error::{Error, ErrorKind, Result};
use crate::eviction::most_lacking;
use crate::format::{BufferName, Superblock};
use crate::given::{ArrayDrive, IndexPlace};
use crate::index::{Index, Moment};
use crate::recovery::gather::{Gathered, gather};
use crate::recovery::recover::RecoveryReport;
use crate::store::ArrayStore;
use crate::types::DriveSet;

impl ArrayStore {
    /// Opens an array: from its index if that was left clean, else from the newest snapshot and what was written since.
    /// Drives that are missing, as long as parity makes up for them, are done without from then on; not if it is opened
    /// for reading only ([`Options::read_only`]), which writes nothing on the drives, and does with however few there
    /// are.
    ///
    /// # Errors
    /// `Format`, `Invalid`, `Device`, `Index`; `Corrupt` where something that recovery needs cannot be read, unless
    /// that is accepted ([`Options::accept_loss`]).
    pub async fn open(
        rt: &Runtime,
        drives: &[ArrayDrive],
        place: &IndexPlace,
        options: Options,
    ) -> Result<(Self, RecoveryReport)> {
        if let Some(files) = &options.buffer {
            two_files(files)?;
        }
        let files = match &options.buffer {
            None => None,
            Some(paths) if options.read_only => Some(BufferFiles(paths.each_ref().map(|path| open_to_read(rt, path)))),
            Some([first, second]) => {
                let open = |path: &PathBuf| {
                    open_file(rt, path).map_err(|error| {
                        let message = format!(
                            "the buffer's file {} cannot be used: {error}. Bring it back, or name another file in its \
                             place, which gets what the other one holds",
                            path.display()
                        );
                        Error::caused(ErrorKind::Device, message, error)
                    })
                };
                Some(BufferFiles([open(first)?, open(second)?]))
            }
        };
        Self::open_with_buffer(rt, drives, place, options, files).await
    }

    /// As [`open`](Self::open), with the buffer's files already open.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with_buffer(
        rt: &Runtime,
        drives: &[ArrayDrive],
        place: &IndexPlace,
        options: Options,
        files: Option<BufferFiles>,
    ) -> Result<(Self, RecoveryReport)> {
        if !(RING_MIN..=RING_MAX).contains(&options.buffer_bytes) {
            return Err(Error::new(ErrorKind::Invalid, "a buffer has between 32 KiB and 2 GiB"));
        }
        let mut gathered = gather(rt, drives, options.hung_after).await?;
        let careful = !options.read_only && !options.accept_loss;
        let mut lacks = gathered.is_newest().err();
        let unseen = lacks.is_some();
        if careful && let Some(error) = lacks {
            return Err(error);
        }
        let ids = if options.read_only { &[][..] } else { &options.readmit };
        let mut readmitted = gathered.readmit(ids)?;
        let Gathered { superblock, drives, superblocks, reports, .. } = gathered;
        if readmitted.is_empty() {
            // Before anything is touched, the index too.
            let found = enough(&drives, superblock.code, superblock.copies, lacking(&superblock, &drives));
            if careful {
                found?;
            } else {
                lacks = lacks.or(found.err());
            }
        }
        // Objects read from the buffer must not stay in an index that is left as it was.
        let aside = options.read_only && superblock.buffer.id != 0;
        let place = if aside { &IndexPlace::Memory } else { place };
        let clean = superblock.clean.map(|generation| Moment { array: superblock.array, generation });
        let (index, clean) = open_index(place, clean)?;
        let (read_only, background) = (options.read_only, options.background);
        // Reading goes on without whatever is not there.
        let abandon = options.abandon_buffer || options.read_only && lacks.is_some();
        let buffer = Wanted { named: superblock.buffer, abandon, unseen };
        let (generation, ordered) = (superblock.clean.filter(|_| clean), superblock.clean.is_some());
        let parts =
            Parts { rt: rt.clone(), options, superblock, drives, superblocks, index, index_place: place.clone() };
        let engine = Engine::new(parts);
        engine.oversee_drives();
        engine.lifecycle.opened_clean.set(generation);
        for drive in &mut readmitted {
            engine.adopt(drive, &reports).await;
        }
        match careful {
            true => engine.enough_is_there()?,
            false => engine.accept_missing(),
        }
        let mut report = engine.recover(&reports, clean, ordered).await?;
        // Missing records may be newer than the found ones, or deletions.
        if let Some(lacks) = lacks {
            report.damaged(lacks.message, !engine.drives.is_known_failed());
        }
        if read_only {
            if buffer.named.id != 0 {
                let Attached { notes, damage, .. } = engine.attach_buffer(files, buffer).await?;
                report.buffer = notes;
                report.damage.extend(damage);
                report.objects = engine.objects()?;
            }
            if !report.damage.is_empty() {
                // Not to be remembered, and true all the same. (AS-LOSS-1)
                engine.superblock.lost_before.set(engine.stamps.next());
            }
            return Ok((Self(engine), report));
        }
        engine.buffering.named.set(BufferName::default());
        let Attached { notes, damage, unsaid } = engine.attach_buffer(files, buffer).await?;
        report.buffer = notes;
        let gaps = !damage.is_empty();
        report.damage.extend(damage);
        report.objects = engine.objects()?;
        if unseen {
            engine.stamps.leave_unseen_behind();
        }
        engine.superblock.opened.set(engine.stamps.next());
        if !report.damage.is_empty() {
            engine.superblock.lost_before.set(engine.superblock.opened.get());
        }
        // Of two openings neither of which saw the other's superblock, the later one's counts.
        engine.superblock.generation.set(engine.superblock.generation.get().max(engine.superblock.opened.get()));
        if !ordered {
            // The process before may have been killed with all of it in caches: what was found is durable before it is
            // shown, and before a superblock counts on it. (AS-REC-6)
            let usable = engine.drives.all_usable();
            engine.superblock.unflushed.add(usable.iter().map(|(id, _)| *id));
        }
        // From here on the index on flash is no longer that of the clean close. Nothing is appended before: where
        // recovery ended sets is durable only with this (AS-EXAM-3).
        match readmitted.is_empty() {
            true => engine.write_superblock(None).await?,
            false => engine.write_superblock_everywhere().await?,
        }
        report.readmitted = readmitted;
        engine.seal_torn().await;
        engine.unneeded.take().into_iter().for_each(|open| engine.close_set(open));
        engine.finish_left(&reports).await;
        // Deletions that a power cut kept from the buffer's log: their tombstones may be gone by the next opening
        // (AS-BUF-3).
        engine.bury_buffered(&unsaid).await?;
        if gaps {
            engine.leave_gaps().await;
        }
        engine.replenish(&DriveSet::EMPTY).await?;
        engine.lifecycle.serving.set(true);
        if background {
            (0..engine.cleaners.most()).for_each(|others| rt.spawn_detached(engine.clone().keep_sets_free(others)));
            rt.spawn_detached(engine.clone().keep_snapshots());
            rt.spawn_detached(engine.clone().mend());
            rt.spawn_detached(engine.clone().repair_after_reads());
            if let Some(long) = engine.options.slow_for_most {
                rt.spawn_detached(engine.clone().give_up_slow(long));
            }
            rt.spawn_detached(engine.clone().flush_aged());
        }
        Ok((Self(engine), report))
    }
}

/// Largest number of drives that a set of a superblock lacks.
fn lacking(superblock: &Superblock, drives: &Drives) -> usize {
    let sets = superblock.sets.iter().flatten().map(|set| (set.state, &set.members));
    most_lacking(sets, drives.unusable())
}

/// The index, and whether it is that of the clean close which the superblock names.
fn open_index(place: &IndexPlace, clean: Option<Moment>) -> Result<(Index, bool)> {
    if let (IndexPlace::File(path), Some(moment)) = (place, clean)
        && let Some(index) = Index::open_clean(path, moment).map_err(Error::index)?
    {
        return Ok((index, true));
    }
    Ok((place.fresh()?, false))
}
