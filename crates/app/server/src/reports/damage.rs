//! Known damage in an engine: from the last check, and from readers since.
//!
//! # Invariants
//! - SV-DMG-1: an object that was overwritten or deleted is not damaged any more, and a whole check replaces all earlier
//!   findings.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use shingle_store_api::{
    Commit, Finding, ObjectInfo, ObjectReader, ObjectWriter, StoreErrorKind, StoreFuture, StoreResult,
};
use std::sync::Arc;

/// Objects whose names are remembered: a lost drive damages millions.
const NAMES_MAX: usize = 10_000;

/// Bucket and key.
type Name = (String, String);

/// Known damage of an engine.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    names: Mutex<BTreeSet<Name>>,
    /// Number of names: a check for damage need not lock.
    count: AtomicU64,
    /// Places of damage in the last check.
    places: AtomicU64,
}

impl Damage {
    fn names(&self) -> MutexGuard<'_, BTreeSet<Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Damaged objects whose names are remembered.
    pub(crate) fn objects(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Places of damage in the last check.
    pub(crate) fn places(&self) -> u64 {
        self.places.load(Relaxed)
    }

    /// Notes it if a reader met damage.
    pub(crate) fn met<T>(&self, bucket: &str, key: &str, result: &StoreResult<T>) {
        if result.as_ref().is_err_and(|error| error.kind == StoreErrorKind::Corrupt) {
            let mut names = self.names();
            if names.len() < NAMES_MAX {
                names.insert((bucket.to_owned(), key.to_owned()));
            }
            self.count.store(names.len() as u64, Relaxed);
        }
    }

    /// The object is another one, or none. (SV-DMG-1)
    pub(crate) fn gone(&self, bucket: &str, key: &str) {
        if self.objects() > 0 {
            let mut names = self.names();
            names.remove(&(bucket.to_owned(), key.to_owned()));
            self.count.store(names.len() as u64, Relaxed);
        }
    }

    /// Verifying in the background found objects that have lost something.
    pub(crate) fn found(&self, found: impl IntoIterator<Item = Name>) {
        let mut names = self.names();
        let room = NAMES_MAX.saturating_sub(names.len());
        names.extend(found.into_iter().take(room));
        self.count.store(names.len() as u64, Relaxed);
    }

    /// A check found damage at `places` places, in these objects if it can tell; a `full` one reads the same bytes as
    /// readers. (SV-DMG-1)
    pub(crate) fn checked(&self, full: bool, found: impl IntoIterator<Item = Name>, places: u64) {
        let (mut names, mut found) = (self.names(), found.into_iter().peekable());
        if full {
            self.places.store(places, Relaxed);
            if places == 0 || found.peek().is_some() {
                names.clear();
            }
        }
        names.extend(found);
        self.count.store(names.len() as u64, Relaxed);
    }
}

/// Names of the objects that findings touch.
pub(crate) fn names_of(findings: &[Finding]) -> impl Iterator<Item = Name> {
    findings.iter().flat_map(|finding| &finding.objects.first).filter_map(|named| named.object.clone())
}

/// A reader whose failures are noted.
pub(crate) struct NotedReader {
    pub(crate) reader: Box<dyn ObjectReader>,
    pub(crate) damage: Arc<Damage>,
    pub(crate) name: Name,
}

impl ObjectReader for NotedReader {
    fn info(&self) -> &ObjectInfo {
        self.reader.info()
    }

    fn read(&self, offset: u64, length: u64) -> StoreFuture<'_, Bytes> {
        Box::pin(async move {
            let read = self.reader.read(offset, length).await;
            self.damage.met(&self.name.0, &self.name.1, &read);
            read
        })
    }
}

/// A writer that replaces an object that may be damaged.
pub(crate) struct NotedWriter {
    pub(crate) writer: Box<dyn ObjectWriter>,
    pub(crate) damage: Arc<Damage>,
    pub(crate) name: Name,
}

impl ObjectWriter for NotedWriter {
    fn expect(&mut self, length: u64) {
        self.writer.expect(length);
    }

    fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()> {
        self.writer.write(data)
    }

    fn commit(self: Box<Self>, commit: Commit) -> StoreFuture<'static, ObjectInfo> {
        Box::pin(async move {
            let info = self.writer.commit(commit).await?;
            self.damage.gone(&self.name.0, &self.name.1);
            Ok(info)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_store_api::StoreError;

    /// SV-DMG-1.
    #[test]
    fn what_is_replaced_or_found_well_is_not_damaged_any_more() {
        let damage = Damage::default();
        let failed = |kind| Err::<(), _>(StoreError::new(kind, "x"));
        damage.met("b", "k", &failed(StoreErrorKind::Unavailable));
        assert_eq!(damage.objects(), 0);
        for key in ["k", "k", "l"] {
            damage.met("b", key, &failed(StoreErrorKind::Corrupt));
        }
        assert_eq!(damage.objects(), 2);
        damage.gone("b", "k");
        damage.gone("other", "l");
        assert_eq!((damage.objects(), damage.places()), (1, 0));
        damage.checked(false, [], 0);
        assert_eq!(damage.objects(), 1, "a quick check reads nothing");
        damage.checked(true, [("b".to_owned(), "m".to_owned())], 3);
        assert_eq!((damage.objects(), damage.places()), (1, 3));
        damage.checked(true, [], 2);
        assert_eq!((damage.objects(), damage.places()), (1, 2), "it could tell no names");
        damage.found([("b".to_owned(), "n".to_owned())]);
        assert_eq!(damage.objects(), 2);
        damage.checked(true, [], 0);
        assert_eq!((damage.objects(), damage.places()), (0, 0));
        for number in 0..NAMES_MAX + 5 {
            damage.met("b", &number.to_string(), &failed(StoreErrorKind::Corrupt));
        }
        assert_eq!(damage.objects(), NAMES_MAX as u64);
    }
}
