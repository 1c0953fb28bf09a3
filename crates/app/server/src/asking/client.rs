//! Asking a server that runs.

use std::io::{BufRead, BufReader, ErrorKind as Io, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use shingle_array_store::{CheckReport as ArrayReport, Object, ScrubReport, Stats, Version};
use shingle_base::ByteSize;
use shingle_object_store::{CheckReport, ObjectName, ObjectStats};
use shingle_store_api::Finding;

use super::head::{Head, PATIENCE};
use super::wire::{ArrayStanding, Found, Line, Question, Refusal, unhex};
use super::{LINE_BYTES_MAX, PATH};
use crate::error::{Error, ErrorKind, Result};
use crate::offline::opened::{BlueCounted, Checked, Counted, Progress};
use crate::reports::status;

/// A server that runs.
pub struct Running {
    socket: UnixStream,
    directory: PathBuf,
}

impl Running {
    /// The server of a data directory; `None` if none runs there.
    ///
    /// # Errors
    /// `System`: it cannot be asked.
    pub fn of(directory: &Path) -> Result<Option<Self>> {
        let found = status::connect(directory, PATIENCE)?;
        Ok(found.map(|socket| Self { socket, directory: directory.to_owned() }))
    }

    /// Every object: its bucket, its key, its size, and its ETag.
    ///
    /// # Errors
    /// `System`, `Store`: it could not be answered, or not wholly.
    pub fn objects(self, prefix: &str, mut found: impl FnMut(&str, &str, u64, &str)) -> Result<()> {
        self.ask(&Question::ObjectLs { prefix: prefix.to_owned() }, |line| {
            if let Line::Object { bucket, key, size, etag } = line {
                found(&bucket, &key, size, &etag);
            }
            Ok(())
        })
    }

    /// Counters and sizes; only those that commands print.
    ///
    /// # Errors
    /// As [`Running::objects`].
    pub fn stats(self) -> Result<Counted> {
        let mut counted = Counted::default();
        self.ask(&Question::ObjectStat {}, |line| {
            match line {
                Line::Stored { objects, live_bytes, files, file_bytes } => {
                    let stats = ObjectStats { objects, live_bytes, files, file_bytes, ..ObjectStats::default() };
                    counted.objects = Some(stats);
                }
                Line::ArrayStored { array, objects, live_bytes, capacity_bytes } => {
                    let stats = Stats { objects, live: live_bytes, capacity: capacity_bytes, ..Stats::default() };
                    counted.arrays.push((array, stats));
                }
                Line::BlueStored { blue, objects, live_bytes, capacity_bytes } => {
                    counted.blues.push((blue, BlueCounted { objects, live_bytes, capacity_bytes }));
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(counted)
    }

    /// Compares indexes and drives; with `full`, reads and verifies every byte. `progress` is told now and then.
    ///
    /// # Errors
    /// As [`Running::objects`]. Damage is no error; it is in the report.
    pub fn check(self, full: bool, progress: impl Fn(Progress<'_>)) -> Result<Checked> {
        let mut checked = Checked::default();
        let mut found = Findings::default();
        self.ask(&Question::ObjectCheck { quick: !full }, |line| {
            match line {
                Line::Drives { done, all } => progress(Progress::Drives(done, all)),
                Line::Sets { array, done, sets, bytes, .. } => {
                    progress(Progress::Array(&array, done, sets, ByteSize(bytes)));
                }
                Line::Checked { objects, entries, bytes, damage_more, unnamed } => {
                    let report = CheckReport { objects, entries, bytes, damage_more, unnamed, ..found.take().objects };
                    checked.objects = Some(report);
                }
                Line::ArrayChecked { array, objects, sets, bytes } => {
                    let report = ArrayReport { objects, sets, bytes, ..found.take().array };
                    checked.arrays.push((array, Ok(report)));
                }
                Line::Unchecked { array, message } => {
                    checked.arrays.push((array, Err(Error::new(ErrorKind::Store, message))));
                }
                Line::BlueUnchecked { blue, message } => {
                    checked.blues.push((blue, Err(Error::new(ErrorKind::Store, message))));
                }
                line => found.add(line),
            }
            Ok(())
        })?;
        Ok(checked)
    }

    /// Objects of the array that has these drives, by the names that they have there. `false` if the server has no such array.
    ///
    /// # Errors
    /// As [`Running::objects`].
    pub fn array_objects(self, drives: Vec<PathBuf>, prefix: &str, mut found: impl FnMut(&Object)) -> Result<bool> {
        self.ask_array(&Question::ArrayLs { drives, prefix: prefix.to_owned() }, |line| {
            if let Line::ArrayObject { name, size, version } = line {
                found(&object(&name, size, version)?);
            }
            Ok(())
        })
    }

    /// One of them; `None` if the server has no such array.
    ///
    /// # Errors
    /// As [`Running::objects`].
    pub fn array_object(self, drives: Vec<PathBuf>, name: &str) -> Result<Option<Object>> {
        let mut found = None;
        self.ask_array(&Question::ArrayStat { drives, name: Some(name.to_owned()) }, |line| {
            if let Line::ArrayObject { name, size, version } = line {
                found = Some(object(&name, size, version)?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// State of that array; `None` if the server has none such.
    ///
    /// # Errors
    /// As [`Running::objects`].
    pub fn array(self, drives: Vec<PathBuf>) -> Result<Option<ArrayStanding>> {
        let mut found = None;
        self.ask_array(&Question::ArrayStat { drives, name: None }, |line| {
            if let Line::Standing(standing) = line {
                found = Some((*standing).try_into()?);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Checks that array; `None` if the server has none such. `progress` is told now and then; the report it gets counts no damage.
    ///
    /// # Errors
    /// As [`Running::objects`]. Damage is no error; it is in the report.
    pub fn check_array(
        self,
        drives: Vec<PathBuf>,
        quick: bool,
        mut progress: impl FnMut(&ScrubReport),
    ) -> Result<Option<ArrayReport>> {
        let (mut found, mut checked) = (Findings::default(), None);
        self.ask_array(&Question::ArrayCheck { drives, quick }, |line| {
            match line {
                Line::Sets { done, sets, bytes, damaged, .. } => {
                    // Only their number is shown.
                    let damaged = vec![Finding::default(); damaged];
                    progress(&ScrubReport { done, sets, bytes, damaged, ..ScrubReport::default() });
                }
                Line::ArrayChecked { objects, sets, bytes, .. } => {
                    checked = Some(ArrayReport { objects, sets, bytes, ..found.take().array });
                }
                line => found.add(line),
            }
            Ok(())
        })?;
        Ok(checked)
    }

    /// As [`Running::ask`]; `false` if the server has no such array.
    fn ask_array(self, question: &Question, line: impl FnMut(Line) -> Result<()>) -> Result<bool> {
        match self.ask(question, line) {
            Ok(()) => Ok(true),
            Err(error) if error.kind == ErrorKind::NotMade => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Asks, and passes on each line of the answer but the last.
    fn ask(mut self, question: &Question, mut tell: impl FnMut(Line) -> Result<()>) -> Result<()> {
        let directory = self.directory.display().to_string();
        let failed = |error: &dyn std::fmt::Display| Error::system(format_args!("the server of {directory}"), error);
        let io = |error: std::io::Error| match error.kind() {
            Io::WouldBlock | Io::TimedOut => failed(&"it does not answer: stop it and try again"),
            _ => failed(&error),
        };
        let text = serde_json::to_string(question).map_err(|error| failed(&error))?;
        // Without chunks, and the connection ends with the answer.
        let head = format!("POST {PATH} HTTP/1.0\r\nHost: shingle\r\nContent-Length: {}\r\n\r\n", text.len());
        self.socket.write_all(head.as_bytes()).map_err(io)?;
        self.socket.write_all(text.as_bytes()).map_err(io)?;
        let mut answer = BufReader::new(self.socket);
        let head = Head::read(&mut answer).map_err(io)?;
        if head.status != "200" {
            return Err(failed(&head.refusal(&mut answer).map_err(io)?.trim_end()));
        }
        let mut next = || -> Result<Option<String>> {
            let mut line = String::new();
            answer.by_ref().take(LINE_BYTES_MAX).read_line(&mut line).map_err(io)?;
            Ok(line.ends_with('\n').then_some(line))
        };
        loop {
            let Some(line) = next()? else {
                return Err(failed(&"it ended before its answer did: try again once it runs, or without it"));
            };
            match serde_json::from_str(&line).map_err(|error| failed(&error))? {
                Line::End => return Ok(()),
                Line::Refused { why: Refusal::NotMine, message } => {
                    return Err(Error::new(ErrorKind::NotMade, message));
                }
                Line::Refused { why: Refusal::Other, message } => return Err(Error::new(ErrorKind::Store, message)),
                Line::Alive => {}
                line => tell(line)?,
            }
        }
    }
}

fn object(name: &str, size: u64, version: u64) -> Result<Object> {
    let name = unhex(name).ok_or_else(|| Error::system("the server's answer", "a name makes no sense"))?;
    Ok(Object { name: name.into(), version: Version(version), size, attributes: Bytes::new() })
}

/// Collects findings from lines.
#[derive(Default)]
struct Findings {
    objects: CheckReport,
    array: ArrayReport,
}

impl Findings {
    fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    fn add(&mut self, line: Line) {
        match line {
            Line::Found { what, words, objects } => {
                let finding = |words| Finding { words, objects: objects.into() };
                match what {
                    Found::Damage => self.objects.damage.push(finding(words)),
                    Found::MissingDrive => self.array.missing_drives.push(words),
                    Found::Buffer => self.array.buffer.push(words),
                    Found::Repairable => self.array.repairable.push(finding(words)),
                    Found::Lost => self.array.lost.push(finding(words)),
                    Found::Away => self.array.away.push(finding(words)),
                }
            }
            Line::Damaged { upload, bucket, key } => {
                let name = ObjectName { bucket, key };
                match upload {
                    true => self.objects.damaged_uploads.insert(name),
                    false => self.objects.damaged_objects.insert(name),
                };
            }
            _ => {}
        }
    }
}
