//! Rows of the policies of cleaning, and their goals.

use std::collections::BTreeMap;

use shingle_translation_layers::CachePolicy;

use super::traces::{ARCHIVE, SRC1_2};
use crate::context::Scale;
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::grid::Grid;
use crate::report::row::{Better, Row};
use crate::rig::host::Host;

/// Throughput of each policy, by load.
#[derive(Default)]
pub(super) struct Found {
    loads: Vec<String>,
    throughput: BTreeMap<(String, &'static str), f64>,
}

/// Policies of the paper.
const PAPER: [CachePolicy; 3] = [CachePolicy::Fifo, CachePolicy::MinValid, CachePolicy::MinAssoc];

/// Policies of this project.
const OURS: [CachePolicy; 3] = [CachePolicy::CostBenefit, CachePolicy::Dense, CachePolicy::Cheapest];

/// The one that is to be ahead of the paper's on every load.
const BETTER: CachePolicy = CachePolicy::Cheapest;

/// Least factor that is no tie.
const AHEAD: f64 = 1.01;

impl Found {
    /// Takes in the rows of a grid.
    pub(super) fn take(&mut self, load: &str, grid: &Grid, host: Host) {
        self.loads.push(load.to_owned());
        for policy in CachePolicy::ALL {
            let value = grid.values(policy.name(), host, "throughput").first().copied().unwrap_or(f64::NAN);
            self.throughput.insert((load.to_owned(), policy.name()), value);
        }
    }

    fn of(&self, load: &str, policy: CachePolicy) -> f64 {
        self.throughput.get(&(load.to_owned(), policy.name())).copied().unwrap_or(f64::NAN)
    }

    fn over(&self, load: &str, one: CachePolicy, other: CachePolicy) -> f64 {
        self.of(load, one) / self.of(load, other)
    }

    /// Over the best of the paper's.
    fn over_best(&self, load: &str, policy: CachePolicy) -> f64 {
        self.of(load, policy) / PAPER.into_iter().map(|other| self.of(load, other)).fold(0.0, f64::max)
    }

    /// Bars of all policies, by load.
    pub(super) fn figure(&self, name: &str) -> Figure {
        let bars = |policy: CachePolicy| {
            let points = (0..).zip(&self.loads).map(|(at, load)| (f64::from(at), self.of(load, policy)));
            Series::new(policy.name(), Mark::Bars, points.collect())
        };
        Figure {
            name: format!("{name}-throughput"),
            title: "TL1 with each policy of cleaning (Figure 14)".to_owned(),
            x: Axis::of_names("load", self.loads.clone()),
            y: Axis::linear("throughput (MB/s)"),
            series: CachePolicy::ALL.map(bars).to_vec(),
        }
    }
}

/// All rows.
pub(super) fn rows(found: &Found, scale: Scale) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |row: Row| {
        rows.push(match scale {
            Scale::Quick => row.note("not judged: so few writes fill no cache twice"),
            _ => row.judged(),
        });
    };
    for load in &found.loads {
        let value = found.over(load, CachePolicy::MinValid, CachePolicy::Fifo);
        let row = Row::new(format!("{load}: min_valid over fifo"), "x", Better::Higher).paper_config(value);
        add(match load.as_str() {
            SRC1_2 => row.paper_factor(2.0, 1.25).note("\"a factor of 2\""),
            ARCHIVE => row.paper_factor(1.0, 1.1).note("\"tiny\""),
            _ => {
                row.paper_factor(1.5, 1.35).note("between \"tiny\" and \"a factor of 2\": 1.2 to 1.8 is taken for that")
            }
        });
    }
    for load in &found.loads {
        let value = found.over(load, CachePolicy::MinAssoc, CachePolicy::MinValid);
        let row = Row::new(format!("{load}: min_assoc over min_valid"), "x", Better::Higher).paper_factor(1.0, 1.1);
        add(row.paper_config(value).note("\"essentially tied\""));
    }
    for policy in OURS {
        let name = policy.name();
        for load in &found.loads {
            let row = Row::new(format!("{load}: {name} over the best of the paper's three"), "x", Better::Higher);
            let row = row.ours(found.over_best(load, policy)).note("less than a hundredth ahead is a tie");
            // The goal is one better policy.
            add(if policy == BETTER { row.goal(AHEAD) } else { row });
        }
    }
    rows
}
