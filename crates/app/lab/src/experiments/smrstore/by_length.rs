//! Multi-stream runs with each length of chunks, and rows of all of them.
//!
//! **Owns** what a length that nobody knows does to a verdict.
//! **Knows nothing of** what a row is about.
//!
//! # Invariants
//! - LAB-KERNEL-1: a goal over another store is one behind the same kernel, and holds behind each: the kernel is no merit of a store.
//! - LAB-LEN-1: no verdict is of the length that suits it: the paper's configuration is consistent at best, and a goal is judged at the length
//!   where ours is farthest on its wrong side.

use std::sync::Arc;

use super::multistream_case::{Case, measure};
use crate::context::Context;
use crate::error::LabError;
use crate::load::lengths::{LENGTHS, Lengths};
use crate::load::multistream::MultiStreamResult;
use crate::report::number::number;
use crate::report::row::{Better, Row};
use crate::rig::host::Host;
use crate::rig::store::Store;

/// One case with each length, in the order of [`LENGTHS`]; with the first alone where a run does not try every input.
pub(super) struct ByLength(Vec<Arc<MultiStreamResult>>);

/// A figure of each of them.
pub(super) type Values = Vec<f64>;

impl ByLength {
    /// A store that is so full, behind the kernel that it ran on.
    pub(super) fn of_store(context: &Context, store: Store, full: f64) -> Result<Self, LabError> {
        Self::behind(context, store, store.host(), full)
    }

    /// The same behind a kernel.
    pub(super) fn behind(context: &Context, store: Store, host: Host, full: f64) -> Result<Self, LabError> {
        let name = format!("{}, {}", store.name(), host.name);
        Self::measure(context, &name, |lengths| Case { lengths, host, ..Case::new(store, full) })
    }

    /// Runs it, where it was not run before.
    pub(super) fn measure(context: &Context, name: &str, case: impl Fn(Lengths) -> Case) -> Result<Self, LabError> {
        let lengths = if context.every_input { &LENGTHS[..] } else { &LENGTHS[..1] };
        let run =
            |lengths: &Lengths| measure(case(*lengths), context, &format!("{name}, chunks of {}", lengths.name()));
        Ok(Self(lengths.iter().map(run).collect::<Result<_, _>>()?))
    }

    /// The run with the length that runs of one length have.
    pub(super) fn chosen(&self) -> &Arc<MultiStreamResult> {
        &self.0[0]
    }

    pub(super) fn values(&self, of: impl Fn(&MultiStreamResult) -> f64) -> Values {
        self.0.iter().map(|run| of(run)).collect()
    }
}

/// Factors behind each kernel, of stores behind the same one: of each length the least (LAB-KERNEL-1), and words for all.
pub(super) fn least_of_kernels(factors: &[Values]) -> (Values, String) {
    let lengths = factors.iter().map(Vec::len).min().unwrap_or(0);
    let least = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::INFINITY, f64::min);
    let of_all = (0..lengths).map(|at| least(&mut factors.iter().map(|factors| factors[at]))).collect();
    let each = Host::KERNELS.iter().zip(factors);
    let each =
        each.map(|(host, factors)| format!("{} behind {}", number(least(&mut factors.iter().copied())), host.name));
    (of_all, format!("the smaller one of both kernels: {}", each.collect::<Vec<_>>().join(", ")))
}

/// Each value over the other one of the same length.
pub(super) fn over(one: &[f64], other: &[f64]) -> Values {
    one.iter().zip(other).map(|(one, other)| one / other.max(f64::MIN_POSITIVE)).collect()
}

/// A row of the paper's configuration: the chosen length's value, and what came of all.
pub(super) fn paper(row: Row, values: &[f64]) -> Row {
    row.paper_config(values[0]).tried(values.iter().copied())
}

/// The same of ours: the worst length's value, and all in the note.
pub(super) fn ours(row: Row, values: &[f64]) -> Row {
    let worse = |one: f64, other: f64| match row.better {
        Better::Higher => one.min(other),
        Better::Lower => one.max(other),
    };
    let worst = values.iter().copied().fold(values[0], worse);
    let each: Vec<String> = LENGTHS
        .iter()
        .zip(values)
        .map(|(lengths, value)| format!("{} at {}", number(*value), lengths.name()))
        .collect();
    let note = format!("ours is that of the worst length of chunks: {}", each.join(", "));
    let note = if row.note.is_empty() { note } else { format!("{}; {note}", row.note) };
    row.ours(worst).note(note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::row::Verdict;

    /// LAB-KERNEL-1.
    #[test]
    fn a_kernel_that_suits_a_factor_does_not_make_it() {
        let (factors, words) = least_of_kernels(&[vec![2.2, 3.0], vec![2.5, 1.9]]);
        assert_eq!(factors, [2.2, 1.9]);
        assert_eq!(words, "the smaller one of both kernels: 2.2 behind Linux 4.19, 1.9 behind Linux 6.10");
    }

    /// LAB-LEN-1.
    #[test]
    fn a_length_that_suits_a_verdict_does_not_make_it() {
        let lost = || Row::new("lost", "%", Better::Lower).paper_at_most(5.0).goal(2.0);
        let judged = |row: Row| {
            let row = row.judged();
            (row.reproduced, row.goal_met)
        };
        let row = ours(paper(lost(), &[2.0, 2.0, 2.0, 22.0]), &[0.1, 0.1, 0.1, 3.9]);
        assert_eq!((row.paper_config, row.ours, row.tried), (Some(2.0), Some(3.9), Some([2.0, 22.0])));
        assert!(row.note.contains("3.9 at the last block"), "{}", row.note);
        assert_eq!(judged(row), (Some(Verdict::Consistent), Some(Verdict::No)));
        let row = ours(paper(lost(), &[6.0, 7.0, 8.0, 22.0]), &[0.1; 4]);
        assert_eq!(judged(row), (Some(Verdict::No), Some(Verdict::Yes)));
        let over = over(&[67.3, 67.3, 60.0, 50.0], &[28.0, 32.5, 28.0, 28.0]);
        let row = ours(Row::new("over", "x", Better::Higher).goal(2.0), &over);
        assert!((row.ours.unwrap() - 50.0 / 28.0).abs() < 1e-9);
    }
}
