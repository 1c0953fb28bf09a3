//! The dissertation's experiments at quick scale, held against the orders that the paper claims.

use std::rc::Rc;

use shingle_lab::context::{Context, Scale};
use shingle_lab::experiment::Outcome;
use shingle_lab::experiments;

use super::goals;

fn run(name: &str) -> Outcome {
    let mut context = Context::new(1, Scale::Quick, Rc::new(|_, _| {}));
    let experiment = experiments::named(name).unwrap();
    let outcome = experiment.perform(&mut context).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(outcome.may_lose_turns(), experiment.runs.turns, "{name} has drives without a write cache, or not");
    goals::hold(name, &outcome);
    outcome
}

/// The paper's configuration and ours of a row.
fn row(outcome: &Outcome, id: &str) -> (f64, f64) {
    let ids: Vec<&str> = outcome.rows.iter().map(|row| row.id.as_str()).collect();
    let row = outcome.rows.iter().find(|row| row.id == id).unwrap_or_else(|| panic!("no row {id} among {ids:?}"));
    (row.paper_config.unwrap_or(f64::NAN), row.ours.unwrap_or(f64::NAN))
}

#[test]
fn rocksdb_waits_for_synchronous_writes() {
    let found = run("rocksdb-hmsmr");
    let time = |system: &str| row(&found, &format!("time of HM-SMR, {system}, over CMR"));
    let [sync, next] = ["synchronous I/O", "asynchronous I/O"].map(|system| time(system).0);
    assert!(sync >= next, "{sync} and {next}");
    let grid = &found.grids[0];
    assert_eq!(grid.rows.len(), 6, "all systems");
    assert!(grid.rows.iter().all(|row| row.cells[0].value.is_some_and(|seconds| seconds > 1.0)));
}

#[test]
fn tables_in_zones_are_written_once() {
    let found = run("rocksdb-zns");
    let (padded, ours) = row(&found, "write amplification with zones");
    assert!(ours < 1.1 && padded > 1.1, "{ours} and {padded}");
    assert!(row(&found, "write amplification of a conventional SSD").0 >= 1.0);
    let (_, fill) = row(&found, "files over the room of the SSD, at most");
    assert!((0.1..0.8).contains(&fill), "so short a load fills no drive, and the row says so: {fill}");
}

#[test]
fn objects_are_made_faster_without_a_journal_below() {
    let found = run("object-create");
    let made = |drive: &str| row(&found, &format!("objects made on a raw drive, over a file system, {drive}"));
    let (hdd, ssd) = (made("HDD"), made("SSD"));
    assert!(hdd.0 > 1.5 && ssd.0 > 1.5, "{hdd:?} and {ssd:?}");
    assert!(hdd.1 > 1.8, "{hdd:?}");
}

#[test]
fn objects_are_written_to_zones_at_the_rate_of_the_drive() {
    let found = run("blue-write");
    for mib in [1, 2, 4] {
        let (paper, ours) = row(&found, &format!("objects written, {mib} MiB, HM-SMR over CMR"));
        assert!(paper > 1.25 && ours > 1.25, "{mib} MiB: {paper} and {ours}");
    }
}

#[test]
fn reads_that_are_led_around_cleaning_take_no_longer_than_beside_writes() {
    let found = run("blue-read");
    let (paper, ours) = row(&found, "p99 of reads, HM-SMR whose cleaning is led around, over CMR");
    assert!(paper < 1.5 && ours < 1.5, "{paper} and {ours}");
    for id in [
        "p99 of reads, HM-SMR whose cleaning is led around, over CMR that nobody writes to",
        "p99 of reads on the drive that cleans, over CMR that nobody writes to",
    ] {
        assert!(found.rows.iter().any(|row| row.id == id && row.goal == Some(1.05)), "{id}: both drives are alike");
    }
    assert!(found.rows.iter().all(|row| row.paper.is_none() || row.goal.is_none()), "no goal beside unequal loads");
}
