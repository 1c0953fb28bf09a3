//! A look at the whole store: the blue store's own check, and names held against the bytes that they stand for.
//!
//! # Invariants
//! - BO-CHECK-1: a check finds every object whose bytes are not all there, and all bytes that nobody names. It changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use shingle_blue_store::{BlueErrorKind, Damage, ObjectId, Repaired, Store};
use shingle_store_api::{Finding, Named, StoreResult, Touched};

use crate::engine::run::is_unused;
use crate::errors::from_blue;
use crate::format::{
    BucketRecord, Held, Record, STORE_ATTRIBUTE, StoreRecord, UploadRecord, parse_part_key, split_upload_key,
};
use crate::ids::{self, Use};

/// Names, or objects, looked at with one call.
const PAGE: usize = 256;

/// Progress of a check: bytes read, and bytes to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that were read.
    pub done_bytes: u64,
    /// Bytes in all.
    pub all_bytes: u64,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Damage.
    pub findings: Vec<Finding>,
    /// Buckets.
    pub buckets: u64,
    /// Objects in them.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Uploads in progress.
    pub uploads: u64,
    /// Bytes that nobody names any more, and that go when the store is opened to write.
    pub going: u64,
}

/// Checks a store that nobody changes meanwhile; with `deep`, reads all data.
///
/// # Errors
/// `Corrupt` or `Device` if metadata cannot be read at all. Damage is in the result.
pub async fn check(store: &Store, deep: bool, mut progress: impl FnMut(Progress)) -> StoreResult<Checked> {
    let told = |done_bytes, all_bytes| progress(Progress { done_bytes, all_bytes });
    let damage = store.check_with(deep, told).await.map_err(from_blue)?;
    let mut checker = Checker::new(store, &damage);
    // A store that was never opened with buckets has nothing that could be held against anything.
    if !is_unused(store).await? {
        checker.buckets().await?;
        checker.going().await?;
        checker.strays().await?;
    }
    Ok(checker.done(damage))
}

/// Takes bytes away whose metadata are damaged, so that their objects can be deleted and their room is free again; then closes the store.
/// Returns what each of them was. Their objects keep their names until then, and cannot be read.
///
/// # Errors
/// `Corrupt` if the metadata cannot be read at all, or if what is damaged are names of objects or lists of parts; `Device`: nothing has
/// changed then.
pub async fn repair(store: Store) -> StoreResult<Repaired> {
    let may_go = |id: &ObjectId| matches!(ids::use_of(id), Some(Use::Piece(..)));
    store.repair(may_go).await.map_err(from_blue)
}

struct Checker<'s> {
    store: &'s Store,
    piece_bytes: u64,
    checked: Checked,
    /// Numbers of bytes and uploads that the store's own check has complained of, with the objects that they belong to.
    hurt: BTreeMap<u64, Touched>,
    /// Numbers that something names.
    indices: BTreeSet<u64>,
    blobs: BTreeSet<u64>,
    lists: BTreeSet<u64>,
}

impl<'s> Checker<'s> {
    fn new(store: &'s Store, damage: &[Damage]) -> Self {
        let hurt = damage.iter().filter_map(number_of).map(|number| (number, Touched::default())).collect();
        let checked = Checked::default();
        let (indices, blobs, lists) = Default::default();
        Self { store, piece_bytes: 1, checked, hurt, indices, blobs, lists }
    }

    fn find(&mut self, object: &Named, what: impl std::fmt::Display) {
        self.checked.findings.push(Finding::of(object.clone(), what));
    }

    fn find_at(&mut self, place: impl std::fmt::Display) {
        self.checked.findings.push(Finding::at(place, Touched::untold()));
    }

    async fn buckets(&mut self) -> StoreResult<()> {
        match self.store.attribute(&ids::root(), STORE_ATTRIBUTE).await {
            Ok(record) => match record.as_deref().map(StoreRecord::decode) {
                Some(Ok(record)) => self.piece_bytes = record.piece_bytes,
                _ => self.find_at("the store does not say how it was made"),
            },
            Err(error) => self.find_at(format_args!("the list of buckets: {error}")),
        }
        let mut from = Vec::new();
        while let Some(page) = self.page(&ids::root(), &mut from, "the list of buckets").await {
            for (name, value) in page {
                let bucket = String::from_utf8_lossy(&name).into_owned();
                match BucketRecord::decode(&value) {
                    Ok(record) => {
                        self.checked.buckets += 1;
                        self.indices.insert(record.number);
                        self.objects(&bucket, record.number).await?;
                        self.uploads(&bucket, record.number).await?;
                    }
                    Err(error) => self.find_at(format_args!("the record of bucket `{bucket}`: {error}")),
                }
            }
        }
        Ok(())
    }

    /// The next page of an omap; `None` at its end, or where it cannot be read, which is noted.
    async fn page(
        &mut self,
        of: &shingle_blue_store::ObjectId,
        from: &mut Vec<u8>,
        what: &str,
    ) -> Option<Vec<(Vec<u8>, bytes::Bytes)>> {
        match self.store.omap_list(of, from, PAGE).await {
            Ok(page) => {
                let (last, _) = page.last()?;
                *from = [&last[..], b"\0"].concat();
                Some(page)
            }
            Err(error) => {
                self.find_at(format_args!("{what}: {error}"));
                None
            }
        }
    }

    async fn objects(&mut self, bucket: &str, number: u64) -> StoreResult<()> {
        let mut from = Vec::new();
        while let Some(page) = self.page(&ids::names(number), &mut from, &format!("the objects of `{bucket}`")).await {
            for (name, value) in page {
                let named = Named::object(bucket, &String::from_utf8_lossy(&name));
                match Record::decode_object(&value) {
                    Ok(record) => {
                        self.checked.objects += 1;
                        self.checked.bytes += record.size;
                        self.record(&named, &record).await?;
                    }
                    Err(error) => self.find(&named, format_args!("its record is damaged: {error}")),
                }
            }
        }
        Ok(())
    }

    async fn uploads(&mut self, bucket: &str, number: u64) -> StoreResult<()> {
        let mut from = Vec::new();
        while let Some(page) = self.page(&ids::uploads(number), &mut from, &format!("the uploads to `{bucket}`")).await
        {
            for (name, value) in page {
                let Some((key, id)) = split_upload_key(&name) else {
                    self.find_at(format_args!("the uploads to `{bucket}` have a key of none"));
                    continue;
                };
                let of = Named::object(bucket, key);
                let named = Named { words: format!("the upload in progress of {}", of.words), ..of };
                self.checked.uploads += 1;
                if let Err(error) = UploadRecord::decode(&value) {
                    self.find(&named, format_args!("its record is damaged: {error}"));
                }
                self.parts(&named, id.0).await?;
            }
        }
        Ok(())
    }

    /// Holds a record against its bytes.
    async fn record(&mut self, named: &Named, record: &Record) -> StoreResult<()> {
        match record.held {
            None => Ok(()),
            Some(Held::Blob(blob)) => self.blob(named, blob, record.size).await,
            Some(Held::Upload(id)) => {
                let size = self.parts(named, id).await?;
                if size != record.size {
                    self.find(named, format_args!("its parts have {size} bytes, not the {} that it had", record.size));
                }
                Ok(())
            }
        }
    }

    /// Bytes of all parts of an upload.
    async fn parts(&mut self, named: &Named, id: u64) -> StoreResult<u64> {
        self.lists.insert(id);
        self.touch(named, id);
        let (mut size, mut from) = (0u64, Vec::new());
        while let Some(page) = self.page(&ids::parts(id), &mut from, &format!("{}: its parts", named.words)).await {
            for (name, value) in page {
                match (parse_part_key(&name), Record::decode_part(&value)) {
                    (Some(_), Ok(record)) => {
                        size = size.saturating_add(record.size);
                        if let Some(Held::Blob(blob)) = record.held {
                            self.blob(named, blob, record.size).await?;
                        }
                    }
                    _ => self.find(named, "the record of one of its parts is damaged"),
                }
            }
        }
        Ok(size)
    }

    /// The store's own complaints of this number concern the object.
    fn touch(&mut self, named: &Named, number: u64) {
        if let Some(touched) = self.hurt.get_mut(&number) {
            touched.add(|| named.clone());
        }
    }

    /// Holds pieces against the size that they have to have.
    async fn blob(&mut self, named: &Named, blob: u64, size: u64) -> StoreResult<()> {
        self.touch(named, blob);
        if !self.blobs.insert(blob) {
            self.find(named, "another object has the same bytes");
        }
        let mut has = 0u64;
        for index in 0..u32::try_from(size.div_ceil(self.piece_bytes)).unwrap_or(u32::MAX) {
            match self.store.stat(&ids::piece(blob, index)).await {
                Ok(info) => has += info.size,
                Err(error) if error.kind == BlueErrorKind::NotFound => break,
                // The store's own check has it.
                Err(_) => return Ok(()),
            }
        }
        if has != size {
            self.find(named, format_args!("it has {has} bytes of {size}"));
        }
        Ok(())
    }

    async fn going(&mut self) -> StoreResult<()> {
        let mut from = Vec::new();
        while let Some(page) = self.page(&ids::going(), &mut from, "the list of what goes").await {
            for (name, _) in page {
                let Some(held) = Held::parse(&name) else {
                    self.find_at("the list of what goes has a key of nothing");
                    continue;
                };
                self.checked.going += 1;
                let named = match held {
                    Held::Blob(blob) => !self.blobs.insert(blob),
                    Held::Upload(id) => !self.lists.insert(id),
                };
                if named {
                    self.find_at(format_args!("bytes {held:?} are in use, and on the list of what goes"));
                }
                if let Held::Upload(id) = held {
                    let words = "an upload that has ended".to_owned();
                    self.parts(&Named { words, object: None }, id).await?;
                }
            }
        }
        Ok(())
    }

    /// Every object of the store is needed by something.
    async fn strays(&mut self) -> StoreResult<()> {
        let mut from = None;
        loop {
            let page = self.store.list(ids::COLLECTION.id, from.as_ref(), PAGE).await.map_err(from_blue)?;
            let (count, last) = (page.len(), page.last().cloned());
            for id in page.into_iter().filter(|id| from.as_ref() != Some(id)) {
                let known = match ids::use_of(&id) {
                    Some(Use::Root | Use::Going) => true,
                    Some(Use::Names(number) | Use::Uploads(number)) => self.indices.contains(&number),
                    Some(Use::Parts(number)) => self.lists.contains(&number),
                    Some(Use::Piece(number, _)) => self.blobs.contains(&number),
                    None => false,
                };
                if !known {
                    self.checked
                        .findings
                        .push(Finding::at(format_args!("object {id}: nothing names it"), Touched::default()));
                }
            }
            if count < PAGE {
                return Ok(());
            }
            from = last;
        }
    }

    /// Adds the store's own complaints, with the objects that they concern.
    fn done(mut self, damage: Vec<Damage>) -> Checked {
        for one in damage {
            let touched = number_of(&one).and_then(|number| self.hurt.get(&number).cloned());
            self.checked.findings.push(Finding::at(&one, touched.unwrap_or_else(Touched::untold)));
        }
        self.checked
    }
}

/// The number of the bytes or of the upload that a complaint concerns.
fn number_of(damage: &Damage) -> Option<u64> {
    match ids::use_of(damage.object.as_ref()?)? {
        Use::Piece(number, _) | Use::Parts(number) => Some(number),
        _ => None,
    }
}
