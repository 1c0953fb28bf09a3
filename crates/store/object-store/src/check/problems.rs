//! The problems that a check has found, until it knows which objects they touch.

use shingle_store_api::{Finding, Named, Touched};

use super::report::DAMAGE_MAX;

/// A problem's number; `None` for one that is only counted.
pub(super) type Problem = Option<usize>;

/// Problems in the order in which they were found.
#[derive(Default)]
pub(super) struct Problems {
    found: Vec<Found>,
    more: u64,
}

struct Found {
    words: String,
    /// The words name the objects.
    is_named: bool,
    objects: Touched,
}

impl Problems {
    fn add(&mut self, found: Found) -> Problem {
        if self.found.len() == DAMAGE_MAX {
            self.more += 1;
            return None;
        }
        self.found.push(found);
        Some(self.found.len() - 1)
    }

    /// A problem at a place: it touches no object unless one is named later.
    pub(super) fn at(&mut self, place: String) -> Problem {
        self.add(Found { words: place, is_named: false, objects: Touched::default() })
    }

    /// A problem of objects that nobody can name.
    pub(super) fn untold(&mut self, words: String) -> Problem {
        self.add(Found { words, is_named: false, objects: Touched::untold() })
    }

    /// A problem of the index alone, or of what its words name.
    pub(super) fn named(&mut self, words: String) -> Problem {
        self.add(Found { words, is_named: true, objects: Touched::default() })
    }

    /// The problem touches that object.
    pub(super) fn touch(&mut self, problem: Problem, named: &Named) {
        let found = problem.and_then(|number| self.found.get_mut(number));
        found.into_iter().for_each(|found| found.objects.add(|| named.clone()));
    }

    /// The findings, and the number of those that were only counted.
    pub(super) fn told(self) -> (Vec<Finding>, u64) {
        let told = |Found { words, is_named, objects }: Found| match is_named {
            true => Finding { words, objects },
            false => Finding::at(words, objects),
        };
        (self.found.into_iter().map(told).collect(), self.more)
    }
}
