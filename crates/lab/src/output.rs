//! What a run leaves behind: JSON, CSV and pictures.

use std::path::Path;

use serde::Serialize;

use crate::experiment::{Experiment, LabError, Outcome, Row, Scale};

/// A run, as programs read it.
#[derive(Serialize)]
pub struct RunJson<'a> {
    /// The experiment's name.
    pub experiment: &'a str,
    /// Its seed.
    pub seed: u64,
    /// Its scale.
    pub scale: Scale,
    /// Its figures.
    pub rows: &'a [Row],
}

/// A run as one line of JSON.
pub fn json(experiment: &Experiment, seed: u64, scale: Scale, outcome: &Outcome) -> String {
    let run = RunJson { experiment: experiment.name, seed, scale, rows: &outcome.rows };
    // Plain numbers and strings cannot fail to be written.
    serde_json::to_string(&run).unwrap_or_default()
}

/// Writes `NAME.json`, `NAME.csv` and each figure into `folder`, which is made if it is not there.
///
/// # Errors
/// Where a file could not be written.
pub fn write(
    folder: &Path,
    experiment: &Experiment,
    seed: u64,
    scale: Scale,
    outcome: &Outcome,
) -> Result<(), LabError> {
    let failed = |error: std::io::Error| LabError(format!("{} could not be written: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let name = experiment.name;
    std::fs::write(folder.join(format!("{name}.json")), json(experiment, seed, scale, outcome)).map_err(failed)?;
    std::fs::write(folder.join(format!("{name}.csv")), csv(&outcome.rows)).map_err(failed)?;
    outcome.figures.iter().try_for_each(|figure| figure.write(folder))
}

fn csv(rows: &[Row]) -> String {
    let mut out = "id,unit,paper,paper_config,ours,goal,verdict,note\n".to_owned();
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for row in rows {
        let verdict = serde_json::to_string(&row.verdict).unwrap_or_default();
        out.push_str(&format!(
            "\"{}\",{},{},{},{},{},{},\"{}\"\n",
            row.id.replace('"', "\"\""),
            row.unit,
            number(row.paper),
            number(row.paper_config),
            number(row.ours),
            number(row.goal),
            verdict.trim_matches('"'),
            row.note.replace('"', "\"\""),
        ));
    }
    out
}
