//! Removing the older of two copies that a power cut left.

use shingle_store_api::{ListRequest, StoreResult};

use crate::site::{Shared, Spot, key_of};
use crate::store::Placement;

/// Keys looked at between two looks for other work.
const PAGE: usize = 256;

impl Placement {
    /// Goes through all objects that are not at their buckets' homes, and removes the hidden one of two copies. Returns
    /// the number of removals. Run it once after opening, beside everything else.
    ///
    /// # Errors
    /// The sites' errors. They change nothing: everyone sees the same as before.
    pub async fn tidy(&self) -> StoreResult<u64> {
        let mut removed = 0;
        for (bucket, spots) in self.shared.all()? {
            for guest in spots.iter().skip(1) {
                removed += self.shared.tidy_guest(&bucket, &spots, guest).await?;
            }
        }
        Ok(removed)
    }
}

impl Shared {
    async fn tidy_guest(&self, bucket: &str, spots: &[Spot], guest: &Spot) -> StoreResult<u64> {
        let (mut removed, mut after) = (0, None);
        loop {
            let request = ListRequest { after, limit: PAGE, ..ListRequest::default() };
            // The bucket may be deleted meanwhile.
            let page = crate::site::if_there(self.store(guest)?.list(&guest.bucket, request).await)?;
            let Some(page) = page else { return Ok(removed) };
            for object in page.objects {
                if self.found(spots, &object.key).await?.len() < 2 {
                    continue;
                }
                let _turn = self.turns.turn(&key_of(bucket, &object.key)).await;
                let mut found = self.found(spots, &object.key).await?;
                found.pop();
                let moves = self.moves.of(bucket);
                let _moving = moves.begin().await;
                for (spot, _) in found {
                    self.store(&spot)?.delete(&spot.bucket, &object.key).await?;
                    removed += 1;
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(removed);
            }
        }
    }
}
