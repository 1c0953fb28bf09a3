//! A sorted map in pages, which copies share until one of them changes a page: a copy of a large map costs a count for each page.
//!
//! **Owns** the pages. **Knows nothing of** what is in them.
//!
//! # Invariants
//! - ZF-PAGE-1: keys rise from entry to entry and from page to page; no page is empty, and none has more than `PAGE` entries.
//! - ZF-PAGE-2: a copy shows no change that was made to the map after it, nor the map one of the copy. (`a_copy_stays_as_it_was`)

use std::borrow::Borrow;
use std::rc::Rc;

/// Entries of a page at most: a change of a shared page copies so many.
const PAGE: usize = 128;

type Page<K, V> = Rc<Vec<(K, V)>>;

/// A sorted map, cheap to copy.
#[derive(Clone, Debug)]
pub(crate) struct PagedMap<K, V> {
    pages: Vec<Page<K, V>>,
    len: usize,
}

impl<K, V> Default for PagedMap<K, V> {
    fn default() -> Self {
        Self { pages: Vec::new(), len: 0 }
    }
}

impl<K: Ord + Clone, V: Clone> PagedMap<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The page that has `key`, or would have it.
    fn page_of<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let behind = |page: &Page<K, V>| page.first().is_some_and(|(first, _)| first.borrow() <= key);
        self.pages.partition_point(behind).saturating_sub(1)
    }

    /// The page of a key, and its place there: that of the entry, or the one where it would be.
    fn place<Q: Ord + ?Sized>(&self, key: &Q) -> (usize, Result<usize, usize>)
    where
        K: Borrow<Q>,
    {
        let at = self.page_of(key);
        let place =
            self.pages.get(at).map_or(Err(0), |page| page.binary_search_by(|(other, _)| other.borrow().cmp(key)));
        (at, place)
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (page, place) = self.place(key);
        self.pages.get(page)?.get(place.ok()?).map(|(_, value)| value)
    }

    pub(crate) fn has<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).1.is_ok()
    }

    /// A value, to be changed. (ZF-PAGE-2)
    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (page, place) = self.place(key);
        let page = Rc::make_mut(self.pages.get_mut(page)?);
        page.get_mut(place.ok()?).map(|(_, value)| value)
    }

    /// Puts a value in. Returns the one that was there.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let (at, place) = self.place(&key);
        let Some(shared) = self.pages.get_mut(at) else {
            self.pages.push(Rc::new(vec![(key, value)]));
            self.len += 1;
            return None;
        };
        let page = Rc::make_mut(shared);
        let place = match place {
            Ok(place) => return page.get_mut(place).map(|(_, old)| std::mem::replace(old, value)),
            Err(place) => place,
        };
        self.len += 1;
        page.insert(place, (key, value));
        if page.len() > PAGE {
            // Keys that rise leave full pages behind.
            let cut = if place == PAGE { PAGE } else { PAGE / 2 };
            let rest = page.split_off(cut);
            self.pages.insert(at + 1, Rc::new(rest));
        }
        None
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (at, place) = self.place(key);
        let place = place.ok()?;
        let page = Rc::make_mut(self.pages.get_mut(at)?);
        let (_, value) = page.remove(place);
        self.len -= 1;
        if page.is_empty() {
            self.pages.remove(at);
        } else {
            self.join(at);
            self.join(at.saturating_sub(1));
        }
        Some(value)
    }

    /// Makes one page of this one and the next, if both are small.
    fn join(&mut self, at: usize) {
        let (Some(page), Some(next)) = (self.pages.get(at), self.pages.get(at + 1)) else { return };
        if page.len() + next.len() <= PAGE / 2 {
            let next = self.pages.remove(at + 1);
            if let Some(page) = self.pages.get_mut(at) {
                Rc::make_mut(page).extend(next.iter().cloned());
            }
        }
    }

    /// All entries, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.pages.iter().flat_map(|page| page.iter().map(|(key, value)| (key, value)))
    }

    /// Entries from `key` on.
    pub(crate) fn from<'m>(&'m self, key: &K) -> impl Iterator<Item = (&'m K, &'m V)> {
        let (page, Ok(place) | Err(place)) = self.place(key);
        let first = self.pages.get(page).and_then(|page| page.get(place..)).unwrap_or_default();
        let others = self.pages.get(page + 1..).unwrap_or_default();
        first.iter().chain(others.iter().flat_map(|page| page.iter())).map(|(key, value)| (key, value))
    }

    /// ZF-PAGE-1.
    #[cfg(test)]
    fn is_sound(&self) -> bool {
        let sizes = self.pages.iter().all(|page| (1..=PAGE).contains(&page.len()));
        sizes && self.iter().is_sorted_by(|(a, _), (b, _)| a < b) && self.iter().count() == self.len
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// ZF-PAGE-1, ZF-PAGE-2: random changes, of which copies are taken now and then, against maps of the standard library.
    #[test]
    fn a_copy_stays_as_it_was() {
        for seed in 1..=40_u64 {
            let mut word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut draw = |below: u64| {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                (word >> 16) % below
            };
            let (mut map, mut model) = (PagedMap::default(), BTreeMap::new());
            let mut copies = Vec::new();
            for step in 0..3_000 {
                // It grows first, and shrinks later.
                let (key, grows) = (draw(2_000), draw(4) > step / 1_000);
                match draw(20) {
                    0 => copies.push((map.clone(), model.clone())),
                    1 => assert_eq!(
                        map.get_mut(&key).map(|value| *value += 1),
                        model.get_mut(&key).map(|value| *value += 1)
                    ),
                    _ if grows => assert_eq!(map.insert(key, step), model.insert(key, step), "seed {seed}"),
                    _ => assert_eq!(map.remove(&key), model.remove(&key), "seed {seed}"),
                }
                assert_eq!((map.get(&key), map.has(&key)), (model.get(&key), model.contains_key(&key)), "seed {seed}");
            }
            copies.push((map, model));
            for (map, model) in copies {
                assert!(
                    map.is_sound() && map.len() == model.len() && map.is_empty() == model.is_empty(),
                    "seed {seed}"
                );
                assert!(map.iter().eq(&model), "seed {seed}");
                let from = draw(2_100);
                assert!(map.from(&from).eq(model.range(from..)), "seed {seed}");
            }
        }
    }

    #[test]
    fn keys_that_rise_leave_full_pages() {
        let mut map = PagedMap::default();
        (0..10 * PAGE).for_each(|key| assert_eq!(map.insert(key, 0), None));
        assert!(map.is_sound() && map.pages.len() == 10, "{} pages", map.pages.len());
        (0..10 * PAGE).filter(|key| key % 50 > 0).for_each(|key| assert_eq!(map.remove(&key), Some(0)));
        assert!(map.is_sound() && map.pages.len() <= 4, "{} pages", map.pages.len());
    }
}
