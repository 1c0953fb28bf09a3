//! Listing keys.

use shingle_buckets::{Met, Page, Start};
use shingle_store_api::{ListRequest, Listing};

use crate::index::{IndexResult, Space, Step, View, successor};
use crate::indexer::spoilt;
use crate::keys;
use crate::records::{Item, ObjectRecord};

/// Lists keys of a bucket in a view of the index. The objects of a listing carry no part sizes.
pub(crate) fn list(view: &(impl View + ?Sized), bucket: &str, request: &ListRequest) -> IndexResult<Listing> {
    let mut page = Page::new(request);
    let prefix = keys::object(bucket, &request.prefix);
    let Some(from) = start(bucket, &prefix, page.start()) else { return Ok(page.done()) };
    let mut bad = None;
    view.scan(Space::Objects, &from, &mut |id, value| {
        let Some((_, key)) = keys::split_object(id).filter(|_| id.starts_with(&prefix)) else { return Step::Stop };
        match page.meet(key) {
            Met::Full => return Step::Stop,
            Met::Common(common) => return successor(&keys::object(bucket, common)).map_or(Step::Stop, Step::Seek),
            Met::Object => {}
        }
        let decoded = Item::decode(&value).and_then(|item| Ok((item.version, ObjectRecord::decode(&item.payload)?)));
        match decoded {
            Ok((version, record)) => page.show(record.attributes.info(key, version, record.size, Vec::new())),
            Err(error) => bad = Some(error),
        }
        if bad.is_none() { Step::Next } else { Step::Stop }
    })?;
    bad.map_or(Ok(page.done()), |error| Err(spoilt(error)))
}

/// The first index key that could be listed; none if there is none.
fn start(bucket: &str, first: &[u8], start: Start<'_>) -> Option<Vec<u8>> {
    let next = match start {
        Start::First => return Some(first.to_vec()),
        Start::Beyond(common) => successor(&keys::object(bucket, common))?,
        Start::After(key) => [keys::object(bucket, key).as_slice(), &[0]].concat(),
    };
    Some(next.max(first.to_vec()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeSet;

    use bytes::Bytes;
    use shingle_buckets::Attributes;

    use super::*;
    use crate::index::{Batch, Index, MemoryIndex};
    use crate::records::{Ghosts, Location};

    fn index_of(keys: &BTreeSet<String>) -> MemoryIndex {
        let index = MemoryIndex::new();
        let record = ObjectRecord { size: 1, large: false, attributes: Attributes::default() };
        let location = Location { file: 1, ordinal: 0, offset: 0, head: 0, data: 0 };
        let item = Item { version: 1, location, ghosts: Ghosts::default(), payload: record.encode() };
        let put = |bucket: &str, key: &str| (Space::Objects, keys::object(bucket, key), Some(item.encode()));
        let mut changes: Vec<_> = keys.iter().map(|key| put("b", key)).collect();
        changes.extend([put("a", "zzz"), put("b\u{1}", "a"), put("c", "")]);
        index.apply(Batch { changes }).unwrap();
        index
    }

    /// The listing, by looking at every key.
    fn expected(keys: &BTreeSet<String>, request: &ListRequest) -> Vec<String> {
        let mut found = BTreeSet::new();
        for key in keys.iter().filter(|key| key.starts_with(&request.prefix)) {
            let shown = request.common_prefix(key).unwrap_or(key);
            if request.after.as_deref().is_none_or(|after| shown > after) {
                found.insert(shown.to_owned());
            }
        }
        found.into_iter().collect()
    }

    fn shown(listing: &Listing) -> Vec<String> {
        let mut all: Vec<_> = listing.objects.iter().map(|object| object.key.clone()).collect();
        all.extend(listing.common_prefixes.iter().cloned());
        all.sort();
        all
    }

    #[test]
    fn paged_listings_show_what_a_look_at_every_key_shows() {
        let texts = ["", "a", "a/", "a/b", "a/b/c", "a/c", "a//", "b/a", "ab/c", "é/ü", "é", "/x", "zz", "z\u{10ffff}"];
        let keys: BTreeSet<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let index = index_of(&keys);
        let mut cases = 0;
        for prefix in ["", "a", "a/", "a/b", "é", "x"] {
            for delimiter in [None, Some(""), Some("/"), Some("b"), Some("//"), Some("\u{10ffff}")] {
                for after in [None, Some(""), Some("a"), Some("a/"), Some("a/b"), Some("a/b/"), Some("zz"), Some("é")]
                {
                    for limit in 1..=texts.len() + 1 {
                        let owned = |text: Option<&str>| text.map(str::to_owned);
                        let mut request = ListRequest {
                            prefix: prefix.to_owned(),
                            delimiter: owned(delimiter),
                            after: owned(after),
                            limit,
                        };
                        let want = expected(&keys, &request);
                        let mut found = Vec::new();
                        loop {
                            let page = list(&index, "b", &request).unwrap();
                            let page_shown = shown(&page);
                            assert!(page_shown.len() <= limit);
                            found.extend(page_shown);
                            let Some(next) = page.next else { break };
                            request.after = Some(next);
                        }
                        assert_eq!(found, want, "{prefix:?} {delimiter:?} {after:?} limit {limit}");
                        cases += 1;
                    }
                }
            }
        }
        assert!(cases > 4000);
    }

    #[test]
    fn a_common_prefix_is_jumped_over() {
        struct Counting(MemoryIndex, Cell<usize>);
        impl View for Counting {
            fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
                self.0.get(space, key)
            }
            fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()> {
                self.0.scan(space, from, &mut |key, value| {
                    self.1.set(self.1.get() + 1);
                    visit(key, value)
                })
            }
        }
        let keys = (0..10).flat_map(|a| (0..500).map(move |b| format!("{a}/{b}"))).collect();
        let view = Counting(index_of(&keys), Cell::new(0));
        let request = ListRequest { delimiter: Some("/".to_owned()), limit: 1000, ..ListRequest::default() };
        assert_eq!(list(&view, "b", &request).unwrap().common_prefixes.len(), 10);
        assert!(view.1.get() <= 12, "{} records were visited", view.1.get());
    }
}
