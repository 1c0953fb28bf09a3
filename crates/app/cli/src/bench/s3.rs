//! PUT and GET of 1 MiB objects, 8 clients on loopback, beside the same HTTP stack over a store that discards.
//!
//! Server and clients share the process and the machine, in both measurements alike.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use shingle_base::{Blocks, StoreId};
use shingle_chunk_store::{ChunkClient, ChunkStore, FormatOptions, Options};
use shingle_object_store::{Drive, FjallIndex, ObjectEngine, ObjectStoreClient};
use shingle_runtime::Runtime;
use shingle_s3_gateway::reference::DiscardStore;
use shingle_s3_gateway::{Credentials, Gateway, Options as GatewayOptions};
use shingle_store_api::ObjectStore;
use shingle_zoned::{Geometry, MemoryDevice};

use crate::bench::scratch::Scratch;
use crate::bench::{Figure, limit, median};
use crate::failure::{Failure, Outcome};

const CLIENTS: usize = 8;
const OBJECT: usize = 1 << 20;
/// Objects that each client puts, and then gets, in a round.
const OBJECTS: usize = 24;
/// Times that a client gets each of its objects in a round: a GET is short.
const GETS: usize = 8;
const ROUNDS: usize = 5;
const INDEX_CACHE_BYTES: u64 = 64 << 20;

pub(crate) fn run() -> Outcome<Vec<Figure>> {
    let executor = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let keys = Credentials { access_key: "bench".to_owned(), secret_key: "bench-secret".to_owned() };
    // As a server's: in files, and read on threads that may block.
    let scratch = Scratch::new(&std::env::temp_dir())?;
    let index = FjallIndex::open(scratch.0.join("index"), INDEX_CACHE_BYTES)?;
    let ours = executor.block_on(objects(index))?;
    let stores: [Arc<dyn ObjectStore>; 2] = [Arc::new(ours), Arc::new(DiscardStore::new(OBJECT as u64))];
    let mut endpoints = Vec::new();
    for store in stores {
        let options = GatewayOptions { credentials: vec![keys.clone()], ..GatewayOptions::default() };
        let gateway = Gateway::new(store, options)?;
        let listener = executor.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        endpoints.push(listener.local_addr()?);
        executor.spawn(async move { gateway.serve(listener, std::future::pending()).await });
    }
    let mut rates = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for &endpoint in &endpoints {
        Client::new(endpoint, &keys).request("PUT", "/bench", &[])?;
    }
    for round in 0..ROUNDS {
        for (endpoint, rates) in endpoints.iter().zip(&mut rates) {
            for (method, rates) in ["PUT", "GET"].into_iter().zip(rates) {
                rates.push(all_clients(*endpoint, &keys, method, round)?);
            }
        }
    }
    executor.shutdown_background();
    let [[our_puts, our_gets], [puts, gets]] = rates;
    Ok(vec![
        Figure { id: "put_1mib", unit: "bytes/s", value: median(our_puts), limit: median(puts) },
        Figure { id: "get_1mib", unit: "bytes/s", value: median(our_gets), limit: median(gets) },
    ])
}

/// An object store on two memory devices, owned by a thread of its own.
async fn objects(index: FjallIndex) -> Outcome<ObjectStoreClient> {
    let (tell, told) = tokio::sync::oneshot::channel();
    shingle_runtime::real::spawn_thread("objects", |rt: Runtime| async move {
        let opened = open_objects(&rt, index).await;
        match opened {
            Ok(engine) => {
                if tell.send(Ok(engine.client())).is_ok() {
                    engine.closed().await;
                }
            }
            Err(failure) => drop(tell.send(Err(failure))),
        }
    })?;
    told.await?
}

async fn open_objects(rt: &Runtime, index: FjallIndex) -> Outcome<ObjectEngine> {
    let mut drives = Vec::new();
    for number in 1..=2 {
        let device = Rc::new(MemoryDevice::new(Geometry::hm_smr(Blocks(65_536), 80, 0, 128)));
        let store = StoreId(number);
        let options = FormatOptions { store: Some(store), ..FormatOptions::default() };
        ChunkStore::format(rt, device.clone(), &options).await?;
        let (chunks, _) = ChunkStore::open(rt, device, Options::default()).await?;
        let (client, requests) = ChunkClient::channel(256);
        drop(rt.spawn(async move { chunks.serve(requests).await }));
        drives.push(Drive { client, store, hides: false });
    }
    let (engine, _) =
        ObjectEngine::open(rt.clone(), drives, Arc::new(index), shingle_object_store::Options::default(), None).await?;
    Ok(engine)
}

/// Bytes a second of all clients together.
fn all_clients(endpoint: SocketAddr, keys: &Credentials, method: &'static str, round: usize) -> Outcome<f64> {
    let body: Arc<Vec<u8>> = Arc::new((0..OBJECT).map(|at| (at * 31) as u8).collect());
    let requests = OBJECTS * if method == "GET" { GETS } else { 1 };
    let began = limit::now();
    #[expect(clippy::disallowed_methods, reason = "clients are not part of the system that is measured")]
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (keys, body) = (keys.clone(), body.clone());
            std::thread::spawn(move || {
                let mut connection = Client::new(endpoint, &keys);
                for request in 0..requests {
                    let path = format!("/bench/{client}/{}", round % 2 * OBJECTS + request % OBJECTS);
                    let sent: &[u8] = if method == "PUT" { &body } else { &[] };
                    let received = connection.request(method, &path, sent)?;
                    if method == "GET" && received != OBJECT {
                        return Err(Failure::new(format!("{path}: {received} bytes came back")));
                    }
                }
                Ok(())
            })
        })
        .collect();
    for client in clients {
        client.join().map_err(|_| Failure::new("a client panicked"))??;
    }
    Ok((CLIENTS * requests * OBJECT) as f64 / began.elapsed().as_secs_f64())
}

/// A client with one connection, that signs headers and not payload, as clients over TLS do.
struct Client {
    endpoint: SocketAddr,
    keys: Credentials,
    connection: Option<BufReader<TcpStream>>,
    buffer: Vec<u8>,
}

impl Client {
    fn new(endpoint: SocketAddr, keys: &Credentials) -> Self {
        Self { endpoint, keys: keys.clone(), connection: None, buffer: vec![0; 256 << 10] }
    }

    /// Sends a request and reads its answer; returns the length of the answer's body.
    fn request(&mut self, method: &str, path: &str, body: &[u8]) -> Outcome<usize> {
        let time = timestamp();
        let signature = self.signature(method, path, &time);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nx-amz-date: {time}\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n\
             authorization: AWS4-HMAC-SHA256 Credential={}/{}/us-east-1/s3/aws4_request, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}\r\ncontent-length: {}\r\n\r\n",
            self.endpoint,
            self.keys.access_key,
            &time[..8],
            body.len()
        );
        if self.connection.is_none() {
            let stream = TcpStream::connect(self.endpoint)?;
            stream.set_nodelay(true)?;
            self.connection = Some(BufReader::with_capacity(64 << 10, stream));
        }
        let Some(reader) = &mut self.connection else { return Err(Failure::new("no connection")) };
        reader.get_mut().write_all(head.as_bytes())?;
        reader.get_mut().write_all(body)?;
        let (mut line, mut length, mut status) = (String::new(), 0usize, String::new());
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let text = line.trim_end();
            if text.is_empty() {
                break;
            }
            if status.is_empty() {
                status = text.to_owned();
            } else if let Some((name, value)) = text.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        let mut left = length;
        while left > 0 {
            let take = left.min(self.buffer.len());
            reader.read_exact(&mut self.buffer[..take])?;
            left -= take;
        }
        if status.contains(" 200") { Ok(length) } else { Err(Failure::new(format!("{method} {path}: {status}"))) }
    }

    /// The request's signature, version 4.
    fn signature(&self, method: &str, path: &str, time: &str) -> String {
        let request = format!(
            "{method}\n{path}\n\nhost:{}\nx-amz-content-sha256:UNSIGNED-PAYLOAD\nx-amz-date:{time}\n\n\
             host;x-amz-content-sha256;x-amz-date\nUNSIGNED-PAYLOAD",
            self.endpoint
        );
        let date = &time[..8];
        let hash = hex(&Sha256::digest(request.as_bytes()));
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{date}/us-east-1/s3/aws4_request\n{hash}");
        let mut key = format!("AWS4{}", self.keys.secret_key).into_bytes();
        for part in [date, "us-east-1", "s3", "aws4_request", &text] {
            key = authenticate(&key, part);
        }
        hex(&key)
    }
}

fn authenticate(key: &[u8], text: &str) -> Vec<u8> {
    // A key of any length will do for this algorithm.
    Hmac::<Sha256>::new_from_slice(key)
        .map(|mac| mac.chain_update(text.as_bytes()).finalize().into_bytes().to_vec())
        .unwrap_or_default()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Now, as signatures want it: 20260131T235959Z.
fn timestamp() -> String {
    #[expect(clippy::disallowed_methods, reason = "signatures are made with the real time")]
    let now = std::time::SystemTime::now();
    let seconds = now.duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (day, second) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut left) = (1970, day);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    while left >= 365 + u64::from(leap(year)) {
        left -= 365 + u64::from(leap(year));
        year += 1;
    }
    let months = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while left >= months[month] {
        left -= months[month];
        month += 1;
    }
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}{:02}{:02}T{hour:02}{minute:02}{:02}Z", month + 1, left + 1, second % 60)
}
