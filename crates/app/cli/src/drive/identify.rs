//! `shingle drive identify`: from a stable name to today's node, and back.

use std::path::PathBuf;

use clap::Args;
use shingle_runtime::Runtime;
use shingle_server::inventory::{self, DriveName, Found};
use shingle_zoned_linux::System;

use crate::drive::ls::found_json;
use crate::failure::{Failure, Outcome};
use crate::output;

const LONG: &str = "\
Given a name (uuid:STORE, serial:NUMBER, wwn:NAME, or any of the three without its head), prints the node that the drive \
has now, and nothing else. Given a node or file, prints what is known of the drive and the names by which a \
configuration can call it wherever it is plugged in.

Exit status: 0 found, 1 no drive is called so, or several are.";

/// Finds a drive by a stable name, or names one.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub(crate) struct Identify {
    /// uuid:STORE, serial:NUMBER, wwn:NAME, a node, or the file of an emulated drive.
    #[arg(value_name = "DRIVE")]
    drive: String,
    /// Files of emulated drives to search as well [default: only the machine's drives].
    #[arg(value_name = "FILE")]
    among: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Another machine's tree of /sys, /proc, /dev and /run.
    #[arg(long, hide = true, default_value = "/")]
    root: PathBuf,
}

impl Identify {
    pub(crate) async fn run(self, rt: Runtime) -> Outcome {
        let system = System::under(&self.root);
        let names = self.names().map_err(Failure::new)?;
        let path = PathBuf::from(&self.drive);
        if matches!(names.first(), Some(DriveName::Path(_))) && shingle_server::drive_path::holder(&path).exists() {
            let found = self.describe(&rt, &system, &path).await?;
            return self.print(&found, &system, true);
        }
        let mut drives = inventory::block_devices(&rt, &system, true).await.unwrap_or_default();
        for path in &self.among {
            drives.extend(inventory::with_partitions(&rt, inventory::at(&rt, &system, path).await?).await);
        }
        let called: Vec<_> =
            drives.into_iter().filter(|drive| names.iter().any(|name| drive.is_called(name))).collect();
        match inventory::the_one(called) {
            Ok(Some(one)) => self.print(&one, &system, false),
            Ok(None) => {
                Err(Failure::new(format!("no drive is called {}: `shingle drive ls --all` lists them", self.drive)))
            }
            Err(several) => Err(Failure::new(format!("{}: {several}", self.drive))),
        }
    }

    /// Possible meanings: a name without a prefix may be of any kind.
    fn names(&self) -> Result<Vec<DriveName>, String> {
        let name = DriveName::parse(&self.drive)?;
        if !matches!(name, DriveName::Path(_)) {
            return Ok(vec![name]);
        }
        let text = self.drive.clone();
        let store = text.parse().ok().map(DriveName::Store);
        Ok([Some(name), store, Some(DriveName::Serial(text.clone())), Some(DriveName::Wwn(text))]
            .into_iter()
            .flatten()
            .collect())
    }

    async fn describe(&self, rt: &Runtime, system: &System, path: &std::path::Path) -> Outcome<Found> {
        // Nodes in a made-up tree of a test are no devices; those of the machine are found by their kind.
        let drives = inventory::block_devices(rt, system, true).await.unwrap_or_default();
        let name = DriveName::Path(path.to_owned());
        match drives.into_iter().find(|drive| drive.is_called(&name)) {
            Some(found) => Ok(found),
            None => Ok(inventory::at(rt, system, path).await?),
        }
    }

    fn print(&self, found: &Found, system: &System, whole: bool) -> Outcome {
        let all = system.discover().unwrap_or_default();
        if self.json {
            return output::print(&format!("{}\n", found_json(found, &all)));
        }
        if !whole {
            return output::print(&format!("{}\n", found.path.display()));
        }
        let mut rows = vec![("node", found.path.display().to_string())];
        if let Some(drive) = &found.drive {
            let known = [("model", &drive.model), ("serial", &drive.serial), ("wwn", &drive.wwn)];
            rows.extend(known.into_iter().filter_map(|(what, value)| Some((what, value.clone()?))));
        }
        rows.extend(found.drive.as_ref().and_then(|drive| Some(("paths", inventory::relation(drive, &all)?))));
        rows.push(("holds", found.content.to_string()));
        if let Some(store) = found.content.store() {
            rows.push(("store", store.to_string()));
        }
        rows.extend(found.names().iter().map(|name| ("name", name.to_string())));
        if found.names().is_empty() {
            rows.push(("name", "no stable name until it holds a store; use the node until then".to_owned()));
        }
        let text: String = rows.iter().map(|(what, value)| format!("{what:<7} {value}\n")).collect();
        output::print(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_may_be_of_any_kind() {
        let identify = |drive: &str| Identify { drive: drive.into(), among: vec![], json: false, root: "/".into() };
        assert_eq!(identify("serial:x").names().unwrap(), [DriveName::Serial("x".into())]);
        assert_eq!(identify("33bdca533fae8b2d").names().unwrap().len(), 4);
        assert_eq!(identify("ZL2").names().unwrap().len(), 3);
        assert!(identify("uuid:zz").names().is_err());
    }
}
