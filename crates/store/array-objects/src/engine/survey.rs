//! Looking at the objects of an array that no server has open. Nothing is written; the array may be open for reading only.

use std::rc::Rc;

use shingle_array_store::{ArrayStore, Version};
use shingle_buckets::Names;
use shingle_runtime::Runtime;
use shingle_store_api::{ListRequest, ObjectInfo, StoreResult};

use super::Core;
use super::run::{load_buckets, refuse_strangers};
use crate::options::Options;
use crate::places::Places;

/// Objects of a page.
const PAGE: usize = 1000;

/// Tells every object whose key begins with `prefix`: its bucket, and what is known of it.
///
/// # Errors
/// `Invalid` if the array holds objects that were put there otherwise; `Corrupt`, `Device`, `Unavailable`.
pub async fn survey(
    rt: &Runtime,
    store: ArrayStore,
    prefix: &str,
    mut found: impl FnMut(&str, &ObjectInfo),
) -> StoreResult<()> {
    refuse_strangers(&store)?;
    let buckets = load_buckets(rt, &store).await?;
    let names: Vec<String> = buckets.keys().cloned().collect();
    let options = Options::default();
    let places = Places::new(&options);
    let core: Rc<Core> = Core::new(rt.clone(), store, options, Names::new(buckets), Version(u64::MAX), places);
    for bucket in names {
        let mut after = None;
        loop {
            let request = ListRequest { prefix: prefix.to_owned(), delimiter: None, after, limit: PAGE };
            let page = shingle_buckets::list(core.clone(), bucket.clone(), request).await?;
            page.objects.iter().for_each(|object| found(&bucket, object));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(())
}
