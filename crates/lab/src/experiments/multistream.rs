//! The object service's streams, deletion and GC. (SMRstore, Figures 6, 7 and 17.)

use std::rc::Rc;
use std::time::Duration;

use shingle_sim::Sim;

use crate::drives::LabDrive;
use crate::engine::{EngineTarget, Setup};
use crate::experiment::{Better, Context, Experiment, LabError, Outcome, Row};
use crate::figure::{Axis, Figure, Mark, Series};
use crate::host::{Host, HostDevice};
use crate::load::multistream::{self, MultiStream, MultiStreamResult};

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "multistream",
        question: "Does throughput hold once the drive is full to 80 or 90 % and chunks are deleted at random?",
        expectation: "A steady 4 GB/s on sixty drives, 67 MB/s on one, for SMRstore; F2FS loses 61.5 to 69.7 % of it when \
                      deletion begins, since every zone mixes chunks of all streams (SMRstore, sections 3.2 and 6.2, \
                      Figures 6, 7 and 17).",
        setup: "Table 3, a sixtieth of it on one drive formatted to 6 TB; data and metadata chunks pass through cache SSDs \
                and come to the drive sealed. Filled to 80 % (or 90 %) at the streams' rates, then twelve hours in which \
                chunks drawn at random are deleted to hold that share. At smaller scale every so-manieth zone is there \
                and time is shorter in proportion, so that as many chunks of each zone are written and deleted.",
        run,
    }
}

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) setup: Setup,
    /// The share of the capacity that is in use.
    pub(crate) full: f64,
    /// Bytes of data in the longest chunk.
    pub(crate) chunk_max: u64,
}

impl Case {
    pub(crate) fn new(setup: Setup, full: f64) -> Self {
        Self { setup, full, chunk_max: u64::MAX }
    }
}

/// Zones of 256 MiB in 6 TB.
const ZONES: u32 = 22_351;

/// Runs one case. `share` is how much of the experiment that is.
pub(crate) fn measure(case: Case, context: &mut Context, name: &str) -> Result<MultiStreamResult, LabError> {
    let every = context.scale.pick(32, 8, 1);
    let drive = LabDrive::new("st20000nm001j")?.every(every).first_zones(ZONES / every);
    let load = MultiStream {
        classes: multistream::table_3(case.chunk_max, 1.0 / f64::from(every)),
        full: case.full,
        deletion: Duration::from_secs(12 * 3600) / every,
        sample: Duration::from_secs(600) / every,
    };
    let (progress, name) = (context.progress.clone(), name.to_owned());
    Sim::new(context.seed).run(move |rt| async move {
        let device = drive.device(&rt, drive.medium());
        let host = if case.setup == Setup::Ours { Host::linux_6_10() } else { Host::linux_4_19() };
        let target = EngineTarget::format(&rt, HostDevice::new(host, device), case.setup.options()).await?;
        multistream::run(&rt, Rc::new(target), load, |share| progress(&name, Some(share))).await
    })
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let mut outcome = Outcome::default();
    for full in [0.8, 0.9] {
        for setup in [Setup::Paper, Setup::Ours] {
            let found =
                measure(Case::new(setup, full), context, &format!("{}, {:.0} % full", setup.name(), full * 100.0))?;
            println!(
                "{} {full}: fill {:.1} MB/s in {:?}, deletion {:.1} MB/s loss {:.2} % wa {:.3} del/s {:.3} latency {:?}",
                setup.name(),
                found.fill_bytes_s / 1e6,
                found.full_at,
                found.deletion_bytes_s / 1e6,
                found.loss() * 100.0,
                found.write_amplification,
                found.deletions_s,
                found.latency
            );
            for sample in found.samples.iter().step_by(8) {
                let u = &sample.state.utilisation;
                let whole = u.iter().filter(|&&u| u >= 0.99).count();
                println!(
                    "  {:>7.0} s {:>6.1} MB/s gc {} dirty {} free {} closed {} whole {}",
                    sample.at.as_secs_f64(),
                    sample.bytes_s / 1e6,
                    sample.state.gc_runs,
                    sample.state.dirty_zones,
                    sample.state.free_zones,
                    u.len(),
                    whole
                );
            }
        }
    }
    Ok(outcome)
}
