//! Clients of an object store that do random things to keys of their own, know the possible results, and report others:
//! the contract of `store-api`, held against any store, through power cuts.
//!
//! The store must take parts of any size but none.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_store_api::{
    Commit, CompletedPart, Condition, ListRequest, Metadata, ObjectStore, StoreError, StoreErrorKind, StoreResult,
    UploadId,
};

use crate::calls::{begin_part, end_part};
pub use crate::calls::{bytes_of, commit, get, pieces, put};
pub use crate::failure::Failure;
use crate::seeds::Random;

/// The bucket they work in; it must be there.
pub const BUCKET: &str = "bucket";

/// Content of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Numbers and sizes of the pieces its bytes are made of.
    pieces: Vec<(u64, usize)>,
    multipart: bool,
}

impl Value {
    fn etag(&self) -> String {
        let numbers: Vec<_> = self.pieces.iter().map(|(number, _)| number.to_string()).collect();
        numbers.join("-")
    }

    fn size(&self) -> u64 {
        self.pieces.iter().map(|(_, size)| *size as u64).sum()
    }

    fn bytes(&self) -> Bytes {
        let pieces: Vec<_> = self.pieces.iter().map(|(number, size)| bytes_of(*number, *size)).collect();
        pieces.concat().into()
    }
}

#[derive(Clone, Debug, Default)]
struct Upload {
    key: String,
    parts: BTreeMap<u32, (u64, usize)>,
}

/// Call under way when the power failed.
#[derive(Clone, Debug)]
enum Doing {
    Put(String, Value),
    Delete(String),
    Begin(String),
    /// The last field is the part that was sent before it for the same number and acknowledged, in the same step.
    Part(UploadId, u32, (u64, usize), Option<(u64, usize)>),
    Complete(UploadId, String, Value),
    Abort(UploadId),
}

/// Sizes of objects.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Up to this in most cases,
    pub small: u64,
    /// and up to this in some.
    pub large: u64,
}

/// A client. It does one thing at a time, to keys of its own.
#[derive(Clone, Debug)]
pub struct Client {
    name: String,
    random: Random,
    next: u64,
    sizes: Sizes,
    keys: u64,
    objects: BTreeMap<String, Value>,
    uploads: BTreeMap<UploadId, Upload>,
    /// Shared with copies made before, so that they know the calls under way.
    doing: Rc<RefCell<Option<Doing>>>,
    /// Writes refused for want of space.
    pub refused: u64,
}

impl Client {
    /// A client with a unique name.
    pub fn new(name: &str, seed: u64, keys: u64, sizes: Sizes) -> Self {
        let objects = BTreeMap::new();
        let random = Random::new(seed);
        let next = seed << 20;
        Self {
            name: name.to_owned(),
            random,
            next,
            sizes,
            keys,
            objects,
            uploads: BTreeMap::new(),
            doing: Rc::default(),
            refused: 0,
        }
    }

    /// A copy that shares nothing with this one.
    pub fn fork(&self) -> Self {
        Self { doing: Rc::new(RefCell::new(self.doing.borrow().clone())), ..self.clone() }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn key(&mut self) -> String {
        let number = self.random.below(self.keys);
        format!("{}/{}/{number}", self.name, number % 3)
    }

    fn size(&mut self) -> usize {
        let most = if self.random.chance(0.2) { self.sizes.large } else { self.sizes.small };
        self.random.between(0, most) as usize
    }

    /// Does `count` random things.
    ///
    /// # Errors
    /// The first broken promise.
    pub async fn work(&mut self, store: &dyn ObjectStore, count: usize) -> Result<(), Failure> {
        for _ in 0..count {
            match self.random.below(100) {
                0..30 => self.put(store).await?,
                30..45 => self.delete(store).await?,
                45..60 => self.read_one(store).await?,
                60..65 => self.list(store).await?,
                65..72 => self.begin(store).await?,
                72..87 => self.part(store).await?,
                87..93 => self.complete(store).await?,
                93..96 => self.abort(store).await?,
                _ => self.give_up(store).await?,
            }
        }
        Ok(())
    }

    fn wrong(&self, what: impl std::fmt::Display) -> Failure {
        Failure::wrong(&self.name, what)
    }

    fn failed(&self, what: impl std::fmt::Display, error: &StoreError) -> Failure {
        Failure::error(&self.name, what, error)
    }

    /// Takes the result of a write, and returns true if it happened. With an error of a drive it may have.
    fn happened<T>(&mut self, what: &str, result: StoreResult<T>) -> Result<Option<T>, Failure> {
        let done = match result {
            Ok(value) => Some(value),
            Err(error) if error.kind == StoreErrorKind::NoSpace => {
                self.refused += 1;
                None
            }
            Err(error) => return Err(self.failed(what, &error)),
        };
        self.doing.replace(None);
        Ok(done)
    }

    async fn put(&mut self, store: &dyn ObjectStore) -> Result<(), Failure> {
        let key = self.key();
        let value = Value { pieces: vec![(self.number(), self.size())], multipart: false };
        let condition = match self.random.below(8) {
            0 => Condition { absent: true, etag: None },
            1 => Condition { absent: false, etag: Some("*".to_owned()) },
            2 => Condition { absent: false, etag: self.objects.get(&key).map(Value::etag) },
            _ => Condition::default(),
        };
        let present = self.objects.get(&key).map(Value::etag);
        let holds = !(condition.absent && present.is_some())
            && condition
                .etag
                .as_ref()
                .is_none_or(|want| present.as_ref().is_some_and(|have| want == "*" || want == have));
        self.doing.replace(holds.then(|| Doing::Put(key.clone(), value.clone())));
        let result = put(store, BUCKET, &key, &value.bytes(), Commit { condition, ..commit(&value.etag()) }).await;
        match result {
            Err(error) if error.kind == StoreErrorKind::PreconditionFailed && !holds => Ok(()),
            result => {
                if self.happened("put", result)?.is_some() {
                    if !holds {
                        return Err(self.wrong(format!("a condition on {key} was not checked")));
                    }
                    self.objects.insert(key, value);
                }
                Ok(())
            }
        }
    }

    /// Begins to write and does not commit.
    async fn give_up(&mut self, store: &dyn ObjectStore) -> Result<(), Failure> {
        let key = self.key();
        let (number, size) = (self.number(), self.size());
        let writer = store.begin_put(BUCKET, &key).await;
        let mut writer = writer.map_err(|error| self.failed("begin put", &error))?;
        for piece in pieces(&bytes_of(number, size)) {
            if writer.write(piece).await.is_err() {
                self.refused += 1;
                break;
            }
        }
        Ok(())
    }

    async fn delete(&mut self, store: &dyn ObjectStore) -> Result<(), Failure> {
        let key = self.key();
        self.doing.replace(Some(Doing::Delete(key.clone())));
        let result = store.delete(BUCKET, &key).await;
        if let Some(was_there) = self.happened("delete", result)? {
            let expected = self.objects.remove(&key).is_some();
            if was_there != expected {
                return Err(self.wrong(format!("delete of {key}: was there {was_there}, expected {expected}")));
            }
        }
        Ok(())
    }

    async fn begin(&mut self, store: &dyn ObjectStore) -> Result<(), Failure> {
        if self.uploads.len() >= 4 {
            return Ok(());
        }
        let key = self.key();
        self.doing.replace(Some(Doing::Begin(key.clone())));
        let metadata = Metadata::from([("x-amz-meta-begun".to_owned(), key.clone())]);
        let result = store.begin_upload(BUCKET, &key, metadata).await;
        if let Some(info) = self.happened("begin upload", result)? {
            self.uploads.insert(info.id, Upload { key, parts: BTreeMap::new() });
        }
        Ok(())
    }

    fn any_upload(&mut self) -> Option<(UploadId, Upload)> {
        let at = self.random.below(self.uploads.len().max(1) as u64) as usize;
        self.uploads.iter().nth(at).map(|(id, upload)| (*id, upload.clone()))
    }

    /// Sends a part; at times while another of the same number is on its way, begun before it and committed after it. The last
    /// that is acknowledged counts.
    async fn part(&mut self, store: &dyn ObjectStore) -> Result<(), Failure> {
        let Some((id, upload)) = self.any_upload() else { return Ok(()) };
        let number = self.random.between(1, 4) as u32;
        let part = (self.number(), self.size());
        let around = if self.random.chance(0.3) { Some((self.number(), self.size())) } else { None };
        let begun = match around {
            None => None,
            Some((content, size)) => {
                let begun = begin_part(store, BUCKET, &upload.key, id, number, bytes_of(content, size)).await;
                begun.map_err(|error| self.failed("begin part", &error)).map(Some)?
            }
        };
        self.doing.replace(Some(Doing::Part(id, number, part, None)));
        let sent = async {
            let (writer, rest) = begin_part(store, BUCKET, &upload.key, id, number, bytes_of(part.0, part.1)).await?;
            end_part(writer, rest, part.0).await
        };
        let result = sent.await;
        let before = self.happened("part", result)?.map(|_| part);
        if before.is_some() {
            self.uploads.entry(id).or_default().parts.insert(number, part);
        }
        if let (Some(part), Some((writer, rest))) = (around, begun) {
            self.doing.replace(Some(Doing::Part(id, number, part, before)));
            let result = end_part(writer, rest, part.0).await;
            if self.happened("part that was begun earlier", result)?.is_some() {
                self.uploads.entry(id).or_default().parts.insert(number, part);
            }
        }
        Ok(())
    }

    async fn complete(&mut self, store: &dyn ObjectStore) -> Result<(), Failure> {
        let Some((id, upload)) = self.any_upload() else { return Ok(()) };
        let chosen: Vec<_> = upload.parts.iter().filter(|(number, _)| **number != 3).collect();
        // The least size of a part, in these tests, is one byte.
        let small = chosen.iter().rev().skip(1).any(|(_, (_, size))| *size == 0);
        if chosen.is_empty() || small {
            return Ok(());
        }
        let value = Value { pieces: chosen.iter().map(|(_, part)| **part).collect(), multipart: true };
        let wanted = chosen
            .iter()
            .map(|(number, (etag, _))| CompletedPart { number: **number, etag: etag.to_string() })
            .collect();
        self.doing.replace(Some(Doing::Complete(id, upload.key.clone(), value.clone())));
        let result = store.complete_upload(BUCKET, &upload.key, id, wanted, commit(&value.etag())).await;
        if self.happened("complete", result)?.is_some() {
            self.uploads.remove(&id);
            self.objects.insert(upload.key, value);
        }
        Ok(())
    }

    async fn abort(&mut self, store: &dyn ObjectStore) -> Result<(), Failure> {
        let Some((id, upload)) = self.any_upload() else { return Ok(()) };
        self.doing.replace(Some(Doing::Abort(id)));
        let result = store.abort_upload(BUCKET, &upload.key, id).await;
        if self.happened("abort", result)?.is_some() {
            self.uploads.remove(&id);
        }
        Ok(())
    }

    async fn read_one(&mut self, store: &dyn ObjectStore) -> Result<(), Failure> {
        let key = self.key();
        let expected = self.objects.get(&key).cloned();
        self.expect(store, &key, expected.as_ref()).await
    }

    /// Checks that `key` has the expected attributes and bytes, read as a whole and as a range.
    async fn expect(&mut self, store: &dyn ObjectStore, key: &str, expected: Option<&Value>) -> Result<(), Failure> {
        let found = store.open(BUCKET, key).await;
        let Some(value) = expected else {
            return match found {
                Err(error) if error.kind == StoreErrorKind::NoSuchKey => Ok(()),
                Err(error) => Err(self.failed(key, &error)),
                Ok(reader) => Err(self.wrong(format!("{key} is there: {:?}", reader.info()))),
            };
        };
        let reader = found.map_err(|error| self.failed(format!("{key}, expected {value:?}"), &error))?;
        let info = reader.info();
        let sizes: Vec<u64> = value.pieces.iter().map(|(_, size)| *size as u64).collect();
        let sizes = if value.multipart { sizes } else { Vec::new() };
        if (info.size, &info.etag, &info.part_sizes) != (value.size(), &value.etag(), &sizes) {
            return Err(self.wrong(format!("{key}, expected {value:?}: {info:?}")));
        }
        if info.metadata.get("x-amz-meta-tag") != Some(&format!("of {}", value.etag())) {
            return Err(self.wrong(format!("{key} has the metadata of another: {info:?}")));
        }
        let size = value.size();
        let from = self.random.between(0, size);
        let length = self.random.between(0, size - from);
        for (from, length) in [(0, size), (from, length)] {
            let bytes = reader.read(from, length).await.map_err(|error| self.failed(key, &error))?;
            if bytes != value.bytes().slice(from as usize..(from + length) as usize) {
                return Err(self.wrong(format!("{key}: {length} bytes from {from} differ")));
            }
        }
        Ok(())
    }

    async fn list(&mut self, store: &dyn ObjectStore) -> Result<(), Failure> {
        let prefix = format!("{}/", self.name);
        let mut request = ListRequest { prefix, limit: 7, ..ListRequest::default() };
        let mut found = BTreeMap::new();
        loop {
            let page = store.list(BUCKET, request.clone()).await.map_err(|error| self.failed("list", &error))?;
            found.extend(page.objects.into_iter().map(|object| (object.key, object.etag)));
            let Some(next) = page.next else { break };
            request.after = Some(next);
        }
        let expected: BTreeMap<_, _> = self.objects.iter().map(|(key, value)| (key.clone(), value.etag())).collect();
        if found != expected {
            return Err(self.wrong(format!("a listing shows {found:?}, expected {expected:?}")));
        }
        Ok(())
    }

    /// Checks all keys. A call that was under way when the power failed has happened or has not; this finds out which.
    ///
    /// # Errors
    /// The first broken promise.
    pub async fn verify(&mut self, store: &dyn ObjectStore) -> Result<(), Failure> {
        self.settle(store).await?;
        for (key, value) in self.objects.clone() {
            self.expect(store, &key, Some(&value)).await?;
        }
        self.list(store).await?;
        let uploads = self.listed_uploads(store).await?;
        let expected: BTreeMap<_, _> = self.uploads.iter().map(|(id, upload)| (*id, upload.key.clone())).collect();
        if uploads != expected {
            return Err(self.wrong(format!("uploads are {uploads:?}, expected {expected:?}")));
        }
        for (id, upload) in self.uploads.clone() {
            let parts = store.list_parts(BUCKET, &upload.key, id, 0, 100).await;
            let parts = parts.map_err(|error| self.failed("list parts", &error))?.0;
            let found: BTreeMap<_, _> = parts.into_iter().map(|part| (part.number, (part.etag, part.size))).collect();
            let have = upload.parts.iter();
            let expected: BTreeMap<_, _> =
                have.map(|(number, (etag, size))| (*number, (etag.to_string(), *size as u64))).collect();
            if found != expected {
                return Err(self.wrong(format!("parts of {id} are {found:?}, expected {expected:?}")));
            }
        }
        Ok(())
    }

    async fn listed_uploads(&self, store: &dyn ObjectStore) -> Result<BTreeMap<UploadId, String>, Failure> {
        let prefix = format!("{}/", self.name);
        let mut found = BTreeMap::new();
        let mut after = None;
        loop {
            let page = store.list_uploads(BUCKET, &prefix, after.clone(), 3).await;
            let page = page.map_err(|error| self.failed("list uploads", &error))?;
            after = page.uploads.last().map(|upload| (upload.key.clone(), Some(upload.id)));
            found.extend(page.uploads.into_iter().map(|upload| (upload.id, upload.key)));
            if !page.truncated {
                return Ok(found);
            }
        }
    }

    async fn settle(&mut self, store: &dyn ObjectStore) -> Result<(), Failure> {
        let name = self.name.clone();
        let etag_of = async |key: &str| match store.head(BUCKET, key).await {
            Ok(info) => Ok(Some(info.etag)),
            Err(error) if error.kind == StoreErrorKind::NoSuchKey => Ok(None),
            Err(error) => Err(Failure::error(&name, key, &error)),
        };
        let doing = self.doing.take();
        // Numbers of calls that were under way are not used again.
        self.next += 1000;
        match doing {
            None => {}
            Some(Doing::Put(key, value)) => {
                let now = etag_of(&key).await?;
                if now == Some(value.etag()) {
                    self.objects.insert(key, value);
                }
            }
            Some(Doing::Delete(key)) => {
                let now = etag_of(&key).await?;
                if now.is_none() {
                    self.objects.remove(&key);
                }
            }
            Some(Doing::Begin(key)) => {
                for (id, of) in self.listed_uploads(store).await? {
                    if of == key {
                        self.uploads.entry(id).or_insert(Upload { key: key.clone(), parts: BTreeMap::new() });
                    }
                }
            }
            Some(Doing::Part(id, number, part, before)) => {
                let Some(upload) = self.uploads.get_mut(&id) else { return Ok(()) };
                if let Some(before) = before {
                    upload.parts.insert(number, before);
                }
                let parts = store.list_parts(BUCKET, &upload.key, id, 0, 100).await;
                let parts = parts.map_err(|error| Failure::error(&name, "list parts", &error))?;
                if parts.0.iter().any(|found| found.number == number && found.etag == part.0.to_string()) {
                    upload.parts.insert(number, part);
                }
            }
            Some(Doing::Complete(id, key, value)) => {
                // Object and end of the upload come together.
                let object = etag_of(&key).await? == Some(value.etag());
                let ended = !self.listed_uploads(store).await?.contains_key(&id);
                if object != ended {
                    return Err(self.wrong(format!("{key} is half completed: object {object}, upload ended {ended}")));
                }
                if ended {
                    self.uploads.remove(&id);
                    self.objects.insert(key, value);
                }
            }
            Some(Doing::Abort(id)) => {
                let uploads = self.listed_uploads(store).await?;
                if !uploads.contains_key(&id) {
                    self.uploads.remove(&id);
                }
            }
        }
        Ok(())
    }

    /// Objects that it has.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }
}
