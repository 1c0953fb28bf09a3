//! Commits: the object appears on its site, and goes from all others. (PL-PLC-1, PL-PLC-3)

use std::sync::Arc;

use bytes::Bytes;
use shingle_store_api::{Commit, Condition, ObjectInfo, ObjectReader, ObjectWriter, StoreFuture, StoreResult};

use crate::site::{Shared, Spot, key_of};
use crate::whole::to_the_end;

/// An object being written to one of the sites.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) spot: Spot,
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) inner: Box<dyn ObjectWriter>,
}

impl ObjectWriter for Writer {
    fn expect(&mut self, length: u64) {
        self.inner.expect(length);
    }

    fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()> {
        self.inner.write(data)
    }

    fn commit(self: Box<Self>, commit: Commit) -> StoreFuture<'static, ObjectInfo> {
        Box::pin(to_the_end(async move {
            let Self { shared, spot, bucket, key, inner } = *self;
            shared.commit(&spot, &bucket, &key, commit, |commit| inner.commit(commit)).await
        }))
    }
}

/// An object open on one of the sites.
pub(crate) struct Reader {
    pub(crate) info: ObjectInfo,
    pub(crate) inner: Box<dyn ObjectReader>,
}

impl ObjectReader for Reader {
    fn info(&self) -> &ObjectInfo {
        &self.info
    }

    fn read(&self, offset: u64, length: u64) -> StoreFuture<'_, Bytes> {
        self.inner.read(offset, length)
    }
}

impl Shared {
    /// Commits with `make` on `spot`, and removes `key` from all other spots.
    pub(crate) async fn commit(
        &self,
        spot: &Spot,
        bucket: &str,
        key: &str,
        mut commit: Commit,
        make: impl FnOnce(Commit) -> StoreFuture<'static, ObjectInfo>,
    ) -> StoreResult<ObjectInfo> {
        let _turn = self.turns.turn(&key_of(bucket, key)).await;
        let mut spots = self.spots(bucket)?;
        if !spots.contains(spot) || self.is_to_be_made(spot) {
            // A caller tried to delete the bucket meanwhile: its guest was empty and is gone.
            self.spot_for(bucket, Some(spot.site)).await?;
            spots = self.spots(bucket)?;
        }
        let mut others = Vec::new();
        if spots.len() > 1 {
            let found = self.found(&spots, key).await?;
            // The site checks the condition itself if it has the object that everyone sees.
            if let Some((_, info)) = found.last().filter(|(seen, _)| seen.site != spot.site) {
                commit.condition.check(Some(&info.etag))?;
                commit.condition = Condition::default();
            }
            others.extend(found.into_iter().map(|(spot, _)| spot).filter(|other| other.site != spot.site));
        }
        let mut info = make(commit).await?;
        if !others.is_empty() {
            let moves = self.moves.of(bucket);
            let _moving = moves.begin().await;
            for other in others {
                self.store(&other)?.delete(&other.bucket, key).await?;
            }
        }
        info.class = self.class(spot);
        Ok(info)
    }
}
