//! Reads recordings of file calls: text, plain or packed by gzip. docs/formats/file-calls.md describes it.
//!
//! **Knows nothing of** playing.
//!
//! # Invariants
//! - LAB-CALL-1: calls of a recording that was read are of files that it has, end in order, and begin no earlier than the call of the
//!   same thread before them ended; their numbers are so small that no sum of them overflows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use shingle_block_trace::lines::Lines;

use super::record::{Call, FileNumber, FileOf, Kind, Recording, Use};
use crate::error::LabError;

const FIRST: &str = "shingle-files 1";

/// Calls of a recording at most: some 5 GB of memory.
const CALLS_MAX: usize = 1 << 26;

/// Threads, and files.
const THREADS_MAX: u32 = 1 << 12;
const FILES_MAX: usize = 1 << 20;

/// Bytes of one append or read, and microseconds of a whole recording (three years).
const BYTES_MAX: u64 = 1 << 40;
const TIME_MAX: u64 = 100_000_000_000_000;

/// Letters of a name.
const NAME_MAX: usize = 255;

/// Reads a recording from a file.
///
/// # Errors
/// It cannot be read, or is none; the message names the wrong line.
pub fn load(path: &Path) -> Result<Recording, LabError> {
    let failed = |why: String| LabError(format!("the recording {}: {why}", path.display()));
    let mut file = BufReader::new(File::open(path).map_err(|error| failed(error.to_string()))?);
    let mut head = Vec::new();
    file.by_ref().take(2).read_to_end(&mut head).map_err(|error| failed(error.to_string()))?;
    let packed = head == [0x1f, 0x8b];
    let whole = Cursor::new(head).chain(file);
    let text: Box<dyn Read> = if packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
    parse(text).map_err(|error| failed(error.0))
}

/// Reads a recording that is packed.
///
/// # Errors
/// It is none; the message names the wrong line.
pub fn unpack(packed: &'static [u8]) -> Result<Recording, LabError> {
    parse(Box::new(MultiGzDecoder::new(packed)))
}

/// Reads a recording of text.
///
/// # Errors
/// It is none; the message names the wrong line.
pub fn parse(text: Box<dyn Read>) -> Result<Recording, LabError> {
    let mut lines = Lines::new(Box::new(BufReader::new(text)));
    let failed = |error: shingle_block_trace::TraceError| LabError(error.0);
    if lines.next_line().map_err(failed)? != Some(FIRST) {
        return Err(LabError(format!(
            "its first line is not `{FIRST}`: it is no recording of file calls of version 1"
        )));
    }
    let mut reader = Reader::default();
    loop {
        let taken = match lines.next_line().map_err(failed)? {
            None => return Ok(reader.recording),
            Some(line) => reader.take(line),
        };
        taken.map_err(|why| failed(lines.wrong(&why)))?;
    }
}

/// A thread so far.
#[derive(Clone, Copy, Default)]
struct Thread {
    ended: u64,
}

#[derive(Default)]
struct Reader {
    recording: Recording,
    /// Files by the numbers that they have in the text.
    numbers: BTreeMap<u32, FileNumber>,
    /// Files by their names of now, and the other way round.
    names: BTreeMap<String, FileNumber>,
    named: Vec<Option<String>>,
    threads: Vec<Thread>,
    now: u64,
}

/// Fields of a line.
struct Fields<'a>(std::str::SplitAsciiWhitespace<'a>);

impl<'a> Fields<'a> {
    fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| format!("{what} is missing"))
    }

    fn number(&mut self, what: &str, most: u64) -> Result<u64, String> {
        let word = self.word(what)?;
        let number = word.parse().ok().filter(|number| *number <= most);
        number.ok_or_else(|| format!("{what} is `{}`, and must be a number of at most {most}", word.escape_debug()))
    }

    fn name(&mut self) -> Result<&'a str, String> {
        let name = self.word("the name")?;
        let good = name.len() <= NAME_MAX && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
        if good { Ok(name) } else { Err("a name is of at most 255 letters that are printed, without `/`".to_owned()) }
    }
}

impl Reader {
    fn take(&mut self, line: &str) -> Result<(), String> {
        if self.recording.calls.len() >= CALLS_MAX {
            return Err(format!("it has more than {CALLS_MAX} calls"));
        }
        let mut fields = Fields(line.split_ascii_whitespace());
        let letter = fields.word("the kind")?;
        let thread = fields.number("the thread", u64::from(THREADS_MAX) - 1)? as u32;
        let number = fields.number("the file", u64::from(u32::MAX))? as u32;
        let since = fields.number("the end", TIME_MAX)?;
        let took = fields.number("the time", TIME_MAX)?;
        let worked = fields.number("the processor time", TIME_MAX)?;
        let queued = fields.number("the time without a processor", TIME_MAX)?;
        let end = self.now + since;
        if end > TIME_MAX {
            return Err("it is longer than three years".to_owned());
        }
        let mut replaces = None;
        let (file, kind) = match letter {
            "e" => {
                let (file, _) = self.add(number, fields.name()?)?;
                (file, Kind::Was(fields.number("the length", BYTES_MAX)?))
            }
            "c" => {
                let (file, replaced) = self.add(number, fields.name()?)?;
                replaces = replaced;
                (file, Kind::Create)
            }
            "n" => {
                let (file, name) = (self.known(number)?, fields.name()?);
                self.forget_name(file);
                replaces = self.name(file, name);
                (file, Kind::Rename)
            }
            "d" => {
                let file = self.known(number)?;
                self.forget_name(file);
                (file, Kind::Delete)
            }
            "y" => (0, Kind::SyncNames),
            _ => (self.known(number)?, plain(letter, &mut fields)?),
        };
        if fields.0.next().is_some() {
            return Err("there are more fields than its kind has".to_owned());
        }
        let threads = &mut self.threads;
        if threads.len() <= thread as usize {
            threads.resize(thread as usize + 1, Thread::default());
        }
        let before = &mut threads[thread as usize].ended;
        // Clocks of whole microseconds: a call may seem to begin one before the last one ended.
        let took = took.min(end.saturating_sub(*before));
        let idle = end - took - *before;
        *before = end;
        self.now = end;
        let worked = worked.min(idle);
        let queued = queued.min(idle - worked);
        self.recording.threads = threads.len() as u32;
        self.recording.calls.push(Call { thread, file, kind, end, took, worked, queued, replaces });
        Ok(())
    }

    fn known(&self, number: u32) -> Result<FileNumber, String> {
        self.numbers.get(&number).copied().ok_or_else(|| format!("no file {number} was made or found before"))
    }

    fn add(&mut self, number: u32, name: &str) -> Result<(FileNumber, Option<FileNumber>), String> {
        let files = &mut self.recording.files;
        if files.len() >= FILES_MAX {
            return Err(format!("it has more than {FILES_MAX} files"));
        }
        let file = files.len() as FileNumber;
        if self.numbers.insert(number, file).is_some() {
            return Err(format!("there is a file {number} already"));
        }
        files.push(FileOf { name: name.into(), is: Use::of(name) });
        self.named.push(None);
        Ok((file, self.name(file, name)))
    }

    /// Gives a file a name, and returns the file that loses it.
    fn name(&mut self, file: FileNumber, name: &str) -> Option<FileNumber> {
        let replaced = self.names.insert(name.to_owned(), file).filter(|before| *before != file);
        if let Some(name) = replaced.and_then(|before| self.named.get_mut(before as usize)) {
            *name = None;
        }
        if let Some(now) = self.named.get_mut(file as usize) {
            *now = Some(name.to_owned());
        }
        replaced
    }

    fn forget_name(&mut self, file: FileNumber) {
        if let Some(name) = self.named.get_mut(file as usize).and_then(Option::take) {
            self.names.remove(&name);
        }
    }
}

/// Kinds of calls that change no names.
fn plain(letter: &str, fields: &mut Fields<'_>) -> Result<Kind, String> {
    Ok(match letter {
        "o" => Kind::Open,
        "a" => Kind::Append(fields.number("the length", BYTES_MAX)?),
        "s" => Kind::Sync,
        "g" => {
            fields.number("the offset", BYTES_MAX)?;
            fields.number("the length", BYTES_MAX)?;
            Kind::RangeSync
        }
        "r" => Kind::Read {
            offset: fields.number("the offset", BYTES_MAX)?,
            length: fields.number("the length", BYTES_MAX)?,
        },
        "x" => Kind::Close,
        "h" => Kind::Lifetime(fields.number("the lifetime", 5)? as u8),
        "p" => Kind::Expect(fields.number("the length", BYTES_MAX)?),
        _ => return Err(format!("there is no call `{}`", letter.escape_debug())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Recording, String> {
        parse(Box::new(Cursor::new(text.to_owned().into_bytes()))).map_err(|error| error.0)
    }

    #[test]
    fn a_recording_is_its_calls_in_order() {
        let text = "shingle-files 1\n\
                    c 0 7 100 20 30 5 000004.log\n\
                    a 0 7 50 10 25 0 4096\n\
                    c 1 8 10 5 0 0 CURRENT.tmp\n\
                    c 1 9 10 5 0 0 CURRENT\n\
                    n 1 8 10 5 0 0 CURRENT\n\
                    r 1 8 10 5 0 0 16 100\n\
                    d 1 8 10 5 0 0\n\
                    y 1 0 10 5 0 0\n";
        let recording = read(text).unwrap();
        let uses: Vec<Use> = recording.files.iter().map(|file| file.is).collect();
        assert_eq!(uses, [Use::Log, Use::Other, Use::Other]);
        let calls = &recording.calls;
        assert_eq!((calls[0].start(), calls[0].end, calls[0].worked, calls[0].queued), (80, 100, 30, 5));
        assert_eq!((calls[1].start(), &calls[1].kind), (140, &Kind::Append(4096)));
        assert_eq!((calls[4].file, calls[4].replaces), (1, Some(2)));
        assert_eq!(calls[5].kind, Kind::Read { offset: 16, length: 100 });
        assert_eq!((recording.threads, recording.appended(Use::Log)), (2, 4096));
        assert!((recording.seconds() - 150e-6).abs() < 1e-9);
    }

    /// LAB-CALL-1.
    #[test]
    fn times_of_a_thread_never_overlap() {
        let text = "shingle-files 1\nc 0 7 10 5 99 99 x\na 0 7 3 50 8 8 1\n";
        let calls = read(text).unwrap().calls;
        assert_eq!((calls[0].worked, calls[0].queued), (5, 0));
        assert_eq!((calls[1].start(), calls[1].worked, calls[1].queued), (10, 0, 0));
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_line() {
        let wrong = [
            ("shingle-files 2\n", "version 1"),
            ("", "version 1"),
            ("shingle-files 1\na 0 7 1 1 1 1 5\n", "line 2: no file 7"),
            ("shingle-files 1\nc 0 7 1 1 1 1 a/b\n", "line 2: a name"),
            ("shingle-files 1\nc 0 7 1 1 1 1 a\nc 0 7 1 1 1 1 b\n", "line 3: there is a file 7"),
            ("shingle-files 1\nc 0 7 1 1 1 1 a 5\n", "more fields"),
            ("shingle-files 1\nc 4096 7 1 1 1 1 a\n", "the thread is `4096`"),
            ("shingle-files 1\nc 0 7 1 1 1\n", "the time without a processor is missing"),
            ("shingle-files 1\nc 0 7 1 1 1 1 a\nq 0 7 1 1 1 1\n", "line 3: there is no call `q`"),
            ("shingle-files 1\ny 0 0 90000000000000 1 1 1\ny 0 0 90000000000000 1 1 1\n", "three years"),
        ];
        for (text, expected) in wrong {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
