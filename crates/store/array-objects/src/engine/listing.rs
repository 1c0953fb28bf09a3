//! Listing keys. Common prefixes are jumped over, not walked through.

use bytes::Bytes;
use shingle_store_api::{ListRequest, Listing, StoreResult};

use super::counting::PAGE;
use super::{Core, object_info};
use crate::errors::{from_array, malformed};
use crate::format::ObjectRecord;
use crate::names;

impl Core {
    /// Lists keys. The objects of a listing carry no part sizes.
    pub(crate) async fn list(&self, bucket: String, request: ListRequest) -> StoreResult<Listing> {
        self.require_bucket(&bucket)?;
        let mut listing = Listing::default();
        if request.limit == 0 {
            return Ok(listing);
        }
        let prefix = names::object(&bucket, &request.prefix);
        let mut from = request.after.as_deref().map(|after| match request.common_prefix(after) {
            // Whatever shares its common prefix is rolled into that, which is not after it.
            Some(common) => beyond(&bucket, common),
            None => names::object(&bucket, after).into(),
        });
        let mut last = None;
        'pages: loop {
            // Attributes can be long: a page of them is not kept longer than it takes.
            let left = request.limit - listing.objects.len() - listing.common_prefixes.len();
            let page =
                self.store.list(&prefix, from.as_deref(), left.saturating_add(1).min(PAGE)).map_err(from_array)?;
            if page.is_empty() {
                return Ok(listing);
            }
            for object in page {
                let Some(key) = names::key_of(&object.name) else { continue };
                if listing.objects.len() + listing.common_prefixes.len() == request.limit {
                    listing.next = last;
                    return Ok(listing);
                }
                from = Some(object.name.clone());
                if let Some(common) = request.common_prefix(key) {
                    last = Some(common.to_owned());
                    listing.common_prefixes.push(common.to_owned());
                    from = Some(beyond(&bucket, common));
                    continue 'pages;
                }
                let mut record =
                    ObjectRecord::decode(&object.attributes).map_err(|error| malformed(&object.name, error))?;
                let multipart = record.manifest.as_mut();
                // They say how large it is, which `object_info` needs.
                if let Some(manifest) = multipart {
                    manifest.multipart = false;
                }
                last = Some(key.to_owned());
                listing.objects.push(object_info(key, &object, record));
            }
            self.rt.yield_now().await;
        }
    }
}

/// A name behind all that begin with that of `common`: no UTF-8 has such a byte.
fn beyond(bucket: &str, common: &str) -> Bytes {
    let mut name = names::object(bucket, common);
    name.push(0xff);
    name.into()
}
