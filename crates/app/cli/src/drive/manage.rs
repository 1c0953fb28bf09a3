//! `shingle drive open|close|finish|reset`: zone commands by hand.
//!
//! # Invariants
//! - CLI-MAN-1: loss of data and interference with a store are announced and confirmed before the first zone is touched.
//!   (`test_drive.py`)

use std::fmt::Write as _;
use std::path::PathBuf;
use std::rc::Rc;

use clap::Args;
use shingle_base::{ByteSize, ZoneId};
use shingle_runtime::Runtime;
use shingle_server::inventory::{self, Content};
use shingle_zoned::{ZoneInfo, ZoneOp, ZoneState, ZonedDevice};
use shingle_zoned_linux::OpenOptions;

use crate::confirm::confirm;
use crate::device;
use crate::drive::selection::Selection;
use crate::failure::{Failure, Outcome};
use crate::output::{Progress, counted};

/// A zone command.
#[derive(Args)]
pub(crate) struct Manage {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    #[command(flatten)]
    zones: Selection,
    /// Go on although the drive holds a partition table or a file system that is not mounted.
    #[arg(long)]
    force: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl Manage {
    pub(crate) fn run(self, op: ZoneOp) -> Outcome {
        shingle_runtime::real::run(|rt| manage(rt, self, op))?
    }
}

async fn manage(rt: Runtime, which: Manage, op: ZoneOp) -> Outcome {
    let options = OpenOptions { force: which.force, keep_open: true, alone: false };
    let device = device::open_with(&which.path, &rt, options).await?;
    let zones = choose(&device, &which.zones, op).await?;
    if let Some(zone) = zones.iter().find(|zone| zone.state == ZoneState::NotWritePointer) {
        return Err(Failure::new(format!(
            "{} is conventional: it takes writes anywhere, and there is nothing to {op} (`shingle drive report` shows types)",
            zone.zone,
        )));
    }
    let store = match inventory::content(&device).await {
        Content::Nothing => None,
        Content::Unknown(why) => Some(device::unread(&why)),
        content => Some(content.to_string()),
    };
    if !zones.is_empty()
        && let Some(what) = question(op, &zones, store.as_deref())
    {
        confirm(which.yes, &format!("{}: {what}", which.path.display()))?;
    }
    let mut progress = Progress::new();
    for (done, zone) in zones.iter().enumerate() {
        progress.show(&format!("{done} of {}", counted(zones.len() as u64, "zone")));
        device.manage(zone.zone, op).await.map_err(|error| {
            let many = counted(zones.len() as u64, "zone");
            Failure::new(format!(
                "{error}; {done} of {many} done before it (`shingle drive report` shows conditions, `shingle \
                     drive ls` limits)"
            ))
        })?;
    }
    drop(progress);
    device.flush().await?;
    if which.zones.all {
        say!("{} {}", counted(zones.len() as u64, "zone"), done_word(op));
    }
    Ok(())
}

/// Question to confirm before the zones are touched. Opening and closing lose nothing, so there it is asked only if
/// they would get in the way of a store.
fn question(op: ZoneOp, zones: &[ZoneInfo], store: Option<&str>) -> Option<String> {
    let many = counted(zones.len() as u64, "zone");
    let mut what = match (op, store) {
        (ZoneOp::Reset, _) => loss_of_reset(zones),
        (ZoneOp::Finish, _) => loss_of_finish(zones),
        (_, None) => return None,
        (ZoneOp::Open, _) => format!("an open of {many}: each takes one of the drive's places for open zones."),
        (ZoneOp::Close, _) => format!("a close of {many}: nothing is lost."),
    };
    if let Some(store) = store {
        let _ = write!(what, "\nOn this drive there is: {store}. It does not expect this, and may lose data.");
    }
    Some(what)
}

/// The zones to work on, in order: those named, in any state, or all for which the command means anything.
async fn choose(device: &Rc<dyn ZonedDevice>, selection: &Selection, op: ZoneOp) -> Outcome<Vec<ZoneInfo>> {
    let count = device.geometry().zone_count;
    if selection.all {
        let zones = device.report(ZoneId(0), count).await?;
        return Ok(zones.into_iter().filter(|zone| means_anything(op, zone.state)).collect());
    }
    let named = selection.named(count)?;
    let (Some(&first), Some(&last)) = (named.first(), named.last()) else { return Ok(Vec::new()) };
    let zones = device.report(ZoneId(first), last - first + 1).await?;
    Ok(zones.into_iter().filter(|zone| named.contains(&zone.zone.0)).collect())
}

fn means_anything(op: ZoneOp, state: ZoneState) -> bool {
    match op {
        ZoneOp::Open => state == ZoneState::Closed,
        ZoneOp::Close => state.is_open(),
        ZoneOp::Finish => state.is_active(),
        ZoneOp::Reset => state.is_active() || state == ZoneState::Full,
    }
}

fn loss_of_reset(zones: &[ZoneInfo]) -> String {
    let holding: Vec<_> = zones.iter().filter(|zone| zone.written.0 > 0).collect();
    let bytes = ByteSize(holding.iter().map(|zone| zone.written.bytes()).sum());
    let many = counted(zones.len() as u64, "zone");
    match holding.len() {
        0 => format!("a reset of {many}; nothing is written there."),
        some => format!("a reset of {many}: {bytes} written in {} will be lost.", counted_of(some, zones.len())),
    }
}

fn loss_of_finish(zones: &[ZoneInfo]) -> String {
    let room = |zone: &ZoneInfo| zone.capacity.bytes().saturating_sub(zone.written.bytes());
    let bytes = ByteSize(zones.iter().map(room).sum());
    let many = counted(zones.len() as u64, "zone");
    format!("a finish of {many}: {bytes} that could still be written there cannot be until a reset.")
}

fn counted_of(some: usize, all: usize) -> String {
    match (some, all) {
        (1, 1) => "it".to_owned(),
        (some, all) if some == all => "them".to_owned(),
        _ => format!("{some} of them"),
    }
}

fn done_word(op: ZoneOp) -> &'static str {
    match op {
        ZoneOp::Open => "opened",
        ZoneOp::Close => "closed",
        ZoneOp::Finish => "finished",
        ZoneOp::Reset => "reset",
    }
}
