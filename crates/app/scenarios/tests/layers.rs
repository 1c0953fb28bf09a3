//! The layers of the design, held against what cargo knows: a crate depends only on lower layers, and lies in a folder of
//! its layer or a lower one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Crates that may hold unsafe code.
const UNSAFE_ALLOWED: [&str; 3] = ["shingle-rocksdb", "shingle-rocksdb-keys", "shingle-zoned-linux"];

fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    metadata["packages"].as_array().expect("there are packages").clone()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().expect("a package has a name")
}

fn layers(packages: &[Value]) -> BTreeMap<String, u64> {
    let layer = |package: &Value| {
        let layer = package["metadata"]["shingle"]["layer"].as_u64();
        layer.unwrap_or_else(|| panic!("{} has no [package.metadata.shingle] layer", name(package)))
    };
    packages.iter().map(|package| (name(package).to_owned(), layer(package))).collect()
}

#[test]
fn normal_dependencies_point_to_strictly_lower_layers() {
    let packages = packages();
    let layers = layers(&packages);
    let mut checked = 0;
    for package in &packages {
        for dependency in package["dependencies"].as_array().expect("dependencies are a list") {
            let target = dependency["name"].as_str().unwrap_or_default();
            let (Some(own), Some(theirs)) = (layers.get(name(package)), layers.get(target)) else { continue };
            // `sim` may be used by the tests of whatever it simulates.
            let test_only = dependency["kind"] == "dev";
            checked += 1;
            assert!(theirs < own || test_only, "{} (layer {own}) depends on {target} (layer {theirs})", name(package));
        }
    }
    assert!(checked > 20, "only {checked} dependencies were seen");
}

/// Folders of `crates`, from the lowest to the highest.
const FOLDERS: [&str; 7] = ["foundation", "device", "engine", "store", "frontend", "app", "bindings"];

#[test]
fn no_dependency_points_to_a_higher_folder() {
    let packages = packages();
    let folders: BTreeMap<&str, usize> = packages.iter().map(|package| (name(package), folder(package))).collect();
    assert_eq!(folders.values().collect::<BTreeSet<_>>().len(), FOLDERS.len(), "a folder is empty");
    for package in &packages {
        for dependency in package["dependencies"].as_array().expect("dependencies are a list") {
            let target = dependency["name"].as_str().unwrap_or_default();
            let (own, Some(theirs)) = (folders[name(package)], folders.get(target)) else { continue };
            let test_only = dependency["kind"] == "dev";
            assert!(*theirs <= own || test_only, "{} is in {}, below {target}", name(package), FOLDERS[own]);
        }
    }
}

/// The folder that a package lies in: `crates/FOLDER/NAME`, or `bindings/NAME`.
fn folder(package: &Value) -> usize {
    let manifest = Path::new(package["manifest_path"].as_str().expect("a package has a manifest"));
    let folder = manifest.ancestors().nth(2).and_then(Path::file_name).and_then(|folder| folder.to_str());
    let found = FOLDERS.iter().position(|known| Some(*known) == folder);
    found.unwrap_or_else(|| panic!("{} lies in none of {FOLDERS:?}", manifest.display()))
}

#[test]
fn unsafe_code_is_denied_everywhere_else() {
    for package in packages().iter().filter(|package| !UNSAFE_ALLOWED.contains(&name(package))) {
        let manifest = package["manifest_path"].as_str().expect("a package has a manifest");
        let text = std::fs::read_to_string(manifest).expect("the manifest is readable");
        assert!(text.contains("[lints]\nworkspace = true"), "{} does not use the workspace's lints", name(package));
        let sources = Path::new(manifest).with_file_name("src");
        assert_no_allow(&sources);
    }
}

fn assert_no_allow(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            assert_no_allow(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("sources are readable");
            assert!(!text.contains("allow(unsafe_code"), "{} allows unsafe code", path.display());
        }
    }
}
