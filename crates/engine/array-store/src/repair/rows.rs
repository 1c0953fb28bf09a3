//! Segments of which too few fragments are whole, row by row: what of them is lost, and what can be mended. (AS-READ-3)
//!
//! # Invariants
//! - AS-SCRUB-2: of a segment only rows with fewer good slices than the code has data fragments are lost, and the objects
//!   whose bytes lie there; zones with bad slices in other rows are written anew.

use shingle_store_api::Finding;

use crate::engine::Engine;
use crate::error::Result;
use crate::format::{DigestItem, Marker, Member};
use crate::segment::{Rows, Shape, Source};
use crate::types::{PartPlace, SetId};

/// The place of all of a segment.
pub(crate) fn whole_segment(set: SetId, item: &DigestItem, marker: &Marker) -> PartPlace {
    let length = marker.shape.length();
    let block = marker.fragments_at(item.block);
    PartPlace { set, block, stamp: marker.stamp, segment_length: length, at: 0, length, last: false }
}

/// A segment that was looked at.
pub(crate) struct Segment<'a> {
    id: SetId,
    item: &'a DigestItem,
    shape: Shape,
    /// In the order of fragments.
    members: Vec<Member>,
    rows: Rows,
}

impl Engine {
    /// Looks at the rows of a segment; `members` are in the set's order.
    pub(crate) async fn look_at_rows<'a>(
        &self,
        id: SetId,
        members: &[Member],
        item: &'a DigestItem,
        marker: &Marker,
    ) -> Segment<'a> {
        let place = whole_segment(id, item, marker);
        let shape = Shape::new(self.code, place.segment_length);
        let members = self.framing.rotation.in_order(members.to_vec(), place.block);
        let source = Source { drives: &self.drives, paces: &self.paces, members: &members, place: &place, shape };
        let rows = source.rows().await;
        Segment { id, item, shape, members, rows }
    }

    /// Objects with bytes in rows that are lost, and whether drives may bring those back that are away. (AS-SCRUB-1)
    pub(crate) fn what_lacks(&self, segment: &Segment<'_>) -> Result<Vec<(Finding, bool)>> {
        let Segment { id, item, shape, members, rows } = segment;
        let mut lacks = Vec::new();
        if rows.lost.is_empty() {
            return Ok(lacks);
        }
        let returns = |fragment: &&usize| members.get(**fragment).is_some_and(|member| self.is_away(member));
        for part in self.live_parts(*id, item)? {
            let pieces = shape.pieces(part.at, part.length);
            let mut hopes = pieces.iter().flat_map(|piece| rows.hopes(piece)).peekable();
            if hopes.peek().is_none() {
                continue;
            }
            let away = hopes.all(|hope| hope.good + hope.away.iter().filter(returns).count() >= self.code.data());
            let what = format!("{} bytes from byte {} on ({id}, block {})", part.length, part.offset, item.block);
            lacks.push((Finding::of(self.named(&part.name)?, what), away));
        }
        Ok(lacks)
    }
}

impl Segment<'_> {
    /// Of members that do not verify, those that another zone can replace by more: it has their bad slices, or all that they
    /// lack is no slice.
    pub(crate) fn mendable(&self, failing: impl Iterator<Item = Member>) -> Vec<Member> {
        let wins = |member: &Member| {
            let fragment = self.members.iter().position(|other| other == member);
            fragment
                .is_some_and(|fragment| self.rows.mendable.contains(&fragment) || !self.rows.bad.contains(&fragment))
        };
        failing.filter(wins).collect()
    }
}
