//! Limit of the machine: the least work of any verified store with the same bytes.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use shingle_base::crc32c;

/// A clock for benchmarks, which measure the machine and not an engine's idea of time.
#[expect(clippy::disallowed_methods, reason = "benchmarks measure real time")]
pub(crate) fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// Processor time that the process has used so far.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Bytes a second of copying 1 MiB pieces once and taking their CRC-32C once, on one core.
pub(crate) fn copy_and_crc(pieces: usize) -> f64 {
    let source = vec![0x5Au8; 1 << 20];
    let mut targets: Vec<Vec<u8>> = (0..32).map(|_| vec![0u8; 1 << 20]).collect();
    let began = now();
    let mut sum = 0u32;
    for piece in 0..pieces {
        let target = &mut targets[piece % 32];
        target.copy_from_slice(black_box(&source));
        sum ^= crc32c(black_box(target));
    }
    black_box(sum);
    (pieces << 20) as f64 / began.elapsed().as_secs_f64()
}

/// Verified copies a second of random 4 KiB pieces out of `memory`, on one core.
pub(crate) fn random_copies(memory: &[u8], count: usize) -> f64 {
    let pieces = memory.len() / 4096;
    let mut target = [0u8; 4096];
    let (mut sum, mut state) = (0u32, 0x9E37_79B9_7F4A_7C15u64);
    let began = now();
    for _ in 0..count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let at = (state % pieces as u64) as usize * 4096;
        target.copy_from_slice(&memory[at..at + 4096]);
        sum ^= crc32c(black_box(&target));
    }
    black_box(sum);
    count as f64 / began.elapsed().as_secs_f64()
}
