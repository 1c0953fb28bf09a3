//! ROOM-1 to ROOM-3: what the metadata log has no room for is refused, and reads go on.

mod common;

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use common::{content, formatted, open};
use futures_util::future::{Either, join_all, select};
use shingle_base::{Blocks, ChunkId, ZoneId};
use shingle_chunk_store::{ChunkStore, ErrorKind, Options, Stream};
use shingle_runtime::Runtime;
use shingle_sim::{Sim, SimDevice};
use shingle_zoned::{Geometry, ZoneState};

fn id(number: u64) -> ChunkId {
    ChunkId::from_u64(number)
}

fn quiet() -> Options {
    Options { background: false, landing: None, record_max: 1, ..Options::default() }
}

async fn append(store: &ChunkStore, chunk: u64, at: u64, length: u64) -> shingle_chunk_store::Result<u64> {
    store.append(id(chunk), at, vec![Bytes::from(content(chunk, at, length))]).await
}

/// What an operation ends with, which it has to within a minute.
async fn ends<T>(rt: &Runtime, what: &str, operation: impl Future<Output = T>) -> T {
    match select(Box::pin(operation), Box::pin(rt.sleep(Duration::from_secs(60)))).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => panic!("{what} does not end"),
    }
}

/// ROOM-1: small appends to many chunks, whose records make no runs.
#[test]
fn appends_are_refused_before_the_index_outgrows_a_checkpoint() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 600, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        for chunk in 0..450 {
            store.create(id(chunk), Stream::Data).await.unwrap();
        }
        let (mut sizes, mut refused) = (Vec::new(), 0);
        for chunk in 0..450 {
            let (mut at, mut appends) = (0, Vec::new());
            for number in 0..30 {
                let length = 10 + number % 2;
                appends.push(append(&store, chunk, at, length));
                at += length;
            }
            let ends: Vec<_> = join_all(appends).await;
            for error in ends.iter().filter_map(|end| end.as_ref().err()) {
                let follows = matches!(error.kind, ErrorKind::WrongOffset { .. });
                assert!(error.kind == ErrorKind::NoSpace || follows, "{error}");
                refused += 1;
            }
            sizes.push(ends.iter().filter_map(|end| end.as_ref().ok()).max().copied().unwrap_or(0));
        }
        assert!(refused > 0, "{refused}");
        let error = store.create(id(1000), Stream::Data).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoSpace);
        // A checkpoint has room, and what is deleted makes some.
        store.checkpoint().await.unwrap();
        for chunk in 0..50 {
            store.delete(id(chunk)).await.unwrap();
        }
        append(&store, 449, sizes[449], 10).await.unwrap();
        store.close().await.unwrap();
        let (store, report) = open(&rt, &SimDevice::new(&rt, &device.crash_image(1)), quiet()).await;
        assert_eq!(report.damage, []);
        for chunk in 50..449 {
            assert_eq!(store.stat(id(chunk)).unwrap().size, sizes[chunk as usize]);
        }
    });
}

/// Equal records make runs, which take little: of these the index has room for many more.
#[test]
fn equal_appends_are_not_refused_for_the_most_that_they_could_take() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 600, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        for chunk in 0..480 {
            store.create(id(chunk), Stream::Data).await.unwrap();
            let ends = join_all((0..30).map(|number| append(&store, chunk, number * 10, 10))).await;
            assert!(ends.iter().all(Result::is_ok), "chunk {chunk}");
        }
        store.checkpoint().await.unwrap();
    });
}

/// ROOM-3: three of six metazones are read-only, so that no checkpoint makes room. All that changes something ends with an error,
/// and the drive is not written to again and again.
#[test]
fn with_too_few_metazones_changes_are_refused_and_reads_go_on() {
    for background in [false, true] {
        let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, quiet()).await;
            store.create(id(1), Stream::Data).await.unwrap();
            append(&store, 1, 0, 20_000).await.unwrap();
            store.close().await.unwrap();
            let medium = device.image();
            for zone in 4..=6 {
                medium.set_state(ZoneId(zone), ZoneState::ReadOnly);
            }
            let device = SimDevice::new(&rt, &medium);
            let options = Options { background, ..quiet() };
            let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), options).await.unwrap();
            for round in 0..3 {
                let created = ends(&rt, "create", store.create(id(2), Stream::Data)).await;
                assert_eq!(created.unwrap_err().kind, ErrorKind::Device, "round {round}");
                let appended = ends(&rt, "append", append(&store, 1, 20_000, 100)).await;
                // A seal has begun in the rounds before.
                let kind = if round == 0 { ErrorKind::Device } else { ErrorKind::Sealed };
                assert_eq!(appended.unwrap_err().kind, kind, "round {round}");
                let sealed = ends(&rt, "seal", store.seal(id(1))).await;
                assert_eq!(sealed.unwrap_err().kind, ErrorKind::Device, "round {round}");
                let deleted = ends(&rt, "delete", store.delete(id(1))).await;
                assert_eq!(deleted.unwrap_err().kind, ErrorKind::Device, "round {round}");
                assert!(store.read(id(1), 0, 20_000).await.unwrap() == content(1, 0, 20_000));
                rt.sleep(Duration::from_secs(600)).await;
            }
            let writes = device.counts().writes.0;
            assert!(writes < 60, "{writes} writes");
            drop(ends(&rt, "close", store.close()).await);
            let (store, report) = open(&rt, &SimDevice::new(&rt, &device.crash_image(1)), quiet()).await;
            assert_eq!(report.damage, []);
            assert!(store.read(id(1), 0, 20_000).await.unwrap() == content(1, 0, 20_000));
        });
    }
}
