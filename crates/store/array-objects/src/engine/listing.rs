//! Listing keys.

use bytes::Bytes;
use shingle_buckets::{Met, Page, Start};
use shingle_store_api::{ListRequest, Listing, ObjectInfo, StoreResult};

use super::counting::PAGE;
use super::{Core, object_info};
use crate::errors::{from_array, malformed};
use crate::format::ObjectRecord;
use crate::names;

impl Core {
    /// Lists keys. The objects of a listing carry no part sizes.
    pub(super) async fn list_page(&self, bucket: &str, request: &ListRequest) -> StoreResult<Listing> {
        let mut listed = Page::new(request);
        let prefix = names::object(bucket, &request.prefix);
        let mut from = match listed.start() {
            Start::First => None,
            Start::After(key) => Some(names::object(bucket, key).into()),
            Start::Beyond(common) => Some(beyond(bucket, common)),
        };
        'pages: loop {
            // Attributes can be long: a page of them is not kept longer than it takes.
            let wanted = listed.room().saturating_add(1).min(PAGE);
            let page = self.store.list(&prefix, from.as_deref(), wanted).map_err(from_array)?;
            if page.is_empty() {
                return Ok(listed.done());
            }
            for object in page {
                let Some(key) = names::key_of(&object.name) else { continue };
                match listed.meet(key) {
                    Met::Full => return Ok(listed.done()),
                    Met::Common(common) => {
                        from = Some(beyond(bucket, common));
                        continue 'pages;
                    }
                    Met::Object => from = Some(object.name.clone()),
                }
                let record = ObjectRecord::decode(&object.attributes);
                let info = object_info(key, &object, record.map_err(|error| malformed(&object.name, error))?);
                listed.show(ObjectInfo { part_sizes: Vec::new(), ..info });
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
