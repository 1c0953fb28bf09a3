//! The files in numbers, also as monitoring asks for them.

use std::fmt::Write as _;

/// Counters since the opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of files that were written.
    pub bytes_written: u64,
    /// Blocks that were written for them.
    pub blocks_written: u64,
    /// Commands that wrote them.
    pub writes: u64,
    /// Bytes that were copied by cleaning.
    pub bytes_copied: u64,
    /// Blocks that were written for copies.
    pub blocks_copied: u64,
    /// Bytes that were read.
    pub bytes_read: u64,
    /// Zones that were emptied by copying.
    pub cleaned: u64,
    /// Zones that became free.
    pub freed: u64,
    /// Journal entries.
    pub entries: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Syncs that were asked for.
    pub syncs: u64,
}

/// The files in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilesStats {
    /// Counters since the opening.
    pub counters: Counters,
    /// Files.
    pub files: u64,
    /// Directories, but for the root.
    pub directories: u64,
    /// Extents of all files.
    pub extents: u64,
    /// Bytes of data zones.
    pub capacity_bytes: u64,
    /// Bytes of blocks that files need.
    pub live_bytes: u64,
    /// Bytes that can still be written, once zones are cleaned.
    pub free_bytes: u64,
    /// Data zones.
    pub zones: u32,
    /// Data zones that are free.
    pub zones_free: u32,
    /// Data zones that are open.
    pub zones_open: u32,
    /// Data zones that can be written no more.
    pub zones_broken: u32,
}

/// Kind of a figure, in Prometheus' terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// It goes up and down.
    Gauge,
    /// It only rises, from zero at each opening.
    Counter,
}

/// A figure for monitoring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Its name, with the unit: `shingle_files_live_bytes`.
    pub name: &'static str,
    /// Its kind.
    pub kind: FigureKind,
    /// Its meaning.
    pub help: &'static str,
    /// Its value.
    pub value: u64,
}

type Row = (&'static str, FigureKind, &'static str, fn(&FilesStats) -> u64);

const FIGURES: [Row; 21] = {
    use FigureKind::{Counter, Gauge};
    [
        ("shingle_files_capacity_bytes", Gauge, "Bytes of data zones.", |s| s.capacity_bytes),
        ("shingle_files_live_bytes", Gauge, "Bytes of blocks that files need.", |s| s.live_bytes),
        ("shingle_files_free_bytes", Gauge, "Bytes that can be written, once zones are cleaned.", |s| s.free_bytes),
        ("shingle_files_files", Gauge, "Files.", |s| s.files),
        ("shingle_files_directories", Gauge, "Directories, but for the root.", |s| s.directories),
        ("shingle_files_extents", Gauge, "Extents of all files.", |s| s.extents),
        ("shingle_files_zones", Gauge, "Data zones.", |s| s.zones.into()),
        ("shingle_files_free_zones", Gauge, "Data zones that are free.", |s| s.zones_free.into()),
        ("shingle_files_open_zones", Gauge, "Data zones that are written.", |s| s.zones_open.into()),
        ("shingle_files_broken_zones", Gauge, "Data zones that can be written no more.", |s| s.zones_broken.into()),
        ("shingle_files_written_bytes_total", Counter, "Bytes of files written.", |s| s.counters.bytes_written),
        ("shingle_files_written_blocks_total", Counter, "Blocks written for them.", |s| s.counters.blocks_written),
        ("shingle_files_writes_total", Counter, "Commands that wrote them.", |s| s.counters.writes),
        ("shingle_files_copied_bytes_total", Counter, "Bytes copied by cleaning.", |s| s.counters.bytes_copied),
        ("shingle_files_copied_blocks_total", Counter, "Blocks written for copies.", |s| s.counters.blocks_copied),
        ("shingle_files_read_bytes_total", Counter, "Bytes returned by reads.", |s| s.counters.bytes_read),
        ("shingle_files_cleaned_zones_total", Counter, "Zones emptied by copying.", |s| s.counters.cleaned),
        ("shingle_files_freed_zones_total", Counter, "Zones that became free.", |s| s.counters.freed),
        ("shingle_files_journal_entries_total", Counter, "Journal entries.", |s| s.counters.entries),
        ("shingle_files_checkpoints_total", Counter, "Checkpoints.", |s| s.counters.checkpoints),
        ("shingle_files_syncs_total", Counter, "Syncs asked for.", |s| s.counters.syncs),
    ]
};

impl FilesStats {
    /// Gives all figures to `tell`, for monitoring of the caller's own.
    pub fn each_figure(&self, mut tell: impl FnMut(Figure)) {
        for (name, kind, help, value) in FIGURES {
            tell(Figure { name, kind, help, value: value(self) });
        }
    }

    /// All figures in the Prometheus text format. Each has the labels of `labels`, such as `("db", "orders")`.
    pub fn prometheus(&self, labels: &[(&str, &str)]) -> String {
        let pair = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
        let labels = labels.iter().map(pair).collect::<Vec<_>>().join(",");
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let mut text = String::new();
        self.each_figure(|Figure { name, kind, help, value }| {
            let kind = if kind == FigureKind::Gauge { "gauge" } else { "counter" };
            // Writing to memory cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{braces} {value}");
        });
        text
    }
}

/// A label's value, as the format writes it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_declared_once_and_counters_say_that_they_are() {
        let counters = Counters { syncs: 7, ..Counters::default() };
        let stats = FilesStats { counters, zones_free: 3, ..FilesStats::default() };
        let text = stats.prometheus(&[("db", "a\"b\\"), ("drive", "x")]);
        assert!(text.contains("shingle_files_syncs_total{db=\"a\\\"b\\\\\",drive=\"x\"} 7\n"), "{text}");
        assert!(stats.prometheus(&[]).contains("\nshingle_files_free_zones 3\n"));
        let mut names = std::collections::BTreeSet::new();
        stats.each_figure(|figure| {
            assert!(names.insert(figure.name), "{} is declared twice", figure.name);
            assert_eq!(figure.name.ends_with("_total"), figure.kind == FigureKind::Counter, "{}", figure.name);
        });
        assert_eq!(text.lines().count(), 3 * names.len());
    }
}
