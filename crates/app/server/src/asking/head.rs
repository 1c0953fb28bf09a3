//! The head of the server's HTTP answer, as a command reads it.

use std::io::{BufRead, Read, Result};
use std::time::Duration;

use super::LINE_BYTES_MAX;

/// Silence after which the server counts as hung: it writes twice a second while it works.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a refusal that are shown.
const REFUSAL_BYTES_MAX: u64 = 4096;

/// The head of an answer.
pub(super) struct Head {
    /// Its status, in digits; empty if it has none.
    pub(super) status: String,
}

impl Head {
    /// Reads it, up to the body.
    pub(super) fn read(answer: &mut impl BufRead) -> Result<Self> {
        let mut status = None;
        loop {
            let mut line = String::new();
            answer.by_ref().take(LINE_BYTES_MAX).read_line(&mut line)?;
            let status = status.get_or_insert_with(|| line.split(' ').nth(1).unwrap_or_default().to_owned());
            if line == "\r\n" || !line.ends_with('\n') {
                return Ok(Self { status: std::mem::take(status) });
            }
        }
    }

    /// The reason why the server refuses.
    pub(super) fn refusal(&self, answer: &mut impl BufRead) -> Result<String> {
        if matches!(self.status.as_str(), "404" | "405") {
            let words = "it is of another version, which cannot answer this: stop it, or start it anew with this one";
            return Ok(words.to_owned());
        }
        let mut words = String::new();
        answer.take(REFUSAL_BYTES_MAX).read_to_string(&mut words)?;
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_at_the_empty_line_or_with_the_answer() {
        let read = |text: &str| {
            let mut answer = text.as_bytes();
            let head = Head::read(&mut answer).unwrap();
            (head.status, String::from_utf8(answer.to_vec()).unwrap())
        };
        assert_eq!(read("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody\n"), ("200".to_owned(), "body\n".to_owned()));
        assert_eq!(read(""), (String::new(), String::new()));
        assert_eq!(read("HTTP/1.1 503"), ("503".to_owned(), String::new()));
    }
}
