//! A map in the terminal: with colours if it has them, with characters otherwise.

use std::fmt::Write;

use shingle_base::ByteSize;

use crate::drive::map::cells::{Cell, Role, View, zones_per_cell};
use crate::output;

/// Colours of shares in tenths, out of the 256 that terminals have: dark is little, bright is much. Light and dark
/// alone tell them apart, too.
const SHARES: [u8; 11] = [53, 54, 61, 25, 30, 36, 35, 71, 112, 148, 226];
/// The first of them that black text can be read on.
const BRIGHT: usize = 5;

/// Terminal to draw on.
pub(crate) struct Screen {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) colours: bool,
}

impl Screen {
    /// Standard output.
    pub(crate) fn of_output(width: Option<usize>) -> Self {
        let (columns, rows) = output::terminal_size().unwrap_or((80, 32));
        Self { columns: width.unwrap_or(columns), rows, colours: output::colours() }
    }
}

/// The map, its legend and its sums.
pub(crate) fn draw(view: &View, per_cell: Option<u32>, screen: &Screen) -> String {
    let label = view.zones.len().saturating_sub(1).to_string().len();
    let room = screen.columns.saturating_sub(label + 1).max(10);
    // Tens are easy to count in.
    let across = if room >= 20 { room / 10 * 10 } else { room };
    // Legend, sums and the prompt need the rest.
    let down = screen.rows.saturating_sub(8).max(8);
    let per_cell = per_cell.unwrap_or_else(|| zones_per_cell(view.zones.len(), across * down));
    let cells = view.cells(per_cell);
    let mut text = String::new();
    for row in cells.chunks(across) {
        let first = row.first().map_or(0, |cell| cell.first);
        let _ = write!(text, "{first:>label$} ");
        paint(&mut text, row, screen.colours);
        text.push('\n');
    }
    text.push('\n');
    legend(&mut text, view, per_cell, screen.colours);
    sums(&mut text, view);
    text
}

/// A cell as a character, the same with and without colours but for shares, which colours show better.
fn character(cell: &Cell) -> char {
    match cell.role {
        Role::Offline => 'X',
        Role::ReadOnly => 'R',
        Role::Open => 'o',
        Role::Metadata => 'm',
        Role::Conventional => 'c',
        Role::Empty => '.',
        Role::Data => match cell.tenths() {
            None | Some(10..) => '#',
            Some(tenths) => char::from(b'0' + tenths as u8),
        },
    }
}

/// Colours of a cell: background, text, both numbers of the terminal's 256.
fn colours(cell: &Cell) -> Option<(u8, u8)> {
    match cell.role {
        Role::Offline => Some((16, 196)),
        Role::ReadOnly => Some((208, 16)),
        Role::Open | Role::Data => {
            let tenths = cell.tenths().unwrap_or(10).min(10);
            SHARES.get(tenths).map(|&colour| (colour, if tenths >= BRIGHT { 16 } else { 231 }))
        }
        Role::Metadata => Some((67, 16)),
        Role::Conventional => Some((245, 16)),
        Role::Empty => None,
    }
}

/// Cells side by side; a colour code is printed only at a change.
fn paint(text: &mut String, cells: &[Cell], coloured: bool) {
    let mut now = None;
    for cell in cells {
        let shown = character(cell);
        if !coloured {
            text.push(shown);
            continue;
        }
        let wanted = colours(cell);
        if wanted != now {
            match wanted {
                Some((background, front)) => {
                    let _ = write!(text, "\x1b[48;5;{background};38;5;{front}m");
                }
                None => text.push_str("\x1b[0m"),
            }
            now = wanted;
        }
        text.push(if cell.role == Role::Data { ' ' } else { shown });
    }
    if now.is_some() {
        text.push_str("\x1b[0m");
    }
}

fn legend(text: &mut String, view: &View, per_cell: u32, coloured: bool) {
    let size = ByteSize(view.zone_size);
    match per_cell {
        1 => {
            let _ = writeln!(text, "A cell is one zone of {size}; the number is that of a line's first zone.");
        }
        _ => {
            let _ = writeln!(
                text,
                "A cell stands for {per_cell} zones of {size}; the number is that of a line's first zone."
            );
        }
    }
    let sample = |share| Cell { first: 0, last: 0, role: Role::Data, share: Some(share) };
    if coloured {
        let scale: Vec<Cell> = (0..=10).map(|tenth| sample(f64::from(tenth) / 10.0)).collect();
        text.push_str("0 % ");
        paint(text, &scale, true);
        let _ = writeln!(text, " 100 %: {}", view.share_words());
    } else {
        let _ = writeln!(text, "0-9: tenths, #: all: {}", view.share_words());
    }
    let roles = Role::ALL.into_iter().rev().filter(|&role| role != Role::Data && view.count(role) > 0);
    let mut first = true;
    for role in roles {
        if !first {
            text.push_str(", ");
        }
        first = false;
        let share = (role == Role::Open).then_some(1.0);
        paint(text, &[Cell { first: 0, last: 0, role, share }], coloured);
        let _ = write!(text, " {}", role.words());
    }
    if !first {
        text.push('\n');
    }
}

fn sums(text: &mut String, view: &View) {
    let counts: Vec<_> = Role::ALL
        .into_iter()
        .rev()
        .filter(|&role| view.count(role) > 0)
        .map(|role| format!("{} {}", view.count(role), role.words().split(" (").next().unwrap_or_default()))
        .collect();
    let _ = writeln!(text, "{} zones: {}", view.zones.len(), counts.join(", "));
    let _ = write!(text, "{} written", ByteSize(view.written()));
    if let (Some(store), Some(live)) = (view.store, view.live()) {
        let _ = write!(text, ", {} of it live in chunk store {store}", ByteSize(live));
    }
    text.push('\n');
    for note in &view.notes {
        let _ = writeln!(text, "{note}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::map::cells::Zone;

    fn view(zones: u32) -> View {
        let zone = |number| Zone {
            number,
            role: if number < zones / 93 { Role::Conventional } else { Role::Data },
            written: 100,
            capacity: 100,
            live: None,
        };
        View {
            name: "x".into(),
            store: None,
            zone_size: 256 << 20,
            zones: (0..zones).map(zone).collect(),
            notes: vec![],
        }
    }

    #[test]
    fn a_drive_of_75_000_zones_fits_any_screen() {
        for (columns, rows) in [(80, 24), (200, 60), (20, 10), (1, 1)] {
            let drawn = draw(&view(75_000), None, &Screen { columns, rows, colours: false });
            let map: Vec<_> = drawn.lines().take_while(|line| !line.is_empty()).collect();
            assert!(map.len() <= rows.max(16) - 8 + 1, "{columns}x{rows}: {} lines", map.len());
            assert!(map.iter().all(|line| line.len() <= columns.max(16)), "{columns}x{rows}");
            assert!(drawn.is_ascii() && drawn.contains(" zones of 256.0 MiB") || drawn.contains("zones of 256 MiB"));
        }
    }

    #[test]
    fn colours_end_with_every_line() {
        let drawn = draw(&view(500), None, &Screen { columns: 80, rows: 24, colours: true });
        let map = drawn.lines().take_while(|line| !line.is_empty());
        assert!(map.into_iter().all(|line| line.ends_with("\x1b[0m")));
    }
}
