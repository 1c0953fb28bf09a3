//! `shingle array format`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use shingle_array_store::{FormatOptions, format};
use shingle_base::ByteSize;
use shingle_erasure::Code;

use super::place::{ArrayArgs, ArrayFile};
use super::taking::{Consent, take_drives};
use crate::failure::{Failure, Outcome};

/// Makes an empty array.
#[derive(Args)]
pub(crate) struct Format {
    /// The drives: zoned block devices, files of emulated ones, or names such as serial:ZL2XXXXX [default: those in the
    /// array's file].
    #[arg(value_name = "DRIVE")]
    on: Vec<PathBuf>,
    #[command(flatten)]
    place: ArrayArgs,
    /// Data and parity fragments: 5+1 writes 5 fragments of data and 1 of parity, each to another drive, so that any 1
    /// drive may be lost.
    #[arg(long, value_name = "DATA+PARITY", value_parser = code)]
    code: Code,
    /// Large objects are cut into pieces of this size.
    #[arg(long, value_name = "SIZE", default_value = "20MiB")]
    segment: ByteSize,
    #[command(flatten)]
    consent: Consent,
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
        // A new file is made from the named drives.
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
        if drives.len() < self.code.width() {
            let (code, width, given) = (self.code, self.code.width(), drives.len());
            return Err(Failure::new(format!("{code} needs {width} drives, and {given} are named")));
        }
        let (index, buffer) = (self.place.index.clone(), self.place.buffer_files()?);
        let text = ArrayFile { drives: drives.clone(), index, buffer, buffer_time_s: None }.text()?;
        let length = u32::try_from(self.segment.0).map_err(|_| Failure::new("a segment has at most 1 GiB"))?;
        let options = FormatOptions { segment_length: length, ..FormatOptions::new(self.code) };
        shingle_runtime::real::run(|rt| async move {
            let drives = take_drives(&drives, &rt, self.consent).await?;
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
