//! MD5 of bodies, several side by side: it is most of a large PUT's processor time, and no faster for one body alone.
//! (docs/decisions/0059-md5-side-by-side.md)
//!
//! A body whose bytes came leaves them to wait for those of others. The one that makes a full set digests all of it, on its own
//! thread; one that ends, or has waited for long enough, takes along who waits. If few bodies come at a time, each is digested
//! at once, as its bytes come.
//!
//! **Owns** bytes that wait to be digested. **Knows nothing of** requests.
//!
//! # Invariants
//! - GW-MD5-1: a body's digest is of its bytes in the order in which they came, whoever digested them.
//!   `bodies_that_come_together_have_their_own_digests`
//! - GW-MD5-2: at most [`LANES`] - 1 bodies wait at a time, each with at most four pieces' bytes: a body that stalls keeps no other
//!   waiting, one that others take along digests what they leave, and one that is dropped leaves nothing behind.
//!   `nobody_waits_for_a_body_that_stalls`, `a_body_that_others_take_along_holds_few_bytes`

mod lanes;
mod stream;

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use s3s::{S3Result, s3_error};
use tokio::sync::oneshot;

use crate::options::PIECE_BYTES;
use lanes::LANES;
use stream::Stream;

/// Fewer bytes are digested at once: waiting costs more than it saves.
const WAIT_MIN: usize = 16 << 10;
/// Bytes that a body gathers behind those that wait, before it waits no longer.
const BEHIND_MAX: usize = PIECE_BYTES / 2;

/// Bodies that are digested side by side.
#[derive(Default)]
pub(crate) struct Company {
    waiting: Mutex<Vec<Waiting>>,
    /// Bodies under way that have had bytes enough to wait.
    bodies: AtomicUsize,
}

/// A body's stream that waits for others.
struct Waiting {
    stream: Stream,
    back: oneshot::Sender<Stream>,
    body: Arc<()>,
}

impl Company {
    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if there are bodies enough.
    fn is_worthwhile(&self) -> bool {
        self.bodies.load(Relaxed) >= LANES - 1
    }

    /// Digests the stream with those that wait, if that makes a full set; else it waits too.
    fn join(&self, body: &Arc<()>, stream: Stream) -> Result<Stream, oneshot::Receiver<Stream>> {
        let others = {
            let mut waiting = self.waiting();
            if waiting.len() < LANES - 1 {
                let (back, receiver) = oneshot::channel();
                waiting.push(Waiting { stream, back, body: body.clone() });
                return Err(receiver);
            }
            mem::take(&mut *waiting)
        };
        Ok(digest(stream, others))
    }

    /// The body's stream, if it waits: digested with the others that wait, and the bytes `behind` it too.
    fn hurry(&self, body: &Arc<()>, behind: &mut Vec<Bytes>) -> Option<Stream> {
        let (mut stream, others) = {
            let mut waiting = self.waiting();
            let at = waiting.iter().position(|one| Arc::ptr_eq(&one.body, body))?;
            (waiting.swap_remove(at).stream, mem::take(&mut *waiting))
        };
        behind.drain(..).for_each(|piece| stream.push(piece));
        Some(digest(stream, others))
    }
}

/// Digests all of `stream`, and of the others as much as comes beside it. They go back to their bodies.
fn digest(mut stream: Stream, others: Vec<Waiting>) -> Stream {
    let (mut streams, backs): (Vec<_>, Vec<_>) = others.into_iter().map(|one| (one.stream, one.back)).unzip();
    stream.digest_with(&mut streams);
    for (stream, back) in streams.into_iter().zip(backs) {
        // The body may have gone.
        let _ = back.send(stream);
    }
    stream
}

/// The digest of a body that comes in pieces.
pub(crate) struct BodyMd5 {
    company: Arc<Company>,
    at: Place,
    /// Bytes that came while the stream was away.
    behind: Vec<Bytes>,
    behind_bytes: usize,
    /// Names the body in the company; none while it is not in it.
    body: Option<Arc<()>>,
}

/// Place of the stream.
enum Place {
    Here(Stream),
    /// In the company: it waits, or is being digested.
    Away(oneshot::Receiver<Stream>),
    /// The thread that digested it was lost.
    Lost,
}

impl BodyMd5 {
    pub(crate) fn new(company: Arc<Company>) -> Self {
        Self { company, at: Place::Here(Stream::new()), behind: Vec::new(), behind_bytes: 0, body: None }
    }

    /// Takes the next bytes.
    pub(crate) async fn push(&mut self, bytes: &Bytes) -> S3Result<()> {
        if self.body.is_none() && bytes.len() >= WAIT_MIN {
            self.body = Some(Arc::default());
            self.company.bodies.fetch_add(1, Relaxed);
        }
        let Some(mut stream) = self.returned() else {
            self.behind.push(bytes.clone());
            self.behind_bytes += bytes.len();
            if self.behind_bytes >= BEHIND_MAX {
                let mut stream = self.fetch().await?;
                stream.digest();
                self.at = Place::Here(stream);
            }
            return Ok(());
        };
        if bytes.len() < WAIT_MIN || !self.company.is_worthwhile() {
            stream.update(bytes);
            self.at = Place::Here(stream);
        } else {
            if stream.waiting() >= PIECE_BYTES {
                // Shorter bodies took it along, and left most of it.
                stream.digest();
            }
            stream.push(bytes.clone());
            self.join(stream);
        }
        Ok(())
    }

    /// The MD5 of all bytes.
    pub(crate) async fn finish(mut self) -> S3Result<[u8; 16]> {
        if let Some(stream) = self.returned() {
            self.at = Place::Here(stream);
        } else {
            // Bodies whose turn on this thread is next may have bytes, too.
            tokio::task::yield_now().await;
        }
        Ok(self.fetch().await?.finish())
    }

    fn join(&mut self, stream: Stream) {
        let Some(body) = &self.body else {
            self.at = Place::Here(stream);
            return;
        };
        self.at = match self.company.join(body, stream) {
            Ok(stream) => Place::Here(stream),
            Err(away) => Place::Away(away),
        };
    }

    /// The stream with all bytes so far, if it is here, or has come back.
    fn returned(&mut self) -> Option<Stream> {
        let mut stream = match mem::replace(&mut self.at, Place::Lost) {
            Place::Here(stream) => stream,
            Place::Away(mut away) => match away.try_recv() {
                Ok(stream) => stream,
                Err(oneshot::error::TryRecvError::Empty) => {
                    self.at = Place::Away(away);
                    return None;
                }
                Err(oneshot::error::TryRecvError::Closed) => return None,
            },
            Place::Lost => return None,
        };
        self.take_behind(&mut stream);
        Some(stream)
    }

    /// The stream with all bytes so far; it waits no longer.
    async fn fetch(&mut self) -> S3Result<Stream> {
        if let Some(stream) = self.returned() {
            return Ok(stream);
        }
        let lost = || s3_error!(InternalError, "the body's digest was lost");
        let Place::Away(away) = mem::replace(&mut self.at, Place::Lost) else { return Err(lost()) };
        let hurried = self.body.as_ref().and_then(|body| self.company.hurry(body, &mut self.behind));
        let mut stream = match hurried {
            Some(stream) => stream,
            None => away.await.map_err(|_| lost())?,
        };
        self.take_behind(&mut stream);
        Ok(stream)
    }

    fn take_behind(&mut self, stream: &mut Stream) {
        self.behind_bytes = 0;
        self.behind.drain(..).for_each(|piece| stream.push(piece));
    }
}

impl Drop for BodyMd5 {
    fn drop(&mut self) {
        if let Some(body) = self.body.take() {
            self.company.bodies.fetch_sub(1, Relaxed);
            self.company.waiting().retain(|one| !Arc::ptr_eq(&one.body, &body));
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]
mod tests {
    use s3s::crypto::{Checksum as _, Md5};

    use super::*;

    fn bytes(length: usize, seed: usize) -> Bytes {
        (0..length).map(|at| (at * 31 + at / 251 + seed * 77) as u8).collect()
    }

    /// GW-MD5-1. On two threads, so that streams are away while bytes come.
    #[test]
    fn bodies_that_come_together_have_their_own_digests() {
        let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        executor.block_on(async {
            let company = Arc::<Company>::default();
            let digest = |number: usize| {
                let company = company.clone();
                async move {
                    let all = bytes(2_000_000 + 1000 * number, number);
                    let mut md5 = BodyMd5::new(company);
                    let (mut at, mut step) = (0, 5_000 + 13 * number);
                    while at < all.len() {
                        let piece = all.slice(at..all.len().min(at + step));
                        at += piece.len();
                        md5.push(&piece).await.unwrap();
                        step = step * 3 % 400_009 + 1;
                        tokio::task::yield_now().await;
                    }
                    assert_eq!(md5.finish().await.unwrap(), Md5::checksum(&all), "body {number}");
                }
            };
            let bodies: Vec<_> = (0..24).map(|number| tokio::spawn(digest(number))).collect();
            for body in bodies {
                body.await.unwrap();
            }
            assert_eq!((company.bodies.load(Relaxed), company.waiting().len()), (0, 0));
        });
    }

    /// GW-MD5-2.
    #[tokio::test]
    async fn nobody_waits_for_a_body_that_stalls() {
        let company = Arc::<Company>::default();
        let all = bytes(1 << 20, 0);
        let mut bodies: Vec<_> = (0..6).map(|_| BodyMd5::new(company.clone())).collect();
        let piece = all.slice(..100_000);
        for body in &mut bodies {
            body.push(&piece).await.unwrap();
        }
        // Two came before there were bodies enough; the other four made a set.
        assert_eq!(company.waiting().len(), 0);
        for body in &mut bodies[..2] {
            body.push(&piece).await.unwrap();
        }
        assert_eq!(company.waiting().len(), 2);
        // One goes away, the other goes on and on, and nobody else comes.
        drop(bodies.remove(1));
        assert_eq!(company.waiting().len(), 1);
        let mut first = bodies.remove(0);
        for _ in 0..20 {
            first.push(&piece).await.unwrap();
            assert!(first.behind_bytes < BEHIND_MAX);
        }
        let whole = [&piece[..]; 22].concat();
        assert_eq!(first.finish().await.unwrap(), Md5::checksum(&whole));
        assert_eq!(company.waiting().len(), 0);
    }

    /// A piece that is counted while anybody holds it.
    struct Counted(Bytes, Arc<AtomicUsize>);

    impl AsRef<[u8]> for Counted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.fetch_sub(self.0.len(), Relaxed);
        }
    }

    /// GW-MD5-2.
    #[tokio::test]
    async fn a_body_that_others_take_along_holds_few_bytes() {
        let company = Arc::<Company>::default();
        let (all, held) = (bytes(PIECE_BYTES, 0), Arc::<AtomicUsize>::default());
        let mut bodies: Vec<_> = (0..LANES).map(|_| BodyMd5::new(company.clone())).collect();
        let Some((long, short)) = bodies.split_first_mut() else { return };
        for _ in 0..50 {
            held.fetch_add(all.len(), Relaxed);
            long.push(&Bytes::from_owner(Counted(all.clone(), held.clone()))).await.unwrap();
            for body in &mut *short {
                body.push(&all.slice(..WAIT_MIN)).await.unwrap();
            }
            let held = held.load(Relaxed);
            assert!(held <= 4 * PIECE_BYTES, "{held} bytes are held");
        }
    }
}
