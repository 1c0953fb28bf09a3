//! Findings about a block device.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use shingle_base::ByteSize;
use shingle_zoned_linux::{Drive, System, WriteCache, ZonedModel};

use crate::drive::doctor::facts::{Facts, Who};
use crate::drive::doctor::finding::Finding;
use crate::drive::doctor::machine::KEEPS_ORDER;

/// Longest read or write of one piece of payload by engines.
const TRANSFER_BYTES: u64 = 1 << 20;
/// A disk that has fewer commands to choose from cannot put them in a good order.
const QUEUE_DEPTH: u32 = 8;

/// All findings about one drive.
pub(crate) fn look(drive: &Drive, system: &System, facts: &Facts, who: &Who) -> Vec<Finding> {
    let subject = drive.node.display().to_string();
    let queue = system.sys.join("block").join(&drive.name);
    let mut findings = vec![model(&subject, drive), in_use(&subject, drive), permissions(&subject, drive, facts, who)];
    findings.push(scheduler(&subject, drive, facts));
    findings.extend(write_cache(&subject, drive));
    findings.extend(depth(&subject, drive, &queue));
    findings.extend(transfer(&subject, drive, &queue));
    findings
}

fn model(subject: &str, drive: &Drive) -> Finding {
    let check = "zone-model";
    if drive.read_only {
        let why = "nothing can be written to it";
        return Finding::problem(subject, check, "the kernel has made the drive read-only", why)
            .change(format!("blockdev --setrw {subject} (and look in dmesg for why)"));
    }
    let zones = drive.zone_count.unwrap_or(0);
    let size = drive.zone_size_bytes.map_or_else(|| "?".to_owned(), |bytes| ByteSize(bytes).to_string());
    match drive.zoned {
        ZonedModel::HostManaged => Finding::ok(subject, check, format!("host-managed, {zones} zones of {size}")),
        ZonedModel::HostAware => Finding::advice(
            subject,
            check,
            "host-aware",
            "such a drive takes random writes by itself and slows down behind them; newer kernels show it as an ordinary \
             drive",
        ),
        ZonedModel::None => Finding::advice(
            subject,
            check,
            "an ordinary drive: it has no zones",
            "zones can only be emulated on it: on all of it, or in a file",
        )
        .change(format!(
            "shingle drive create {subject} (what it holds is lost), or shingle drive create FILE --size SIZE in a file system"
        )),
    }
}

fn in_use(subject: &str, drive: &Drive) -> Finding {
    let check = "in-use";
    let list = |names: &[String]| names.join(", ");
    if let Some(mount) = drive.mounts.first() {
        let mount = mount.display();
        let why = "two owners of one drive destroy each other's data";
        return Finding::problem(subject, check, format!("it is mounted at {mount}"), why)
            .change(format!("umount {mount}"));
    }
    if !drive.holders.is_empty() {
        let why = "two owners of one drive destroy each other's data";
        let found = format!("it is part of another device, or a path to one: {}", list(&drive.holders));
        return Finding::problem(subject, check, found, why)
            .change(format!("lsblk {subject}, then use or stop that device"));
    }
    if !drive.partitions.is_empty() {
        let why = "a partition table means that the drive is somebody's; an engine takes a whole drive";
        let found = format!("it is partitioned: {}", list(&drive.partitions));
        return Finding::problem(subject, check, found, why)
            .change(format!("if nothing on it is needed (all of it will be lost): wipefs --all {subject}"));
    }
    Finding::ok(subject, check, "neither mounted nor partitioned nor part of another device")
}

fn permissions(subject: &str, drive: &Drive, facts: &Facts, who: &Who) -> Finding {
    let check = "permissions";
    let Ok(node) = fs::metadata(&drive.node) else {
        let why = "drives are opened by their nodes";
        return Finding::problem(subject, check, "there is no such node", why).change("udevadm trigger");
    };
    let group = facts.group(node.gid());
    let mode = node.mode() & 0o777;
    if !who.may_use(node.uid(), node.gid(), mode) {
        let found = format!("you may not read and write it (mode {mode:o}, group {group})");
        let change = if mode & 0o060 == 0o060 {
            format!("usermod --append --groups {group} USER, then log in again")
        } else {
            format!("chgrp disk {subject} && chmod 660 {subject} (the package's udev rule does that for zoned drives)")
        };
        return Finding::problem(subject, check, found, "opening a drive needs permission to read and to write")
            .change(change);
    }
    if mode & 0o006 != 0 {
        let why = "a user who can read the node can read all objects, and one who can write it can destroy them";
        return Finding::problem(subject, check, format!("everybody may use it (mode {mode:o})"), why)
            .change(format!("chmod o-rwx {subject}"));
    }
    Finding::ok(subject, check, format!("you may read and write it (mode {mode:o}, group {group})"))
}

fn scheduler(subject: &str, drive: &Drive, facts: &Facts) -> Finding {
    let check = "scheduler";
    let used = drive.scheduler.as_deref().unwrap_or("none");
    let zoned = drive.zoned != ZonedModel::None;
    let ordered = facts.version().is_some_and(|version| version >= KEEPS_ORDER);
    if !zoned || ordered || used == "mq-deadline" || !drive.rotational {
        return Finding::ok(subject, check, format!("I/O scheduler {used}"));
    }
    let set = format!("echo mq-deadline >/sys/block/{}/queue/scheduler", drive.name);
    let known = drive.schedulers.iter().any(|name| name == "mq-deadline");
    let set = if known { set } else { format!("modprobe mq-deadline\n{set}") };
    Finding::problem(
        subject,
        check,
        format!("I/O scheduler {used}"),
        "before Linux 6.10 only mq-deadline keeps writes to a zone in order: without it Shingle has to send long writes in \
         small pieces, one by one, and writes of other programs fail",
    )
    .change(format!("{set}\n(the package's udev rule does that at every start)"))
}

fn write_cache(subject: &str, drive: &Drive) -> Option<Finding> {
    let check = "write-cache";
    match (drive.write_cache?, drive.rotational) {
        (WriteCache::WriteThrough, _) => Some(Finding::ok(subject, check, "no volatile write cache")),
        (WriteCache::WriteBack, false) => {
            Some(Finding::ok(subject, check, "a volatile write cache, which engines flush before they acknowledge"))
        }
        (WriteCache::WriteBack, true) => {
            let off = if drive.vendor.is_some() {
                format!("sdparm --clear=WCE --save {subject}")
            } else {
                format!("hdparm -W 0 {subject}")
            };
            Some(
                Finding::advice(
                    subject,
                    check,
                    "the volatile write cache is on",
                    "safe, since engines flush before they acknowledge; but on a disk each flush waits for all that the \
                     cache holds, while without a cache only the write itself is waited for",
                )
                .change(off),
            )
        }
    }
}

fn depth(subject: &str, drive: &Drive, block: &Path) -> Option<Finding> {
    let check = "queue-depth";
    let path = block.join("device/queue_depth");
    let depth: u32 = fs::read_to_string(&path).ok()?.trim().parse().ok()?;
    if depth >= QUEUE_DEPTH {
        return Some(Finding::ok(subject, check, format!("the drive takes {depth} commands at a time")));
    }
    Some(
        Finding::advice(
            subject,
            check,
            format!("the drive takes {depth} commands at a time"),
            "a disk that has more reads to choose from turns and seeks less",
        )
        .change(format!("echo 31 >/sys/block/{}/device/queue_depth", drive.name)),
    )
}

fn transfer(subject: &str, drive: &Drive, block: &Path) -> Option<Finding> {
    let check = "transfer-size";
    let now = drive.transfer_max_bytes?;
    let hardware = fs::read_to_string(block.join("queue/max_hw_sectors_kb")).ok();
    let most = hardware.and_then(|text| text.trim().parse::<u64>().ok()).map_or(now, |kibibytes| kibibytes * 1024);
    if now >= TRANSFER_BYTES || now >= most {
        return Some(Finding::ok(subject, check, format!("commands of up to {} go in one piece", ByteSize(now))));
    }
    let wanted = most.min(TRANSFER_BYTES);
    Some(
        Finding::advice(
            subject,
            check,
            format!("commands of more than {} are split, the drive takes {}", ByteSize(now), ByteSize(most)),
            "every piece of a command costs the drive and the kernel time",
        )
        .change(format!("echo {} >/sys/block/{}/queue/max_sectors_kb", wanted / 1024, drive.name)),
    )
}
