//! Figures in the Prometheus text format: a small set, kept by hand. Base units, `_total` on counters.

mod blue;
mod text;

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shingle_array_objects::ArrayFigures;
use shingle_array_store::{Condition, DriveCondition};
use shingle_chunk_store::Forecast;
use shingle_object_store::ObjectStats;
use shingle_runtime::memory::Memory;
use shingle_s3_gateway::{GatewayMetrics, LATENCY_BOUNDS_S};
use shingle_store_api::StoreUsage;

use self::text::Text;
use crate::engines::drive::{DriveView, Sample};
use crate::engines::keeper::Kind;
use crate::engines::scrub;
use crate::reports::answers::{Answer, Answers, Figures};
use crate::reports::damage::Damage;
use crate::reports::gauges::{BOUNDS_S, Commands};

/// All figures.
pub(crate) fn render(gateway: &GatewayMetrics, memory: &Memory, answers: &Answers) -> String {
    let mut text = Text::default();
    text.single("shingle_up", "gauge", "1 if all engines serve.", u8::from(answers.all_serve()));
    render_engines(&mut text, answers);
    render_drives_up(&mut text, answers);
    render_gateway(&mut text, gateway);
    render_memory(&mut text, memory);
    for answer in &answers.0 {
        if let Some(Figures::Objects(figures, drives)) = &answer.figures {
            let (stats, usage) = &**figures;
            render_objects(&mut text, stats, usage);
            render_drives(&mut text, drives);
        }
    }
    let arrays: Vec<_> = answers.0.iter().filter(|answer| answer.kind == Kind::Array).map(ArrayAnswer::of).collect();
    render_arrays(&mut text, &arrays);
    render_scrubs(&mut text, &arrays);
    render_array_drives(&mut text, answers);
    blue::render(&mut text, answers);
    render_devices(&mut text, answers);
    text.done()
}

/// An array's name, its figures if it answers, and those of verifying it if it is open.
struct ArrayAnswer<'a>(&'a str, Option<&'a ArrayFigures>, Option<&'a scrub::Figures>);

impl<'a> ArrayAnswer<'a> {
    fn of(answer: &'a Answer) -> Self {
        let figures = match &answer.figures {
            Some(Figures::Array(figures)) => Some(&**figures),
            _ => None,
        };
        Self(&answer.name, figures, answer.scrub.as_ref())
    }
}

/// Present and missing drives of the object store.
fn render_drives_up(text: &mut Text, answers: &Answers) {
    let name = "shingle_drive_up";
    let mut named = false;
    for answer in answers.0.iter().filter(|answer| answer.kind == Kind::Drives) {
        if !std::mem::replace(&mut named, true) {
            text.family(name, "gauge", "1 if the object store has the drive, and it answers.");
        }
        if let Some(Figures::Objects(_, drives)) = &answer.figures {
            for drive in drives {
                let label = format!("drive=\"{}\"", escaped(&drive.path.to_string_lossy()));
                text.sample(name, &label, u8::from(drive.is_up()));
            }
        }
        for missing in &answer.missing {
            text.sample(
                name,
                &format!("drive=\"{}\"", escaped(missing.drive.split(" (store ").next().unwrap_or_default())),
                0,
            );
        }
    }
}

/// A figure of damage: its unit, its help text, and its source.
type DamageFigure = (&'static str, &'static str, fn(&Damage) -> u64);

fn render_engines(text: &mut Text, answers: &Answers) {
    let name = "shingle_engine_up";
    text.family(name, "gauge", "1 if the engine serves.");
    for answer in &answers.0 {
        text.sample(name, &format!("engine=\"{}\"", answer.name), u8::from(answer.figures.is_some()));
    }
    let name = "shingle_engine_drives_missing";
    text.family(name, "gauge", "Drives that the engine was opened without.");
    for answer in &answers.0 {
        text.sample(name, &format!("engine=\"{}\"", answer.name), answer.missing.len());
    }
    let known: [DamageFigure; 2] = [
        (
            "objects",
            "Objects known to be damaged: from the last check and from readers since, without those replaced.",
            Damage::objects,
        ),
        (
            "places",
            "Damaged places in the last whole check: in chunks, or zones and lost parts of an array.",
            Damage::places,
        ),
    ];
    for (what, help, count) in known {
        let name = format!("shingle_engine_damaged_{what}");
        text.family(&name, "gauge", help);
        for answer in &answers.0 {
            text.sample(&name, &format!("engine=\"{}\"", answer.name), count(&answer.damage));
        }
    }
}

/// The budget of `limits.memory`.
fn render_memory(text: &mut Text, memory: &Memory) {
    let name = "shingle_memory_limit_bytes";
    text.single(name, "gauge", "Memory for bodies of requests and answers: limits.memory.", memory.limit());
    let name = "shingle_memory_used_bytes";
    text.single(name, "gauge", "Of it, what is in use.", memory.used());
    let name = "shingle_memory_waiting";
    text.single(name, "gauge", "Requests that wait for enough of it.", memory.waiting());
}

/// A figure of an array: its name, help text and source.
type ArrayFigure = (&'static str, &'static str, fn(&ArrayFigures) -> u64);

const ARRAY_GAUGES: [ArrayFigure; 10] = [
    ("capacity_bytes", "Bytes of data that all zone sets can hold.", |f| f.array.capacity),
    ("live_bytes", "Bytes of live data.", |f| f.array.live),
    ("buffered_bytes", "Bytes of small objects that wait in the buffer's files.", |f| f.array.buffered),
    ("objects", "Live objects, as far as they have been counted since the start.", |f| f.objects),
    ("object_bytes", "Their bytes.", |f| f.object_bytes),
    ("drives", "Drives that belong to the array.", |f| f.array.drives),
    (
        "drives_missing",
        "Drives of the array that are missing or have failed; more than the code's parity lose data.",
        |f| f.array.drives_missing,
    ),
    ("drives_slow", "Drives of the array that answer far later than their peers.", |f| f.array.drives_slow),
    ("repairs_waiting_sets", "Zone sets with fragments that failed readers and are yet to be verified.", |f| {
        f.array.repairs_waiting
    }),
    ("purging", "Unneeded parts and objects that are being deleted.", |f| f.purging),
];

const ARRAY_COUNTERS: [ArrayFigure; 7] = [
    ("ingested_bytes_total", "Bytes that clients wrote.", |f| f.array.ingested),
    ("moved_bytes_total", "Bytes that cleaning moved.", |f| f.array.moved),
    ("reconstructed_bytes_total", "Bytes that were computed from parity for readers.", |f| f.array.reconstructed),
    ("hedged_reads_total", "Reads of other fragments in place of late ones.", |f| f.array.hedged),
    ("repaired_zones_total", "Zones rebuilt because they failed readers.", |f| f.array.repaired),
    ("slow_drives_given_up_total", "Drives that were given up because they were slow for long.", |f| {
        f.array.slow_given_up
    }),
    ("cleaned_sets_total", "Zone sets that cleaning emptied.", |f| f.array.cleaned),
];

/// States of zone sets, in the order in which an array counts them.
const SET_STATES: [&str; 6] = ["empty", "available", "open", "closed", "indexed", "index"];

fn render_arrays(text: &mut Text, arrays: &[ArrayAnswer<'_>]) {
    if arrays.is_empty() {
        return;
    }
    let label = |name: &str| format!("array=\"{name}\"");
    let name = "shingle_array_up";
    text.family(name, "gauge", "1 if the array answers.");
    for ArrayAnswer(array, figures, _) in arrays {
        text.sample(name, &label(array), u8::from(figures.is_some()));
    }
    let answered: Vec<_> =
        arrays.iter().filter_map(|ArrayAnswer(name, figures, _)| Some((label(name), (*figures)?))).collect();
    for (kind, figures) in [("gauge", &ARRAY_GAUGES[..]), ("counter", &ARRAY_COUNTERS[..])] {
        for (name, help, figure) in figures {
            let name = format!("shingle_array_{name}");
            text.family(&name, kind, help);
            answered.iter().for_each(|(label, figures)| text.sample(&name, label, figure(figures)));
        }
    }
    let name = "shingle_array_sets";
    text.family(name, "gauge", "Zone sets, by state.");
    for (label, figures) in &answered {
        for (state, count) in SET_STATES.iter().zip(figures.array.sets) {
            text.sample(name, &format!("{label},state=\"{state}\""), count);
        }
    }
}

/// Zones that a rebuild replaces, out of the lost ones.
fn rebuild_zones(condition: &Condition, done: bool) -> usize {
    condition.rebuilding.map_or(0, |(progress, _)| if done { progress.done } else { progress.members })
}

/// A state of an array's drive: its name, help text and source.
type DriveFigure = (&'static str, &'static str, fn(&DriveCondition) -> bool);

fn render_array_drives(text: &mut Text, answers: &Answers) {
    let known: Vec<_> =
        answers.0.iter().filter_map(|answer| Some((&answer.name, answer.condition.as_ref()?))).collect();
    if known.is_empty() {
        return;
    }
    let states: [DriveFigure; 2] = [
        ("up", "1 if a drive of the array is present and has not failed.", |drive| drive.up),
        ("slow", "1 if it answers far later than its peers.", |drive| drive.slow),
    ];
    for (name, help, state) in states {
        let name = format!("shingle_array_drive_{name}");
        text.family(&name, "gauge", help);
        for (array, condition) in &known {
            for drive in &condition.drives {
                let labels = format!("array=\"{array}\",drive=\"{}\"", escaped(&drive.name));
                text.sample(&name, &labels, u8::from(state(drive)));
            }
        }
    }
    for (name, help, done) in [
        ("zones", "Lost zones at the start of the running rebuild; 0: none runs.", false),
        ("done_zones", "Lost zones that the running rebuild has written to other drives.", true),
    ] {
        let name = format!("shingle_array_rebuild_{name}");
        text.family(&name, "gauge", help);
        for (array, condition) in &known {
            text.sample(&name, &format!("array=\"{array}\""), rebuild_zones(condition, done));
        }
    }
}

/// A figure of commands: its name, type, help text and source.
type CommandFigure = (&'static str, &'static str, &'static str, fn(&Commands) -> &AtomicU64);

/// The commands of all drives.
fn render_devices(text: &mut Text, answers: &Answers) {
    let get = |value: &AtomicU64| value.load(Relaxed);
    let mut all = Vec::new();
    for answer in &answers.0 {
        for (drive, gauges) in &answer.gauges {
            for (kind, commands) in gauges.kinds() {
                let drive = escaped(drive);
                all.push((format!("engine=\"{}\",drive=\"{drive}\",command=\"{kind}\"", answer.name), commands));
            }
        }
    }
    if all.is_empty() {
        return;
    }
    let name = "shingle_device_command_seconds";
    text.family(name, "histogram", "Time of commands to a drive.");
    for (labels, commands) in &all {
        let mut sum = 0;
        let bounds = BOUNDS_S.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&commands.times) {
            sum += get(count);
            text.sample(&format!("{name}_bucket"), &format!("{labels},le=\"{bound}\""), sum);
        }
        text.sample(&format!("{name}_sum"), labels, get(&commands.time_sum_ns) as f64 / 1e9);
        text.sample(&format!("{name}_count"), labels, sum);
    }
    let figures: [CommandFigure; 3] = [
        ("bytes_total", "counter", "Bytes that commands to a drive moved.", |commands| &commands.bytes),
        ("errors_total", "counter", "Commands that a drive failed.", |commands| &commands.errors),
        ("commands", "gauge", "Commands under way.", |commands| &commands.under_way),
    ];
    for (name, kind, help, figure) in figures {
        let name = format!("shingle_device_{name}");
        text.family(&name, kind, help);
        all.iter().for_each(|(labels, commands)| text.sample(&name, labels, get(figure(commands))));
    }
}

/// A label's value, as Prometheus reads it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A figure of verifying an array: its name, help text and source.
type ScrubFigure = (&'static str, &'static str, fn(&scrub::Figures) -> u64);

const SCRUB_GAUGES: [ScrubFigure; 2] = [
    ("left_sets", "Zone sets that are yet to be verified in this interval.", |f| f.left),
    ("ended_seconds", "Unix time of the end of the last whole verification; 0: none yet.", |f| f.ended),
];

const SCRUB_COUNTERS: [ScrubFigure; 5] = [
    ("sets_total", "Zone sets verified in the background.", |f| f.sets),
    ("bytes_total", "Bytes read for that.", |f| f.bytes),
    ("damaged_zones_total", "Zones that were found damaged.", |f| f.damaged),
    ("repaired_zones_total", "Damaged zones that were replaced or emptied.", |f| f.repaired),
    ("lost_parts_total", "Parts of objects that parity could not give back.", |f| f.lost),
];

fn render_scrubs(text: &mut Text, arrays: &[ArrayAnswer<'_>]) {
    if arrays.is_empty() {
        return;
    }
    for (kind, figures) in [("gauge", &SCRUB_GAUGES[..]), ("counter", &SCRUB_COUNTERS[..])] {
        for (name, help, figure) in figures {
            let name = format!("shingle_array_scrub_{name}");
            text.family(&name, kind, help);
            for ArrayAnswer(array, _, scrub) in arrays {
                if let Some(scrub) = scrub {
                    text.sample(&name, &format!("array=\"{array}\""), figure(scrub));
                }
            }
        }
    }
}

fn render_gateway(text: &mut Text, gateway: &GatewayMetrics) {
    let (counter, gauge) = ("counter", "gauge");
    let get = |value: &std::sync::atomic::AtomicU64| value.load(Relaxed);
    text.single("shingle_s3_received_bytes_total", counter, "Bytes read from clients.", get(&gateway.received_bytes));
    text.single("shingle_s3_sent_bytes_total", counter, "Bytes written to clients.", get(&gateway.sent_bytes));
    text.single("shingle_s3_connections_total", counter, "Connections accepted.", get(&gateway.connections_accepted));
    text.single("shingle_s3_connections", gauge, "Connections open.", get(&gateway.connections_open));
    let displaced = "Silent connections closed to make room for others.";
    text.single("shingle_s3_connections_displaced_total", counter, displaced, get(&gateway.connections_displaced));
    text.single("shingle_s3_requests_in_flight", gauge, "Requests under way.", get(&gateway.requests_in_flight));

    let name = "shingle_s3_requests_total";
    text.family(name, counter, "Requests answered, by method and class of status.");
    for (method, figures) in gateway.methods() {
        for (class, count) in (1..).zip(&figures.answers) {
            text.sample(name, &format!("method=\"{method}\",status=\"{class}xx\""), get(count));
        }
    }
    let name = "shingle_s3_request_seconds";
    text.family(name, "histogram", "Time from a request's head to its answer's head.");
    for (method, figures) in gateway.methods() {
        let mut sum = 0;
        let bounds = LATENCY_BOUNDS_S.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&figures.latency) {
            sum += get(count);
            text.sample(&format!("{name}_bucket"), &format!("method=\"{method}\",le=\"{bound}\""), sum);
        }
        let labels = format!("method=\"{method}\"");
        text.sample(&format!("{name}_sum"), &labels, get(&figures.latency_sum_ns) as f64 / 1e9);
        text.sample(&format!("{name}_count"), &labels, sum);
    }
}

fn render_objects(text: &mut Text, stats: &ObjectStats, usage: &StoreUsage) {
    for (name, help, value) in [
        ("objects", "Live objects.", usage.objects),
        ("live_bytes", "Bytes of live objects.", usage.live_bytes),
        ("capacity_bytes", "Bytes that can be stored in all.", usage.capacity_bytes),
        ("available_bytes", "Bytes that can be written now or after reclaiming garbage.", usage.available_bytes),
        ("files", "Files that objects are packed in.", stats.files),
        ("file_bytes", "Bytes in them.", stats.file_bytes),
        ("backup_bytes", "Size of the last index backup.", stats.backup_bytes),
    ] {
        text.single(&format!("shingle_store_{name}"), "gauge", help, value);
    }
    for (name, help, value) in [
        ("puts", "Objects and parts written.", stats.puts),
        ("put_bytes", "Their bytes.", stats.put_bytes),
        ("opens", "Objects opened for reading.", stats.opens),
        ("deletes", "Objects deleted.", stats.deletes),
        ("log_bytes", "Bytes appended to the log, GC's included.", stats.entry_bytes),
        ("append_retries", "Appends that failed and were made again elsewhere.", stats.append_retries),
        ("no_space", "Writes refused for want of space.", stats.no_space),
        ("gc_files", "Files that object GC has gone through.", stats.gc_files),
        ("gc_copied_bytes", "Bytes that object GC has copied.", stats.gc_copied_bytes),
        ("gc_freed_bytes", "Bytes of files that object GC has deleted.", stats.gc_freed_bytes),
        ("gc_damaged_files", "Files that object GC could not read wholly.", stats.gc_damaged_files),
        ("backups", "Index backups written.", stats.backups),
    ] {
        text.single(&format!("shingle_store_{name}_total"), "counter", help, value);
    }
}

/// A figure of a drive: its name, help text and source.
type Figure = (&'static str, &'static str, fn(&Sample) -> f64);

const GAUGES: [Figure; 9] = [
    ("capacity_bytes", "Bytes in data zones that can be used.", |s| s.space.capacity_bytes as f64),
    ("free_bytes", "Bytes in free zones and zones of garbage alone.", |s| s.space.free_bytes as f64),
    ("garbage_bytes", "Garbage in zones that also hold live data.", |s| s.space.garbage_bytes as f64),
    ("live_bytes", "Live data, with its headers and padding.", |s| s.space.live_bytes as f64),
    ("chunks", "Chunks.", |s| s.space.chunks as f64),
    ("queued_appends", "Appends that wait or are being written.", |s| s.space.queued_appends as f64),
    ("host_full", "1 if the file system that holds the drive was full at the last write.", |s| {
        f64::from(u8::from(s.space.host_full))
    }),
    ("gc_progress_ratio", "Share of GC's victim that is emptied; 0 while GC rests.", |s| {
        if s.gc.victim.is_some() { s.gc.progress } else { 0.0 }
    }),
    (
        "free_zones_end_seconds",
        "Seconds until free zones run out at this rate; +Inf: never, NaN: too early to tell.",
        |s| match s.gc.forecast {
            Forecast::Never => f64::INFINITY,
            Forecast::Seconds(seconds) => seconds,
            Forecast::Unknown => f64::NAN,
        },
    ),
];

const COUNTERS: [Figure; 14] = [
    ("appends_total", "Appends acknowledged.", |s| s.counters.appends as f64),
    ("appended_bytes_total", "Bytes of callers' data written.", |s| s.counters.appended_bytes as f64),
    ("written_bytes_total", "Bytes written to data zones for callers.", |s| s.counters.written_bytes as f64),
    ("landed_bytes_total", "Of them, bytes written to landing zones.", |s| s.counters.landed_bytes as f64),
    ("moved_bytes_total", "Of them, bytes moved from there to chunks' own zones.", |s| s.counters.moved_bytes as f64),
    ("marks_total", "Progress marks journaled.", |s| s.counters.marks as f64),
    ("reads_total", "Reads answered.", |s| s.counters.reads as f64),
    ("read_bytes_total", "Bytes returned by reads.", |s| s.counters.read_bytes as f64),
    ("write_errors_total", "Failed device writes, without those for want of room.", |s| s.counters.write_errors as f64),
    ("corrupt_reads_total", "Reads that met bytes that fail their check.", |s| s.counters.corrupt_reads as f64),
    ("gc_written_bytes_total", "Bytes that GC wrote.", |s| s.counters.gc_written_bytes as f64),
    ("gc_zones_total", "Zones that GC emptied.", |s| s.counters.gc_zones as f64),
    ("zone_resets_total", "Zones reset.", |s| s.counters.resets as f64),
    ("checkpoints_total", "Checkpoints completed.", |s| s.counters.checkpoints as f64),
];

fn render_drives(text: &mut Text, drives: &[DriveView]) {
    let sampled: Vec<_> = drives
        .iter()
        .map(|drive| {
            let labels = format!("drive=\"{}\",store=\"{}\"", escaped(&drive.path.to_string_lossy()), drive.store);
            (labels, *drive.sample.lock().unwrap_or_else(PoisonError::into_inner))
        })
        .collect();
    for (kind, figures) in [("gauge", &GAUGES[..]), ("counter", &COUNTERS[..])] {
        for (name, help, figure) in figures {
            let name = format!("shingle_drive_{name}");
            text.family(&name, kind, help);
            for (labels, sample) in &sampled {
                let value = figure(sample);
                // Rust writes infinity as `inf`.
                let value = if value.is_infinite() { "+Inf".to_owned() } else { value.to_string() };
                text.sample(&name, labels, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_comment_or_a_figure_of_a_declared_family() {
        let answer = |name: &str, kind, figures| Answer::for_test(name, kind, figures);
        let objects = Figures::Objects(Box::new((ObjectStats::default(), StoreUsage::default())), Vec::new());
        let array = Figures::Array(Box::default());
        let answers = Answers(vec![
            answer("drives", Kind::Drives, Some(objects)),
            answer("shelf", Kind::Array, Some(array)),
            answer("away", Kind::Array, None),
            answer("one", Kind::Blue, Some(Figures::Blue(Box::default()))),
        ]);
        answers.0[0].damage.checked(true, [("b".to_owned(), "k".to_owned())], 2);
        let memory = Memory::new(64 << 20, 4);
        let _held = memory.take(1 << 20);
        let text = render(&GatewayMetrics::default(), &memory, &answers);
        let mut families = std::collections::BTreeSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(families.insert(name.to_owned()), "{name} is declared twice");
                assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            } else if !line.starts_with("# HELP ") {
                let (series, value) = line.rsplit_once(' ').unwrap();
                value.parse::<f64>().unwrap();
                let name = series.split('{').next().unwrap();
                let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
                assert!(families.contains(base.unwrap_or(name)) || families.contains(name), "{line}");
            }
        }
        assert!(families.contains("shingle_store_objects") && families.contains("shingle_array_sets"));
        assert!(text.contains("shingle_blue_capacity_bytes{blue=\"one\"} 0\n"));
        assert!(text.contains("shingle_array_scrub_left_sets{array=\"away\"} 0\n"));
        assert!(text.contains("shingle_engine_damaged_objects{engine=\"drives\"} 1\n"));
        assert!(text.contains("shingle_engine_damaged_places{engine=\"drives\"} 2\n"));
        assert!(text.contains("shingle_memory_used_bytes 1048576\n"));
        assert!(text.contains("shingle_memory_limit_bytes 67108864\n") && text.contains("shingle_memory_waiting 0\n"));
        assert!(text.contains("shingle_array_up{array=\"away\"} 0\n") && text.contains("shingle_up 0\n"));
    }
}
