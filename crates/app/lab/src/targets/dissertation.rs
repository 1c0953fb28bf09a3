//! Aghayev's dissertation (2020).

use super::target::Judged::{By, ByStandard, NotYet};
use super::target::Target;

/// Reason for ext4-lazy. Files of ext4 do run on these drives: `stl-filebench`.
const NO_LAZY: &str =
    "ext4 has a model, and ext4-lazy, whose journal keeps metadata for good, has none; nor is there a Postmark";

/// Reason for walks through directories.
const NO_WALK: &str = "ext4's model has no ext4-lazy, and no directories to walk through";

/// Reason for RADOS and FileStore on clusters of 16 nodes.
const NO_CLUSTER: &str =
    "there is no model of FileStore, nor of RADOS and its network; object-create has the part of one drive";

pub(super) const TARGETS: &[Target] = &[
    Target {
        place: "dissertation, Tables 2.2 and 2.3",
        result: "Writes until cleaning, and sizes of bands, of emulated drives",
        goal: None,
        judged: By("skylight", &["st5000as0011: *", "st8000as0002: *"]),
    },
    Target {
        place: "dissertation, chapter 2",
        result: "What a drive is inside shows in the times of its commands",
        goal: Some(
            "every property of drives drawn at random right, sizes within 5 %, no conventional drive called shingled",
        ),
        judged: By("skylight", &["conventional drives called shingled", "drawn: *", "closed loop: *"]),
    },
    Target {
        place: "dissertation, section 3.5, Figures 3.12 to 3.14",
        result: "ext4-lazy is 1.7 to 5.4 times as fast under Postmark, without write-back of metadata",
        goal: Some("2 times on every modelled drive-managed disk"),
        judged: NotYet(NO_LAZY),
    },
    Target {
        place: "dissertation, chapter 3",
        result: "Directories are traversed 2 to 13 times as fast",
        goal: Some("5 times"),
        judged: NotYet(NO_WALK),
    },
    Target {
        place: "dissertation, Figure 4.3",
        result: "Objects are created 80 % faster without a journaling file system, 70 % on an SSD",
        goal: Some(
            "no less than the raw store; over the file system no less than the paper, where the model comes to its ratio",
        ),
        judged: ByStandard(
            "object-create",
            &[
                "objects made on a raw drive, over a file system, HDD",
                "objects made on a raw drive, over a file system, SSD",
                "objects made by ours, over a raw drive, HDD",
                "objects made by ours, over a raw drive, SSD",
            ],
        ),
    },
    Target {
        place: "dissertation, Figures 4.7 and 4.8",
        result: "BlueStore writes objects 50 to 100 % faster than FileStore on 16 nodes, with tails ten times shorter",
        goal: None,
        judged: NotYet(NO_CLUSTER),
    },
    Target {
        place: "dissertation, Figure 4.9",
        result: "Writes of 4 KiB on SSDs are 2 times as fast on BlueStore, which splits no directories",
        goal: None,
        judged: NotYet(NO_CLUSTER),
    },
    Target {
        place: "dissertation, Figures 4.10 and 4.11",
        result: "Block devices on BlueStore are written 1.7 to 2 times as fast from 512 KiB on; with erasure codes 6 to 8 times at 4 KiB",
        goal: None,
        judged: NotYet(NO_CLUSTER),
    },
    Target {
        place: "dissertation, Figures 5.4 to 5.6",
        result: "RocksDB with larger write buffers and read-ahead ends 34 % earlier on a conventional drive, with fewer seeks and syncs",
        goal: None,
        judged: NotYet("one recording of RocksDB is made again, of the tuned settings"),
    },
    Target {
        place: "dissertation, Figure 5.7",
        result: "RocksDB takes 2,500 s on an HM-SMR drive at best, 2,100 s on a conventional one",
        goal: Some("faster than the conventional drive on the same model"),
        judged: ByStandard(
            "rocksdb-hmsmr",
            &[
                "time of DM-SMR, ext4, over CMR",
                "time of HM-SMR, synchronous I/O, over CMR",
                "time of HM-SMR, asynchronous I/O, over CMR",
                "time of HM-SMR, asynchronous I/O and cache, over CMR",
                "time of HM-SMR, ours, over CMR",
            ],
        ),
    },
    Target {
        place: "dissertation, Figure 5.9 d and section 5.5.7",
        result: "Zones take 1.09 times the database once compactions are done, 1.35 times when the inserts end",
        goal: Some("no more"),
        judged: ByStandard("rocksdb-hmsmr", &["room of zones over the database, *"]),
    },
    Target {
        place: "dissertation, section 5.6",
        result: "RocksDB's write amplification is 5 on a conventional SSD, 1.2 on a zoned one",
        goal: Some("1.05"),
        judged: ByStandard(
            "rocksdb-zns",
            &["write amplification of a conventional SSD", "write amplification with zones"],
        ),
    },
    Target {
        place: "dissertation, Figure 5.13",
        result: "At the object layer an HM-SMR drive writes slightly faster than a conventional one, a drive-managed one slower",
        goal: Some("above the conventional drive in proportion to the drives"),
        judged: ByStandard(
            "blue-write",
            &[
                "objects written, 1 MiB, *",
                "objects written, 2 MiB, *",
                "objects written, 4 MiB, *",
                "objects read, 1 MiB, *",
                "objects read, 2 MiB, *",
                "objects read, 4 MiB, *",
            ],
        ),
    },
    Target {
        place: "dissertation, Figure 5.14",
        result: "The 99th percentile of reads during cleaning is 53 % below a drive-managed disk's, within 13 % of a conventional one's",
        goal: Some("within 5 % of a conventional drive, both not written to, also on the drive that cleans"),
        judged: ByStandard(
            "blue-read",
            &[
                "p99 of reads, HM-SMR whose cleaning is led around, over DM-SMR",
                "p99 of reads, HM-SMR whose cleaning is led around, over CMR",
                "p99 of reads, HM-SMR whose cleaning is led around, over CMR that nobody writes to",
                "p99 of reads on the drive that cleans, over CMR that nobody writes to",
            ],
        ),
    },
    Target {
        place: "dissertation, section 2.4.2",
        result: "A synchronous write of 4 KiB takes 25 ms on the 5 TB drive, wherever it goes",
        goal: None,
        judged: By("block-replay", &["media cache: synchronous write of 4 KiB, p50"]),
    },
];
