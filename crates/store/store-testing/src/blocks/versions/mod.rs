//! Versions of one sector: values that a read may return, and values that a power cut may leave.
//!
//! A version is a write, a write of zeros or a trim of the sector, or a value that it may have had when the life began. The begin
//! and the end of each call have a tick of one clock. Version A *precedes* B if A was certainly in effect when a call began that is
//! B's own, or that read B. This is the test of Gibbons and Korach, "Testing shared memories" (1997), for one register and
//! writes that are all distinct; here each call may also stay without an answer, and the power may fail.
//!
//! **Owns** the order of versions. **Knows nothing of** sectors' bytes, calls' ranges or stores.
//!
//! # Invariants
//! - ST-VERSION-1: a read is refused only if the version it shows both precedes another and follows it, in every order of effects.
//! - ST-VERSION-2: a power cut leaves any version but those that precede a durable one.
//! - ST-VERSION-3: a version is forgotten only if it precedes a durable one that was in effect before any read under way began.

#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod tests;

/// A point in time: the number of an event.
pub(super) type Tick = u64;

/// The number that stands for zeros where writes have theirs.
pub(super) const ZEROS: u64 = 0;

const NEVER: Tick = Tick::MAX;

/// Promises of a store beyond the contract.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    /// A trimmed sector that was read as zeros stays so until it is written again or the power fails.
    pub(super) steady_trims: bool,
    /// Of calls that overlap, the one that began last wins.
    pub(super) in_order_of_calls: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A value when the life began. Exactly one of them was there.
    Start,
    /// Of bytes or zeros.
    Write,
    /// It may come into effect at any time or never, and unless trims are steady it may come and go.
    Trim,
    /// Zeros that were read, of any of several versions.
    Witness,
}

#[derive(Clone, Copy, Debug)]
struct Version {
    kind: Kind,
    /// The write with these bytes, or [`ZEROS`].
    value: u64,
    /// The call.
    number: u64,
    began: Tick,
    /// The call had its answer.
    ended: Tick,
    /// It was in effect by then: the end of the call, or of the first read that showed it.
    in_effect: Tick,
    /// The last begin of a call of it: its own, or a read that showed it.
    current: Tick,
    durable: bool,
}

impl Version {
    fn at_the_start(value: u64) -> Self {
        let kind = Kind::Start;
        Self { kind, value, number: value, began: 0, ended: 0, in_effect: 0, current: 0, durable: true }
    }

    fn precedes(&self, other: &Self, rules: Rules) -> bool {
        let witnessed = self.kind == Kind::Witness || other.kind == Kind::Witness;
        if witnessed && self.value == other.value {
            // The one may be the other.
            return false;
        }
        let called_before = rules.in_order_of_calls && !witnessed && self.began < other.began;
        self.in_effect < other.current || self.ended < other.began || called_before
    }

    /// As it is once a read from `began` to `now` has shown it.
    fn shown(&self, began: Tick, now: Tick) -> Self {
        Self { in_effect: self.in_effect.min(now), current: self.current.max(began), ..*self }
    }
}

/// All versions of a sector that still matter.
#[derive(Clone, Debug)]
pub(super) struct Versions(Vec<Version>);

impl Default for Versions {
    /// A sector that was never written.
    fn default() -> Self {
        Self(vec![Version::at_the_start(ZEROS)])
    }
}

impl Versions {
    /// A write begins, of bytes or of zeros.
    pub(super) fn begin_write(&mut self, number: u64, zeros: bool, now: Tick) {
        self.begin(Kind::Write, if zeros { ZEROS } else { number }, number, now);
    }

    /// A trim begins.
    pub(super) fn begin_trim(&mut self, number: u64, now: Tick) {
        self.begin(Kind::Trim, ZEROS, number, now);
    }

    fn begin(&mut self, kind: Kind, value: u64, number: u64, now: Tick) {
        let (ended, in_effect, current) = (NEVER, NEVER, now);
        self.0.push(Version { kind, value, number, began: now, ended, in_effect, current, durable: false });
    }

    /// A call has its answer.
    pub(super) fn complete(&mut self, number: u64, durable: bool, now: Tick) {
        let of_call = |version: &&mut Version| version.number == number && version.ended == NEVER;
        if let Some(version) = self.0.iter_mut().filter(|version| version.kind != Kind::Witness).find(of_call) {
            version.ended = now;
            if version.kind == Kind::Write {
                version.in_effect = version.in_effect.min(now);
                version.durable = durable;
            }
        }
    }

    /// A flush that began at `began` has completed. Returns true if a completed write is still not durable.
    pub(super) fn flushed(&mut self, began: Tick) -> bool {
        let writes = self.0.iter_mut().filter(|version| version.kind == Kind::Write && !version.durable);
        let mut left = false;
        for version in writes {
            version.durable = version.ended < began;
            left |= !version.durable && version.ended < NEVER;
        }
        left
    }

    /// Takes the value that a read from `began` to `now` showed. False if no order of effects explains it. (ST-VERSION-1)
    pub(super) fn show(&mut self, value: u64, began: Tick, now: Tick, rules: Rules) -> bool {
        let explains = |version: &Version| version.value == value && version.kind != Kind::Witness;
        if let [only] = &mut self.0[..] {
            let fits = explains(only);
            if fits && (only.kind != Kind::Trim || rules.steady_trims) {
                *only = only.shown(began, now);
            }
            return fits;
        }
        let fits = |at: &usize| explains(&self.0[*at]) && !self.contradicts(*at, began, now, rules);
        let fitting: Vec<usize> = (0..self.0.len()).filter(fits).collect();
        let comes_and_goes = |at: &usize| self.0[*at].kind == Kind::Trim && !rules.steady_trims;
        match fitting[..] {
            [] => return false,
            _ if fitting.iter().any(comes_and_goes) => {}
            [one] => self.0[one] = self.0[one].shown(began, now),
            _ => {
                // Zeros alone are of several versions. The last one seen says the most of what comes.
                self.0.retain(|version| version.kind != Kind::Witness);
                let (kind, number) = (Kind::Witness, NEVER);
                let (in_effect, current) = (now, began);
                self.0.push(Version {
                    kind,
                    value,
                    number,
                    began: 0,
                    ended: NEVER,
                    in_effect,
                    current,
                    durable: false,
                });
            }
        }
        true
    }

    fn contradicts(&self, at: usize, began: Tick, now: Tick, rules: Rules) -> bool {
        let shown = self.0[at].shown(began, now);
        let others = self.0.iter().enumerate().filter(|(other, _)| *other != at);
        others.into_iter().any(|(_, other)| shown.precedes(other, rules) && other.precedes(&shown, rules))
    }

    /// The versions that precede one of the `floors`, directly or through others.
    fn superseded(&self, floors: impl Fn(&Version) -> bool, rules: Rules) -> Vec<bool> {
        let mut gone = vec![false; self.0.len()];
        let mut later: Vec<usize> = (0..self.0.len()).filter(|at| floors(&self.0[*at])).collect();
        while let Some(last) = later.pop() {
            for (at, version) in self.0.iter().enumerate() {
                if at != last && !gone[at] && version.precedes(&self.0[last], rules) {
                    gone[at] = true;
                    later.push(at);
                }
            }
        }
        gone
    }

    /// Forgets the versions that neither a power cut nor a read that began at `horizon` or later can show. (ST-VERSION-3)
    pub(super) fn forget(&mut self, horizon: Tick, rules: Rules) {
        if self.0.len() > 1 {
            let gone = self.superseded(|version| version.durable && version.in_effect < horizon, rules);
            let mut gone = gone.into_iter();
            self.0.retain(|_| !gone.next().unwrap_or_default());
        }
    }

    /// The power fails. All values found from then on are durable, as a store has them before it answers. (ST-VERSION-2)
    pub(super) fn cut(&mut self, rules: Rules) {
        if let [Version { kind: Kind::Start, .. }] = self.0[..] {
            self.0[0] = Version::at_the_start(self.0[0].value);
            return;
        }
        let gone = self.superseded(|version| version.durable, rules);
        let left = self.0.iter().zip(gone).filter(|(version, gone)| !gone && version.kind != Kind::Witness);
        let mut start: Vec<Version> = Vec::new();
        for (version, _) in left {
            let mut kept = Version::at_the_start(version.value);
            if version.kind == Kind::Trim && !rules.steady_trims {
                // It still may come and go.
                kept = Version { kind: Kind::Trim, in_effect: NEVER, durable: false, ..kept };
            }
            if !start.iter().any(|other| (other.kind, other.value) == (kept.kind, kept.value)) {
                start.push(kept);
            }
        }
        self.0 = start;
    }

    /// True if there is nothing to find out of it: one version, durable and in effect.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.0[..], [Version { durable: true, .. }])
    }

    /// The versions in words, for a report.
    pub(super) fn describe(&self) -> String {
        let tick = |tick: Tick| if tick == NEVER { "-".to_owned() } else { tick.to_string() };
        let of_one = |version: &Version| {
            let Version { kind, value, number, began, ended, in_effect, current, durable } = *version;
            let name = match (kind, value) {
                (Kind::Start, ZEROS) => "zeros from an earlier life".to_owned(),
                (Kind::Start, _) => format!("write {value} from an earlier life"),
                (Kind::Write, ZEROS) => format!("zeros {number}"),
                (Kind::Write, _) => format!("write {number}"),
                (Kind::Trim, _) => format!("trim {number}"),
                (Kind::Witness, _) => "zeros that were read".to_owned(),
            };
            let (ended, in_effect) = (tick(ended), tick(in_effect));
            let durable = if durable { ", durable" } else { "" };
            format!("{name} (began {began}, ended {ended}, in effect by {in_effect}, current at {current}{durable})")
        };
        self.0.iter().map(of_one).collect::<Vec<_>>().join("; ")
    }
}
