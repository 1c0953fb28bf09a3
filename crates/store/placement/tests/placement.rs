//! Several stores as one: the objects that everyone sees, and their sites.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use shingle_placement::{Placement, Site};
use shingle_store_api::{
    Commit, CompletedPart, Condition, ListRequest, Metadata, ObjectStore, SiteName, StoreErrorKind, UploadId,
};
use shingle_store_testing::MemoryStore;

struct Stores {
    fast: Arc<MemoryStore>,
    cold: Arc<MemoryStore>,
}

impl Stores {
    fn new() -> Self {
        let store = || Arc::new(MemoryStore::new(1 << 30));
        Self { fast: store(), cold: store() }
    }

    async fn open(&self) -> Placement {
        let site = |name: &str, class: Option<&str>, store: &Arc<MemoryStore>| Site {
            name: name.to_owned(),
            class: class.map(str::to_owned),
            store: store.clone(),
        };
        let sites = vec![site("chunks", None, &self.fast), site("shelf", Some("COLD"), &self.cold)];
        Placement::open(sites).await.unwrap()
    }
}

fn commit(etag: &str) -> Commit {
    Commit { etag: etag.to_owned(), ..Commit::default() }
}

async fn put(store: &dyn ObjectStore, key: &str, commit: Commit) -> Result<(), StoreErrorKind> {
    let mut writer = store.begin_put("b", key).await.map_err(|error| error.kind)?;
    writer.write(Bytes::from(commit.etag.clone())).await.unwrap();
    writer.commit(commit).await.map(drop).map_err(|error| error.kind)
}

fn cold(all: &Placement) -> Arc<dyn ObjectStore> {
    all.at(SiteName::Class("COLD")).unwrap()
}

async fn etag_and_class(store: &dyn ObjectStore, key: &str) -> (String, Option<String>) {
    let info = store.head("b", key).await.unwrap();
    let reader = store.open("b", key).await.unwrap();
    assert_eq!(*reader.info(), info);
    assert_eq!(reader.read(0, info.size).await.unwrap(), info.etag);
    (info.etag, info.class)
}

async fn keys(store: &dyn ObjectStore, bucket: &str) -> Vec<String> {
    let listed = store.list(bucket, ListRequest { limit: 1000, ..ListRequest::default() }).await;
    listed.map(|listing| listing.objects.into_iter().map(|object| object.key).collect()).unwrap_or_default()
}

#[tokio::test]
async fn an_object_goes_where_its_class_says_and_is_nowhere_else() {
    let stores = Stores::new();
    let all = stores.open().await;
    all.create_bucket("b").await.unwrap();
    let cold = cold(&all);
    put(&all, "k", commit("1")).await.unwrap();
    assert_eq!(etag_and_class(&all, "k").await, ("1".to_owned(), None));
    put(&*cold, "k", commit("2")).await.unwrap();
    assert_eq!(etag_and_class(&all, "k").await, ("2".to_owned(), Some("COLD".to_owned())));
    assert!(keys(&*stores.fast, "b").await.is_empty());
    assert_eq!(keys(&*stores.cold, "/b").await, ["k"]);
    put(&all, "k", commit("3")).await.unwrap();
    assert_eq!(etag_and_class(&all, "k").await, ("3".to_owned(), None));
    assert!(keys(&*stores.cold, "/b").await.is_empty());
    put(&*cold, "other", commit("4")).await.unwrap();
    assert!(all.delete("b", "other").await.unwrap());
    assert!(!all.delete("b", "other").await.unwrap());
    assert_eq!(all.head("b", "other").await.unwrap_err().kind, StoreErrorKind::NoSuchKey);
    assert!(all.at(SiteName::Class("NONE")).is_none() && all.at(SiteName::Location("COLD")).is_none());
}

#[tokio::test]
async fn conditions_hold_of_what_everyone_sees() {
    let stores = Stores::new();
    let all = stores.open().await;
    all.create_bucket("b").await.unwrap();
    let cold = cold(&all);
    let absent = |etag: &str| Commit { condition: Condition { absent: true, etag: None }, ..commit(etag) };
    let with = |etag: &str, of: &str| Commit {
        condition: Condition { absent: false, etag: Some(of.to_owned()) },
        ..commit(etag)
    };
    put(&*cold, "k", absent("1")).await.unwrap();
    assert_eq!(put(&all, "k", absent("2")).await, Err(StoreErrorKind::PreconditionFailed));
    assert_eq!(put(&*cold, "k", absent("2")).await, Err(StoreErrorKind::PreconditionFailed));
    assert_eq!(put(&all, "k", with("2", "9")).await, Err(StoreErrorKind::PreconditionFailed));
    put(&all, "k", with("2", "1")).await.unwrap();
    put(&*cold, "k", with("3", "*")).await.unwrap();
    assert_eq!(etag_and_class(&all, "k").await.0, "3");
}

#[tokio::test]
async fn uploads_go_by_class_too_and_are_found_by_their_ids() {
    let stores = Stores::new();
    let all = stores.open().await;
    all.create_bucket("b").await.unwrap();
    put(&all, "k", commit("old")).await.unwrap();
    let upload = cold(&all).begin_upload("b", "k", Metadata::new()).await.unwrap();
    assert_eq!(upload.class.as_deref(), Some("COLD"));
    let mut part = all.begin_part("b", "k", upload.id, 1).await.unwrap();
    part.write(Bytes::from_static(b"new")).await.unwrap();
    part.commit(commit("p")).await.unwrap();
    assert_eq!(all.list_parts("b", "k", upload.id, 0, 9).await.unwrap().0.len(), 1);
    assert_eq!(all.upload("b", "k", upload.id).await.unwrap(), upload);
    let parts = vec![CompletedPart { number: 1, etag: "p".to_owned() }];
    let absent = Commit { condition: Condition { absent: true, etag: None }, ..commit("new") };
    let refused = all.complete_upload("b", "k", upload.id, parts.clone(), absent).await.unwrap_err();
    assert_eq!(refused.kind, StoreErrorKind::PreconditionFailed);
    let info = all.complete_upload("b", "k", upload.id, parts, commit("new")).await.unwrap();
    assert_eq!(info.class.as_deref(), Some("COLD"));
    assert!(keys(&*stores.fast, "b").await.is_empty());
    assert_eq!(etag_and_class(&all, "k").await.0, "new");
    assert_eq!(all.upload("b", "k", UploadId(77)).await.unwrap_err().kind, StoreErrorKind::NoSuchUpload);

    let mut expected = Vec::new();
    for (number, key) in ["c", "a", "b", "a"].into_iter().enumerate() {
        let store: Arc<dyn ObjectStore> = if number % 2 == 0 { cold(&all) } else { Arc::new(all.clone()) };
        expected.push((key.to_owned(), store.begin_upload("b", key, Metadata::new()).await.unwrap().id));
    }
    expected.sort();
    for limit in 1..=5 {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = all.list_uploads("b", "", after.clone(), limit).await.unwrap();
            assert!(page.uploads.len() <= limit);
            found.extend(page.uploads.into_iter().map(|upload| (upload.key, upload.id)));
            after = found.last().cloned().map(|(key, id)| (key, Some(id)));
            if !page.truncated {
                break;
            }
        }
        assert_eq!(found, expected, "limit {limit}");
    }
    let (key, id) = &expected[0];
    all.abort_upload("b", key, *id).await.unwrap();
    assert_eq!(all.list_uploads("b", "", None, 9).await.unwrap().uploads.len(), 3);
}

#[tokio::test]
async fn a_merged_listing_shows_what_one_store_would() {
    let (stores, one) = (Stores::new(), MemoryStore::new(1 << 30));
    let all = stores.open().await;
    all.create_bucket("b").await.unwrap();
    one.create_bucket("b").await.unwrap();
    let names = ["a", "a/", "a/b", "a/b/c", "a/c", "ab/c", "b/a", "b/b", "c", "d/e/f", "d/e/g", "é", "zz"];
    for (number, key) in names.into_iter().enumerate() {
        let store: Arc<dyn ObjectStore> = if number % 3 == 0 { cold(&all) } else { Arc::new(all.clone()) };
        put(&*store, key, commit(key)).await.unwrap();
        put(&one, key, commit(key)).await.unwrap();
    }
    let mut cases = 0;
    for prefix in ["", "a", "a/", "d/", "x"] {
        for delimiter in [None, Some("/")] {
            for after in [None, Some("a"), Some("a/b"), Some("b/")] {
                for limit in [1, 2, 3, 7, 100] {
                    let request = ListRequest {
                        prefix: prefix.to_owned(),
                        delimiter: delimiter.map(str::to_owned),
                        after: after.map(str::to_owned),
                        limit,
                    };
                    let found = shown(&all, request.clone()).await;
                    let expected = shown(&one, request).await;
                    assert_eq!(found, expected, "{prefix:?} {delimiter:?} {after:?} {limit}");
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 200);
}

/// Keys and prefixes, page by page.
async fn shown(store: &dyn ObjectStore, mut request: ListRequest) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let page = store.list("b", request.clone()).await.unwrap();
        let objects = page.objects.into_iter().map(|object| object.key);
        let lines: BTreeSet<String> = objects.chain(page.common_prefixes).collect();
        assert!(lines.len() <= request.limit);
        found.extend(lines);
        let Some(next) = page.next else { return found };
        request.after = Some(next);
    }
}

#[tokio::test]
async fn buckets_live_where_they_were_made_and_are_deleted_with_their_guests() {
    let stores = Stores::new();
    let all = stores.open().await;
    let shelf = all.at(SiteName::Location("shelf")).unwrap();
    assert_eq!(shelf.create_bucket("b").await.unwrap().location.as_deref(), Some("shelf"));
    assert_eq!(all.create_bucket("b").await.unwrap_err().kind, StoreErrorKind::BucketExists);
    all.create_bucket("a").await.unwrap();
    put(&all, "k", commit("1")).await.unwrap();
    assert_eq!(keys(&*stores.cold, "b").await, ["k"]);
    let standard = all.at(SiteName::Class("STANDARD")).unwrap();
    put(&*standard, "s", commit("2")).await.unwrap();
    assert_eq!(keys(&*stores.fast, "/b").await, ["s"]);
    // Found again by whoever opens the stores next.
    let all = stores.open().await;
    assert_eq!(keys(&all, "b").await, ["k", "s"]);
    let listed = all.list_buckets().await.unwrap();
    let listed: Vec<_> = listed.iter().map(|bucket| (&*bucket.name, bucket.location.as_deref())).collect();
    assert_eq!(listed, [("a", None), ("b", Some("shelf"))]);
    assert_eq!(all.bucket("b").await.unwrap().location.as_deref(), Some("shelf"));
    assert_eq!(all.delete_bucket("b").await.unwrap_err().kind, StoreErrorKind::BucketNotEmpty);
    all.delete("b", "s").await.unwrap();
    assert_eq!(all.delete_bucket("b").await.unwrap_err().kind, StoreErrorKind::BucketNotEmpty);
    all.delete("b", "k").await.unwrap();
    all.delete_bucket("b").await.unwrap();
    assert_eq!(all.head("b", "k").await.unwrap_err().kind, StoreErrorKind::NoSuchBucket);
    assert!(stores.cold.list_buckets().await.unwrap().is_empty());
    assert_eq!(stores.fast.list_buckets().await.unwrap().len(), 1);
    assert_eq!(all.create_bucket("/a").await.unwrap_err().kind, StoreErrorKind::Invalid);
}

#[tokio::test]
async fn what_a_power_cut_left_twice_is_seen_once_and_removed() {
    let stores = Stores::new();
    stores.fast.create_bucket("b").await.unwrap();
    stores.cold.create_bucket("/b").await.unwrap();
    let write = async |store: &MemoryStore, bucket: &str, key: &str, etag: &str| {
        let mut writer = store.begin_put(bucket, key).await.unwrap();
        writer.write(Bytes::from(etag.to_owned())).await.unwrap();
        writer.commit(commit(etag)).await.unwrap();
    };
    write(&stores.fast, "b", "moved", "old").await;
    write(&stores.cold, "/b", "moved", "new").await;
    write(&stores.cold, "/b", "back", "old").await;
    write(&stores.fast, "b", "back", "new").await;
    write(&stores.cold, "/b", "only", "new").await;
    write(&stores.cold, "/b", "gone", "old").await;
    write(&stores.fast, "b", "gone", "new").await;
    let all = stores.open().await;
    for key in ["moved", "back", "only", "gone"] {
        assert_eq!(etag_and_class(&all, key).await.0, "new", "{key}");
    }
    let listing = all.list("b", ListRequest { limit: 9, ..ListRequest::default() }).await.unwrap();
    assert_eq!(listing.objects.len(), 4);
    assert!(listing.objects.iter().all(|object| object.etag == "new"));
    assert!(all.delete("b", "gone").await.unwrap());
    assert_eq!(all.head("b", "gone").await.unwrap_err().kind, StoreErrorKind::NoSuchKey);
    assert_eq!(all.tidy().await.unwrap(), 2);
    assert_eq!(keys(&*stores.fast, "b").await, ["back"]);
    assert_eq!(keys(&*stores.cold, "/b").await, ["moved", "only"]);
    assert_eq!(all.tidy().await.unwrap(), 0);
}

#[tokio::test]
async fn an_object_that_moves_from_class_to_class_is_always_found() {
    let stores = Stores::new();
    let all = stores.open().await;
    all.create_bucket("b").await.unwrap();
    put(&all, "k", commit("0")).await.unwrap();
    let moved = std::cell::Cell::new(false);
    let mover = async {
        for number in 0..300 {
            let store: Arc<dyn ObjectStore> = if number % 2 == 0 { cold(&all) } else { Arc::new(all.clone()) };
            put(&*store, "k", commit(&number.to_string())).await.unwrap();
            tokio::task::yield_now().await;
        }
        moved.set(true);
    };
    let looker = async {
        while !moved.get() {
            all.head("b", "k").await.unwrap();
            all.open("b", "k").await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(mover, looker);
    assert_eq!(keys(&*stores.fast, "b").await.len() + keys(&*stores.cold, "/b").await.len(), 1);
}

#[tokio::test]
async fn two_homes_of_one_name_are_refused_and_a_guest_without_its_home_is_served() {
    let stores = Stores::new();
    stores.fast.create_bucket("twice").await.unwrap();
    stores.cold.create_bucket("twice").await.unwrap();
    let site = |name: &str, store: &Arc<MemoryStore>| Site { name: name.to_owned(), class: None, store: store.clone() };
    let refused = Placement::open(vec![site("chunks", &stores.fast), site("shelf", &stores.cold)]).await.err().unwrap();
    assert_eq!(refused.kind, StoreErrorKind::Invalid);
    assert!(["twice", "chunks", "shelf"].iter().all(|word| refused.message.contains(word)), "{refused}");
    let left = Stores::new();
    left.cold.create_bucket("/b").await.unwrap();
    let all = left.open().await;
    assert_eq!(all.create_bucket("b").await.unwrap_err().kind, StoreErrorKind::BucketExists);
    put(&all, "k", commit("1")).await.unwrap();
    assert_eq!(keys(&*left.cold, "/b").await, ["k"]);
}

/// An attempt to delete a bucket that holds something does not disturb a client that writes to it.
#[tokio::test]
async fn a_bucket_that_could_not_be_deleted_takes_what_is_being_written() {
    let all = Stores::new().open().await;
    all.create_bucket("b").await.unwrap();
    put(&all, "k", commit("1")).await.unwrap();
    let mut writer = cold(&all).begin_put("b", "other").await.unwrap();
    writer.write(Bytes::from_static(b"2")).await.unwrap();
    assert_eq!(all.delete_bucket("b").await.unwrap_err().kind, StoreErrorKind::BucketNotEmpty);
    writer.commit(commit("2")).await.unwrap();
    assert_eq!(etag_and_class(&all, "other").await, ("2".to_owned(), Some("COLD".to_owned())));
}
