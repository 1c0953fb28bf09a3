//! `make crash` runs every crate whose tests draw from seeds.

use std::fs;
use std::path::Path;

/// Models of other file systems, which hold nobody's data.
const NOT_ENGINES: [&str; 1] = ["lab"];

fn draws_from_seeds(directory: &Path) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return draws_from_seeds(&path);
        }
        path.extension().is_some_and(|kind| kind == "rs")
            && fs::read_to_string(&path).is_ok_and(|text| text.contains(" in seeds("))
    })
}

#[test]
fn make_crash_runs_every_crate_that_draws_from_seeds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
    let (_, list) = makefile.split_once("\nCRASH = ").unwrap();
    let (list, _) = list.split_once("\n\n").unwrap();
    let listed: Vec<&str> = list.split_whitespace().filter_map(|word| word.strip_prefix("shingle-")).collect();
    let folders = fs::read_dir(root.join("crates")).unwrap().flatten();
    let mut drawing: Vec<String> = folders
        .flat_map(|folder| fs::read_dir(folder.path()).unwrap().flatten())
        .filter(|entry| draws_from_seeds(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !NOT_ENGINES.contains(&name.as_str()) && name != "scenarios")
        .collect();
    drawing.sort();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, drawing);
}
