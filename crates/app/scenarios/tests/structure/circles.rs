//! Modules of a crate import each other in one direction.
//!
//! A module is a file. It imports another if a `use`, or a path in its code, names something of the other; a name that a module
//! only hands on (`pub use`) counts for the module that defines it. Methods that are called on a value are not seen, nor are tests.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{self, Source};

/// Imports that close a circle and stay. The head of the first module explains each, with the word "circle".
const EXPLAINED: [(&str, &str, &str); 0] = [];

/// Modules of a crate that are in circles still. The numbers only get smaller.
const LEFT: [(&str, usize); 0] = [];

type Path = Vec<String>;

/// A module's imports.
#[derive(Default)]
struct Module {
    /// Full paths that it names.
    names: BTreeSet<Path>,
    /// Names that it hands on, and where they come from.
    exports: BTreeMap<String, Path>,
}

/// Imports of one crate: module to modules.
type Graph = BTreeMap<Path, BTreeSet<Path>>;

#[test]
fn modules_import_each_other_in_no_circle() {
    let sources = sources::all();
    let mut left = Vec::new();
    let mut news = Vec::new();
    for (package, sources) in sources::by_package(&sources) {
        let mut graph = graph(&sources);
        for (_, from, to) in EXPLAINED.iter().filter(|(of, ..)| *of == package) {
            let (from, to) = (path(from), path(to));
            assert!(
                graph.get_mut(&from).is_some_and(|imports| imports.remove(&to)),
                "{package}: no {from:?} imports {to:?}"
            );
            let explains =
                |source: &Source| module_of(source) == Some(from.clone()) && head(&source.text).contains("circle");
            assert!(
                sources.iter().any(|source| explains(source)),
                "{package}: the head of {from:?} does not explain its circle"
            );
        }
        let circles = circles(&graph);
        let found = circles.iter().map(BTreeSet::len).sum::<usize>();
        let known = LEFT.iter().find(|(of, _)| *of == package).map_or(0, |(_, modules)| *modules);
        if found > known {
            news.push(format!("{package}: {found} modules are in circles, {known} were\n{}", shown(&circles, &graph)));
        } else if found > 0 {
            left.push((package, found));
        }
    }
    assert!(news.is_empty(), "{}", news.join("\n"));
    assert_eq!(left, LEFT, "fewer modules are in circles now: put the smaller numbers into LEFT");
}

#[test]
fn a_circle_is_found_behind_a_name_that_is_handed_on() {
    let source = |inside: &str, text: &str| Source { path: format!("crates/a/b/src/{inside}"), text: text.into() };
    let circle = [
        source("lib.rs", "mod one;\nmod two;\npub use one::One;\n#[cfg(test)]\nmod check;\n"),
        source("check.rs", "use crate::two::Two;"),
        source(
            "one.rs",
            "use crate::{two::{Two, other}, check::X};\npub struct One;\n#[cfg(test)]\nmod tests { use super::*; }",
        ),
        source("two/mod.rs", "mod inner;\npub(crate) use inner::{Two, other};\n"),
        source("two/inner.rs", "//! See `crate::two::Two`.\nfn other() -> crate::One { crate::One }\npub struct Two;"),
    ];
    let found = circles(&graph(&circle.iter().collect::<Vec<_>>()));
    assert_eq!(found, [BTreeSet::from([path("one"), path("two::inner")])]);
}

fn path(text: &str) -> Path {
    text.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The comment at the head of a file.
fn head(text: &str) -> String {
    text.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n")
}

/// The module that a file is; `None` for tests.
fn module_of(source: &Source) -> Option<Path> {
    let inside = source.inside().strip_prefix("src/")?.strip_suffix(".rs")?;
    let parts: Path = inside.split('/').map(str::to_owned).collect();
    if source.is_test() {
        return None;
    }
    match parts.split_last() {
        Some((last, [])) if last == "lib" || last == "main" => Some(Path::new()),
        Some((last, folder)) if last == "mod" => Some(folder.to_vec()),
        _ => Some(parts),
    }
}

fn graph(sources: &[&Source]) -> Graph {
    let texts: BTreeMap<Path, String> =
        sources.iter().filter_map(|source| Some((module_of(source)?, code(&source.text)))).collect();
    let only_tests: BTreeSet<Path> = texts.iter().flat_map(|(module, text)| test_modules(module, text)).collect();
    let in_tests = |module: &Path| (1..=module.len()).any(|length| only_tests.contains(&module[..length]));
    let modules: BTreeMap<Path, Module> = texts
        .iter()
        .filter(|(module, _)| !in_tests(module))
        .map(|(module, text)| {
            let children = texts.keys().filter(|other| other.split_last().is_some_and(|(_, parent)| parent == module));
            let children: Vec<&str> = children.filter_map(|child| child.last()).map(String::as_str).collect();
            (module.clone(), imports(module, text, &children))
        })
        .collect();
    let edges = |(module, imports): (&Path, &Module)| {
        let targets = imports.names.iter().filter_map(|name| resolve(&modules, name, 8));
        (module.clone(), targets.filter(|target| target != module).collect())
    };
    modules.iter().map(edges).collect()
}

/// A file without comments and without the tests at its end.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_once("//").map_or(line, |(before, _)| before));
    let text = lines.collect::<Vec<_>>().join("\n");
    match text.find("#[cfg(test)]\nmod tests {") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// Modules that are declared for tests only.
fn test_modules(module: &Path, text: &str) -> Vec<Path> {
    let declared = text.split("#[cfg(test)]").skip(1).filter_map(|rest| {
        let name = rest.trim_start().trim_start_matches("pub(crate) ").strip_prefix("mod ")?;
        Some(name.split_once(';')?.0.trim().to_owned())
    });
    declared.map(|name| [module.clone(), vec![name]].concat()).collect()
}

fn imports(module: &Path, text: &str, children: &[&str]) -> Module {
    let mut found = Module::default();
    let mut rest = String::new();
    for statement in text.split_inclusive(';') {
        let start = statement.rfind("\nuse ").or_else(|| statement.find("use ").filter(|at| *at == 0));
        let start = start.or_else(|| statement.rfind(" use "));
        let Some((start, tree)) = start.and_then(|at| Some((at, statement[at..].trim().strip_prefix("use ")?))) else {
            rest.push_str(statement);
            continue;
        };
        let before = statement[..start].trim_end();
        let public = before.ends_with("pub") || before.ends_with(')') && before.contains("pub(");
        rest.push_str(before);
        let mut paths = Vec::new();
        expand(tree.trim_end_matches(';'), &Path::new(), &mut paths);
        for written in paths {
            let Some(full) = full(module, &written) else { continue };
            match full.last().cloned().filter(|_| public) {
                Some(name) => drop(found.exports.insert(name, full)),
                None => drop(found.names.insert(full)),
            }
        }
    }
    found.names.extend(paths_in(module, &rest, children));
    // A module imports a name that it hands on and uses itself.
    let used: BTreeSet<&str> = rest.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    found
        .names
        .extend(found.exports.iter().filter(|(name, _)| used.contains(name.as_str())).map(|(_, full)| full.clone()));
    found
}

/// The paths of a `use` tree.
fn expand(tree: &str, before: &Path, paths: &mut Vec<Path>) {
    let tree = tree.trim();
    let Some((head, inner)) = tree.split_once('{') else {
        let plain = tree.split(" as ").next().unwrap_or(tree);
        let parts: Path = plain.split("::").map(|part| part.trim().to_owned()).collect();
        let parts =
            if parts.last().is_some_and(|last| last == "self") { parts[..parts.len() - 1].to_vec() } else { parts };
        paths.push([before.clone(), parts].concat());
        return;
    };
    let before = [before.clone(), path(head.trim())].concat();
    let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
    let (mut depth, mut from) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[from..at].trim().is_empty() {
                    expand(&inner[from..at], &before, paths);
                }
                from = at + 1;
            }
            _ => {}
        }
    }
}

/// A path from the crate's root; `None` if it is written otherwise than from here.
fn full(module: &Path, written: &Path) -> Option<Path> {
    let (first, rest) = written.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module.clone(), rest.to_vec()].concat()),
        "super" => {
            let parent = module.split_last()?.1.to_vec();
            if rest.first().is_some_and(|next| next == "super") {
                full(&parent, &rest.to_vec())
            } else {
                Some([parent, rest.to_vec()].concat())
            }
        }
        // A child of this module, or another crate: that is no module.
        _ => Some([module.clone(), written.clone()].concat()),
    }
}

/// Paths in code that begin at the crate's root, above the module, or with a child of it.
fn paths_in(module: &Path, text: &str, children: &[&str]) -> BTreeSet<Path> {
    let starts =
        ["crate", "super", "self"].iter().chain(children).map(|first| format!("{first}::")).collect::<Vec<_>>();
    let starts = starts.iter().flat_map(|start| text.match_indices(start.as_str()));
    let whole = |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$');
    let paths = starts.filter(|(at, _)| whole(*at)).filter_map(|(at, _)| {
        let end = text[at..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        full(module, &path(&text[at..end.map_or(text.len(), |end| at + end)]))
    });
    paths.collect()
}

/// The module that defines a name.
fn resolve(modules: &BTreeMap<Path, Module>, name: &Path, steps: usize) -> Option<Path> {
    let length = (0..=name.len()).rev().find(|length| modules.contains_key(&name[..*length]))?;
    let module = name[..length].to_vec();
    let Some(next) = name.get(length) else { return Some(module) };
    let handed_on = modules[&module].exports.get(next).filter(|_| steps > 0);
    let elsewhere = handed_on.and_then(|from| {
        let from = [from.clone(), name[length + 1..].to_vec()].concat();
        resolve(modules, &from, steps - 1)
    });
    Some(elsewhere.unwrap_or(module))
}

/// Modules that reach each other.
fn circles(graph: &Graph) -> Vec<BTreeSet<Path>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> = graph.keys().map(|from| (from, reach(graph, from))).collect();
    let mut circles: Vec<BTreeSet<Path>> = Vec::new();
    for (from, to) in &reached {
        if !to.contains(from) || circles.iter().any(|circle| circle.contains(*from)) {
            continue;
        }
        circles
            .push(to.iter().filter(|other| reached[*other].contains(from)).map(|module| (*module).clone()).collect());
    }
    circles
}

fn reach<'a>(graph: &'a Graph, from: &Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&Path> = graph[from].iter().collect();
    while let Some(next) = left.pop() {
        if reached.insert(next) {
            left.extend(graph.get(next).into_iter().flatten());
        }
    }
    reached
}

fn shown(circles: &[BTreeSet<Path>], graph: &Graph) -> String {
    let mut lines = Vec::new();
    for (circle, from) in circles.iter().flat_map(|circle| circle.iter().map(move |from| (circle, from))) {
        let to = graph[from].iter().filter(|to| circle.contains(*to)).map(|to| to.join("::"));
        lines.push(format!("  {} -> {}", from.join("::"), to.collect::<Vec<_>>().join(", ")));
    }
    lines.join("\n")
}
