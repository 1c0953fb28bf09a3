//! `shingle array rm|gc|snapshot`.

use std::time::Duration;

use clap::Args;
use serde_json::json;
use shingle_base::ByteSize;

use super::serving::Serving;
use super::telling::Change;
use super::words::{counted, shown, zone_sets};
use crate::failure::{Failure, Outcome};
use crate::output::Progress;

/// Time between two lines of progress.
const TICK: Duration = Duration::from_secs(1);

/// Deletes objects.
#[derive(Args)]
pub(crate) struct Rm {
    /// The objects' names.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    change: Change,
    #[command(flatten)]
    serving: Serving,
}

/// Wins back space.
#[derive(Args)]
pub(crate) struct Gc {
    #[command(flatten)]
    change: Change,
    /// Empty at most this many zone sets [default: all that are worth it].
    #[arg(long, value_name = "COUNT")]
    sets: Option<usize>,
}

/// Saves the index on the drives.
#[derive(Args)]
pub(crate) struct Snapshot {
    #[command(flatten)]
    change: Change,
}

impl Rm {
    pub(crate) fn run(self) -> Outcome {
        let json = self.change.json;
        let removed = self.change.run(|opened| async move {
            let (mut deleted, mut absent) = (Vec::new(), Vec::new());
            for name in self.names {
                let found = opened.store.delete(name.clone()).await?;
                if found { deleted.push(name) } else { absent.push(name) }
            }
            if json {
                say!("{}", json!({ "deleted": deleted, "absent": absent }));
            } else {
                deleted.iter().for_each(|name: &String| say!("deleted `{}`", shown(name.as_bytes())));
            }
            if absent.is_empty() {
                return Ok(());
            }
            let words: Vec<_> =
                absent.iter().map(|name| format!("there is no object `{}`", shown(name.as_bytes()))).collect();
            Err(Failure::new(words.join("\n")))
        });
        self.serving.instead(removed, "rm BUCKET/KEY", "rm s3://BUCKET/KEY")
    }
}

impl Gc {
    pub(crate) fn run(self) -> Outcome {
        let json = self.change.json;
        self.change.run(|opened| async move {
            let store = &opened.store;
            // A larger limit would let gc come back to sets that it wrote itself.
            let most = self.sets.unwrap_or(store.stats()?.sets.iter().sum());
            let mut progress = Progress::new();
            let mut cleaning = Box::pin(store.gc(most));
            let sets = loop {
                tokio::select! {
                    sets = &mut cleaning => break sets?,
                    () = opened.rt.sleep(TICK) => {
                        let stats = store.stats()?;
                        let emptied = zone_sets(stats.cleaned as usize);
                        progress.show(&format!("{emptied} emptied, {} moved", ByteSize(stats.moved)));
                    }
                }
            };
            drop(progress);
            let moved = store.stats()?.moved;
            if json {
                say!("{}", json!({ "sets": sets, "moved_bytes": moved }));
            } else {
                say!("{} emptied, {} moved", zone_sets(sets), ByteSize(moved));
            }
            Ok(())
        })
    }
}

impl Snapshot {
    pub(crate) fn run(self) -> Outcome {
        self.change.run(|opened| async move {
            opened.store.snapshot().await?;
            let objects = opened.store.stats()?.objects;
            if self.change.json {
                say!("{}", json!({ "objects": objects }));
            } else {
                let objects = counted(objects as usize, "object", "objects");
                say!("the index of {objects} is saved on the drives");
            }
            Ok(())
        })
    }
}
