//! Settings that have the right type, but an impossible value.

use shingle_base::ByteSize;
use shingle_s3_gateway::is_domain;

use super::{ArrayConfig, Config, Shape};
use crate::engines::keeper::CHUNKS;
use crate::inventory::DriveName;
use crate::server::log_levels;

/// The least memory for bodies, by connection: with less, pieces would be too small to be worth their handling.
const CONNECTION_BYTES_MIN: u64 = 128 << 10;

impl Config {
    /// All mistakes, a line for each.
    pub(super) fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        self.find_wrong_drives(&mut wrong);
        self.find_wrong_arrays(&mut wrong);
        self.find_wrong_blues(&mut wrong);
        self.find_wrong_volumes(&mut wrong);
        if self.region.is_empty() || !self.region.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
            wrong.push(format!("region `{}` is invalid: letters, digits and dashes", self.region));
        }
        if self.access_log.is_empty() {
            wrong.push("access_log is empty: write off, log, or a file".to_owned());
        }
        wrong.extend(log_levels(&self.log).err().map(|error| error.message));
        if self.limits.connections == 0 {
            wrong.push("limits.connections is 0, which lets nobody in".to_owned());
        }
        for (name, seconds) in
            [("head_timeout_s", self.limits.head_timeout_s), ("stall_timeout_s", self.limits.stall_timeout_s)]
        {
            if seconds == 0 {
                wrong.push(format!("limits.{name} is 0, which leaves clients no time"));
            }
        }
        if let Some(domain) = self.domain.as_deref().filter(|domain| !is_domain(domain)) {
            wrong.push(format!("domain `{domain}` is no domain name"));
        }
        let least = (self.limits.connections as u64).saturating_mul(CONNECTION_BYTES_MIN);
        if self.limits.memory < least {
            wrong.push(format!(
                "limits.memory is {}, too little for {} connections: {} at least, or fewer connections",
                ByteSize(self.limits.memory),
                self.limits.connections,
                ByteSize(least)
            ));
        }
        wrong
    }

    fn find_wrong_drives(&self, wrong: &mut Vec<String>) {
        for (index, drive) in self.drives.iter().enumerate() {
            if self.drives.iter().take(index).any(|other| other.path == drive.path) {
                wrong.push(format!("the drive {} is named twice", drive.path.display()));
            }
            match DriveName::of_path(&drive.path) {
                Err(error) => wrong.push(format!("the drive {} is impossible: {error}", drive.path.display())),
                Ok(DriveName::Path(_)) => {}
                Ok(name) if drive.create.is_some() => {
                    wrong.push(format!("the drive {name} cannot be made: only emulated drives are, by their files"));
                }
                Ok(_) => {}
            }
            if let Some(Err(error)) = drive.create.as_ref().map(Shape::geometry) {
                wrong.push(format!("the drive {} cannot be made: {error}", drive.path.display()));
            }
        }
    }

    fn find_wrong_arrays(&self, wrong: &mut Vec<String>) {
        for (index, array) in self.arrays.iter().enumerate() {
            wrong.extend(array.wrong().into_iter().map(|why| format!("array `{}`: {why}", array.name)));
            if array.name == self.region {
                wrong
                    .push(format!("array `{}` has the region's name: a bucket's location would mean both", array.name));
            }
            for other in self.arrays.iter().take(index) {
                if other.name == array.name {
                    wrong.push(format!("two arrays are called `{}`", array.name));
                }
                if other.class() == array.class() {
                    let (one, two, class) = (&other.name, &array.name, array.class());
                    wrong.push(format!(
                        "the arrays `{one}` and `{two}` have the same class, {class}: give each its own"
                    ));
                }
            }
        }
    }
}

impl ArrayConfig {
    fn wrong(&self) -> Vec<String> {
        let named = match (&self.file, self.drives.is_empty()) {
            (Some(_), false) => Err("name its file or its drives, not both".to_owned()),
            (None, true) => Err("name its file, which `shingle array format` wrote, or its drives".to_owned()),
            (Some(_), true) => Ok(()),
            (None, false) => self.validate_drives(),
        };
        [name(&self.name), class(self.class()), named].into_iter().filter_map(Result::err).collect()
    }

    pub(super) fn validate_drives(&self) -> Result<(), String> {
        if self.drives.is_empty() {
            return Err("it names no drives".to_owned());
        }
        for (index, drive) in self.drives.iter().enumerate() {
            if self.drives.iter().take(index).any(|other| other == drive) {
                return Err(format!("the drive {} is named twice", drive.display()));
            }
            DriveName::of_path(drive)
                .map_err(|error| format!("the drive {} is impossible: {error}", drive.display()))?;
        }
        Ok(())
    }
}

/// Fails if no engine can be called so.
pub(super) fn name(name: &str) -> Result<(), String> {
    let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
    if name.is_empty() || name.len() > 32 || !name.bytes().all(plain) {
        return Err("a name has 1 to 32 letters, digits and dashes".to_owned());
    }
    if name == CHUNKS {
        return Err(format!("`{CHUNKS}` is the name of the store on the [[drive]]s"));
    }
    Ok(())
}

/// Fails if no engine's objects can be of that storage class.
pub(super) fn class(class: &str) -> Result<(), String> {
    let plain = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
    if class.is_empty() || class.len() > 32 || !class.bytes().all(plain) {
        return Err(format!("class `{class}` is invalid: 1 to 32 capital letters, digits and underscores"));
    }
    if matches!(class, "STANDARD" | "GLACIER" | "DEEP_ARCHIVE") {
        return Err(format!(
            "the class cannot be {class}: STANDARD is what has no class, and clients do not read the others before \
             they were restored, which is not needed here; STANDARD_IA and GLACIER_IR are read at once"
        ));
    }
    Ok(())
}
