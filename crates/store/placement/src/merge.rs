//! Listings of several sites as one.

use std::collections::BTreeMap;

use shingle_store_api::{Listing, ObjectInfo, UploadInfo, UploadListing};

enum Line {
    Object(ObjectInfo),
    Prefix,
}

/// The first `limit` lines of listings, each of up to `limit` lines. Of objects that share a key it shows the one
/// committed last.
pub(crate) fn listings(pages: Vec<Listing>, limit: usize) -> Listing {
    // A line behind the end of a page that was cut off may come after lines that this page does not show.
    let ends = pages.iter().filter_map(|page| page.next.clone());
    let end = ends.min();
    let mut lines: BTreeMap<String, Line> = BTreeMap::new();
    for page in pages {
        for object in page.objects {
            let newer = match lines.get(&object.key) {
                Some(Line::Object(other)) => object.modified_unix_ns >= other.modified_unix_ns,
                _ => true,
            };
            if newer {
                lines.insert(object.key.clone(), Line::Object(object));
            }
        }
        lines.extend(page.common_prefixes.into_iter().map(|prefix| (prefix, Line::Prefix)));
    }
    let mut listing = Listing::default();
    let (mut last, mut more) = (None, end.is_some());
    for (at, (name, line)) in lines.into_iter().enumerate() {
        if at == limit || end.as_ref().is_some_and(|end| name > *end) {
            more = true;
            break;
        }
        last = Some(name.clone());
        match line {
            Line::Object(object) => listing.objects.push(object),
            Line::Prefix => listing.common_prefixes.push(name),
        }
    }
    listing.next = last.filter(|_| more);
    listing
}

/// As [`listings`], of uploads.
pub(crate) fn uploads(pages: Vec<UploadListing>, limit: usize) -> UploadListing {
    let place = |upload: &UploadInfo| (upload.key.clone(), upload.id);
    let ends = pages.iter().filter(|page| page.truncated).filter_map(|page| page.uploads.last().map(place));
    let end = ends.min();
    let mut all: Vec<UploadInfo> = pages.into_iter().flat_map(|page| page.uploads).collect();
    all.sort_by_key(place);
    let count = all.len();
    all.retain(|upload| end.as_ref().is_none_or(|end| place(upload) <= *end));
    all.truncate(limit);
    UploadListing { truncated: end.is_some() || all.len() < count, uploads: all }
}
