//! Files that GC may work on, drive by drive, those with most garbage first.
//!
//! **Knows nothing of** what is done with them.
//!
//! # Invariants
//! - OS-VIC-1: the lists hold what a walk over all files finds: whoever changes a file does so through
//!   [`Change`](crate::files::Change), which moves it in them. `lists_hold_what_a_walk_finds`.
//! - OS-VIC-2: a choice costs the files that are looked at: those that are worth it and cannot be had now, and one more. It does not depend on how
//!   many files there are. `a_choice_costs_the_files_that_are_looked_at`.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::files::file::LogFile;

/// A part of a file, from none to all or more, in an order: bits of floats that are not negative are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part(Reverse<u64>);

impl Part {
    fn of(fraction: f64) -> Self {
        Self(Reverse(fraction.to_bits()))
    }

    fn fraction(self) -> f64 {
        f64::from_bits(self.0.0)
    }
}

/// Rank of a file in the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    drive: usize,
    standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Its deletion was begun.
    Ending,
    /// Share of garbage; share of garbage and graves, if there are any, and if these have been looked at.
    Stays { garbage: Option<Part>, graves: Option<(Part, bool)> },
}

impl Rank {
    /// `None` if GC leaves the file alone.
    pub(crate) fn of(file: &LogFile) -> Option<Self> {
        let drive = file.drive?;
        if file.record.dropping {
            return Some(Self { drive, standing: Standing::Ending });
        }
        if file.damaged || file.unseen || file.given_up {
            return None;
        }
        let (bytes, graves) = (file.size(), file.record.grave_bytes);
        let size = bytes.max(1) as f64;
        let garbage = match (bytes, file.tail) {
            // Just made.
            (0, Some(_)) => 0.0,
            (0, None) => 1.0,
            _ => file.garbage() as f64 / size,
        };
        let graves = (graves > 0).then(|| (Part::of(garbage + graves as f64 / size), file.graves_seen));
        let garbage = (garbage > 0.0).then(|| Part::of(garbage));
        Some(Self { drive, standing: Standing::Stays { garbage, graves } })
    }
}

/// The files of a drive.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lists {
    ending: BTreeSet<u64>,
    garbage: BTreeSet<(Part, u64)>,
    /// With graves in them that nobody has looked at since a file was dropped.
    graves: BTreeSet<(Part, u64)>,
    /// Files that were given out.
    seen: BTreeSet<u64>,
    /// Number of files dropped by then.
    dropped: u64,
}

/// The files of all drives.
#[derive(Debug, Default)]
pub(crate) struct Victims {
    drives: BTreeMap<usize, Lists>,
    /// Files that were looked at, so far.
    steps: Cell<u64>,
}

impl Victims {
    /// A file's rank has changed.
    pub(crate) fn change(&mut self, number: u64, before: Option<Rank>, after: Option<Rank>) {
        if before == after {
            return;
        }
        if let Some(rank) = before {
            let lists = self.drives.entry(rank.drive).or_default();
            match rank.standing {
                Standing::Ending => drop(lists.ending.remove(&number)),
                Standing::Stays { garbage, graves } => {
                    garbage.map(|part| lists.garbage.remove(&(part, number)));
                    graves.map(|(part, seen)| match seen {
                        true => lists.seen.remove(&number),
                        false => lists.graves.remove(&(part, number)),
                    });
                }
            }
        }
        if let Some(rank) = after {
            let lists = self.drives.entry(rank.drive).or_default();
            match rank.standing {
                Standing::Ending => drop(lists.ending.insert(number)),
                Standing::Stays { garbage, graves } => {
                    garbage.map(|part| lists.garbage.insert((part, number)));
                    graves.map(|(part, seen)| match seen {
                        true => lists.seen.insert(number),
                        false => lists.graves.insert((part, number)),
                    });
                }
            }
        }
    }

    /// True if there is a file with garbage.
    pub(crate) fn any(&self) -> bool {
        self.drives.values().any(|lists| !lists.garbage.is_empty() || !lists.ending.is_empty())
    }

    /// True if there is a file with graves that nobody has looked at lately.
    pub(crate) fn any_graves(&self) -> bool {
        self.drives.values().any(|lists| !lists.graves.is_empty())
    }

    /// Files that are being deleted.
    pub(crate) fn ending(&self, drive: usize) -> impl Iterator<Item = u64> {
        self.counted(self.drives.get(&drive).into_iter().flat_map(|lists| lists.ending.iter().copied()))
    }

    /// Files of which such a part is garbage at least, the largest part first.
    pub(crate) fn with_garbage(&self, drive: usize, part: f64) -> impl Iterator<Item = u64> {
        let lists = self.drives.get(&drive).into_iter();
        self.counted(lists.flat_map(move |lists| down_to(&lists.garbage, part)))
    }

    /// The same where garbage and graves count, with graves that nobody has looked at.
    pub(crate) fn with_graves(&self, drive: usize, part: f64) -> impl Iterator<Item = u64> {
        let lists = self.drives.get(&drive).into_iter();
        self.counted(lists.flat_map(move |lists| down_to(&lists.graves, part)))
    }

    /// Files of a drive whose graves were looked at before the last of `dropped` files was dropped: they are to be again. Each was
    /// read since it was taken last.
    pub(crate) fn take_seen(&mut self, drive: usize, dropped: u64) -> BTreeSet<u64> {
        let lists = self.drives.entry(drive).or_default();
        if std::mem::replace(&mut lists.dropped, dropped) == dropped {
            return BTreeSet::new();
        }
        lists.seen.clone()
    }

    fn counted(&self, files: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
        files.inspect(|_| self.steps.set(self.steps.get() + 1))
    }
}

fn down_to(list: &BTreeSet<(Part, u64)>, part: f64) -> impl Iterator<Item = u64> {
    list.iter().take_while(move |(of, _)| of.fraction() >= part).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use shingle_chunk_store::Stream;

    use super::*;
    use crate::files::{End, Files, Tail};
    use crate::records::FileRecord;

    const SIZE: u64 = 1000;

    /// A closed file.
    fn file(drive: usize, live: u64, graves: u64) -> LogFile {
        let record = FileRecord { live_bytes: live, grave_bytes: graves, ..FileRecord::default() };
        let mut file = LogFile::new(Some(drive), Stream::Data, record);
        file.closed.insert(0, End::Sealed(SIZE));
        file
    }

    /// OS-VIC-2, on a store of 60 drives of 20 TB: GC with nothing to do, and with something on each drive.
    #[test]
    fn a_choice_costs_the_files_that_are_looked_at() {
        let mut files = Files::default();
        for number in 0..600_000u64 {
            // A tenth of each is garbage.
            files.insert(number, file(number as usize % 60, SIZE - SIZE / 10, number % 7));
        }
        let steps = |files: &Files| files.victims().steps.get();
        for drive in 0..60 {
            assert!(files.victims().with_garbage(drive, 0.3).next().is_none());
            assert!(files.victims().with_graves(drive, 0.3).next().is_none());
            assert!(files.victims().ending(drive).next().is_none());
        }
        assert_eq!(steps(&files), 0);
        for drive in 0..60 {
            files.get_mut(drive + 6000).unwrap().record.live_bytes = 100;
            files.get_mut(drive + 12_000).unwrap().record.live_bytes = 50;
            let found: Vec<u64> = files.victims().with_garbage(drive as usize, 0.3).collect();
            assert_eq!(found, [drive + 12_000, drive + 6000]);
        }
        assert_eq!(steps(&files), 120);
    }

    /// OS-VIC-1: after changes of all kinds the lists are those that are made anew.
    #[test]
    fn lists_hold_what_a_walk_finds() {
        let mut random = shingle_sim::Random::new(1);
        let mut files = Files::default();
        let anew = |files: &Files| {
            let mut victims = Victims::default();
            for (number, file) in files.iter() {
                victims.change(number, None, Rank::of(file));
            }
            victims
        };
        for step in 0..5000 {
            let number = random.below(40);
            match random.below(11) {
                0 => files.insert(number, file(random.below(3) as usize, random.below(SIZE), random.below(2) * 50)),
                1 => files.remove(number),
                2 => drop(files.get_mut(number).map(|mut file| file.graves_seen = true)),
                3 => files.look_again(random.below(3) as usize, step / 100),
                4 => files.close_chunk(number, 1, End::Within(random.below(SIZE)), None),
                change => {
                    let Some(mut file) = files.get_mut(number) else { continue };
                    match change {
                        5 => file.record.live_bytes = random.below(SIZE),
                        6 => file.record.grave_bytes = random.below(3) * 40,
                        7 => file.record.dropping ^= true,
                        8 => file.damaged ^= true,
                        9 => file.unseen ^= true,
                        _ => file.tail = Some(Tail { ordinal: 1, next: random.below(SIZE), room: 5, rolling: false }),
                    }
                }
            }
            let expected = anew(&files);
            for drive in 0..3 {
                let of = |victims: &Victims| {
                    let graves: Vec<u64> = victims.with_graves(drive, 0.0).collect();
                    let garbage: Vec<u64> = victims.with_garbage(drive, 0.0).collect();
                    (victims.ending(drive).collect::<Vec<_>>(), garbage, graves)
                };
                assert_eq!(of(files.victims()), of(&expected), "step {step}");
            }
        }
    }
}
