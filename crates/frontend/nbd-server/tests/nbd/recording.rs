//! Recordings of what clients ask for, from their own connections.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

use flate2::bufread::MultiGzDecoder;
use shingle_block_trace::blocks::BlockTrace;
use shingle_block_trace::io::{Io, IoKind};
use shingle_nbd_server::{About, Listener, Options, Server};
use shingle_store_api::StoreErrorKind;

use crate::client::{Client, FLUSH, FUA, READ, STATUS, TRIM, WRITE, ZEROES};
use crate::harness::{SIZE, Volume, until};

fn read(file: &PathBuf) -> Vec<Io> {
    let text = MultiGzDecoder::new(BufReader::new(File::open(file).unwrap()));
    let trace = BlockTrace::read(Box::new(BufReader::new(text))).unwrap();
    assert_eq!((trace.head().name.as_str(), trace.head().size), ("disk", SIZE));
    trace.map(Result::unwrap).collect()
}

/// NBD-REC-2: kinds, places, durability and order are those of the clients, also of holes, of parts of sectors and of what fails.
#[tokio::test]
async fn a_recording_has_what_clients_asked_for_and_had_been_told() {
    let volume = Volume::new(About::new("disk"), 4096).await;
    let file = std::env::temp_dir().join(format!("shingle-{}-nbd.trace.gz", std::process::id()));
    let (export, recording) = volume.export.clone().recorded(&file).unwrap();
    let server = Server::new(Options::default());
    server.add(export).unwrap();
    let listener = Listener::tcp("127.0.0.1:0").await.unwrap();
    let address = listener.tcp_address().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(async move { server.serve(vec![listener], async { drop(stopped.await) }).await });
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = Client::over_tcp(address).await;
        client.structured().await;
        client.contexts("disk", &["base:allocation"]).await;
        client.go("disk", &[]).await;
        clients.push(client);
    }
    let [one, two] = &mut clients[..] else { panic!("two clients") };
    assert_eq!(one.ask((WRITE, FUA), 8192, 4096, &[7; 4096]).await, 0);
    // One that hangs in the store, and others that are answered meanwhile.
    volume.control.gate.send_replace(0..4096);
    two.send((WRITE, 0), 1, 0, 4096, &[1; 4096]).await;
    until(|| volume.control.held.load(Relaxed) == 1).await;
    assert_eq!(one.read(1 << 20, 1 << 20).await.len(), 1 << 20);
    assert_eq!(one.ask((ZEROES, 0), 1 << 20, 64 << 10, &[]).await, 0);
    one.send((STATUS, 0), 9, 0, 4096 << 4, &[]).await;
    volume.control.gate.send_replace(0..0);
    assert_eq!(two.errno(1).await, 0);
    assert_eq!(two.ask((FLUSH, 0), 0, 0, &[]).await, 0);
    assert_eq!(two.ask((TRIM, FUA), 4096, 4096, &[]).await, 0);
    // Parts of sectors, by clients that were not told of them.
    assert_eq!(two.ask((WRITE, 0), 700, 100, &[2; 100]).await, 0);
    // Refused, and so no I/O.
    assert_ne!(two.ask((READ, 0), SIZE, 4096, &[]).await, 0);
    *volume.control.failure.lock().unwrap() = Some(StoreErrorKind::Device);
    assert_ne!(two.ask((READ, 0), 0, 4096, &[]).await, 0);
    drop(clients);
    drop(stop);
    serving.await.unwrap();
    recording.finish().await;
    let ios = read(&file);
    std::fs::remove_file(&file).unwrap();
    let found: Vec<_> = ios.iter().map(|io| (io.kind, io.offset, io.length, io.fua, io.after.clone())).collect();
    let expected = [
        (IoKind::Write, 8192, 4096, true, vec![]),
        (IoKind::Write, 0, 4096, false, vec![1]),
        (IoKind::Read, 1 << 20, 1 << 20, false, vec![2]),
        (IoKind::Zero, 1 << 20, 64 << 10, false, vec![1]),
        (IoKind::Flush, 0, 0, false, vec![1, 3]),
        (IoKind::Trim, 4096, 4096, true, vec![1]),
        (IoKind::Write, 512, 512, false, vec![1]),
        (IoKind::Read, 0, 4096, false, vec![1]),
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (number, (found, mut expected)) in found.into_iter().zip(expected).enumerate() {
        let mut found = found;
        found.4.sort_unstable();
        expected.4.sort_unstable();
        assert_eq!(found, expected, "I/O {number}");
    }
    assert!(ios.iter().all(|io| io.took.is_some()) && ios[1].took > ios[3].took);
    assert_eq!(ios[0].at, 0, "it begins with the first request");
}
