//! A caller that does random things to a block store, many at once, and holds all that it reads against a shadow.
//!
//! **Owns** the draw of calls. **Knows nothing of** the versions that a sector may have, and of the store's life: the caller has
//! the power fail, and says which failures that explains.

use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{Either, LocalBoxFuture, select};
use futures_util::stream::FuturesUnordered;
use shingle_runtime::Runtime;
use shingle_sim::Random;
use shingle_store_api::{BlockStore, Durability, StoreError};

use super::calls::Failed;
use super::mix::Mix;
use super::shadow::BlockShadow;
use super::verify::Verdict;

/// Streams of sequential accesses.
const STREAMS: usize = 4;

/// Calls after which the number of those under way changes.
const PHASE: u64 = 40;

/// Runs asked for at once.
const RUNS_MAX: u64 = 40;

/// The caller.
pub struct BlockDriver {
    /// The runtime of its store.
    pub rt: Runtime,
    /// The store.
    pub store: Rc<dyn BlockStore>,
    /// All that is known of the store's contents.
    pub shadow: BlockShadow,
    /// The source of its draws.
    pub random: Random,
    /// The mix of its calls.
    pub mix: Mix,
}

/// Numbers of calls of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Calls that completed well, or were dropped.
    pub done: u64,
    /// Calls that failed with an explanation.
    pub explained: u64,
    /// The life ended.
    pub over: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Read,
    Write,
    Zeros,
    Trim,
    Mapped,
    Flush,
    Pause,
}

/// Its places: the hot spot, and the ends of streams.
struct Places {
    hot: u64,
    streams: [u64; STREAMS],
}

impl BlockDriver {
    /// Does `calls` random things. Of a call that fails, `judge` says whether it may; after one that it calls over, those under way
    /// are dropped.
    ///
    /// # Errors
    /// The first broken promise, or failure without an explanation.
    pub async fn run(&mut self, calls: u64, judge: impl Fn(&StoreError) -> Verdict) -> Result<Met, String> {
        let sectors = self.shadow.sectors();
        let mut places = Places { hot: self.random.below(sectors), streams: [0; STREAMS] };
        places.streams.iter_mut().for_each(|stream| *stream = self.random.below(sectors));
        let mut under_way = FuturesUnordered::new();
        let (mut met, mut begun, mut limit) = (Met::default(), 0, 1);
        loop {
            while begun < calls && under_way.len() < limit {
                if begun.is_multiple_of(PHASE) {
                    limit = self.random.between(1, self.mix.in_flight_max.max(1) as u64) as usize;
                }
                begun += 1;
                under_way.push(self.call(&mut places));
            }
            match under_way.next().await {
                None => return Ok(met),
                Some(Ok(())) => met.done += 1,
                Some(Err(Failed::Broken(what))) => return Err(format!("after {} calls: {what}", met.done)),
                Some(Err(Failed::Refused(error))) => match judge(&error) {
                    Verdict::Wrong => return Err(format!("after {} calls, one failed: {error:?}", met.done)),
                    Verdict::Explained => met.explained += 1,
                    Verdict::Over => return Ok(Met { over: true, ..met }),
                },
            }
        }
    }

    /// As [`run`](Self::run), on a store whose calls must all go well.
    ///
    /// # Errors
    /// As there.
    pub async fn run_well(&mut self, calls: u64) -> Result<Met, String> {
        self.run(calls, super::verify::all_go_well).await
    }

    fn kind(&mut self) -> Kind {
        let mix = &self.mix;
        let kinds = [
            (mix.reads, Kind::Read),
            (mix.writes, Kind::Write),
            (mix.zeros, Kind::Zeros),
            (mix.trims, Kind::Trim),
            (mix.mapped, Kind::Mapped),
            (mix.flushes, Kind::Flush),
            (mix.pauses, Kind::Pause),
        ];
        let sum: u32 = kinds.iter().map(|(share, _)| share).sum();
        let mut drawn = self.random.below(u64::from(sum.max(1))) as u32;
        for (share, kind) in kinds {
            if drawn < share {
                return kind;
            }
            drawn -= share;
        }
        Kind::Read
    }

    /// The sectors of an access.
    fn sectors(&mut self, places: &mut Places) -> Range<u64> {
        let (all, sector) = (self.shadow.sectors(), self.shadow.sector_bytes());
        let most = (self.mix.access_bytes_max / sector).clamp(1, all);
        let scale = self.random.between(0, u64::from(most.ilog2()));
        let length = self.random.between(1 << scale, ((2 << scale) - 1).min(most));
        let (sequential, hot) = (self.mix.sequential, self.mix.hot);
        if self.random.chance(sequential) {
            let stream = &mut places.streams[self.random.below(STREAMS as u64) as usize];
            let first = if *stream + length <= all { *stream } else { 0 };
            *stream = first + length;
            return first..first + length;
        }
        let first = if self.random.chance(hot) {
            places.hot + self.random.below(self.mix.hot_sectors.max(1))
        } else {
            self.random.below(all)
        };
        let first = first.min(all - length);
        first..first + length
    }

    fn durability(&mut self) -> Durability {
        if self.random.chance(self.mix.durable) { Durability::Durable } else { Durability::Cached }
    }

    /// A call, which begins when it is polled first.
    fn call(&mut self, places: &mut Places) -> LocalBoxFuture<'static, Result<(), Failed>> {
        let kind = self.kind();
        let (store, shadow, sectors) = (self.store.clone(), self.shadow.clone(), self.sectors(places));
        let durability = self.durability();
        let mut drawn = Random::new(self.random.number());
        let wait = Duration::from_nanos(self.random.between(0, self.mix.pause_max.as_nanos() as u64));
        let pause = self.rt.clone();
        let call = async move {
            let store = &*store;
            match kind {
                Kind::Read => shadow.read(store, sectors).await,
                Kind::Write => shadow.write_pieces(store, sectors, durability, |data| pieces(data, &mut drawn)).await,
                Kind::Zeros => shadow.write_zeros(store, sectors, durability).await,
                Kind::Trim => shadow.trim(store, sectors).await,
                Kind::Mapped => shadow.mapped(store, sectors, drawn.between(1, RUNS_MAX) as usize).await,
                Kind::Flush => shadow.flush(store).await,
                Kind::Pause => {
                    pause.sleep(wait).await;
                    Ok(())
                }
            }
        };
        if !self.random.chance(self.mix.dropped) {
            return Box::pin(call);
        }
        let rt = self.rt.clone();
        Box::pin(async move {
            // The call is polled first, so that it has started.
            match select(pin!(call), pin!(rt.sleep(wait))).await {
                Either::Left((done, _)) => done,
                Either::Right(((), _)) => Ok(()),
            }
        })
    }
}

/// The data in up to four pieces, most often one; they end anywhere.
fn pieces(mut data: Bytes, random: &mut Random) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    for _ in 0..[0, 0, 0, 1, 3][random.below(5) as usize] {
        pieces.push(data.split_to(random.below(data.len() as u64 + 1) as usize));
    }
    pieces.push(data);
    pieces
}
