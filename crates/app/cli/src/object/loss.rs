//! `shingle object accept-loss`: giving up what the drives can no longer read.

use clap::Args;
use serde_json::json;
use shingle_object_store::Emptied;
use shingle_server::{Offline, Unread};

use super::directory::{Directory, not_run, with_objects};
use crate::confirm::confirm;
use crate::failure::{Failure, Outcome, status};
use crate::output::counted;

/// Lines of places that a person is shown.
const PLACES_MAX: usize = 20;

#[derive(Args)]
pub(crate) struct AcceptLoss {
    #[command(flatten)]
    directory: Directory,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl AcceptLoss {
    pub(super) fn run(self) -> Outcome {
        let config = self.directory.configured()?;
        let unread = with_objects(&self.directory, None, |objects| async {
            let unread = objects.unread()?;
            Ok((objects, unread))
        })?;
        if unread.places.is_empty() {
            self.tell(&unread, &Emptied::default());
            return Ok(());
        }
        if !self.directory.json {
            unread.places.iter().take(PLACES_MAX).for_each(|place| say!("cannot be read: {place}"));
            let more = unread.places.len().saturating_sub(PLACES_MAX);
            if more > 0 {
                say!("and {}", counted(more as u64, "more place"));
            }
        }
        confirm(
            self.yes,
            "What these places hold is given up for good. Objects and buckets that only they tell of are lost; one that was deleted or \
             replaced there may be back as it was before. All else stays.",
        )?;
        let of = unread.clone();
        let run = |rt| async move {
            let (objects, emptied) = Offline::accept_loss(&rt, &config, &of).await?;
            objects.close().await;
            Ok::<_, Failure>(emptied)
        };
        let emptied = shingle_runtime::real::run(run)?.map_err(not_run)?;
        self.tell(&unread, &emptied);
        if emptied.kept.is_empty() { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
    }

    fn tell(&self, unread: &Unread, emptied: &Emptied) {
        if self.directory.json {
            say!(
                "{}",
                json!({ "given_up": unread.places, "emptied_files": emptied.files, "kept_files": emptied.kept,
                        "missing_drives": unread.missing })
            );
            return;
        }
        match unread.places.len() {
            0 => say!("nothing to give up: the drives that are there gave all that they hold"),
            places => {
                say!("{} given up, {} rewritten", counted(places as u64, "place"), counted(emptied.files, "file"))
            }
        }
        for file in &emptied.kept {
            say!(
                "file {file} stays: it has objects that cannot be read. `shingle object check` names them: delete them, or store them \
                 again, then repeat this command"
            );
        }
        for store in &unread.missing {
            say!("the drive with store {store} is missing: until it is back, space of deleted objects is kept for it");
        }
    }
}
