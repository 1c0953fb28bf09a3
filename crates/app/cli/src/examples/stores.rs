//! Examples of arrays, objects, files, volumes and blue stores.

use super::example::Example;

pub(super) const EXAMPLES: &[Example] = &[
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
    (
        "blue format",
        &[
            ("shingle blue format disk.shingle", ""),
            (
                "shingle blue format disk.shingle --metadata rocksdb",
                "for many objects: names and all other metadata in RocksDB",
            ),
            ("shingle blue format /dev/sdb --force", "loses what it holds, and asks first"),
        ],
    ),
    (
        "blue ls",
        &[
            ("shingle blue ls disk.shingle", "the buckets"),
            ("shingle blue ls disk.shingle photos/2024/ --json", "objects of a bucket whose keys begin so"),
        ],
    ),
    ("blue stat", &[("shingle blue stat disk.shingle photos/one.jpg", "")]),
    ("blue df", &[("shingle blue df disk.shingle", ""), ("shingle blue df /dev/sdb --json", "")]),
    (
        "blue check",
        &[
            ("shingle blue check disk.shingle", "metadata against each other, and against the drive"),
            ("shingle blue check /dev/sdb --deep --json", "reads all objects"),
        ],
    ),
    (
        "blue dump",
        &[("shingle blue dump disk.shingle", "zones"), ("shingle blue dump disk.shingle --metadata", "keys, too")],
    ),
    ("blue put", &[("shingle blue put disk.shingle photos/one.jpg one.jpg --create-bucket", "")]),
    (
        "blue get",
        &[
            ("shingle blue get disk.shingle photos/one.jpg -o one.jpg", ""),
            ("shingle blue get disk.shingle logs/today --range -1000", "the last 1000 bytes"),
        ],
    ),
    (
        "blue rm",
        &[
            ("shingle blue rm disk.shingle photos/one.jpg photos/two.jpg --yes", ""),
            ("shingle blue rm disk.shingle photos/", "a bucket that holds nothing"),
        ],
    ),
];
