//! A trace's text in parts, each packed on its own, and written whole or not at all: gzip takes parts that follow each other as one.

use std::fs::File;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use shingle_block_trace::TraceError;

/// Bytes of text that make a part: more pack hardly better.
const PART_BYTES: usize = 64 << 10;

/// A place to write parts to.
pub(super) trait Destination: Write + Send {
    /// Takes back all behind the first `length` bytes, if that can be.
    fn take_back(&mut self, length: u64);
}

impl Destination for File {
    fn take_back(&mut self, length: u64) {
        // A device has no length. Of a file that cannot be made shorter, all parts but the last are whole.
        let _ = self.set_len(length);
    }
}

/// Text that is packed in parts.
pub(super) struct Packed {
    out: Box<dyn Destination>,
    text: Vec<u8>,
    /// Bytes of whole parts.
    whole: u64,
}

impl Packed {
    pub(super) fn new(out: Box<dyn Destination>) -> Self {
        Self { out, text: Vec::new(), whole: 0 }
    }

    /// Ends the part if it is large.
    pub(super) fn end_large_part(&mut self) -> Result<(), TraceError> {
        if self.text.len() >= PART_BYTES { self.end_part() } else { Ok(()) }
    }

    /// Writes the part, unless it is empty. (NBD-REC-2)
    pub(super) fn end_part(&mut self) -> Result<(), TraceError> {
        if self.text.is_empty() {
            return Ok(());
        }
        let written = pack(&self.text).and_then(|part| {
            self.out.write_all(&part)?;
            Ok(part.len() as u64)
        });
        self.text.clear();
        match written {
            Ok(bytes) => {
                self.whole += bytes;
                Ok(())
            }
            Err(error) => {
                self.out.take_back(self.whole);
                Err(TraceError(error.to_string()))
            }
        }
    }
}

fn pack(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text)?;
    packed.finish()
}

impl Write for Packed {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
