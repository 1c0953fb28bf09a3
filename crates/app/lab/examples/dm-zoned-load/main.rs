//! Writes on the lab's model of dm-zoned: blocks that go to the drive, for `tests/zoned/test_dm_zoned.py`, which counts those of the kernel's own.
//!
//! `dm-zoned-load FILE QUIET_S`: the file's first line has the number of zones, of conventional ones among them, and of blocks of a zone;
//! each other line a write's first block and its number of blocks. One write is outstanding. Prints, as JSON, blocks of the writes, blocks
//! written to the drive when the last one ended, and those written after some quiet seconds.

#![allow(clippy::disallowed_methods, reason = "a program of its own, which reads a file")]

use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

use shingle_base::{AlignedBuf, Blocks};
use shingle_lab::baseline::dm_zoned::DmZoned;
use shingle_lab::rig::host::{Host, HostDevice};
use shingle_sim::{Sim, SimDevice};
use shingle_store_api::{BlockStore, Durability};
use shingle_zoned::{Geometry, MemoryDevice};

/// Zones that may be open: as many as are ever written.
const OPEN_ZONES: u32 = 128;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(quiet)) = (arguments.next(), arguments.next()) else {
        return Err("usage: dm-zoned-load FILE QUIET_S".into());
    };
    let quiet = Duration::from_secs(quiet.parse()?);
    let text = std::fs::read_to_string(&file)?;
    let mut lines = text.lines().map(numbers);
    let [zones, conventional, zone_blocks] = lines.next().ok_or("the file is empty")??[..] else {
        return Err("the first line has three numbers: zones, conventional zones, blocks of a zone".into());
    };
    let writes = lines.map(|line| match line?[..] {
        [block, blocks] => Ok((block, blocks)),
        _ => Err("a write has two numbers: its first block, and its number of blocks".into()),
    });
    let writes = writes.collect::<Result<Vec<(u64, u64)>, Box<dyn Error>>>()?;
    let geometry =
        Geometry::hm_smr(Blocks(zone_blocks), u32::try_from(zones)?, u32::try_from(conventional)?, OPEN_ZONES);
    let user: u64 = writes.iter().map(|write| write.1).sum();
    let counted = Sim::new(1).run(move |rt| async move {
        let device = Rc::new(SimDevice::new(&rt, &MemoryDevice::new(geometry)));
        let device = HostDevice::new(Host::linux_6_10(), device);
        let layer = DmZoned::format(&rt, device.clone())?;
        for (block, blocks) in writes {
            let data = AlignedBuf::zeroed(Blocks(blocks)).freeze();
            layer.write(Blocks(block).bytes(), vec![data], Durability::Cached).await?;
        }
        let busy = device.written_blocks();
        rt.sleep(quiet).await;
        Ok::<_, shingle_store_api::StoreError>((busy, device.written_blocks()))
    });
    let (busy, all) = counted?;
    println!("{{\"user_blocks\": {user}, \"busy_blocks\": {busy}, \"all_blocks\": {all}}}");
    Ok(())
}

fn numbers(line: &str) -> Result<Vec<u64>, Box<dyn Error>> {
    Ok(line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}
