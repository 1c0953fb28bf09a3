//! PUT and GET of objects of 4 KiB, 64 KiB and 1 MiB, 8 clients on loopback, beside the same HTTP stack over a store that
//! discards.
//!
//! A GET of an object that was used lately finds its row in memory; `cold` GETs ask the index, as those of a store that is much larger
//! than its cache: a second store keeps no rows.
//!
//! Server and clients share the process and the machine, in all measurements alike. The processor time of a request is the
//! server's alone: less noisy than the rate, where others use the machine too.

pub(super) mod drives;
mod platter;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use rustix::time::{ClockId, clock_gettime};
use sha2::{Digest, Sha256};
use shingle_base::{Blocks, StoreId};
use shingle_chunk_store::{ChunkClient, ChunkStore, FormatOptions, Options};
use shingle_object_store::{Drive, FjallIndex, ObjectEngine, ObjectStoreClient};
use shingle_runtime::Runtime;
use shingle_s3_gateway::reference::DiscardStore;
use shingle_s3_gateway::{Credentials, Gateway, Options as GatewayOptions};
use shingle_store_api::ObjectStore;
use shingle_zoned::Geometry;

use crate::bench::figure::{Figure, median};
use crate::bench::limit;
use crate::bench::s3::platter::Platter;
use crate::failure::{Failure, Outcome};
use crate::scratch::Scratch;

const CLIENTS: usize = 8;
const ROUNDS: usize = 5;
/// Times that a client gets each of its objects in a round: a GET is short.
const GETS: usize = 8;

/// Objects of one size.
struct Size {
    bytes: usize,
    /// Number of objects that each client puts, and then gets, in a round.
    objects: usize,
    /// Ids of the figures: rates and processor times of [`SERIES`].
    rates: [&'static str; 3],
    times: [&'static str; 3],
}

const SIZES: [Size; 3] = [
    Size {
        bytes: 4 << 10,
        objects: 96,
        rates: ["put_4kib", "get_4kib", "get_4kib_cold"],
        times: ["put_4kib_cpu", "get_4kib_cpu", "get_4kib_cold_cpu"],
    },
    Size {
        bytes: 64 << 10,
        objects: 64,
        rates: ["put_64kib", "get_64kib", "get_64kib_cold"],
        times: ["put_64kib_cpu", "get_64kib_cpu", "get_64kib_cold_cpu"],
    },
    Size {
        bytes: 1 << 20,
        objects: 24,
        rates: ["put_1mib", "get_1mib", "get_1mib_cold"],
        times: ["put_1mib_cpu", "get_1mib_cpu", "get_1mib_cold_cpu"],
    },
];
const METHODS: [&str; 2] = ["PUT", "GET"];

/// Stores in the order of their endpoints.
const OURS: usize = 0;
const COLD: usize = 1;
const DISCARDING: usize = 2;

/// Store and method of the figures of a size: PUT, GET, GET without rows in memory.
const SERIES: [(usize, usize); 3] = [(OURS, 0), (OURS, 1), (COLD, 1)];

/// Samples of one store and method, one a round.
#[derive(Default)]
struct Samples {
    bytes_per_s: Vec<f64>,
    cpu_us: Vec<f64>,
}

const INDEX_CACHE_BYTES: u64 = 64 << 20;
/// Bytes that one of a store's two drives gets in all rounds, and some more.
const DRIVE_BYTES: usize = 768 << 20;

pub(crate) fn run() -> Outcome<Vec<Figure>> {
    let executor = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let keys = Credentials { access_key: "bench".to_owned(), secret_key: "bench-secret".to_owned() };
    // As a server's: in files, and read on threads that may block.
    let scratch = Scratch::new(&std::env::temp_dir())?;
    let with_rows = shingle_object_store::Options::default();
    let without = shingle_object_store::Options { row_cache_bytes: 0, ..shingle_object_store::Options::default() };
    let open = |name: &str, options| -> Outcome<Arc<dyn ObjectStore>> {
        let index = FjallIndex::open(scratch.0.join(name), INDEX_CACHE_BYTES)?;
        Ok(Arc::new(executor.block_on(objects(index, options))?))
    };
    let (ours, cold) = (open("index", with_rows)?, open("cold", without)?);
    let mut figures = Vec::new();
    for size in &SIZES {
        let discarding: Arc<dyn ObjectStore> = Arc::new(DiscardStore::new(size.bytes as u64));
        let mut endpoints = Vec::new();
        for store in [ours.clone(), cold.clone(), discarding] {
            endpoints.push(endpoint(&executor, store, &keys)?);
        }
        figures.extend(compare(size, &endpoints, &keys)?);
    }
    executor.shutdown_background();
    Ok(figures)
}

/// Serves `store` until the executor ends.
fn endpoint(
    executor: &tokio::runtime::Runtime,
    store: Arc<dyn ObjectStore>,
    keys: &Credentials,
) -> Outcome<SocketAddr> {
    let options = GatewayOptions { credentials: vec![keys.clone()], ..GatewayOptions::default() };
    let gateway = Gateway::new(store, options)?;
    let listener = executor.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    executor.spawn(async move { gateway.serve(listener, std::future::pending()).await });
    Ok(address)
}

/// All stores in turns.
fn compare(size: &Size, endpoints: &[SocketAddr], keys: &Credentials) -> Outcome<Vec<Figure>> {
    let bucket = format!("bench-{}", size.bytes);
    for &endpoint in endpoints {
        Client::new(endpoint, keys).request("PUT", &format!("/{bucket}"), &[])?;
    }
    let mut samples: [[Samples; 2]; 3] = Default::default();
    for round in 0..ROUNDS {
        for (&endpoint, samples) in endpoints.iter().zip(&mut samples) {
            for (method, samples) in METHODS.into_iter().zip(samples) {
                let load = Load { bucket: bucket.clone(), method, bytes: size.bytes, objects: size.objects, round };
                load.run(endpoint, keys, samples)?;
            }
        }
    }
    let mut figures = Vec::new();
    for (at, (store, method)) in SERIES.into_iter().enumerate() {
        let (ours, discarding) = (&samples[store][method], &samples[DISCARDING][method]);
        let both = |of: fn(&Samples) -> &Vec<f64>| (median(of(ours).clone()), median(of(discarding).clone()));
        let (value, limit) = both(|samples| &samples.bytes_per_s);
        figures.push(Figure { id: size.rates[at], unit: "bytes/s", value, limit });
        let (value, limit) = both(|samples| &samples.cpu_us);
        figures.push(Figure { id: size.times[at], unit: "us", value, limit });
    }
    Ok(figures)
}

/// An object store on two drives in memory, owned by a thread of its own.
async fn objects(index: FjallIndex, options: shingle_object_store::Options) -> Outcome<ObjectStoreClient> {
    let (tell, told) = tokio::sync::oneshot::channel();
    shingle_runtime::real::spawn_thread("objects", |rt: Runtime| async move {
        let opened = open_objects(&rt, index, options).await;
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

async fn open_objects(
    rt: &Runtime,
    index: FjallIndex,
    options: shingle_object_store::Options,
) -> Outcome<ObjectEngine> {
    let mut drives = Vec::new();
    for number in 1..=2 {
        let device = Rc::new(Platter::new(Geometry::hm_smr(Blocks(65_536), 80, 0, 128), DRIVE_BYTES));
        let store = StoreId(number);
        let options = FormatOptions { store: Some(store), ..FormatOptions::default() };
        ChunkStore::format(rt, device.clone(), &options).await?;
        let (chunks, _) = ChunkStore::open(rt, device, Options::default()).await?;
        let (client, requests) = ChunkClient::channel(256);
        drop(rt.spawn(async move { chunks.serve(requests).await }));
        drives.push(Drive { client, store, hides: false });
    }
    let (engine, _) = ObjectEngine::open(rt.clone(), drives, Arc::new(index), options, None).await?;
    Ok(engine)
}

/// Requests of one method, by all clients, in one round.
#[derive(Clone)]
struct Load {
    bucket: String,
    method: &'static str,
    bytes: usize,
    objects: usize,
    round: usize,
}

impl Load {
    fn requests(&self) -> usize {
        self.objects * if self.method == "GET" { GETS } else { 1 }
    }

    fn run(&self, endpoint: SocketAddr, keys: &Credentials, samples: &mut Samples) -> Outcome {
        let body: Arc<Vec<u8>> = Arc::new((0..self.bytes).map(|at| (at * 31) as u8).collect());
        let (began, cpu) = (limit::now(), cpu(ClockId::ProcessCPUTime));
        #[expect(clippy::disallowed_methods, reason = "clients are not part of the system that is measured")]
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (load, keys, body) = (self.clone(), keys.clone(), body.clone());
                std::thread::spawn(move || load.client(client, endpoint, &keys, &body))
            })
            .collect();
        let mut clients_cpu = Duration::ZERO;
        for client in clients {
            clients_cpu += client.join().map_err(|_| Failure::new("a client panicked"))??;
        }
        let requests = (CLIENTS * self.requests()) as f64;
        let server = self::cpu(ClockId::ProcessCPUTime).saturating_sub(cpu).saturating_sub(clients_cpu);
        samples.bytes_per_s.push(requests * self.bytes as f64 / began.elapsed().as_secs_f64());
        samples.cpu_us.push(server.as_secs_f64() * 1e6 / requests);
        Ok(())
    }

    /// Sends one client's requests; returns the processor time that this took.
    fn client(&self, client: usize, endpoint: SocketAddr, keys: &Credentials, body: &[u8]) -> Outcome<Duration> {
        let mut connection = Client::new(endpoint, keys);
        for request in 0..self.requests() {
            let number = self.round % 2 * self.objects + request % self.objects;
            let path = format!("/{}/{client}/{number}", self.bucket);
            let sent: &[u8] = if self.method == "PUT" { body } else { &[] };
            let received = connection.request(self.method, &path, sent)?;
            if self.method == "GET" && received != self.bytes {
                return Err(Failure::new(format!("{path}: {received} bytes came back")));
            }
        }
        Ok(cpu(ClockId::ThreadCPUTime))
    }
}

/// Processor time that the process or the thread has used so far.
fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
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
