//! Objects that come whole.

use std::sync::Arc;

use futures_util::future::join_all;
use shingle_sim::clients::{bytes_of, commit, get, put};
use shingle_store_api::{Commit, Condition, ListRequest, Metadata, ObjectStore, StoreErrorKind};

use super::refused;

const FAILED: StoreErrorKind = StoreErrorKind::PreconditionFailed;

/// A commit on condition that the object's ETag is `etag`; `*` stands for any.
pub(super) fn if_match(etag: &str) -> Commit {
    Commit { condition: Condition { absent: false, etag: Some(etag.to_owned()) }, ..commit("new") }
}

/// A commit on condition that there is no object.
pub(super) fn if_absent(etag: &str) -> Commit {
    Commit { condition: Condition { absent: true, etag: None }, ..commit(etag) }
}

/// Its bytes and all that is known of it are those of the last put; versions and times rise.
pub async fn an_object_is_what_was_put_last(store: Arc<dyn ObjectStore>) {
    store.create_bucket("b").await.unwrap();
    let none = StoreErrorKind::NoSuchKey;
    assert_eq!(refused(store.head("b", "k").await), none);
    let mut last = (0, 0);
    for (number, size) in [0, 1, 3000, 60_000, 0, 20_000].into_iter().enumerate() {
        let data = bytes_of(number as u64, size);
        let metadata = Metadata::from([("round".to_owned(), number.to_string())]);
        let etag = format!("e{number}");
        let put = put(&*store, "b", "k", &data, Commit { metadata: metadata.clone(), ..commit(&etag) }).await.unwrap();
        assert_eq!((put.key.as_str(), put.size, put.etag.as_str()), ("k", size as u64, etag.as_str()));
        assert_eq!((&put.metadata, &put.part_sizes, &put.class), (&metadata, &Vec::new(), &None));
        assert!(put.version > last.0 && put.modified_unix_ns >= last.1, "{last:?} {put:?}");
        last = (put.version, put.modified_unix_ns);
        assert_eq!(store.head("b", "k").await.unwrap(), put);
        assert!(get(&*store, "b", "k").await.unwrap() == data);
    }
    assert!(store.delete("b", "k").await.unwrap());
    assert!(!store.delete("b", "k").await.unwrap());
    assert_eq!(refused(store.head("b", "k").await), none);
    assert_eq!(refused(store.open("b", "k").await), none);
}

/// Small and large ones, replaced and deleted.
pub async fn a_reader_reads_its_version_whatever_becomes_of_the_object(store: Arc<dyn ObjectStore>) {
    store.create_bucket("b").await.unwrap();
    for size in [100, 40_000] {
        let data = bytes_of(1, size);
        put(&*store, "b", "k", &data, commit("first")).await.unwrap();
        let first = store.open("b", "k").await.unwrap();
        put(&*store, "b", "k", &bytes_of(2, 30_000), commit("second")).await.unwrap();
        let second = store.open("b", "k").await.unwrap();
        assert!(store.delete("b", "k").await.unwrap());
        put(&*store, "b", "other", &bytes_of(3, 30_000), commit("other")).await.unwrap();
        assert_eq!((first.info().etag.as_str(), first.info().size), ("first", size as u64));
        assert!(first.read(0, size as u64).await.unwrap() == data);
        assert!(first.read(7, 50).await.unwrap() == data.slice(7..57));
        assert!(second.read(0, 30_000).await.unwrap() == bytes_of(2, 30_000));
    }
}

/// A range must lie inside the object; one of no bytes may lie at its end.
pub async fn reads_outside_an_object_are_refused(store: Arc<dyn ObjectStore>) {
    store.create_bucket("b").await.unwrap();
    for size in [0, 10, 20_000u64] {
        put(&*store, "b", "k", &bytes_of(1, size as usize), commit("e")).await.unwrap();
        let reader = store.open("b", "k").await.unwrap();
        assert!(reader.read(size, 0).await.unwrap().is_empty());
        for (offset, length) in [(size, 1), (0, size + 1), (size + 1, 0), (u64::MAX, 1), (1, u64::MAX)] {
            assert_eq!(refused(reader.read(offset, length).await), StoreErrorKind::Invalid, "{offset} {length}");
        }
    }
}

/// BK-COND-1: of puts and deletions.
pub async fn conditions_hold_of_the_version_that_is_replaced(store: Arc<dyn ObjectStore>) {
    store.create_bucket("b").await.unwrap();
    for size in [10, 20_000] {
        let data = bytes_of(1, size);
        let put = async |commit| put(&*store, "b", "k", &data, commit).await;
        let delete = async |condition| store.delete_if("b", "k", condition).await;
        assert_eq!(refused(put(if_match("*")).await), FAILED);
        assert_eq!(refused(put(if_match("new")).await), FAILED);
        assert_eq!(refused(delete(if_match("*").condition).await), FAILED);
        assert!(!delete(if_absent("").condition).await.unwrap());
        put(if_absent("old")).await.unwrap();
        assert_eq!(refused(put(if_absent("old")).await), FAILED);
        assert_eq!(refused(put(if_match("new")).await), FAILED);
        assert_eq!(refused(delete(if_match("new").condition).await), FAILED);
        assert_eq!(refused(delete(if_absent("").condition).await), FAILED);
        assert_eq!(store.head("b", "k").await.unwrap().etag, "old");
        put(if_match("old")).await.unwrap();
        put(if_match("*")).await.unwrap();
        assert!(delete(if_match("new").condition).await.unwrap());
    }
    assert_eq!(store.list("b", ListRequest { limit: 9, ..ListRequest::default() }).await.unwrap().objects, []);
}

/// BK-COND-1: nobody comes between the look and the change.
pub async fn of_conditional_writers_that_race_exactly_one_wins(store: Arc<dyn ObjectStore>) {
    store.create_bucket("b").await.unwrap();
    // Small ones and large ones.
    let put = async |number: u64| {
        let data = bytes_of(number, if number.is_multiple_of(2) { 10 } else { 20_000 });
        put(&*store, "b", "k", &data, if_absent(&number.to_string())).await
    };
    let done = join_all((0..8).map(put)).await;
    let won: Vec<_> = done.iter().flatten().map(|info| info.etag.clone()).collect();
    assert_eq!(won.len(), 1);
    assert!(done.iter().filter_map(|done| done.as_ref().err()).all(|error| error.kind == FAILED));
    assert_eq!(store.head("b", "k").await.unwrap().etag, won[0]);
}

/// The order of commits counts.
pub async fn a_put_that_began_before_a_deletion_and_was_committed_after_it_is_there(store: Arc<dyn ObjectStore>) {
    store.create_bucket("b").await.unwrap();
    for size in [10, 25_000] {
        put(&*store, "b", "k", &bytes_of(1, 20_000), commit("old")).await.unwrap();
        let mut late = store.begin_put("b", "k").await.unwrap();
        let data = bytes_of(2, size);
        late.write(data.clone()).await.unwrap();
        assert!(store.delete("b", "k").await.unwrap());
        put(&*store, "b", "k", &bytes_of(3, 10), commit("between")).await.unwrap();
        late.commit(commit("late")).await.unwrap();
        assert!(get(&*store, "b", "k").await.unwrap() == data);
    }
}

/// Neither an object nor what was there before it changes.
pub async fn a_writer_that_is_dropped_leaves_nothing_behind(store: Arc<dyn ObjectStore>) {
    store.create_bucket("b").await.unwrap();
    for size in [10, 25_000] {
        let mut writer = store.begin_put("b", "k").await.unwrap();
        writer.write(bytes_of(1, size)).await.unwrap();
        drop(writer);
        assert_eq!(refused(store.head("b", "k").await), StoreErrorKind::NoSuchKey);
    }
    store.delete_bucket("b").await.unwrap();
}
