//! Listings of keys.

use std::collections::BTreeSet;
use std::sync::Arc;

use shingle_sim::clients::{bytes_of, commit, put};
use shingle_store_api::{CompletedPart, ListRequest, Listing, Metadata, ObjectStore};

/// The listing, by looking at every key.
fn expected(keys: &[&str], request: &ListRequest) -> Vec<String> {
    let mut found = BTreeSet::new();
    for key in keys.iter().filter(|key| key.starts_with(&request.prefix)) {
        let delimiter = request.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty());
        let rolled = delimiter.and_then(|delimiter| {
            let at = key[request.prefix.len()..].find(delimiter)?;
            Some(&key[..request.prefix.len() + at + delimiter.len()])
        });
        let shown = rolled.unwrap_or(key);
        if request.after.as_deref().is_none_or(|after| shown > after) {
            found.insert(shown.to_owned());
        }
    }
    found.into_iter().collect()
}

/// All pages of a listing.
async fn pages(store: &dyn ObjectStore, mut request: ListRequest) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let page = store.list("b", request.clone()).await.unwrap();
        let mut shown: Vec<_> = page.objects.into_iter().map(|object| object.key).collect();
        shown.extend(page.common_prefixes);
        shown.sort();
        assert!(shown.len() <= request.limit);
        found.extend(shown);
        request.after = page.next;
        if request.after.is_none() {
            return found;
        }
    }
}

/// With every kind of prefix, delimiter, beginning and limit.
pub async fn pages_of_a_listing_show_what_a_look_at_every_key_shows(store: Arc<dyn ObjectStore>) {
    let keys =
        ["", "a", "a/", "a/b", "a/b/c", "a/c", "a//", "b/a", "ab/c", "é/ü", "é", "/x", "zz", "zz/only", "z\u{10ffff}"];
    for bucket in ["a", "b", "b1"] {
        store.create_bucket(bucket).await.unwrap();
        put(&*store, bucket, "zz/only", &bytes_of(1, 5), commit("e")).await.unwrap();
    }
    for key in keys {
        put(&*store, "b", key, &bytes_of(1, 5), commit("e")).await.unwrap();
    }
    let mut cases = 0;
    for prefix in ["", "a", "a/", "a/b", "é", "x"] {
        for delimiter in [None, Some(""), Some("/"), Some("b"), Some("//")] {
            for after in [None, Some(""), Some("a"), Some("a/"), Some("a/b"), Some("a/b/"), Some("zz"), Some("é")] {
                for limit in [1, 2, 3, 50] {
                    let owned = |text: Option<&str>| text.map(str::to_owned);
                    let (delimiter, after) = (owned(delimiter), owned(after));
                    let request = ListRequest { prefix: prefix.to_owned(), delimiter, after, limit };
                    let found = pages(&*store, request.clone()).await;
                    assert_eq!(found, expected(&keys, &request), "{request:?}");
                    cases += 1;
                }
            }
        }
    }
    assert!(cases > 900);
    assert_eq!(store.list("b", ListRequest::default()).await.unwrap(), Listing::default(), "a page of no lines");
}

/// An object of a listing is what `head` says of it, but for the sizes of parts, whether it came whole or in parts.
pub async fn a_listing_has_all_but_the_sizes_of_parts(store: Arc<dyn ObjectStore>) {
    store.create_bucket("b").await.unwrap();
    for (key, size) in [("small", 10), ("large", 20_000)] {
        put(&*store, "b", key, &bytes_of(1, size), commit(key)).await.unwrap();
    }
    let id = store.begin_upload("b", "parts", Metadata::from([("m".to_owned(), "v".to_owned())])).await.unwrap().id;
    for number in [1, 2] {
        let mut writer = store.begin_part("b", "parts", id, number).await.unwrap();
        writer.write(bytes_of(1, 5000)).await.unwrap();
        writer.commit(commit(&number.to_string())).await.unwrap();
    }
    let wanted = [1, 2].map(|number| CompletedPart { number, etag: number.to_string() });
    store.complete_upload("b", "parts", id, wanted.to_vec(), commit("whole")).await.unwrap();
    let listed = store.list("b", ListRequest { limit: 9, ..ListRequest::default() }).await.unwrap().objects;
    let mut heads = Vec::new();
    for key in ["large", "parts", "small"] {
        heads.push(store.head("b", key).await.unwrap());
    }
    assert_eq!(std::mem::take(&mut heads[1].part_sizes), [5000, 5000]);
    assert_eq!(listed, heads);
}
