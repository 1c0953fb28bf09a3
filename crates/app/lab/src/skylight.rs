//! The dissertation's figures of a drive, from the findings of a survey. (Chapter 2.)
//!
//! A figure whose examination did not run, or found nothing to draw, is left out.

use shingle_skylight::exam::capacity::Fill;
use shingle_skylight::exam::surface::SEQUENCE_BLOCKS;
use shingle_skylight::{Findings, MIB};

use crate::report::figure::{Axis, Figure, Mark, Series};

/// Megabytes of a MiB.
const MIB_MB: f64 = 1.048_576;

/// All figures that the findings have data for.
pub fn figures(findings: &Findings) -> Vec<Figure> {
    let mut all = Vec::new();
    all.extend(drive_type(findings));
    all.extend(entries(findings));
    all.extend(location(findings));
    all.extend(cleaning(findings));
    all.extend(rereads(findings));
    all.extend(fills(findings));
    all.extend(bands(findings));
    all.extend(mapping(findings));
    all.extend(rates(findings));
    all.extend(sequence(findings));
    all.retain(|figure| figure.series.iter().any(|series| !series.points.is_empty()));
    all
}

fn numbered(values: &[f64], one_in: usize) -> Vec<(f64, f64)> {
    values.iter().enumerate().map(|(at, &value)| ((at * one_in) as f64, value)).collect()
}

fn figure(name: &str, title: String, x: Axis, y: Axis, series: Vec<Series>) -> Figure {
    Figure { name: format!("skylight-{name}"), title, x, y, series }
}

fn drive_type(findings: &Findings) -> Option<Figure> {
    let found = findings.drive_type.as_ref()?;
    Some(figure(
        "2.4-drive-type",
        format!("Random writes of 4 KiB, {} (Figure 2.4)", findings.drive),
        Axis::linear("write"),
        Axis::linear("latency (ms)"),
        vec![Series::new("latency", Mark::Dots, numbered(&found.latencies_ms, 1))],
    ))
}

fn entries(findings: &Findings) -> Option<Figure> {
    let found = findings.journal.as_ref()?;
    let points = found.by_size_ms.iter().map(|&(kib, ms)| (kib as f64, ms)).collect();
    Some(figure(
        "2.7-entries",
        format!("Bursts of 31 random writes by their size, {} (Figure 2.7)", findings.drive),
        Axis::linear("size of a write (KiB)"),
        Axis::linear("from one burst to the next (ms)"),
        vec![Series::new("bursts", Mark::LineAndPoints, points)],
    ))
}

fn location(findings: &Findings) -> Option<Figure> {
    let found = findings.cache_location.as_ref()?;
    let series = ["low addresses", "middle addresses", "high addresses"]
        .into_iter()
        .zip(&found.latencies_ms)
        .map(|(name, latencies)| Series::new(name, Mark::Dots, numbered(latencies, 1)))
        .collect();
    Some(figure(
        "2.8-location",
        format!("Fragmented reads at three places, {} (Figure 2.8)", findings.drive),
        Axis::linear("read"),
        Axis::linear("latency (ms)"),
        series,
    ))
}

fn cleaning(findings: &Findings) -> Option<Figure> {
    let [before, after] = &findings.cleaning.as_ref()?.intervals_ms;
    Some(figure(
        "2.10-cleaning",
        format!("A fragmented region before and after a pause, {} (Figure 2.10)", findings.drive),
        Axis::linear("read"),
        Axis::linear("from read to read (ms)"),
        vec![
            Series::new("at once", Mark::Dots, numbered(before, 1)),
            Series::new("after a pause", Mark::Dots, numbered(after, 1)),
        ],
    ))
}

/// Blocks in the order of their writing: those that cleaning has moved wait for the arm.
fn rereads(findings: &Findings) -> Vec<Figure> {
    let Some(found) = findings.cleaning.as_ref().and_then(|found| found.rereads.as_ref()) else { return Vec::new() };
    let words = |seconds: f64| match seconds {
        0.0 => "at once".to_owned(),
        seconds => format!("after pauses of {:.1} min", seconds / 60.0),
    };
    let passes = found.passes.iter().map(|(waited, read)| Series::new(words(*waited), Mark::Dots, numbered(read, 1)));
    let mut before = 0;
    let parts =
        ["first, of one region", "then, anywhere", "last, of that region again"].into_iter().zip(&found.parts_ms);
    let parts = parts.map(|(name, read)| {
        let points = read.iter().enumerate().map(|(at, &ms)| ((before + at) as f64, ms)).collect();
        before += read.len();
        Series::new(name, Mark::Dots, points)
    });
    let drive = &findings.drive;
    let picture = |name, title, series| figure(name, title, Axis::linear("read"), Axis::linear("latency (ms)"), series);
    vec![
        picture(
            "2.12-rereads",
            format!("Random blocks in the order of their writing, {drive} (Figure 2.12)"),
            passes.collect(),
        ),
        picture(
            "2.13-order",
            format!("Blocks of a region, of anywhere, and of the region again, after a pause, {drive} (Figure 2.13)"),
            parts.collect(),
        ),
        figure(
            "2.19-course",
            format!("A block of each MiB in order, of which some bands were cleaned, {drive} (Figure 2.19)"),
            Axis::linear("place (MiB)"),
            Axis::linear("latency (ms)"),
            vec![Series::new("reads", Mark::Dots, numbered(&found.course_ms, 1))],
        ),
    ]
}

fn fills(findings: &Findings) -> Vec<Figure> {
    let Some(found) = &findings.capacity else { return Vec::new() };
    let fill = |name: &str, title: String, fills: Vec<&Fill>| {
        let words = |fill: &Fill| format!("{} KiB, {} outstanding", fill.kib, fill.depth);
        let series =
            fills.iter().map(|fill| Series::new(words(fill), Mark::Dots, numbered(&fill.latencies_ms, fill.one_in)));
        figure(name, title, Axis::linear("write"), Axis::logarithmic("latency (ms)"), series.collect())
    };
    let drive = &findings.drive;
    let (alone, together): (Vec<&Fill>, Vec<&Fill>) = found.fills.iter().partition(|fill| fill.depth == 1);
    let mut all = vec![
        fill(
            "2.15-fill-queued",
            format!("Random writes until cleaning, many outstanding, {drive} (Figure 2.15)"),
            together,
        ),
        fill("2.16-fill-single", format!("Random writes until cleaning, one at a time, {drive} (Figure 2.16)"), alone),
    ];
    let titles =
        [("2.17-rounds", "Three rounds of the same blocks", "2.17"), ("2.18-pool", "Blocks drawn from a pool", "2.18")];
    for ((name, words, number), repeat) in titles.into_iter().zip(&found.repeats) {
        all.push(fill(name, format!("{words}, {drive} (Figure {number})"), vec![repeat]));
    }
    all
}

/// The sizes of bands where they were measured.
fn bands(findings: &Findings) -> Option<Figure> {
    findings.bands.as_ref()?;
    let points = findings.known_bands().map(|(share, band)| (share * 100.0, band.blocks as f64 / MIB as f64)).collect();
    Some(figure(
        "2.19-bands",
        format!("Size of bands by place, {} (after Figure 2.19)", findings.drive),
        Axis::linear("place (% of the drive)"),
        Axis::linear("size of a band (MiB)"),
        vec![Series::new("bands", Mark::LineAndPoints, points)],
    ))
}

fn mapping(findings: &Findings) -> Option<Figure> {
    let [before, after] = &findings.mapping.as_ref()?.pairs_ms;
    Some(figure(
        "2.21-mapping",
        format!("Pairs of reads before and after a band was cleaned, {} (Figure 2.21)", findings.drive),
        Axis::linear("pair"),
        Axis::linear("time of a pair (ms)"),
        vec![
            Series::new("before", Mark::LineAndPoints, numbered(before, 1)),
            Series::new("after", Mark::LineAndPoints, numbered(after, 1)),
        ],
    ))
}

fn rates(findings: &Findings) -> Option<Figure> {
    let found = findings.surface.as_ref()?;
    let points = found.profile.iter().map(|&(share, rate)| (share * 100.0, rate)).collect();
    Some(figure(
        "2.22-rates",
        format!("Sequential reads by place, {} (Figure 2.22)", findings.drive),
        Axis::linear("place (% of the drive)"),
        Axis::linear("rate (MB/s)"),
        vec![Series::new("rate", Mark::Line, points)],
    ))
}

/// Latencies of sequential reads, over the whole drive and over some tracks.
fn sequence(findings: &Findings) -> Vec<Figure> {
    let Some(found) = &findings.surface else { return Vec::new() };
    let whole = found.profile.iter().map(|&(share, rate)| (share * 100.0, MIB_MB * 1e3 / rate)).collect();
    let step = SEQUENCE_BLOCKS as f64 / MIB as f64;
    let some = found.sequence_ms.iter().enumerate().map(|(at, &ms)| (at as f64 * step, ms)).collect();
    let drive = &findings.drive;
    vec![
        figure(
            "2.26-sequential",
            format!("Sequential reads by place, {drive} (Figure 2.26 a)"),
            Axis::linear("place (% of the drive)"),
            Axis::linear("time of a MiB (ms)"),
            vec![Series::new("reads", Mark::Line, whole)],
        ),
        figure(
            "2.26-tracks",
            format!("Sequential reads of {} KiB over some tracks, {drive} (Figure 2.26 b)", SEQUENCE_BLOCKS * 4),
            Axis::linear("place (MiB)"),
            Axis::linear("from read to read (ms)"),
            vec![Series::new("reads", Mark::Line, some)],
        ),
    ]
}
