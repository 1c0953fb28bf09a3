//! Single objects of a server that is not running: read, written and deleted on drives and arrays alike.

#![expect(clippy::disallowed_methods, reason = "a command has a process of its own, and this a thread")]

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use common::{Scratch, block_on, config, with_three_drives};
use shingle_server::{Access, Config, Error, Offline, Server};
use shingle_store_api::{Commit, ObjectStore, SiteName, StoreErrorKind, StoreResult};

const LARGE: usize = 3 << 20;

fn bytes_of(letter: u8, size: usize) -> Bytes {
    Bytes::from(vec![letter; size])
}

async fn put(store: &dyn ObjectStore, bucket: &str, key: &str, data: Bytes) -> StoreResult<()> {
    let mut writer = store.begin_put(bucket, key).await?;
    writer.write(data).await?;
    writer.commit(Commit { etag: "e".to_owned(), ..Commit::default() }).await.map(drop)
}

async fn get(store: &dyn ObjectStore, bucket: &str, key: &str) -> StoreResult<Bytes> {
    let reader = store.open(bucket, key).await?;
    reader.read(0, reader.info().size).await
}

/// Runs `work` on the objects of a server that is not running, as a command does: in a thread of its own.
fn offline<T: Send + 'static>(
    config: Config,
    access: Access,
    work: impl AsyncFnOnce(&dyn ObjectStore, &[Error]) -> T + Send + 'static,
) -> T {
    let run = move |rt| async move {
        let offline = Offline::open(&rt, &config, None).await.unwrap();
        let store = offline.store(access).await.unwrap();
        let found = work(store.store(), store.absent()).await;
        store.close().await;
        offline.close().await;
        found
    };
    std::thread::spawn(|| shingle_runtime::real::run(run).unwrap()).join().unwrap()
}

/// Files of a directory, below it too, and when they were written; but the lock.
fn files(directory: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else if entry.file_name() != "lock" {
            found.insert(entry.path(), entry.metadata().unwrap().modified().unwrap());
        }
    }
    found
}

#[test]
fn single_objects_are_read_written_and_deleted_without_the_server() {
    let scratch = Scratch::new("offline");
    let (data, drive) = (scratch.path("data"), scratch.path("drive"));
    let (config, drives) = with_three_drives(config(&data, &[&drive]), &scratch);
    block_on(async {
        let server = Server::start(config.clone()).await.unwrap();
        let store = server.store();
        store.create_bucket("warm").await.unwrap();
        store.at(SiteName::Location("shelf")).unwrap().create_bucket("cold").await.unwrap();
        put(&*store, "warm", "small", bytes_of(b's', 100)).await.unwrap();
        put(&*store, "cold", "large", bytes_of(b'l', LARGE)).await.unwrap();
        put(&*store.at(SiteName::Class("STANDARD_IA")).unwrap(), "warm", "apart", bytes_of(b'a', LARGE)).await.unwrap();
        drop(store);
        server.stop().await;
    });

    // The files of emulated drives note who has them open.
    let before = files(&data.join("arrays"));
    offline(config.clone(), Access::Read, async |store, absent| {
        assert!(absent.is_empty());
        assert!(get(store, "warm", "small").await.unwrap() == bytes_of(b's', 100));
        assert!(get(store, "cold", "large").await.unwrap() == bytes_of(b'l', LARGE));
        assert!(get(store, "warm", "apart").await.unwrap() == bytes_of(b'a', LARGE));
        assert_eq!(store.head("warm", "apart").await.unwrap().class.as_deref(), Some("STANDARD_IA"));
        assert_eq!(get(store, "none", "x").await.unwrap_err().kind, StoreErrorKind::NoSuchBucket);
        assert_eq!(get(store, "cold", "x").await.unwrap_err().kind, StoreErrorKind::NoSuchKey);
        put(store, "cold", "refused", bytes_of(b'r', 10)).await.unwrap_err();
    });
    assert_eq!(files(&data.join("arrays")), before, "looking changes nothing");

    offline(config.clone(), Access::Write, async |store, _| {
        put(store, "cold", "new", bytes_of(b'n', LARGE)).await.unwrap();
        put(store, "warm", "small", bytes_of(b't', 7)).await.unwrap();
        assert!(store.delete("cold", "large").await.unwrap());
        assert!(store.delete("warm", "apart").await.unwrap());
        assert!(!store.delete("warm", "apart").await.unwrap());
        let error = put(store, "none", "x", bytes_of(b'x', 7)).await.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::NoSuchBucket);
    });
    block_on(async {
        let server = Server::start(config.clone()).await.unwrap();
        let store = server.store();
        assert!(get(&*store, "cold", "new").await.unwrap() == bytes_of(b'n', LARGE));
        assert!(get(&*store, "warm", "small").await.unwrap() == bytes_of(b't', 7));
        for (bucket, key) in [("cold", "large"), ("warm", "apart"), ("cold", "refused")] {
            assert_eq!(store.head(bucket, key).await.unwrap_err().kind, StoreErrorKind::NoSuchKey, "{key}");
        }
        drop(store);
        server.stop().await;
    });

    for drive in &drives {
        std::fs::rename(drive, drive.with_extension("away")).unwrap();
    }
    offline(config, Access::Read, async |store, absent| {
        assert!(absent[0].message.contains("shelf") && absent.len() == 1, "{absent:?}");
        assert_eq!(get(store, "cold", "new").await.unwrap_err().kind, StoreErrorKind::Unavailable);
    });
}
