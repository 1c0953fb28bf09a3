//! Listing keys.

use shingle_buckets::{Met, Page, Start};
use shingle_store_api::{ListRequest, Listing, StoreResult};

use super::Core;
use super::counting::PAGE;
use crate::errors::{corrupt, malformed};
use crate::format::Record;
use crate::ids;

impl Core {
    /// Lists keys. The objects of a listing carry no part sizes.
    pub(super) async fn list_page(&self, bucket: &str, request: &ListRequest) -> StoreResult<Listing> {
        let index = ids::names(self.bucket_number(bucket)?);
        let mut listed = Page::new(request);
        let from = match listed.start() {
            Start::First => Vec::new(),
            Start::After(key) => behind(key),
            Start::Beyond(common) => beyond(common),
        };
        let mut from = from.max(request.prefix.as_bytes().to_vec());
        'pages: loop {
            // Attributes can be long: a page of them is not kept longer than it takes.
            let wanted = listed.room().saturating_add(1).min(PAGE);
            let page = self.index_page(bucket, &index, &from, wanted).await?;
            let more = page.len() == wanted;
            for (name, value) in page {
                if !name.starts_with(request.prefix.as_bytes()) {
                    return Ok(listed.done());
                }
                let key = std::str::from_utf8(&name).map_err(|_| corrupt("the bucket has a key that is no text"))?;
                match listed.meet(key) {
                    Met::Full => return Ok(listed.done()),
                    Met::Common(common) => {
                        from = beyond(common);
                        continue 'pages;
                    }
                    Met::Object => from = behind(key),
                }
                let record = Record::decode_object(&value).map_err(|error| malformed(&name, error))?;
                listed.show(record.attributes.info(key, record.version, record.size, Vec::new()));
            }
            if !more {
                return Ok(listed.done());
            }
            self.rt.yield_now().await;
        }
    }
}

/// The first name behind a key.
fn behind(key: &str) -> Vec<u8> {
    [key.as_bytes(), b"\0"].concat()
}

/// A name behind all that begin with `common`: no UTF-8 has such a byte.
fn beyond(common: &str) -> Vec<u8> {
    [common.as_bytes(), b"\xff"].concat()
}
