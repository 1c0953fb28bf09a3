//! Rows of a load's request times.

use crate::load::times::Summary;
use crate::report::row::{Better, Row};

/// A figure's name, and the figure.
type Figure = (&'static str, fn(&Summary) -> f64);

/// One row for each figure, of the paper's configuration and of ours.
pub(crate) fn rows(id: &str, paper_config: Option<&Summary>, ours: Option<&Summary>) -> Vec<Row> {
    let figures: [Figure; 6] = [
        ("mean", |times| times.mean_ms),
        ("p50", |times| times.p50_ms),
        ("p99", |times| times.p99_ms),
        ("p99.9", |times| times.p999_ms),
        ("longest", |times| times.longest_ms),
        ("longest stall", |times| times.stall_ms),
    ];
    let row = |(what, of): Figure| {
        let row = Row::new(format!("{id}, {what}"), "ms", Better::Lower);
        let row = paper_config.map_or(row.clone(), |times| row.paper_config(of(times)));
        ours.map_or(row.clone(), |times| row.ours(of(times)))
    };
    figures.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_made_of_each_figure() {
        let times = Summary { p99_ms: 7.0, ..Summary::default() };
        let rows = rows("GET", None, Some(&times));
        let p99 = rows.iter().find(|row| row.id == "GET, p99").unwrap();
        assert_eq!((rows.len(), p99.ours, p99.paper_config), (6, Some(7.0), None));
    }
}
