//! Going through a file's entries: they are judged, and copied where they are needed.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_chunk_store::ErrorKind;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

use super::{Claim, Effort};
use crate::drives::Class;
use crate::engine::Core;
use crate::errors::from_chunk;
use crate::files::{Log, LogFile};
use crate::format::{Entry, Sealed};
use crate::indexer::{Command, Effect};
use crate::records::Location;
use crate::scan::{Next, Scanned, Scanner};

/// Entries judged at a time.
const JUDGE_MAX: usize = 128;
/// Bytes copied in one append, unless an entry alone is longer.
const COPY_BYTES: u64 = 1 << 20;

impl Core {
    /// Goes through a file's entries, and copies the needed ones if `copy`. Returns true if all could be read.
    pub(super) async fn walk(self: &Rc<Self>, claim: &Claim<'_>, effort: Effort, copy: bool) -> StoreResult<bool> {
        let number = claim.file;
        let chunks: Vec<u32> = match self.files.borrow().get(number) {
            Some(file) => file.closed.keys().copied().chain(file.tail.map(|tail| tail.ordinal)).collect(),
            None => return Ok(true),
        };
        // Nothing in it is needed: it can go unread.
        let needless = |file: &LogFile| file.record.live_bytes == 0;
        if self.files.borrow().get(number).is_some_and(needless) {
            return Ok(true);
        }
        let mut whole = true;
        for ordinal in chunks {
            whole &= self.walk_chunk(claim, ordinal, effort, copy).await?;
        }
        Ok(whole)
    }

    async fn walk_chunk(
        self: &Rc<Self>,
        claim: &Claim<'_>,
        ordinal: u32,
        effort: Effort,
        copy: bool,
    ) -> StoreResult<bool> {
        let Some((client, name)) = self.chunk_of(claim.file, ordinal) else { return Ok(false) };
        let size = match client.stat(name.id()).await {
            Ok(stat) => stat.size,
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(from_chunk(error)),
        };
        let mut scanner = Scanner::new(client, name, 0, size);
        let (mut whole, mut ended) = (true, false);
        let mut copies = Copies::of(claim.collector);
        while !ended {
            let began = (self.runtime.now(), scanner.read, copies.total);
            let mut found: Vec<(Scanned, Option<Bytes>)> = Vec::new();
            while found.len() < JUDGE_MAX {
                let next = scanner.next().await.map_err(from_chunk)?;
                self.gc_goes_on(claim);
                match next {
                    Next::Entry(scanned) => {
                        let data = scanner.buffered(&scanned.location);
                        found.push((scanned, data));
                    }
                    Next::Damage { from, to, why, .. } => {
                        tracing::warn!(chunk = %name.id(), from, to, why, "GC cannot read a part of a chunk");
                        whole = false;
                    }
                    Next::End => {
                        ended = true;
                        break;
                    }
                }
            }
            let judge = |(scanned, _): &(Scanned, Option<Bytes>)| Command::Judge {
                version: scanned.version,
                body: scanned.body.clone(),
                location: scanned.location,
                collecting: true,
            };
            let effects = self.submit(found.iter().map(judge).collect()).await?;
            for ((scanned, data), effect) in found.into_iter().zip(effects) {
                if !copy || effect != Effect::Needed(true) {
                    continue;
                }
                let data = match data {
                    Some(data) => data,
                    None => match scanner.data(&scanned.location).await {
                        Ok(data) => data,
                        Err(error) => {
                            tracing::warn!(%error, chunk = %name.id(), "GC cannot read an entry that is needed");
                            whole = false;
                            continue;
                        }
                    },
                };
                self.copy(&mut copies, scanned, data).await?;
                self.gc_goes_on(claim);
            }
            if effort == Effort::Background {
                let bytes = (scanner.read - began.1) + (copies.total - began.2);
                self.throttle(began.0, bytes).await;
            }
        }
        self.flush(&mut copies).await?;
        Ok(whole)
    }

    /// Adds an entry to the next append of copies.
    async fn copy(self: &Rc<Self>, copies: &mut Copies, scanned: Scanned, data: Bytes) -> StoreResult<()> {
        let entry = Entry { version: scanned.version, body: scanned.body };
        let data = if data.is_empty() { Vec::new() } else { vec![data] };
        let sealed = Sealed::new(entry, data)
            .map_err(|error| StoreError::caused(StoreErrorKind::Corrupt, error.to_string(), error))?;
        let length = sealed.length();
        let most =
            self.drives.borrow().iter().filter_map(|drive| drive.room).min().unwrap_or(COPY_BYTES).min(COPY_BYTES);
        if !copies.entries.is_empty() && copies.bytes + length > most {
            self.flush(copies).await?;
        }
        copies.bytes += length;
        copies.entries.push(sealed);
        copies.from.push(scanned.location);
        Ok(())
    }

    /// Appends the copies, and has the index point to them.
    async fn flush(self: &Rc<Self>, copies: &mut Copies) -> StoreResult<()> {
        let rest = Copies { total: copies.total + copies.bytes, ..Copies::of(copies.collector) };
        let Copies { collector, entries, from, bytes, .. } = std::mem::replace(copies, rest);
        if entries.is_empty() {
            return Ok(());
        }
        let appended = self.append(Log::Collector(collector), Class::System, &entries).await?;
        let moves = entries.into_iter().zip(from).zip(appended.locations).map(|((sealed, from), to)| Command::Move {
            version: sealed.entry.version,
            body: sealed.entry.body,
            from,
            to,
        });
        self.submit_entries(moves.collect(), vec![appended.settle]).await?;
        self.gc.gained.set(self.gc.gained.get() - bytes as i64);
        self.stats.borrow_mut().gc_copied_bytes += bytes;
        Ok(())
    }

    /// Sleeps so that `bytes` since `began` keep to the rate, unless space is short.
    async fn throttle(&self, began: shingle_runtime::Instant, bytes: u64) {
        let gc = &self.options.gc;
        let scarce = self.drives.borrow().iter().any(|drive| drive.free_fraction() < gc.free_fraction_low);
        if scarce || self.gc.waiting.get() > 0 || gc.rate_bytes_per_s == 0 {
            return;
        }
        let due = Duration::from_secs_f64(bytes as f64 / gc.rate_bytes_per_s as f64);
        let spent = self.runtime.now().since(began);
        if due > spent {
            self.runtime.sleep(due - spent).await;
        }
    }
}

/// Entries for the next append.
struct Copies {
    collector: u64,
    entries: Vec<Sealed>,
    from: Vec<Location>,
    bytes: u64,
    /// Bytes of all appends so far.
    total: u64,
}

impl Copies {
    fn of(collector: u64) -> Self {
        Self { collector, entries: Vec::new(), from: Vec::new(), bytes: 0, total: 0 }
    }
}
