//! SMRstore's Table 3: the streams of an object service on sixty drives, and one drive's share of it.

use shingle_chunk_store::Stream;

/// Drives that share the load.
pub(crate) const DRIVES: f64 = 60.0;

/// A row of the table: for all jobs of a kind of stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) stream: Stream,
    jobs: f64,
    /// Requests outstanding, of a job.
    depth: f64,
    /// Bytes of an append, from and to.
    pub(crate) io_bytes: (u32, u32),
    /// Open files of a job.
    files: f64,
    pub(crate) chunk_mib: u64,
    /// MB/s of a job: 8 x 400 + 8 x 20 + 3 x 200 + 80 are the 4 GB/s that the paper names.
    rate: f64,
    /// Its chunks are written to cache SSDs, and come to the drive once they are sealed.
    pub(crate) cached: bool,
}

/// The table.
pub(crate) const ROWS: [Row; 4] = {
    let direct = Row {
        name: "OSS GC Wr 1",
        stream: Stream::Gc,
        jobs: 8.0,
        depth: 32.0,
        io_bytes: (1 << 20, 1 << 20),
        files: 25.0,
        chunk_mib: 256,
        rate: 400.0,
        cached: false,
    };
    [
        direct,
        Row { name: "OSS GC Wr 2", chunk_mib: 64, rate: 20.0, ..direct },
        Row { name: "OSS Data Wr", stream: Stream::Data, jobs: 3.0, files: 300.0, rate: 200.0, cached: true, ..direct },
        Row {
            name: "OSS Meta Wr",
            stream: Stream::Meta,
            jobs: 1.0,
            depth: 8.0,
            io_bytes: (4 << 10, 128 << 10),
            files: 500.0,
            chunk_mib: 4,
            rate: 80.0,
            cached: true,
        },
    ]
};

impl Row {
    /// Files of one drive.
    pub(crate) fn files(&self) -> u32 {
        (self.jobs * self.files / DRIVES).round() as u32
    }

    /// Requests outstanding on one drive.
    pub(crate) fn depth(&self) -> u32 {
        (self.jobs * self.depth / DRIVES).round().max(1.0) as u32
    }

    /// Bytes a second of one drive.
    pub(crate) fn rate(&self) -> f64 {
        self.jobs * self.rate * 1e6 / DRIVES
    }
}
