//! Giving lost records back by hand, while no server has the array.
//!
//! A server does it by itself when it starts, and deletes leftovers on the way (`orphans`). Here somebody may look first: what would
//! come back, which may be something that was being deleted when the records were lost.

use shingle_array_store::{ArrayStore, Version};
use shingle_buckets::Names;
use shingle_runtime::Runtime;
use shingle_store_api::StoreResult;

use super::orphans::{Lost, Seen};
use super::run::{load_buckets, refuse_strangers};
use super::{Core, fresh_version};
use crate::options::Options;
use crate::places::Places;

/// Outcome of a look for objects that lost their records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvage {
    /// Blobs that were looked at: the bytes of large objects, and parts of uploads.
    pub looked_at: u64,
    /// Of them, those that nobody needs: leftovers of writes that never ended, and of deletions. The server deletes them.
    pub leftovers: u64,
    /// Objects whose bytes are there and whose records are not.
    pub found: Vec<Salvaged>,
}

/// An object that lost its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The bucket it was in.
    pub bucket: String,
    /// Its key.
    pub key: String,
    /// Its bytes, as far as they are there.
    pub bytes: u64,
    /// It has its record again.
    pub restored: bool,
}

/// Looks for objects of an array that lost their records with what an opening of it lost, and gives them these again if they are to be
/// `restored`. Else nothing is written, and the array may be open for reading only. `progress` is told now and then.
///
/// **Durability:** an object is there for good once it is told as restored.
///
/// # Errors
/// `Invalid` if the array holds objects that were put there otherwise; `Corrupt`, `Device`, `NoSpace`, `Unavailable`.
pub async fn salvage(
    rt: &Runtime,
    store: ArrayStore,
    restored: bool,
    mut progress: impl FnMut(&Salvage),
) -> StoreResult<Salvage> {
    refuse_strangers(&store)?;
    let buckets = load_buckets(rt, &store).await?;
    let opened = if restored { fresh_version(&store)? } else { Version(u64::MAX) };
    let options = Options::default();
    let places = Places::new(&options);
    let core = Core::new(rt.clone(), store, options, Names::new(buckets), opened, places);
    let (mut lost, mut report) = (Lost::new(), Salvage::default());
    let look = core.look_for_orphans(&mut lost, |seen| match seen {
        Seen::Leftover(_) => report.leftovers += 1,
        Seen::Looked(blobs) => {
            report.looked_at += blobs as u64;
            progress(&report);
        }
    });
    look.await?;
    for ((bucket, key), owners) in lost {
        let bytes = match restored {
            true => core.restore(&bucket, &key, owners).await?,
            false => core.restorable(&bucket, &key, owners)?,
        };
        if bytes > 0 {
            report.found.push(Salvaged { bucket, key, bytes, restored });
            progress(&report);
        }
    }
    Ok(report)
}
