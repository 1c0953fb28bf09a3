//! The report: one HTML page with every experiment's question, rows and pictures.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::experiment::{Experiment, LabError, Outcome, Row, Scale, Verdict};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:1000px;margin:2rem auto;padding:0 1rem;color:#222}\
h1,h2{line-height:1.2}h2{margin-top:3rem;border-top:1px solid #ddd;padding-top:1.5rem}\
table{border-collapse:collapse;width:100%;font-size:14px}th,td{padding:.35rem .5rem;border-bottom:1px solid #e5e5e5;\
text-align:right;vertical-align:top}th:first-child,td:first-child,td:last-child,th:last-child{text-align:left}\
td{font-variant-numeric:tabular-nums}.beaten{color:#00704f}.reproduced{color:#0060a0}.short{color:#b03000}\
.verdict{font-weight:600;white-space:nowrap}img{max-width:100%;margin:1rem 0;border:1px solid #eee}\
.setup{color:#555}small{color:#555}@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}\
th,td{border-color:#333}h2{border-color:#333}.beaten{color:#4fc79b}.reproduced{color:#67b2e8}.short{color:#ff8a5c}\
.setup,small{color:#aaa}img{background:#fff}}";

/// Writes `index.html` into `folder`, beside the files that the runs wrote, and returns its path.
///
/// # Errors
/// Where it could not be written.
pub fn write(folder: &Path, seed: u64, scale: Scale, runs: &[(Experiment, Outcome)]) -> Result<PathBuf, LabError> {
    let path = folder.join("index.html");
    std::fs::write(&path, page(seed, scale, runs))
        .map_err(|error| LabError(format!("{} could not be written: {error}", path.display())))?;
    Ok(path)
}

fn page(seed: u64, scale: Scale, runs: &[(Experiment, Outcome)]) -> String {
    let mut out = String::new();
    let rows = || runs.iter().flat_map(|(_, outcome)| &outcome.rows);
    let count = |verdict| rows().filter(|row| row.verdict == verdict).count();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>\
         <title>Shingle: lab report</title><style>{STYLE}</style><h1>Lab report</h1>\
         <p>{} rows: <span class='beaten verdict'>{} beaten</span>, <span class='reproduced verdict'>{} reproduced</span>, \
         <span class='short verdict'>{} fallen short</span>. Seed {seed}, scale {scale}. All times are virtual, on modelled \
         drives; the same seed gives the same figures on any machine.</p>",
        rows().count(),
        count(Verdict::Beaten),
        count(Verdict::Reproduced),
        count(Verdict::Short),
    );
    for (experiment, outcome) in runs {
        let _ = write!(
            out,
            "<h2 id='{0}'>{0}</h2><p><strong>{1}</strong></p><p>Expected: {2}</p><p class=setup>Set-up: {3}</p>",
            experiment.name,
            escaped(experiment.question),
            escaped(experiment.expectation),
            escaped(experiment.setup),
        );
        table(&mut out, &outcome.rows);
        for remark in &outcome.remarks {
            let _ = write!(out, "<p><small>{}</small></p>", escaped(remark));
        }
        for figure in &outcome.figures {
            let _ = write!(
                out,
                "<img src='{0}.svg' alt='{1}'><p><small><a href='{0}.png'>PNG</a>, <a href='{0}.csv'>data</a></small></p>",
                figure.name,
                escaped(&figure.title),
            );
        }
    }
    out
}

fn table(out: &mut String, rows: &[Row]) {
    out.push_str("<table><tr><th>figure<th>paper<th>paper's configuration<th>ours<th>goal<th>unit<th>verdict");
    for row in rows {
        let class = match row.verdict {
            Verdict::Beaten => "beaten",
            Verdict::Reproduced => "reproduced",
            Verdict::Short => "short",
            Verdict::Shown => "shown",
        };
        let _ = write!(
            out,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}<td><span class='{class} verdict'>{}</span> <small>{}</small>",
            escaped(&row.id),
            number(row.paper),
            number(row.paper_config),
            number(row.ours),
            number(row.goal),
            row.unit,
            if class == "short" { "fallen short" } else { class },
            escaped(&row.note),
        );
    }
    out.push_str("</table>");
}

/// Four digits.
fn number(value: Option<f64>) -> String {
    match value {
        None => String::new(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.3}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;")
}
