//! Pages of a listing: which keys are shown, which are rolled into a common prefix, and where the next page begins. Common
//! prefixes are jumped over, not walked through.
//!
//! **Knows nothing of** how keys are stored: a catalog walks over them from [`Page::start`], and does with each what [`Page::meet`] says.

use shingle_store_api::{ListRequest, Listing, ObjectInfo};

/// The first key of interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start<'a> {
    /// The first that begins with the request's prefix.
    First,
    /// The first after this one.
    After(&'a str),
    /// The first behind all that begin with this.
    Beyond(&'a str),
}

/// The fate of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met<'a> {
    /// It is shown: [`Page::show`] takes it.
    Object,
    /// It is rolled into this common prefix, as are all that begin with it: go on behind them.
    Common(&'a str),
    /// The page is full, and there is more.
    Full,
}

/// A page of a listing that is being made.
#[derive(Debug)]
pub struct Page<'a> {
    request: &'a ListRequest,
    listing: Listing,
    /// The key or common prefix that was shown last.
    last: Option<String>,
}

impl<'a> Page<'a> {
    /// An empty page.
    pub fn new(request: &'a ListRequest) -> Self {
        Self { request, listing: Listing::default(), last: None }
    }

    /// The first key to meet.
    pub fn start(&self) -> Start<'a> {
        let Some(after) = self.request.after.as_deref() else { return Start::First };
        // All that share its common prefix are rolled into that, which is not after it.
        self.request.common_prefix(after).map_or(Start::After(after), Start::Beyond)
    }

    /// Keys and common prefixes that still find room.
    pub fn room(&self) -> usize {
        self.request.limit.saturating_sub(self.listing.objects.len() + self.listing.common_prefixes.len())
    }

    /// Decides on the next key, which begins with the request's prefix.
    pub fn meet<'k>(&mut self, key: &'k str) -> Met<'k> {
        if self.room() == 0 {
            // A page of no room says nothing about where to go on, so it ends the listing.
            self.listing.next = self.last.take();
            return Met::Full;
        }
        let Some(common) = self.request.common_prefix(key) else { return Met::Object };
        self.last = Some(common.to_owned());
        self.listing.common_prefixes.push(common.to_owned());
        Met::Common(common)
    }

    /// Shows the object that was met. Objects of a listing carry no part sizes.
    pub fn show(&mut self, object: ObjectInfo) {
        self.last = Some(object.key.clone());
        self.listing.objects.push(object);
    }

    /// The page, once it is full or there are no more keys.
    pub fn done(self) -> Listing {
        self.listing
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::attributes::Attributes;

    fn list(keys: &BTreeSet<String>, request: &ListRequest, met: &mut usize) -> Listing {
        let mut page = Page::new(request);
        let mut from = match page.start() {
            Start::First => request.prefix.clone(),
            Start::After(key) => format!("{key}\0"),
            Start::Beyond(common) => format!("{common}\u{10ffff}"),
        };
        if from < request.prefix {
            from = request.prefix.clone();
        }
        while let Some(key) = keys.range(from.clone()..).next().filter(|key| key.starts_with(&request.prefix)) {
            *met += 1;
            from = match page.meet(key) {
                Met::Full => break,
                Met::Common(common) => format!("{common}\u{10ffff}"),
                Met::Object => {
                    page.show(Attributes::default().info(key, 1, 0, Vec::new()));
                    format!("{key}\0")
                }
            };
        }
        page.done()
    }

    #[test]
    fn a_page_ends_with_where_the_next_begins_and_prefixes_are_jumped_over() {
        let keys: BTreeSet<String> = (0..10).flat_map(|a| (0..50).map(move |b| format!("{a}/{b:02}"))).collect();
        let mut request = ListRequest { delimiter: Some("/".to_owned()), limit: 4, ..ListRequest::default() };
        let (mut found, mut met) = (Vec::new(), 0);
        loop {
            let page = list(&keys, &request, &mut met);
            assert!(page.objects.is_empty() && page.common_prefixes.len() <= 4);
            found.extend(page.common_prefixes);
            request.after = page.next;
            if request.after.is_none() {
                break;
            }
        }
        assert_eq!(found, (0..10).map(|a| format!("{a}/")).collect::<Vec<_>>());
        assert!(met <= 12, "{met} keys were met");
        let whole = ListRequest { prefix: "7/".to_owned(), after: Some("7/47".to_owned()), ..request.clone() };
        let page = list(&keys, &whole, &mut met);
        assert_eq!(page.objects.iter().map(|object| &*object.key).collect::<Vec<_>>(), ["7/48", "7/49"]);
        assert_eq!(page.next, None);
        let none = ListRequest { limit: 0, ..request };
        assert_eq!(list(&keys, &none, &mut met), Listing::default());
    }
}
