//! Tables of on-disk structs: those in `docs/formats` are those beside the code, and those are what the code does.
//!
//! A table has the columns `at`, `size` and `field`. It stands in the doc comment of its struct, and again on the page of
//! its format.

use crate::sources::{self, Source};

/// Tables of pages that no doc comment has: the page, and the first named field. The list only gets shorter.
const PAGE_ONLY: [(&str, &str); 4] = [
    ("docs/formats/chunk-store.md", "zone_size"),
    ("docs/formats/chunk-store.md", "zone"),
    ("docs/formats/chunk-store.md", "zone"),
    ("docs/formats/chunk-store.md", "offset"),
];

/// Tables that no page has: the crate, and the first named field. The list only gets shorter.
const CODE_ONLY: [(&str, &str); 3] = [
    ("crates/engine/array-store", "set"),
    ("crates/engine/array-store", "stamp"),
    ("crates/engine/array-store", "magic"),
];

/// Tables whose code names no offset, by crate and first field. Golden bytes hold them.
const APPENDED: [(&str, &str); 3] =
    [("crates/engine/chunk-store", "count"), ("crates/engine/record", "offset"), ("crates/engine/record", "lba")];

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    at: usize,
    size: usize,
    /// Empty for reserved bytes.
    field: String,
}

struct Table<'a> {
    source: &'a Source,
    rows: Vec<Row>,
    /// Lines behind it.
    below: Vec<&'a str>,
}

impl Table<'_> {
    fn first(&self) -> &str {
        self.rows.iter().map(|row| row.field.as_str()).find(|field| !field.is_empty()).unwrap_or_default()
    }

    /// Page or crate, and first field.
    fn key(&self) -> (&str, &str) {
        let is_page = self.source.path.ends_with(".md");
        (if is_page { &self.source.path } else { self.source.package() }, self.first())
    }
}

fn tables(source: &Source) -> Vec<Table<'_>> {
    let lines: Vec<&str> = source.lines().map(uncommented).collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if cells(line).get(..3) == Some(&["at", "size", "field"]) {
            let rows: Vec<Row> = lines[number + 2..].iter().map_while(|line| row(line)).collect();
            let below = lines[number + 2 + rows.len()..].to_vec();
            assert!(!rows.is_empty(), "{}:{}: an empty table", source.path, number + 1);
            found.push(Table { source, rows, below });
        }
    }
    found
}

fn uncommented(line: &str) -> &str {
    let line = line.trim();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).unwrap_or(line).trim()
}

fn cells(line: &str) -> Vec<&str> {
    line.strip_prefix('|').map(|line| line.split('|').map(str::trim).collect()).unwrap_or_default()
}

fn row(line: &str) -> Option<Row> {
    let cells = cells(line);
    let [at, size, field, ..] = cells[..] else { return None };
    let field = field.split('`').nth(1).unwrap_or_default();
    // `reserved` and `zero` are names of bytes without a meaning.
    let field = if matches!(field, "reserved" | "zero") { "" } else { field };
    Some(Row { at: at.parse().ok()?, size: size.parse().ok()?, field: field.to_owned() })
}

fn all(sources: &[Source]) -> Vec<Table<'_>> {
    sources.iter().flat_map(tables).collect()
}

#[test]
fn rows_follow_each_other() {
    let (sources, pages) = (sources::all(), sources::pages());
    let tables: Vec<_> = all(&sources).into_iter().chain(all(&pages)).collect();
    assert!(tables.len() > 20, "only {} tables were found", tables.len());
    for table in tables {
        let mut at = 0;
        for row in &table.rows {
            // A part of a payload may begin anywhere.
            let begins = if at == 0 { row.at } else { at };
            assert_eq!(row.at, begins, "{}: {:?} leaves a gap, or overlaps", table.source.path, row);
            at = row.at + row.size;
        }
    }
}

#[test]
fn pages_and_code_have_the_same_tables() {
    let (sources, pages) = (sources::all(), sources::pages());
    let (code, pages) = (all(&sources), all(&pages));
    let mut page_only: Vec<_> = Vec::new();
    for page in &pages {
        if !code.iter().any(|table| table.rows == page.rows) {
            page_only.push(page.key());
        }
    }
    assert_eq!(page_only, PAGE_ONLY, "tables of pages that no doc comment has");
    for table in &code {
        let known = CODE_ONLY.contains(&table.key());
        let found = pages.iter().any(|page| page.rows == table.rows);
        assert!(found || known, "{}: no page has the table that begins with `{}`", table.source.path, table.first());
    }
}

#[test]
fn code_has_the_offsets_of_its_tables() {
    let sources = sources::all();
    for table in all(&sources) {
        let known = CODE_ONLY.contains(&table.key()) || APPENDED.contains(&table.key());
        let declared = fields(&table);
        if declared.is_empty() {
            let missing: Vec<_> = table.rows.iter().filter(|row| !is_sliced(row, &table.below)).collect();
            assert!(known || missing.is_empty(), "{}: no code for {missing:?}", table.source.path);
        } else {
            let sizes: usize = declared.iter().map(|(_, size)| size).sum();
            assert_eq!(declared.len(), table.rows.len(), "{}: fields {declared:?}", table.source.path);
            for (row, (field, size)) in table.rows.iter().zip(&declared) {
                assert!(row.field.is_empty() || row.field == *field, "{}: {field} is no {row:?}", table.source.path);
                assert_eq!(row.size, *size, "{}: size of {field}", table.source.path);
            }
            assert_eq!(table.rows.last().map(|row| row.at + row.size), Some(sizes), "{}", table.source.path);
        }
    }
}

/// The fields of the `repr(C)` struct below a table, with their sizes; none if there is no such struct.
fn fields<'a>(table: &Table<'a>) -> Vec<(&'a str, usize)> {
    let open = table.below.iter().position(|line| line.ends_with('{')).unwrap_or_default();
    if !table.below[..open].contains(&"#[repr(C)]") {
        return Vec::new();
    }
    let body = table.below[open + 1..].iter().take_while(|line| **line != "}");
    let fields = body.filter_map(|line| line.strip_suffix(',')?.split_once(": "));
    let name = |field: &'a str| field.rsplit(' ').next().unwrap_or(field);
    fields.map(|(field, kind)| (name(field), size_of(kind, table.source))).collect()
}

fn size_of(kind: &str, source: &Source) -> usize {
    let bytes = |length: &str| {
        let constant = format!("const {length}: usize = ");
        let value = || source.lines().find_map(|line| line.split_once(&constant)?.1.strip_suffix(';')?.parse().ok());
        length.parse().ok().or_else(value)
    };
    let size = match kind {
        "u8" => Some(1),
        "U16" => Some(2),
        "U32" => Some(4),
        "U64" => Some(8),
        _ => kind.strip_prefix("[u8; ").and_then(|rest| rest.strip_suffix(']')).and_then(bytes),
    };
    size.unwrap_or_else(|| panic!("{}: {kind} has no known size", source.path))
}

/// True if a function below the table takes these bytes as a slice: `[8..16]`, `[..8]`, `[28..]` or `[24]`.
fn is_sliced(row: &Row, below: &[&str]) -> bool {
    let (at, end) = (row.at, row.at + row.size);
    let mut forms = vec![format!("[{at}..{end}]"), format!("[{at}..]")];
    if at == 0 {
        forms.push(format!("[..{end}]"));
    }
    if row.size == 1 {
        forms.push(format!("[{at}]"));
    }
    let function = below.iter().take(60);
    row.field.is_empty() || function.clone().any(|line| forms.iter().any(|form| line.contains(form)))
}

#[test]
fn a_table_is_read() {
    let text = "/// A.\n///\n/// | at | size | field | meaning |\n/// |---:|-----:|---|---|\n/// | 0 | 2 | `a` | one |\n\
                /// | 2 | 1 | `zero` | |\n#[repr(C)]\nstruct A {\n    a: U16,\n    zero: [u8; N],\n}\nconst N: usize = 1;\n";
    let source = Source { path: "crates/a/b/src/lib.rs".to_owned(), text: text.to_owned() };
    let found = tables(&source);
    let [table] = &found[..] else { panic!("{} tables", found.len()) };
    let row = |at, size, field: &str| Row { at, size, field: field.to_owned() };
    assert_eq!(table.rows, [row(0, 2, "a"), row(2, 1, "")]);
    assert_eq!(fields(table), [("a", 2), ("zero", 1)]);
    assert!(is_sliced(&row(8, 4, "b"), &["bytes[8..12]"]) && !is_sliced(&row(8, 4, "b"), &["bytes[8..13]"]));
}
