//! `shingle array put|get`: objects of any size in bounded memory.

use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use serde_json::json;
use shingle_array_store::PutHints;

use super::place::{ArrayArgs, Missing, with_array};
use super::serving::Serving;
use super::words::shown;
use crate::failure::Outcome;
use crate::output::{Progress, size};
use crate::transfer::{Input, Output, Range};

/// Stores an object.
#[derive(Args)]
pub(crate) struct Put {
    /// The object's name; an object of that name is replaced when all of the new one is safe.
    #[arg(value_name = "NAME")]
    name: String,
    /// The file to store, or `-` [default: standard input].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    place: ArrayArgs,
    #[command(flatten)]
    serving: Serving,
    /// Go on without missing drives, from now on.
    #[arg(long)]
    degraded: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Reads an object.
#[derive(Args)]
pub(crate) struct Get {
    /// The object's name.
    #[arg(value_name = "NAME")]
    name: String,
    /// The file to write, or `-` [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only these bytes, counted as in HTTP: 0-99 (the first 100), 100- (all behind), -100 (the last 100) [default:
    /// all].
    #[arg(long, value_name = "FIRST-LAST", allow_hyphen_values = true)]
    range: Option<Range>,
    /// Write binary data to the terminal too.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    place: ArrayArgs,
    #[command(flatten)]
    serving: Serving,
}

impl Put {
    pub(crate) fn run(self) -> Outcome {
        let mut input = Input::open(self.file)?;
        let name = self.name;
        let stored = with_array(&self.place, Missing::told(self.degraded), true, |opened| async move {
            let hints = PutHints { length: input.size(), group: None };
            let mut put = opened.store.begin_put_with(name.clone(), hints)?;
            let mut progress = Progress::new();
            let label = shown(name.as_bytes());
            loop {
                let piece = input.next(&opened.rt).await?;
                if piece.is_empty() {
                    break;
                }
                put.write(piece).await?;
                input.show(&label, &mut progress);
            }
            let stored = put.finish(Bytes::new()).await?;
            drop(progress);
            if self.json {
                say!("{}", json!({ "name": name, "size_bytes": stored.size, "version": stored.version.0 }));
            } else {
                say!("stored `{label}`: {}", size(stored.size));
            }
            Ok(())
        });
        self.serving.instead(stored, "put BUCKET/KEY FILE", "cp FILE s3://BUCKET/KEY")
    }
}

impl Get {
    pub(crate) fn run(self) -> Outcome {
        let (name, range) = (self.name, self.range);
        let read = with_array(&self.place, Missing::Read, false, |opened| async move {
            let reader = opened.store.open_object(name.clone())?;
            let (label, size) = (shown(name.as_bytes()), reader.object().size);
            let (begin, end) = Range::of(range, &label, size)?;
            // Only now: a wrong name costs no file.
            let output = Output::begin(self.output, &label, self.force)?;
            output.copy((begin, end), async |at, length| reader.read(at, length).await).await
        });
        self.serving.instead(read, "get BUCKET/KEY -o FILE", "cp s3://BUCKET/KEY FILE")
    }
}
