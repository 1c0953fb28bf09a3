//! Bytes of objects on their way between files or pipes and stores.

use std::fmt::Display;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bytes::Bytes;
use shingle_base::ByteSize;
use shingle_runtime::Runtime;

use crate::failure::{Failure, Outcome};
use crate::output::{self, Progress};

/// Bytes that are handed on at once.
pub(crate) const PIECE: u64 = 4 << 20;

/// Unfinished files beside one, of other commands or killed ones.
const PARTS_MAX: u32 = 100;

/// Bytes of an object, as HTTP counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
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
    /// Its begin and end in an object of `size` bytes; `None` if the object has no byte of it.
    pub(crate) fn within(self, size: u64) -> Option<(u64, u64)> {
        let (begin, end) = match self {
            Self::Between(first, last) => (first, last.saturating_add(1).min(size)),
            Self::From(first) => (first, size),
            Self::Last(count) => (size.saturating_sub(count), size),
        };
        (begin < end).then_some((begin, end))
    }

    /// Begin and end of the `asked` range in an object of `size` bytes, or of the whole object.
    ///
    /// # Errors
    /// The object has no byte of the range.
    pub(crate) fn of(asked: Option<Self>, name: &str, size: u64) -> Outcome<(u64, u64)> {
        let Some(range) = asked else { return Ok((0, size)) };
        range
            .within(size)
            .ok_or_else(|| Failure::new(format!("`{name}` has {size} bytes: none of them is in that range")))
    }
}

fn named(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

/// The named file; none for `-`.
fn file(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| path.as_os_str() != "-")
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

/// The source of an object's bytes.
pub(crate) struct Input {
    from: Box<dyn Read + Send>,
    file: Option<PathBuf>,
    size: Option<u64>,
    done: u64,
}

impl Input {
    /// The file, or standard input if none is named or `-` is.
    ///
    /// # Errors
    /// It cannot be read, or is a directory.
    pub(crate) fn open(path: Option<PathBuf>) -> Outcome<Self> {
        let file = file(path);
        let (from, size): (Box<dyn Read + Send>, _) = match &file {
            Some(path) => {
                let opened = File::open(path).map_err(|error| named(path, &error))?;
                let about = opened.metadata().map_err(|error| named(path, &error))?;
                if about.is_dir() {
                    return Err(Failure::new(format!("{} is a directory: put its files one by one", path.display())));
                }
                (Box::new(opened), about.is_file().then_some(about.len()))
            }
            None => {
                if std::io::stdin().is_terminal() {
                    note!("shingle: reading from the terminal; Ctrl-D ends the input");
                }
                (Box::new(std::io::stdin()), None)
            }
        };
        Ok(Self { from, file, size, done: 0 })
    }

    /// Bytes to come, if known.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// The next bytes; none at the end. They are read on a thread of its own: a piece goes to the drives while a slow
    /// input is waited for.
    pub(crate) async fn next(&mut self, rt: &Runtime) -> Outcome<Bytes> {
        let mut from = std::mem::replace(&mut self.from, Box::new(std::io::empty()));
        let reading = rt.blocking(move || {
            let mut piece = Vec::new();
            let result = from.by_ref().take(PIECE).read_to_end(&mut piece);
            (from, result.map(|_| piece))
        });
        let (back, piece) = reading.await?;
        self.from = back;
        let piece = piece.map_err(|error| match &self.file {
            Some(path) => named(path, &error),
            None => Failure::new(format!("standard input: {error}")),
        })?;
        self.done += piece.len() as u64;
        Ok(Bytes::from(piece))
    }

    /// Shows how far it is.
    pub(crate) fn show(&self, name: &str, progress: &mut Progress) {
        let done = self.done;
        match self.size {
            Some(size) => {
                progress.show_part(&format!("{name}: {} of {}", ByteSize(done), ByteSize(size)), done, done, size);
            }
            None => progress.show(&format!("{name}: {}", ByteSize(done))),
        }
    }
}

/// A file that has another name until it is whole: what was there before stays until then. Dropped before that, it is removed.
struct Part {
    file: File,
    path: PathBuf,
    target: PathBuf,
    done: bool,
}

impl Part {
    /// `None` if the target is no ordinary file, which takes the bytes as they come.
    fn begin(target: &Path) -> std::io::Result<Option<Self>> {
        let (target, before) = match std::fs::metadata(target) {
            // A link stays what it is.
            Ok(before) if before.is_file() => (target.canonicalize()?, Some(before)),
            Err(error) if error.kind() == ErrorKind::NotFound && !target.is_symlink() => (target.to_owned(), None),
            _ => return Ok(None),
        };
        for number in 0..PARTS_MAX {
            let mut path = target.clone().into_os_string();
            path.push(if number == 0 { ".part".to_owned() } else { format!(".part{number}") });
            match File::create_new(&path) {
                Ok(file) => {
                    let part = Self { file, path: path.into(), target, done: false };
                    if let Some(before) = before {
                        part.file.set_permissions(before.permissions())?;
                    }
                    return Ok(Some(part));
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Gives it its name, durably.
    fn finish(mut self) -> std::io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.path, &self.target)?;
        self.done = true;
        let folder = self.target.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.done {
            // One that stays is named as what it is.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The destination of an object's bytes.
pub(crate) struct Output {
    to: Box<dyn Write>,
    file: Option<PathBuf>,
    part: Option<Part>,
    /// The object's name.
    name: String,
    /// It is a terminal, which takes some bytes for commands.
    only_text: bool,
}

impl Output {
    /// The file, or standard output if none is named or `-` is; to a terminal goes only text, unless `force`. A file has its bytes, in place
    /// of what it had, once all were read.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(crate) fn begin(path: Option<PathBuf>, name: &str, force: bool) -> Outcome<Self> {
        let file = file(path);
        let only_text = file.is_none() && !force && std::io::stdout().is_terminal();
        let mut part = None;
        let to: Box<dyn Write> = match &file {
            Some(path) => {
                part = Part::begin(path).map_err(|error| named(path, &error))?;
                let file = match &part {
                    Some(part) => part.file.try_clone(),
                    None => File::create(path),
                };
                Box::new(file.map_err(|error| named(path, &error))?)
            }
            None => Box::new(std::io::stdout().lock()),
        };
        Ok(Self { to, file, part, name: name.to_owned(), only_text })
    }

    fn told(&self, result: std::io::Result<()>) -> Outcome {
        match &self.file {
            Some(path) => result.map_err(|error| named(path, &error)),
            None => output::written(result),
        }
    }

    /// Copies the bytes from `begin` to `end` in pieces; `read` gives the piece at an offset, of at most the given
    /// length.
    ///
    /// # Errors
    /// The object cannot be read, the bytes cannot be written, or they are not for a terminal.
    pub(crate) async fn copy<E: Display>(
        mut self,
        (begin, end): (u64, u64),
        read: impl AsyncFn(u64, u64) -> Result<Bytes, E>,
    ) -> Outcome {
        let mut progress = Progress::new();
        let mut at = begin;
        while at < end {
            let bytes = read(at, (end - at).min(PIECE)).await.map_err(|error| self.broken(at, &error))?;
            self.write(&bytes)?;
            at += bytes.len() as u64;
            self.show(at - begin, end - begin, &mut progress);
        }
        self.end()
    }

    /// # Errors
    /// It could not be written, or is not for a terminal.
    fn write(&mut self, bytes: &[u8]) -> Outcome {
        if self.only_text && !is_text(bytes) {
            return Err(Failure::new(format!(
                "`{}` is no text: write it to a file with -o, or to the terminal all the same with --force",
                self.name
            )));
        }
        let result = self.to.write_all(bytes);
        self.told(result)
    }

    /// # Errors
    /// It could not be written.
    fn end(mut self) -> Outcome {
        let part = self.part.take();
        let result = self.to.flush().and_then(|()| part.map_or(Ok(()), Part::finish));
        self.told(result)
    }

    /// The object cannot be read from byte `at` on.
    fn broken(&self, at: u64, error: &dyn Display) -> Failure {
        let left = match self.part {
            Some(_) => "the file is as it was",
            None => "what was written is incomplete",
        };
        Failure::new(format!("`{}` cannot be read from byte {at} on; {left}\n{error}", self.name))
    }

    /// Shows progress, but not between the bytes of the object.
    fn show(&self, done: u64, all: u64, progress: &mut Progress) {
        if self.file.is_some() {
            progress.show_part(&format!("{}: {} of {}", self.name, ByteSize(done), ByteSize(all)), done, done, all);
        }
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
