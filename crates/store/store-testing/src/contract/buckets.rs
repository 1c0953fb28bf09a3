//! Buckets.

use std::sync::Arc;

use futures_util::future::{join, join_all};
use shingle_sim::clients::{bytes_of, commit, get, put};
use shingle_store_api::{BucketInfo, ListRequest, Metadata, ObjectStore, StoreErrorKind};

use super::refused;

/// BK-LOCK-2: calls find a bucket while it is there, and no call does otherwise.
pub async fn a_bucket_is_there_from_its_creation_to_its_deletion(store: Arc<dyn ObjectStore>) {
    assert_eq!(store.list_buckets().await.unwrap(), Vec::<BucketInfo>::new());
    for name in ["b", "a", "b1"] {
        let made = store.create_bucket(name).await.unwrap();
        assert_eq!((made.name.as_str(), made.location.as_ref()), (name, None));
        assert_eq!(store.bucket(name).await.unwrap(), made);
    }
    assert_eq!(refused(store.create_bucket("b").await), StoreErrorKind::BucketExists);
    let names: Vec<_> = store.list_buckets().await.unwrap().into_iter().map(|bucket| bucket.name).collect();
    assert_eq!(names, ["a", "b", "b1"]);
    store.delete_bucket("b").await.unwrap();
    let none = StoreErrorKind::NoSuchBucket;
    assert_eq!(refused(store.bucket("b").await), none);
    assert_eq!(refused(store.delete_bucket("b").await), none);
    assert_eq!(refused(store.begin_put("b", "k").await), none);
    assert_eq!(refused(store.head("b", "k").await), none);
    assert_eq!(refused(store.open("b", "k").await), none);
    assert_eq!(refused(store.delete("b", "k").await), none);
    assert_eq!(refused(store.list("b", ListRequest::default()).await), none);
    assert_eq!(refused(store.begin_upload("b", "k", Metadata::new()).await), none);
    assert_eq!(refused(store.list_uploads("b", "", None, 9).await), none);
    store.create_bucket("b").await.unwrap();
}

/// Neither objects nor uploads lose their bucket; those of others are not in the way.
pub async fn a_bucket_that_holds_something_is_not_deleted(store: Arc<dyn ObjectStore>) {
    for bucket in ["b", "b1", "a"] {
        store.create_bucket(bucket).await.unwrap();
    }
    put(&*store, "b", "k", &bytes_of(1, 10), commit("e")).await.unwrap();
    store.delete_bucket("b1").await.unwrap();
    assert_eq!(refused(store.delete_bucket("b").await), StoreErrorKind::BucketNotEmpty);
    assert!(store.delete("b", "k").await.unwrap());
    let upload = store.begin_upload("b", "k", Metadata::new()).await.unwrap();
    store.delete_bucket("a").await.unwrap();
    assert_eq!(refused(store.delete_bucket("b").await), StoreErrorKind::BucketNotEmpty);
    store.abort_upload("b", "k", upload.id).await.unwrap();
    store.delete_bucket("b").await.unwrap();
    assert_eq!(store.list_buckets().await.unwrap(), Vec::<BucketInfo>::new());
}

/// Keys have at most 1,024 bytes, as in S3.
pub async fn names_and_metadata_that_are_too_long_are_refused(store: Arc<dyn ObjectStore>) {
    store.create_bucket("b").await.unwrap();
    let invalid = StoreErrorKind::Invalid;
    for bucket in ["", "a\0b", &"b".repeat(256)] {
        assert_eq!(refused(store.create_bucket(bucket).await), invalid);
    }
    let (longest, longer) = ("k".repeat(1024), "k".repeat(1025));
    put(&*store, "b", &longest, &bytes_of(1, 10), commit("e")).await.unwrap();
    assert_eq!(store.head("b", &longest).await.unwrap().key, longest);
    assert_eq!(refused(store.begin_put("b", &longer).await), invalid);
    assert_eq!(refused(store.begin_upload("b", &longer, Metadata::new()).await), invalid);
    let large = Metadata::from([("m".to_owned(), "x".repeat(300 << 10))]);
    assert_eq!(refused(store.begin_upload("b", "k", large.clone()).await), invalid);
    for size in [10, 20_000] {
        let mut commit = commit("e");
        commit.metadata = large.clone();
        assert_eq!(refused(put(&*store, "b", "k", &bytes_of(1, size), commit).await), invalid);
    }
    assert_eq!(refused(store.head("b", "k").await), StoreErrorKind::NoSuchKey);
}

/// BK-LOCK-2: the bucket is looked for when the object is committed, not only when it is begun.
pub async fn a_put_into_a_bucket_that_was_deleted_meanwhile_is_refused(store: Arc<dyn ObjectStore>) {
    store.create_bucket("b").await.unwrap();
    for size in [10, 20_000] {
        let mut writer = store.begin_put("b", "k").await.unwrap();
        writer.write(bytes_of(1, size)).await.unwrap();
        store.delete_bucket("b").await.unwrap();
        assert_eq!(refused(writer.commit(commit("e")).await), StoreErrorKind::NoSuchBucket);
        store.create_bucket("b").await.unwrap();
        assert_eq!(refused(store.head("b", "k").await), StoreErrorKind::NoSuchKey);
    }
}

/// BK-LOCK-2, BK-BEGIN-1: a put that is acknowledged is in a bucket that stays, also where it began while the bucket was being deleted.
pub async fn a_bucket_that_is_deleted_while_puts_come_stays_or_takes_none_of_them(store: Arc<dyn ObjectStore>) {
    for round in 0..12 {
        store.create_bucket("b").await.unwrap();
        let put = async |number: u64| {
            let size = if number.is_multiple_of(2) { 10 } else { 20_000 };
            let mut writer = store.begin_put("b", &number.to_string()).await?;
            writer.write(bytes_of(number, size)).await?;
            writer.commit(commit("e")).await
        };
        // The deletion begins among them, each time at another place.
        let (before, after) = (join_all((0..round % 4).map(put)), join_all((round % 4..4).map(put)));
        let (before, (deleted, after)) = join(before, join(store.delete_bucket("b"), after)).await;
        let puts: Vec<_> = before.into_iter().chain(after).collect();
        let done = puts.iter().flatten().count();
        let none = |kind| kind == StoreErrorKind::NoSuchBucket;
        assert!(puts.iter().filter_map(|put| put.as_ref().err()).all(|error| none(error.kind)));
        match deleted {
            Ok(()) => assert_eq!(done, 0, "round {round}: a put was acknowledged and its bucket went"),
            Err(error) => assert_eq!((error.kind, done), (StoreErrorKind::BucketNotEmpty, 4), "round {round}"),
        }
        if done > 0 {
            let request = ListRequest { limit: 9, ..ListRequest::default() };
            for object in store.list("b", request).await.unwrap().objects {
                assert!(store.delete("b", &object.key).await.unwrap());
            }
            store.delete_bucket("b").await.unwrap();
        }
    }
}

/// The order of commits counts, and not in which bucket of that name a writer began.
pub async fn a_put_that_began_in_an_earlier_bucket_of_that_name_counts_from_its_commit(store: Arc<dyn ObjectStore>) {
    for size in [10, 20_000] {
        store.create_bucket("b").await.unwrap();
        let mut early = store.begin_put("b", "k").await.unwrap();
        early.write(bytes_of(1, size)).await.unwrap();
        store.delete_bucket("b").await.unwrap();
        assert_eq!(refused(store.begin_put("b", "k").await), StoreErrorKind::NoSuchBucket);
        store.create_bucket("b").await.unwrap();
        put(&*store, "b", "k", &bytes_of(2, size), commit("second")).await.unwrap();
        early.commit(commit("early")).await.unwrap();
        assert_eq!(store.head("b", "k").await.unwrap().etag, "early");
        assert!(get(&*store, "b", "k").await.unwrap() == bytes_of(1, size));
        assert!(store.delete("b", "k").await.unwrap());
        store.delete_bucket("b").await.unwrap();
    }
}
