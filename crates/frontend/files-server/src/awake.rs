//! Waiting awake. A thread that sleeps takes some 20 us to go on, a third of what a sync of a fast SSD takes; so one whose waits have been
//! short of late looks again and again for a moment before it sleeps, and gives its processor to any thread that wants it meanwhile.

#![expect(clippy::disallowed_methods, reason = "waits of a program's threads, outside of the owner's executor")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvError, TryRecvError};
use std::thread::{available_parallelism, yield_now};
use std::time::{Duration, Instant};

/// Longest time that a wait is awake: several syncs of a fast SSD, and no time for a disk.
pub(crate) const AWAKE: Duration = Duration::from_micros(200);
/// Most waits that sleep at once after one that was awake in vain.
const ASLEEP_MAX: u32 = 1024;

/// Decides whether a wait is worth being awake: each one in vain doubles the number of those that sleep at once before the next is tried.
pub(crate) struct Awake {
    /// Waits that will sleep at once.
    asleep: AtomicU32,
    /// Waits that sleep at once after the next one in vain.
    next: AtomicU32,
}

impl Awake {
    pub(crate) fn new() -> Self {
        // With one processor, who is awake keeps the owner from its work.
        let one = available_parallelism().is_ok_and(|processors| processors.get() == 1);
        Self { asleep: AtomicU32::new(if one { u32::MAX } else { 0 }), next: AtomicU32::new(1) }
    }

    /// True if the next wait begins awake.
    pub(crate) fn tries(&self) -> bool {
        let asleep = self.asleep.load(Ordering::Relaxed);
        if asleep > 0 && asleep < u32::MAX {
            // Threads that meet here may count one for two.
            self.asleep.store(asleep - 1, Ordering::Relaxed);
        }
        asleep == 0
    }

    /// Says how a wait went that began awake.
    pub(crate) fn note(&self, in_vain: bool) {
        let next = self.next.load(Ordering::Relaxed);
        if in_vain {
            self.asleep.store(next, Ordering::Relaxed);
        }
        self.next.store(if in_vain { (next * 2).min(ASLEEP_MAX) } else { 1 }, Ordering::Relaxed);
    }

    /// Receives, awake at first.
    pub(crate) fn receive<T>(&self, from: &Receiver<T>) -> Result<T, RecvError> {
        if self.tries() {
            let began = Instant::now();
            while began.elapsed() < AWAKE {
                match from.try_recv() {
                    Ok(found) => {
                        self.note(false);
                        return Ok(found);
                    }
                    Err(TryRecvError::Disconnected) => return Err(RecvError),
                    Err(TryRecvError::Empty) => yield_now(),
                }
            }
            self.note(true);
        }
        from.recv()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn waits_in_vain_become_rare_and_one_that_helped_brings_them_back() {
        let awake = Awake { asleep: AtomicU32::new(0), next: AtomicU32::new(1) };
        let mut tried = 0;
        for _ in 0..100_000 {
            if awake.tries() {
                tried += 1;
                awake.note(true);
            }
        }
        assert!((90..130).contains(&tried), "{tried} of 100,000 waits were awake");
        while !awake.tries() {}
        awake.note(false);
        assert!(awake.tries());
        awake.note(true);
        assert!(!awake.tries() && awake.tries());
    }

    #[test]
    fn what_was_sent_is_received_awake_and_asleep_and_an_end_is_told() {
        let awake = Awake::new();
        let (sender, receiver) = channel();
        for pause in [0, 100, 2000, 5000, 0, 100] {
            let sender = sender.clone();
            let sending = std::thread::Builder::new().spawn(move || {
                std::thread::sleep(Duration::from_micros(pause));
                sender.send(pause).unwrap();
            });
            assert_eq!(awake.receive(&receiver), Ok(pause));
            sending.unwrap().join().unwrap();
        }
        drop(sender);
        assert!(awake.receive(&receiver).is_err());
    }
}
