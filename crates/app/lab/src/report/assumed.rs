//! The report's section on assumed constants: which verdicts hang on them.

use std::fmt::Write;

use super::escape::escaped;
use super::number::number;
use super::row::{Verdict, class};
use crate::runs::sweep::{Flip, Move, Sweep};

/// The section of a sweep, or of none.
pub(super) fn section(out: &mut String, swept: Option<&Sweep>) {
    out.push_str("<section id='assumed'><h2>Assumed constants</h2>");
    match swept {
        Some(sweep) => findings(out, sweep),
        None => out.push_str(
            "<p>No constant was moved for this report: reports of standard and full scale do so, and <code>shingle lab sweep</code>.</p>",
        ),
    }
    out.push_str("<p><a href='#'>Contents</a></p></section>");
}

// Writing to a string cannot fail, here and below.
fn findings(out: &mut String, sweep: &Sweep) {
    let Sweep { seed, scale, verdicts, steady, .. } = sweep;
    let class = if steady == verdicts { "yes" } else { "no" };
    let _ = write!(
        out,
        "<p>Each constant that nobody publishes of a drive and to which nothing is fitted was moved by half, down and up, in drives \
         and their twins alike, and these experiments were judged again: {}. To bound its time, a sweep is of one seed ({seed}), of drives that lose \
         turns, and at scale {scale}, where verdicts may be others than above. <b class={class}>{steady} of {verdicts}</b> of them hold wherever a \
         constant is.{}</p>",
        sweep.experiments.join(", "),
        match &sweep.left_out[..] {
            [] => String::new(),
            left_out => format!(
                " Left out, since each takes long: {} (<code>shingle lab sweep</code> takes all).",
                left_out.join(", ")
            ),
        },
    );
    if !sweep.flips.is_empty() {
        out.push_str(
            "<h3>Verdicts that turn</h3><table><thead><tr><th>figure<th>constant<th>as it is<th>moved<th>paper or goal<th>verdict</tr></thead><tbody>",
        );
        sweep.flips.iter().for_each(|flip| turned(out, flip));
        out.push_str("</tbody></table>");
    }
    out.push_str(
        "<h3>Constants</h3><table><thead><tr><th>constant<th>by<th>experiments<th>verdicts<th>turned</tr></thead><tbody>",
    );
    for Move { constant, by, experiments, verdicts, flips } in &sweep.moves {
        let _ = write!(out, "<tr><td class=id>{}", escaped(constant));
        let cells = [
            ("by", percent(*by)),
            ("experiments", experiments.to_string()),
            ("verdicts", verdicts.to_string()),
            ("turned", flips.to_string()),
        ];
        for (label, text) in cells {
            let _ = write!(out, "<td class=number data-label='{label}'>{text}");
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
    if !sweep.unfinished.is_empty() {
        out.push_str("<p>Runs that ended early:</p><ul>");
        for why in &sweep.unfinished {
            let _ = write!(out, "<li>{}</li>", escaped(why));
        }
        out.push_str("</ul>");
    }
}

fn turned(out: &mut String, flip: &Flip) {
    let Flip { experiment, row, question, constant, by, before, after, values, unit, against } = flip;
    let _ = write!(
        out,
        "<tr><td class=id><a href='#{experiment}'>{experiment}</a>: {}{}<td class=number data-label='constant'>{} {}",
        escaped(row),
        if unit.is_empty() { String::new() } else { format!(" ({})", escaped(unit)) },
        escaped(constant),
        percent(*by)
    );
    let text = |value: Option<f64>| value.map_or_else(String::new, number);
    let held = match against {
        [before, after] if before == after || after.is_none() => text(*before),
        [before, after] => format!("{} &rarr; {}", text(*before), text(*after)),
    };
    for (label, text) in [("as it is", text(values[0])), ("moved", text(values[1])), ("paper or goal", held)] {
        let _ = write!(out, "<td class=number data-label='{label}'>{text}");
    }
    let word = |verdict: Option<Verdict>| match Verdict::word(verdict) {
        "" => "not judged".to_owned(),
        word => word.to_lowercase(),
    };
    let asked = if *question == "goal_met" { "goal met?" } else { "reproduced?" };
    let _ = write!(
        out,
        "<td class=answer data-label='{asked}'><span>{asked}</span> {} &rarr; <b class={}>{}</b></tr>",
        word(Some(*before)),
        class(*after),
        word(*after)
    );
}

/// A factor in words.
pub fn percent(by: f64) -> String {
    format!("{:+.0}%", (by - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Moved;
    use crate::constants::Constant;
    use crate::context::Scale;
    use crate::report::row::{Better, Row};
    use crate::runs::plan::Plan;

    #[test]
    fn verdicts_that_turn_are_on_the_page_with_what_turns_them() {
        let row = |ours: f64| Row::new("a <rate>", "x", Better::Higher).ours(ours).goal(10.0).judged();
        let mut sweep = Sweep::new(&Plan::new(7, 1, Scale::Quick));
        sweep.begin("space", &[row(11.0)]);
        sweep.take("space", &[row(11.0)], Moved { constant: Constant::Skew, by: 1.5 }, &[row(9.0)]);
        sweep.left_out.push("memory");
        let mut page = String::new();
        section(&mut page, Some(&sweep));
        for part in [
            "<b class=no>0 of 1</b>",
            "one seed (7)",
            "at scale quick",
            "<a href='#space'>space</a>: a &lt;rate&gt;",
            "<span>goal met?</span>",
            "skew_ms +50%",
            "yes &rarr; <b class=no>no</b>",
            "(x)<td class=number data-label='constant'>",
            "<td class=number data-label='moved'>9<td class=number data-label='paper or goal'>10<td class=answer",
            "Left out, since each takes long: memory",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let mut page = String::new();
        section(&mut page, None);
        assert!(page.contains("No constant was moved"));
    }
}
