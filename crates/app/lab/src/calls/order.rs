//! The order of calls of a recording: what each waited for, whatever the speed of the drive.
//!
//! A recording has the times of one drive. Between two calls of a thread there are the processor's work, which takes as long anywhere, and
//! waiting: for a processor, which is left out, or for another thread. RocksDB's threads wait for each other at few points: where a
//! memtable is full and a log begins, and where a manifest is synced and a flush or compaction has its result. So:
//!
//! - A thread makes its calls in order, each after the work before it.
//! - A thread that waited for a millisecond or more waited for the last *turning point* of another thread in that time: a log that was
//!   made, or a manifest that was synced. It goes on as long after it as it did. Without one, it waited for time to go by, as inserts do
//!   that RocksDB slows down.
//! - A file is read after it was written: a call on a file comes after the last one of another thread that changed it, and the removal of its
//!   name after all.
//! - Two memtables: a log is made after the tables of all flushes that were installed before. RocksDB waits there by itself on a drive
//!   that is slower than the recorded one (`max_write_buffer_number`, 2 by default).
//! - Twenty tables of flushes: a log is made after all but the last twenty of them were compacted, and removed. RocksDB slows inserts down
//!   from there on, as far as compactions are behind (`level0_slowdown_writes_trigger`), and stops them at 36.
//!
//! # Invariants
//! - LAB-ORD-1: a call waits only for calls that had ended when it began, so some call can always go on.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{Call, FileNumber, Kind, Recording, Use};

/// Least time, in microseconds, that is taken for waiting for another thread: locks are held for less.
const WAITS_MIN: u64 = 1000;

/// Tables of flushes that wait for a compaction at most.
const FLUSHED_MAX: usize = 20;

/// Before a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Calls that must have ended, by their places in the recording.
    pub after: Vec<u32>,
    /// The thread's work since its last call, in microseconds.
    pub worked: u64,
    /// Time in which it waited for a processor.
    pub queued: u64,
    /// All time since its last call.
    pub idle: u64,
    /// Waiting beside it.
    pub wait: Wait,
}

/// An event that a thread waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Time to go by: so many microseconds.
    Time(u64),
    /// The end of a call of another thread, and so many microseconds.
    Call(u32, u64),
    /// Nothing.
    #[default]
    Nothing,
}

/// Calls of a file so far.
#[derive(Default)]
struct Uses {
    /// Those that changed it, in order.
    changes: Vec<u32>,
    /// The last one of each thread.
    last: BTreeMap<u32, u32>,
}

/// A thread so far.
#[derive(Default)]
struct Thread {
    ended: u64,
    /// The last call of each thread that it comes after.
    seen: BTreeMap<u32, u32>,
    /// Tables that it made since its job began.
    tables: BTreeSet<FileNumber>,
    /// It read a table of another job: this one is a compaction.
    compacts: bool,
}

/// The events before each call.
pub fn order(recording: &Recording) -> Vec<Before> {
    let mut order = Order {
        recording,
        files: recording.files.iter().map(|_| Uses::default()).collect(),
        threads: (0..recording.threads).map(|_| Thread::default()).collect(),
        turns: Vec::new(),
        written: Vec::new(),
        flushed: Vec::new(),
        tables: Vec::new(),
        removed: BTreeMap::new(),
    };
    (0u32..).zip(&recording.calls).map(|(at, call)| order.take(at, call)).collect()
}

struct Order<'a> {
    recording: &'a Recording,
    files: Vec<Uses>,
    threads: Vec<Thread>,
    /// Turning points.
    turns: Vec<u32>,
    /// Ends of tables of flushes that are not installed yet.
    written: Vec<u64>,
    /// Syncs of manifests that installed flushes.
    flushed: Vec<u32>,
    /// Tables of flushes, and removals of files.
    tables: Vec<FileNumber>,
    removed: BTreeMap<FileNumber, u32>,
}

impl Order<'_> {
    fn call(&self, at: u32) -> Option<&Call> {
        self.recording.calls.get(at as usize)
    }

    fn take(&mut self, at: u32, call: &Call) -> Before {
        let is = self.recording.is(call);
        let mut after = self.before_on_file(call);
        if call.kind == Kind::Create && is == Use::Log {
            after.extend(self.last_before(&self.flushed, call, 0, None));
            let oldest = self.tables.len().checked_sub(FLUSHED_MAX).and_then(|at| self.tables.get(at));
            let removed = oldest.and_then(|table| self.removed.get(table)).copied();
            after.extend(removed.filter(|at| self.call(*at).is_some_and(|removal| removal.end <= call.start())));
        }
        let thread = &self.threads[call.thread as usize];
        let idle = call.start().saturating_sub(thread.ended);
        let waited = idle.saturating_sub(call.worked + call.queued);
        let turn = if waited < WAITS_MIN {
            None
        } else {
            self.last_before(&self.turns, call, thread.ended, Some(call.thread))
        };
        let wait = match turn {
            Some(turn) => {
                let since = call.start() - self.call(turn).map_or(0, |turn| turn.end);
                Wait::Call(turn, since.saturating_sub(call.queued))
            }
            None if waited > 0 => Wait::Time(waited),
            None => Wait::Nothing,
        };
        let thread = &mut self.threads[call.thread as usize];
        if turn.is_some() {
            // A job begins.
            thread.tables.clear();
            thread.compacts = false;
        }
        // Calls that come before others that come before this one need not be named.
        let calls = &self.recording.calls;
        after.retain(|before| {
            let of = calls.get(*before as usize).map_or(0, |call| call.thread);
            let seen = thread.seen.get(&of).is_some_and(|seen| seen >= before);
            thread.seen.entry(of).and_modify(|seen| *seen = (*seen).max(*before)).or_insert(*before);
            !seen
        });
        thread.ended = call.end;
        self.note(at, call, is);
        Before { after, worked: call.worked, queued: call.queued, idle, wait }
    }

    /// The last of `points` that ended before a call began, and after `since`, of a thread that is not `but`.
    fn last_before(&self, points: &[u32], call: &Call, since: u64, but: Option<u32>) -> Option<u32> {
        let end = points.partition_point(|point| self.call(*point).is_some_and(|point| point.end <= call.start()));
        let ended = points.get(..end)?.iter().rev().map(|point| (*point, self.call(*point)));
        let mut recent = ended.take_while(|(_, point)| point.is_some_and(|point| point.end > since));
        recent.find(|(_, point)| point.is_some_and(|point| Some(point.thread) != but)).map(|(point, _)| point)
    }

    fn before_on_file(&self, call: &Call) -> Vec<u32> {
        let mut after = Vec::new();
        let files = if call.kind == Kind::SyncNames { [None, None] } else { [Some(call.file), call.replaces] };
        for uses in files.into_iter().flatten().filter_map(|file| self.files.get(file as usize)) {
            let others =
                |at: &u32| self.call(*at).is_some_and(|other| other.thread != call.thread && other.end <= call.start());
            if call.kind == Kind::Delete || call.replaces.is_some() {
                after.extend(uses.last.values().copied().filter(others));
            } else {
                // Those of its own thread come before it anyhow.
                after.extend(uses.changes.iter().rev().take(64).copied().find(others));
            }
        }
        after
    }

    fn note(&mut self, at: u32, call: &Call, is: Use) {
        if let Some(uses) = self.files.get_mut(call.file as usize).filter(|_| call.kind != Kind::SyncNames) {
            uses.last.insert(call.thread, at);
            if !matches!(call.kind, Kind::Read { .. } | Kind::Open | Kind::Delete | Kind::Expect(_) | Kind::Lifetime(_))
            {
                uses.changes.push(at);
            }
        }
        let thread = &mut self.threads[call.thread as usize];
        match (&call.kind, is) {
            (Kind::Create, Use::Log) => self.turns.push(at),
            (Kind::Create, Use::Table) => drop(thread.tables.insert(call.file)),
            (Kind::Read { .. }, Use::Table) => thread.compacts |= !thread.tables.contains(&call.file),
            (Kind::Close, Use::Table) if !thread.compacts => {
                self.written.push(call.end);
                self.tables.push(call.file);
            }
            (Kind::Delete, Use::Table) => drop(self.removed.insert(call.file, at)),
            (Kind::Sync, Use::Manifest) => {
                thread.tables.clear();
                thread.compacts = false;
                self.turns.push(at);
                let before = self.written.len();
                self.written.retain(|end| *end > call.start());
                if self.written.len() < before {
                    self.flushed.push(at);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use crate::calls::read::parse;

    fn order_of(lines: &str) -> Vec<Before> {
        order(&parse(Box::new(Cursor::new(format!("shingle-files 1\n{lines}").into_bytes()))).unwrap())
    }

    /// A writer (0) begins a log, a thread (1) that waited flushes, and the writer, which waited for that, goes on.
    const STALL: &str = "c 0 1 1000 10 900 90 000001.log\n\
                         a 0 1 100 10 90 0 4096\n\
                         c 0 2 50 10 40 0 000002.log\n\
                         c 1 3 40 10 5 0 000003.sst\n\
                         a 1 3 5000 100 4900 0 100000\n\
                         c 2 9 1 1 1 0 MANIFEST-000001\n\
                         x 1 3 999 900 90 0\n\
                         s 1 9 1000 950 50 0\n\
                         c 0 4 60 10 20 5 000004.log\n\
                         o 2 3 100 10 20 0\n\
                         r 2 3 10 10 0 0 0 10\n\
                         d 0 1 100 10 90 0\n";

    #[test]
    fn a_thread_that_waited_goes_on_as_long_after_the_turning_point_as_it_did() {
        let order = order_of(STALL);
        assert_eq!(order[0].wait, Wait::Nothing);
        // The flush: 30 us after the log was made.
        assert_eq!((order[3].wait, order[3].worked), (Wait::Call(2, 30), 5));
        // The writer: 50 us after the manifest was synced, 5 of them without a processor.
        assert_eq!((order[8].wait, &order[8].after), (Wait::Call(7, 45), &vec![7]));
    }

    #[test]
    fn a_wait_without_a_turning_point_is_time() {
        let order = order_of("c 0 1 10 10 0 0 000001.log\na 0 1 5010 10 100 0 5\na 0 1 510 10 100 0 5\n");
        assert_eq!((order[1].wait, order[2].wait), (Wait::Time(4900), Wait::Time(400)));
    }

    /// LAB-ORD-1.
    #[test]
    fn files_are_read_after_they_are_written_and_removed_after_they_are_used() {
        let order = order_of(STALL);
        assert_eq!(order[9].after, [6], "the table was closed");
        assert!(order[10].after.is_empty(), "the open call said so");
        let other = "c 0 1 10 10 0 0 000001.sst\nr 1 1 10 5 5 0 0 1\nr 2 1 10 8 2 0 0 1\nd 0 1 100 10 90 0\n";
        assert_eq!(order_of(other)[3].after, [1, 2]);
        for (at, before) in order.iter().enumerate() {
            assert!(before.after.iter().all(|earlier| (*earlier as usize) < at));
        }
    }
}
