//! SMORE (MSST 2017), and slow drives in arrays.

use super::target::Judged::{By, FromStandard, NotYet};
use super::target::Target;

pub(super) const TARGETS: &[Target] = &[
    Target {
        place: "SMORE, section V-C",
        result: "280 MB/s, what the drives can write, whatever the size of objects (1 MB to 1 GB) and the number of threads",
        goal: Some("99 % of the limit for every size, with the slowest number of writers"),
        judged: By("smore-ingest", &["ingest, 16 MB", "ingest, 256 MB", "ingest, what the drives can write"]),
    },
    Target {
        place: "SMORE, section V-C",
        result: "The paper measures one set of drives",
        goal: Some("95 % of the limit with the drives of several sets"),
        judged: By("smore-ingest", &["ingest, 12 drives"]),
    },
    Target {
        place: "SMORE, section V-D, Figure 5",
        result: "570 of at most 590 MB/s for large objects drawn at random, 80 % full",
        goal: Some("97 % of what the drives that serve reads can give, from 256 MB on: six, since parity goes round"),
        judged: FromStandard("smore-read", &["read, 256 MB", "read, 1 GB", "read, what five drives can read"]),
    },
    Target {
        place: "SMORE, section V-D, Figure 5",
        result: "390 MB/s where writers take turns after every segment and not after 12",
        goal: None,
        judged: FromStandard("smore-read", &["read, 1 GB, turns of one segment"]),
    },
    Target {
        place: "SMORE, section V-D, Figure 5",
        result: "The same rate after as much was written and deleted as fills the array five times",
        goal: Some("97 % of it"),
        judged: FromStandard("smore-read", &["read, mixed sizes, after 500 % churn, over fresh"]),
    },
    Target {
        place: "SMORE, section V-D, Figure 5",
        result: "The paper's curve below 256 MB",
        goal: Some("no slower"),
        judged: NotYet("the curve's values are not printed, and the array always turns its parity round"),
    },
    Target {
        place: "SMORE, section V-E, Figure 6",
        result: "Write amplification without parity below 2.0 at 80 % for mixed sizes",
        goal: Some("1.4 at 80 %"),
        judged: By("smore-wa", &["write amplification without parity, mixed sizes, 80 % full"]),
    },
    Target {
        place: "SMORE, section V-E, Figure 6",
        result: "The paper gives no figure at 90 %",
        goal: Some("2.1, mixed sizes"),
        judged: FromStandard("smore-wa", &["write amplification without parity, mixed sizes, 90 % full"]),
    },
    Target {
        place: "SMORE, section V-E, Figure 6; Desnoyers 2014",
        result: "High for small objects in a full array, whose dead bytes are spread evenly",
        goal: Some(
            "within 10 % of greedy cleaning in theory at the same spare, for sizes of which a set holds four or more",
        ),
        judged: FromStandard(
            "smore-wa",
            &[
                "write amplification without parity, 1 MB, 70 % full",
                "write amplification without parity, 1 MB, 80 % full",
                "write amplification without parity, 1 MB, 90 % full",
                "write amplification without parity, 256 MB, 80 % full",
            ],
        ),
    },
    Target {
        place: "SMORE, section V-E",
        result: "The paper deletes at random alone",
        goal: Some("where deletion is skewed, better than greedy cleaning in theory without a skew"),
        judged: FromStandard(
            "smore-wa",
            &[
                "write amplification without parity, 16 MB, 20 % of the objects with 80 % of the deletions, 80 % full",
                "write amplification without parity, 64 MB, 20 % of the objects with 80 % of the deletions, 80 % full",
            ],
        ),
    },
    Target {
        place: "SMORE, section V-F, Figure 7",
        result: "Nothing changes while a snapshot is taken",
        goal: Some("no pause of a writer over 10 ms at 50 TB"),
        judged: By(
            "smore-snapshot",
            &[
                "longest wait of a writer of small objects, during snapshots",
                "longest wait of a writer of small objects, during snapshots, 50 TB, extrapolated",
                "longest wait of a writer of small objects, during snapshots, with a buffer on SSDs",
                "longest wait of a writer of small objects, during snapshots, with a buffer on SSDs, 50 TB, extrapolated",
            ],
        ),
    },
    Target {
        place: "SMORE, section V-F, Figure 7",
        result: "A snapshot takes less than 0.15 s, but for 1 MB objects; 1.5 to 1.6 s for 50 TB of mixed sizes",
        goal: None,
        judged: NotYet("the paper's time is its processor's; what drives and another processor take is shown"),
    },
    Target {
        place: "SMORE, section V-F, Figure 8",
        result: "Opening after a power cut is linear in the zone sets that are looked at (R^2 above 0.999)",
        goal: Some("R^2 of 0.99"),
        judged: By("smore-recovery", &["recovery of an array, R^2 of the line over sets"]),
    },
    Target {
        place: "SMORE, section V-F, Figure 8",
        result: "7 s for all of 766 GB, without any snapshot",
        goal: None,
        judged: By("smore-recovery", &["recovery of an array, no snapshot"]),
    },
    Target {
        place: "SMORE, section V-F, Figure 8",
        result: "From that 7 minutes for 50 TB, 70 s were the digests read from all drives; both extrapolated",
        goal: Some("70 s, extrapolated as well"),
        judged: By(
            "smore-recovery",
            &[
                "recovery of an array, 50 TB, no snapshot, extrapolated",
                "recovery of an array, 50 TB, no snapshot, extrapolated, with the processor's time",
            ],
        ),
    },
    Target {
        place: "SMORE, section V-F, Figure 8",
        result: "0.28 s to copy the snapshot from the drives",
        goal: None,
        judged: By("smore-recovery", &["recovery of an array, copying the snapshot from the drives"]),
    },
    Target {
        place: "SMORE, section III-G, which measures nothing",
        result: "A set that had a zone on a lost drive gets a free zone of another one, computed from parity",
        goal: Some("90 % of the slowest drive's bandwidth"),
        judged: By("smore-rebuild", &["rebuild onto a new drive", "rebuild onto free zones, 9 drives"]),
    },
    Target {
        place: "SMORE, section III-G",
        result: "Only the zone-set table changes; codes of one parity",
        goal: Some("codes up to 16+4, any lost drives that parity makes up for, nothing lost"),
        judged: NotYet("no figure of an experiment: the array's own tests lose drives under every code"),
    },
    Target {
        place: "no paper",
        result: "One drive of twelve at a hundredth of its speed",
        goal: Some(
            "GET and PUT at most 1.5 times their 99th percentile with all drives well, stores beside it nothing, extra reads at most a \
             twentieth; given up within three minutes where all PUTs wait for it",
        ),
        judged: By(
            "slow-drive",
            &[
                "GET 64 KiB, 99th percentile*",
                "GET 64 KiB from the array beside it*",
                "GET 64 KiB, extra reads*",
                "PUT 64 MiB, 24 drives, 99th percentile*",
                "PUT 64 MiB, 12 drives, time until the slow drive is given up",
                "PUT 1 MiB, four chunk stores*",
            ],
        ),
    },
];
