use super::*;
use crate::index::MemoryIndex;

fn change(index: &Recent, key: &[u8], row: Option<&[u8]>) {
    let changes = vec![(Space::Objects, key.to_vec(), row.map(<[u8]>::to_vec))];
    index.apply(Batch { changes }).unwrap();
}

/// An index that does something in the middle of a call.
struct Between<F>(MemoryIndex, Mutex<Option<F>>);

impl<F: FnOnce(bool) + Send> Between<F> {
    /// Done once: before what is read is returned (`false`), or once a batch is half done (`true`).
    fn between(&self, applying: bool) {
        let work = self.1.lock().unwrap().take();
        if let Some(work) = work {
            work(applying);
        }
    }
}

impl<F: FnOnce(bool) + Send> View for Between<F> {
    fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        let found = self.0.get(space, key);
        self.between(false);
        found
    }

    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
        self.0.scan(space, from, visit)
    }
}

impl<F: FnOnce(bool) + Send> Index for Between<F> {
    fn apply(&self, batch: Batch) -> IndexResult<()> {
        let applied = self.0.apply(batch);
        self.between(true);
        applied
    }

    fn persist(&self) -> IndexResult<()> {
        self.0.persist()
    }

    fn revive(&self) -> IndexResult<()> {
        self.0.revive()
    }

    fn clear(&self) -> IndexResult<()> {
        self.0.clear()
    }

    fn snapshot(&self) -> IndexResult<Box<dyn View>> {
        self.0.snapshot()
    }

    fn blocks(&self) -> bool {
        false
    }
}

#[test]
fn rows_that_were_written_or_read_are_found_and_those_removed_are_not() {
    let below = MemoryIndex::new();
    let index = Recent::new(Arc::new(below.clone()), 1 << 20);
    assert_eq!(index.row(b"a"), None);
    change(&index, b"a", Some(b"1"));
    assert_eq!(index.row(b"a").unwrap(), "1");
    change(&index, b"a", Some(b"2"));
    assert_eq!(index.row(b"a").unwrap(), "2");
    // Read, and not asked for again.
    index.rows.forget();
    assert_eq!((index.row(b"a"), index.get(Space::Objects, b"a").unwrap().unwrap()), (None, Bytes::from("2")));
    below.fail_reads(true);
    assert_eq!(index.get(Space::Objects, b"a").unwrap().unwrap(), "2");
    assert!(index.get(Space::Segments, b"a").is_err(), "only rows of objects are kept");
    below.fail_reads(false);
    change(&index, b"a", None);
    assert_eq!((index.row(b"a"), index.get(Space::Objects, b"a").unwrap()), (None, None));
    // Of two changes in one batch the later counts.
    let twice = |last: Option<&[u8]>| {
        let change = |row: Option<&[u8]>| (Space::Objects, b"b".to_vec(), row.map(<[u8]>::to_vec));
        index.apply(Batch { changes: vec![change(Some(b"1")), change(last)] }).unwrap();
        index.row(b"b")
    };
    assert_eq!((twice(Some(b"2")), twice(None)), (Some(Bytes::from("2")), None));
}

/// OS-ROW-1: a row that was read before a batch changed it does not get in behind it, and while a batch is applied there is
/// neither the old row nor the new one.
#[test]
fn no_row_is_older_than_one_that_was_seen() {
    // A batch that comes in the middle of a read.
    type Work = Box<dyn FnOnce(bool) + Send>;
    let below = Arc::new(Between::<Work>(MemoryIndex::new(), Mutex::default()));
    let index = Recent::new(below.clone(), 1 << 20);
    change(&index, b"a", Some(b"old"));
    index.rows.forget();
    let changed = index.clone();
    *below.1.lock().unwrap() = Some(Box::new(move |_| change(&changed, b"a", Some(b"new"))));
    assert_eq!(index.get(Space::Objects, b"a").unwrap().unwrap(), "old");
    assert_eq!(index.row(b"a").unwrap(), "new");
    index.rows.forget();
    let changed = index.clone();
    *below.1.lock().unwrap() = Some(Box::new(move |_| change(&changed, b"a", None)));
    assert_eq!(index.get(Space::Objects, b"a").unwrap().unwrap(), "new");
    assert_eq!(index.row(b"a"), None);
    // A read that comes in the middle of a batch.
    change(&index, b"a", Some(b"old"));
    let seen = Arc::new(Mutex::new(None));
    let (looked, told) = (index.clone(), seen.clone());
    *below.1.lock().unwrap() = Some(Box::new(move |applying| {
        let before = looked.row(b"a");
        let read = looked.get(Space::Objects, b"a").unwrap();
        *told.lock().unwrap() = Some((applying, before, read, looked.row(b"a")));
    }));
    change(&index, b"a", Some(b"new"));
    let seen = seen.lock().unwrap().take().unwrap();
    assert_eq!(seen, (true, None, Some(Bytes::from("new")), None), "who came then was sent to the index");
    assert_eq!(index.row(b"a").unwrap(), "new");
    // Nothing of it is remembered for ever.
    for shard in &index.rows.shards {
        let shard = shard.lock().unwrap();
        assert!(shard.changing.is_empty() && shard.reading.is_empty());
    }
}

#[test]
fn a_batch_that_failed_leaves_no_row() {
    let below = MemoryIndex::new();
    let index = Recent::new(Arc::new(below.clone()), 1 << 20);
    change(&index, b"a", Some(b"old"));
    change(&index, b"b", Some(b"other"));
    below.fail(true);
    let changes = vec![(Space::Objects, b"a".to_vec(), Some(b"new".to_vec()))];
    index.apply(Batch { changes }).unwrap_err();
    assert_eq!((index.row(b"a"), index.row(b"b").unwrap()), (None, Bytes::from("other")));
    below.fail(false);
    index.revive().unwrap();
    assert_eq!((index.row(b"a"), index.row(b"b")), (None, None));
    index.clear().unwrap();
    assert_eq!(index.get(Space::Objects, b"b").unwrap(), None);
}

/// OS-ROW-2, and the rows that are used stay.
#[test]
fn rows_take_no_more_memory_than_they_may() {
    const BYTES: u64 = 64 << 10;
    let index = Recent::new(Arc::new(MemoryIndex::new()), BYTES);
    for number in 0..5000u32 {
        change(&index, &number.to_be_bytes(), Some(&[7; 60]));
        assert!(index.row(&0u32.to_be_bytes()).is_some(), "row {number} drove one out that is always used");
    }
    change(&index, b"long", Some(&[7; ROW_MAX + 1]));
    assert_eq!(index.row(b"long"), None);
    let rows = |shard: &Shard| shard.young.iter().chain(&shard.old).map(|(key, row)| cost(key, row)).sum::<usize>();
    let bytes: usize = index.rows.shards.iter().map(|shard| rows(&shard.lock().unwrap())).sum();
    assert!((BYTES / 3..=BYTES).contains(&(bytes as u64)), "{bytes} bytes of rows");
    for shard in &index.rows.shards {
        let shard = shard.lock().unwrap();
        let young: usize = shard.young.iter().map(|(key, row)| cost(key, row)).sum();
        assert_eq!(young, shard.young_bytes);
    }
    let none = Recent::new(Arc::new(MemoryIndex::new()), 0);
    change(&none, b"a", Some(b"1"));
    assert_eq!((none.row(b"a"), none.get(Space::Objects, b"a").unwrap().unwrap()), (None, Bytes::from("1")));
}
