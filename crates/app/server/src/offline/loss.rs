//! Places that the drives of an object store did not give when it was opened, and giving them up.

use std::collections::BTreeSet;
use std::path::PathBuf;

use shingle_base::StoreId;
use shingle_object_store::Emptied;
use shingle_runtime::Runtime;

use crate::config::Config;
use crate::engines::opening::Purpose;
use crate::error::{Error, ErrorKind, Result};
use crate::offline::opened::Offline;

/// Places and drives that an opening could not see, of the drives that belong to no array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Places that a drive did not give, in words.
    pub places: Vec<String>,
    /// Drives that are away, by the ids of their stores.
    pub missing: Vec<String>,
    /// The drives of the places: their stores, and their paths.
    drives: BTreeSet<StoreId>,
    paths: BTreeSet<PathBuf>,
}

impl Offline {
    /// Places and drives that the opening could not see. Empty if it saw all.
    ///
    /// # Errors
    /// `Config` if there are arrays only.
    pub fn unread(&self) -> Result<Unread> {
        let report = self.report()?;
        let missing = report.missing_drives.iter().map(ToString::to_string).collect();
        let mut unread = Unread { missing, ..Unread::default() };
        for drive in self.drives() {
            let mut places = Vec::new();
            if drive.hides {
                places.extend(drive.damage.iter().map(|damage| format!("{}: {damage}", drive.path.display())));
            }
            let of_drive = report.damage.iter().filter(|damage| damage.again && damage.store == drive.store);
            places.extend(of_drive.map(ToString::to_string));
            if !places.is_empty() {
                unread.places.extend(places);
                unread.drives.insert(drive.store);
                unread.paths.insert(drive.path.clone());
            }
        }
        Ok(unread)
    }

    /// Opens the objects, and gives up what the drives of `unread` do not give: it is lost from then on, and no later opening looks for it
    /// (CS-REC-9, OS-REC-5). Other drives that fail meanwhile keep what they have. A power cut leaves it accepted or not; then it can be
    /// done again.
    ///
    /// # Errors
    /// As [`Offline::open`]; `Store` if there is no room for copies, or a drive fails.
    pub async fn accept_loss(rt: &Runtime, config: &Config, unread: &Unread) -> Result<(Self, Emptied)> {
        let purpose = Purpose::AcceptLoss { drives: unread.drives.clone(), paths: unread.paths.clone() };
        let objects = Self::open_for(rt, config, &purpose).await?;
        let failed = |error: shingle_store_api::StoreError| Error::new(ErrorKind::Store, error.message);
        let emptied = match objects.client() {
            Some(client) => client.empty_given_up().await.map_err(failed),
            None => objects.report().map(|_| Emptied::default()),
        };
        match emptied {
            Ok(emptied) => Ok((objects, emptied)),
            Err(error) => {
                objects.close().await;
                Err(error)
            }
        }
    }
}
