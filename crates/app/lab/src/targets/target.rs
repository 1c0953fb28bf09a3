//! A target: a result, a goal, and the rows that judge both.

use crate::context::Scale;
use crate::report::row::Row;

/// A result of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Paper, and section or figure.
    pub place: &'static str,
    /// The result.
    pub result: &'static str,
    /// This project's goal; none where the result is only to be reproduced.
    pub goal: Option<&'static str>,
    /// Its rows.
    pub judged: Judged,
}

/// Rows of a target.
#[derive(Clone, Copy, Debug)]
pub enum Judged {
    /// Rows of an experiment, by id; one that ends with `*` stands for all that begin so.
    By(&'static str, &'static [&'static str]),
    /// The same from standard scale on; a quick run has the rows with all that a verdict takes, and none.
    ByStandard(&'static str, &'static [&'static str]),
    /// The same, of rows that a quick run does not make.
    FromStandard(&'static str, &'static [&'static str]),
    /// An experiment shows it without a verdict, for that reason.
    Shown(&'static str, &'static str),
    /// No row yet, and the reason.
    NotYet(&'static str),
}

impl Target {
    /// The experiment that judges it.
    pub fn experiment(&self) -> Option<&'static str> {
        match self.judged {
            Judged::By(experiment, _)
            | Judged::ByStandard(experiment, _)
            | Judged::FromStandard(experiment, _)
            | Judged::Shown(experiment, _) => Some(experiment),
            Judged::NotYet(_) => None,
        }
    }

    /// Ids of rows that a run of that scale must have.
    pub(super) fn ids(&self, scale: Scale) -> &'static [&'static str] {
        match self.judged {
            Judged::By(_, ids) | Judged::ByStandard(_, ids) => ids,
            Judged::FromStandard(_, ids) if scale != Scale::Quick => ids,
            _ => &[],
        }
    }

    /// A run's row as this target is judged by: a quick one of [`Judged::ByStandard`] as if it were judged.
    pub(super) fn as_judged(&self, scale: Scale, row: &Row) -> Row {
        match self.judged {
            Judged::ByStandard(..) if scale == Scale::Quick => row.clone().judged(),
            _ => row.clone(),
        }
    }
}
