//! An S3 client that signs by hand, so that it can also send what no SDK would.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]
#![allow(clippy::disallowed_methods, reason = "tests of a front end run on tokio's threads and clock")]

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use s3s::crypto::{Checksum as _, Sha256};
use s3s::dto::{Timestamp, TimestampFormat};
use shingle_s3_gateway::{Credentials, Gateway, GatewayMetrics, Limits, Options, Served};
use shingle_store_testing::MemoryStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub const ACCESS_KEY: &str = "AKEXAMPLE";
pub const SECRET_KEY: &str = "a secret that is one";
const REGION: &str = "us-east-1";

/// A gateway to a store in memory, with a bucket named `bucket`.
pub struct Server {
    pub address: SocketAddr,
    pub store: MemoryStore,
    pub metrics: Arc<GatewayMetrics>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Served>,
}

impl Server {
    pub async fn start(limits: Limits) -> Self {
        Self::start_with(limits, 1 << 30).await
    }

    pub async fn start_with(limits: Limits, capacity: u64) -> Self {
        Self::begin(Options { limits, ..Options::default() }, capacity).await
    }

    pub async fn start_in(domain: Option<&str>, limits: Limits) -> Self {
        Self::begin(Options { domain: domain.map(str::to_owned), limits, ..Options::default() }, 1 << 30).await
    }

    pub async fn begin(options: Options, capacity: u64) -> Self {
        let store = MemoryStore::new(capacity);
        let credentials = Credentials { access_key: ACCESS_KEY.to_owned(), secret_key: SECRET_KEY.to_owned() };
        let options = Options { credentials: vec![credentials], ..options };
        let gateway = Gateway::new(Arc::new(store.clone()), options).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = gateway.metrics();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            gateway.serve(listener, stopped).await
        });
        let server = Self { address, store, metrics, stop, serving };
        assert_eq!(server.send(Request::new("PUT", "/bucket")).await.status, 200);
        server
    }

    pub async fn stop(self) -> Served {
        self.stop.send(()).unwrap();
        self.serving.await.unwrap()
    }

    /// Sends a request on a connection of its own and takes the answer.
    pub async fn send(&self, request: Request) -> Answer {
        let mut connection = Connection::open(self.address).await;
        connection.write(&request.head(self.address)).await;
        // The server may answer and close before it has all of the body.
        let _ = connection.socket.write_all(&request.sent_body()).await;
        connection.answer(request.method == "HEAD").await
    }
}

/// A request to be signed and sent.
pub struct Request {
    pub method: &'static str,
    /// Path, already escaped.
    pub path: String,
    /// Query, already escaped and in order.
    pub query: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub payload: Payload,
    pub secret: &'static str,
    /// Host header, if not the server's address.
    pub host: Option<&'static str>,
    /// The body has no length in the head, but the chunks of HTTP.
    pub chunked: bool,
}

/// Value of `x-amz-content-sha256`.
pub enum Payload {
    /// The body's digest.
    Hashed,
    /// These words.
    Named(&'static str),
}

impl Request {
    pub fn new(method: &'static str, path: &str) -> Self {
        Self {
            method,
            path: path.to_owned(),
            query: String::new(),
            headers: Vec::new(),
            body: Vec::new(),
            payload: Payload::Hashed,
            secret: SECRET_KEY,
            host: None,
            chunked: false,
        }
    }

    pub fn put(path: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..Self::new("PUT", path) }
    }

    pub fn header(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    /// A body framed in chunks: the words for its digest, its decoded length, and the framed bytes.
    pub fn framed(path: &str, kind: &'static str, decoded: usize, framed: Vec<u8>) -> Self {
        let request = Self { payload: Payload::Named(kind), ..Self::put(path, framed) };
        request.header("content-encoding", "aws-chunked").header("x-amz-decoded-content-length", decoded)
    }

    /// Its body as it goes over the wire.
    fn sent_body(&self) -> Vec<u8> {
        if !self.chunked {
            return self.body.clone();
        }
        let chunk = |data: &[u8]| [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat();
        let chunks = self.body.chunks(7000).map(chunk);
        chunks.chain([b"0\r\n\r\n".to_vec()]).collect::<Vec<_>>().concat()
    }

    pub fn head(&self, address: SocketAddr) -> Vec<u8> {
        self.signed_head(address).0
    }

    /// The head, and what is needed to sign chunks behind it.
    pub fn signed_head(&self, address: SocketAddr) -> (Vec<u8>, Signer) {
        let date = amz_date();
        let payload = match self.payload {
            Payload::Hashed => hex(&Sha256::checksum(&self.body)),
            Payload::Named(words) => words.to_owned(),
        };
        let mut signed = self.headers.clone();
        signed.push(("host".to_owned(), self.host.map_or_else(|| address.to_string(), str::to_owned)));
        signed.push(("x-amz-content-sha256".to_owned(), payload.clone()));
        match signed.iter_mut().find(|(name, _)| name == "date") {
            Some((_, value)) => *value = http_date(&date),
            None => signed.push(("x-amz-date".to_owned(), date.clone())),
        }
        signed.sort();
        let names: Vec<_> = signed.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let mut canonical = format!("{}\n{}\n{}\n", self.method, self.path, self.query);
        for (name, value) in &signed {
            let _ = writeln!(canonical, "{name}:{value}");
        }
        let _ = write!(canonical, "\n{names}\n{payload}");
        let mut signer = Signer::new(self.secret, date);
        let string = format!(
            "AWS4-HMAC-SHA256\n{}\n{}\n{}",
            signer.date,
            signer.scope,
            hex(&Sha256::checksum(canonical.as_bytes()))
        );
        signer.last = hex(&hmac(&signer.key, string.as_bytes()));
        let target = if self.query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, self.query) };
        let mut head = format!("{} {target} HTTP/1.1\r\n", self.method);
        for (name, value) in &signed {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if self.chunked {
            head.push_str("transfer-encoding: chunked\r\n");
        } else if !self.body.is_empty() || self.method == "PUT" {
            let _ = write!(head, "content-length: {}\r\n", self.body.len());
        }
        let _ = write!(
            head,
            "authorization: AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{}, SignedHeaders={names}, Signature={}\r\n\r\n",
            signer.scope, signer.last
        );
        (head.into_bytes(), signer)
    }
}

/// Signs chunks, each over the signature before it.
pub struct Signer {
    key: [u8; 32],
    date: String,
    scope: String,
    last: String,
}

impl Signer {
    fn new(secret: &str, date: String) -> Self {
        let day = date.get(..8).unwrap().to_owned();
        let mut key = hmac(format!("AWS4{secret}").as_bytes(), day.as_bytes());
        for step in [REGION, "s3", "aws4_request"] {
            key = hmac(&key, step.as_bytes());
        }
        Self { key, scope: format!("{day}/{REGION}/s3/aws4_request"), date, last: String::new() }
    }

    /// A chunk with its signature.
    pub fn chunk(&mut self, data: &[u8]) -> Vec<u8> {
        let string = format!(
            "AWS4-HMAC-SHA256-PAYLOAD\n{}\n{}\n{}\n{}\n{}",
            self.date,
            self.scope,
            self.last,
            hex(&Sha256::checksum(b"")),
            hex(&Sha256::checksum(data))
        );
        self.last = hex(&hmac(&self.key, string.as_bytes()));
        let mut chunk = format!("{:x};chunk-signature={}\r\n", data.len(), self.last).into_bytes();
        chunk.extend_from_slice(data);
        chunk.extend_from_slice(b"\r\n");
        chunk
    }
}

/// The length of a body in signed chunks.
pub fn signed_length(chunks: &[&[u8]]) -> usize {
    let lengths = chunks.iter().map(|chunk| format!("{:x}", chunk.len()).len() + 83 + chunk.len() + 2);
    lengths.sum()
}

/// A connection that is written to and read from by hand.
pub struct Connection {
    pub socket: TcpStream,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        Self { socket: TcpStream::connect(address).await.unwrap() }
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).await.unwrap();
    }

    /// Reads one answer.
    pub async fn answer(&mut self, bodyless: bool) -> Answer {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            assert!(self.read(&mut bytes).await > 0, "no answer: {:?}", String::from_utf8_lossy(&bytes));
        };
        let head = String::from_utf8(bytes.drain(..end).collect()).unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut answer = Answer { status, headers, body: bytes };
        let length = answer.header("content-length").map_or(0, |length| length.parse::<usize>().unwrap());
        while !bodyless && status != 304 && answer.body.len() < length {
            let mut body = std::mem::take(&mut answer.body);
            let read = self.read(&mut body).await;
            answer.body = body;
            assert!(read > 0, "the answer is short: {} of {length}", answer.body.len());
        }
        answer
    }

    async fn read(&mut self, bytes: &mut Vec<u8>) -> usize {
        let reading = self.socket.read_buf(bytes);
        tokio::time::timeout(Duration::from_secs(20), reading).await.expect("an answer within 20 s").unwrap_or(0)
    }

    /// Waits until the server closes the connection; what came until then.
    pub async fn closed(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.read(&mut bytes).await > 0 {}
        bytes
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The S3 error code in the body.
    pub fn code(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
        code.map_or_else(|| format!("{} without a code: {text}", self.status), |(code, _)| code.to_owned())
    }
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    let key = if key.len() > 64 { Sha256::checksum(key).to_vec() } else { key.to_vec() };
    block[..key.len()].copy_from_slice(&key);
    let pad = |with: u8| block.map(|byte| byte ^ with);
    let inner = Sha256::checksum(&[&pad(0x36)[..], message].concat());
    Sha256::checksum(&[&pad(0x5c)[..], &inner[..]].concat())
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The time now as `20260131T235959Z`.
/// The same time as HTTP writes it.
fn http_date(amz: &str) -> String {
    let (date, time) = (&amz[..8], &amz[9..15]);
    let text = format!("{}-{}-{}T{}:{}:{}Z", &date[..4], &date[4..6], &date[6..], &time[..2], &time[2..4], &time[4..]);
    let mut written = Vec::new();
    let time = Timestamp::parse(TimestampFormat::DateTime, &text).unwrap();
    time.format(TimestampFormat::HttpDate, &mut written).unwrap();
    String::from_utf8(written).unwrap()
}

fn amz_date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (days, second) = (seconds / 86400, seconds % 86400);
    // Days since 0000-03-01, so that a leap day ends its year; then years of 400-year cycles.
    let day = days + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let (d, m) = (day_of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let y = year_of_era + era * 400 + u64::from(m <= 2);
    format!("{y:04}{m:02}{d:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}
