//! The page map: where each of the host's pages lies.

/// No page.
pub(super) const NONE: u32 = u32::MAX;

/// Pages of a part of the map, which takes memory once one of them is written.
const PART: usize = 1 << 12;

/// The map.
#[derive(Clone, Debug)]
pub(super) struct PageMap(Vec<Option<Box<[u32]>>>);

impl PageMap {
    pub(super) fn new(pages: u64) -> Self {
        Self(vec![None; pages.div_ceil(PART as u64) as usize])
    }

    /// The place of a page, or [`NONE`].
    pub(super) fn get(&self, page: u32) -> u32 {
        let part = self.0[page as usize / PART].as_ref();
        part.map_or(NONE, |part| part[page as usize % PART])
    }

    /// Gives a page a place, or none; the one that it had.
    pub(super) fn set(&mut self, page: u32, place: u32) -> u32 {
        let part = &mut self.0[page as usize / PART];
        if part.is_none() && place == NONE {
            return NONE;
        }
        let part = part.get_or_insert_with(|| vec![NONE; PART].into_boxed_slice());
        std::mem::replace(&mut part[page as usize % PART], place)
    }
}
