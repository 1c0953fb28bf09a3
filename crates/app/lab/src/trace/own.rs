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
pub const ALL: [Own; 6] = [
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
        name: "ext4-pgbench",
        about: "PostgreSQL makes a database, and does 400 transactions of pgbench for four clients",
        bytes: include_bytes!("../../traces/ext4-pgbench.trace.gz"),
    },
];

/// The trace of that name.
pub fn named(name: &str) -> Option<Own> {
    ALL.into_iter().find(|own| own.name == name)
}
