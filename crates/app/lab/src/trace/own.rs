//! The project's own traces: ext4 under known loads, recorded on a volume (`make traces`; crates/app/lab/traces/README.md).

/// A trace that is built in.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Its name, in place of a file's.
    pub name: &'static str,
    /// Its load.
    pub about: &'static str,
    /// Its bytes, packed.
    pub(super) bytes: &'static [u8],
}

/// All of them.
pub const ALL: [Own; 10] = [
    Own {
        name: "ext4-unpack",
        about: "an archive of this project's sources is unpacked",
        bytes: include_bytes!("../../traces/ext4-unpack.trace.gz"),
    },
    Own {
        name: "ext4-mail",
        about: "400 mails are delivered to maildirs, each with fsync; some are read, moved and deleted",
        bytes: include_bytes!("../../traces/ext4-mail.trace.gz"),
    },
    Own {
        name: "ext4-random",
        about: "4 KiB are written at random in a file of 64 MiB, past the page cache, eight at once",
        bytes: include_bytes!("../../traces/ext4-random.trace.gz"),
    },
    Own {
        name: "ext4-build",
        about: "forty C files are compiled, put in archives and linked; some change, and again",
        bytes: include_bytes!("../../traces/ext4-build.trace.gz"),
    },
    Own {
        name: "ext4-sqlite",
        about: "SQLite changes rows in 250 durable transactions",
        bytes: include_bytes!("../../traces/ext4-sqlite.trace.gz"),
    },
    Own {
        name: "ext4-randomwrite",
        about: "Filebench's randomwrite: 8 KiB are written at random in a file of 64 MiB, through the page cache",
        bytes: include_bytes!("../../traces/ext4-randomwrite.trace.gz"),
    },
    Own {
        name: "ext4-singlestreamwrite",
        about: "Filebench's singlestreamwrite: a file of 64 MiB is overwritten three times in order, through the page cache",
        bytes: include_bytes!("../../traces/ext4-singlestreamwrite.trace.gz"),
    },
    Own {
        name: "ext4-fileserver",
        about: "Filebench's fileserver: sixteen threads make, append to, read and delete files of about 128 KiB",
        bytes: include_bytes!("../../traces/ext4-fileserver.trace.gz"),
    },
    Own {
        name: "ext4-varmail",
        about: "Filebench's varmail: sixteen threads receive, read, append to and delete mails of about 16 KiB, with fsync",
        bytes: include_bytes!("../../traces/ext4-varmail.trace.gz"),
    },
    Own {
        name: "ext4-pgbench",
        about: "PostgreSQL makes a database, and does 400 transactions of pgbench for four clients",
        bytes: include_bytes!("../../traces/ext4-pgbench.trace.gz"),
    },
];

/// Names of Filebench's loads. (FSTL, Table II)
pub const FILEBENCH: [&str; 4] = ["ext4-randomwrite", "ext4-singlestreamwrite", "ext4-fileserver", "ext4-varmail"];

/// The trace of that name.
pub fn named(name: &str) -> Option<Own> {
    ALL.into_iter().find(|own| own.name == name)
}
