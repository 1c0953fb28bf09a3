//! `shingle array salvage`: restores objects of a server's array that lost their records.

use clap::Args;
use serde_json::json;
use shingle_array_objects::{Salvage as Salvaged, salvage};
use shingle_base::ByteSize;

use super::place::{Missing, Opened, with_array};
use super::telling::Change;
use super::words::shown;
use crate::failure::Outcome;
use crate::output::{Progress, counted};

/// Restores objects whose records are lost.
#[derive(Args)]
pub(crate) struct Salvage {
    /// Restore them; otherwise they are only listed, and nothing is changed.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    change: Change,
}

impl Salvage {
    pub(crate) fn run(self) -> Outcome {
        let (yes, json) = (self.yes, self.change.json);
        let work = |opened: Opened| async move {
            let mut line = Progress::new();
            let show = |found: &Salvaged| {
                let lost = counted(found.found.len() as u64, "object");
                line.show(&format!("{} looked at, {lost} without a record", puts(found.looked_at)));
            };
            let found = salvage(&opened.rt, opened.store, yes, show).await?;
            drop(line);
            tell(&found, yes, json);
            Ok(())
        };
        match yes {
            true => self.change.run(work),
            false => with_array(&self.change.place, Missing::Read, false, work),
        }
    }
}

fn tell(found: &Salvaged, yes: bool, json: bool) {
    if json {
        let object = |object: &shingle_array_objects::Salvaged| json!({ "bucket": object.bucket, "key": object.key, "bytes": object.bytes, "restored": object.restored });
        let objects: Vec<_> = found.found.iter().map(object).collect();
        say!("{}", json!({ "objects": objects, "looked_at": found.looked_at, "leftovers": found.leftovers }));
        return;
    }
    let did = if yes { "restored" } else { "can be restored" };
    for object in &found.found {
        let (bucket, key) = (shown(object.bucket.as_bytes()), shown(object.key.as_bytes()));
        say!("{did}: {bucket}/{key}, {}", ByteSize(object.bytes));
    }
    match (found.found.len(), yes) {
        (0, _) => say!("no object has lost its record; looked at: {}", puts(found.looked_at)),
        (1, false) => say!("1 object has lost its record; nothing was changed: --yes restores it"),
        (count, false) => say!("{count} objects have lost their records; nothing was changed: --yes restores them"),
        (count, true) => say!("restored in all: {count}"),
    }
    if found.leftovers > 0 {
        let of = "left over from writes or deletions that did not end; the server deletes what is left over";
        say!("{} {of}", puts(found.leftovers));
    }
}

/// `1 large object or part of an upload`. Small objects lie in their records, and are lost with them.
fn puts(count: u64) -> String {
    match count {
        1 => "1 large object or part of an upload".to_owned(),
        count => format!("{count} large objects or parts of uploads"),
    }
}
