//! Places that the drives of an object store did not give when it was opened, and giving them up.

use shingle_object_store::Emptied;
use shingle_runtime::Runtime;

use crate::config::Config;
use crate::engines::opening::{Purpose, Shown};
use crate::error::{Error, ErrorKind, Result};
use crate::offline::opened::Offline;

/// Places and drives that an opening could not see, of the drives that belong to no array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Places that a drive did not give, in words.
    pub places: Vec<String>,
    /// Drives that are away, in words.
    pub missing: Vec<String>,
    shown: Shown,
}

/// Result of accepting a loss.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Places that were given up, in words.
    pub places: Vec<String>,
    /// The fate of their files.
    pub emptied: Emptied,
    /// Places that are left: they could be read when the others were shown, or lie on a drive of which such a place does.
    pub left: Vec<String>,
}

impl Offline {
    /// Places and drives that the opening could not see. Empty if it saw all.
    ///
    /// # Errors
    /// `Config` if there are arrays only.
    pub fn unread(&self) -> Result<Unread> {
        let report = self.report()?;
        let mut unread = Unread { missing: self.missing()?, ..Unread::default() };
        for drive in self.drives() {
            let mut words = Vec::new();
            if drive.report.hidden {
                words.extend(drive.report.damage.iter().map(|damage| format!("{}: {damage}", drive.name)));
            }
            let of_drive = report.damage.iter().filter(|damage| damage.again && damage.store == drive.store);
            let (places, of_files): (Vec<_>, Vec<_>) =
                of_drive.map(|damage| (damage.place, damage.to_string())).unzip();
            words.extend(of_files);
            if !words.is_empty() {
                unread.places.extend(words);
                unread.shown.places.insert(drive.store, places);
                unread.shown.blocks.insert(drive.path.clone(), drive.report.unread.clone());
            }
        }
        Ok(unread)
    }

    /// Opens the objects, and gives up what `unread` shows and the drives do not give: it is lost from then on, and no later opening looks for it
    /// (CS-REC-9, OS-REC-5). A drive with other blocks that cannot be read keeps all that it has, and so does a file with other such places. A
    /// power cut leaves it accepted or not; then it can be done again.
    ///
    /// # Errors
    /// As [`Offline::open`]; `Store` if there is no room for copies, or a drive fails.
    pub async fn accept_loss(rt: &Runtime, config: &Config, unread: &Unread) -> Result<(Self, GivenUp)> {
        let objects = Self::open_for(rt, config, &Purpose::AcceptLoss(unread.shown.clone())).await?;
        match objects.give_up().await {
            Ok(given_up) => Ok((objects, given_up)),
            Err(error) => {
                objects.close().await;
                Err(error)
            }
        }
    }

    /// Empties the files of which something was given up.
    async fn give_up(&self) -> Result<GivenUp> {
        let report = self.report()?;
        let of_zones = self.drives().iter().filter(|drive| drive.report.accepted);
        let of_zones =
            of_zones.flat_map(|drive| drive.report.damage.iter().map(|damage| format!("{}: {damage}", drive.name)));
        let places = of_zones.chain(report.given_up.iter().map(ToString::to_string)).collect();
        let failed = |error: shingle_store_api::StoreError| Error::new(ErrorKind::Store, error.message);
        let emptied = match self.client() {
            Some(client) => client.empty_given_up().await.map_err(failed)?,
            None => Emptied::default(),
        };
        Ok(GivenUp { places, emptied, left: self.unread()?.places })
    }
}
