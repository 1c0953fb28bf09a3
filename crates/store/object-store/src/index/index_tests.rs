use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::*;

fn put(space: Space, key: &str, value: &str) -> (Space, Vec<u8>, Option<Vec<u8>>) {
    (space, key.as_bytes().to_vec(), Some(value.as_bytes().to_vec()))
}

fn remove(space: Space, key: &str) -> (Space, Vec<u8>, Option<Vec<u8>>) {
    (space, key.as_bytes().to_vec(), None)
}

fn all(view: &(impl View + ?Sized), space: Space) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    view.scan(space, b"", &mut |key, value| {
        found.push((text(key), text(&value)));
        Step::Next
    })
    .unwrap();
    found
}

fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Contract of every index; both run it.
fn holds_the_contract(index: &dyn Index) {
    let changes = vec![
        put(Space::Objects, "b", "1"),
        put(Space::Objects, "a", "2"),
        put(Space::Objects, "c", "3"),
        put(Space::Buckets, "b", "other"),
        put(Space::Objects, "c", "later"),
        put(Space::Objects, "gone", "x"),
        remove(Space::Objects, "gone"),
    ];
    index.apply(Batch { changes }).unwrap();
    assert_eq!(all(index, Space::Objects), pairs(&[("a", "2"), ("b", "1"), ("c", "later")]));
    assert_eq!(index.get(Space::Buckets, b"b").unwrap().as_deref(), Some(&b"other"[..]));
    assert_eq!(index.get(Space::Buckets, b"a").unwrap(), None);

    let moment = index.snapshot().unwrap();
    index.apply(Batch { changes: vec![remove(Space::Objects, "a"), put(Space::Objects, "d", "4")] }).unwrap();
    assert_eq!(all(moment.as_ref(), Space::Objects), pairs(&[("a", "2"), ("b", "1"), ("c", "later")]));
    assert_eq!(all(index, Space::Objects), pairs(&[("b", "1"), ("c", "later"), ("d", "4")]));

    let mut visited = Vec::new();
    index
        .scan(Space::Objects, b"a", &mut |key, _| {
            visited.push(key.to_vec());
            match key {
                b"b" => Step::Seek(b"cc".to_vec()),
                _ => Step::Stop,
            }
        })
        .unwrap();
    assert_eq!(visited, [b"b", b"d"]);
    index.persist().unwrap();
    index.clear().unwrap();
    assert_eq!(all(index, Space::Objects), pairs(&[]));
    assert_eq!(all(index, Space::Buckets), pairs(&[]));
    index.apply(Batch { changes: vec![put(Space::Objects, "e", "5")] }).unwrap();
    index.persist().unwrap();
}

#[test]
fn the_memory_index_holds_the_contract() {
    holds_the_contract(&MemoryIndex::new());
}

#[test]
fn the_directory_index_holds_the_contract_and_survives_reopening() {
    let directory = std::env::temp_dir().join(format!("shingle-index-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    {
        let index = FjallIndex::open(&directory, 1 << 20).unwrap();
        holds_the_contract(&index);
        assert!(FjallIndex::open(&directory, 1 << 20).is_err(), "a second process would spoil it");
    }
    {
        let index = FjallIndex::open(&directory, 1 << 20).unwrap();
        assert_eq!(all(&index, Space::Objects), pairs(&[("e", "5")]));
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// OS-IDX-1, for the index of simulations.
#[test]
fn a_crash_takes_back_whole_batches_in_order_and_none_that_was_persisted() {
    let index = MemoryIndex::new();
    index.apply(Batch { changes: vec![put(Space::Files, "a", "1")] }).unwrap();
    index.persist().unwrap();
    index.apply(Batch { changes: vec![put(Space::Files, "a", "2"), put(Space::Files, "b", "2")] }).unwrap();
    index.apply(Batch { changes: vec![remove(Space::Files, "a"), put(Space::Files, "a", "3")] }).unwrap();
    let copy = index.fork();
    index.crash(1);
    assert_eq!(all(&index, Space::Files), pairs(&[("a", "2"), ("b", "2")]));
    index.crash(9);
    assert_eq!(all(&index, Space::Files), pairs(&[("a", "1")]));
    assert_eq!(copy.unpersisted(), 2);
    assert_eq!(all(&copy, Space::Files), pairs(&[("a", "3"), ("b", "2")]));
}

#[test]
fn the_successor_of_a_prefix_is_the_first_key_without_it() {
    assert_eq!(successor(b"ab"), Some(b"ac".to_vec()));
    assert_eq!(successor(b"a\xff"), Some(b"b".to_vec()));
    assert_eq!(successor(b"\xff\xff"), None);
    assert_eq!(successor(b""), None);
}

#[test]
fn an_index_whose_write_failed_is_opened_again_once_nobody_reads_it() {
    let directory = std::env::temp_dir().join(format!("shingle-revive-{}", std::process::id()));
    let index = FjallIndex::open(&directory, 1 << 20).unwrap();
    index.apply(Batch { changes: vec![put(Space::Objects, "a", "1")] }).unwrap();
    let moment = index.snapshot().unwrap();
    index.break_for_test();
    assert!(index.revive().is_err(), "a moment of it is being read");
    assert_eq!(all(&index, Space::Objects), pairs(&[("a", "1")]), "it is read as before");
    drop(moment);
    index.revive().unwrap();
    index.apply(Batch { changes: vec![put(Space::Objects, "b", "2")] }).unwrap();
    assert_eq!(all(&index, Space::Objects), pairs(&[("a", "1"), ("b", "2")]));
    assert!(!directory.with_extension("probe").exists());
    drop(index);
    std::fs::remove_dir_all(&directory).unwrap();
}

/// OS-IDXG-1: somebody reads the index at every moment. It is opened again in one try: those who come meanwhile wait for that.
#[test]
fn an_index_that_is_always_read_is_opened_again() {
    let directory = std::env::temp_dir().join(format!("shingle-revive-busy-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let index = FjallIndex::open(&directory, 1 << 20).unwrap();
    index.apply(Batch { changes: vec![put(Space::Objects, "a", "1")] }).unwrap();
    index.break_for_test();
    let (done, inside) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        // Each scan takes a while, and begins in the midst of the other's.
        for reader in 0..2 {
            let (index, done, inside) = (&index, &done, &inside);
            scope.spawn(move || {
                std::thread::park_timeout(Duration::from_millis(20 * reader));
                while !done.load(Ordering::Relaxed) {
                    let scanned = index.scan(Space::Objects, b"", &mut |_, _| {
                        inside.fetch_add(1, Ordering::Relaxed);
                        std::thread::park_timeout(Duration::from_millis(40));
                        Step::Next
                    });
                    scanned.unwrap();
                }
            });
        }
        while inside.load(Ordering::Relaxed) < 4 {
            std::thread::yield_now();
        }
        let revived = index.revive();
        done.store(true, Ordering::Relaxed);
        revived.unwrap();
    });
    index.apply(Batch { changes: vec![put(Space::Objects, "b", "2")] }).unwrap();
    assert_eq!(all(&index, Space::Objects), pairs(&[("a", "1"), ("b", "2")]));
    drop(index);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn only_what_is_stored_wrongly_is_damage() {
    let path = std::env::temp_dir().join(format!("shingle-index-kinds-{}", std::process::id()));
    let index = FjallIndex::open(&path, 1 << 20).unwrap();
    index.apply(Batch { changes: vec![put(Space::Objects, "a", "1")] }).unwrap();
    let kind = |path: &std::path::Path| FjallIndex::open(path, 1 << 20).err().map(|error| error.kind());
    assert_eq!(kind(&path), Some(IndexErrorKind::Unreachable), "in use");
    drop(index);
    assert_eq!(kind(&path), None);
    let file = path.with_extension("file");
    std::fs::write(&file, "not a directory").unwrap();
    assert_eq!(kind(&file.join("index")), Some(IndexErrorKind::Unreachable), "its directory cannot be made");
    std::fs::remove_file(&file).unwrap();
    std::fs::write(path.join("version"), "nonsense").unwrap();
    assert_eq!(kind(&path), Some(IndexErrorKind::Damaged));
    std::fs::remove_dir_all(&path).unwrap();
}

/// OS-IDX-1, for the directory: a power cut leaves its journal at any length from the last persist on. A prefix of the batches
/// is found, each whole, and all that were persisted.
#[test]
fn of_a_journal_that_ends_anywhere_a_prefix_of_whole_batches_is_found() {
    let directory = std::env::temp_dir().join(format!("shingle-index-cut-{}", std::process::id()));
    let copy = directory.with_extension("copy");
    let _ = (std::fs::remove_dir_all(&directory), std::fs::remove_dir_all(&copy));
    let journal = || {
        let files = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
        let mut journals: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "jnl")).collect();
        assert_eq!(journals.len(), 1, "{journals:?}");
        journals.pop().unwrap()
    };
    // It is allocated ahead: its end is its last byte that is not zero.
    let written = || std::fs::read(journal()).unwrap().iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let batch = |number: u32| {
        let value = number.to_string();
        Batch { changes: vec![put(Space::Objects, "a", &value), put(Space::Files, "b", &value)] }
    };
    let mut persisted = 0;
    {
        let index = FjallIndex::open(&directory, 1 << 20).unwrap();
        for number in 1..=6 {
            index.apply(batch(number)).unwrap();
            if number == 3 {
                index.persist().unwrap();
                persisted = written();
            }
        }
        index.persist().unwrap();
    }
    let whole = written();
    assert!(persisted > 0 && whole > persisted, "{persisted} of {whole}");
    let mut seen = std::collections::BTreeSet::new();
    for length in (persisted..=whole).step_by(7) {
        let _ = std::fs::remove_dir_all(&copy);
        copy_directory(&directory, &copy, &journal(), length);
        let index = FjallIndex::open(&copy, 1 << 20).unwrap();
        let read = |space, key: &str| index.get(space, key.as_bytes()).unwrap().map(|value| value.to_vec());
        let (one, other) = (read(Space::Objects, "a"), read(Space::Files, "b"));
        assert_eq!(one, other, "half a batch, of a journal of {length} bytes");
        let number: u32 = String::from_utf8(one.unwrap()).unwrap().parse().unwrap();
        assert!(number >= 3, "batch {number} is the last, of a journal of {length} bytes");
        seen.insert(number);
    }
    assert!(seen.len() > 2, "{seen:?}");
    std::fs::remove_dir_all(&directory).unwrap();
    std::fs::remove_dir_all(&copy).unwrap();
}

/// Copies a directory; of the file `cut` so many bytes.
fn copy_directory(from: &std::path::Path, to: &std::path::Path, cut: &std::path::Path, length: usize) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_directory(&path, &target, cut, length);
        } else if path == cut {
            let bytes = std::fs::read(&path).unwrap();
            std::fs::write(&target, &bytes[..length]).unwrap();
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}
