//! `shingle drive report`: every zone, for people, spreadsheets and programs.

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use shingle_base::{Blocks, ByteSize, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::{Geometry, ZoneInfo, ZoneState};

use crate::drive::words::{abbreviation, zone_type};
use crate::failure::{Failure, Outcome};
use crate::{device, output};

/// Zones asked of the drive at a time.
const BATCH: u32 = 4096;

const LONG: &str = "\
What it prints: zone number, start, size, capacity, bytes written, condition and type of each zone.

Starts are bytes from the start of the drive. `--csv` and `--json` give all figures in bytes; the table gives sizes \
in binary units (1 MiB is 1,048,576 bytes).

Conditions: nw not write pointer (a conventional zone), em empty, oi implicitly open, oe explicitly open, cl closed, \
fu full, ro read-only, ol offline. Types: CONVENTIONAL, SEQ_WRITE_REQUIRED.";

/// Lists zones.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub(crate) struct Report {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    /// The first zone to list.
    #[arg(long, value_name = "ZONE", default_value_t = 0)]
    first: u32,
    /// Zones to list [default: to the last].
    #[arg(long, value_name = "COUNT")]
    count: Option<u32>,
    /// Print comma-separated values, all of them in bytes, with a line of names first.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print one JSON object, all figures in bytes.
    #[arg(long)]
    json: bool,
}

impl Report {
    pub(crate) async fn run(self, rt: Runtime) -> Outcome {
        let device = device::look(&self.path, &rt).await?.device;
        let geometry = device.geometry();
        if self.first >= geometry.zone_count {
            let last = geometry.zone_count.saturating_sub(1);
            return Err(Failure::new(format!("the drive has no zone {}: its zones are 0 to {last}", self.first)));
        }
        let end = self.first.saturating_add(self.count.unwrap_or(u32::MAX)).min(geometry.zone_count);
        let mut zones = Vec::new();
        let mut next = self.first;
        while next < end {
            let batch = device.report(ZoneId(next), BATCH.min(end - next)).await?;
            if batch.is_empty() {
                break;
            }
            next += batch.len() as u32;
            zones.extend(batch);
        }
        output::written(self.print(geometry, &zones, BufWriter::new(std::io::stdout().lock())))
    }

    fn print(&self, geometry: &Geometry, zones: &[ZoneInfo], mut out: impl Write) -> std::io::Result<()> {
        if self.json {
            let zones: Vec<_> = zones.iter().map(|zone| zone_json(geometry, zone)).collect();
            writeln!(out, "{}", json!({ "device": self.path.display().to_string(), "zones": zones }))?;
        } else if self.csv {
            print_csv(geometry, zones, &mut out)?;
        } else {
            print_table(geometry, zones, &mut out)?;
        }
        out.flush()
    }
}

fn print_table(geometry: &Geometry, zones: &[ZoneInfo], out: &mut impl Write) -> std::io::Result<()> {
    let [start, size, capacity, written] = ["start (byte)", "size", "capacity", "written"];
    writeln!(out, "{:>7}  {start:>16}  {size:>12}  {capacity:>12}  {written:>12}  cond  type", "zone")?;
    for zone in zones {
        let written = if has_pointer(zone) { human(zone.written) } else { "-".to_owned() };
        writeln!(
            out,
            "{:>7}  {:>16}  {:>12}  {:>12}  {written:>12}  {:<4}  {}",
            zone.zone.0,
            zone.start.byte_offset(),
            human(geometry.zone_size),
            human(zone.capacity),
            abbreviation(zone.state),
            zone_type(zone, geometry.conventional_zones),
        )?;
    }
    Ok(())
}

fn print_csv(geometry: &Geometry, zones: &[ZoneInfo], out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "zone,start_bytes,size_bytes,capacity_bytes,written_bytes,condition,type")?;
    for zone in zones {
        writeln!(
            out,
            "{},{},{},{},{},{},{}",
            zone.zone.0,
            zone.start.byte_offset(),
            geometry.zone_size.bytes(),
            zone.capacity.bytes(),
            zone.written.bytes(),
            abbreviation(zone.state),
            zone_type(zone, geometry.conventional_zones),
        )?;
    }
    Ok(())
}

fn zone_json(geometry: &Geometry, zone: &ZoneInfo) -> serde_json::Value {
    json!({
        "zone": zone.zone.0,
        "start_bytes": zone.start.byte_offset(),
        "size_bytes": geometry.zone_size.bytes(),
        "capacity_bytes": zone.capacity.bytes(),
        "written_bytes": zone.written.bytes(),
        "condition": abbreviation(zone.state),
        "type": zone_type(zone, geometry.conventional_zones),
    })
}

/// True if the zone's write pointer is known.
fn has_pointer(zone: &ZoneInfo) -> bool {
    !matches!(zone.state, ZoneState::NotWritePointer | ZoneState::Offline)
}

fn human(blocks: Blocks) -> String {
    ByteSize(blocks.bytes()).to_string()
}
