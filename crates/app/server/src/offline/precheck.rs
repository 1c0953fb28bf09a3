//! `shingle serve --check`: finds out by looking if a server could start with a configuration.
//!
//! # Invariants
//! - SV-PRE-1: nothing is made, locked or changed. (`a_look_before_the_start_makes_locks_and_changes_nothing`)

use std::path::{Path, PathBuf};

use shingle_array_store::{ArrayDrive, inspect};
use shingle_runtime::Runtime;
use shingle_zoned_linux::System;

use crate::config::{ArrayConfig, BlueConfig, Config, DriveConfig};
use crate::credentials;
use crate::data_dir::{self, KnownDrive};
use crate::drive_path::holder;
use crate::engines::{device, room};
use crate::error::{ErrorKind, Result};
use crate::inventory::{self, Content, DriveName};
use crate::reports::status;
use crate::volumes::Place;

/// Findings about a configuration, its data directory and its drives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Parts that would not be served, and mistakes of the configuration.
    pub problems: Vec<String>,
    /// At least one problem needs another configuration.
    pub wrong: bool,
    /// Parts that would be served, but degraded.
    pub warnings: Vec<String>,
    /// Parts in order.
    pub fine: Vec<String>,
}

impl Findings {
    fn take<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.wrong |=
                    matches!(error.kind, ErrorKind::Config | ErrorKind::Credentials | ErrorKind::NewerVersion);
                self.problems.push(error.message);
                None
            }
        }
    }
}

/// Looks at all that a server with this configuration would use. All problems are in the findings.
///
/// # Errors
/// `System` if nothing can be looked at.
pub async fn look(runtime: &Runtime, config: &Config) -> Result<Findings> {
    let mut findings = Findings::default();
    let running = findings.take(status::ask(&config.data)).flatten().is_some();
    if running {
        findings.fine.push(format!("a server runs on {}", config.data.display()));
    } else {
        let addresses = [Some(("listen", config.listen)), config.admin.map(|admin| ("admin", admin))];
        for (field, address) in addresses.into_iter().flatten() {
            if let Err(error) = std::net::TcpListener::bind(address) {
                findings.problems.push(format!("{field} = \"{address}\": {error}"));
            }
        }
        let places = config.exports().map(|exports| exports.places).unwrap_or_default();
        findings.problems.extend(places.iter().filter_map(Place::trouble));
    }
    let tls = config.exports().and_then(|exports| exports.tls);
    findings.take(tls.map_or(Ok(()), |files| files.read().map(drop)));
    findings.take(config.access_log().map_or(Ok(()), |place| place.check(&config.data)));
    findings.take(credentials::look(&config.data));
    let known = findings.take(data_dir::look(&config.data)).unwrap_or_default();
    if known.is_empty() {
        findings.fine.push(format!("{}: no drives were used so far", config.data.display()));
    }
    let mut files = Vec::new();
    let mut stores = Vec::new();
    for drive in config.drives() {
        if let Some(node) = look_at_drive(runtime, config, &drive, &known, &mut stores, &mut findings).await {
            files.push(node);
        }
    }
    let absent = known.iter().filter(|known| !stores.contains(&known.store));
    for KnownDrive { store, path } in absent {
        let message = format!("objects lie on {} (store {store}), which is not there", path.display());
        if config.allow_missing_drives {
            findings.warnings.push(message);
        } else {
            findings.problems.push(format!("{message}, and allow_missing_drives is not set"));
        }
    }
    for array in findings.take(config.arrays()).unwrap_or_default() {
        files.extend(look_at_array(runtime, &array, &mut findings).await);
    }
    for blue in config.blues() {
        files.extend(look_at_blue(runtime, &blue, &mut findings).await);
    }
    for volume in config.exports().map(|exports| exports.volumes).unwrap_or_default() {
        look_at_volume(runtime, &volume.name, &volume.drive, &mut findings).await;
    }
    findings.warnings.extend(room::short(files).iter().map(ToString::to_string));
    Ok(findings)
}

/// Looks at one of the drives; returns its path.
async fn look_at_drive(
    runtime: &Runtime,
    config: &Config,
    drive: &DriveConfig,
    known: &[KnownDrive],
    stores: &mut Vec<shingle_base::StoreId>,
    findings: &mut Findings,
) -> Option<PathBuf> {
    let path = drive.path.display();
    let node = match node_of(runtime, &drive.path).await {
        Ok(Some(node)) => node,
        Ok(None) if drive.create.is_some() && !known.iter().any(|known| known.path == drive.path) => {
            findings.fine.push(format!("{path}: not there; it is made at the start"));
            return None;
        }
        Ok(None) | Err(_) if known.iter().any(|known| known.path == drive.path) => return None,
        Ok(None) => {
            missing(config.allow_missing_drives, format!("{path}: the drive is not there"), findings);
            return None;
        }
        Err(why) => {
            missing(config.allow_missing_drives, why, findings);
            return None;
        }
    };
    let found = findings.take(inventory::at(runtime, &System::host(), &node).await)?;
    match found.content {
        Content::ChunkStore { store, .. } => {
            stores.push(store);
            let ours = known.is_empty() || known.iter().any(|known| known.store == store);
            if ours {
                findings.fine.push(format!("{path}: chunk store {store}"));
            } else {
                let message = format!("{path}: this data directory has never used chunk store {store}");
                findings.warnings.push(format!("{message}: if it holds anything, the server does not start"));
            }
        }
        Content::Nothing => findings.fine.push(format!("{path}: holds nothing; it is formatted at the start")),
        other => findings.problems.push(format!("{path}: {other}")),
    }
    Some(node)
}

/// Looks at the drive of a blue store; returns its path.
async fn look_at_blue(runtime: &Runtime, blue: &BlueConfig, findings: &mut Findings) -> Option<PathBuf> {
    let (label, drive) = (format!("blue store {}", blue.name), blue.drive.display());
    let node = match node_of(runtime, &blue.drive).await {
        Ok(Some(node)) => node,
        Ok(None) => {
            findings.problems.push(format!("{label}: {drive} is not there"));
            return None;
        }
        Err(why) => {
            findings.problems.push(format!("{label}: {why}"));
            return None;
        }
    };
    let found = findings.take(inventory::at(runtime, &System::host(), &node).await)?;
    match found.content {
        content @ Content::Blue { .. } => findings.fine.push(format!("{label}: {content}")),
        other => {
            let advice = "`shingle blue format` makes one";
            findings.problems.push(format!("{label}: {drive} holds {other}, and no blue store: {advice}"));
        }
    }
    Some(node)
}

/// A volume that cannot be served keeps nothing else from being served, so it is a warning.
async fn look_at_volume(runtime: &Runtime, name: &str, drive: &Path, findings: &mut Findings) {
    let found = match node_of(runtime, drive).await {
        Ok(Some(node)) => inventory::at(runtime, &System::host(), &node).await.map_err(|error| error.message),
        Ok(None) => Err(format!("{}: the drive is not there", drive.display())),
        Err(why) => Err(why),
    };
    match found.map(|found| found.content) {
        Ok(content @ Content::Volume { .. }) => findings.fine.push(format!("volume {name}: {content}")),
        Ok(other) => {
            let advice = "`shingle volume create` makes a volume";
            findings
                .warnings
                .push(format!("volume {name}: {} holds {other}, and no volume: {advice}", drive.display()));
        }
        Err(why) => findings.warnings.push(format!("volume {name}: {why}")),
    }
}

fn missing(allowed: bool, message: String, findings: &mut Findings) {
    if allowed { findings.warnings.push(message) } else { findings.problems.push(message) }
}

async fn node_of(runtime: &Runtime, path: &Path) -> std::result::Result<Option<PathBuf>, String> {
    let name = DriveName::of_path(path)?;
    let node = inventory::locate(runtime, &System::host(), &name).await.map_err(|error| error.message)?;
    Ok(holder(&node).exists().then_some(node))
}

/// Looks at an array; returns the paths of its drives.
async fn look_at_array(runtime: &Runtime, array: &ArrayConfig, findings: &mut Findings) -> Vec<PathBuf> {
    let label = format!("array {}", array.name);
    let (mut nodes, mut drives) = (Vec::new(), Vec::new());
    for path in &array.drives {
        let name = path.display().to_string();
        let node = match node_of(runtime, path).await {
            Ok(Some(node)) => node,
            Ok(None) => {
                findings.warnings.push(format!("{label}: {name} is not there"));
                continue;
            }
            Err(why) => {
                findings.warnings.push(format!("{label}: {why}"));
                continue;
            }
        };
        match device::look_at_drive(&node, runtime).await {
            Ok(look) => drives.push(ArrayDrive { name, dev: look.device }),
            // As if it were missing: parity decides below.
            Err(error) if error.kind == ErrorKind::Drive => findings.warnings.push(format!("{label}: {error}")),
            Err(error) => findings.problems.push(format!("{label}: {error}")),
        }
        nodes.push(node);
    }
    if drives.is_empty() {
        findings.problems.push(format!("{label}: none of its drives is there"));
        return nodes;
    }
    match inspect(&drives).await {
        Err(error) => findings.problems.push(format!("{label}: {}", error.message)),
        Ok(seen) => match seen.absent() {
            None => findings.fine.push(format!("{label}: {} drives, code {}", seen.drives.len(), seen.code)),
            Some(absent) => match absent.too_many() {
                Some(words) => findings.problems.push(format!("{label}: {words}")),
                None if array.degraded => {
                    findings.warnings.push(format!("{label}: would be served without {}", absent.names.join(", ")));
                }
                None => findings.problems.push(format!(
                    "{label}: missing: {}, and degraded = false says not to serve without",
                    absent.names.join(", ")
                )),
            },
        },
    }
    nodes
}
