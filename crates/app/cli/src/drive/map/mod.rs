//! `shingle drive map`: a whole drive at a glance, in the terminal or as a picture.

mod cells;
mod svg;
mod terminal;

pub(crate) use cells::zones_per_cell;
pub(crate) use terminal::Screen;

use std::path::PathBuf;

use clap::Args;
use shingle_base::ZoneId;
use shingle_runtime::Runtime;

use crate::drive::map::cells::{Role, View, Zone};
use crate::failure::{Failure, Outcome};
use crate::{device, output};

const LONG: &str = "\
What it shows: a cell for each zone, or for some zones beside each other where the drive has too many.

A cell's colour (or digit) is the share of its written bytes that live, where the drive holds a chunk store that is \
not running; the share of its capacity that is written, where it holds none. Nothing is written to the drive.

Without colours (into a pipe or a file, or with NO_COLOR set) cells are characters; the legend explains them.";

/// Draws a map.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub(crate) struct Map {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    /// Write a picture to this file, a standalone SVG [default: a drawing on the terminal].
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Columns to use [default: the terminal's].
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,
    /// Zones in a cell [default: as few as the screen has room for].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    zones_per_cell: Option<u32>,
}

impl Map {
    pub(crate) async fn run(self, rt: Runtime) -> Outcome {
        let view = self.look(&rt).await?;
        if let Some(path) = &self.svg {
            let picture = svg::draw(&view, self.zones_per_cell);
            return std::fs::write(path, picture)
                .map_err(|error| Failure::new(format!("the picture {} cannot be written: {error}", path.display())));
        }
        let screen = terminal::Screen::of_output(self.width);
        let text = terminal::draw(&view, self.zones_per_cell, &screen);
        output::print(&text)
    }

    async fn look(&self, rt: &Runtime) -> Outcome<View> {
        let peek = device::look(&self.path, rt).await?;
        let (alone, device) = (peek.hold(), peek.device.clone());
        let geometry = device.geometry().clone();
        let reported = device.report(ZoneId(0), geometry.zone_count).await?;
        let mut zones: Vec<Zone> = reported.iter().map(|info| Zone::new(info, &geometry)).collect();
        let mut notes = Vec::new();
        let mut store = None;
        let found = shingle_chunk_store::store_id(device.clone()).await.ok();
        if found.is_some() && !alone {
            notes.push("live bytes are unknown: the chunk store is in use".to_owned());
        }
        if let Some(id) = found.filter(|_| alone) {
            match shingle_chunk_store::zones(rt, device).await {
                Ok(dump) => {
                    store = Some(id);
                    for zone in zones.iter_mut().filter(|zone| zone.role == Role::Data) {
                        // Written, but no store knows of it: nothing in it is live.
                        zone.live = Some(0);
                    }
                    for zone in dump.zones {
                        if let Some(slot) = zones.get_mut(zone.zone.0 as usize) {
                            slot.live = Some(zone.live_bytes);
                        }
                    }
                    let meta = dump.layout.superzone.0..dump.layout.metazones.end;
                    let own = zones.iter_mut().filter(|zone| meta.contains(&zone.number) && zone.is_sound());
                    own.for_each(|zone| (zone.role, zone.live) = (Role::Metadata, None));
                }
                Err(error) => notes.push(format!("live bytes are unknown: the chunk store cannot be read: {error}")),
            }
        }
        let name = self.path.display().to_string();
        Ok(View { name, store, zone_size: geometry.zone_size.bytes(), zones, notes })
    }
}
