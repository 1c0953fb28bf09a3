//! Gives the command a build identity: a number that tells its sources from all others, with or without a repository around them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Parts of a crate that do not get into a program.
const APART: [&str; 3] = ["tests", "benches", "examples"];

fn main() -> io::Result<()> {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the crate's folder"));
    let root = own.ancestors().nth(3).filter(|root| root.join("Cargo.lock").is_file());
    let mut parts = match root {
        Some(root) => vec![root.join("Cargo.toml"), root.join("Cargo.lock")],
        None => Vec::new(),
    };
    let crates = match root {
        Some(root) => {
            inside(&root.join("crates"))?.iter().map(|layer| inside(layer)).collect::<io::Result<Vec<_>>>()?.concat()
        }
        None => vec![own.clone()],
    };
    for folder in crates {
        let is_apart = |path: &PathBuf| path.file_name().is_some_and(|name| APART.iter().any(|apart| name == *apart));
        parts.extend(inside(&folder)?.into_iter().filter(|path| !is_apart(path)));
    }
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for part in &parts {
        println!("cargo::rerun-if-changed={}", part.display());
        take(part, root.unwrap_or(Path::new("")), &mut hash)?;
    }
    println!("cargo::rustc-env=SHINGLE_BUILD={:016x}", hash.0);
    println!("cargo::rustc-env=SHINGLE_COMMIT={}", root.and_then(commit).unwrap_or_default());
    Ok(())
}

/// The commit of the sources, with `+` behind it if there are changes beside it; none if they are in no repository of their own.
/// Cargo asks again when a source changes: a later commit of the same sources is not told.
fn commit(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let done = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
        done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
    };
    let top = fs::canonicalize(git(&["rev-parse", "--show-toplevel"])?).ok()?;
    (top == fs::canonicalize(root).ok()?).then_some(())?;
    let changes = git(&["status", "--porcelain", "--", "crates", "Cargo.toml", "Cargo.lock"])?;
    Some(git(&["rev-parse", "HEAD"])? + if changes.is_empty() { "" } else { "+" })
}

/// Entries of a folder, in the order of their names; of a file, none.
fn inside(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort_unstable();
    Ok(paths)
}

/// Takes in a file, or all of a folder: names as seen from `root`, and bytes.
fn take(path: &Path, root: &Path, hash: &mut Fnv) -> io::Result<()> {
    if path.is_dir() {
        return inside(path)?.iter().try_for_each(|path| take(path, root, hash));
    }
    let bytes = fs::read(path)?;
    hash.take(path.strip_prefix(root).unwrap_or(path).as_os_str().as_encoded_bytes());
    hash.take(&(bytes.len() as u64).to_le_bytes());
    hash.take(&bytes);
    Ok(())
}

/// FNV-1a: it guards against mistakes, not against people.
struct Fnv(u64);

impl Fnv {
    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
