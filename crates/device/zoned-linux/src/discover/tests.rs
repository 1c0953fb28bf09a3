//! Drives in a made-up `/sys`.

use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A machine's tree, gone with the value.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("shingle-sysfs-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let root = fs::canonicalize(std::env::temp_dir()).unwrap().join(name);
        fs::create_dir_all(&root).unwrap();
        Self(root)
    }

    fn put(&self, path: &str, content: &[u8]) -> &Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn link(&self, path: &str, target: &str) -> &Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.0.join(target), path).unwrap();
        self
    }

    /// A drive as sysfs has it: a directory somewhere, and links to it by name and number.
    fn drive(&self, name: &str, number: &str, attributes: &[(&str, &str)]) -> &Self {
        let directory = format!("sys/devices/pci/{name}");
        self.put(&format!("{directory}/dev"), format!("{number}\n").as_bytes());
        for (attribute, value) in attributes {
            self.put(&format!("{directory}/{attribute}"), format!("{value}\n").as_bytes());
        }
        self.link(&format!("sys/block/{name}"), &directory);
        self.link(&format!("sys/dev/block/{number}"), &directory);
        self.put(&format!("dev/{name}"), b"")
    }

    fn system(&self) -> System {
        System::under(&self.0)
    }

    fn one(&self) -> Drive {
        let mut drives = self.system().discover().unwrap();
        assert_eq!(drives.len(), 1);
        drives.remove(0)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A host-managed disk of 14 TB behind a SAS controller.
const DISK: &[(&str, &str)] = &[
    ("size", "27344764928"),
    ("ro", "0"),
    ("removable", "0"),
    ("queue/zoned", "host-managed"),
    ("queue/chunk_sectors", "524288"),
    ("queue/nr_zones", "52156"),
    ("queue/max_open_zones", "128"),
    ("queue/max_active_zones", "0"),
    ("queue/zone_append_max_bytes", "688128"),
    ("queue/max_sectors_kb", "672"),
    ("queue/logical_block_size", "512"),
    ("queue/physical_block_size", "4096"),
    ("queue/scheduler", "none kyber [mq-deadline] bfq"),
    ("queue/write_cache", "write back"),
    ("queue/nr_requests", "256"),
    ("queue/rotational", "1"),
    ("device/vendor", "ATA     "),
    ("device/model", "HGST HSH721414AL"),
    ("device/wwid", "naa.5000cca258c0ffee"),
];

#[test]
fn a_host_managed_disk_is_described() {
    let tree = Tree::new();
    tree.drive("sdb", "8:16", DISK);
    tree.put("sys/devices/pci/sdb/device/vpd_pg80", b"\0\x80\0\x14            VDH7XYZK");
    tree.link("dev/disk/by-id/wwn-0x5000cca258c0ffee", "dev/sdb");
    tree.link("dev/disk/by-id/ata-HGST", "dev/sdb");
    let drive = tree.one();
    assert_eq!((drive.name.as_str(), drive.number, drive.node.clone()), ("sdb", (8, 16), tree.0.join("dev/sdb")));
    assert_eq!(
        (drive.zoned, drive.zone_size_bytes, drive.zone_count),
        (ZonedModel::HostManaged, Some(256 << 20), Some(52156))
    );
    assert_eq!((drive.max_open_zones, drive.max_active_zones), (Some(128), None));
    assert_eq!((drive.zone_append_max_bytes, drive.transfer_max_bytes), (Some(688128), Some(688128)));
    assert_eq!(
        (drive.size_bytes, drive.logical_block_bytes, drive.physical_block_bytes),
        (27344764928 * 512, 512, 4096)
    );
    assert_eq!(drive.scheduler.as_deref(), Some("mq-deadline"));
    assert_eq!(drive.schedulers, ["none", "kyber", "mq-deadline", "bfq"]);
    assert_eq!((drive.write_cache, drive.nr_requests), (Some(WriteCache::WriteBack), Some(256)));
    assert_eq!((drive.rotational, drive.removable, drive.read_only, drive.in_use()), (true, false, false, false));
    assert_eq!((drive.vendor.as_deref(), drive.model.as_deref()), (None, Some("HGST HSH721414AL")));
    assert_eq!((drive.serial.as_deref(), drive.wwn.as_deref()), (Some("VDH7XYZK"), Some("naa.5000cca258c0ffee")));
    let links = ["ata-HGST", "wwn-0x5000cca258c0ffee"].map(|name| tree.0.join("dev/disk/by-id").join(name));
    assert_eq!(drive.by_id, links);
    assert_eq!(tree.system().describe_number((8, 16)).unwrap(), drive);
}

#[test]
fn an_nvme_namespace_says_its_serial_and_uuid() {
    let tree = Tree::new();
    tree.drive(
        "nvme0n1",
        "259:0",
        &[
            ("size", "2097152"),
            ("queue/zoned", "host-managed"),
            ("queue/chunk_sectors", "32768"),
            ("queue/max_open_zones", "8"),
            ("queue/max_active_zones", "12"),
            ("queue/scheduler", "[none] mq-deadline"),
            ("wwid", "eui.5254000000000001"),
            ("uuid", "7c5b8b39-6f4a-4d0c-9c46-2f1d7d3d3f5f"),
            ("device/serial", "z1"),
            ("device/model", "QEMU NVMe Ctrl                          "),
        ],
    );
    let drive = tree.one();
    assert_eq!((drive.serial.as_deref(), drive.model.as_deref()), (Some("z1"), Some("QEMU NVMe Ctrl")));
    assert_eq!(drive.wwn.as_deref(), Some("eui.5254000000000001"));
    assert_eq!(drive.uuid.as_deref(), Some("7c5b8b39-6f4a-4d0c-9c46-2f1d7d3d3f5f"));
    assert_eq!((drive.max_open_zones, drive.max_active_zones), (Some(8), Some(12)));
    assert_eq!(drive.scheduler.as_deref(), Some("none"));
}

#[test]
fn a_drive_cannot_speak_to_the_terminal() {
    let tree = Tree::new();
    tree.drive("sdb", "8:16", &[("size", "8"), ("device/model", "Good\x1b[2J\u{9b}0m drive")]);
    tree.put("sys/devices/pci/sdb/device/vpd_pg80", b"\0\x80\0\x08 Z\x1bL\x072 \0");
    let drive = tree.one();
    assert_eq!((drive.model.as_deref(), drive.serial.as_deref()), (Some("Good?[2J?0m drive"), Some("Z?L?2")));
}

#[test]
fn what_uses_an_ordinary_disk_is_seen() {
    let tree = Tree::new();
    tree.drive(
        "sda",
        "8:0",
        &[("size", "1000"), ("queue/zoned", "none"), ("queue/chunk_sectors", "2048"), ("device/vendor", "SEAGATE ")],
    );
    for (part, number) in [("sda1", "8:1"), ("sda2", "8:2"), ("sda10", "8:10")] {
        let directory = format!("sys/devices/pci/sda/{part}");
        tree.put(&format!("{directory}/dev"), number.as_bytes());
        tree.put(&format!("{directory}/size"), b"100");
        tree.put(&format!("{directory}/partition"), &part.as_bytes()[3..]);
        tree.put(&format!("dev/{part}"), b"");
        tree.link(&format!("sys/dev/block/{number}"), &directory);
    }
    tree.put("sys/devices/pci/sda/sda2/holders/dm-0", b"");
    tree.link("dev/disk/by-uuid/b7rf5", "dev/sda10");
    let by_uuid = tree.0.join("dev/disk/by-uuid/b7rf5");
    let mounts = format!(
        "30 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 1 0:33 / /my\\040data rw shared:1 - btrfs {} rw\nnonsense\n\
         32 1 9:1 / /other rw - ext4 /dev/sdz1 rw\n",
        by_uuid.display()
    );
    tree.put("proc/self/mountinfo", mounts.as_bytes());
    let swaps = format!("Filename Type Size Used Priority\n{} partition 8 0 -2\n", tree.0.join("dev/sda2").display());
    tree.put("proc/swaps", swaps.as_bytes());
    let drive = tree.one();
    assert_eq!(drive.partitions, ["sda1", "sda2", "sda10"]);
    assert_eq!(drive.holders, ["dm-0"]);
    assert_eq!(drive.mounts, ["/", "/my data", "[swap]"].map(PathBuf::from));
    assert!(drive.in_use());
    // A stripe size is no zone size.
    assert_eq!((drive.zoned, drive.zone_size_bytes, drive.zone_count), (ZonedModel::None, None, None));
    assert_eq!(drive.vendor.as_deref(), Some("SEAGATE"));
    let part = tree.system().describe_number((8, 10)).unwrap();
    assert_eq!((part.name.as_str(), part.partition, part.size_bytes), ("sda10", Some(10), 51200));
    assert_eq!((part.mounts, part.holders), (vec![PathBuf::from("/my data")], vec![]));
}

#[test]
fn drives_without_a_medium_and_hidden_paths_are_left_out() {
    let tree = Tree::new();
    tree.drive("loop0", "7:0", &[("size", "0")]);
    tree.drive("nvme0c0n1", "259:1", &[("size", "8"), ("hidden", "1")]);
    for (name, number) in [("sdb", "8:16"), ("sdaa", "65:160"), ("nvme10n1", "259:10"), ("nvme9n1", "259:9")] {
        tree.drive(name, number, &[("size", "8")]);
    }
    tree.put("run/udev/data/b8:16", b"S:disk/by-id/x\nE:ID_SERIAL_SHORT=ABC\nE:ID_WWN=0x5000\n");
    let drives = tree.system().discover().unwrap();
    let names: Vec<&str> = drives.iter().map(|drive| drive.name.as_str()).collect();
    assert_eq!(names, ["nvme9n1", "nvme10n1", "sdb", "sdaa"]);
    let sdb = &drives[2];
    assert_eq!((sdb.serial.as_deref(), sdb.wwn.as_deref()), (Some("ABC"), Some("0x5000")));
}

#[test]
fn what_is_no_drive_is_an_error() {
    let tree = Tree::new();
    assert!(tree.system().discover().is_err());
    assert!(tree.system().describe_number((8, 0)).is_err());
    tree.put("file", b"");
    let error = tree.system().describe(&tree.0.join("file")).unwrap_err();
    assert_eq!(error.to_string(), "not a block device");
}

#[test]
fn this_machine_can_be_looked_at() {
    for drive in System::host().discover().unwrap_or_default() {
        assert!(drive.size_bytes > 0);
    }
}
