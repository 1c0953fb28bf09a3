//! Places that the drives of an object store did not give when it was opened, and giving them up.

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
}

impl Offline {
    /// Places and drives that the opening could not see. Empty if it saw all.
    ///
    /// # Errors
    /// `Config` if there are arrays only.
    pub fn unread(&self) -> Result<Unread> {
        let report = self.report()?;
        let hiding = self.drives().iter().filter(|drive| drive.hides);
        let of_drive = |drive: &crate::engines::drive::Drive| {
            let path = drive.path.display().to_string();
            drive.damage.iter().map(|damage| format!("{path}: {damage}")).collect::<Vec<_>>()
        };
        let mut places: Vec<String> = hiding.flat_map(of_drive).collect();
        places.extend(report.damage.iter().filter(|damage| damage.again).map(ToString::to_string));
        Ok(Unread { places, missing: report.missing_drives.iter().map(ToString::to_string).collect() })
    }

    /// Opens the objects, and gives up what the drives that belong to no array do not give: it is lost from then on, and no later opening
    /// looks for it (CS-REC-9, OS-REC-5). A power cut leaves it accepted or not; then it can be done again.
    ///
    /// # Errors
    /// As [`Offline::open`]; `Store` if there is no room for copies, or a drive fails.
    pub async fn accept_loss(rt: &Runtime, config: &Config) -> Result<(Self, Emptied)> {
        let objects = Self::open_for(rt, config, Purpose::AcceptLoss).await?;
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
