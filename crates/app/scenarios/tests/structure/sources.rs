//! The Rust sources of every crate, as text.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A source file.
pub(crate) struct Source {
    /// From the root of the repository, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    /// The folder of its crate: `crates/LAYER/NAME`.
    pub(crate) fn package(&self) -> &str {
        let end = self.path.match_indices('/').nth(2).map_or(self.path.len(), |(at, _)| at);
        &self.path[..end]
    }

    /// Its path from the crate's folder.
    pub(crate) fn inside(&self) -> &str {
        self.path[self.package().len()..].trim_start_matches('/')
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines()
    }

    /// The whole file is a test, or a part of one.
    pub(crate) fn is_test(&self) -> bool {
        let inside = self.inside();
        !inside.starts_with("src/")
            || inside.split('/').any(|part| matches!(part, "tests" | "tests.rs") || part.ends_with("_tests.rs"))
    }
}

fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(3).expect("a crate lies in crates/LAYER/NAME").to_owned()
}

/// All Rust files below `crates`, by path.
pub(crate) fn all() -> Vec<Source> {
    let found = below("crates", "rs");
    assert!(found.len() > 300, "only {} sources were found", found.len());
    found
}

/// Tests in Python: of commands and servers from outside, and in guests.
pub(crate) fn outside_tests() -> Vec<Source> {
    let found = below("tests", "py");
    assert!(found.len() > 20, "only {} tests in Python were found", found.len());
    found
}

/// The pages for readers.
pub(crate) fn pages() -> Vec<Source> {
    let mut pages = below("docs", "md");
    for page in ["ARCHITECTURE.md", "STYLE.md", "README.md"] {
        let text = std::fs::read_to_string(root().join(page)).expect("the page is readable");
        pages.push(Source { path: page.to_owned(), text });
    }
    pages
}

/// Files of a kind below a folder, by path.
fn below(folder: &str, kind: &str) -> Vec<Source> {
    let root = root();
    let mut found = Vec::new();
    collect(&root.join(folder), kind, &root, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn collect(folder: &Path, kind: &str, root: &Path, found: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, kind, root, found);
        } else if path.extension().is_some_and(|extension| extension == kind) {
            let text = std::fs::read_to_string(&path).expect("sources are readable");
            let path = path.strip_prefix(root).expect("it lies below the root");
            found.push(Source { path: path.to_string_lossy().replace('\\', "/"), text });
        }
    }
}

/// Sources by the folder of their crate.
pub(crate) fn by_package(sources: &[Source]) -> BTreeMap<&str, Vec<&Source>> {
    let mut packages: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        packages.entry(source.package()).or_default().push(source);
    }
    packages
}
