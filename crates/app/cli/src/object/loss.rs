//! `shingle object accept-loss`: giving up what the drives can no longer read.

use clap::Args;
use serde_json::json;
use shingle_server::{GivenUp, Offline, Unread};

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
            self.tell(&unread, &GivenUp::default());
            return Ok(());
        }
        if !self.directory.json {
            tell_places("cannot be read", &unread.places);
        }
        confirm(
            self.yes,
            "These places are given up for good. Objects and buckets that are recorded nowhere else are lost. A deletion or replacement that \
             is recorded nowhere else is undone: the former object is back. All else stays.",
        )?;
        let of = unread.clone();
        let run = |rt| async move {
            let (objects, given_up) = Offline::accept_loss(&rt, &config, &of).await?;
            objects.close().await;
            Ok::<_, Failure>(given_up)
        };
        let given_up = shingle_runtime::real::run(run)?.map_err(not_run)?;
        self.tell(&unread, &given_up);
        let all = given_up.left.is_empty() && given_up.emptied.kept.is_empty();
        if all { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
    }

    fn tell(&self, unread: &Unread, given_up: &GivenUp) {
        let GivenUp { places, emptied, left } = given_up;
        if self.directory.json {
            say!(
                "{}",
                json!({ "given_up": places, "not_given_up": left, "emptied_files": emptied.files,
                        "kept_files": emptied.kept, "missing_drives": unread.missing })
            );
            return;
        }
        if places.is_empty() && left.is_empty() {
            say!("nothing to give up: the drives that are there gave all that they hold");
        } else {
            say!("{} given up, {} rewritten", counted(places.len() as u64, "place"), counted(emptied.files, "file"));
        }
        tell_places("not given up", left);
        if !left.is_empty() {
            say!(
                "a place that was not shown before cannot be read now; repeat this command to see it and to give it up, too"
            );
        }
        for file in &emptied.kept {
            say!(
                "file {file} stays: it has objects that cannot be read. `shingle object check` names them: delete them, or store them \
                 again, then repeat this command"
            );
        }
        for drive in &unread.missing {
            say!("{drive} is missing: until it is back, space of deleted objects is kept for it");
        }
    }
}

fn tell_places(what: &str, places: &[String]) {
    places.iter().take(PLACES_MAX).for_each(|place| say!("{what}: {place}"));
    let more = places.len().saturating_sub(PLACES_MAX);
    if more > 0 {
        say!("{what}: {}", counted(more as u64, "more place"));
    }
}
