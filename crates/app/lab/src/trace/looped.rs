//! A trace several times over: most are short beside what a drive can hold.

use std::sync::Arc;

use super::io::{Ios, Source};
use crate::error::LabError;

/// A source's I/Os, so many times over, each time from where the time before ended.
pub struct Looped {
    source: Arc<dyn Source>,
    times: u32,
}

impl Looped {
    /// Those of `source`, `times` times.
    pub fn new(source: Arc<dyn Source>, times: u32) -> Self {
        Self { source, times }
    }
}

impl Source for Looped {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn size_bytes(&self) -> u64 {
        self.source.size_bytes()
    }

    fn open(&self, seed: u64) -> Result<Ios, LabError> {
        let source = self.source.clone();
        let (mut left, mut ios) = (self.times, source.open(seed)?);
        let (mut begin, mut last) = (0u64, 0);
        left = left.saturating_sub(1);
        Ok(Box::new(std::iter::from_fn(move || {
            loop {
                match ios.next() {
                    Some(Ok(mut io)) => {
                        io.at = io.at.saturating_add(begin);
                        last = io.at;
                        return Some(Ok(io));
                    }
                    None if left > 0 => match source.open(seed) {
                        Ok(again) => (left, begin, ios) = (left - 1, last, again),
                        Err(error) => {
                            left = 0;
                            return Some(Err(error));
                        }
                    },
                    end => return end,
                }
            }
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::generate::{Generated, Order};

    #[test]
    fn each_time_begins_where_the_time_before_ended() {
        let source = Generated {
            name: "some".to_owned(),
            order: Order::Sequential,
            ios: 3,
            bytes: 4096,
            reads_percent: 0,
            fua_percent: 0,
            size: 1 << 20,
            span: 1 << 20,
            gap: 1000,
        };
        let once: Vec<_> = source.open(7).unwrap().map(Result::unwrap).collect();
        let thrice: Vec<_> = Looped::new(Arc::new(source), 3).open(7).unwrap().map(Result::unwrap).collect();
        assert_eq!((thrice.len(), &thrice[..3]), (9, &once[..]));
        let end = once[2].at;
        for (number, io) in thrice.iter().enumerate() {
            assert_eq!((io.at, io.offset), (once[number % 3].at + end * (number as u64 / 3), once[number % 3].offset));
        }
    }
}
