//! This project's recordings of zoned drives, version 1 (`trace::recording`), as block I/Os.
//!
//! A write to a sequential zone lands at its write pointer, which is followed; a reset becomes a trim of what the zone held. Commands that
//! open, close or finish zones are left out: blocks have no zones. A recording has no times, so all I/Os arrive at once. Of each command it
//! has the number of those that were under way when it came. So the earlier ones beyond that number had completed, and the command is taken to
//! have waited for them: the oldest ones, since the recording does not say which.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;

use shingle_base::BLOCK_SIZE;
use shingle_zoned::ZoneOp;

use super::reader::{Raw, Reader, Volumes};
use crate::error::LabError;
use crate::trace::io::{Io, IoKind, WINDOW};
use crate::trace::lines::Lines;
use crate::trace::recording::{Action, Command, Line, Trace};

/// I/Os that one is taken to have waited for, at most: the newest of them.
const WAITED_MAX: usize = 64;

/// A recording of version 1.
pub(super) struct Recorded {
    lines: Lines,
    /// Head of the recording.
    trace: Option<Trace>,
    /// Write pointers of zones, in blocks from their starts.
    pointers: BTreeMap<u64, u64>,
    /// I/Os so far.
    number: u64,
    /// Numbers of I/Os under way.
    under_way: VecDeque<u64>,
    /// Numbers of I/Os that completed last.
    completed: Vec<u64>,
    volumes: Volumes,
    left_out: u64,
}

impl Recorded {
    pub(super) fn new(text: Box<dyn BufRead>) -> Self {
        Self {
            lines: Lines::new(text),
            trace: None,
            pointers: BTreeMap::new(),
            number: 0,
            under_way: VecDeque::new(),
            completed: Vec::new(),
            volumes: Volumes::default(),
            left_out: 0,
        }
    }

    /// The block I/O of a command; `None` if it has none.
    fn io(&mut self, command: Command) -> Option<Io> {
        let trace = self.trace.as_ref()?;
        let block = BLOCK_SIZE as u64;
        let io = |kind, at: u64, blocks: u64| Io::new(0, kind, at * block, blocks * block);
        let pointer = self.pointers.entry(command.at / trace.zone_blocks).or_default();
        match command.action {
            Action::Write(blocks) => Some(io(IoKind::Write, command.at, u64::from(blocks))),
            Action::Read(blocks) => Some(io(IoKind::Read, command.at, u64::from(blocks))),
            Action::Flush => Some(Io::flush(0)),
            Action::Append(blocks) => {
                // A recording that goes past the end of a zone would be none of a real drive.
                let at = *pointer;
                *pointer = at.checked_add(u64::from(blocks)).filter(|&end| end <= trace.zone_blocks)?;
                Some(io(IoKind::Write, command.at + at, u64::from(blocks)))
            }
            Action::Zone(ZoneOp::Reset) => {
                let held = std::mem::take(pointer);
                (held > 0).then(|| io(IoKind::Trim, command.at, held))
            }
            Action::Zone(_) => None,
        }
    }

    /// Notes an I/O that came when so many were under way, and returns those that it waited for.
    fn follow(&mut self, outstanding: u32) -> Vec<u32> {
        let mut completed = Vec::new();
        while self.under_way.len() > outstanding as usize {
            completed.extend(self.under_way.pop_front());
        }
        if !completed.is_empty() {
            self.completed = completed;
        }
        self.under_way.push_back(self.number);
        // Numbers of commands under way are a program's word, and memory is not.
        if self.under_way.len() > WINDOW {
            self.under_way.pop_front();
        }
        let back = |number: &u64| u32::try_from(self.number - number).ok().filter(|&back| back as usize <= WINDOW);
        let newest = self.completed.len().saturating_sub(WAITED_MAX);
        self.completed[newest..].iter().filter_map(back).collect()
    }
}

impl Reader for Recorded {
    fn next_raw(&mut self) -> Result<Option<Raw>, LabError> {
        if self.trace.is_none() {
            self.trace = Some(Trace::head(self.lines.next_line()?.unwrap_or_default())?);
        }
        while let Some(text) = self.lines.next_line()? {
            let line = self.trace.as_ref().and_then(|trace| trace.line(text));
            let command = match line {
                Some(Line::Command(command)) => command,
                Some(_) => continue,
                None => return Err(self.lines.wrong("it is no line of a recording").into()),
            };
            let Some(io) = self.io(command) else {
                self.left_out += 1;
                continue;
            };
            let after = self.follow(command.outstanding);
            self.number += 1;
            return Ok(Some(Raw { volume: self.volumes.number("drive")?, io: Io { after, ..io } }));
        }
        Ok(None)
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::foreign::format::{Format, read_all};
    use crate::trace::io::IoKind;

    #[test]
    fn commands_become_ios_at_the_write_pointer_that_wait_for_the_oldest() {
        let text = "shingle-trace 1 some 2048 10 2\nW 7 1 0\nA 2 256 1\nA 2 8 2\nO 3 0\nM 1048576\nD\nR 4096 1 1\nF 0\nF 1\nX 2 0\nX 2 0\n\
                    A 2 8 0\nA 2 2048 0\nZ\n";
        let (ios, _) = read_all(Format::ShingleZoned, text.as_bytes()).unwrap();
        let block = |offset: u64| offset / 4096;
        let found: Vec<_> = ios
            .iter()
            .map(|raw| (raw.io.kind, block(raw.io.offset), block(raw.io.length), raw.io.after.clone()))
            .collect();
        let expected = [
            (IoKind::Write, 7, 1, vec![]),
            (IoKind::Write, 4096, 256, vec![]),
            (IoKind::Write, 4352, 8, vec![]),
            (IoKind::Read, 4096, 1, vec![3, 2]),
            (IoKind::Flush, 0, 0, vec![2, 1]),
            // As under way as before: it came after the same ones.
            (IoKind::Flush, 0, 0, vec![3, 2]),
            (IoKind::Trim, 4096, 264, vec![2, 1]),
            (IoKind::Write, 4096, 8, vec![1]),
        ];
        assert_eq!(found, expected, "what goes past the zone's end is left out");
        assert!(ios.iter().all(|raw| raw.io.at == 0));
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_line() {
        let error = |text: &str| read_all(Format::ShingleZoned, text.as_bytes()).unwrap_err().0;
        assert!(error("shingle-trace 2 some 1 1 1\n").contains("shingle-trace 1 NAME"));
        assert!(error("shingle-trace 1 some 2048 10 2\nF 0\nW 1 0 0\n").starts_with("line 3: "));
    }
}
