//! One outcome out of those of several runs.

use crate::experiment::Outcome;
use crate::report::joined::{of_both, of_seeds};
use crate::report::row::Row;
use crate::runs::plan::Variation;

/// The outcome of runs that differ in seed and hypothesis; pictures and remarks are those of the first one, grids have rows of all seeds under
/// the first hypothesis.
pub fn join(runs: Vec<(Variation, Outcome)>) -> Outcome {
    let streams = |runs: &[(Variation, Outcome)], streams: bool| -> Vec<Vec<Row>> {
        let found = runs.iter().filter(|(variation, _)| variation.change.streams_writes == streams);
        found.map(|(_, outcome)| outcome.rows.clone()).collect()
    };
    let (lost, none_lost) = (streams(&runs, false), streams(&runs, true));
    let seeds = lost.len();
    let mut runs = runs.into_iter();
    let Some((first, mut joined)) = runs.next() else { return Outcome::default() };
    for (variation, other) in runs {
        joined.inputs.join(other.inputs);
        if variation.change == first.change {
            joined.grids.iter_mut().zip(other.grids).for_each(|(grid, other)| grid.join(other));
        }
    }
    joined.rows = joined
        .rows
        .iter()
        .filter_map(|row| {
            let found = of_seeds(&same(&lost, &row.id))?;
            Some(of_seeds(&same(&none_lost, &row.id)).map_or(found.clone(), |other| of_both(found, other)))
        })
        .collect();
    if seeds > 1 {
        joined.remarks.insert(0, format!("Of {seeds} seeds; pictures and remarks are of the first one."));
    }
    joined
}

/// Rows of that name, of each run.
fn same(runs: &[Vec<Row>], id: &str) -> Vec<Row> {
    runs.iter().filter_map(|rows| rows.iter().find(|row| row.id == id)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use crate::report::grid::{Grid, GridRow};
    use crate::report::row::{Better, Verdict};

    #[test]
    fn seeds_are_joined_first_and_hypotheses_then() {
        let run = |seed: u64, streams_writes: bool, ours: f64| {
            let row = |id: &str| Row::new(id, "x", Better::Higher).ours(ours).goal(10.0).judged();
            let mut grid = Grid::new("some", "Some load", &[]);
            grid.rows.push(GridRow { system: "drive".to_owned(), host: "Linux", seed, cells: Vec::new() });
            let mut outcome = Outcome { rows: vec![row("one"), row("other")], grids: vec![grid], ..Outcome::default() };
            outcome.inputs.seeds = vec![seed];
            (Variation { seed, change: Change { streams_writes, moved: None } }, outcome)
        };
        let runs = vec![run(1, false, 11.0), run(1, true, 8.0), run(2, false, 13.0), run(2, true, 12.0)];
        let joined = join(runs);
        assert_eq!(joined.inputs.seeds, [1, 2]);
        let seeds: Vec<u64> = joined.grids[0].rows.iter().map(|row| row.seed).collect();
        assert_eq!((joined.grids.len(), seeds), (1, vec![1, 2]), "of the first hypothesis");
        assert_eq!(joined.rows.len(), 2);
        let row = &joined.rows[0];
        assert_eq!((row.ours, row.worst.unwrap().ours, row.goal_met), (Some(11.0), Some(11.0), Some(Verdict::Depends)));
        let other = row.no_turn_lost.as_ref().unwrap();
        assert_eq!((other.worst.unwrap().ours, other.goal_met), (Some(8.0), Some(Verdict::No)));
    }
}
