//! Recordings of requests at random, held against a model that knows of each request what had been answered when it came.

use std::collections::BTreeSet;

use super::*;
use crate::blocks::{BlockTrace, BlockTraceWriter};

const SIZE: u64 = 1 << 20;

fn write(offset: u64) -> Request {
    Request { kind: IoKind::Write, offset, length: 4096, fua: false }
}

/// A generator of numbers, from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn request(&mut self) -> Request {
        let kind = [IoKind::Read, IoKind::Write, IoKind::Flush, IoKind::Trim, IoKind::Zero][self.below(5) as usize];
        let offset = self.below(SIZE / SECTOR) * SECTOR;
        let length = (1 + self.below(64)) * SECTOR;
        let fua = self.below(4) == 0;
        match kind {
            IoKind::Flush => Request { kind, offset: 0, length: 0, fua: false },
            IoKind::Read => Request { kind, offset, length: length.min(SIZE - offset), fua: false },
            _ => Request { kind, offset, length: length.min(SIZE - offset), fua },
        }
    }
}

/// A request as the model knows it.
struct Known {
    request: Request,
    at: u64,
    took: Option<u64>,
    before: BTreeSet<usize>,
}

/// A random course of arrivals and answers, with at most `depth` under way.
fn course(seed: u64, depth: usize, steps: usize) -> (Vec<Io>, Vec<Known>) {
    let (mut draw, mut recorder) = (Draw(seed), Recorder::new(SIZE));
    let (mut known, mut under_way, mut answered) = (Vec::<Known>::new(), Vec::new(), BTreeSet::new());
    let (mut now, mut ios) = (1_000_000, Vec::new());
    for _ in 0..steps {
        now += draw.below(3) * 1000;
        if under_way.is_empty() || (under_way.len() < depth && draw.below(2) == 0) {
            let request = draw.request();
            let number = recorder.came(now, request).unwrap();
            assert_eq!(number, known.len() as u64, "seed {seed}");
            known.push(Known { request, at: now - 1_000_000, took: None, before: answered.clone() });
            under_way.push(number as usize);
        } else {
            let number = under_way.swap_remove(draw.below(under_way.len() as u64) as usize);
            recorder.answered(now, number as u64);
            known[number].took = Some(now - 1_000_000 - known[number].at);
            answered.insert(number);
        }
        while let Some(io) = recorder.next_io() {
            ios.push(io);
        }
    }
    while let Some(io) = recorder.last_io() {
        ios.push(io);
    }
    (ios, known)
}

/// The I/Os of a trace, written and read again.
fn through_the_format(ios: &[Io]) -> Vec<Io> {
    let mut writer = BlockTraceWriter::begin(Vec::new(), "model", SIZE).unwrap();
    ios.iter().for_each(|io| writer.write(io).unwrap());
    let (bytes, count) = writer.end().unwrap();
    assert_eq!(count, ios.len() as u64);
    BlockTrace::read(Box::new(std::io::Cursor::new(bytes))).unwrap().map(Result::unwrap).collect()
}

/// BT-REC-1 and BT-REC-2.
#[test]
fn what_was_recorded_reads_back_with_all_that_had_been_answered() {
    for seed in 1..=40 {
        let depth = 1 + seed as usize % 13;
        let (ios, known) = course(seed, depth, 600);
        let ios = through_the_format(&ios);
        assert_eq!(ios.len(), known.len(), "seed {seed}");
        let (begin, mut reached) = (known[0].at, Vec::<BTreeSet<usize>>::new());
        for (number, (io, known)) in ios.iter().zip(&known).enumerate() {
            let Request { kind, offset, length, fua } = known.request;
            assert_eq!(
                (io.kind, io.offset, io.length, io.fua),
                (kind, offset, length, fua),
                "seed {seed}, I/O {number}"
            );
            assert_eq!((io.at, io.took), (known.at - begin, known.took), "seed {seed}, I/O {number}");
            let mut all = BTreeSet::new();
            for &back in &io.after {
                let named = number - back as usize;
                all.insert(named);
                all.extend(&reached[named]);
            }
            assert_eq!(all, known.before, "seed {seed}, I/O {number}");
            assert!(io.after.len() <= depth, "seed {seed}: {} are named of {depth} under way", io.after.len());
            reached.push(all);
        }
        assert!(ios.iter().any(|io| !io.after.is_empty()), "seed {seed}");
    }
}

/// BT-REC-2, past what can be named.
#[test]
fn of_many_that_were_answered_the_last_ones_are_named() {
    let mut recorder = Recorder::new(SIZE);
    let numbers: Vec<u64> = (0..1000).map(|at| recorder.came(at, write(0)).unwrap()).collect();
    numbers.iter().for_each(|&number| recorder.answered(2000, number));
    recorder.came(3000, write(4096)).unwrap();
    let last = std::iter::from_fn(|| recorder.last_io()).last().unwrap();
    assert_eq!(last.after, (1..=AFTER_MAX as u32).collect::<Vec<_>>());
    // One by one, each names the one before.
    let mut recorder = Recorder::new(SIZE);
    for at in 0..100_000 {
        let number = recorder.came(at, write(0)).unwrap();
        recorder.answered(at, number);
        let io = recorder.next_io().unwrap();
        assert_eq!(io.after, if at == 0 { vec![] } else { vec![1] });
        assert!(recorder.answered.len() == 1 && recorder.held.is_empty());
    }
}

/// BT-REC-3.
#[test]
fn a_request_that_hangs_holds_up_so_many_and_no_more() {
    let mut recorder = Recorder::new(SIZE);
    let hangs = recorder.came(0, write(0)).unwrap();
    let mut out = 0;
    for at in 1..=100_000 {
        let number = recorder.came(at, write(4096)).unwrap();
        recorder.answered(at, number);
        while let Some(io) = recorder.next_io() {
            assert_eq!(io.took.is_none(), out == 0, "I/O {out}");
            out += 1;
        }
        assert!(recorder.held.len() <= HELD_MAX && recorder.overdue.len() <= 1);
    }
    assert_eq!(out, 100_001);
    // It is answered in the end, too far back to be named.
    recorder.answered(200_000, hangs);
    assert!(recorder.overdue.is_empty());
    recorder.came(200_001, write(0)).unwrap();
    assert_eq!(recorder.last_io().unwrap().after, [1]);
    recorder.answered(200_002, 77);
    recorder.answered(200_003, 1 << 40);
}

#[test]
fn what_no_trace_can_have_is_left_out() {
    let mut recorder = Recorder::new(SIZE);
    let odd = Request { kind: IoKind::Write, offset: 100, length: 1000, fua: true };
    assert_eq!(recorder.came(5, odd), Some(0));
    assert_eq!(recorder.came(5, write(SIZE)), None);
    assert_eq!(recorder.came(5, Request { length: 0, ..write(0) }), None);
    assert_eq!(recorder.came(5, Request { offset: u64::MAX, ..write(0) }), None);
    assert_eq!(recorder.came(4, Request { kind: IoKind::Read, fua: true, ..write(0) }), Some(1));
    let ios: Vec<Io> = std::iter::from_fn(|| recorder.last_io()).collect();
    let whole = Io { fua: true, ..Io::new(0, IoKind::Write, 0, 1536) };
    assert_eq!(ios, [whole, Io::new(0, IoKind::Read, 0, 4096)], "whole sectors, and a clock that does not go back");
}
