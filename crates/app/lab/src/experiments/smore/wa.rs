//! Write amplification of cleaning under random deletion. (SMORE, section V-E, Figure 6.)

use shingle_array_store::Options;
use shingle_sim::Sim;

use super::ingest::{SIZES, SMALL, note, ours, paper};
use super::read::{WRITERS, filled};
use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::objects::{Sizes, Skew};
use crate::load::theory::greedy;
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::array::{DATA, DRIVES, LabArray};

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "smore-wa",
        question: "How much is written for each byte that clients write, when objects are deleted at random as fast as new ones \
                   come?",
        setup: "Six Ha10, 5+1, one zone in 60 (960 in a quick run; in a standard one 60 for the project's own and mixed sizes, 240 for 1 MB, \
                else 120), filled to 70, 80 and 90 % by twelve writers; then objects drawn at random are deleted as fast \
                as new ones come, until clients have written 1.5 times the array's capacity, of which the last third \
                is measured (from 64 MB on the last 0.8 of 1.8 times, of mixed sizes the last third of 2.25, below 16 MB the last third of 1.2; full scale: \
                the last of 5 times; a quick run: 0.5 of 1.2, mixed sizes only). In a standard run sizes below 16 MB and above 256 MB are of the first seed only, and so is \
                the paper's configuration at 70 and 90 %. Rows of skewed deletion: a fifth of the objects gets four \
                fifths of the deletions, and the array is not told which (the last of 2.5 times is measured). Everything that went to the drives counts, markers, \
                digests, snapshots and superblocks too; what is called without parity is five sixths of it. Writers say how \
                long an object will be, as clients of S3 do; one row is of those that do not. Drives take no time here: it \
                would change nothing.",
        runs: Runs::SEEDS,
        run,
    }
}

/// Shares of the array that live.
const FULL: [f64; 3] = [0.7, 0.8, 0.9];

/// Capacities that are written before it is measured, and while it is.
type Churn = (f64, f64);

/// One run.
struct Case {
    options: Options,
    sizes: Sizes,
    full: f64,
    churn: Churn,
    /// Writers announce the length of an object.
    told: bool,
    /// `None`: any object may be deleted next.
    skew: Option<Skew>,
}

/// Owner of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Ours,
    Paper,
}

impl Owner {
    fn options(self) -> Options {
        match self {
            Self::Ours => ours(),
            Self::Paper => paper(),
        }
    }
}

/// Of equal sizes, so full: amplification by size in MB, and that of greedy cleaning in theory.
struct Curve {
    full: f64,
    found: Vec<(f64, f64)>,
    in_theory: Vec<(f64, f64)>,
}

/// The skew of rows that have one.
const SKEW: Skew = Skew { objects_percent: 20, deletions_percent: 80 };

/// Sizes with rows of skewed deletion.
const SKEWED: [u64; 2] = [16 << 20, 64 << 20];

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    note(context);
    let sizes: &[u64] = context.scale.pick(&[], &SIZES, &SIZES);
    let sizes: Vec<Sizes> = sizes.iter().copied().map(Sizes::Equal).collect();
    let full: &[f64] = context.scale.pick(&[0.7, 0.8], &FULL, &FULL);
    let mut rows = Vec::new();
    let mut curves = Vec::new();
    let (mut mixes, mut papers) = (Vec::new(), Vec::new());
    let runs = full.len() * (sizes.len() + 2) + 1 + SKEWED.len();
    let mut done = 0;
    for &full in full {
        let mut measure = |owner: Owner, sizes: Sizes, told: bool, skew: Option<Skew>| {
            let what = format!("{}, {:.0} % full", sizes.name(), full * 100.0);
            (context.progress)(&what, Some(f64::from(done) / runs as f64));
            done += 1;
            let churn = churn(context.scale, sizes, skew);
            let case = Case { options: owner.options(), sizes, full, churn, told, skew };
            churned(&array(context, sizes, owner)?, case, context.seed)
        };
        let (mut curve, mut in_theory) = (Vec::new(), Vec::new());
        for &sizes in sizes.iter().filter(|&&sizes| is_for(context, sizes, full, Owner::Ours)) {
            let found = measure(Owner::Ours, sizes, true, None)?;
            let Sizes::Equal(size) = sizes else { continue };
            let at = (size >> 20) as f64;
            curve.push((at, found.amplification));
            in_theory.extend(found.greedy(full).map(|theory| (at, theory / DATA_SHARE)));
            rows.push(beside_theory(row(sizes, full).ours(found.amplification * DATA_SHARE), full, found));
        }
        curves.push(Curve { full, found: curve, in_theory });
        let ours = measure(Owner::Ours, Sizes::Mix, true, None)?.amplification;
        mixes.push((MIX_AT, ours));
        let mut row = row(Sizes::Mix, full).ours(ours * DATA_SHARE);
        if context.scale != Scale::Quick && is_for(context, Sizes::Mix, full, Owner::Paper) {
            let paper = measure(Owner::Paper, Sizes::Mix, true, None)?.amplification;
            papers.push((MIX_AT, paper));
            row = row.paper_config(paper * DATA_SHARE);
        }
        rows.push(match full {
            0.8 => row
                .paper_at_most(2.0)
                .goal(1.4)
                .note(format!("the paper: less than 2.0; {}", parity_note(ours)))
                .judged(),
            0.9 => row.goal(2.1).note(parity_note(ours)).judged(),
            _ => row.note(parity_note(ours)).judged(),
        });
        if full == 0.8 && context.scale != Scale::Quick {
            let found = measure(Owner::Ours, Sizes::Mix, false, None)?.amplification;
            let id = "write amplification without parity, mixed sizes, lengths not told, 80 % full";
            rows.push(Row::new(id, "x", Better::Lower).ours(found * DATA_SHARE).note(parity_note(found)).judged());
            for size in SKEWED {
                let found = measure(Owner::Ours, Sizes::Equal(size), true, Some(SKEW))?;
                rows.push(skewed_row(size, full, found));
            }
        }
    }
    let figure = figure(curves, mixes, papers);
    Ok(Outcome { rows, figures: vec![figure], ..Outcome::default() })
}

/// The array of a run.
fn array(context: &Context, sizes: Sizes, owner: Owner) -> Result<LabArray, LabError> {
    let every = match (sizes, owner) {
        (Sizes::Mix, Owner::Ours) => 60,
        (Sizes::Equal(size), _) if size < MANY => 240,
        _ => 120,
    };
    LabArray::new(context, context.scale.pick(960, every, 60))
}

/// Objects smaller than this are very many.
const MANY: u64 = 4 << 20;

/// Objects of this size and larger ones are few.
const FEW: u64 = 64 << 20;

/// Capacities written: large objects take more until their sets are as they stay.
fn churn(scale: Scale, sizes: Sizes, skew: Option<Skew>) -> Churn {
    match sizes {
        _ if scale == Scale::Quick => (0.7, 0.5),
        _ if scale == Scale::Full => (4.0, 1.0),
        _ if skew.is_some() => (1.5, 1.0),
        Sizes::Equal(size) if size < SMALL => (0.8, 0.4),
        Sizes::Equal(size) if size < FEW => (1.0, 0.5),
        Sizes::Equal(_) => (1.0, 0.8),
        Sizes::Mix => (1.5, 0.75),
    }
}

/// True if this seed measures it. In a standard run the first one measures all, and small objects alone: they are so many that chance is nothing;
/// so does it those that are only shown.
fn is_for(context: &Context, sizes: Sizes, full: f64, owner: Owner) -> bool {
    let judged = match sizes {
        Sizes::Equal(size) => (SMALL..=LARGEST_JUDGED).contains(&size),
        Sizes::Mix => owner == Owner::Ours || full == 0.8,
    };
    judged || context.every_input || context.scale != Scale::Standard
}

/// Larger objects lie in several sets.
const LARGEST_JUDGED: u64 = 256 << 20;

/// Data fragments of all fragments.
const DATA_SHARE: f64 = DATA as f64 / DRIVES as f64;

/// Size at which mixed sizes are drawn: their peak.
const MIX_AT: f64 = 128.0;

fn row(sizes: Sizes, full: f64) -> Row {
    let id = format!("write amplification without parity, {}, {:.0} % full", sizes.name(), full * 100.0);
    Row::new(id, "x", Better::Lower)
}

/// A row of skewed deletion, whose goal is what greedy cleaning has in theory at the same spare without a skew.
fn skewed_row(size: u64, full: f64, found: Found) -> Row {
    let theory = greedy(full, found.objects);
    let found = found.amplification;
    let id = format!(
        "write amplification without parity, {}, {} % of the objects with {} % of the deletions, {:.0} % full",
        Sizes::Equal(size).name(),
        SKEW.objects_percent,
        SKEW.deletions_percent,
        full * 100.0
    );
    let over = found * DATA_SHARE / theory;
    let note =
        format!("{over:.2} times greedy cleaning in theory, {theory:.2}, where all objects are as likely to die");
    Row::new(id, "x", Better::Lower)
        .ours(found * DATA_SHARE)
        .goal(theory)
        .note(format!("{note}; {}", parity_note(found)))
        .judged()
}

/// Fewest objects of a set of which the theory holds: it is of objects that lie in one set.
const OBJECTS_MIN: f64 = 4.0;

/// Largest factor over greedy cleaning in theory.
const OVER_THEORY: f64 = 1.1;

/// A row judged by greedy cleaning's theory at the same spare: that of all sets. Sets that the array keeps open or empty are no excuse, for
/// it is the array that keeps them; what the theory gives for the others is shown.
fn beside_theory(row: Row, full: f64, found: Found) -> Row {
    let parity = parity_note(found.amplification);
    let (Some(theory), Some(of_holding)) = (found.greedy(full), found.greedy(full / found.holding)) else {
        return row.note(format!("{parity}; objects lie in several sets: no theory")).judged();
    };
    row.goal(OVER_THEORY * theory)
        .note(format!(
            "{:.2} times greedy cleaning in theory, {theory:.2}, at the spare of all sets ({:.2} times it at that of the {:.1} % that hold \
             data); {parity}",
            found.amplification * DATA_SHARE / theory,
            found.amplification * DATA_SHARE / of_holding,
            found.holding * 100.0,
        ))
        .judged()
}

fn parity_note(found: f64) -> String {
    format!("{found:.2} with parity")
}

fn figure(curves: Vec<Curve>, mixes: Vec<(f64, f64)>, papers: Vec<(f64, f64)>) -> Figure {
    let span: Vec<f64> =
        curves.first().map(|curve| curve.found.iter().map(|point| point.0).collect()).unwrap_or_default();
    let full = |curve: &Curve| format!("{:.0} % full", curve.full * 100.0);
    let name = |curve: &Curve| format!("greedy in theory (Desnoyers 2014), {}", full(curve));
    let theories: Vec<_> = curves.iter().map(|curve| (name(curve), curve.in_theory.clone())).collect();
    let found = curves.into_iter().map(|curve| {
        let name = format!("Shingle, {}", full(&curve));
        Series::new(name, Mark::LineAndPoints, curve.found)
    });
    let mut series: Vec<Series> = found.collect();
    series.extend(theories.into_iter().map(|(name, points)| Series::new(name, Mark::Reference, points)));
    series.push(Series::new("Shingle, mixed sizes, as full", Mark::Points, mixes));
    series.push(Series::new("paper's configuration, mixed sizes, as full", Mark::Points, papers));
    series.push(Series::new("paper: the best, by parity", Mark::Reference, span.iter().map(|&x| (x, 1.2)).collect()));
    // 2.0 without parity.
    series.push(Series::new("paper: mixed sizes at 80 %, less than", Mark::Paper, vec![(MIX_AT, 2.4)]));
    Figure {
        name: "smore-wa".to_owned(),
        title: "Bytes written, parity included, for each byte of clients (SMORE, Figure 6)".to_owned(),
        x: Axis::logarithmic("object size (MB)"),
        y: Axis::linear("write amplification"),
        series,
    }
}

/// Result of one run.
#[derive(Clone, Copy)]
struct Found {
    /// Bytes written to all drives for each byte that clients wrote.
    amplification: f64,
    /// Share of the sets that hold data and can be cleaned, on average.
    holding: f64,
    /// Objects of equal size that a set holds.
    objects: f64,
}

impl Found {
    /// Greedy cleaning in theory, where that share of the sets lives; none of objects that lie in several sets.
    fn greedy(&self, used: f64) -> Option<f64> {
        (self.objects >= OBJECTS_MIN).then(|| greedy(used, self.objects))
    }
}

/// The measured time is divided into so many parts; behind each the sets are counted.
const SAMPLES: u32 = 10;

fn churned(array: &LabArray, case: Case, seed: u64) -> Result<Found, LabError> {
    let objects = match case.sizes {
        Sizes::Equal(size) => (array.set_bytes() / size) as f64,
        Sizes::Mix => 0.0,
    };
    let array = array.clone();
    Sim::new(seed).run(move |rt| async move {
        let (rig, load) = filled(&rt, &array, case.options, case.sizes, case.full, seed).await?;
        if !case.told {
            load.keep_lengths_back();
        }
        case.skew.into_iter().for_each(|skew| load.skew_deletions(skew));
        let capacity = rig.capacity()? as f64;
        let live = (capacity * case.full) as u64;
        load.churn(WRITERS, live, (capacity * case.churn.0) as u64).await?;
        let (put, written) = (load.put_bytes(), rig.written_bytes());
        let mut holding = 0.0;
        for _ in 0..SAMPLES {
            load.churn(WRITERS, live, (capacity * case.churn.1) as u64 / u64::from(SAMPLES)).await?;
            holding += rig.holding()? / f64::from(SAMPLES);
        }
        let amplification = (rig.written_bytes() - written) as f64 / (load.put_bytes() - put) as f64;
        Ok(Found { amplification, holding, objects })
    })
}
