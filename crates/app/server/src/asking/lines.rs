//! The lines of an answer on their way to the client.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::wire::Line;

/// Longest time that an answer may stay unread: a person may look at it a page at a time.
pub(crate) const STALL: Duration = Duration::from_secs(30 * 60);
/// Bytes of lines that go together.
const TOGETHER_BYTES: usize = 64 << 10;
/// Time after which a line says that work goes on.
const TELL: Duration = Duration::from_millis(500);

/// The client has gone away, or reads nothing any more. (SV-ASK-2)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone;

/// Writer of an answer's lines.
pub(crate) struct Lines {
    out: mpsc::Sender<Bytes>,
    together: Vec<u8>,
}

impl Lines {
    /// The writer of lines, and the bytes they become. Few unread lines are kept. (SV-ASK-1)
    pub(super) fn new() -> (Self, mpsc::Receiver<Bytes>) {
        let (out, lines) = mpsc::channel(2);
        (Self { out, together: Vec::new() }, lines)
    }

    /// Adds a line, which is sent together with others.
    pub(super) async fn add(&mut self, line: &Line) -> Result<(), Gone> {
        // No map has keys that are no text, and memory takes it.
        let _ = serde_json::to_writer(&mut self.together, line);
        self.together.push(b'\n');
        if self.together.len() >= TOGETHER_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Sends what was added.
    pub(super) async fn flush(&mut self) -> Result<(), Gone> {
        if self.together.is_empty() {
            return Ok(());
        }
        let bytes = Bytes::from(std::mem::take(&mut self.together));
        match tokio::time::timeout(STALL, self.out.send(bytes)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }

    /// Result of `work`. Meanwhile, `now` gives lines of progress.
    pub(super) async fn during<T>(
        &mut self,
        work: impl Future<Output = T>,
        mut now: impl FnMut() -> Line,
    ) -> Result<T, Gone> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                () = self.out.closed() => return Err(Gone),
                () = tokio::time::sleep(TELL) => {}
            }
            self.add(&now()).await?;
            self.flush().await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SV-ASK-1: nobody reads. Few lines are taken, and then the work waits.
    #[test]
    fn lines_that_nobody_reads_are_few() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (mut lines, mut out) = Lines::new();
            let line = Line::Refused { why: super::super::wire::Refusal::Other, message: "x".repeat(1000) };
            let mut taken = 0;
            let endless = async {
                while lines.add(&line).await.is_ok() {
                    taken += 1;
                }
            };
            assert!(tokio::time::timeout(Duration::from_millis(100), endless).await.is_err(), "the client is gone");
            assert!(taken * 1000 > TOGETHER_BYTES && taken * 1000 <= 4 * TOGETHER_BYTES, "{taken} lines were taken");
            // It goes on when they are read.
            assert!(out.recv().await.is_some() && out.recv().await.is_some());
            assert!(lines.add(&line).await.is_ok());
        });
    }
}
