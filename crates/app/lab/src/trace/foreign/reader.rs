//! The contract of a reader of foreign traces.

use std::collections::BTreeMap;

use crate::error::LabError;
use crate::trace::io::Io;

/// Volumes of a trace, at most.
const VOLUMES_MAX: usize = 1 << 16;

/// An I/O on one of the volumes of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// Number of its volume, in the order in which these are named first.
    pub volume: usize,
    /// The I/O, with a time of the trace's own clock.
    pub io: Io,
}

/// Names of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    names: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

impl Volumes {
    /// The number of a volume, which is a new one if nobody named it before.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn number(&mut self, name: &str) -> Result<usize, LabError> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        if self.names.len() == VOLUMES_MAX {
            return Err(LabError(format!("it has more than {VOLUMES_MAX} volumes")));
        }
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), self.names.len() - 1);
        Ok(self.names.len() - 1)
    }

    /// All names, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// A trace that is being read.
pub trait Reader {
    /// The next I/O; `None` behind the last one.
    ///
    /// # Errors
    /// The trace is damaged, or of another format; the message names the line or record.
    fn next_raw(&mut self) -> Result<Option<Raw>, LabError>;

    /// Volumes named so far.
    fn volumes(&self) -> &Volumes;

    /// Records that are no read, write, flush or trim, or could not be made one, and were left out.
    fn left_out(&self) -> u64 {
        0
    }
}
