//! Arguments of commands that change an array.

use std::future::Future;

use clap::Args;
use shingle_array_store::{DriveId, Inspection};

use super::place::{ArrayArgs, Missing, Opened, with_array, with_array_and};
use crate::failure::Outcome;

/// The array to change, the reaction to missing drives, and the form of the output.
#[derive(Args)]
pub(super) struct Change {
    #[command(flatten)]
    pub(super) place: ArrayArgs,
    /// Go on without missing drives, from now on.
    #[arg(long)]
    degraded: bool,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
}

impl Change {
    /// Runs `work` with the array open, and closes it.
    pub(super) fn run<T, F: Future<Output = Outcome<T>>>(&self, work: impl FnOnce(Opened) -> F) -> Outcome<T> {
        with_array(&self.place, Missing::told(self.degraded), false, work)
    }

    /// The same, with the array's drives as `place` has them, and drives that were given up are taken back: those that
    /// `readmit` names.
    pub(super) fn run_with<T, F: Future<Output = Outcome<T>>>(
        &self,
        place: &ArrayArgs,
        readmit: impl FnOnce(&Inspection, &[String]) -> Outcome<Vec<DriveId>>,
        work: impl FnOnce(Opened) -> F,
    ) -> Outcome<T> {
        with_array_and(place, Missing::told(self.degraded), false, readmit, work)
    }
}
