//! Files of a run: JSON, CSV and pictures.

use std::path::Path;

use serde::Serialize;

use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome};
use crate::inputs::{Inputs, Program};
use crate::report::figure::Figure;
use crate::report::grid::Grid;
use crate::report::row::{Row, Verdict};

/// The version of the program whose figures these are.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of a run's JSON. 2: `reproduced` and `goal_met`, `yes`, `no` or null, in place of one `verdict`. 3: `program`, `inputs`,
/// `figures` and `remarks`; rows of request times; `bound`, `tried` and the verdict `consistent`. 4: `grids`; `seeds` of the inputs, and of rows
/// `worst` and `no_turn_lost`, with the verdict `depends`; values of rows are medians of the seeds. 5: `cache_on` of rows, for drives of which a
/// paper does not say whether their volatile cache was on.
const SCHEMA: u32 = 5;

/// A run, as programs read it.
#[derive(Serialize)]
pub struct RunJson<'a> {
    /// The version of this form.
    pub schema: u32,
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
    /// The commit and the number of the sources.
    pub program: &'a Program,
    /// Hashes of drives, hosts, options.
    pub inputs: &'a Inputs,
    /// The figures that count.
    pub rows: &'a [Row],
    /// Series of its pictures.
    pub figures: &'a [Figure],
    /// Measures of several systems, behind several hosts, for several seeds.
    pub grids: &'a [Grid],
    /// Remarks on this run.
    pub remarks: &'a [String],
}

/// A run as one line of JSON.
pub fn json(experiment: &Experiment, context: &Context, outcome: &Outcome) -> String {
    let drive = context.drive.as_ref().map(|profile| profile.name.as_str());
    let (seed, scale) = (context.seed, context.scale);
    let run = RunJson {
        schema: SCHEMA,
        experiment: experiment.name,
        version: VERSION,
        seed,
        scale,
        drive,
        program: &context.program,
        inputs: &outcome.inputs,
        rows: &outcome.rows,
        figures: &outcome.figures,
        grids: &outcome.grids,
        remarks: &outcome.remarks,
    };
    // Plain numbers and strings cannot fail to be written.
    serde_json::to_string(&run).unwrap_or_default()
}

/// Writes `NAME.json`, `NAME.rows.csv`, each grid as `GRID.csv`, and each figure, with its data as `FIGURE.csv`, into `folder`, which is made if it is missing.
///
/// # Errors
/// A file that could not be written.
pub fn write(folder: &Path, experiment: &Experiment, context: &Context, outcome: &Outcome) -> Result<(), LabError> {
    let failed = |error: std::io::Error| LabError(format!("{} could not be written: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let name = experiment.name;
    std::fs::write(folder.join(format!("{name}.json")), json(experiment, context, outcome)).map_err(failed)?;
    std::fs::write(folder.join(format!("{name}.rows.csv")), csv(&outcome.rows)).map_err(failed)?;
    for grid in &outcome.grids {
        std::fs::write(folder.join(format!("{}.csv", grid.name)), grid.csv()).map_err(failed)?;
    }
    outcome.figures.iter().try_for_each(|figure| figure.write(folder))
}

fn csv(rows: &[Row]) -> String {
    let mut out =
        "id,unit,paper,paper_config,ours,goal,reproduced,goal_met,worst_paper_config,worst_ours,turn,margin,note\n"
            .to_owned();
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for (turn, row) in rows.iter().flat_map(Row::ways) {
        out.push_str(&format!(
            "\"{}\",{},{},{},{},{},{},{},{},{},{turn},\"{}\",\"{}\"\n",
            row.id.replace('"', "\"\""),
            row.unit,
            number(row.paper),
            number(row.paper_config),
            number(row.ours),
            number(row.goal),
            Verdict::word(row.reproduced).to_lowercase(),
            Verdict::word(row.goal_met).to_lowercase(),
            number(row.worst.and_then(|worst| worst.paper_config)),
            number(row.worst.and_then(|worst| worst.ours)),
            row.margin.replace('"', "\"\""),
            row.note.replace('"', "\"\""),
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::experiment::Runs;
    use crate::report::figure::{Axis, Figure, Mark, Series};
    use crate::report::row::Better;
    use crate::rig::engine::Setup;
    use crate::rig::store::Store;

    /// A figure often has its experiment's name.
    #[test]
    fn rows_and_the_data_of_figures_have_files_of_their_own() {
        let context = Context::new(7, Scale::Quick, Rc::new(|_, _| {}));
        let experiment = crate::experiments::named("space").unwrap();
        let figure = Figure {
            name: experiment.name.to_owned(),
            title: "A picture".to_owned(),
            x: Axis::linear("x"),
            y: Axis::linear("y"),
            series: vec![Series::new("s", Mark::Line, vec![(0.0, 1.0), (1.0, 2.0)])],
        };
        let row = Row::new("late", "s", Better::Lower).paper(9.0, 0.2).paper_config(10.0).ours(20.0).goal(10.0);
        let outcome = Outcome { rows: vec![row.judged()], figures: vec![figure], ..Outcome::default() };
        let folder = std::env::temp_dir().join(format!("shingle-lab-files-{}", std::process::id()));
        write(&folder, &experiment, &context, &outcome).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let (rows, data, run) = (read("space.rows.csv"), read("space.csv"), read("space.json"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(rows.contains("\"late\",s,9,10,20,10,yes,no,"), "{rows}");
        assert!(data.starts_with("series,"), "{data}");
        let run: serde_json::Value = serde_json::from_str(&run).unwrap();
        assert_eq!((&run["schema"], &run["rows"][0]["goal_met"]), (&5.into(), &"no".into()));
        assert_eq!(run["figures"][0]["series"][0]["points"][1], serde_json::json!([1.0, 2.0]));
    }

    /// A reader of a result must be able to make it again.
    #[test]
    fn a_run_names_its_program_drives_hosts_and_options() {
        let program = Program { commit: Some("abc+".to_owned()), build: Some("12".to_owned()) };
        let mut context = Context::new(7, Scale::Quick, Rc::new(|_, _| {})).made_by(program);
        let run = |context: &mut Context| {
            let store = Store::Engine(Setup::Ours);
            store.drive(context)?;
            context.on_host(store.host());
            Ok(Outcome::default())
        };
        let experiment = Experiment { name: "x", question: "", setup: "", runs: Runs::ONE, run };
        let mut run = || {
            let outcome = experiment.perform(&mut context).unwrap();
            serde_json::from_str::<serde_json::Value>(&json(&experiment, &context, &outcome)).unwrap()
        };
        let first = run();
        assert_eq!(first["program"], serde_json::json!({ "commit": "abc+", "build": "12" }));
        let inputs = &first["inputs"];
        assert_eq!(inputs["drives"]["st20000nm001j"].as_str().unwrap().len(), 16);
        assert_eq!(inputs["hosts"]["Linux 6.10"]["command_max_bytes"], 8 << 20);
        assert!(inputs["options"]["Shingle"].as_str().unwrap().contains("writes_max: 4"));
        assert_eq!(run(), first, "one run's inputs are not taken for another's");
    }
}
