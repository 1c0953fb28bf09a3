//! `shingle volume ls`: the volumes on drives.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use shingle_base::ByteSize;
use shingle_runtime::Runtime;
use shingle_server::inventory::{self, Content, Found};
use shingle_server::utc;
use shingle_zoned_linux::System;

use crate::failure::Outcome;
use crate::output::print_columns;

/// Lists volumes.
#[derive(Args)]
pub(crate) struct Ls {
    /// The drives to look at: nodes, or files of emulated ones [default: all drives of the machine].
    #[arg(value_name = "DRIVE")]
    drives: Vec<PathBuf>,
    /// Print one JSON object, all sizes in bytes.
    #[arg(long)]
    json: bool,
}

/// A volume that was found.
struct Row {
    drive: String,
    store: String,
    size_bytes: u64,
    sector_bytes: u64,
    made_s: u64,
}

impl Ls {
    pub(crate) async fn run(self, rt: Runtime) -> Outcome {
        let system = System::host();
        let mut found = Vec::new();
        if self.drives.is_empty() {
            found = inventory::block_devices(&rt, &system, true).await?;
        }
        for drive in &self.drives {
            found.extend(inventory::with_partitions(&rt, inventory::at(&rt, &system, drive).await?).await);
        }
        let rows: Vec<Row> = found.iter().filter_map(Row::of).collect();
        if self.json {
            say!("{}", json!({ "volumes": rows.iter().map(Row::json).collect::<Vec<_>>() }));
            return Ok(());
        }
        if rows.is_empty() {
            note!("no drive that was looked at holds a volume; `shingle drive ls` lists drives");
            return Ok(());
        }
        let head = ["DRIVE", "VOLUME", "SIZE", "SECTOR", "MADE"];
        let mut lines = vec![head.map(str::to_owned)];
        lines.extend(rows.into_iter().map(Row::columns));
        print_columns(&lines, 2..4)
    }
}

impl Row {
    fn of(found: &Found) -> Option<Self> {
        let Content::Volume { store, formatted, size_bytes, sector_bytes } = &found.content else { return None };
        Some(Self {
            drive: found.path.display().to_string(),
            store: store.to_string(),
            size_bytes: *size_bytes,
            sector_bytes: *sector_bytes,
            made_s: formatted.nanos / 1_000_000_000,
        })
    }

    fn columns(self) -> [String; 5] {
        [
            self.drive,
            self.store,
            ByteSize(self.size_bytes).to_string(),
            ByteSize(self.sector_bytes).to_string(),
            utc(self.made_s),
        ]
    }

    fn json(&self) -> Value {
        json!({ "drive": self.drive, "volume": self.store, "size_bytes": self.size_bytes,
                "sector_bytes": self.sector_bytes, "made": utc(self.made_s) })
    }
}
