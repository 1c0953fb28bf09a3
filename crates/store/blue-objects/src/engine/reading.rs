//! Opening objects, and reading them.

use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use shingle_blue_store::BlueErrorKind;
use shingle_store_api::{ObjectInfo, StoreError, StoreResult};

use super::Core;
use crate::errors::corrupt;
use crate::format::{Held, Record};
use crate::ids;
use crate::layout::Layout;
use crate::notices::{Notice, Open};

/// Bytes that stay while this call reads.
pub(super) struct Pinned<'c> {
    core: &'c Core,
    held: Held,
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.core.unpin(self.held.number());
    }
}

impl Core {
    /// Pins bytes for a call; `None` if they were just being removed: then their name has changed. (BO-PIN-1)
    pub(super) async fn pinned(&self, held: Held) -> Option<Pinned<'_>> {
        if let Some(removal) = self.pins.removal(held.number()) {
            removal.await;
            return None;
        }
        self.pins.pin(held.number());
        Some(Pinned { core: self, held })
    }

    /// Opens the present version of an object. (BO-OBJ-3, BO-PIN-1)
    pub(super) async fn open_object(
        self: &Rc<Self>,
        bucket: &str,
        key: &str,
        notices: tokio::sync::mpsc::UnboundedSender<Notice>,
    ) -> StoreResult<(ObjectInfo, Arc<Layout>, Option<Open>)> {
        let mut missed = None;
        loop {
            self.names.require(bucket)?;
            let record = self.find(bucket, key).await?.ok_or_else(|| StoreError::no_key(bucket, key))?;
            let Some(held) = record.held else {
                return Ok((record.attributes.info(key, record.version, 0, Vec::new()), Arc::new(self.layout()), None));
            };
            if let Some(removal) = self.pins.removal(held.number()) {
                removal.await;
                continue;
            }
            // From here on nobody removes them. The name may be one that has gone while it was looked up: then they are not there.
            self.pins.pin(held.number());
            let open = Open::reader(held.number(), notices.clone());
            match self.layout_of(&record).await? {
                Some(layout) => {
                    let sizes = if matches!(held, Held::Upload(_)) { layout.sizes() } else { Vec::new() };
                    return Ok((record.attributes.info(key, record.version, record.size, sizes), layout, Some(open)));
                }
                None if missed == Some(held) => return Err(corrupt("its bytes are not there")),
                None => missed = Some(held),
            }
        }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.piece_bytes)
    }

    /// The place of an object's bytes; `None` if they are not there.
    pub(super) async fn layout_of(&self, record: &Record) -> StoreResult<Option<Arc<Layout>>> {
        let mut layout = self.layout();
        let blob = match record.held {
            None => return Ok(Some(Arc::new(layout))),
            Some(Held::Blob(blob)) => blob,
            Some(Held::Upload(id)) => return self.layout_of_parts(id, record.size).await,
        };
        match self.store.stat(&ids::piece(blob, 0)).await {
            Ok(_) => Ok(layout.push(blob, record.size).map(|()| Arc::new(layout))),
            Err(error) if error.kind == BlueErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    async fn layout_of_parts(&self, id: u64, size: u64) -> StoreResult<Option<Arc<Layout>>> {
        match self.store.stat(&ids::parts(id)).await {
            Ok(_) => {}
            Err(error) if error.kind == BlueErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(error)),
        }
        if let Some(layout) = self.layouts.get(id).filter(|layout| layout.size() == size) {
            return Ok(Some(layout));
        }
        let mut layout = self.layout();
        for part in self.find_parts(id, 0, usize::MAX).await? {
            let blob = part.blob.map_or(0, Held::number);
            layout.push(blob, part.size).ok_or_else(|| corrupt("its parts have too many bytes to count"))?;
        }
        if layout.size() != size {
            let has = layout.size();
            return Err(corrupt(format!("its parts have {has} bytes, not the {size} that it had")));
        }
        let layout = Arc::new(layout);
        self.layouts.keep(id, &layout);
        Ok(Some(layout))
    }

    /// Reads `length` bytes from `offset`, which are in the object.
    pub(crate) async fn read(&self, layout: &Layout, mut offset: u64, length: u64) -> StoreResult<Bytes> {
        let mut pieces = Vec::new();
        let mut left = length;
        while left > 0 {
            let run = layout.run(offset, left).ok_or_else(|| corrupt(format!("no bytes are at offset {offset}")))?;
            let piece = self.store.read(&run.id, run.offset, run.length).await.map_err(|error| self.failed(error))?;
            if piece.len() as u64 != run.length {
                return Err(corrupt(format!("no bytes are at offset {}", offset + piece.len() as u64)));
            }
            offset += run.length;
            left -= run.length;
            pieces.push(piece);
        }
        if pieces.len() == 1 {
            return Ok(pieces.swap_remove(0));
        }
        let mut whole = BytesMut::with_capacity(length as usize);
        pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
        Ok(whole.freeze())
    }
}
