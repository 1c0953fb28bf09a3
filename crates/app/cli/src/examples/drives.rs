//! Examples of servers, drives and chunk stores.

use super::example::Example;

pub(super) const EXAMPLES: &[Example] = &[
    (
        "serve",
        &[
            ("shingle serve", "two emulated drives of 64 GiB under ./shingle-data"),
            ("shingle serve --config /etc/shingle/config.toml", "the drives that the configuration names"),
            ("shingle serve --config /etc/shingle/config.toml --check", "whether it could start"),
            ("shingle serve --data /srv/objects --listen 0.0.0.0:9000", ""),
        ],
    ),
    (
        "status",
        &[
            ("shingle status --data /srv/objects", "in words"),
            ("shingle status --json", "for a program; as the service's user, for the service"),
        ],
    ),
    ("drive ls", &[("shingle drive ls", ""), ("shingle drive ls --all --json", "ordinary drives too, for a program")]),
    (
        "drive identify",
        &[
            ("shingle drive identify /dev/sdb", "its serial number, its world-wide name, its store"),
            ("shingle drive identify serial:ZL2XXXXX", "prints its node"),
        ],
    ),
    (
        "drive create",
        &[
            ("shingle drive create disk.shingle --size 20TB", "a sparse file: takes the space of what is written"),
            ("shingle drive create zns.shingle --size 64GiB --kind zns --max-open 14", ""),
            ("shingle drive create /dev/sdc", "all of an ordinary drive"),
        ],
    ),
    (
        "drive attach",
        &[
            ("shingle drive attach disk.shingle", "prints the node, such as /dev/ublkb0"),
            ("shingle drive attach disk.shingle --read-only", "to look at it"),
        ],
    ),
    ("drive detach", &[("shingle drive detach /dev/ublkb0", "unmount it first")]),
    (
        "drive doctor",
        &[
            ("shingle drive doctor", "the machine and its zoned drives"),
            ("shingle drive doctor --verbose /dev/sdb", ""),
        ],
    ),
    (
        "drive report",
        &[
            ("shingle drive report /dev/sdb", ""),
            ("shingle drive report serial:ZL2XXXXX --first 500 --count 20", ""),
            ("shingle drive report disk.shingle --csv", "for a spreadsheet, in bytes"),
        ],
    ),
    (
        "drive map",
        &[
            ("shingle drive map /dev/sdb", ""),
            ("shingle drive map disk.shingle --svg disk.svg", "a picture"),
            ("shingle drive map disk.shingle --width 120 --zones-per-cell 10", ""),
        ],
    ),
    (
        "drive partition add",
        &[
            ("shingle drive partition add disk.shingle store=40GiB vm1=10GiB vm2=max", "max: all that is left"),
            (
                "shingle drive partition add /dev/nvme0n2 db=200GiB,open=6,active=6",
                "with its part of the drive's limits",
            ),
        ],
    ),
    ("drive partition ls", &[("shingle drive partition ls disk.shingle", "")]),
    ("drive partition rm", &[("shingle drive partition rm disk.shingle#vm1", "")]),
    (
        "drive open",
        &[
            ("shingle drive open disk.shingle 7 10-12", ""),
            ("shingle drive open /dev/sdb --all", "those that are closed"),
        ],
    ),
    (
        "drive close",
        &[("shingle drive close disk.shingle 7-12", ""), ("shingle drive close /dev/sdb --all", "those that are open")],
    ),
    (
        "drive finish",
        &[
            ("shingle drive finish disk.shingle 7 9", "says what room is given up, and asks"),
            ("shingle drive finish /dev/sdb --all --yes", "those that are open or closed, without asking"),
        ],
    ),
    (
        "drive reset",
        &[
            ("shingle drive reset disk.shingle 5 7-12", "says what will be lost, and asks"),
            ("shingle drive reset /dev/sdb --all --yes", "every zone but conventional ones, without asking"),
        ],
    ),
    (
        "chunk format",
        &[
            ("shingle chunk format disk.shingle", ""),
            ("shingle chunk format --force serial:ZL2XXXXX", "what it holds is lost"),
        ],
    ),
    (
        "chunk create",
        &[("shingle chunk create disk.shingle 2a", ""), ("shingle chunk create disk.shingle 2b --stream meta", "")],
    ),
    (
        "chunk append",
        &[
            ("shingle chunk append disk.shingle 2a photo.jpg", ""),
            ("shingle chunk append disk.shingle 2a --offset 0 photo.jpg", "only if the chunk is empty"),
        ],
    ),
    (
        "chunk get",
        &[
            ("shingle chunk get disk.shingle 2a photo.jpg", ""),
            ("shingle chunk get disk.shingle 2a --offset 4096 --length 512", "to standard output"),
        ],
    ),
    ("chunk seal", &[("shingle chunk seal disk.shingle 2a", "prints its size")]),
    ("chunk rm", &[("shingle chunk rm disk.shingle 2a", "asks first; in scripts add --yes")]),
    ("chunk ls", &[("shingle chunk ls disk.shingle", "identity, stream, state, size in bytes")]),
    (
        "chunk stat",
        &[("shingle chunk stat disk.shingle", "the store"), ("shingle chunk stat disk.shingle 2a --json", "one chunk")],
    ),
    ("chunk gc", &[("shingle chunk gc disk.shingle --zones 10", "")]),
    ("chunk check", &[("shingle chunk check disk.shingle", ""), ("shingle chunk check /dev/sdb --json", "")]),
    (
        "chunk accept-loss",
        &[("shingle chunk accept-loss disk.shingle", ""), ("shingle chunk accept-loss /dev/sdb --yes", "in a script")],
    ),
    ("chunk dump", &[("shingle chunk dump disk.shingle", "")]),
];
