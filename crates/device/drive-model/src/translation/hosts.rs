//! Host commands that are done in parts.

use std::collections::BTreeMap;

use crate::command::{CommandId, Nanos};
use crate::translation::managed::{Inside, Work};

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
