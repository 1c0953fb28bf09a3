//! SMRstore (FAST 2023), and real file systems beside it.

use super::target::Judged::{By, ByStandard, NotYet};
use super::target::Target;

pub(super) const TARGETS: &[Target] = &[
    Target {
        place: "SMRstore, Table 2 and section 2.2; SMORE, section V-A; dissertation, Table 5.1",
        result: "Speeds of the drives, each published figure of each profile within 5 %",
        goal: None,
        judged: By("calibrate", &["st20000nm001j: *", "st16000nm001g: *", "ha10: *", "hsh721414al: *"]),
    },
    Target {
        place: "data sheets",
        result: "The same drives where no constant was fitted: random reads at depth 16, about 170 a second",
        goal: None,
        judged: By("calibrate", &["held out: st20000nm001j: *", "held out: st16000nm001g: *"]),
    },
    Target {
        place: "SMRstore, section 6.1, Figure 14",
        result: "110 MB/s at 1 MiB to 512 files",
        goal: Some("1.3 times the paper's configuration on the same kernel, files at random and of three streams"),
        judged: By(
            "micro-write",
            &["HC-W, 1 MiB", "HC-W, 1024 KiB, over the paper's configuration, same kernel, files at random"],
        ),
    },
    Target {
        place: "SMRstore, section 6.1, Figure 14",
        result: "1.3 times ext4 on a conventional drive at 1 MiB",
        goal: Some("1.3 times ext4 on the conventional twin, on the same kernel, files at random and of three streams"),
        judged: By(
            "micro-write",
            &[
                "HC-W, 1 MiB, / CS-Ext4",
                "HC-W, 1 MiB, CS-Ext4",
                "HC-W, 1024 KiB, over CS-Ext4 on the conventional twin, same kernel, files at random",
            ],
        ),
    },
    Target {
        place: "SMRstore, section 6.1, Figure 14",
        result: "Little below 32 KiB, since every chunk has its own zone and each append is a seek",
        goal: Some("at 4 KiB ten times the paper's configuration, three times without rotational prediction"),
        judged: By(
            "micro-write",
            &[
                "HC-W, 4 KiB, / CS-Ext4",
                "HC-W, 4 KiB, over the paper's configuration, same kernel, files at random",
                "HC-W, 4 KiB, over the paper's configuration, same kernel, files at random, no rotational prediction",
            ],
        ),
    },
    Target {
        place: "SMRstore, section 6.1, Figure 14",
        result: "Level with ext4 at 128 KiB",
        goal: None,
        judged: By("micro-write", &["HC-W, 128 KiB, / CS-Ext4"]),
    },
    Target {
        place: "SMRstore, sections 3.1 and 6.1, Figures 4 and 14",
        result: "One zone for all, as F2FS fills its log, is 1.3 to 12.9 times ext4",
        goal: None,
        judged: By("micro-write", &["HC-W, OneZone / CS-Ext4*", "HC-W, CS-F2FS / CS-Ext4*"]),
    },
    Target {
        place: "SMRstore, section 6.1, Figure 16",
        result: "Random reads are comparable to ext4's",
        goal: Some("no slower than ext4 on the conventional twin, on the same kernel, at any size"),
        judged: By("micro-read", &["HC-RR, / CS-Ext4, mean of all sizes", "HC-RR, 4 KiB", "HC-RR, 1024 KiB"]),
    },
    Target {
        place: "SMRstore, section 3.1, Figure 5",
        result: "F2FS fills one zone after the other with the data of all chunks",
        goal: None,
        judged: By("access-pattern", &["writes to the zone of the write before, CS-F2FS"]),
    },
    Target {
        place: "SMRstore, section 6.1, Figure 15",
        result: "SMRstore writes all over its open zones",
        goal: Some(
            "visits of no more zones in a second, and longer ones, than those of the paper's configuration behind the same kernel",
        ),
        judged: By("access-pattern", &["zones written in a second", "writes to the zone of the write before"]),
    },
    Target {
        place: "SMRstore, section 6.2, Figure 17",
        result: "A steady 4 GB/s on sixty drives, 67 MB/s on one, when chunks are deleted at random at 80 %",
        goal: Some("at most 2 % lost at 80 %, 10 % at 90 %"),
        judged: By(
            "multistream",
            &[
                "multi-stream, 80 % full: throughput",
                "multi-stream, 80 % full: lost to deletion",
                "multi-stream, 90 % full: lost to deletion",
            ],
        ),
    },
    Target {
        place: "SMRstore, section 6.2, Figure 17",
        result: "The same of ext4",
        goal: None,
        judged: By("multistream", &["multi-stream, CS-Ext4: lost to deletion"]),
    },
    Target {
        place: "SMRstore, section 3.2, Figures 6 and 7",
        result: "F2FS loses 61.5 to 69.7 % when deletion begins, since each of its sections mixes chunks of all streams",
        goal: None,
        judged: By("multistream", &["multi-stream, CS-F2FS: lost to deletion"]),
    },
    Target {
        place: "SMRstore, section 6.2, Figure 17",
        result: "2.16 times F2FS",
        goal: Some("no less, behind the same kernel"),
        judged: By("multistream", &["multi-stream, over CS-F2FS"]),
    },
    Target {
        place: "SMRstore, section 6.2",
        result: "The paper does not give the write amplification of GC",
        goal: Some("at most 1.05 at 80 %"),
        judged: By("multistream", &["multi-stream, 80 % full: write amplification of GC"]),
    },
    Target {
        place: "SMRstore, sections 6.2 and 6.3, Figures 18 and 20",
        result: "With all three strategies most zones are wholly live or dead",
        goal: Some("95 % of closed zones at least 99 % or at most 1 % live, at 80 %"),
        judged: By("zone-utilisation", &["closed zones >= 99 % or <= 1 % live, 80 % full"]),
    },
    Target {
        place: "SMRstore, section 6.3, Figure 19",
        result: "All three strategies reach 2.35 times the throughput of none",
        goal: Some("no less, behind the same kernel"),
        judged: By("placement", &["placement, S1+S2+S3 over none"]),
    },
    Target {
        place: "SMRstore, section 6.3, Figure 19",
        result: "Separating streams alone is close to none; zone-sized chunks and round robin add about half each",
        goal: None,
        judged: By(
            "placement",
            &["placement, S1 over none", "placement, S1+S2 over none", "placement, S1+S3 over none"],
        ),
    },
    Target {
        place: "SMRstore, section 3.2, Figure 6",
        result: "F2FS loses 61.5 to 69.7 % when deletion begins; the real one, recorded",
        goal: Some("2.16 times real F2FS"),
        judged: By("peers-replay", &["peers, f2fs: lost to deletion", "peers, over f2fs, once deletion has settled"]),
    },
    Target {
        place: "SMRstore, section 6.4, Figure 21",
        result: "20 TB at 60 % opens in 94.4 s: 19 s for the checkpoint, less than one for the journal, 75 s for scanning",
        goal: Some("10 s"),
        judged: By(
            "recovery",
            &[
                "recovery, 20 TB at 60 %",
                "recovery, 20 TB at 60 %, with the processor's time",
                "recovery, checkpoint",
                "recovery, journal",
                "recovery, scan",
            ],
        ),
    },
    Target {
        place: "SMRstore, section 6.4, Figure 21",
        result: "More than 4 minutes where metazones may be anywhere",
        goal: None,
        judged: By("recovery", &["recovery, metazones anywhere"]),
    },
    Target {
        place: "SMRstore, section 6.4, Figure 21",
        result: "A chunkserver on ext4 opens in 20 s",
        goal: None,
        judged: NotYet("the model of ext4 has no mount and no scan of files"),
    },
    Target {
        place: "SMRstore, section 6.5",
        result: "200 bytes a chunk and 8 bytes a record",
        goal: Some("100 and 4 bytes under Table 3's load"),
        judged: By("memory", &["Table 3: memory a chunk", "Table 3: memory a record", "random sizes: memory a record"]),
    },
    Target {
        place: "SMRstore, section 6.5",
        result: "49.3 GB of memory for a server of 60 drives",
        goal: None,
        judged: NotYet(
            "the paper does not say how many chunks and records it holds; a drive's index is judged instead",
        ),
    },
    Target {
        place: "SMRstore, section 6.5",
        result: "1 to 2 % of the space for headers, footers and padding, for 512 KiB to 1 MiB",
        goal: Some("1.2 %"),
        judged: By("space", &["Space overhead, 1 MiB", "Space overhead, 512 KiB", "Space overhead, Table 3"]),
    },
    Target {
        place: "SMRstore, section 6.5",
        result: "7 cores for 60 drives at 4 GB/s, 570 MB/s a core, GC included",
        goal: Some("3 GB/s a core, checksums on"),
        judged: ByStandard("cpu", &["CPU: appends of 1 MiB, one core"]),
    },
    Target {
        place: "SMRstore, section 6.6, Figure 22",
        result: "OSS on 780 shingled drives is level with 780 conventional ones: 1,899 MB/s of writes and 753 of reads a chunkserver",
        goal: None,
        judged: NotYet("a cluster of 13 servers with OSS's key-value layer, of whose load the paper gives rates alone"),
    },
];
