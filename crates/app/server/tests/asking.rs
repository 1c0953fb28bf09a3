//! Commands work on single objects of a server that runs.

#![expect(clippy::disallowed_methods, reason = "real threads, outside simulations")]

mod common;

use bytes::Bytes;
use common::{Scratch, block_on, config, make_bucket};
use shingle_server::{Served, Server};
use shingle_store_api::{Commit, StoreErrorKind};

/// SV-ASK-4: bytes of any length go over in pieces. SV-ASK-5: only a commit stores them.
#[test]
fn a_command_stores_an_object_by_its_commit_and_reads_it_in_pieces() {
    let scratch = Scratch::new("asking");
    let (data, drive) = (scratch.path("data"), scratch.path("drive"));
    let body: Vec<u8> = (0..9_000_001_u32).map(|at| (at / 7) as u8).collect();
    block_on(async {
        let server = Server::start(config(&data, &[&drive])).await.unwrap();
        make_bucket(&server).await;
        let place = data.clone();
        let asking = tokio::task::spawn_blocking(move || {
            block_on(async {
                let served = Served::of(&place).unwrap().unwrap();
                let mut left = served.begin_put("first", "key", None).unwrap();
                left.write(Bytes::from(body.clone())).await.unwrap();
                drop(left);
                assert_eq!(served.head("first", "key").unwrap_err().kind, StoreErrorKind::NoSuchKey);
                let mut writer = served.begin_put("first", "key", Some(body.len() as u64)).unwrap();
                writer.write(Bytes::from(body.clone())).await.unwrap();
                let commit = Commit { etag: "e".to_owned(), ..Commit::default() };
                let info = writer.commit(commit).await.unwrap();
                assert_eq!((info.size, info.etag.as_str()), (body.len() as u64, "e"));
                assert_eq!(served.head("first", "key").unwrap(), info);
                let reader = served.open("first", "key").unwrap();
                assert!(served.delete("first", "key").unwrap() && !served.delete("first", "key").unwrap());
                // The version that is open is read to its end.
                assert!(reader.read(0, info.size).await.unwrap() == body, "other bytes");
                assert_eq!(reader.read(info.size, 1).await.unwrap_err().kind, StoreErrorKind::Invalid);
            });
        });
        asking.await.unwrap();
        assert_eq!(server.store().head("first", "key").await.unwrap_err().kind, StoreErrorKind::NoSuchKey);
        server.stop().await;
        assert!(Served::of(&data).unwrap().is_none(), "a server that has stopped");
    });
}
