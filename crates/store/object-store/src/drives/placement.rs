//! Choice of the drive for the next append: the drives' state goes in, the choice comes out.
//!
//! **Knows nothing of** tasks, time, and what is appended.
//!
//! Each append entitles every drive that could take it to a part of its bytes, as large as the drive's part of the free space is. The
//! bytes that a drive was given beyond that are its *lead*. The next append goes where lead and queue are smallest: one client at a time meets no
//! queues, so that leads alone decide and stay within an append; where many write at once, queues decide from one append to the next, and leads in
//! the long run.
//!
//! # Invariants
//! - OS-EVEN-1: drives fill in proportion to their free space, however many write, and whatever files are open. A drive that is slower than others
//!   is given less, as is one that ends nothing. `drives_fill_in_proportion_to_their_size`, `a_drive_that_is_slower_is_given_less`.
//! - OS-EVEN-2: what a drive was not given while it could take nothing it is not owed afterwards. `who_was_away_is_owed_nothing`.

use std::time::Duration;

/// Bytes of lead that weigh as much as one in the queue.
const LEAD_FOR_QUEUE: f64 = 4.0;
/// The most that a lead comes to, either way: a drive that lagged behind for long does not take everything for long.
const LEAD_MOST: f64 = (256 << 20) as f64;
/// The least part of its share that is left to a drive for being slow: it must be seen when it is faster again.
const PACE_LEAST: f64 = 1.0 / 16.0;

/// A drive that takes the append.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct View {
    /// Its place in the engine's list.
    pub(crate) drive: usize,
    /// Bytes that it can be given yet.
    pub(crate) free: u64,
    /// Bytes on their way to it.
    pub(crate) queue: u64,
    /// Bytes that it was given beyond its part.
    pub(crate) lead: f64,
    /// Bytes that it takes in a second in which it has something to do, and what an append takes, if that is known.
    pub(crate) rate: Option<f64>,
    pub(crate) usual: Option<Duration>,
    /// It has much to do, and has ended nothing for long.
    pub(crate) stalled: bool,
}

/// A drive's files, as the append meets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer<F, C> {
    /// One takes it.
    File(F),
    /// One is too full, and is to be closed first.
    Full(C),
    /// None is open.
    Nothing,
    /// One is being opened or closed.
    Soon,
}

/// Place of the append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice<F, C> {
    /// To this file.
    Take(usize, F),
    /// Nowhere yet: this is to be closed first,
    Close(C),
    /// a file made on this drive,
    Create(usize),
    /// or something that is under way ended.
    Wait,
}

/// Preparation of a drive for the next appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ahead<C> {
    Close(C),
    Create(usize),
}

/// Chooses among `views`. A log that `spreads` uses all drives, and has files opened on those that have none; others
/// stay with the files that they have.
pub(crate) fn choose<F, C: Copy>(
    views: &[View],
    spreads: bool,
    mut offer: impl FnMut(usize) -> Offer<F, C>,
) -> (Choice<F, C>, Option<Ahead<C>>) {
    let (mut close, mut create, mut ahead) = (None, None, None);
    for drive in ranked(views) {
        match offer(drive) {
            Offer::File(file) => return (Choice::Take(drive, file), ahead.filter(|_| spreads)),
            Offer::Full(chunk) => {
                close = close.or(Some(chunk));
                ahead = ahead.or(Some(Ahead::Close(chunk)));
            }
            Offer::Nothing => {
                create = create.or(Some(drive));
                ahead = ahead.or(Some(Ahead::Create(drive)));
            }
            Offer::Soon => {}
        }
    }
    let choice = match (close, create, ahead) {
        (Some(chunk), _, _) if !spreads => Choice::Close(chunk),
        (_, Some(drive), _) if !spreads => Choice::Create(drive),
        (_, _, Some(Ahead::Close(chunk))) => Choice::Close(chunk),
        (_, _, Some(Ahead::Create(drive))) => Choice::Create(drive),
        (_, _, None) => Choice::Wait,
    };
    (choice, None)
}

/// The drives' leads once `length` bytes go to one of them.
pub(crate) fn charge(views: &mut [View], drive: usize, length: u64) {
    let parts = parts(views);
    for (view, part) in views.iter_mut().zip(parts) {
        let given = if view.drive == drive { length as f64 } else { 0.0 };
        view.lead = (view.lead + given - length as f64 * part).clamp(-LEAD_MOST, LEAD_MOST);
    }
}

/// Drives, the best first: those that are least ahead, for their size.
fn ranked(views: &[View]) -> Vec<usize> {
    let score = |(view, part): (&View, f64)| {
        (view.stalled, (view.queue as f64 + view.lead / LEAD_FOR_QUEUE) / part, view.drive)
    };
    let mut scores: Vec<_> = views.iter().zip(parts(views)).map(score).collect();
    scores.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
    scores.into_iter().map(|(.., drive)| drive).collect()
}

/// The part of all bytes that each drive is to be given.
fn parts(views: &[View]) -> Vec<f64> {
    let rate = middle(views.iter().filter_map(|view| view.rate).collect());
    let usual = middle(views.iter().filter_map(|view| Some(view.usual?.as_secs_f64())).collect());
    let mut parts: Vec<f64> = views.iter().map(|view| view.free.max(1) as f64 * view.pace(rate, usual)).collect();
    let all: f64 = parts.iter().sum();
    parts.iter_mut().for_each(|part| *part /= all);
    parts
}

fn middle(mut of: Vec<f64>) -> Option<f64> {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied()
}

impl View {
    /// The part of its share that it is given: all of it unless it is much slower than the one in the middle. A drive with a short queue
    /// takes few bytes in a second, and one with a long queue takes long for each append: only both together make it slow.
    fn pace(&self, rate: Option<f64>, usual: Option<f64>) -> f64 {
        let (Some(rate), Some(usual), Some(own_rate), Some(own)) = (rate, usual, self.rate, self.usual) else {
            return 1.0;
        };
        let speed = (own_rate / rate).max(usual / own.as_secs_f64());
        // All at seven tenths of the speed, half at half of it, an eighth at a quarter.
        if speed.is_finite() { (2.0 * speed.powi(2)).clamp(PACE_LEAST, 1.0) } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn view(drive: usize, free: u64) -> View {
        View { drive, free, queue: 0, lead: 0.0, rate: None, usual: None, stalled: false }
    }

    fn open(_: usize) -> Offer<(), ()> {
        Offer::File(())
    }

    fn first(views: &[View]) -> usize {
        let (Choice::Take(drive, ()), None) = choose(views, true, open) else { panic!("all have files") };
        drive
    }

    /// Bytes on each drive after `appends` appends, each of which has ended `within` as many steps, on drives that end
    /// an append every `steps_each` steps.
    fn run(free: &[u64], steps_each: &[u64], within: usize, appends: usize) -> Vec<u64> {
        let mut views: Vec<View> = free.iter().enumerate().map(|(drive, free)| view(drive, *free)).collect();
        let (mut given, mut ended) = (vec![0; free.len()], vec![0; free.len()]);
        let mut step = 0;
        while given.iter().sum::<u64>() < appends as u64 * MIB {
            while views.iter().map(|view| view.queue).sum::<u64>() < within as u64 * MIB {
                let drive = first(&views);
                charge(&mut views, drive, MIB);
                views[drive].queue += MIB;
                views[drive].free -= MIB;
                given[drive] += MIB;
            }
            step += 1;
            for (drive, view) in views.iter_mut().enumerate().filter(|(drive, _)| step % steps_each[*drive] == 0) {
                ended[drive] += view.queue.min(MIB);
                view.queue -= view.queue.min(MIB);
                view.rate = Some(1.0 / steps_each[drive] as f64);
                view.usual = Some(Duration::from_secs(steps_each[drive] * (1 + view.queue / MIB)));
            }
        }
        given
    }

    /// OS-EVEN-1.
    #[test]
    fn drives_get_bytes_in_proportion_to_their_free_space_with_and_without_queues() {
        for free in [[1u64 << 36; 4].as_slice(), &[1 << 36, 1 << 35, 1 << 34], &[1 << 34, 1 << 36]] {
            for within in [1, 8, 32] {
                let given = run(free, &vec![4; free.len()], within, 8000);
                let (all_free, all) = (free.iter().sum::<u64>() as f64, given.iter().sum::<u64>() as f64);
                for (free, given) in free.iter().zip(&given) {
                    let part = *given as f64 / all / (*free as f64 / all_free);
                    assert!((0.95..1.05).contains(&part), "{within} at once, {free} free: {part}");
                }
            }
        }
    }

    /// OS-EVEN-1: half as fast takes half as much, and does not hold up the others.
    #[test]
    fn a_drive_that_is_slower_is_given_less() {
        let given = run(&[1 << 36; 4], &[4, 4, 4, 8], 8, 8000);
        let part = given[3] as f64 / given[0] as f64;
        assert!((0.35..0.65).contains(&part), "{part}");
        let given = run(&[1 << 36; 4], &[4, 4, 4, 24], 8, 8000);
        assert!(given[3] < given[0] / 5, "{given:?}");
    }

    /// [`run`] would take more from its free space than there is.
    #[test]
    fn a_drive_that_is_nearly_full_is_given_no_more_than_it_can_take() {
        for within in [1, 8, 32] {
            let given = run(&[64 * MIB, 1 << 36, 1 << 36], &[4; 3], within, 8000);
            assert!(given[0] <= 64 * MIB && given[1].abs_diff(given[2]) < 100 * MIB, "{given:?}");
        }
    }

    #[test]
    fn a_drive_that_ends_nothing_comes_last() {
        let mut views = [view(0, 1 << 36), view(1, 1 << 30)];
        (views[0].lead, views[1].queue) = (-1e8, 8 * MIB);
        assert_eq!(first(&views), 0);
        views[0].stalled = true;
        assert_eq!(first(&views), 1);
    }

    /// OS-EVEN-2: the drive that is left out is entitled to nothing.
    #[test]
    fn who_was_away_is_owed_nothing() {
        let mut views = [view(0, 1 << 36), view(1, 1 << 36), view(2, 1 << 36)];
        for _ in 0..1000 {
            let drive = first(&views[..2]);
            charge(&mut views[..2], drive, MIB);
        }
        let mut given = [0; 3];
        for _ in 0..30 {
            let drive = first(&views);
            charge(&mut views, drive, MIB);
            given[drive] += 1;
        }
        assert!(given.iter().all(|given| (9..=11).contains(given)), "{given:?}");
    }

    #[test]
    fn drives_without_a_file_have_one_made_while_others_take_their_place() {
        let views = [view(0, 1 << 30), view(1, 1 << 30), view(2, 1 << 30)];
        let on = |offers: [Offer<u64, u64>; 3], spreads| choose(&views, spreads, |drive| offers[drive]);
        use Offer::{File, Full, Nothing, Soon};
        assert_eq!(on([Soon, Nothing, File(7)], true), (Choice::Take(2, 7), Some(Ahead::Create(1))));
        assert_eq!(on([Soon, Full(5), File(7)], true), (Choice::Take(2, 7), Some(Ahead::Close(5))));
        assert_eq!(on([Soon, Nothing, File(7)], false), (Choice::Take(2, 7), None));
        assert_eq!(on([Nothing, Full(5), Soon], true), (Choice::Create(0), None));
        assert_eq!(on([Nothing, Full(5), Soon], false), (Choice::Close(5), None));
        assert_eq!(on([Soon, Nothing, Nothing], false), (Choice::Create(1), None));
        assert_eq!(on([Soon, Soon, Soon], true), (Choice::Wait, None));
    }
}
