//! Goals of `targets`, as rows have them: each is asserted where it holds.
//!
//! At quick scale, with one seed; the report judges the worst of several, at its own scale. A goal that is missed is in one of the lists below,
//! so that a change that misses another one, or meets one of these, says so.

use shingle_lab::experiment::Outcome;
use shingle_lab::report::number::number;
use shingle_lab::report::row::Verdict;

/// Experiment and row of goals that are missed.
const MISSED: &[(&str, &str)] = &[
    ("micro-write", "HC-W, 1024 KiB, over the paper's configuration, same kernel, files at random"),
    ("micro-write", "HC-W, 1024 KiB, over CS-Ext4 on the conventional twin, same kernel, files at random"),
    ("memory", "random sizes: index of a 20 TB drive at 80 %"),
    // So few writes fill no cache of the drive's.
    ("stl-replay", "src2_2: TL1 over drive-managed, two outstanding, write cache off"),
    // 2.73 for 3, and 3.01 before the modelled drive's tracks and inner rate were fitted anew: it takes 52 MB/s since then, where it took 47, and TL1 142 as before. Without
    // jitter it is 2.74. TL1 copies nothing in so short a run, so that its scratch zone and its cleaner's looks at zones have no part in it.
    ("stl-replay", "src2_2: TL1 over drive-managed, one outstanding, write cache on"),
    // Few zones and sets, of which open ones are a large part.
    ("smore-ingest", "ingest, 12 drives"),
    ("smore-read", "read, 256 MB"),
    ("smore-wa", "write amplification without parity, mixed sizes, 80 % full"),
    ("smore-snapshot", "longest wait of a writer of small objects, during snapshots"),
    ("smore-snapshot", "longest wait of a writer of small objects, during snapshots, 50 TB, extrapolated"),
];

/// The same of goals so near that another draw of the same load decides.
const NEAR: &[(&str, &str)] = &[
    ("micro-read", "HC-RR, 4 KiB"),
    ("micro-read", "HC-RR, 128 KiB"),
    ("smore-read", "read, mixed sizes, after 100 % churn, over fresh"),
];

/// Experiments whose goals are asserted.
const HELD: &[&str] = &[
    "block-replay",
    "micro-write",
    "micro-read",
    "access-pattern",
    "peers-replay",
    "recovery",
    "memory",
    "smore-ingest",
    "smore-read",
    "smore-wa",
    "smore-snapshot",
    "slow-drive",
    "stl-replay",
    "stl-cleaning",
    "rocksdb-hmsmr",
    "rocksdb-zns",
    "object-create",
    "blue-write",
    "blue-read",
];

/// Asserts each goal that is not known to be missed, and that those known to be missed still are.
pub(crate) fn hold(experiment: &str, outcome: &Outcome) {
    let of = |list: &[(&'static str, &'static str)]| -> Vec<&str> {
        list.iter().filter(|known| known.0 == experiment).map(|known| known.1).collect()
    };
    if !HELD.contains(&experiment) {
        return;
    }
    let (missed, near) = (of(MISSED), of(NEAR));
    let judged = outcome.rows.iter().filter(|row| row.goal_met.is_some());
    let wrong: Vec<String> = judged
        .clone()
        .filter(|row| !near.contains(&row.id.as_str()))
        .filter(|row| (row.goal_met == Some(Verdict::No)) != missed.contains(&row.id.as_str()))
        .map(|row| {
            let [ours, goal] = [row.ours, row.goal].map(|value| value.map_or("-".to_owned(), number));
            let expected = if missed.contains(&row.id.as_str()) { "missed" } else { "met" };
            format!("(\"{experiment}\", \"{}\"): {ours}, goal {goal}: {}; expected: {expected}", row.id, row.margin)
        })
        .collect();
    assert!(wrong.is_empty(), "goals are met or missed otherwise than known:\n{}", wrong.join("\n"));
    for known in missed.iter().chain(&near) {
        assert!(judged.clone().any(|row| row.id == *known), "{experiment} has no judged goal `{known}`");
    }
}
