//! A target: a result, a goal, and the rows that judge both.

use crate::context::Scale;

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
    /// The same from standard scale on.
    ByStandard(&'static str, &'static [&'static str]),
    /// An experiment shows it without a verdict, for that reason.
    Shown(&'static str, &'static str),
    /// No row yet, and the reason.
    NotYet(&'static str),
}

impl Target {
    /// The experiment that judges it.
    pub fn experiment(&self) -> Option<&'static str> {
        match self.judged {
            Judged::By(experiment, _) | Judged::ByStandard(experiment, _) | Judged::Shown(experiment, _) => {
                Some(experiment)
            }
            Judged::NotYet(_) => None,
        }
    }

    /// Ids of rows that judge it in a run of that scale.
    pub(super) fn ids(&self, scale: Scale) -> &'static [&'static str] {
        match self.judged {
            Judged::By(_, ids) => ids,
            Judged::ByStandard(_, ids) if scale != Scale::Quick => ids,
            _ => &[],
        }
    }
}
