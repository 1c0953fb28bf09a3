//! Uploads in parts.

use std::sync::Arc;

use bytes::Bytes;
use shingle_sim::clients::{bytes_of, commit, get, put};
use shingle_store_api::{
    Commit, CompletedPart, Metadata, ObjectInfo, ObjectStore, StoreErrorKind, StoreResult, UploadId,
};

use super::objects::{if_absent, if_match};
use super::refused;

async fn begin(store: &dyn ObjectStore) -> UploadId {
    store.create_bucket("b").await.unwrap();
    store.begin_upload("b", "k", Metadata::new()).await.unwrap().id
}

async fn send(store: &dyn ObjectStore, id: UploadId, number: u32, etag: &str, data: &Bytes) -> ObjectInfo {
    let mut writer = store.begin_part("b", "k", id, number).await.unwrap();
    writer.write(data.clone()).await.unwrap();
    writer.commit(commit(etag)).await.unwrap()
}

fn named(parts: &[(u32, &str)]) -> Vec<CompletedPart> {
    parts.iter().map(|(number, etag)| CompletedPart { number: *number, etag: (*etag).to_owned() }).collect()
}

async fn complete(store: &dyn ObjectStore, id: UploadId, parts: &[(u32, &str)]) -> StoreResult<ObjectInfo> {
    store.complete_upload("b", "k", id, named(parts), commit("whole")).await
}

async fn listed(store: &dyn ObjectStore, id: UploadId) -> Vec<(u32, String, u64)> {
    let (parts, more) = store.list_parts("b", "k", id, 0, 100).await.unwrap();
    assert!(!more);
    parts.into_iter().map(|part| (part.number, part.etag, part.size)).collect()
}

/// They come in any order. The object has the metadata of the upload's beginning and end.
pub async fn parts_become_an_object_in_their_order(store: Arc<dyn ObjectStore>) {
    store.create_bucket("b").await.unwrap();
    let metadata = |pairs: &[(&str, &str)]| -> Metadata {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let begun = store.begin_upload("b", "k", metadata(&[("m", "begun"), ("n", "begun")])).await.unwrap();
    assert_eq!((begun.key.as_str(), begun.metadata.len(), &begun.class), ("k", 2, &None));
    assert_eq!(store.upload("b", "k", begun.id).await.unwrap(), begun);
    let data = [bytes_of(1, 7000), bytes_of(2, 10), bytes_of(3, 20_000)];
    for number in [3, 1, 2] {
        let sent = send(&*store, begun.id, number, &number.to_string(), &data[number as usize - 1]).await;
        assert_eq!((sent.key.as_str(), sent.size), ("", data[number as usize - 1].len() as u64));
    }
    assert_eq!(refused(store.head("b", "k").await), StoreErrorKind::NoSuchKey);
    let last = Commit { metadata: metadata(&[("n", "ended")]), ..commit("whole") };
    let parts = named(&[(1, "1"), (2, "2"), (3, "3")]);
    let info = store.complete_upload("b", "k", begun.id, parts, last).await.unwrap();
    assert_eq!((info.size, &info.part_sizes), (27_010, &vec![7000, 10, 20_000]));
    assert_eq!((info.etag.as_str(), &info.metadata), ("whole", &metadata(&[("m", "begun"), ("n", "ended")])));
    assert_eq!(store.head("b", "k").await.unwrap(), info);
    assert!(get(&*store, "b", "k").await.unwrap() == data.concat());
}

/// An object of few of its parts.
pub async fn parts_are_replaced_and_those_that_are_not_named_go(store: Arc<dyn ObjectStore>) {
    let id = begin(&*store).await;
    for number in 1..=3 {
        send(&*store, id, number, &number.to_string(), &bytes_of(number.into(), 5000)).await;
    }
    send(&*store, id, 2, "again", &bytes_of(9, 77)).await;
    let of = |number: u32, etag: &str, size| (number, etag.to_owned(), size);
    assert_eq!(listed(&*store, id).await, [of(1, "1", 5000), of(2, "again", 77), of(3, "3", 5000)]);
    assert_eq!(refused(complete(&*store, id, &[(1, "1"), (2, "2")]).await), StoreErrorKind::InvalidPart);
    let info = complete(&*store, id, &[(1, "1"), (2, "again")]).await.unwrap();
    assert_eq!(info.part_sizes, [5000, 77]);
    assert!(get(&*store, "b", "k").await.unwrap() == [bytes_of(1, 5000), bytes_of(9, 77)].concat());
}

/// A completion that is refused changes nothing: the upload can be completed rightly.
pub async fn a_completion_names_parts_that_there_are_in_order_and_large_enough(store: Arc<dyn ObjectStore>) {
    use StoreErrorKind::{Invalid, InvalidPart, InvalidPartOrder, PartTooSmall};
    let id = begin(&*store).await;
    for (number, size) in [(1, 100), (2, 0), (4, 100)] {
        send(&*store, id, number, &number.to_string(), &bytes_of(number.into(), size)).await;
    }
    for (parts, kind) in [
        (&[][..], Invalid),
        (&[(4, "4"), (1, "1")], InvalidPartOrder),
        (&[(1, "1"), (1, "1")], InvalidPartOrder),
        (&[(1, "1"), (3, "3")], InvalidPart),
        (&[(1, "2")], InvalidPart),
        (&[(1, "1"), (70_000, "1")], InvalidPart),
        (&[(1, "1"), (2, "2"), (4, "4")], PartTooSmall),
    ] {
        assert_eq!(refused(complete(&*store, id, parts).await), kind, "{parts:?}");
    }
    // The last may be small.
    assert_eq!(complete(&*store, id, &[(1, "1"), (2, "2")]).await.unwrap().part_sizes, [100, 0]);
}

/// BK-PART-1: though it was begun first, and its bytes came first.
pub async fn of_a_part_that_is_sent_twice_the_one_acknowledged_last_counts(store: Arc<dyn ObjectStore>) {
    let id = begin(&*store).await;
    let sizes = [(1, [20_000, 20_000]), (2, [20_000, 100]), (3, [100, 20_000])];
    for (number, sizes) in sizes {
        let mut early = store.begin_part("b", "k", id, number).await.unwrap();
        early.write(bytes_of(1, sizes[0])).await.unwrap();
        let mut late = store.begin_part("b", "k", id, number).await.unwrap();
        late.write(bytes_of(2, sizes[1])).await.unwrap();
        late.commit(commit("late")).await.unwrap();
        assert_eq!(listed(&*store, id).await.pop(), Some((number, "late".to_owned(), sizes[1] as u64)));
        early.commit(commit("early")).await.unwrap();
        assert_eq!(listed(&*store, id).await.pop(), Some((number, "early".to_owned(), sizes[0] as u64)));
    }
    complete(&*store, id, &[(1, "early"), (2, "early"), (3, "early")]).await.unwrap();
    let whole = sizes.map(|(_, sizes)| bytes_of(1, sizes[0])).concat();
    assert!(get(&*store, "b", "k").await.unwrap() == whole);
}

/// Other keys do not know it, and once it has ended nobody does.
pub async fn an_upload_is_of_one_key_and_ends_once(store: Arc<dyn ObjectStore>) {
    let none = StoreErrorKind::NoSuchUpload;
    let done = begin(&*store).await;
    send(&*store, done, 1, "1", &bytes_of(1, 100)).await;
    for key in ["other", "", &"k".repeat(2000)] {
        assert_eq!(refused(store.upload("b", key, done).await), none);
        assert_eq!(refused(store.begin_part("b", key, done, 1).await), none);
        assert_eq!(refused(store.abort_upload("b", key, done).await), none);
        let completed = store.complete_upload("b", key, done, named(&[(1, "1")]), commit("e")).await;
        assert_eq!(refused(completed), none);
    }
    let aborted = store.begin_upload("b", "k", Metadata::new()).await.unwrap().id;
    assert!(aborted > done);
    send(&*store, aborted, 1, "1", &bytes_of(2, 20_000)).await;
    let late = async |id| {
        let mut writer = store.begin_part("b", "k", id, 2).await.unwrap();
        writer.write(bytes_of(3, 9000)).await.unwrap();
        writer
    };
    let writers = [late(done).await, late(aborted).await];
    complete(&*store, done, &[(1, "1")]).await.unwrap();
    store.abort_upload("b", "k", aborted).await.unwrap();
    for writer in writers {
        assert_eq!(refused(writer.commit(commit("2")).await), none);
    }
    for id in [done, aborted, UploadId(u64::MAX)] {
        assert_eq!(refused(store.upload("b", "k", id).await), none);
        assert_eq!(refused(store.list_parts("b", "k", id, 0, 9).await), none);
        assert_eq!(refused(complete(&*store, id, &[(1, "1")]).await), none);
        assert_eq!(refused(store.abort_upload("b", "k", id).await), none);
    }
    assert!(store.list_uploads("b", "", None, 9).await.unwrap().uploads.is_empty());
    assert!(get(&*store, "b", "k").await.unwrap() == bytes_of(1, 100));
    assert!(store.delete("b", "k").await.unwrap());
    store.delete_bucket("b").await.unwrap();
}

/// BK-COND-1: and the upload goes on if they do not.
pub async fn conditions_hold_of_completions(store: Arc<dyn ObjectStore>) {
    let id = begin(&*store).await;
    send(&*store, id, 1, "1", &bytes_of(1, 9000)).await;
    let complete = async |commit| store.complete_upload("b", "k", id, named(&[(1, "1")]), commit).await;
    assert_eq!(refused(complete(if_match("*")).await), StoreErrorKind::PreconditionFailed);
    put(&*store, "b", "k", &bytes_of(2, 10), commit("old")).await.unwrap();
    assert_eq!(refused(complete(if_absent("e")).await), StoreErrorKind::PreconditionFailed);
    assert_eq!(refused(complete(if_match("other")).await), StoreErrorKind::PreconditionFailed);
    assert!(get(&*store, "b", "k").await.unwrap() == bytes_of(2, 10));
    complete(if_match("old")).await.unwrap();
    assert!(get(&*store, "b", "k").await.unwrap() == bytes_of(1, 9000));
}

/// Also of uploads that there are not.
pub async fn numbers_of_parts_go_from_1_to_10000(store: Arc<dyn ObjectStore>) {
    let id = begin(&*store).await;
    for number in [0, 10_001, 65_537, u32::MAX] {
        for id in [id, UploadId(id.0 + 1000)] {
            assert_eq!(refused(store.begin_part("b", "k", id, number).await), StoreErrorKind::Invalid, "{number}");
        }
    }
    send(&*store, id, 10_000, "last", &bytes_of(1, 10)).await;
    assert_eq!(complete(&*store, id, &[(10_000, "last")]).await.unwrap().part_sizes, [10]);
}

/// Each part is in one page.
pub async fn parts_are_listed_by_number_in_pages(store: Arc<dyn ObjectStore>) {
    let id = begin(&*store).await;
    let numbers = [9, 2, 10_000, 256, 1];
    for number in numbers {
        send(&*store, id, number, &number.to_string(), &bytes_of(1, 10)).await;
    }
    for limit in 1..=6 {
        let (mut found, mut after) = (Vec::new(), 0);
        loop {
            let (page, more) = store.list_parts("b", "k", id, after, limit).await.unwrap();
            assert!(page.len() <= limit && (!more || page.len() == limit));
            found.extend(page.iter().map(|part| part.number));
            after = found.last().copied().unwrap();
            if !more {
                break;
            }
        }
        assert_eq!(found, [1, 2, 9, 256, 10_000], "pages of {limit}");
    }
    for after in [10_000, 70_000, u32::MAX] {
        assert_eq!(store.list_parts("b", "k", id, after, 9).await.unwrap(), (Vec::new(), false));
    }
}

/// After a key alone means after all its uploads.
pub async fn uploads_are_listed_by_key_then_id_in_pages(store: Arc<dyn ObjectStore>) {
    for bucket in ["a", "b", "b1"] {
        store.create_bucket(bucket).await.unwrap();
        store.begin_upload(bucket, "zz", Metadata::new()).await.unwrap();
    }
    let mut all = Vec::new();
    for key in ["k", "a/1", "a/2", "k", "k", "zy"] {
        all.push((key.to_owned(), store.begin_upload("b", key, Metadata::new()).await.unwrap().id));
    }
    let zz = store.list_uploads("b", "zz", None, 9).await.unwrap().uploads;
    all.extend(zz.into_iter().map(|upload| (upload.key, upload.id)));
    all.sort();
    let pages = async |prefix: &str, limit: usize| {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = store.list_uploads("b", prefix, after.clone(), limit).await.unwrap();
            assert!(page.uploads.len() <= limit);
            found.extend(page.uploads.into_iter().map(|upload| (upload.key, upload.id)));
            after = found.last().cloned().map(|(key, id)| (key, Some(id)));
            if !page.truncated {
                return found;
            }
        }
    };
    for limit in [1, 2, 5, 9] {
        assert_eq!(pages("", limit).await, all);
    }
    assert_eq!(pages("a/", 1).await, all[..2]);
    let after = store.list_uploads("b", "", Some(("k".to_owned(), None)), 9).await.unwrap();
    assert_eq!(after.uploads.iter().map(|upload| upload.key.as_str()).collect::<Vec<_>>(), ["zy", "zz"]);
}
