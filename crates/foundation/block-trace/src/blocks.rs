//! The format of block traces: a line of JSON for each I/O. (docs/formats/block-trace.md)
//!
//! **Owns** reading and writing the format, a line at a time. **Knows nothing of** other formats and of replaying.
//!
//! # Invariants
//! - BT-FMT-1: an I/O that is read or written meets the rules of [`Io::check`], and arrives no earlier than the one before it.

use std::io::{BufRead, Write};

use serde::{Deserialize, Serialize};

use crate::error::TraceError;
use crate::io::{Io, IoKind, SIZE_MAX};
use crate::lines::Lines;

/// The version that is written.
pub const VERSION: u32 = 3;

/// The version before, which is read, too: it has no zeros, and only writes are durable by themselves.
const BEFORE: u32 = 2;

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
    /// BT-FMT-1
    fn take(&mut self, io: &Io, head: &Head) -> Result<(), TraceError> {
        io.check(head.size, self.number)?;
        if head.shingle_trace == BEFORE && (io.kind == IoKind::Zero || (io.fua && io.kind != IoKind::Write)) {
            return Err(TraceError(format!("a trace of version {BEFORE} has no zeros, and `fua` only with writes")));
        }
        if io.at < self.last_at {
            return Err(TraceError(format!(
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
    pub fn read(text: Box<dyn BufRead>) -> Result<Self, TraceError> {
        let mut lines = Lines::new(text);
        let first = lines.next_line()?.unwrap_or_default();
        if first.starts_with(FIRST_VERSION) {
            return Err(TraceError(
                "it is a recording of version 1, which holds commands to a zoned drive: `shingle lab trace convert` makes a \
                 block trace of it"
                    .to_owned(),
            ));
        }
        let head: Result<Head, _> = serde_json::from_str(first);
        let head = head.map_err(|error| lines.wrong(&format!("no head of a block trace: {error}")))?;
        if !(BEFORE..=VERSION).contains(&head.shingle_trace) {
            let version = head.shingle_trace;
            return Err(lines.wrong(&format!(
                "it is of version {version}, and this program reads versions {BEFORE} and {VERSION}"
            )));
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

    fn next_io(&mut self) -> Result<Option<Io>, TraceError> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        let io: Result<Io, _> = serde_json::from_str(line);
        let io = io.map_err(|error| self.lines.wrong(&error.to_string()))?;
        self.rules.take(&io, &self.head).map_err(|error| self.lines.wrong(&error.0))?;
        Ok(Some(io))
    }
}

/// I/Os, up to the first error.
impl Iterator for BlockTrace {
    type Item = Result<Io, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = if self.failed { None } else { self.next_io().transpose() };
        self.failed |= matches!(next, Some(Err(_)));
        next
    }
}

/// A trace that is being written.
pub struct BlockTraceWriter<W: Write> {
    out: W,
    head: Head,
    rules: Rules,
}

impl<W: Write> BlockTraceWriter<W> {
    /// Writes the first line.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(mut out: W, name: &str, size: u64) -> Result<Self, TraceError> {
        let head = Head { shingle_trace: VERSION, name: name.to_owned(), size };
        line(&mut out, &head)?;
        Ok(Self { out, head, rules: Rules::default() })
    }

    /// Writes the next I/O.
    ///
    /// # Errors
    /// It breaks a rule, or cannot be written.
    pub fn write(&mut self, io: &Io) -> Result<(), TraceError> {
        let number = self.rules.number;
        self.rules.take(io, &self.head).map_err(|error| TraceError(format!("I/O {number}: {error}")))?;
        line(&mut self.out, io)
    }

    /// Its destination.
    pub fn out(&mut self) -> &mut W {
        &mut self.out
    }

    /// Ends the trace, and returns what it was written to, and the number of I/Os.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(mut self) -> Result<(W, u64), TraceError> {
        self.out.flush().map_err(|error| TraceError(error.to_string()))?;
        Ok((self.out, self.rules.number))
    }
}

fn line(out: &mut impl Write, value: &impl Serialize) -> Result<(), TraceError> {
    let mut text = serde_json::to_vec(value).map_err(|error| TraceError(error.to_string()))?;
    text.push(b'\n');
    out.write_all(&text).map_err(|error| TraceError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::io::WINDOW;

    const TEXT: &str = concat!(
        "{\"shingle_trace\":3,\"name\":\"some\",\"size\":1048576}\n",
        "{\"at\":0,\"op\":\"write\",\"offset\":4096,\"length\":8192,\"fua\":true,\"took\":250000}\n",
        "{\"at\":0,\"op\":\"read\",\"length\":512}\n",
        "{\"at\":300000,\"op\":\"flush\",\"after\":[2,1]}\n",
        "{\"at\":300001,\"op\":\"trim\",\"offset\":1048064,\"length\":512,\"after\":[1]}\n",
        "{\"at\":300001,\"op\":\"zero\",\"length\":1048576,\"fua\":true}\n",
    );

    fn read(text: &str) -> Result<Vec<Io>, TraceError> {
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
        assert_eq!((String::from_utf8(bytes).unwrap().as_str(), count), (TEXT, 5));
    }

    /// BT-FMT-1, BT-IO-1
    #[test]
    fn an_io_that_breaks_a_rule_is_refused_with_its_line() {
        for (wrong, expected) in [
            ("{\"at\":300000,\"op\":\"read\",\"length\":512}", "order of their arrival"),
            ("{\"at\":400000,\"op\":\"read\",\"offset\":1048576,\"length\":512}", "inside the 1048576 bytes"),
            ("{\"at\":400000,\"op\":\"read\",\"offset\":18446744073709551104,\"length\":512}", "inside"),
            ("{\"at\":400000,\"op\":\"read\",\"offset\":100,\"length\":512}", "whole sectors"),
            ("{\"at\":400000,\"op\":\"write\"}", "one at least"),
            ("{\"at\":400000,\"op\":\"flush\",\"length\":512}", "a flush has no"),
            ("{\"at\":400000,\"op\":\"read\",\"length\":512,\"fua\":true}", "a read or flush has no `fua`"),
            ("{\"at\":400000,\"op\":\"flush\",\"after\":[6]}", "1 (the I/O just before) to 5"),
            ("{\"at\":400000,\"op\":\"flush\",\"after\":[0]}", "`after`"),
            ("{\"at\":400000,\"op\":\"write\",\"length\":512,\"colour\":1}", "colour"),
            ("{\"at\":-1,\"op\":\"flush\"}", "-1"),
            ("nonsense", "expected"),
            ("", "EOF"),
        ] {
            let error = read(&format!("{TEXT}{wrong}\n")).unwrap_err().0;
            assert!(error.starts_with("line 7: ") && error.contains(expected), "{wrong}: {error}");
        }
        let mut trace = BlockTrace::read(Box::new(Cursor::new(format!("{TEXT}x\n{TEXT}").into_bytes()))).unwrap();
        assert_eq!(trace.by_ref().filter(Result::is_ok).count(), 5);
        assert!(trace.next().is_none(), "nothing comes behind an error");
        let mut writer = BlockTraceWriter::begin(Vec::new(), "some", 4096).unwrap();
        assert!(writer.write(&Io::new(0, IoKind::Write, 4096, 512)).unwrap_err().0.starts_with("I/O 0: "));
        let far = Io { after: vec![WINDOW as u32 + 1], ..Io::flush(0) };
        assert!(
            far.check(512, u64::MAX).is_err() && Io { after: vec![WINDOW as u32], ..far }.check(512, u64::MAX).is_ok()
        );
    }

    #[test]
    fn the_version_before_is_read_with_its_own_rules() {
        let head = "{\"shingle_trace\":2,\"name\":\"old\",\"size\":4096}\n";
        let ios = read(&format!("{head}{{\"at\":1,\"op\":\"write\",\"length\":512,\"fua\":true}}\n")).unwrap();
        assert_eq!(ios, [Io { fua: true, ..Io::new(1, IoKind::Write, 0, 512) }]);
        for io in ["\"op\":\"zero\",\"length\":512", "\"op\":\"trim\",\"length\":512,\"fua\":true"] {
            let error = read(&format!("{head}{{\"at\":1,{io}}}\n")).unwrap_err().0;
            assert!(error.starts_with("line 2: ") && error.contains("version 2"), "{error}");
        }
    }

    #[test]
    fn another_version_is_refused_with_what_to_do() {
        for (text, expected) in [
            ("shingle-trace 1 f2fs 2048 10 2\nW 1 1 0\n", "trace convert"),
            ("{\"shingle_trace\":4,\"name\":\"x\",\"size\":1}", "version 4"),
            ("{\"shingle_trace\":3,\"name\":\"x\",\"size\":18446744073709551615}", "at most"),
            ("", "no head"),
        ] {
            let error = read(text).unwrap_err().0;
            assert!(error.contains(expected), "{error}");
        }
    }
}
