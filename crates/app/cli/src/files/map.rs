//! `shingle files map`: data zones by the files that they are for, at a glance.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use shingle_base::ByteSize;
use shingle_zone_files::ZoneDump;

use super::opened::{examined, told_of_loss};
use crate::drive::map::{Screen, zones_per_cell};
use crate::failure::Outcome;
use crate::output;

const LONG: &str = "\
What it shows: a cell for each data zone, or for some zones beside each other where there are too many.

A cell's colour (or letter) is the use of its zones: logs, copies of the cleaner, small files, tables by their expected lifetime, tables \
that have zones of their own. Its digit, where there are colours, is the share of what was written that files still need, in tenths. \
Nothing is written to the drive.

Without colours (into a pipe or a file, or with NO_COLOR set) a capital letter stands for a zone that is open.";

#[derive(Args)]
#[command(after_long_help = LONG)]
pub(crate) struct Map {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Columns to use [default: the terminal's].
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,
    /// Zones in a cell [default: as few as the screen has room for].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    zones_per_cell: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A use of zones: its name in a dump, letter, and colours of background and text, both numbers of the terminal's 256.
type Use = (&'static str, char, Option<(u8, u8)>);

const USES: [Use; 10] = [
    ("logs", 'w', Some((67, 231))),
    ("copies", 'c', Some((245, 16))),
    ("small files", 'f', Some((71, 16))),
    ("short", 's', Some((226, 16))),
    ("medium", 'm', Some((214, 16))),
    ("long", 'l', Some((166, 231))),
    ("extreme", 'e', Some((124, 231))),
    ("one file", 't', Some((97, 231))),
    ("dead", 'x', Some((16, 196))),
    ("free", '.', None),
];

/// Words for the legend.
fn words(name: &str) -> String {
    match name {
        "short" | "medium" | "long" | "extreme" => format!("{name} lifetime"),
        "one file" => "a file of its own".to_owned(),
        "dead" => "cannot be written".to_owned(),
        _ => name.to_owned(),
    }
}

/// Zones of one use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    zones: u64,
    written: u64,
    live: u64,
}

impl Sum {
    fn of<'z>(zones: impl IntoIterator<Item = &'z ZoneDump>) -> Self {
        zones.into_iter().fold(Self::default(), |sum, zone| Self {
            zones: sum.zones + 1,
            written: sum.written + written_bytes(zone),
            live: sum.live + zone.live_bytes,
        })
    }

    /// The share of what was written that is needed, in tenths; 10 is only for all of it.
    fn tenths(self) -> Option<u64> {
        let share = |live: u64, written: u64| if live >= written { 10 } else { live.saturating_mul(10) / written };
        (self.written > 0).then(|| share(self.live, self.written))
    }
}

fn written_bytes(zone: &ZoneDump) -> u64 {
    shingle_base::Blocks(u64::from(zone.written)).bytes()
}

/// Some zones beside each other.
struct Cell {
    first: u32,
    /// The place of their most common use in [`USES`].
    used: usize,
    open: bool,
    tenths: Option<u64>,
}

impl Cell {
    fn of(zones: &[ZoneDump]) -> Self {
        let count = |name: &str| zones.iter().filter(|zone| zone.use_of == name).count();
        let most = USES.iter().enumerate().max_by_key(|(at, (name, ..))| (count(name), std::cmp::Reverse(*at)));
        Self {
            first: zones.first().map_or(0, |zone| zone.zone.0),
            used: most.map_or(0, |(at, _)| at),
            open: zones.iter().any(|zone| zone.open),
            tenths: Sum::of(zones).tenths(),
        }
    }

    /// As a character without colours.
    fn letter(&self) -> char {
        let letter = USES.get(self.used).map_or('?', |(_, letter, _)| *letter);
        if self.open { letter.to_ascii_uppercase() } else { letter }
    }

    fn paint(&self, text: &mut String) {
        let Some((_, _, Some((background, front)))) = USES.get(self.used) else {
            text.push_str("\x1b[0m.");
            return;
        };
        let digit = match self.tenths {
            None => ' ',
            Some(10..) => '#',
            Some(tenths) => char::from(b'0' + tenths as u8),
        };
        let bold = if self.open { ";1;4" } else { "" };
        let _ = write!(text, "\x1b[0;48;5;{background};38;5;{front}{bold}m{digit}");
    }
}

/// The map, its legend and its sums.
fn draw(zones: &[ZoneDump], zone_bytes: u64, per_cell: Option<u32>, screen: &Screen) -> String {
    let label = zones.last().map_or(1, |zone| zone.zone.0.to_string().len());
    let room = screen.columns.saturating_sub(label + 1).max(10);
    let across = if room >= 20 { room / 10 * 10 } else { room };
    let down = screen.rows.saturating_sub(USES.len() + 5).max(8);
    let per_cell = per_cell.unwrap_or_else(|| zones_per_cell(zones.len(), across * down));
    let cells: Vec<Cell> = zones.chunks(per_cell.max(1) as usize).map(Cell::of).collect();
    let mut text = String::new();
    for row in cells.chunks(across) {
        let _ = write!(text, "{:>label$} ", row.first().map_or(0, |cell| cell.first));
        for cell in row {
            if screen.colours { cell.paint(&mut text) } else { text.push(cell.letter()) }
        }
        text.push_str(if screen.colours { "\x1b[0m\n" } else { "\n" });
    }
    let size = ByteSize(zone_bytes);
    let cell = if per_cell == 1 { "is one zone".to_owned() } else { format!("stands for {per_cell} zones") };
    let open = if screen.colours { "underlined" } else { "a capital letter" };
    let _ = writeln!(text, "\nA cell {cell} of {size}; the number is that of a line's first zone; {open}: open.");
    if screen.colours {
        text.push_str("0-9: tenths of what was written that files need, #: all.\n");
    }
    for (used, (name, ..)) in USES.iter().enumerate() {
        let sum = Sum::of(zones.iter().filter(|zone| zone.use_of == *name));
        if sum.zones == 0 {
            continue;
        }
        let sample = Cell { first: 0, used, open: false, tenths: None };
        if screen.colours {
            sample.paint(&mut text)
        } else {
            text.push(sample.letter())
        }
        text.push_str(if screen.colours { "\x1b[0m " } else { " " });
        let _ = write!(text, "{:<18} {}", words(name), output::counted(sum.zones, "zone"));
        if sum.written > 0 {
            let (written, live) = (ByteSize(sum.written), ByteSize(sum.live));
            let _ = write!(text, ", {written} written, {live} of it needed");
        }
        text.push('\n');
    }
    text
}

fn to_json(store: &str, zones: &[ZoneDump], zone_bytes: u64) -> Value {
    let of_use = |name: &str| {
        let Sum { zones, written, live } = Sum::of(zones.iter().filter(|zone| zone.use_of == name));
        json!({ "use": name, "zones": zones, "written_bytes": written, "live_bytes": live })
    };
    let of_zone = |zone: &ZoneDump| {
        json!({ "zone": zone.zone.0, "use": zone.use_of, "open": zone.open, "written_bytes": written_bytes(zone),
                "live_bytes": zone.live_bytes })
    };
    json!({ "store": store, "zone_bytes": zone_bytes, "uses": USES.map(|(name, ..)| of_use(name)),
            "zones": zones.iter().map(of_zone).collect::<Vec<_>>() })
}

impl Map {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            let (files, report) = examined(&self.drive, &rt, true).await?;
            let stats = files.stats();
            let zone_bytes = stats.capacity_bytes / u64::from(stats.zones).max(1);
            let zones = files.zone_map();
            if self.json {
                say!("{}", to_json(&files.store().to_string(), &zones, zone_bytes));
            } else {
                let screen = Screen::of_output(self.width);
                output::print(&draw(&zones, zone_bytes, self.zones_per_cell, &screen))?;
            }
            told_of_loss(&report)
        })?
    }
}

#[cfg(test)]
mod tests {
    use shingle_base::ZoneId;

    use super::*;

    fn zone(number: u32, use_of: &'static str, written: u32, live: u64) -> ZoneDump {
        let live_bytes = live * 4096;
        ZoneDump { zone: ZoneId(number), use_of, open: written == 10, epoch: 1, written, live_bytes, files: Vec::new() }
    }

    #[test]
    fn uses_are_told_apart_with_and_without_colours() {
        let zones = [
            zone(7, "logs", 10, 10),
            zone(8, "short", 100, 35),
            zone(9, "one file", 100, 100),
            zone(10, "dead", 0, 0),
            zone(11, "free", 0, 0),
        ];
        let plain = draw(&zones, 1 << 20, None, &Screen { columns: 80, rows: 24, colours: false });
        assert!(plain.starts_with(" 7 Wstx.\n\nA cell is one zone of 1"), "{plain}");
        assert!(plain.is_ascii() && plain.contains("s short lifetime     1 zone, 400"), "{plain}");
        let drawn = draw(&zones, 1 << 20, None, &Screen { columns: 80, rows: 24, colours: true });
        let first = drawn.lines().next().unwrap();
        assert!(first.contains("38;5;16m3\x1b") && first.contains('#') && first.ends_with("\x1b[0m"), "{first:?}");
        // Of zones beside each other the most common use counts.
        let cell = Cell::of(&[zones[1].clone(), zones[4].clone(), zones[1].clone()]);
        assert_eq!((cell.letter(), cell.tenths), ('s', Some(3)));
    }

    #[test]
    fn a_drive_of_75_000_zones_fits_any_screen() {
        let zones: Vec<_> = (0..75_000).map(|number| zone(number, "medium", 100, 50)).collect();
        for (columns, rows) in [(80, 24), (200, 60), (1, 1)] {
            let drawn = draw(&zones, 256 << 20, None, &Screen { columns, rows, colours: false });
            let map: Vec<_> = drawn.lines().take_while(|line| !line.is_empty()).collect();
            assert!(map.len() <= rows.max(23) - 14, "{columns}x{rows}: {} lines", map.len());
            assert!(map.iter().all(|line| line.len() <= columns.max(16)), "{columns}x{rows}");
        }
    }

    #[test]
    fn sums_are_in_json_too() {
        let map = to_json("s", &[zone(3, "long", 100, 20), zone(4, "long", 10, 0)], 1 << 20);
        let long = map["uses"].as_array().unwrap().iter().find(|used| used["use"] == "long").unwrap();
        assert_eq!((long["zones"].as_u64(), long["live_bytes"].as_u64()), (Some(2), Some(20 * 4096)));
        assert_eq!(map["zones"][1]["open"], true);
    }
}
