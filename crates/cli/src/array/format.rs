//! `shingle array format`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use shingle_array_store::{ArrayDrive, FormatOptions, format};
use shingle_base::{ByteSize, ZoneId};
use shingle_erasure::Code;
use shingle_server::inventory::{self, Content};
use shingle_zoned_linux::OpenOptions;

use super::place::{ArrayFile, Place, open_drives};
use crate::confirm::confirm;
use crate::failure::{Failure, Outcome};

/// Makes an empty array.
#[derive(Args)]
pub(crate) struct Format {
    /// The drives: zoned block devices, files of emulated ones, or names such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    on: Vec<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// How safe: 5+1 writes 5 parts and 1 of parity, each to another drive, so that 1 drive may be lost.
    #[arg(long, value_name = "DATA+PARITY", value_parser = code)]
    code: Code,
    /// Large objects are cut into pieces of this size.
    #[arg(long, value_name = "SIZE", default_value = "20MiB")]
    segment: ByteSize,
    /// Do it without being asked, also where the drives hold something; that is lost.
    #[arg(long)]
    yes: bool,
    /// As --yes, and also where a drive holds a partition table or a file system that is not mounted.
    #[arg(long)]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn code(text: &str) -> Result<Code, String> {
    text.parse().map_err(|_| "two numbers such as 5+1, each at least 1, together at most 20".to_owned())
}

impl Format {
    pub(crate) fn run(mut self) -> Outcome {
        self.place.drives.append(&mut self.on);
        // A file that is not there yet is made from the drives that are named.
        let file = self.place.array.clone();
        let make = file.filter(|_| !self.place.drives.is_empty());
        if let Some(path) = &make
            && path.exists()
        {
            return Err(Failure::new(format!(
                "{} is there already: leave out the drives to format those it names, or name another file",
                path.display()
            )));
        }
        let drives = if make.is_some() { self.place.drives.clone() } else { self.place.named()?.drives };
        let (index, buffer) = (self.place.index.clone(), self.place.buffer_files()?);
        let text = ArrayFile { drives: drives.clone(), index, buffer }.text()?;
        let length = u32::try_from(self.segment.0).map_err(|_| Failure::new("a segment has at most 1 GiB"))?;
        let options = FormatOptions { segment_length: length, ..FormatOptions::new(self.code) };
        shingle_runtime::real::run(|rt| async move {
            let open = OpenOptions { force: self.force, keep_open: false };
            let (drives, away) = open_drives(&drives, &rt, open).await?;
            if !away.is_empty() {
                return Err(Failure::new(format!("there is no drive {}", away.join(", "))));
            }
            if drives.len() < self.code.width() {
                let (code, width, given) = (self.code, self.code.width(), drives.len());
                return Err(Failure::new(format!("{code} needs {width} drives, and {given} are named")));
            }
            let mut held = String::new();
            for drive in &drives {
                if let Some(what) = holds(drive).await? {
                    held += &format!("\n  {}: {what}", drive.name);
                }
            }
            if !held.is_empty() {
                confirm(self.yes || self.force, &format!("What these drives hold will be lost:{held}"))?;
            }
            let id = format(&rt, &drives, &options).await?;
            if let Some(path) = &make {
                std::fs::write(path, text).map_err(|error| {
                    Failure::new(format!("the array is made, but not its file {}: {error}", path.display()))
                })?;
            }
            if self.json {
                let names: Vec<&str> = drives.iter().map(|drive| &*drive.name).collect();
                let (array, code) = (id.to_string(), self.code.to_string());
                say!("{}", json!({ "array": array, "code": code, "segment_bytes": length, "drives": names }));
            } else {
                say!("array {id}: {} drives, {}", drives.len(), self.code);
            }
            Ok(())
        })?
    }
}

/// What would be lost on a drive.
pub(super) async fn holds(drive: &ArrayDrive) -> Outcome<Option<String>> {
    match inventory::content(&drive.dev).await {
        Content::Nothing | Content::Unknown(_) => {}
        content => return Ok(Some(content.to_string())),
    }
    let geometry = drive.dev.geometry();
    let zones = drive.dev.report(ZoneId(0), geometry.zone_count).await?;
    let written =
        zones.iter().filter(|zone| zone.zone.0 >= geometry.conventional_zones).map(|zone| zone.written.bytes());
    let written: u64 = written.sum();
    Ok((written > 0).then(|| format!("{} that were written to it", ByteSize(written))))
}
