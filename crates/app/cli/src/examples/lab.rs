//! Examples of experiments and measurements.

use super::example::Example;

pub(super) const EXAMPLES: &[Example] = &[
    ("lab list", &[("shingle lab list", "")]),
    (
        "lab run",
        &[
            ("shingle lab run micro-write --scale quick", "seconds"),
            ("shingle lab run calibrate --drive mine.toml", "a drive of your own"),
            (
                "shingle lab run block-replay --trace web.csv --format msr --pace depth:31",
                "a trace on drives of every kind",
            ),
            ("shingle lab run rocksdb-hmsmr --trace mine.calls.gz", "RocksDB's own calls"),
        ],
    ),
    (
        "skylight",
        &[
            ("shingle skylight model:st5000as0011", "a modelled drive, in virtual time: seconds"),
            ("shingle skylight /dev/sdx", "only reads: turn, seeks and rates"),
            (
                "shingle skylight /dev/sdx --destroy /dev/sdx --state sdx.state",
                "all of it: what the drive holds is lost",
            ),
            ("shingle skylight model:st5000as0011 --profile mine.toml --figures figures", "its profile and figures"),
            ("shingle skylight model:mine.toml --json", "a profile as a drive, for a program"),
        ],
    ),
    (
        "lab trace convert",
        &[
            ("shingle lab trace convert web.csv web.trace.gz --format msr --volume web_0", "one disk of a trace"),
            ("shingle lab trace convert sda.txt sda.trace --format blkparse --infer-dependencies", "for a closed loop"),
        ],
    ),
    ("lab trace list", &[("shingle lab trace list", "names for --trace")]),
    ("lab trace stat", &[("shingle lab trace stat disk.vscsi --format vscsi --json", "for a program")]),
    ("lab report", &[("shingle lab report --scale quick --out lab", "")]),
    ("lab sweep", &[("shingle lab sweep micro-read micro-write", "a minute")]),
    (
        "bench",
        &[
            ("shingle bench array-rebuild --json", "one JSON object as the last line"),
            ("shingle bench map --extents 1000000", "a smaller map than that of 10 million extents"),
            ("shingle bench device --device /dev/sdb --json", "in zones that are empty"),
            ("shingle bench volume --json", "needs fio and nbdkit"),
            ("shingle bench rocksdb --dir /var/tmp --json", "needs rocksdb-tools, and the library of bindings/rocksdb"),
        ],
    ),
];
