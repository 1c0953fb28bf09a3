//! Counters of a drive's commands: number, time, bytes, and failures.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::{DeviceFuture, DeviceResult, Geometry, ZoneInfo, ZoneOp, ZonedDevice};

/// Upper bounds of the histogram of times, in seconds; one more bucket takes the rest.
pub(crate) const BOUNDS_S: [f64; 6] = [0.001, 0.01, 0.03, 0.1, 1.0, 10.0];

/// Commands of one kind.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    /// Answered commands, by time; see [`BOUNDS_S`].
    pub(crate) times: [AtomicU64; BOUNDS_S.len() + 1],
    /// All those times together, in nanoseconds.
    pub(crate) time_sum_ns: AtomicU64,
    /// Bytes of the commands that succeeded.
    pub(crate) bytes: AtomicU64,
    /// Commands that failed.
    pub(crate) errors: AtomicU64,
    /// Commands under way.
    pub(crate) under_way: AtomicU64,
}

/// The commands of a drive. Read them any time, from any thread.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(crate) reads: Commands,
    /// Appends among them.
    pub(crate) writes: Commands,
    /// Of zones: reports, opens, closes, finishes and resets.
    pub(crate) zones: Commands,
    pub(crate) flushes: Commands,
}

impl Gauges {
    /// The kinds of commands.
    pub(crate) fn kinds(&self) -> [(&'static str, &Commands); 4] {
        [("read", &self.reads), ("write", &self.writes), ("zone", &self.zones), ("flush", &self.flushes)]
    }

    /// Commands that were answered.
    pub(crate) fn answered(&self) -> u64 {
        let times = self.kinds().into_iter().flat_map(|(_, commands)| &commands.times);
        times.map(|count| count.load(Relaxed)).sum()
    }

    /// True if a command is under way.
    pub(crate) fn is_asked(&self) -> bool {
        self.kinds().iter().any(|(_, commands)| commands.under_way.load(Relaxed) > 0)
    }

    /// `device`, whose commands are counted here.
    pub(crate) fn count(self: &Arc<Self>, runtime: &Runtime, device: Rc<dyn ZonedDevice>) -> Rc<dyn ZonedDevice> {
        Rc::new(Counted { runtime: runtime.clone(), device, gauges: self.clone() })
    }
}

impl Commands {
    /// Counts a command as under way until the result is dropped.
    pub(crate) fn begin(&self) -> UnderWay<'_> {
        UnderWay::begin(&self.under_way)
    }

    async fn time<T>(&self, runtime: &Runtime, bytes: u64, work: DeviceFuture<'_, T>) -> DeviceResult<T> {
        let began = runtime.now();
        let _under_way = self.begin();
        let result = work.await;
        let took = runtime.now().since(began);
        self.ended(took, if result.is_ok() { Some(bytes) } else { None });
        result
    }

    fn ended(&self, took: Duration, bytes: Option<u64>) {
        let seconds = took.as_secs_f64();
        let bucket = BOUNDS_S.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS_S.len());
        if let Some(count) = self.times.get(bucket) {
            count.fetch_add(1, Relaxed);
        }
        self.time_sum_ns.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        match bytes {
            Some(bytes) => self.bytes.fetch_add(bytes, Relaxed),
            None => self.errors.fetch_add(1, Relaxed),
        };
    }
}

/// One more while it lives: an abandoned command does not count as under way.
pub(crate) struct UnderWay<'a>(&'a AtomicU64);

impl<'a> UnderWay<'a> {
    fn begin(count: &'a AtomicU64) -> Self {
        count.fetch_add(1, Relaxed);
        Self(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

struct Counted {
    runtime: Runtime,
    device: Rc<dyn ZonedDevice>,
    gauges: Arc<Gauges>,
}

fn length(data: &[Bytes]) -> u64 {
    data.iter().map(|piece| piece.len() as u64).sum()
}

impl ZonedDevice for Counted {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        Box::pin(self.gauges.zones.time(&self.runtime, 0, self.device.report(first, count)))
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        Box::pin(self.gauges.reads.time(&self.runtime, length.bytes(), self.device.read(at, length)))
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        let bytes = length(&data);
        Box::pin(self.gauges.writes.time(&self.runtime, bytes, self.device.write(at, data)))
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        let bytes = length(&data);
        Box::pin(self.gauges.writes.time(&self.runtime, bytes, self.device.append(zone, data)))
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        Box::pin(self.gauges.zones.time(&self.runtime, 0, self.device.manage(zone, op)))
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        Box::pin(self.gauges.flushes.time(&self.runtime, 0, self.device.flush()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_base::AlignedBuf;
    use shingle_zoned::MemoryDevice;

    #[test]
    fn commands_are_counted_with_their_bytes_and_failures() {
        let gauges = Arc::new(Gauges::default());
        let counted = gauges.clone();
        shingle_runtime::real::run(move |runtime| async move {
            let geometry = Geometry::hm_smr(Blocks(256), 8, 0, 4);
            let device = counted.count(&runtime, Rc::new(MemoryDevice::new(geometry)));
            let block = || vec![AlignedBuf::zeroed(Blocks(2)).freeze()];
            let start = device.geometry().start_of(ZoneId(1));
            device.write(start, block()).await.unwrap();
            device.read(start, Blocks(2)).await.unwrap();
            assert!(device.write(start, block()).await.is_err(), "that is not the write pointer");
            device.flush().await.unwrap();
        })
        .unwrap();
        let get = |count: &AtomicU64| count.load(Relaxed);
        let [(_, reads), (_, writes), _, (_, flushes)] = gauges.kinds();
        assert_eq!((get(&reads.bytes), get(&reads.errors)), (8192, 0));
        assert_eq!((get(&writes.bytes), get(&writes.errors)), (8192, 1));
        assert_eq!(writes.times.iter().map(get).sum::<u64>(), 2);
        assert_eq!(flushes.times.iter().map(get).sum::<u64>(), 1);
        assert_eq!(get(&writes.under_way), 0);
    }
}
