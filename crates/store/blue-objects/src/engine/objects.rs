//! Putting and deleting objects.

use std::rc::Rc;

use shingle_buckets::Attributes;
use shingle_store_api::{ObjectInfo, StoreResult};

use super::streams::Written;
use super::{Core, counted_name};
use crate::errors::malformed;
use crate::format::{Held, Record};
use crate::ids;

impl Core {
    /// Makes what a writer has written the object.
    pub(super) async fn put_object(
        self: &Rc<Self>,
        bucket: &str,
        key: &str,
        attributes: Attributes,
        written: Written,
    ) -> StoreResult<ObjectInfo> {
        let before = self.find(bucket, key).await?;
        let found = self.found(before.as_ref().and_then(|before| before.held)).await;
        let mut change = self.change();
        let Written { open, pieces, _memory } = written;
        let (held, size) = self.add_written(&mut change.transaction, open.as_ref(), pieces).await?;
        let record = Record { attributes, version: self.fresh()?, size, held };
        let index = ids::names(self.bucket_number(bucket)?);
        change.transaction.omap_set(&index, key.as_bytes(), record.encode_object());
        change.release(found);
        let counted = self.tally.begin(counted_name(bucket, key), before.map(|before| before.size));
        change.submit().await?;
        counted.end(Some(size));
        if let Some(open) = &open {
            self.writers.remove(open.number);
        }
        Ok(record.attributes.info(key, record.version, size, Vec::new()))
    }

    /// Deletes an object. `false` if there was none.
    pub(super) async fn remove_object(self: &Rc<Self>, bucket: &str, key: &str) -> StoreResult<bool> {
        let index = ids::names(self.bucket_number(bucket)?);
        let Some(value) = self.index_value(bucket, &index, key.as_bytes()).await? else { return Ok(false) };
        let record = Record::decode_object(&value);
        if let Err(error) = &record {
            // It can be deleted all the same; a check finds its bytes.
            let error = malformed(key.as_bytes(), *error);
            tracing::warn!(%error, "an object is deleted whose record is spoilt");
        }
        let record = record.ok();
        let held: Option<Held> = record.as_ref().and_then(|record| record.held);
        let found = self.found(held).await;
        let mut change = self.change();
        change.transaction.omap_remove(&index, key.as_bytes()).with_reserve().may_pass();
        change.release(found);
        let counted = self.tally.begin(counted_name(bucket, key), Some(record.map_or(0, |record| record.size)));
        change.submit().await?;
        counted.end(None);
        Ok(true)
    }
}
