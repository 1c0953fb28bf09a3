//! Files of a run: JSON, CSV and pictures.

use std::path::Path;

use serde::Serialize;

use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome};
use crate::report::row::Row;

/// The version of the program whose figures these are.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A run, as programs read it.
#[derive(Serialize)]
pub struct RunJson<'a> {
    /// The experiment's name.
    pub experiment: &'a str,
    /// The program's version.
    pub version: &'static str,
    /// Its seed.
    pub seed: u64,
    /// Its scale.
    pub scale: Scale,
    /// The user's own drive, if one was given.
    pub drive: Option<&'a str>,
    /// Its figures.
    pub rows: &'a [Row],
}

/// A run as one line of JSON.
pub fn json(experiment: &Experiment, context: &Context, outcome: &Outcome) -> String {
    let drive = context.drive.as_ref().map(|profile| profile.name.as_str());
    let (seed, scale) = (context.seed, context.scale);
    let run = RunJson { experiment: experiment.name, version: VERSION, seed, scale, drive, rows: &outcome.rows };
    // Plain numbers and strings cannot fail to be written.
    serde_json::to_string(&run).unwrap_or_default()
}

/// Writes `NAME.json`, `NAME.csv` and each figure into `folder`, which is made if it is missing.
///
/// # Errors
/// A file that could not be written.
pub fn write(folder: &Path, experiment: &Experiment, context: &Context, outcome: &Outcome) -> Result<(), LabError> {
    let failed = |error: std::io::Error| LabError(format!("{} could not be written: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let name = experiment.name;
    std::fs::write(folder.join(format!("{name}.json")), json(experiment, context, outcome)).map_err(failed)?;
    std::fs::write(folder.join(format!("{name}.csv")), csv(&outcome.rows)).map_err(failed)?;
    outcome.figures.iter().try_for_each(|figure| figure.write(folder))
}

fn csv(rows: &[Row]) -> String {
    let mut out = "id,unit,paper,paper_config,ours,goal,verdict,margin,note\n".to_owned();
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for row in rows {
        let verdict = serde_json::to_string(&row.verdict).unwrap_or_default();
        out.push_str(&format!(
            "\"{}\",{},{},{},{},{},{},\"{}\",\"{}\"\n",
            row.id.replace('"', "\"\""),
            row.unit,
            number(row.paper),
            number(row.paper_config),
            number(row.ours),
            number(row.goal),
            verdict.trim_matches('"'),
            row.margin.replace('"', "\"\""),
            row.note.replace('"', "\"\""),
        ));
    }
    out
}
