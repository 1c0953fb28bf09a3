//! Lines of a text of any length, one at a time, with their numbers.

use std::io::{BufRead, Read};

use crate::error::TraceError;

/// Longest line, in bytes.
const LINE_MAX: u64 = 64 << 10;

/// Lines of a text.
pub struct Lines {
    text: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
}

impl Lines {
    /// The lines of `text`.
    pub fn new(text: Box<dyn BufRead>) -> Self {
        Self { text, line: Vec::new(), number: 0 }
    }

    /// Number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The next line without its end; `None` behind the last one.
    ///
    /// # Errors
    /// It cannot be read, is too long, or is no text.
    pub fn next_line(&mut self) -> Result<Option<&str>, TraceError> {
        self.line.clear();
        self.number += 1;
        let number = self.number;
        let failed = |why: String| TraceError(format!("line {number}: {why}"));
        let read = self.text.by_ref().take(LINE_MAX + 1).read_until(b'\n', &mut self.line);
        if read.map_err(|error| failed(error.to_string()))? == 0 {
            return Ok(None);
        }
        if self.line.len() as u64 > LINE_MAX {
            return Err(failed(format!("it has more than {LINE_MAX} bytes, and no line of a trace is so long")));
        }
        match str::from_utf8(&self.line) {
            Ok(text) => Ok(Some(text.trim_end_matches(['\n', '\r']))),
            Err(_) => Err(failed("it is no text".to_owned())),
        }
    }

    /// An error about the line that was read last.
    pub fn wrong(&self, why: &str) -> TraceError {
        TraceError(format!("line {}: {why}", self.number))
    }
}

/// Seconds with a fraction, such as `12.000345`, in nanoseconds; digits past the ninth are left out.
pub fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanos: u64 = format!("{:0<9}", fraction.get(..9.min(fraction.len()))?).parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn a_line_has_its_number_and_a_bounded_length() {
        let mut lines = Lines::new(Box::new(Cursor::new(b"one\r\n\nthree".to_vec())));
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push(line.to_owned());
        }
        assert_eq!(found, ["one", "", "three"]);
        let long = [b"one\n".to_vec(), vec![b'x'; 1 << 20]].concat();
        let mut lines = Lines::new(Box::new(Cursor::new(long)));
        assert_eq!(lines.next_line().unwrap(), Some("one"));
        assert!(lines.next_line().unwrap_err().0.starts_with("line 2: it has more than"));
        assert!(Lines::new(Box::new(Cursor::new(vec![0xff; 4]))).next_line().is_err());
    }

    #[test]
    fn seconds_are_read_without_rounding() {
        let cases =
            [("0.551706", 551_706_000), ("12", 12_000_000_000), ("3.0000000019", 3_000_000_001), ("1.", 1_000_000_000)];
        for (text, nanos) in cases {
            assert_eq!(seconds(text), Some(nanos), "{text}");
        }
        for text in ["", ".5", "-1", "1.2e3", "1.-2", "99999999999", "1.é2345678901"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
