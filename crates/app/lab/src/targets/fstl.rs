//! FSTL (Hajkazemi, 2019).

use super::target::Judged::{By, ByStandard, NotYet, Shown};
use super::target::Target;

pub(super) const TARGETS: &[Target] = &[
    Target {
        place: "FSTL, Figure 9 (d)",
        result: "The 8 TB drive takes streams at 100 MB/s and more, past its cache",
        goal: None,
        judged: By("block-replay", &["media cache, 8 TB: streaming overwrites"]),
    },
    Target {
        place: "FSTL, Figure 7 (a)",
        result: "Requests to the 8 TB drive take more than a second while it cleans, up to five",
        goal: None,
        judged: ByStandard("block-replay", &["media cache, 8 TB: longest request while it cleans"]),
    },
    Target {
        place: "FSTL, Figures 5 and 6",
        result: "TL1 takes traces with many writes 2 times as fast as a drive-managed disk with one outstanding, nearly 10 times with two, \
                 3 times with the write cache on",
        goal: Some("the same factors"),
        judged: By(
            "stl-replay",
            &[
                "src2_2: TL1 over drive-managed, *",
                "src1_2: TL1 over drive-managed, *",
                "wdev_0: TL1 over drive-managed, *",
            ],
        ),
    },
    Target {
        place: "FSTL, Figure 7 (b)",
        result: "All I/Os of TL1 but one take less than a second",
        goal: Some("none takes longer"),
        judged: By("stl-replay", &["src2_2: longest I/O of TL1, *"]),
    },
    Target {
        place: "FSTL, Figure 7 (a)",
        result: "The drive lets several I/Os of the same trace wait for a second and more",
        goal: None,
        judged: ByStandard("stl-replay", &["src2_2: longest I/O of the drive-managed drive"]),
    },
    Target {
        place: "FSTL, section V-B",
        result: "TL2 takes src2_2 at 100 MB/s, TL1 at 67",
        goal: Some("1.5 times TL1 before TL2 cleans"),
        judged: ByStandard("stl-replay", &["src2_2: TL2 over TL1, *"]),
    },
    Target {
        place: "FSTL, Figure 11",
        result: "TL2 is ahead of a page-mapped layer on each trace",
        goal: None,
        judged: By("stl-replay", &["src2_2: TL2 over ZDM, *", "src1_2: TL2 over ZDM, *", "wdev_0: TL2 over ZDM, *"]),
    },
    Target {
        place: "FSTL, Table I and section III-C",
        result: "Maps of traces of a week have up to 350,000 extents, of 64 bytes each",
        goal: Some("16 bytes an extent"),
        judged: ByStandard(
            "stl-map-size",
            &[
                "src2_2: bytes of memory an extent",
                "src1_2: bytes of memory an extent",
                "wdev_0: bytes of memory an extent",
            ],
        ),
    },
    Target {
        place: "FSTL, section III-C",
        result: "A map takes 64 bytes an extent",
        goal: Some("10 million extents in 160 MB, a lookup in at most 1 us"),
        judged: NotYet(
            "`shingle bench map` measures both on the machine at hand; no experiment does, since a lookup takes no virtual time",
        ),
    },
    Target {
        place: "FSTL, Figure 10",
        result: "Compilebench takes as long on TL1 as on the drive",
        goal: None,
        judged: NotYet("no load of Compilebench: the model of ext4 has no trees of directories"),
    },
    Target {
        place: "FSTL, Figure 15",
        result: "Few addresses get most accesses",
        goal: None,
        judged: Shown(
            "stl-heat",
            "the paper's traces are not here, and a generated load is as skewed as it was asked to be",
        ),
    },
    Target {
        place: "FSTL, Figures 8 and 9",
        result: "Filebench: TL1 is far ahead of the drive at random writes and mail, level with it as a file server, and far behind at streams",
        goal: Some("no slower than the drive at streams"),
        judged: ByStandard(
            "stl-filebench",
            &[
                "randomwrite: TL1 over drive-managed",
                "varmail: TL1 over drive-managed",
                "fileserver: TL1 over drive-managed",
                "singlestreamwrite: TL1 over drive-managed",
            ],
        ),
    },
    Target {
        place: "FSTL, section V-A",
        result: "With a sync after each append the file server is half as fast on TL1, and 20 times slower on the drive",
        goal: None,
        judged: ByStandard(
            "stl-filebench",
            &["fileserver-fsync: TL1 over fileserver", "fileserver-fsync: drive-managed over fileserver"],
        ),
    },
    Target {
        place: "FSTL, Figure 13",
        result: "ZDM is ahead of TL2 where nobody syncs, and behind it where programs do",
        goal: None,
        judged: ByStandard(
            "stl-filebench",
            &[
                "randomwrite: TL2 over ZDM",
                "singlestreamwrite: TL2 over ZDM",
                "fileserver: TL2 over ZDM",
                "varmail: TL2 over ZDM",
                "fileserver-fsync: TL2 over ZDM",
            ],
        ),
    },
    Target {
        place: "FSTL, Figure 14",
        result: "Cleaning policies of TL1 differ by up to two times",
        goal: Some("the same order, and one better policy"),
        judged: ByStandard("stl-cleaning", &["src2_2: *", "src1_2: *", "wdev_0: *", "H1-R6Lv1: *"]),
    },
    Target {
        place: "FSTL",
        result: "Controllers of 400 lines; 0.8 % of the space for the journal",
        goal: Some("200 lines, 0.8 %"),
        judged: NotYet(
            "controllers have no experiment; the space is a test of the format (`header_trailer_and_checks_take_one_block_up_to_1_mib`)",
        ),
    },
];
