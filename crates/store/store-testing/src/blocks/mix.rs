//! The mix of calls in a random history: kinds, sizes, places, and how many are under way together.

use std::time::Duration;

use shingle_sim::Random;

/// Shares of kinds, out of their sum, and the shape of accesses.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Share of reads.
    pub reads: u32,
    /// Share of writes.
    pub writes: u32,
    /// Share of writes of zeros.
    pub zeros: u32,
    /// Share of trims.
    pub trims: u32,
    /// Share of questions for what is mapped.
    pub mapped: u32,
    /// Share of flushes.
    pub flushes: u32,
    /// Share of times in which a caller does nothing.
    pub pauses: u32,
    /// Most calls under way together.
    pub in_flight_max: usize,
    /// Bytes of the largest access. Smaller ones are as frequent as those of twice their size.
    pub access_bytes_max: u64,
    /// Share of writes that are durable when they complete, from 0 to 1.
    pub durable: f64,
    /// Share of accesses that go on where one before ended.
    pub sequential: f64,
    /// Share of accesses in a hot spot.
    pub hot: f64,
    /// Sectors of the hot spot.
    pub hot_sectors: u64,
    /// Share of calls whose future is dropped before they complete.
    pub dropped: f64,
    /// The longest pause, and the longest life of a call that is dropped.
    pub pause_max: Duration,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            reads: 30,
            writes: 45,
            zeros: 4,
            trims: 5,
            mapped: 3,
            flushes: 4,
            pauses: 4,
            in_flight_max: 16,
            access_bytes_max: 2 << 20,
            durable: 0.3,
            sequential: 0.3,
            hot: 0.4,
            hot_sectors: 24,
            dropped: 0.02,
            pause_max: Duration::from_millis(2),
        }
    }
}

impl Mix {
    /// A mix drawn at random: some histories are all small writes, some all large ones, some do nothing but overwrite few sectors.
    pub fn draw(random: &mut Random) -> Self {
        let mut one_of = |choices: &[f64]| choices[random.below(choices.len() as u64) as usize];
        let share = [0.0, 0.05, 0.3, 0.7];
        Self {
            reads: one_of(&[10.0, 30.0, 60.0]) as u32,
            zeros: one_of(&[0.0, 4.0, 15.0]) as u32,
            trims: one_of(&[0.0, 5.0, 20.0]) as u32,
            flushes: one_of(&[0.0, 2.0, 10.0]) as u32,
            pauses: one_of(&[0.0, 4.0, 20.0]) as u32,
            in_flight_max: one_of(&[1.0, 4.0, 16.0, 64.0]) as usize,
            access_bytes_max: 4096 << one_of(&[0.0, 3.0, 5.0, 7.0, 9.0]) as u32,
            durable: one_of(&[0.0, 0.1, 0.5, 1.0]),
            sequential: one_of(&share),
            hot: one_of(&share),
            hot_sectors: one_of(&[1.0, 8.0, 24.0, 200.0]) as u64,
            dropped: one_of(&[0.0, 0.0, 0.05]),
            ..Self::default()
        }
    }
}
