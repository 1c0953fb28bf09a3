//! Compressed blobs of which little is shown any more are written anew. (As BlueStore does, counted in allocation units.)
//!
//! A compressed blob is unpacked as a whole, so it keeps all of its blocks as long as one byte of it is shown. Once writes have taken the
//! place of most of it, blobs of their own store what is left, and its blocks are let go.
//!
//! # Invariants
//! - BLU-THIN-1: a compressed blob that one shard alone shows keeps at most twice the blocks that its shown bytes would take by its own ratio,
//!   once deferred writes over it have been gathered, but for one whose bytes take no fewer blocks anew, or cannot be read, and where there
//!   is no room: nobody waits for this. `what_is_left_of_compressed_bytes_is_written_anew`.

use std::rc::Rc;

use bytes::Bytes;

use crate::blob::Blob;
use crate::blob::packing::PACKED_RAW_MAX;
use crate::engine::Engine;
use crate::error::{BlueErrorKind, BlueResult};
use crate::hints::Hints;
use crate::ids::ObjectId;
use crate::map::{Extent, Extents, thin_blobs};
use crate::piece::Group;
use crate::relocate::{Gathered, Rewrite};
use crate::txn::{Shards, build};

impl Engine {
    /// Writes what is shown of the thin blobs of a shard anew, if that wins blocks, and there is room. (BLU-THIN-1)
    pub(crate) async fn rewrite_thin(self: &Rc<Self>, id: &ObjectId, shard: u32) -> BlueResult<()> {
        let object = self.object(id, Shards::Some(shard..shard + 1)).await?;
        if !object.state.borrow().knows(shard) {
            return Ok(());
        }
        let thin = thin_blobs(&object.state.borrow().extents(shard));
        if thin.is_empty() {
            return Ok(());
        }
        let contents = self.contents_of(id, thin).await?;
        // One step from here on: nothing else is shown than what is written anew.
        let hints = object.state.borrow().head.as_ref().map(|head| head.hints).unwrap_or_default();
        let extents = object.state.borrow().extents(shard);
        let (gathered, written) = anew(&extents, &contents, hints);
        let used: u64 = written.iter().map(|blob| u64::from(blob.blocks())).sum();
        let kept: u64 = contents.iter().map(|(blob, _)| u64::from(blob.blocks())).sum();
        if used >= kept {
            for (blob, _) in &contents {
                let shown = extents.iter().filter(|extent| Rc::ptr_eq(&extent.blob, blob));
                blob.state.borrow_mut().kept_at = Some(shown.map(|extent| extent.length).sum());
            }
            return Ok(());
        }
        if written.is_empty() || !self.promise_spare(used) {
            return Ok(());
        }
        let group: Rc<Group> = Rc::default();
        for blob in &written {
            let data = blob.state.borrow().data.clone().unwrap_or_default();
            self.write_out(self.lane_for(hints.lifetime), blob, 0, data, &group);
        }
        let count = contents.len() as u64;
        let done = self.put_in_place(Rewrite { object, shard, gathered, written, group }).await?;
        self.state.borrow_mut().counters.thin_rewritten += if done { count } else { 0 };
        Ok(())
    }

    /// Contents of compressed blobs. One that cannot be read stays as it is, until the next opening.
    async fn contents_of(&self, id: &ObjectId, blobs: Vec<Rc<Blob>>) -> BlueResult<Vec<(Rc<Blob>, Bytes)>> {
        let mut contents = Vec::new();
        for blob in blobs {
            match self.content(id, &blob).await {
                Ok(content) => contents.push((blob, content)),
                Err(error) if error.kind == BlueErrorKind::Unavailable => return Err(error),
                Err(_) => blob.state.borrow_mut().kept_at = Some(0),
            }
        }
        Ok(contents)
    }

    /// Promises blocks that nobody waits for. False if there are none.
    fn promise_spare(&self, blocks: u64) -> bool {
        let mut state = self.state.borrow_mut();
        let spare = !state.has_waiters() && state.room(self.drive.layout.zone_blocks) >= blocks;
        state.promised += if spare { blocks } else { 0 };
        spare
    }
}

/// New blobs of the shown bytes of these blobs; and the extents that show them, each with its new blob and its first byte there.
fn anew(extents: &Extents, contents: &[(Rc<Blob>, Bytes)], hints: Hints) -> (Vec<Gathered>, Vec<Rc<Blob>>) {
    let (mut gathered, mut written) = (Vec::new(), Vec::new());
    for run in runs(extents, contents) {
        let Some(start) = run.first().map(|(extent, _)| extent.at) else { continue };
        let content = run.iter().map(|(_, bytes)| &bytes[..]).collect::<Vec<_>>().concat();
        let pieces = content.chunks(PACKED_RAW_MAX as usize).map(|piece| Rc::new(build(piece, hints, true)));
        for (blob, first) in pieces.zip((start..).step_by(PACKED_RAW_MAX as usize)) {
            let parts = run.iter().filter_map(|(extent, _)| extent.part(&(first..first + blob.raw)));
            gathered.extend(parts.map(|extent| {
                let from = extent.at - first;
                (extent, blob.clone(), from)
            }));
            written.push(blob);
        }
    }
    (gathered, written)
}

/// Extents that show these blobs, with the bytes that they show, in runs without a gap.
fn runs(extents: &Extents, contents: &[(Rc<Blob>, Bytes)]) -> Vec<Vec<(Extent, Bytes)>> {
    let mut runs: Vec<Vec<(Extent, Bytes)>> = Vec::new();
    for extent in extents.iter() {
        let content = contents.iter().find(|(blob, _)| Rc::ptr_eq(blob, &extent.blob));
        let range = extent.content();
        let bytes = content
            .and_then(|(_, content)| Some(content.slice_ref(content.get(range.start as usize..range.end as usize)?)));
        let Some(bytes) = bytes else { continue };
        let follows = |run: &&mut Vec<(Extent, Bytes)>| run.last().is_some_and(|(last, _)| last.end() == extent.at);
        match runs.last_mut().filter(follows) {
            Some(run) => run.push((extent.clone(), bytes)),
            None => runs.push(vec![(extent.clone(), bytes)]),
        }
    }
    runs
}
