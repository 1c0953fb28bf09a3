//! Findings about the machine.

use shingle_base::ByteSize;

use crate::drive::doctor::facts::{Facts, Who};
use crate::drive::doctor::finding::Finding;

/// From here on the kernel tells zone capacities and the limits on open and active zones.
const OLDEST: (u32, u32) = (5, 9);
/// From here on zones can be managed without being root.
const UNPRIVILEGED: (u32, u32) = (5, 14);
/// From here on the kernel itself keeps writes to a zone in order (zone write plugging).
pub(crate) const KEEPS_ORDER: (u32, u32) = (6, 10);
/// The oldest that this project is tested on.
const TESTED: (u32, u32) = (6, 1);
/// Bytes of buffers registered with io_uring: 64 commands of 1 MiB.
const LOCKED_BYTES: u64 = 64 << 20;

const SUBJECT: &str = "machine";

/// Everything but drives.
pub(crate) fn look(facts: &Facts, who: &Who) -> Vec<Finding> {
    let mut findings = vec![version(facts, who)];
    findings.extend(["CONFIG_BLK_DEV_ZONED", "CONFIG_IO_URING"].map(|option| built_with(facts, option)));
    findings.push(io_uring(facts, who));
    findings.push(memory_lock(facts, who));
    findings
}

fn version(facts: &Facts, who: &Who) -> Finding {
    let check = "kernel-version";
    let release = facts.release.clone().unwrap_or_default();
    match facts.version() {
        None => {
            Finding::advice(SUBJECT, check, "the kernel's version cannot be read", "zoned drives need 5.9 or newer")
        }
        Some(version) if version < OLDEST => Finding::problem(
            SUBJECT,
            check,
            format!("Linux {release} is too old"),
            "before 5.9 the kernel tells neither zone capacities nor the limits on open and active zones",
        )
        .change("install a newer kernel: apt install linux-image-amd64"),
        Some(version) if version < UNPRIVILEGED && !who.is_root() => Finding::problem(
            SUBJECT,
            check,
            format!("Linux {release} lets only root report and reset zones"),
            "from 5.14 on it is enough to be allowed to write to the drive",
        )
        .change("install a newer kernel: apt install linux-image-amd64"),
        Some(version) if version < TESTED => Finding::advice(
            SUBJECT,
            check,
            format!("Linux {release} is older than what Shingle is tested on"),
            "tests run on 6.1 and newer",
        )
        .change("install a newer kernel: apt install linux-image-amd64"),
        Some(_) => Finding::ok(SUBJECT, check, format!("Linux {release}")),
    }
}

fn built_with(facts: &Facts, option: &'static str) -> Finding {
    let (check, why) = match option {
        "CONFIG_BLK_DEV_ZONED" => ("kernel-zoned", "without it the kernel does not recognise zoned drives"),
        _ => ("kernel-io-uring", "commands go to drives through io_uring"),
    };
    match facts.built_with(option) {
        Some(true) => Finding::ok(SUBJECT, check, format!("the kernel has {option}")),
        Some(false) => Finding::problem(SUBJECT, check, format!("the kernel was built without {option}"), why)
            .change("use a kernel that has it, such as Debian's: apt install linux-image-amd64"),
        None => Finding::advice(SUBJECT, check, format!("the kernel's option {option} is unknown"), why)
            .change(format!("look in the kernel's configuration: grep {option} /boot/config-$(uname -r)")),
    }
}

fn io_uring(facts: &Facts, who: &Who) -> Finding {
    let check = "io-uring";
    let why = "commands go to drives through io_uring";
    match facts.io_uring_disabled {
        None | Some(0) => Finding::ok(SUBJECT, check, "io_uring is allowed for everybody"),
        Some(1) if who.is_root() => Finding::advice(
            SUBJECT,
            check,
            "io_uring is allowed only for root and one group (kernel.io_uring_disabled = 1)",
            "the server runs as a user of its own",
        )
        .change("sysctl -w kernel.io_uring_group=\"$(getent group shingle | cut -d: -f3)\""),
        Some(1) => Finding::problem(
            SUBJECT,
            check,
            "io_uring is allowed only for root and one group (kernel.io_uring_disabled = 1)",
            why,
        )
        .change("sysctl -w kernel.io_uring_group=\"$(getent group shingle | cut -d: -f3)\""),
        Some(value) => {
            Finding::problem(SUBJECT, check, format!("io_uring is disabled (kernel.io_uring_disabled = {value})"), why)
                .change(
                    "sysctl -w kernel.io_uring_disabled=0\necho kernel.io_uring_disabled=0 \
                     >/etc/sysctl.d/60-shingle.conf",
                )
        }
    }
}

fn memory_lock(facts: &Facts, who: &Who) -> Finding {
    let check = "memory-lock";
    match facts.memory_lock {
        Some(u64::MAX) => Finding::ok(SUBJECT, check, "memory may be locked without limit"),
        Some(bytes) if bytes >= LOCKED_BYTES => {
            Finding::ok(SUBJECT, check, format!("{} of memory may be locked", ByteSize(bytes)))
        }
        Some(_) if who.is_root() => Finding::ok(SUBJECT, check, "root may lock memory without limit"),
        Some(bytes) => Finding::advice(
            SUBJECT,
            check,
            format!("only {} of memory may be locked", ByteSize(bytes)),
            "buffers that are registered with io_uring count as locked; the kernel copies the others",
        )
        .change("ulimit -l unlimited (as root: prlimit --memlock=unlimited --pid PID; in a systemd unit LimitMEMLOCK=infinity)"),
        None => Finding::ok(SUBJECT, check, "the limit on locked memory is not known"),
    }
}
