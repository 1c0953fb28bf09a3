//! ST-VERSION-1 and ST-VERSION-2 against a search through every order of effects, on small random histories of one sector.

use shingle_sim::{Random, seeds};

use super::*;

/// A call as the search sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    began: Tick,
    /// [`NEVER`] without an answer.
    ended: Tick,
    does: Does,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Write { value: u64, durable: bool },
    Trim,
    Read(u64),
}

impl Call {
    /// The last instant at which it may come into effect.
    fn latest(&self) -> Tick {
        // A trim comes into effect late or never; a write that comes after it is in the way then.
        if self.does == Does::Trim { NEVER } else { self.ended }
    }

    fn must_happen(&self) -> bool {
        self.ended < NEVER && self.does != Does::Trim
    }
}

/// Collects the values that a power cut may leave, over all orders of effects that explain the reads. None: there is no order.
fn search(calls: &[Call], rules: Rules) -> Option<Vec<u64>> {
    let mut left = Vec::new();
    let mut found = false;
    let (mut done, mut values) = (vec![false; calls.len()], vec![(ZEROS, true)]);
    visit((calls, rules), &mut done, &mut values, &mut found, &mut left);
    left.sort_unstable();
    left.dedup();
    found.then_some(left)
}

fn visit(
    (calls, rules): (&[Call], Rules),
    done: &mut Vec<bool>,
    values: &mut Vec<(u64, bool)>,
    found: &mut bool,
    left: &mut Vec<u64>,
) {
    let open = |done: &[bool]| (0..calls.len()).filter(|at| !done[*at]).collect::<Vec<_>>();
    if open(done).iter().all(|at| !calls[*at].must_happen()) {
        *found = true;
        let last_durable = values.iter().rposition(|(_, durable)| *durable).unwrap_or_default();
        left.extend(values[last_durable..].iter().map(|(value, _)| *value));
    }
    for at in open(done) {
        let call = calls[at];
        let waits = open(done).iter().any(|other| *other != at && calls[*other].latest() < call.began);
        // A trim that was answered before a write began does not come after it; in the order of calls, no change does that comes
        // before one.
        let late = !matches!(call.does, Does::Read(_))
            && (0..calls.len()).any(|other| {
                let Call { began, does, .. } = calls[other];
                let answered = call.does == Does::Trim && matches!(does, Does::Write { .. }) && call.ended < began;
                let called = rules.in_order_of_calls && !matches!(does, Does::Read(_)) && call.began < began;
                done[other] && (answered || called)
            });
        let now = values.last().map_or(ZEROS, |(value, _)| *value);
        let fits = match call.does {
            Does::Read(value) => value == now,
            _ => true,
        };
        if waits || late || !fits {
            continue;
        }
        done[at] = true;
        match call.does {
            Does::Read(_) => visit((calls, rules), done, values, found, left),
            Does::Write { value, durable } => {
                values.push((value, durable && call.ended < NEVER));
                visit((calls, rules), done, values, found, left);
                values.pop();
            }
            Does::Trim => {
                values.push((ZEROS, false));
                visit((calls, rules), done, values, found, left);
                values.pop();
            }
        }
        done[at] = false;
    }
}

/// A history in the order of its events: the begin of a call, or its end.
fn draw(random: &mut Random, zeros: bool) -> Vec<Call> {
    let count = random.between(2, 7);
    let mut ticks: Vec<Tick> = (1..=2 * count).collect();
    let mut take = |random: &mut Random| ticks.swap_remove(random.below(ticks.len() as u64) as usize);
    let spans: Vec<(Tick, Tick)> = (0..count).map(|_| (take(random), take(random))).collect();
    let mut calls = Vec::new();
    for (number, (one, other)) in (1..).zip(spans) {
        let lost = random.chance(0.15);
        let does = match random.below(if zeros { 6 } else { 4 }) {
            0 | 1 => Does::Read(random.below(count + 1)),
            2 | 3 => Does::Write { value: number, durable: random.chance(0.5) },
            4 => Does::Write { value: ZEROS, durable: random.chance(0.5) },
            _ => Does::Trim,
        };
        let ended = if lost && !matches!(does, Does::Read(_)) { NEVER } else { one.max(other) };
        calls.push(Call { began: one.min(other), ended, does });
    }
    calls
}

/// Plays the history to the versions, up to the first read that they refuse. True if they take all.
fn play(calls: &[Call], rules: Rules) -> (bool, Versions) {
    let mut versions = Versions::default();
    for now in 1..=20 {
        for (number, call) in (1..).zip(calls) {
            match call.does {
                Does::Write { value, .. } if call.began == now => versions.begin_write(number, value == ZEROS, now),
                Does::Trim if call.began == now => versions.begin_trim(number, now),
                Does::Write { durable, .. } if call.ended == now => versions.complete(number, durable, now),
                Does::Trim if call.ended == now => versions.complete(number, false, now),
                Does::Read(value) if call.ended == now && !versions.show(value, call.began, now, rules) => {
                    return (false, versions);
                }
                _ => {}
            }
        }
    }
    (true, versions)
}

fn compare(seed: u64, zeros: bool, in_order_of_calls: bool) -> (bool, bool) {
    let calls = draw(&mut Random::new(seed), zeros);
    let rules = Rules { steady_trims: true, in_order_of_calls };
    let (taken, mut versions) = play(&calls, rules);
    let possible = search(&calls, rules);
    let context = || format!("seed {seed}: {calls:?}");
    // Zeros of several versions are not told apart, so that some histories are taken that no order explains.
    assert!(taken || possible.is_none(), "a possible history is refused: {}", context());
    assert!(zeros || taken == possible.is_some(), "an impossible history is taken: {}", context());
    if let Some(left) = &possible {
        versions.cut(rules);
        let mut after: Vec<u64> = versions.0.iter().map(|version| version.value).collect();
        after.sort_unstable();
        assert!(left.iter().all(|value| after.contains(value)), "{left:?} may be left, not {after:?}: {}", context());
        assert!(zeros || *left == after, "{left:?} may be left, and {after:?} is taken: {}", context());
    }
    (taken, possible.is_some())
}

/// ST-VERSION-1 and ST-VERSION-2: not one too many, not one too few.
#[test]
fn versions_take_what_some_order_of_effects_explains() {
    for in_order in [false, true] {
        let taken = seeds(30_000).filter(|seed| compare(*seed, false, in_order).0).count();
        assert!(taken > 3_000 || std::env::var_os("SHINGLE_SEED").is_some(), "only {taken} histories were possible");
    }
}

/// ST-VERSION-1 and ST-VERSION-2: not one too few; and few too many.
#[test]
fn versions_with_equal_values_refuse_nothing_that_some_order_explains() {
    for in_order in [false, true] {
        let (mut impossible, mut missed) = (0, 0);
        for seed in seeds(30_000) {
            let (taken, possible) = compare(seed, true, in_order);
            impossible += u64::from(!possible);
            missed += u64::from(taken && !possible);
        }
        let one = std::env::var_os("SHINGLE_SEED").is_some();
        assert!(one || missed * 50 < impossible, "{missed} of {impossible} impossible histories were taken");
    }
}
