//! The load on the project's own engine, on the zoned device itself.

use std::io;
use std::path::Path;
use std::rc::Rc;

use shingle_lab::load::lanes::{self, Moment};
use shingle_lab::load::script::Streams;
use shingle_lab::rig::engine::{EngineTarget, Setup};
use shingle_runtime::{Runtime, real};
use shingle_zoned_linux::{OpenOptions, open_drive};

use crate::MARK_BYTES;

/// Formats the device and runs the load on it; `say` gets the marks.
pub(crate) fn run(node: &Path, streams: &Streams, seed: u64, say: impl Fn(&str) + 'static) -> io::Result<()> {
    real::run(|rt| async move { load(&rt, node, streams, seed, say).await })?
}

async fn load(rt: &Runtime, node: &Path, streams: &Streams, seed: u64, say: impl Fn(&str) + 'static) -> io::Result<()> {
    let device =
        open_drive(node, rt, OpenOptions { force: true, ..OpenOptions::default() }).map_err(io::Error::other)?;
    let target = EngineTarget::format(rt, device, Setup::Ours.options()).await.map_err(io::Error::other)?;
    say("appended 0");
    let tell = move |moment| match moment {
        Moment::Appended(bytes) => say(&format!("appended {bytes}")),
        Moment::Full(_) => say("full"),
    };
    lanes::run(rt, Rc::new(target), streams, seed, MARK_BYTES, Rc::new(tell)).await.map_err(io::Error::other)
}
