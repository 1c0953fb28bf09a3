//! Write amplification of RocksDB on SSDs. (Dissertation, section 5.6, Figures 5.11 and 5.12.)

use super::rocksdb_load::Load;
use super::rocksdb_systems::{FULL, Run, System, conventional_ssd, filled, zns};
use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::calls::{Caching, Gathering};
use crate::rig::host::Host;

/// Name in commands.
pub(crate) const NAME: &str = "rocksdb-zns";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: NAME,
        question: "How much do SSDs write for each byte of RocksDB, with zones and without?",
        setup: "The load of `rocksdb-hmsmr`, which writes its database many times over, on SSDs that its files fill to 80 % at most; how full they \
                were is a row, and a drive that was filled otherwise gets no verdict. \
                Conventional: the model of ext4 on a page-mapped SSD with 28 % of its flash to spare, without discards, as file systems are mounted by \
                default; rows of erase blocks are four times as long as a table (2 GiB beside the paper's 512 MiB), but at least a hundred, since \
                few rows leave cleaning nothing to choose. Zoned, paper's configuration: each table in a zone of its own, padded to its end. Ours: \
                zones of 1,077 MiB by the same measure, but at least a hundred, too; 14 of them active, and none beside those 80 %; all that the drive is given, \
                metadata, padding and copies of cleaning, over the bytes of RocksDB that are in it. Both in the second half of the time. The paper fills \
                the drive in the order of keys first. A recording of one's own: `--trace FILE`.",
        runs: Runs::ONE,
        run,
    }
}

/// Difference from the paper's fill at which a system is still judged.
const FILL_TOLERANCE: f64 = 0.03;

const CONVENTIONAL: &str = "conventional SSD, ext4";
const OURS: &str = "ZNS SSD, ours";

/// Blocks written inside for each block given, over time, from steps of a fiftieth of it.
fn curve(run: &Run) -> Vec<(f64, f64)> {
    let step = (run.written.len() / 50).max(1);
    let points: Vec<_> = run.written.iter().step_by(step).collect();
    let between = points.windows(2).filter_map(|pair| {
        let ((_, first), (at, last)) = (pair[0], pair[1]);
        let host = last.host.checked_sub(first.host).filter(|host| *host > 0)?;
        Some((*at, (last.media - first.media) as f64 / host as f64))
    });
    between.collect()
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let load = Load::of(context)?;
    let host = Host::linux_6_10();
    context.on_host(host);
    let blocks = Caching::Blocks(load.memory_bytes());
    let (anywhere, zoned) = (conventional_ssd(&load)?, zns(&load)?);
    let systems = [
        System::ext4(context, CONVENTIONAL, &anywhere, &load),
        System::zones(context, OURS, &zoned, Gathering::Moment, blocks),
    ];
    let (mut runs, mut series) = (Vec::new(), Vec::new());
    for (at, system) in (0..).zip(&systems) {
        (context.progress)(&system.name, Some(f64::from(at) / 2.0));
        let run = system.run(&load, host, context.seed)?;
        series.push(Series::new(&system.name, Mark::Line, curve(&run)));
        runs.push(run);
    }
    let inside = |at: usize| {
        let run: Option<&Run> = runs.get(at);
        run.and_then(|run| run.inside_since(run.course.all_seconds / 2.0)).unwrap_or(f64::NAN)
    };
    // The model of ext4 tells no bytes of files: they are those of the calls.
    let fill_anywhere = filled(&anywhere, load.most_bytes() as f64);
    let fill_zoned = filled(&zoned, runs.get(1).map_or(f64::NAN, Run::live_most));
    let judged = |fill: f64, row: Row| match context.scale {
        Scale::Quick if context.call_trace.is_none() => row.note("not judged: so short a load fills no drive"),
        _ if (fill - FULL).abs() <= FILL_TOLERANCE => row.judged(),
        _ => row.note(format!("not judged: the drive was {:.0} % full", fill * 100.0)),
    };
    let rows = vec![
        Row::new("files over the room of the SSD, at most", "", Better::Higher)
            .paper_shown(FULL)
            .paper_config(fill_anywhere)
            .ours(fill_zoned)
            .note("paper's configuration: the conventional SSD; no system is judged that was not as full"),
        judged(
            fill_anywhere,
            Row::new("write amplification of a conventional SSD", "x", Better::Lower)
                .paper(5.0, 0.3)
                .paper_config(inside(0))
                .note("the paper's SSD has policies that nobody published; the model cleans greedily, and mixes all streams"),
        ),
        judged(
            fill_zoned,
            Row::new("write amplification with zones", "x", Better::Lower)
                .paper(1.2, 0.1)
                .paper_config(load.padded())
                .ours(inside(1))
                .goal(1.05)
                .note("the paper's counts what pads tables; ours all that the drive gets, over the bytes of RocksDB in it"),
        ),
    ];
    let figures = vec![Figure {
        name: format!("{NAME}-amplification"),
        title: "RocksDB on SSDs: blocks written for each block (Figures 5.11 and 5.12)".to_owned(),
        x: Axis::linear("time (s)"),
        y: Axis::linear("write amplification"),
        series,
    }];
    Ok(Outcome { rows, figures, ..Outcome::default() })
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use shingle_drive_model::Translation;

    use super::*;

    #[test]
    fn both_ssds_are_as_full_as_the_papers_and_cleaning_has_rows_to_choose_from() {
        for scale in [Scale::Standard, Scale::Full] {
            let load = Load::of(&Context::new(1, scale, Rc::new(|_, _| {}))).unwrap();
            for profile in [conventional_ssd(&load).unwrap(), zns(&load).unwrap()] {
                let fill = filled(&profile, load.most_bytes() as f64);
                assert!((fill - FULL).abs() <= FILL_TOLERANCE, "{scale}, {}: {fill}", profile.name);
                if let (Some(Translation::PageMapped(layer)), Some(flash)) = (&profile.translation, &profile.flash) {
                    let row_mib = layer.erase_block_kib * flash.dies / 1024;
                    let rows = profile.shape.zones * profile.shape.zone_mib / row_mib;
                    assert!((100..140).contains(&rows), "{scale}: {rows} rows");
                }
            }
        }
    }
}
