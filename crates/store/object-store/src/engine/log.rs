//! Entries on their way to the log and the index.

use std::rc::Rc;

use shingle_buckets::Failed;

use crate::drives::Class;
use crate::engine::Core;
use crate::errors::invalid;
use crate::files::Log;
use crate::format::{Body, Entry, Sealed};
use crate::indexer::Command;

impl Core {
    /// Appends an entry without data, and brings it into the index.
    pub(crate) async fn log(self: &Rc<Self>, class: Class, version: u64, body: Body) -> Result<(), Failed> {
        self.log_all(class, vec![(version, body)]).await
    }

    /// As [`Core::log`], for entries that belong together.
    pub(crate) async fn log_all(self: &Rc<Self>, class: Class, entries: Vec<(u64, Body)>) -> Result<(), Failed> {
        let sealed = entries
            .into_iter()
            .map(|(version, body)| Sealed::new(Entry { version, body }, Vec::new()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Failed::before(invalid(error.to_string())))?;
        self.write(class, sealed).await
    }

    /// Appends entries and brings them into the index.
    ///
    /// # Errors
    /// Those of [`Core::append`]. Entries that are in the log and not in the index may be found later (OS-APP-3).
    pub(crate) async fn write(self: &Rc<Self>, class: Class, sealed: Vec<Sealed>) -> Result<(), Failed> {
        let appended = self.append(Log::Clients, class, &sealed).await?;
        let commands = sealed.into_iter().zip(appended.locations).map(|(sealed, location)| Command::Entry {
            version: sealed.entry.version,
            body: sealed.entry.body,
            location,
        });
        let indexed = self.submit_entries(commands.collect(), vec![appended.settle]).await;
        indexed.map(drop).map_err(Failed::in_doubt)
    }
}
