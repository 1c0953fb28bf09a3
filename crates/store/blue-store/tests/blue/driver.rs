//! A random history of transactions in several collections at once, held against the model as it goes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::BLOCK_SIZE;
use shingle_blue_store::{BlueError, BlueErrorKind, CollectionInfo, ObjectId, Store, Transaction};
use shingle_sim::{Medium, Random, Sim, SimDevice, contents};

use crate::common::open;
use crate::world::{Drawer, World};

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

/// States of a collection: those that its objects may be in after a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    /// The newest is that of all transactions that were submitted.
    pub(crate) states: Vec<World>,
    /// The one that is durable, by its number.
    pub(crate) durable: usize,
}

impl Line {
    fn now(&self) -> World {
        self.states.last().cloned().unwrap_or_default()
    }
}

/// Lines of all collections.
pub(crate) type Lines = Vec<Line>;

/// A random history.
pub(crate) struct Driver<'j> {
    pub(crate) store: Store,
    pub(crate) lines: Rc<RefCell<Lines>>,
    pub(crate) drawers: Vec<Drawer>,
    pub(crate) random: Random,
    pub(crate) seed: u64,
    pub(crate) judge: &'j dyn Fn(&BlueError) -> Verdict,
    /// A transaction of this round found no room.
    refused: bool,
}

impl<'j> Driver<'j> {
    pub(crate) fn new(
        store: Store,
        infos: &[CollectionInfo],
        lines: Rc<RefCell<Lines>>,
        seed: u64,
        judge: &'j dyn Fn(&BlueError) -> Verdict,
    ) -> Self {
        let most = store.stats().capacity_bytes as usize / 3 / infos.len();
        let drawers = infos.iter().map(|info| Drawer::new(*info, most)).collect();
        Self { store, lines, drawers, random: Random::new(seed), seed, judge, refused: false }
    }

    /// From now on bytes that can be compressed take half of their blocks, and not one: writes leave parts of them. (BLU-THIN-1)
    pub(crate) fn squeeze(&mut self) {
        self.drawers.iter_mut().for_each(|drawer| drawer.squeezes = true);
    }

    /// Runs so many rounds of transactions.
    pub(crate) async fn run(&mut self, rounds: u64) -> Result<(), Broken> {
        for _ in 0..rounds {
            self.round().await?;
            match self.random.below(12) {
                0 => self.read().await?,
                1 => self.compare().await?,
                2 => {
                    if let Err(error) = self.store.flush_deferred().await {
                        self.judged(&error, "flush")?;
                    }
                }
                _ => {}
            }
        }
        self.compare().await
    }

    fn judged(&self, error: &BlueError, doing: &str) -> Result<(), Broken> {
        match (self.judge)(error) {
            Verdict::Over => Err(Broken::Over),
            Verdict::Explained => Ok(()),
            Verdict::Wrong => Err(Broken::Wrong(format!("{doing}: {error}"))),
        }
    }

    /// Submits some transactions in some collections, all at once.
    async fn round(&mut self) -> Result<(), Broken> {
        let mut submitted = Vec::new();
        for number in 0..self.drawers.len() {
            for _ in 0..self.random.below(4) {
                let before = self.lines.borrow()[number].now();
                let drawn = self.drawers[number].draw(&mut self.random, self.seed, &before);
                self.lines.borrow_mut()[number].states.push(drawn.after);
                let state = self.lines.borrow()[number].states.len() - 1;
                let running = self.store.submit(self.drawers[number].info.id, drawn.transaction);
                let lines = self.lines.clone();
                submitted.push(async move {
                    let ended = running.await;
                    if ended.is_ok() {
                        let line = &mut lines.borrow_mut()[number];
                        line.durable = line.durable.max(state);
                    }
                    (number, drawn.fails, ended)
                });
            }
        }
        let ended = join_all(submitted).await;
        let result = self.judge_all(ended).await;
        if result.is_err() && std::mem::take(&mut self.refused) {
            // The life is over before the model could take over what was made, perhaps in the middle of that (seed 446).
            self.lines.borrow_mut().clear();
        }
        result
    }

    async fn judge_all(&mut self, all: Vec<(usize, bool, Result<(), BlueError>)>) -> Result<(), Broken> {
        let mut unsure = BTreeSet::new();
        self.refused =
            all.iter().any(|(.., ended)| matches!(ended, Err(error) if error.kind == BlueErrorKind::NoSpace));
        for (number, fails, ended) in all {
            match ended {
                // One before it did not happen.
                Ok(()) if fails && unsure.contains(&number) => {}
                Err(error) if unsure.contains(&number) && is_missing(&error) => {}
                Ok(()) if fails => return Err(Broken::Wrong("a transaction that has to fail did not".to_owned())),
                Err(error) if fails && is_missing(&error) => {}
                Err(error) => {
                    self.judged(&error, "transaction")?;
                    unsure.insert(number);
                }
                Ok(()) => {}
            }
        }
        for number in unsure {
            self.resync(number).await?;
        }
        Ok(())
    }

    /// A transaction found no room, and later ones did: the model takes over what they have made.
    async fn resync(&mut self, number: usize) -> Result<(), Broken> {
        let explains = |error: &BlueError| (self.judge)(error) == Verdict::Explained;
        let now = self.lines.borrow()[number].now();
        match World::look(&self.store, &self.drawers[number].info, &explains, &now).await {
            Ok((found, false)) => {
                self.lines.borrow_mut()[number] = Line { states: vec![found], durable: 0 };
                Ok(())
            }
            Ok(_) => {
                // Nobody can tell what is in bytes that cannot be read.
                self.lines.borrow_mut().clear();
                Err(Broken::Over)
            }
            Err(wrong) => Err(Broken::Wrong(wrong)),
        }
    }

    /// Holds all objects against the model. Nothing is under way.
    async fn compare(&mut self) -> Result<(), Broken> {
        for (number, drawer) in self.drawers.iter().enumerate() {
            let expected = self.lines.borrow()[number].now();
            let explains = |error: &BlueError| (self.judge)(error) == Verdict::Explained;
            let found = World::look(&self.store, &drawer.info, &explains, &expected).await;
            match found {
                Ok((found, _)) if found == expected => {}
                Ok((found, _)) => return Err(Broken::Wrong(format!("other objects: {}", found.differs(&expected)))),
                Err(wrong) => return Err(Broken::Wrong(wrong)),
            }
        }
        Ok(())
    }

    /// Reads some bytes of some object.
    async fn read(&mut self) -> Result<(), Broken> {
        for number in 0..self.drawers.len() {
            let world = self.lines.borrow()[number].now();
            let at = self.random.below(world.0.len().max(1) as u64) as usize;
            let Some((id, thing)) = world.0.iter().nth(at) else { continue };
            let (from, length) = (self.random.below(thing.bytes.len() as u64 + 10), self.random.below(50_000));
            let size = thing.bytes.len();
            let (first, last) = (size.min(from as usize), size.min((from + length) as usize));
            match self.store.read(id, from, length).await {
                Ok(read) if read[..] == thing.bytes[first..last] => {}
                Ok(_) => return Err(Broken::Wrong(format!("{id} at {from}, {length} bytes: other bytes"))),
                Err(error) => self.judged(&error, "read")?,
            }
        }
        Ok(())
    }
}

fn is_missing(error: &BlueError) -> bool {
    matches!(error.kind, BlueErrorKind::NotFound | BlueErrorKind::Exists)
}

/// Holds the collections of a store against the states that they may be in, and goes on from those that they are in. False if it cannot be
/// told which of them that is, as some bytes cannot be read.
pub(crate) async fn verify(
    store: &Store,
    infos: &[CollectionInfo],
    lines: &mut Lines,
    explains: impl Fn(&BlueError) -> bool,
) -> Result<bool, String> {
    let mut certain = true;
    for (info, line) in infos.iter().zip(lines) {
        let (mut wrong, mut matches) = (String::new(), Vec::new());
        let from = line.durable.min(line.states.len() - 1);
        for (number, state) in line.states.iter().enumerate().skip(from) {
            match World::look(store, info, &explains, state).await {
                Ok((found, guessed)) if found == *state => matches.push((number, guessed)),
                Ok((found, _)) => wrong = found.differs(state),
                Err(error) => wrong = error,
            }
        }
        let Some((number, _)) = matches.last() else {
            let under_way = line.states.len() - 1 - from;
            return Err(format!("collection {}, {under_way} transactions under way: {wrong}", info.id));
        };
        certain &= matches.len() == 1 || matches.iter().all(|(_, guessed)| !guessed);
        *line = Line { states: vec![line.states[*number].clone()], durable: 0 };
    }
    Ok(certain)
}

/// The end of a chain of lives: on a drive that reads all there is room for one more object, with nothing removed, unless zones of it are
/// missing, or what lives fills it.
pub(crate) fn takes_one_more(seed: u64, medium: Medium, info: CollectionInfo) {
    medium.heal();
    Sim::new(seed).run(move |rt| async move {
        let device = SimDevice::resume(&rt, medium);
        let (store, _) =
            open(&rt, &device).await.unwrap_or_else(|error| panic!("seed {seed}: it does not open: {error}"));
        let stats = store.stats();
        let zone = stats.capacity_bytes / u64::from(stats.zones);
        let usable = u64::from(stats.zones - stats.zones_broken) * zone;
        // As where full drives are filled: zones for copies, and the ends of a few open ones. Broken zones may have been those.
        let fits = usable >= stats.live_bytes + stats.deferred_bytes + 7 * zone;
        if !fits || stats.zones_broken > 0 && stats.zones_free == 0 {
            return;
        }
        let mut transaction = Transaction::new();
        let id = ObjectId { hash: info.id.seed, ..ObjectId::new(1, "one more") };
        transaction.write(&id, 0, contents(seed, 0, 3 * BLOCK_SIZE as u64));
        let wrote = store.submit(info.id, transaction).await;
        assert_eq!(wrote, Ok(()), "seed {seed}: {stats:?}, {:?}", store.dump());
    });
}
