//! A random history of calls, held against the model as it goes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_sim::{Random, contents};
use shingle_zone_files::{CreateOptions, File, FileKind, FilesError, FilesErrorKind, WriteLifetime, ZoneFiles};

use crate::world::{Model, World, Worlds};

/// Judgement of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The life is over.
    Over,
    /// The drive's faults explain it.
    Explained,
    Wrong,
}

/// End of a history.
pub(crate) enum Broken {
    Over,
    Wrong(String),
}

/// A random history on files.
pub(crate) struct Driver<'j> {
    pub(crate) files: ZoneFiles,
    pub(crate) worlds: Rc<RefCell<Worlds>>,
    pub(crate) random: Random,
    /// Bytes of all files together at most.
    pub(crate) bytes_max: usize,
    pub(crate) judge: &'j dyn Fn(&FilesError) -> Verdict,
    handles: BTreeMap<u64, Rc<File>>,
    next_id: u64,
}

const DIRS: [&str; 3] = ["", "a", "a/b"];

impl<'j> Driver<'j> {
    pub(crate) fn new(
        files: ZoneFiles,
        worlds: Rc<RefCell<Worlds>>,
        random: Random,
        judge: &'j dyn Fn(&FilesError) -> Verdict,
    ) -> Self {
        // Numbers of earlier lives are not used again.
        let next_id = worlds.borrow().now.files.keys().last().copied().unwrap_or(0) + 1000;
        Self { files, worlds, random, bytes_max: 600_000, judge, handles: BTreeMap::new(), next_id }
    }

    /// Runs so many steps.
    pub(crate) async fn run(&mut self, steps: u64) -> Result<(), Broken> {
        for _ in 0..steps {
            match self.random.below(20) {
                0..=1 => self.create().await?,
                2..=8 => self.append().await?,
                9..=11 => self.sync_some().await?,
                12 => self.rename().await?,
                13 => self.unlink().await?,
                14..=16 => self.read().await?,
                17 => self.change_dirs().await?,
                18 => self.truncate().await?,
                _ => self.small_things().await?,
            }
        }
        Ok(())
    }

    fn judged(&self, error: &FilesError, doing: &str) -> Result<(), Broken> {
        match (self.judge)(error) {
            Verdict::Over => Err(Broken::Over),
            Verdict::Explained => Ok(()),
            Verdict::Wrong => Err(Broken::Wrong(format!("{doing}: {error}"))),
        }
    }

    /// A change of names, which happens as a whole or not at all.
    async fn change(
        &mut self,
        doing: &str,
        next: World,
        call: impl Future<Output = Result<(), FilesError>>,
    ) -> Result<bool, Broken> {
        self.worlds.borrow_mut().next = Some(next);
        match call.await {
            Ok(()) => {
                let mut worlds = self.worlds.borrow_mut();
                if let Some(next) = worlds.next.take() {
                    worlds.now = next;
                }
                Ok(true)
            }
            Err(error) => {
                self.judged(&error, doing)?;
                // Refused calls change nothing; with any other failure the files have stopped.
                if error.kind == FilesErrorKind::NoSpace {
                    self.worlds.borrow_mut().next = None;
                    return Ok(false);
                }
                Err(Broken::Over)
            }
        }
    }

    fn world(&self) -> World {
        self.worlds.borrow().now.clone()
    }

    fn some_path(&mut self) -> Option<(String, u64)> {
        let worlds = self.worlds.borrow();
        let names: Vec<_> = worlds.now.names.iter().collect();
        let number = self.random.below(names.len().max(1) as u64) as usize;
        names.get(number).map(|(path, id)| ((*path).clone(), **id))
    }

    fn new_path(&mut self) -> String {
        let dirs = self.worlds.borrow().now.dirs.clone();
        let dir = DIRS[self.random.below(3) as usize];
        let name = format!("f{}", self.random.below(12));
        if dirs.contains(dir) { format!("{dir}/{name}") } else { name }
    }

    fn handle(&mut self, path: &str, id: u64) -> Result<Rc<File>, Broken> {
        if let Some(file) = self.handles.get(&id) {
            return Ok(file.clone());
        }
        match self.files.open_file(path) {
            Ok(file) => Ok(self.handles.entry(id).or_insert(Rc::new(file)).clone()),
            Err(error) => Err(self.judged(&error, "open").err().unwrap_or(Broken::Over)),
        }
    }

    async fn create(&mut self) -> Result<(), Broken> {
        let path = self.new_path();
        let kinds = [FileKind::Wal, FileKind::Sst, FileKind::Manifest, FileKind::Other];
        let lifetimes = [WriteLifetime::None, WriteLifetime::Short, WriteLifetime::Long];
        let options = CreateOptions {
            kind: kinds[self.random.below(4) as usize],
            lifetime: lifetimes[self.random.below(3) as usize],
            expected_bytes: self.random.below(2) * 400_000,
            exclusive: false,
        };
        let id = self.next_id;
        self.next_id += 1;
        let mut next = self.world();
        next.files.insert(id, Model { kind: options.kind, ..Model::default() });
        next.names.insert(path.clone(), id);
        let files = self.files.clone();
        let made = Rc::new(RefCell::new(None));
        let kept = made.clone();
        let call = async move {
            *kept.borrow_mut() = Some(files.create(&path, options).await?);
            Ok(())
        };
        self.change("create", next, call).await?;
        if let Some(file) = made.take() {
            self.handles.insert(id, Rc::new(file));
        }
        Ok(())
    }

    async fn append(&mut self) -> Result<(), Broken> {
        let held: usize = self.worlds.borrow().now.files.values().map(|model| model.bytes.len()).sum();
        if held > self.bytes_max {
            return self.unlink().await;
        }
        let Some((path, id)) = self.some_path() else { return Ok(()) };
        let file = self.handle(&path, id)?;
        let length = match self.random.below(4) {
            0 => self.random.below(100),
            1 => self.random.below(5_000),
            2 => self.random.below(30_000),
            _ => self.random.below(90_000),
        };
        let from = self.worlds.borrow().now.files[&id].bytes.len() as u64;
        // Bytes tell their file, their place, and the write.
        let data = contents(id << 32 | self.random.below(1 << 30), from, length);
        let appended = file.append(vec![Bytes::from(data.clone())]);
        if let Some(model) = self.worlds.borrow_mut().now.files.get_mut(&id) {
            Rc::make_mut(&mut model.bytes).extend(&data);
        }
        if let Err(error) = appended.await {
            if error.kind == FilesErrorKind::NoSpace {
                // They were not taken.
                if let Some(model) = self.worlds.borrow_mut().now.files.get_mut(&id) {
                    Rc::make_mut(&mut model.bytes).truncate(from as usize);
                }
            }
            self.judged(&error, "append")?;
        }
        Ok(())
    }

    async fn sync_some(&mut self) -> Result<(), Broken> {
        let count = self.random.between(1, 4);
        let chosen: BTreeMap<u64, String> =
            (0..count).filter_map(|_| self.some_path()).map(|(path, id)| (id, path)).collect();
        let mut files: Vec<(u64, usize, Rc<File>)> = Vec::new();
        for (id, path) in chosen {
            let length = self.worlds.borrow().now.files[&id].bytes.len();
            files.push((id, length, self.handle(&path, id)?));
        }
        let synced = join_all(files.iter().map(|(id, length, file)| async {
            let result = file.sync().await;
            if result.is_ok()
                && let Some(model) = self.worlds.borrow_mut().now.files.get_mut(id)
            {
                model.synced = model.synced.max(*length);
            }
            result
        }))
        .await;
        for error in synced.into_iter().filter_map(Result::err) {
            self.judged(&error, "sync")?;
        }
        Ok(())
    }

    async fn rename(&mut self) -> Result<(), Broken> {
        let (Some((from, id)), to) = (self.some_path(), self.new_path()) else { return Ok(()) };
        let mut next = self.world();
        if next.names.get(&to) != Some(&id) {
            next.names.remove(&from);
            next.names.insert(to.clone(), id);
        }
        let files = self.files.clone();
        self.change("rename", next, async move { files.rename(&from, &to).await }).await.map(drop)
    }

    async fn unlink(&mut self) -> Result<(), Broken> {
        let Some((path, id)) = self.some_path() else { return Ok(()) };
        let mut next = self.world();
        next.names.remove(&path);
        let gone = !next.names.values().any(|other| *other == id);
        if self.random.chance(0.8) {
            self.handles.remove(&id);
        }
        let files = self.files.clone();
        self.change("remove", next, async move { files.remove(&path).await }).await?;
        if gone && let Some(file) = self.handles.remove(&id) {
            // It can be read and written while it is open.
            let expected = self.worlds.borrow().now.files[&id].bytes.clone();
            match file.read(0, u64::MAX).await {
                Ok(read) if read[..] == expected[..] => {}
                Ok(_) => return Err(Broken::Wrong("an open file without a name has other bytes".to_owned())),
                Err(error) => self.judged(&error, "read without a name")?,
            }
            if let Err(error) = file.append(vec![Bytes::from_static(b"more")]).await {
                self.judged(&error, "append without a name")?;
            }
            if let Err(error) = file.sync().await {
                self.judged(&error, "sync without a name")?;
            }
        }
        if gone {
            self.worlds.borrow_mut().now.files.remove(&id);
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), Broken> {
        let Some((path, id)) = self.some_path() else { return Ok(()) };
        let file = self.handle(&path, id)?;
        let expected = self.worlds.borrow().now.files[&id].bytes.clone();
        if file.size() != expected.len() as u64 {
            return Err(Broken::Wrong(format!("`{path}` has {} bytes, not {}", file.size(), expected.len())));
        }
        let from = self.random.below(expected.len() as u64 + 10);
        let length = self.random.below(100_000);
        let (first, last) = (expected.len().min(from as usize), expected.len().min((from + length) as usize));
        match file.read(from, length).await {
            Ok(read) if read[..] == expected[first..last] => Ok(()),
            Ok(_) => Err(Broken::Wrong(format!("`{path}` at {from}, {length} bytes: other bytes"))),
            Err(error) => self.judged(&error, "read"),
        }
    }

    async fn change_dirs(&mut self) -> Result<(), Broken> {
        let mut next = self.world();
        let files = self.files.clone();
        let dir = DIRS[1 + self.random.below(2) as usize].to_owned();
        if !next.dirs.contains(&dir) {
            if dir == "a/b" && !next.dirs.contains("a") {
                return Ok(());
            }
            next.dirs.insert(dir.clone());
            return self.change("make a directory", next, async move { files.make_dir(&dir).await }).await.map(drop);
        }
        let inside = format!("{dir}/");
        if next.names.keys().chain(&next.dirs).any(|path| path.starts_with(&inside)) {
            let refused = files.remove_dir(&dir).await.map_err(|error| error.kind);
            return match refused {
                Err(FilesErrorKind::NotEmpty) => Ok(()),
                Err(FilesErrorKind::Unavailable) => Err(Broken::Over),
                other => Err(Broken::Wrong(format!("a directory that is not empty: {other:?}"))),
            };
        }
        next.dirs.remove(&dir);
        self.change("remove a directory", next, async move { files.remove_dir(&dir).await }).await.map(drop)
    }

    async fn truncate(&mut self) -> Result<(), Broken> {
        let Some((path, id)) = self.some_path() else { return Ok(()) };
        let file = self.handle(&path, id)?;
        let size = self.random.below(self.worlds.borrow().now.files[&id].bytes.len() as u64 + 1);
        // Without a sync, a cut file may have any length below as well.
        let mut next = self.world();
        if let Some(model) = next.files.get_mut(&id) {
            Rc::make_mut(&mut model.bytes).truncate(size as usize);
            model.synced = model.synced.min(size as usize);
        }
        self.change("truncate", next, async move { file.truncate(size).await }).await.map(drop)
    }

    async fn small_things(&mut self) -> Result<(), Broken> {
        match self.random.below(4) {
            0 => {
                let (Some((from, id)), to) = (self.some_path(), self.new_path()) else { return Ok(()) };
                let mut next = self.world();
                if next.names.contains_key(&to) {
                    return Ok(());
                }
                next.names.insert(to.clone(), id);
                let files = self.files.clone();
                self.change("link", next, async move { files.link(&from, &to).await }).await.map(drop)
            }
            1 => {
                let Some((path, id)) = self.some_path() else { return Ok(()) };
                let flushed = self.handle(&path, id)?.flush().await;
                flushed.or_else(|error| self.judged(&error, "flush"))
            }
            2 => {
                let done = self.files.checkpoint().await;
                done.or_else(|error| self.judged(&error, "checkpoint"))
            }
            _ => {
                // All handles go; what they appended is written some time later.
                self.handles.clear();
                Ok(())
            }
        }
    }
}
