//! One run of the multi-stream load: its parameters, and its size by scale.

use std::sync::Arc;
use std::time::Duration;

use shingle_sim::Sim;

use crate::baseline::f2fs::F2fsOptions;
use crate::context::Context;
use crate::error::LabError;
use crate::load::lengths::{LENGTHS, Lengths};
use crate::load::multistream::{self, MultiStream, MultiStreamResult};
use crate::rig::host::Host;
use crate::rig::store::Store;

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) store: Store,
    /// The kernel between store and drive.
    pub(super) host: Host,
    /// The share of the capacity that is in use.
    pub(super) full: f64,
    /// Lengths of its chunks.
    pub(super) lengths: Lengths,
}

impl Case {
    /// A store so full, behind the kernel that it ran on.
    pub(super) fn new(store: Store, full: f64) -> Self {
        Self { store, host: store.host(), full, lengths: LENGTHS[0] }
    }
}

/// Zones of 256 MiB in 6 TB.
const ZONES: u32 = 22_352;

/// Divisor of the number of zones.
fn every(context: &Context) -> u32 {
    context.scale.pick(32, 8, 1)
}

/// F2FS as it behaves on the whole drive.
pub(super) fn f2fs(context: &Context) -> Store {
    Store::F2fs(F2fsOptions { like_sections: (every(context) > 1).then_some(ZONES), ..F2fsOptions::default() })
}

/// Runs one case, unless it was run before. `name` is shown meanwhile.
pub(super) fn measure(case: Case, context: &Context, name: &str) -> Result<Arc<MultiStreamResult>, LabError> {
    let key = format!("{case:?}, seed {}, {:?}", context.seed, context.change);
    context.on_host(case.host);
    let whole = case.store.drive(context)?;
    let every = every(context);
    let drive = whole.every(every).first_zones(ZONES / every);
    let load = MultiStream {
        classes: multistream::classes(case.lengths, 1.0 / f64::from(every)),
        full: case.full,
        deletion: Duration::from_secs(12 * 3600) / every,
        sample: Duration::from_secs(600) / every,
    };
    let (progress, name) = (context.progress.clone(), format!("{name}, {:.0} % full", case.full * 100.0));
    context.known.or_make(key, || {
        Sim::new(context.seed).run(move |rt| async move {
            let (target, _device) = case.store.format(&rt, &drive, case.host).await?;
            multistream::run(&rt, target, load, |share| progress(&name, Some(share))).await
        })
    })
}
