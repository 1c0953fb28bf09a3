//! Pins of files, taken and released on any thread.
//!
//! **Owns** how many readers need a file, and whether it is going. **Knows nothing of** what is in it.
//!
//! # Invariants
//! - OS-PIN-1: a file that is going takes no pin, and GC finds every pin that was taken before it went: both are one word.
//!   `a_file_that_is_going_takes_no_pin`, `pins_and_goings_that_race_never_both_win`.
//! - OS-PIN-2: the engine hears of the last pin of a file that is going. `the_last_pin_of_a_file_that_is_going_is_heard_of`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use shingle_chunk_store::{ChunkId, Stream};
use tokio::sync::mpsc;

use crate::format::ChunkName;

/// The bit of a file that is going; the rest counts pins.
const GOING: u64 = 1 << 63;

/// Word of a front end's reader or writer that is dropped.
#[derive(Clone, Debug)]
pub(crate) enum Release {
    /// No reader needs a file any more that is going.
    File,
    /// A reader no longer needs blobs.
    Blobs(Vec<u64>),
    /// A writer has given up its blob, having sent so many segments.
    Writer { blob: u64, sent: u32 },
}

/// A file as readers see it.
#[derive(Debug)]
pub(crate) struct Pinnable {
    number: u64,
    /// Its drive's place in the engine's list; none if the drive is missing.
    pub(crate) drive: Option<usize>,
    stream: Stream,
    word: AtomicU64,
}

impl Pinnable {
    pub(crate) fn new(number: u64, drive: Option<usize>, stream: Stream, going: bool) -> Arc<Self> {
        Arc::new(Self { number, drive, stream, word: AtomicU64::new(if going { GOING } else { 0 }) })
    }

    /// One of its chunks, in the store set `set`.
    pub(crate) fn chunk(&self, ordinal: u32, set: u32) -> ChunkId {
        ChunkName { file: self.number, ordinal, stream: self.stream, set }.id()
    }

    /// Adds a pin, unless it is going.
    pub(crate) fn pin(&self) -> bool {
        let add = |word: u64| (word & GOING == 0).then_some(word + 1);
        self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
    }

    /// Takes a pin away; whether it was the last one of a file that is going.
    pub(crate) fn unpin(&self) -> bool {
        self.word.fetch_sub(1, Ordering::AcqRel) == GOING + 1
    }

    /// From now on it takes no pins; or it does again.
    pub(crate) fn set_going(&self, going: bool) {
        if going {
            self.word.fetch_or(GOING, Ordering::AcqRel);
        } else {
            self.word.fetch_and(!GOING, Ordering::AcqRel);
        }
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.word.load(Ordering::Acquire) & !GOING != 0
    }
}

/// A file that GC leaves where it is.
pub(crate) struct Pin {
    pub(crate) file: Arc<Pinnable>,
    releases: mpsc::UnboundedSender<Release>,
}

impl Drop for Pin {
    fn drop(&mut self) {
        if self.file.unpin() {
            // The engine may have stopped.
            let _ = self.releases.send(Release::File);
        }
    }
}

/// The files of a store by number, for whoever reads.
#[derive(Debug, Default)]
pub(crate) struct Pinnables(RwLock<BTreeMap<u64, Arc<Pinnable>>>);

impl Pinnables {
    pub(crate) fn insert(&self, file: Arc<Pinnable>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(file.number, file);
    }

    pub(crate) fn remove(&self, number: u64) {
        let gone = self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&number);
        if let Some(file) = gone {
            file.set_going(true);
        }
    }

    pub(crate) fn find(&self, number: u64) -> Option<Arc<Pinnable>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// Keeps a file's chunks until the pin is dropped; none if it is gone or going: what was in it has moved.
    pub(crate) fn pin(&self, number: u64, releases: &mpsc::UnboundedSender<Release>) -> Option<Pin> {
        let file = self.find(number)?;
        file.pin().then(|| Pin { file, releases: releases.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> (Pinnables, Arc<Pinnable>, mpsc::UnboundedSender<Release>, mpsc::UnboundedReceiver<Release>) {
        let (files, file) = (Pinnables::default(), Pinnable::new(7, Some(0), Stream::Data, false));
        files.insert(file.clone());
        let (releases, released) = mpsc::unbounded_channel();
        (files, file, releases, released)
    }

    /// OS-PIN-1.
    #[test]
    fn a_file_that_is_going_takes_no_pin() {
        let (files, file, releases, _released) = one();
        let pin = files.pin(7, &releases).unwrap();
        assert!(files.pin(8, &releases).is_none() && file.is_pinned());
        file.set_going(true);
        assert!(files.pin(7, &releases).is_none() && file.is_pinned());
        drop(pin);
        assert!(!file.is_pinned());
        file.set_going(false);
        drop(files.pin(7, &releases).unwrap());
        files.remove(7);
        assert!(files.pin(7, &releases).is_none());
        assert!(!file.pin(), "who found it before it went gets no pin");
    }

    /// OS-PIN-2.
    #[test]
    fn the_last_pin_of_a_file_that_is_going_is_heard_of() {
        let (files, file, releases, mut released) = one();
        let pins = [(); 2].map(|()| files.pin(7, &releases).unwrap());
        drop(files.pin(7, &releases).unwrap());
        file.set_going(true);
        let [first, last] = pins;
        drop(first);
        assert!(released.try_recv().is_err());
        drop(last);
        assert!(matches!(released.try_recv(), Ok(Release::File)));
    }

    /// OS-PIN-1, on threads.
    #[test]
    fn pins_and_goings_that_race_never_both_win() {
        for _ in 0..300 {
            let (files, file, releases, _released) = one();
            std::thread::scope(|scope| {
                let reader = scope.spawn(|| files.pin(7, &releases));
                file.set_going(true);
                let pinned = file.is_pinned();
                // Taken before it went, and then GC sees it; or not at all.
                let pin = reader.join().unwrap();
                assert_eq!(pin.is_some(), pinned);
                assert!(files.pin(7, &releases).is_none());
            });
        }
    }
}
