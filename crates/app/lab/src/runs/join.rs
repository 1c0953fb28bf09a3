//! One outcome out of those of several runs.

use crate::change::Change;
use crate::experiment::Outcome;
use crate::report::joined::{of_seeds, of_ways};
use crate::report::row::{Row, Verdict};
use crate::runs::plan::Variation;

/// The outcome of runs that differ in seed and supposition; pictures and remarks are those of the first one, grids have rows of all seeds under
/// the first supposition.
pub fn join(runs: Vec<(Variation, Outcome)>) -> Outcome {
    let under = |supposed: fn(&Change) -> bool| -> Vec<Vec<Row>> {
        let found = runs.iter().filter(|(variation, _)| supposed(&variation.change));
        found.map(|(_, outcome)| outcome.rows.clone()).collect()
    };
    let lost = under(|change| !change.streams_writes && !change.cache_on);
    let (none_lost, cache_on) = (under(|change| change.streams_writes), under(|change| change.cache_on));
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
            let of = |runs: &[Vec<Row>]| of_seeds(&same(runs, &row.id));
            Some(of_ways(of(&lost)?, of(&none_lost), of(&cache_on)))
        })
        .collect();
    if !cache_on.is_empty() && joined.rows.iter().any(|row| row.reproduced.is_some()) {
        let ways = [("off, turns lost", &lost), ("off, no turn lost", &none_lost), ("on", &cache_on)];
        joined.remarks.insert(0, best(ways.map(|(way, runs)| (way, joined_seeds(&joined.rows, runs)))));
    }
    if seeds > 1 {
        joined.remarks.insert(0, format!("Of {seeds} seeds; pictures and remarks are of the first one."));
    }
    joined
}

/// Rows of one supposition, by those of all.
fn joined_seeds(rows: &[Row], runs: &[Vec<Row>]) -> Vec<Row> {
    rows.iter().filter_map(|row| of_seeds(&same(runs, &row.id))).collect()
}

/// Says which supposition about a cache comes to most of a paper's figures: rows that need different ones do not support each other.
fn best(ways: [(&str, Vec<Row>); 3]) -> String {
    let counts = ways.map(|(way, rows)| {
        let asked: Vec<Verdict> = rows.iter().filter_map(|row| row.reproduced).collect();
        let held = asked.iter().filter(|verdict| **verdict != Verdict::No).count();
        format!("{way}: {held} of {}", asked.len())
    });
    format!("Of the paper's figures are reproduced with the drives' volatile cache {}.", counts.join("; "))
}

/// Rows of that name, of each run.
fn same(runs: &[Vec<Row>], id: &str) -> Vec<Row> {
    runs.iter().filter_map(|rows| rows.iter().find(|row| row.id == id)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::grid::{Grid, GridRow};
    use crate::report::row::Better;

    #[test]
    fn seeds_are_joined_first_and_hypotheses_then() {
        let run = |seed: u64, streams_writes: bool, ours: f64| {
            let row = |id: &str| Row::new(id, "x", Better::Higher).ours(ours).goal(10.0).judged();
            let mut grid = Grid::new("some", "Some load", &[]);
            grid.rows.push(GridRow { system: "drive".to_owned(), host: "Linux", seed, cells: Vec::new() });
            let mut outcome = Outcome { rows: vec![row("one"), row("other")], grids: vec![grid], ..Outcome::default() };
            outcome.inputs.seeds = vec![seed];
            (Variation { seed, change: Change { streams_writes, ..Change::default() } }, outcome)
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

    /// LAB-JOIN-2: two rows of which each needs another state of the cache do not reproduce a paper together.
    #[test]
    fn rows_that_need_different_caches_depend_on_it() {
        let run = |change: Change, values: [f64; 2]| {
            let row = |id: &str, found: f64| Row::new(id, "x", Better::Lower).paper(10.0, 0.1).paper_config(found);
            let rows = ["one", "other"].iter().zip(values).map(|(id, found)| row(id, found).judged());
            (Variation { seed: 1, change }, Outcome { rows: rows.collect(), ..Outcome::default() })
        };
        let (streams_writes, cache_on) = (true, true);
        let joined = join(vec![
            run(Change::default(), [10.0, 20.0]),
            run(Change { streams_writes, ..Change::default() }, [10.5, 20.0]),
            run(Change { cache_on, ..Change::default() }, [5.0, 10.0]),
        ]);
        let verdicts: Vec<_> = joined.rows.iter().map(|row| row.reproduced).collect();
        assert_eq!(verdicts, [Some(Verdict::Depends), Some(Verdict::Depends)]);
        assert_eq!(
            joined.rows[1].ways().map(|way| way.0).collect::<Vec<_>>(),
            ["drive's cache off", "drive's cache on"]
        );
        let remark = &joined.remarks[0];
        assert!(remark.contains("off, turns lost: 1 of 2; off, no turn lost: 1 of 2; on: 1 of 2"), "{remark}");
    }
}
