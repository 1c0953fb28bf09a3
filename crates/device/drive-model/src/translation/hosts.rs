//! Host commands: the request in each, and such as are done in parts.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::command::{Command, CommandId, Nanos, Op};
use crate::translation::managed::{Inside, Work};

/// A command as a layer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Read(Range<u64>),
    Write {
        blocks: Range<u64>,
        /// It completes when it is durable.
        through: bool,
    },
    Trim(Range<u64>),
    Flush,
    /// Nothing: no blocks, or a command of zoned drives.
    Nothing,
}

impl Request {
    /// The request of a command to a drive with so many blocks.
    pub(super) fn of(command: &Command, drive_blocks: u64) -> Self {
        let end = command.at.saturating_add(command.blocks).min(drive_blocks);
        let blocks = command.at.min(end)..end;
        match command.op {
            Op::Flush => Self::Flush,
            _ if blocks.is_empty() => Self::Nothing,
            Op::Read => Self::Read(blocks),
            Op::Write => Self::Write { blocks, through: false },
            Op::WriteThrough => Self::Write { blocks, through: true },
            Op::Trim => Self::Trim(blocks),
            Op::Open | Op::Close | Op::Reset | Op::Report => Self::Nothing,
        }
    }
}

/// The host's commands under way, and how many parts of each have not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    parts: BTreeMap<Work, (CommandId, usize)>,
    next: Work,
}

impl Hosts {
    /// Takes a command in, and gives it a number.
    pub(super) fn begin(&mut self, id: CommandId, parts: usize) -> Work {
        self.next += 1;
        self.parts.insert(self.next, (id, parts));
        self.next
    }

    /// It has one part more.
    pub(super) fn one_more(&mut self, number: Work) {
        if let Some((_, parts)) = self.parts.get_mut(&number) {
            *parts += 1;
        }
    }

    /// A part of it ended. With the last one it completes, `overhead` from now.
    pub(super) fn ended(&mut self, inside: &mut Inside, number: Work, overhead: Nanos) {
        let Some((id, left)) = self.parts.get_mut(&number) else { return };
        *left -= 1;
        if *left == 0 {
            inside.complete_in(overhead, *id);
            self.parts.remove(&number);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}
