//! Version 2 of the project's traces: block I/Os with arrival times, durability and dependencies. (docs/formats/block-trace.md)
//!
//! **Owns** reading and writing the format, a line at a time. **Knows nothing of** other formats and of replaying.
//!
//! # Invariants
//! - LAB-TRC-2: an I/O that is read or written meets the rules of [`Io::check`], and arrives no earlier than the one before it.

use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

use super::io::{Io, SIZE_MAX};
use super::lines::Lines;
use crate::error::LabError;

/// The version that is written, and the only one that is read.
pub const VERSION: u32 = 2;

/// Beginning of the first version's files, which hold commands to a zoned drive.
const FIRST_VERSION: &str = "shingle-trace 1";

/// The first line of a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The version of the format.
    pub shingle_trace: u32,
    /// Name of what was traced.
    pub name: String,
    /// Bytes of the address space.
    pub size: u64,
}

/// Follows the rules from I/O to I/O.
#[derive(Debug, Default)]
struct Rules {
    number: u64,
    last_at: u64,
}

impl Rules {
    /// LAB-TRC-2
    fn take(&mut self, io: &Io, size: u64) -> Result<(), LabError> {
        io.check(size, self.number)?;
        if io.at < self.last_at {
            return Err(LabError(format!(
                "it arrives at {}, before the I/O above it ({}): I/Os stand in the order of their arrival",
                io.at, self.last_at
            )));
        }
        self.last_at = io.at;
        self.number += 1;
        Ok(())
    }
}

/// A trace that is being read.
pub struct BlockTrace {
    head: Head,
    lines: Lines,
    rules: Rules,
    failed: bool,
}

impl BlockTrace {
    /// Reads the first line.
    ///
    /// # Errors
    /// It is no trace of this version; the message says what to do.
    pub fn read(text: Box<dyn BufRead>) -> Result<Self, LabError> {
        let mut lines = Lines::new(text);
        let first = lines.next_line()?.unwrap_or_default();
        if first.starts_with(FIRST_VERSION) {
            return Err(LabError(
                "it is a recording of version 1, which holds commands to a zoned drive: `shingle lab trace convert` makes a trace of \
                 version 2 of it"
                    .to_owned(),
            ));
        }
        let head: Result<Head, _> = serde_json::from_str(first);
        let head = head.map_err(|error| lines.wrong(&format!("no head of a trace of version {VERSION}: {error}")))?;
        if head.shingle_trace != VERSION {
            return Err(lines
                .wrong(&format!("it is of version {}, and this program reads version {VERSION}", head.shingle_trace)));
        }
        if head.size > SIZE_MAX {
            return Err(lines.wrong(&format!("an address space has at most {SIZE_MAX} bytes, and not {}", head.size)));
        }
        Ok(Self { head, lines, rules: Rules::default(), failed: false })
    }

    /// Its first line.
    pub fn head(&self) -> &Head {
        &self.head
    }

    fn next_io(&mut self) -> Result<Option<Io>, LabError> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        let io: Result<Io, _> = serde_json::from_str(line);
        let io = io.map_err(|error| self.lines.wrong(&error.to_string()))?;
        self.rules.take(&io, self.head.size).map_err(|error| self.lines.wrong(&error.0))?;
        Ok(Some(io))
    }
}

/// I/Os, up to the first error.
impl Iterator for BlockTrace {
    type Item = Result<Io, LabError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = if self.failed { None } else { self.next_io().transpose() };
        self.failed |= matches!(next, Some(Err(_)));
        next
    }
}

/// A trace that is being written.
pub struct BlockTraceWriter<W: Write> {
    out: W,
    size: u64,
    rules: Rules,
}

impl<W: Write> BlockTraceWriter<W> {
    /// Writes the first line.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(mut out: W, name: &str, size: u64) -> Result<Self, LabError> {
        let head = Head { shingle_trace: VERSION, name: name.to_owned(), size };
        line(&mut out, &head)?;
        Ok(Self { out, size, rules: Rules::default() })
    }

    /// Writes the next I/O.
    ///
    /// # Errors
    /// It breaks a rule, or cannot be written.
    pub fn write(&mut self, io: &Io) -> Result<(), LabError> {
        let number = self.rules.number;
        self.rules.take(io, self.size).map_err(|error| LabError(format!("I/O {number}: {error}")))?;
        line(&mut self.out, io)
    }

    /// Ends the trace, and returns what it was written to, and the number of I/Os.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(mut self) -> Result<(W, u64), LabError> {
        self.out.flush().map_err(|error| LabError(error.to_string()))?;
        Ok((self.out, self.rules.number))
    }
}

fn line(out: &mut impl Write, value: &impl Serialize) -> Result<(), LabError> {
    let mut text = serde_json::to_vec(value).map_err(|error| LabError(error.to_string()))?;
    text.push(b'\n');
    out.write_all(&text).map_err(|error| LabError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::trace::io::{IoKind, WINDOW};

    const TEXT: &str = concat!(
        "{\"shingle_trace\":2,\"name\":\"some\",\"size\":1048576}\n",
        "{\"at\":0,\"op\":\"write\",\"offset\":4096,\"length\":8192,\"fua\":true,\"took\":250000}\n",
        "{\"at\":0,\"op\":\"read\",\"length\":512}\n",
        "{\"at\":300000,\"op\":\"flush\",\"after\":[2,1]}\n",
        "{\"at\":300001,\"op\":\"trim\",\"offset\":1048064,\"length\":512,\"after\":[1]}\n",
    );

    fn read(text: &str) -> Result<Vec<Io>, LabError> {
        BlockTrace::read(Box::new(Cursor::new(text.as_bytes().to_vec())))?.collect()
    }

    #[test]
    fn a_trace_is_read_back_as_it_was() {
        let ios = read(TEXT).unwrap();
        assert_eq!(
            (ios[0].fua, ios[0].took, ios[1].kind, &ios[2].after),
            (true, Some(250_000), IoKind::Read, &vec![2, 1])
        );
        let mut writer = BlockTraceWriter::begin(Vec::new(), "some", 1 << 20).unwrap();
        ios.iter().for_each(|io| writer.write(io).unwrap());
        let (bytes, count) = writer.end().unwrap();
        assert_eq!((String::from_utf8(bytes).unwrap().as_str(), count), (TEXT, 4));
    }

    /// LAB-TRC-2, LAB-IO-1
    #[test]
    fn an_io_that_breaks_a_rule_is_refused_with_its_line() {
        for (wrong, expected) in [
            ("{\"at\":300000,\"op\":\"read\",\"length\":512}", "order of their arrival"),
            ("{\"at\":400000,\"op\":\"read\",\"offset\":1048576,\"length\":512}", "inside the 1048576 bytes"),
            ("{\"at\":400000,\"op\":\"read\",\"offset\":18446744073709551104,\"length\":512}", "inside"),
            ("{\"at\":400000,\"op\":\"read\",\"offset\":100,\"length\":512}", "whole sectors"),
            ("{\"at\":400000,\"op\":\"write\"}", "one at least"),
            ("{\"at\":400000,\"op\":\"flush\",\"length\":512}", "a flush has no"),
            ("{\"at\":400000,\"op\":\"read\",\"length\":512,\"fua\":true}", "only a write"),
            ("{\"at\":400000,\"op\":\"flush\",\"after\":[5]}", "1 (the I/O just before) to 4"),
            ("{\"at\":400000,\"op\":\"flush\",\"after\":[0]}", "`after`"),
            ("{\"at\":400000,\"op\":\"write\",\"length\":512,\"colour\":1}", "colour"),
            ("{\"at\":-1,\"op\":\"flush\"}", "-1"),
            ("nonsense", "expected"),
            ("", "EOF"),
        ] {
            let error = read(&format!("{TEXT}{wrong}\n")).unwrap_err().0;
            assert!(error.starts_with("line 6: ") && error.contains(expected), "{wrong}: {error}");
        }
        let mut trace = BlockTrace::read(Box::new(Cursor::new(format!("{TEXT}x\n{TEXT}").into_bytes()))).unwrap();
        assert_eq!(trace.by_ref().filter(Result::is_ok).count(), 4);
        assert!(trace.next().is_none(), "nothing comes behind an error");
        let mut writer = BlockTraceWriter::begin(Vec::new(), "some", 4096).unwrap();
        assert!(writer.write(&Io::new(0, IoKind::Write, 4096, 512)).unwrap_err().0.starts_with("I/O 0: "));
        let far = Io { after: vec![WINDOW as u32 + 1], ..Io::flush(0) };
        assert!(
            far.check(512, u64::MAX).is_err() && Io { after: vec![WINDOW as u32], ..far }.check(512, u64::MAX).is_ok()
        );
    }

    #[test]
    fn another_version_is_refused_with_what_to_do() {
        for (text, expected) in [
            ("shingle-trace 1 f2fs 2048 10 2\nW 1 1 0\n", "trace convert"),
            ("{\"shingle_trace\":3,\"name\":\"x\",\"size\":1}", "version 3"),
            ("{\"shingle_trace\":2,\"name\":\"x\",\"size\":18446744073709551615}", "at most"),
            ("", "no head"),
        ] {
            let error = read(text).unwrap_err().0;
            assert!(error.contains(expected), "{error}");
        }
    }
}
