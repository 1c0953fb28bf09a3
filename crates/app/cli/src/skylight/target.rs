//! Targets of `shingle skylight`: modelled drives in virtual time, and real drives and files.
//!
//! # Invariants
//! - CLI-SKY-1: a real target is opened to be written only if `--destroy` names the same path.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use shingle_lab::rig::drives;
use shingle_skylight::{Access, Host, Modelled, Nanos, Op, Taken, Target, TargetError};
use shingle_zoned_linux::{DirectCommand, DirectDrive, DirectOp};

use crate::failure::{Failure, Outcome};

/// Beginning of the name of a modelled drive.
const MODEL: &str = "model:";

/// A target that was opened.
pub(super) struct Opened {
    pub(super) target: Box<dyn Target>,
    /// Its name for people.
    pub(super) name: String,
    /// Names of the drive that stay, by which a state is known to be of it.
    pub(super) identity: String,
    /// Its content, if that is lost.
    pub(super) lost: Option<String>,
    /// Its times are virtual.
    pub(super) modelled: bool,
}

/// Opens the target called `name`.
///
/// # Errors
/// There is none, it cannot be examined, or `destroy` names another one.
pub(super) fn open(name: &str, destroy: Option<&Path>, seed: u64) -> Outcome<Opened> {
    if let Some(profile) = name.strip_prefix(MODEL) {
        if destroy.is_some() {
            return Err(Failure::new("--destroy is for real drives: a modelled one is always written"));
        }
        return model(profile, seed);
    }
    // CLI-SKY-1, as `test_skylight.py` does.
    if let Some(other) = destroy.filter(|destroy| *destroy != Path::new(name)) {
        return Err(Failure::new(format!(
            "--destroy names {}, and the target is {name}: nothing was done. It must be the same path",
            other.display()
        )));
    }
    real(Path::new(name), destroy.is_some())
}

fn model(named: &str, seed: u64) -> Outcome<Opened> {
    let profile = drives::profile(named)?;
    let host = Host { seed, ..Host::default() };
    let Some(drive) = Modelled::new(&profile, host) else {
        return Err(Failure::new(format!(
            "{} is a zoned drive, which says itself what it is: `shingle lab run calibrate --drive {named}` measures it",
            profile.name
        )));
    };
    let text = format!("{profile:?}");
    let identity = format!("model {} {:08x}", profile.name, shingle_base::crc32c(text.as_bytes()));
    Ok(Opened { target: Box::new(drive), name: profile.model.clone(), identity, lost: None, modelled: true })
}

fn real(path: &Path, writable: bool) -> Outcome<Opened> {
    let drive = DirectDrive::open(path, writable)?;
    let (mut name, mut identity) = (path.display().to_string(), String::new());
    let through;
    let mut lost = writable.then(|| "whatever it holds".to_owned());
    match drive.drive() {
        Some(said) => {
            let known =
                [&said.model, &said.serial, &said.wwn, &said.uuid].map(|known| known.clone().unwrap_or_default());
            identity = format!("drive {} {} {}", said.name, known.join(" "), said.size_bytes);
            if let Some(model) = &said.model {
                name = format!("{name} ({model})");
            }
            // All others are drives, as far as the kernel says.
            through = match said.name.get(..2) {
                Some("lo") => Some("a loop device"),
                Some("dm") => Some("a mapped device"),
                Some("md") => Some("an array"),
                _ => None,
            };
            if writable && let Some(what) = drive.content()? {
                lost = Some(what.to_owned());
            }
        }
        None => {
            through = Some("a file system");
            let of = std::fs::metadata(path)?;
            identity.push_str(&format!("file {} {} {}", of.dev(), of.ino(), of.len()));
        }
    }
    Ok(Opened { target: Box::new(Real { drive, through }), name, identity, lost, modelled: false })
}

/// A real drive or file under test.
struct Real {
    drive: DirectDrive,
    through: Option<&'static str>,
}

fn nanos(time: Duration) -> Nanos {
    time.as_nanos() as Nanos
}

impl Target for Real {
    fn blocks(&self) -> u64 {
        self.drive.blocks()
    }

    fn now(&self) -> Nanos {
        nanos(self.drive.now())
    }

    fn is_writable(&self) -> bool {
        self.drive.is_writable()
    }

    fn through(&self) -> Option<&'static str> {
        self.through
    }

    fn run(&mut self, depth: usize, accesses: &[Access]) -> Result<Vec<Taken>, TargetError> {
        let commands: Vec<DirectCommand> = accesses
            .iter()
            .map(|access| DirectCommand {
                op: match access.op {
                    Op::Read => DirectOp::Read,
                    Op::Write => DirectOp::Write,
                    Op::Flush => DirectOp::Flush,
                },
                at: access.at,
                blocks: access.blocks,
            })
            .collect();
        let times = self.drive.run(depth, &commands).map_err(|error| TargetError(error.to_string()))?;
        let taken = times.into_iter().map(|times| Taken {
            begun: nanos(times.begun),
            ended: nanos(times.ended),
            unreadable: times.unreadable,
        });
        Ok(taken.collect())
    }

    fn idle(&mut self, time: Nanos) -> Result<(), TargetError> {
        self.drive.idle(Duration::from_nanos(time));
        Ok(())
    }

    /// The kernel cannot turn it: it is off, or each write is flushed.
    fn set_volatile_cache(&mut self, on: bool) -> Result<bool, TargetError> {
        Ok(!on && self.drive.writes_through())
    }

    fn erase(&mut self) -> Result<bool, TargetError> {
        Ok(false)
    }

    fn cut_power(&mut self) -> Result<bool, TargetError> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CLI-SKY-1.
    #[test]
    fn only_the_same_path_lets_a_target_be_written() {
        let file = std::env::temp_dir().join(format!("shingle-skylight-{}", std::process::id()));
        std::fs::write(&file, [0; 8192]).unwrap();
        let name = file.display().to_string();
        let writable = |destroy: Option<&Path>| open(&name, destroy, 1).map(|opened| opened.target.is_writable());
        assert!(writable(Some(Path::new("/another"))).unwrap_err().message.contains("nothing was done"));
        // A file system in memory may have no direct access.
        if let Ok(read_only) = writable(None) {
            assert!(!read_only);
            assert!(writable(Some(&file)).unwrap());
        }
        std::fs::remove_file(&file).unwrap();
    }
}
