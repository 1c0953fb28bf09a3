//! Losses of writes that were answered and not flushed yet: whoever makes writes durable is told, once.
//!
//! **Owns** the account of what was told. **Knows nothing of** zones, or of those who are told.

/// Losses, and those that were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    count: u64,
    told: u64,
}

impl Losses {
    /// Writes were lost.
    pub fn note(&mut self) {
        self.count += 1;
    }

    /// Losses that were told: to be asked for before a flush.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// Number of losses, if there are some that were not told when so many were: all flushes hear of them that were under way together.
    pub fn since(&self, told: u64) -> Option<u64> {
        (self.count > told).then_some(self.count)
    }

    /// The first `count` were told.
    pub fn tell(&mut self, count: u64) {
        self.told = self.told.max(count);
    }

    /// There are some that nobody was told.
    pub fn any(&self) -> bool {
        self.since(self.told).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_is_told_to_all_flushes_that_were_under_way() {
        let mut losses = Losses::default();
        let (one, other) = (losses.told(), losses.told());
        assert!(!losses.any());
        losses.note();
        let first = losses.since(one).unwrap();
        losses.note();
        losses.tell(first);
        assert_eq!((losses.since(other), losses.any()), (Some(2), true), "another was lost meanwhile");
        losses.tell(2);
        assert_eq!((losses.since(other), losses.since(losses.told()), losses.any()), (Some(2), None, false));
    }
}
