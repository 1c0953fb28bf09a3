//! Facts about the machine, read from `/proc` and `/boot` (in tests from a made-up tree).

use std::fs;
use std::io::Read;
use std::path::Path;

/// More than any kernel's configuration.
const CONFIG_MAX: u64 = 16 << 20;

/// Facts about a machine that matter to the doctor. Unreadable ones are `None`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The kernel's release, such as `6.1.0-56-amd64`.
    pub(crate) release: Option<String>,
    /// Lines of the kernel's configuration.
    pub(crate) config: Option<String>,
    /// `kernel.io_uring_disabled`; kernels before 6.6 have none.
    pub(crate) io_uring_disabled: Option<u32>,
    /// Bytes that this process may lock in memory; `u64::MAX` for no limit.
    pub(crate) memory_lock: Option<u64>,
    /// Groups by name.
    groups: String,
}

impl Facts {
    pub(crate) fn read(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let release = text("proc/sys/kernel/osrelease").map(|release| release.trim().to_owned());
        let of_boot = release.as_ref().and_then(|release| text(&format!("boot/config-{release}")));
        let io_uring_disabled = text("proc/sys/kernel/io_uring_disabled").and_then(|value| value.trim().parse().ok());
        Self {
            config: of_boot.or_else(|| unpacked(&root.join("proc/config.gz"))),
            io_uring_disabled,
            memory_lock: text("proc/self/limits").and_then(|limits| memory_lock(&limits)),
            groups: text("etc/group").unwrap_or_default(),
            release,
        }
    }

    /// The kernel's version: 6.1 is `(6, 1)`.
    pub(crate) fn version(&self) -> Option<(u32, u32)> {
        let mut numbers = self.release.as_ref()?.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// True if the kernel was built with an option; `None` if its configuration cannot be read.
    pub(crate) fn built_with(&self, option: &str) -> Option<bool> {
        let set = |line: &str| line.strip_prefix(option).is_some_and(|rest| matches!(rest.trim(), "=y" | "=m"));
        self.config.as_ref().map(|config| config.lines().any(set))
    }

    /// The name of a group.
    pub(crate) fn group(&self, number: u32) -> String {
        let line = |line: &str| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)?.parse() == Ok(number)).then(|| name.to_owned())
        };
        self.groups.lines().find_map(line).unwrap_or_else(|| number.to_string())
    }
}

fn unpacked(path: &Path) -> Option<String> {
    let file = fs::File::open(path).ok()?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).take(CONFIG_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The soft limit in `/proc/self/limits`: `Max locked memory  8388608  8388608  bytes`.
fn memory_lock(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        bytes => bytes.parse().ok(),
    }
}

/// User and groups of this process.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    pub(crate) user: u32,
    pub(crate) groups: Vec<u32>,
}

impl Who {
    pub(crate) fn me() -> Self {
        let mut groups: Vec<u32> =
            rustix::process::getgroups().unwrap_or_default().into_iter().map(|group| group.as_raw()).collect();
        groups.push(rustix::process::getegid().as_raw());
        Self { user: rustix::process::geteuid().as_raw(), groups }
    }

    pub(crate) fn is_root(&self) -> bool {
        self.user == 0
    }

    /// True if permissions let this user read and write.
    pub(crate) fn may_use(&self, owner: u32, group: u32, mode: u32) -> bool {
        let both = |bits: u32| bits & 0o6 == 0o6;
        if self.is_root() {
            true
        } else if self.user == owner {
            both(mode >> 6)
        } else if self.groups.contains(&group) {
            both(mode >> 3)
        } else {
            both(mode)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_options_and_limits_are_read() {
        let config = "# CONFIG_BLK_DEV_ZONED_X is not set\nCONFIG_BLK_DEV_ZONED=y\n# CONFIG_IO_URING is not set\n";
        let facts = Facts { release: Some("6.10.3-arch1".into()), config: Some(config.into()), ..Facts::default() };
        assert_eq!(facts.version(), Some((6, 10)));
        assert_eq!(facts.built_with("CONFIG_BLK_DEV_ZONED"), Some(true));
        assert_eq!(facts.built_with("CONFIG_IO_URING"), Some(false));
        assert_eq!(Facts::default().built_with("CONFIG_IO_URING"), None);
        assert_eq!(
            memory_lock("Max locked memory         8388608              8388608              bytes"),
            Some(8 << 20)
        );
        assert_eq!(memory_lock("Max locked memory  unlimited unlimited bytes"), Some(u64::MAX));
        assert_eq!(memory_lock("nonsense"), None);
    }

    #[test]
    fn permissions_are_those_of_the_first_class_that_fits() {
        let who = Who { user: 1000, groups: vec![6] };
        assert!(who.may_use(0, 6, 0o660));
        assert!(!who.may_use(0, 7, 0o660));
        assert!(!who.may_use(1000, 6, 0o060), "the owner's bits count, not the group's");
        assert!(Who { user: 0, groups: vec![] }.may_use(1, 1, 0));
    }
}
