//! A map as a picture: one SVG file that needs nothing else.

use std::fmt::Write;

use shingle_base::ByteSize;

use crate::drive::map::cells::{Cell, Role, View, zones_per_cell};

/// More cells than this are too small to look at, and too many for a browser.
const CELLS_MAX: usize = 6000;
/// Up to this many cells are drawn twice as large.
const CELLS_FEW: usize = 1500;
/// Pixels of a line of cells.
const WIDTH: usize = 900;
/// Pixels from one square to the next where they are many and in the legend, and of the gap between them.
const PITCH: usize = 9;
const GAP: usize = 1;
const SIDE: usize = PITCH - GAP;
const LEFT: usize = 70;
const TOP: usize = 62;
const RIGHT: usize = 20;

/// Shares in tenths; light and dark alone tell them apart, too.
const SHARES: [&str; 11] = [
    "#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26",
    "#fde725",
];

/// The picture.
pub(crate) fn draw(view: &View, per_cell: Option<u32>) -> String {
    let per_cell = per_cell.unwrap_or_else(|| zones_per_cell(view.zones.len(), CELLS_MAX));
    let cells = view.cells(per_cell);
    let pitch = if cells.len() <= CELLS_FEW { 2 * PITCH } else { PITCH };
    let across = WIDTH / pitch;
    let rows = cells.len().div_ceil(across);
    let legend_at = TOP + rows * pitch + 26;
    let (width, height) = (LEFT + WIDTH + RIGHT, legend_at + 62);
    let name = escaped(&view.name);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} \
         {height}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>Zones of \
         {name}</title>\n<desc>{}</desc>\n",
        escaped(&summary(view)),
    );
    let _ =
        writeln!(text, "<style>\nrect.z:hover {{ stroke: #000; }}\n.r {{ fill: #666; font-size: 10px; }}\n</style>");
    let _ = writeln!(text, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>");
    let _ = writeln!(text, "<text x=\"{LEFT}\" y=\"24\" font-size=\"16\" font-weight=\"600\">{name}</text>");
    let _ = writeln!(text, "<text x=\"{LEFT}\" y=\"44\" fill=\"#444\">{}</text>", escaped(&summary(view)));
    for (row, line) in cells.chunks(across).enumerate() {
        let y = TOP + row * pitch;
        if row % 4 == 0 {
            let first = line.first().map_or(0, |cell| cell.first);
            let _ = writeln!(
                text,
                "<text class=\"r\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{first}</text>",
                LEFT - 6,
                y + pitch / 2 + 4
            );
        }
        for (column, cell) in line.iter().enumerate() {
            square(&mut text, (LEFT + column * pitch, y, pitch - GAP), cell, Some(&words(cell, view)));
        }
    }
    legend(&mut text, view, per_cell, legend_at);
    text.push_str("</svg>\n");
    text
}

fn summary(view: &View) -> String {
    let size = ByteSize(view.zone_size);
    let mut text = format!("{} zones of {size}, {} written", view.zones.len(), ByteSize(view.written()));
    if let (Some(store), Some(live)) = (view.store, view.live()) {
        let _ = write!(text, ", {} of it live in chunk store {store}", ByteSize(live));
    }
    text
}

/// Tooltip of a cell.
fn words(cell: &Cell, view: &View) -> String {
    let zones = if cell.first == cell.last {
        format!("zone {}", cell.first)
    } else {
        format!("zones {}-{}", cell.first, cell.last)
    };
    match cell.share {
        Some(share) => format!("{zones}: {}, {:.0} % {}", cell.role.words(), share * 100.0, share_noun(view)),
        None => format!("{zones}: {}", cell.role.words()),
    }
}

fn share_noun(view: &View) -> &'static str {
    if view.store.is_some() { "live" } else { "written" }
}

fn square(text: &mut String, (x, y, side): (usize, usize, usize), cell: &Cell, title: Option<&str>) {
    let share = SHARES[cell.tenths().unwrap_or(10).min(10)];
    let (fill, stroke) = match cell.role {
        Role::Offline => ("#000", "#d00000"),
        Role::ReadOnly => ("#ff8c00", "#7a3e00"),
        Role::Open => (share, "#d6007a"),
        Role::Data => (share, "none"),
        Role::Metadata => ("#6f9bd1", "none"),
        Role::Conventional => ("#8c8c8c", "none"),
        Role::Empty => ("#ececec", "none"),
    };
    let _ = write!(text, "<rect class=\"z\" x=\"{x}\" y=\"{y}\" width=\"{side}\" height=\"{side}\" fill=\"{fill}\"");
    if stroke != "none" {
        let _ = write!(text, " stroke=\"{stroke}\" stroke-width=\"1.5\"");
    }
    match title {
        Some(title) => {
            let _ = writeln!(text, "><title>{}</title></rect>", escaped(title));
        }
        None => text.push_str("/>\n"),
    }
}

fn legend(text: &mut String, view: &View, per_cell: u32, top: usize) {
    let cell = |role, share| Cell { first: 0, last: 0, role, share };
    let caption = |text: &mut String, x: usize, y: usize, words: &str| {
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{}\" fill=\"#222\">{}</text>", y + SIDE, escaped(words));
    };
    let stands =
        if per_cell == 1 { "A square is one zone.".to_owned() } else { format!("A square is {per_cell} zones.") };
    caption(text, LEFT, top, &stands);
    let scale = LEFT + 190;
    caption(text, scale - 28, top, "0 %");
    for tenth in 0..=10 {
        square(text, (scale + tenth * PITCH, top, SIDE), &cell(Role::Data, Some(tenth as f64 / 10.0)), None);
    }
    caption(text, scale + 11 * PITCH + 6, top, &format!("100 %: {}", view.share_words()));
    let mut x = LEFT;
    for role in Role::ALL.into_iter().rev().filter(|&role| role != Role::Data && view.count(role) > 0) {
        square(text, (x, top + 26, SIDE), &cell(role, None), None);
        let words = format!("{} {}", view.count(role), role.words());
        caption(text, x + PITCH + 5, top + 26, &words);
        // Letters of this size are narrower than this on average.
        x += PITCH + 30 + words.len() * 6;
    }
}

/// Text escaped for XML. Characters that XML cannot hold are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push('\u{FFFD}'),
            c => escaped.push(c),
        }
    }
    escaped
}
