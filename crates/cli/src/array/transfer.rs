//! `shingle array put|get`: objects of any size in bounded memory.

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bytes::Bytes;
use clap::Args;
use serde_json::json;
use shingle_array_store::PutHints;
use shingle_base::ByteSize;

use super::place::{Missing, Place, with_array};
use super::shown;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Progress};

/// Bytes that are handed on at once.
const PIECE: u64 = 4 << 20;

/// Stores an object.
#[derive(Args)]
pub(crate) struct Put {
    /// The object's name; an object that has it already is replaced when all of the new one is safe.
    name: String,
    /// The file to store; standard input where absent or `-`.
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// Do without drives that are missing, from now on.
    #[arg(long)]
    degraded: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Reads an object.
#[derive(Args)]
pub(crate) struct Get {
    /// The object's name.
    name: String,
    /// The file to write; standard output where absent or `-`.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only these bytes, as HTTP counts them: 0-99 (the first 100), 100- (all behind), -100 (the last 100).
    #[arg(long, value_name = "FIRST-LAST", allow_hyphen_values = true)]
    range: Option<Range>,
    /// Write binary data to the terminal too.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Range {
    Between(u64, u64),
    From(u64),
    Last(u64),
}

impl FromStr for Range {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a range is 0-99, 100-, or -100";
        let number = |digits: &str| digits.parse::<u64>().map_err(|_| WRONG);
        match text.split_once('-') {
            Some(("", last)) => Ok(Self::Last(number(last)?)),
            Some((first, "")) => Ok(Self::From(number(first)?)),
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if first <= last { Ok(Self::Between(first, last)) } else { Err("a range begins before it ends") }
            }
            None => Err(WRONG),
        }
    }
}

impl Range {
    /// Where it begins and ends in an object of `size` bytes; `None` if that has no byte of it.
    fn within(self, size: u64) -> Option<(u64, u64)> {
        let (begin, end) = match self {
            Self::Between(first, last) => (first, last.saturating_add(1).min(size)),
            Self::From(first) => (first, size),
            Self::Last(count) => (size.saturating_sub(count), size),
        };
        (begin < end).then_some((begin, end))
    }
}

fn named(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// True if bytes, which may end in the middle of a character, can be shown in a terminal.
fn is_text(bytes: &[u8]) -> bool {
    let harmless = |text: &str| text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t'));
    match std::str::from_utf8(bytes) {
        Ok(text) => harmless(text),
        Err(error) if error.error_len().is_some() => false,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).is_ok_and(harmless),
    }
}

impl Put {
    pub(crate) fn run(self) -> Outcome {
        let file = self.file.filter(|path| !is_dash(path));
        let (mut input, size): (Box<dyn Read + Send>, _) = match &file {
            Some(path) => {
                let opened = std::fs::File::open(path).map_err(|error| named(path, &error))?;
                let about = opened.metadata().map_err(|error| named(path, &error))?;
                if about.is_dir() {
                    return Err(Failure::new(format!("{} is a directory: put its files one by one", path.display())));
                }
                (Box::new(opened), about.is_file().then_some(about.len()))
            }
            None => {
                if std::io::stdin().is_terminal() {
                    note!("shingle: what is typed is stored; Ctrl-D ends it");
                }
                (Box::new(std::io::stdin()), None)
            }
        };
        let name = self.name;
        with_array(&self.place, Missing::told(self.degraded), true, |opened| async move {
            let mut put = opened.store.begin_put_with(name.clone(), PutHints { length: size, group: None })?;
            let mut progress = Progress::new();
            let mut done = 0;
            loop {
                // On a thread of its own: segments go on to the drives while a slow input is waited for.
                let reading = opened.rt.blocking(move || {
                    let mut piece = Vec::new();
                    let result = input.by_ref().take(PIECE).read_to_end(&mut piece);
                    (input, result.map(|_| piece))
                });
                let (back, piece) = reading.await?;
                input = back;
                let piece = piece.map_err(|error| match &file {
                    Some(path) => named(path, &error),
                    None => Failure::new(format!("standard input: {error}")),
                })?;
                if piece.is_empty() {
                    break;
                }
                done += piece.len() as u64;
                put.write(Bytes::from(piece)).await?;
                let name = shown(name.as_bytes());
                match size {
                    Some(size) => {
                        let words = format!("{name}: {} of {}", ByteSize(done), ByteSize(size));
                        progress.show_part(&words, done, done, size);
                    }
                    None => progress.show(&format!("{name}: {}", ByteSize(done))),
                }
            }
            let stored = put.finish(Bytes::new()).await?;
            drop(progress);
            if self.json {
                say!("{}", json!({ "name": name, "size_bytes": stored.size, "version": stored.version.0 }));
            } else {
                let name = shown(name.as_bytes());
                say!("stored `{name}`: {} ({} bytes)", ByteSize(stored.size), stored.size);
            }
            Ok(())
        })
    }
}

impl Get {
    pub(crate) fn run(self) -> Outcome {
        let file = self.output.filter(|path| !is_dash(path));
        let (name, range) = (self.name, self.range);
        let only_text = file.is_none() && !self.force && std::io::stdout().is_terminal();
        with_array(&self.place, Missing::Read, false, |opened| async move {
            let reader = opened.store.open_object(name.clone())?;
            let size = reader.object().size;
            let (begin, end) = match range {
                None => (0, size),
                Some(range) => range.within(size).ok_or_else(|| {
                    Failure::new(format!(
                        "`{}` has {size} bytes: none of them is in that range",
                        shown(name.as_bytes())
                    ))
                })?,
            };
            // Only now: a name that is wrong costs no file.
            let mut out: Box<dyn Write> = match &file {
                Some(path) => Box::new(std::fs::File::create(path).map_err(|error| named(path, &error))?),
                None => Box::new(std::io::stdout().lock()),
            };
            let told = |result: std::io::Result<()>| match &file {
                Some(path) => result.map_err(|error| named(path, &error)),
                None => output::written(result),
            };
            let mut progress = Progress::new();
            let mut at = begin;
            while at < end {
                let bytes = reader.read(at, (end - at).min(PIECE)).await.map_err(|error| {
                    let whole = file.as_ref().map_or("what was written", |_| "the file");
                    Failure::new(format!(
                        "`{}` cannot be read from byte {at} on; {whole} is incomplete\n{error}",
                        shown(name.as_bytes())
                    ))
                })?;
                if only_text && !is_text(&bytes) {
                    return Err(Failure::new(format!(
                        "`{}` is no text: write it to a file with -o, or to the terminal all the same with --force",
                        shown(name.as_bytes())
                    )));
                }
                told(out.write_all(&bytes))?;
                at += bytes.len() as u64;
                if file.is_some() {
                    let (done, all) = (at - begin, end - begin);
                    let words = format!("{}: {} of {}", shown(name.as_bytes()), ByteSize(done), ByteSize(all));
                    progress.show_part(&words, done, done, all);
                }
            }
            told(out.flush())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_what_would_garble_a_terminal() {
        for text in ["", "a line\r\n\tanother", "ü"] {
            assert!(is_text(text.as_bytes()), "{text:?}");
        }
        assert!(is_text(&"ü".as_bytes()[..1]), "the rest of the character comes next");
        for binary in [&b"a\0b"[..], b"\x1b[2J", b"\xff", b"a\xc3b", "\u{9b}".as_bytes(), b"\x7f"] {
            assert!(!is_text(binary), "{binary:?}");
        }
    }

    #[test]
    fn ranges_are_those_of_http() {
        let within = |text: &str, size| text.parse::<Range>().unwrap().within(size);
        assert_eq!(within("0-99", 1000), Some((0, 100)));
        assert_eq!(within("990-2000", 1000), Some((990, 1000)));
        assert_eq!(within("100-", 1000), Some((100, 1000)));
        assert_eq!(within("-100", 1000), Some((900, 1000)));
        assert_eq!(within("-100", 10), Some((0, 10)));
        assert_eq!(within("10-", 10), None);
        assert_eq!(within("0-", 0), None);
        assert_eq!(within("0-18446744073709551615", 5), Some((0, 5)));
        for wrong in ["", "-", "5", "9-5", "a-b", "1-2-3", "+1-2 "] {
            assert!(wrong.parse::<Range>().is_err(), "{wrong}");
        }
    }
}
