//! A client that says exactly what it is told, and reads replies by the specification.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct Client {
    pub(crate) socket: Box<dyn Socket>,
    pub(crate) structured: bool,
}

/// A message in the transmission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Simple { error: u32, cookie: u64 },
    Chunk { done: bool, kind: u16, cookie: u64, data: Vec<u8> },
}

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISC: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const ZEROES: u16 = 6;
pub(crate) const STATUS: u16 = 7;
pub(crate) const FUA: u16 = 1;

/// A string with its length before it.
pub(crate) fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

impl Client {
    pub(crate) async fn over_tcp(address: SocketAddr) -> Self {
        Self::greet(Box::new(TcpStream::connect(address).await.unwrap()), 3).await
    }

    /// The first exchange.
    pub(crate) async fn greet(socket: Box<dyn Socket>, flags: u32) -> Self {
        let mut client = Self { socket, structured: false };
        let hello = client.bytes(18).await;
        assert_eq!(hello, [&b"NBDMAGICIHAVEOPT"[..], &[0, 3]].concat());
        client.send_raw(&flags.to_be_bytes()).await;
        client
    }

    pub(crate) async fn send_raw(&mut self, bytes: &[u8]) {
        timeout(PATIENCE, self.socket.write_all(bytes)).await.unwrap().unwrap();
        self.socket.flush().await.unwrap();
    }

    pub(crate) async fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        timeout(PATIENCE, self.socket.read_exact(&mut bytes)).await.expect("the server is silent").unwrap();
        bytes
    }

    /// The server closes, without a further byte.
    pub(crate) async fn closed(&mut self) {
        let mut rest = Vec::new();
        // A connection that the kernel resets is closed, too.
        let _ = timeout(PATIENCE, self.socket.read_to_end(&mut rest)).await.expect("the server keeps the connection");
        assert_eq!(rest, [0; 0], "the server says more");
    }

    pub(crate) async fn send_option(&mut self, option: u32, data: &[u8]) {
        let head = [&b"IHAVEOPT"[..], &option.to_be_bytes(), &(data.len() as u32).to_be_bytes()].concat();
        self.send_raw(&[&head, data].concat()).await;
    }

    /// Answers to an option up to the last one, which is an acknowledgement (1) or an error.
    pub(crate) async fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(option, data).await;
        let mut answers = Vec::new();
        loop {
            let head = self.bytes(20).await;
            assert_eq!(number(&head[..8]), 0x3e889045565a9);
            assert_eq!(number(&head[8..12]), u64::from(option));
            let kind = number(&head[12..16]) as u32;
            let data = self.bytes(number(&head[16..]) as usize).await;
            answers.push((kind, data));
            if kind == 1 || kind > 1 << 31 {
                return answers;
            }
        }
    }

    /// The kind of the last answer, without the bit of errors.
    pub(crate) async fn verdict(&mut self, option: u32, data: &[u8]) -> i64 {
        let kind = i64::from(self.option(option, data).await.last().unwrap().0);
        if kind >= 1 << 31 { (1 << 31) - kind } else { kind }
    }

    pub(crate) async fn structured(&mut self) {
        assert_eq!(self.verdict(8, &[]).await, 1);
        self.structured = true;
    }

    pub(crate) async fn contexts(&mut self, name: &str, queries: &[&str]) -> Vec<(u32, Vec<u8>)> {
        let queries_bytes: Vec<u8> = queries.iter().flat_map(|query| string(query)).collect();
        let count = (queries.len() as u32).to_be_bytes();
        self.option(10, &[string(name), count.to_vec(), queries_bytes].concat()).await
    }

    /// Enters the transmission; size and flags.
    pub(crate) async fn go(&mut self, name: &str, items: &[u16]) -> (u64, u16) {
        let answers = self.option(7, &info(name, items)).await;
        assert_eq!(answers.last().unwrap().0, 1, "{answers:?}");
        let (_, export) = &answers[0];
        assert_eq!(export[..2], [0, 0]);
        (number(&export[2..10]), number(&export[10..12]) as u16)
    }

    pub(crate) async fn send(&mut self, (kind, flags): (u16, u16), cookie: u64, offset: u64, length: u32, data: &[u8]) {
        self.send_raw(&[&request((kind, flags), cookie, offset, length), data].concat()).await;
    }

    /// The next message; a simple reply's data is not read.
    pub(crate) async fn message(&mut self) -> Message {
        let magic = number(&self.bytes(4).await);
        if magic == 0x67446698 {
            let rest = self.bytes(12).await;
            return Message::Simple { error: number(&rest[..4]) as u32, cookie: number(&rest[4..]) };
        }
        assert_eq!(magic, 0x668e33ef);
        let rest = self.bytes(16).await;
        let (flags, kind) = (number(&rest[..2]), number(&rest[2..4]) as u16);
        assert!(flags <= 1);
        let data = self.bytes(number(&rest[12..]) as usize).await;
        Message::Chunk { done: flags == 1, kind, cookie: number(&rest[4..12]), data }
    }

    /// A reply without data: its error, or 0.
    pub(crate) async fn errno(&mut self, cookie: u64) -> u32 {
        match self.message().await {
            Message::Simple { error, cookie: of } => {
                assert_eq!(of, cookie);
                error
            }
            Message::Chunk { done: true, kind: 0x8001, cookie: of, data } => {
                assert_eq!(of, cookie);
                assert_eq!(data.len(), 6 + number(&data[4..6]) as usize);
                number(&data[..4]) as u32
            }
            other => panic!("{other:?}"),
        }
    }

    /// Sends a request that has no data in its reply: the error, or 0.
    pub(crate) async fn ask(&mut self, kind: (u16, u16), offset: u64, length: u32, data: &[u8]) -> u32 {
        self.send(kind, 99, offset, length, data).await;
        self.errno(99).await
    }

    pub(crate) async fn write(&mut self, offset: u64, data: &[u8]) {
        assert_eq!(self.ask((WRITE, 0), offset, data.len() as u32, data).await, 0);
    }

    /// Chunks of the reply to a read: offset, length, and the bytes unless it is a hole.
    pub(crate) async fn chunks(&mut self, cookie: u64) -> Vec<(u64, u64, Option<Vec<u8>>)> {
        let mut chunks = Vec::new();
        loop {
            let Message::Chunk { done, kind, cookie: of, data } = self.message().await else {
                panic!("a simple reply")
            };
            assert_eq!(of, cookie);
            let offset = number(&data[..8]);
            chunks.push(match kind {
                1 => (offset, data.len() as u64 - 8, Some(data[8..].to_vec())),
                2 => (offset, number(&data[8..12]), None),
                other => panic!("a chunk of kind {other:#x}"),
            });
            if done {
                return chunks;
            }
        }
    }

    /// Reads, whatever way the bytes come in.
    pub(crate) async fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.send((READ, 0), 7, offset, length, &[]).await;
        if !self.structured {
            assert_eq!(self.message().await, Message::Simple { error: 0, cookie: 7 });
            return self.bytes(length as usize).await;
        }
        let mut bytes = Vec::new();
        for (at, length, data) in self.chunks(7).await {
            assert_eq!(at, offset + bytes.len() as u64, "chunks come in order here");
            bytes.extend(data.unwrap_or_else(|| vec![0; length as usize]));
        }
        assert_eq!(bytes.len(), length as usize);
        bytes
    }
}

/// Data of INFO and GO.
pub(crate) fn info(name: &str, items: &[u16]) -> Vec<u8> {
    let items: Vec<u8> = [items.len() as u16].iter().chain(items).flat_map(|item| item.to_be_bytes()).collect();
    [string(name), items].concat()
}

pub(crate) fn request((kind, flags): (u16, u16), cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let head = [&0x25609513u32.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()].concat();
    [&head[..], &cookie.to_be_bytes(), &offset.to_be_bytes(), &length.to_be_bytes()].concat()
}
