//! Examples of every command, for `--help` and man pages.
//!
//! # Invariants
//! - CLI-EX-1: every subcommand has an example, and every example is a command that is understood.

use clap::Command;

/// Subcommands, and ways to call them: the command, then its effect if that is not plain.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
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
    ("chunk rm", &[("shingle chunk rm disk.shingle 2a", "")]),
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
    (
        "array format",
        &[
            (
                "shingle array format --array shelf.toml --code 5+1 /dev/sdb /dev/sdc /dev/sdd /dev/sde /dev/sdf /dev/sdg",
                "writes shelf.toml",
            ),
            ("shingle array format --array shelf.toml --code 10+2", "the drives that shelf.toml names"),
            (
                "shingle array format --array shelf.toml --code 2+1 --buffer /ssd1/shelf.buffer /ssd2/shelf.buffer a.shingle b.shingle c.shingle",
                "small objects are safe on two SSDs at once",
            ),
        ],
    ),
    (
        "array put",
        &[
            ("shingle array put --array shelf.toml films/one.mkv one.mkv", ""),
            ("shingle array put backup.tar -", "from standard input, into the array that SHINGLE_ARRAY names"),
        ],
    ),
    (
        "array get",
        &[
            ("shingle array get --array shelf.toml films/one.mkv -o one.mkv", ""),
            ("shingle array get films/one.mkv --range 0-1023", "the first 1024 bytes, to standard output"),
            ("shingle array get films/one.mkv --range 0-1023 --force", "also if that is a terminal"),
        ],
    ),
    (
        "array ls",
        &[
            ("shingle array ls --array shelf.toml", ""),
            ("shingle array ls films/ --json", "names that begin so, for a program"),
        ],
    ),
    (
        "array rm",
        &[
            ("shingle array rm --array shelf.toml films/one.mkv films/two.mkv", ""),
            ("shingle array rm films/one.mkv films/two.mkv --json", "lists those that existed, for a program"),
        ],
    ),
    (
        "array stat",
        &[
            ("shingle array stat --array shelf.toml", "drives, room, objects"),
            ("shingle array stat films/one.mkv --json", "one object"),
        ],
    ),
    ("array gc", &[("shingle array gc --array shelf.toml --sets 10", "")]),
    (
        "array rebuild",
        &[
            ("shingle array rebuild --array shelf.toml", ""),
            ("shingle array rebuild --array shelf.toml --rate 40MiB", "beside other work"),
            ("shingle array rebuild --array shelf.toml --yes", "gives a missing drive up, and rebuilds its data, too"),
        ],
    ),
    (
        "array readmit",
        &[
            ("shingle array readmit --array shelf.toml", "all that are there and out of use"),
            ("shingle array readmit --array shelf.toml serial:ZL2AAAAA --rate 40MiB", ""),
        ],
    ),
    (
        "array add",
        &[
            ("shingle array add --array shelf.toml serial:ZL2XXXXX", "the array's file names it from then on"),
            ("shingle array add --array shelf.toml --degraded serial:ZL2XXXXX", "in the place of a drive that is lost"),
            ("shingle array add --array shelf.toml serial:ZL2AAAAA", "takes back one that was given up"),
        ],
    ),
    ("array remove", &[("shingle array remove --array shelf.toml serial:ZL2AAAAA", "or by its number: 3")]),
    ("array scrub", &[("shingle array scrub --array shelf.toml --rate 200MiB", "")]),
    (
        "array check",
        &[
            ("shingle array check --array shelf.toml", "reads every byte"),
            ("shingle array check --array shelf.toml --quick --json", ""),
        ],
    ),
    (
        "array salvage",
        &[
            ("shingle array salvage --array shelf.toml", "shows what would come back; changes nothing"),
            ("shingle array salvage --array shelf.toml --abandon-buffer --yes", "both files of the buffer are lost"),
        ],
    ),
    ("array snapshot", &[("shingle array snapshot --array shelf.toml", "")]),
    (
        "array dump",
        &[
            ("shingle array dump --array shelf.toml", ""),
            ("shingle array dump --drive a.shingle --drive b.shingle --json", ""),
        ],
    ),
    ("object rebuild-index", &[("shingle object rebuild-index --config /etc/shingle/config.toml", "")]),
    (
        "object accept-loss",
        &[
            ("shingle object accept-loss --config /etc/shingle/config.toml", "shows what cannot be read, and asks"),
            ("shingle object accept-loss --data shingle-data --yes --json", "in a script"),
        ],
    ),
    (
        "object check",
        &[
            ("shingle object check --data shingle-data", ""),
            ("shingle object check --quick", "without reading the objects"),
        ],
    ),
    (
        "object ls",
        &[("shingle object ls", "all of ./shingle-data"), ("shingle object ls --data /srv/objects photos/", "")],
    ),
    (
        "object get",
        &[
            ("shingle object get photos/2024/one.jpg -o one.jpg --data shingle-data", ""),
            ("shingle object get photos/notes.txt --range 0-1023", "the first 1024 bytes, to standard output"),
            (
                "shingle object get photos/one.jpg --config /etc/shingle/config.toml --force",
                "also if that is a terminal",
            ),
        ],
    ),
    (
        "object put",
        &[
            ("shingle object put photos/2024/one.jpg one.jpg --content-type image/jpeg --data shingle-data", ""),
            ("shingle object put backup/home.tar - --config /etc/shingle/config.toml", "from standard input"),
        ],
    ),
    (
        "object rm",
        &[
            ("shingle object rm photos/2024/one.jpg photos/2024/two.jpg --data shingle-data", ""),
            ("shingle object rm photos/one.jpg --json", "lists those that existed, for a program"),
        ],
    ),
    (
        "object stat",
        &[
            ("shingle object stat --data shingle-data --json", "how many there are, for a program"),
            ("shingle object stat photos/2024/one.jpg", "one object"),
        ],
    ),
    ("object gc", &[("shingle object gc --data shingle-data", "")]),
    (
        "files format",
        &[
            ("shingle files format disk.shingle", ""),
            ("shingle files format /dev/sdb --force", "loses what it holds, and asks first"),
        ],
    ),
    ("files ls", &[("shingle files ls disk.shingle db", ""), ("shingle files ls disk.shingle --recursive --json", "")]),
    (
        "files map",
        &[("shingle files map disk.shingle", ""), ("shingle files map disk.shingle --json", "for a program")],
    ),
    ("files df", &[("shingle files df disk.shingle", ""), ("shingle files df /dev/sdb --json", "")]),
    ("files check", &[("shingle files check disk.shingle", ""), ("shingle files check /dev/sdb --json", "")]),
    ("files dump", &[("shingle files dump disk.shingle", "")]),
    ("files cat", &[("shingle files cat disk.shingle db/CURRENT", "")]),
    (
        "files rm",
        &[
            ("shingle files rm disk.shingle db/LOG.old", "says what will be lost, and asks"),
            ("shingle files rm disk.shingle db --recursive", "a whole database"),
        ],
    ),
    ("files backup", &[("shingle files backup disk.shingle /mnt/copy", "")]),
    ("files restore", &[("shingle files restore disk.shingle /mnt/copy", "")]),
    (
        "volume create",
        &[
            ("shingle volume create disk.shingle", ""),
            ("shingle volume create serial:ZL2XXXXX --size 10TB --sector 512", "for programs that write 512 bytes"),
        ],
    ),
    (
        "volume ls",
        &[("shingle volume ls", "on all drives of this machine"), ("shingle volume ls disk.shingle --json", "")],
    ),
    ("volume stat", &[("shingle volume stat disk.shingle", ""), ("shingle volume stat /dev/sdb --json", "")]),
    ("volume check", &[("shingle volume check disk.shingle", ""), ("shingle volume check /dev/sdb --json", "")]),
    ("volume dump", &[("shingle volume dump disk.shingle", "")]),
    (
        "volume resize",
        &[
            ("shingle volume resize disk.shingle 20GiB", "then resize2fs, once it is attached again"),
            ("shingle volume resize disk.shingle max", "all that the drive has room for"),
        ],
    ),
    (
        "volume snapshot take",
        &[("shingle volume snapshot take disk.shingle before-upgrade", "also while it is exported")],
    ),
    (
        "volume snapshot ls",
        &[("shingle volume snapshot ls disk.shingle", ""), ("shingle volume snapshot ls /dev/sdb --json", "")],
    ),
    ("volume snapshot rm", &[("shingle volume snapshot rm disk.shingle before-upgrade", "asks first")]),
    ("volume rm", &[("shingle volume rm disk.shingle", "says what will be lost, and asks")]),
    (
        "volume export",
        &[
            ("shingle volume export disk.shingle --socket /run/disk.sock", "for clients on this machine"),
            ("shingle volume export disk.shingle --listen 127.0.0.1:10809", "nbd://127.0.0.1:10809/disk"),
            ("shingle volume export /dev/sdb /dev/sdc --listen 127.0.0.1:10809", "two exports: sdb and sdc"),
            ("shingle volume export disk.shingle --record disk.trace.gz", "with a trace of what clients ask for"),
            (
                "shingle volume export /dev/sdb --listen 0.0.0.0:10809 --tls-cert cert.pem --tls-key key.pem --tls-clients ca.pem",
                "for other machines",
            ),
        ],
    ),
    (
        "volume attach",
        &[
            ("shingle volume attach disk.shingle", "prints the node, such as /dev/ublkb0"),
            ("shingle volume attach disk.shingle --by nbd", "by the kernel's NBD client, such as /dev/nbd0"),
            ("shingle volume attach /dev/sdb --device /dev/nbd3", ""),
        ],
    ),
    ("volume detach", &[("shingle volume detach /dev/ublkb0", "unmount it first")]),
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

/// The examples of a subcommand, a line each, such as of `drive map`; empty where there are none.
pub(crate) fn of(path: &str) -> String {
    let known = EXAMPLES.iter().find(|(of, _)| *of == path).map_or(&[][..], |(_, lines)| lines);
    let width = known.iter().map(|(call, _)| call.len()).max().unwrap_or(0);
    let line = |(call, what): &(&str, &str)| format!("{}\n", format!("{call:<width$}  {what}").trim_end());
    known.iter().map(line).collect()
}

/// The command, with examples behind the help of its subcommands.
pub(crate) fn add(command: Command) -> Command {
    below(command, "")
}

fn below(command: Command, path: &str) -> Command {
    let lines = of(path);
    let command = if lines.is_empty() {
        command
    } else {
        let before = command.get_after_long_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
        let lines: String = lines.lines().map(|line| format!("\n  {line}")).collect();
        command.after_long_help(format!("{before}Examples:{lines}"))
    };
    command.mut_subcommands(|sub| {
        let path = format!("{path} {}", sub.get_name());
        below(sub, path.trim_start())
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn leaves(command: &Command, path: &str, all: &mut Vec<String>) {
        let shown: Vec<_> = command.get_subcommands().filter(|sub| !sub.is_hide_set()).collect();
        if shown.is_empty() {
            all.push(path.to_owned());
        }
        for sub in shown {
            leaves(sub, format!("{path} {}", sub.get_name()).trim_start(), all);
        }
    }

    /// CLI-EX-1.
    #[test]
    fn every_subcommand_has_an_example() {
        let mut all = Vec::new();
        leaves(&crate::Cli::command(), "", &mut all);
        let mut known: Vec<_> = EXAMPLES.iter().map(|(path, _)| (*path).to_owned()).collect();
        all.sort();
        known.sort();
        assert_eq!(all, known);
    }

    /// CLI-EX-1.
    #[test]
    fn every_example_is_understood() {
        for (path, lines) in EXAMPLES {
            for (call, _) in *lines {
                assert!(call.starts_with(&format!("shingle {path}")), "{call}");
                let words = call.split(' ');
                crate::Cli::command().try_get_matches_from(words).unwrap_or_else(|error| panic!("{call}: {error}"));
            }
        }
        let help = add(crate::Cli::command());
        let mut help = help.find_subcommand("drive").and_then(|drive| drive.find_subcommand("map")).cloned().unwrap();
        let help = help.render_long_help().to_string();
        assert!(help.contains("What it shows") && help.contains("--svg disk.svg"), "{help}");
    }
}
