//! Traces of Tencent's cloud block storage (Zhang et al., ATC 2020), as SNIA's IOTTA repository has them: for each I/O a line
//!
//! ```text
//! 1538323200,4247200,128,1,1058
//! ```
//!
//! of arrival in seconds since 1970, address and size in sectors of 512 bytes, 0 for a read or 1 for a write, and volume.

use std::io::BufRead;

use super::reader::{Raw, Reader, Volumes};
use crate::error::LabError;
use crate::trace::io::{Io, IoKind, SECTOR};
use crate::trace::lines::{Lines, seconds};

/// A trace of Tencent's.
pub(super) struct Tencent {
    lines: Lines,
    volumes: Volumes,
}

impl Tencent {
    pub(super) fn new(text: Box<dyn BufRead>) -> Self {
        Self { lines: Lines::new(text), volumes: Volumes::default() }
    }
}

fn parse(line: &str) -> Option<(u64, Io)> {
    let mut fields = line.split(',').map(str::trim);
    let mut next = || fields.next();
    let at = seconds(next()?)?;
    let sectors = |text: &str| text.parse::<u64>().ok()?.checked_mul(SECTOR);
    let (offset, length) = (sectors(next()?)?, sectors(next()?)?);
    let kind = match next()? {
        "0" => IoKind::Read,
        "1" => IoKind::Write,
        _ => return None,
    };
    Some((next()?.parse().ok()?, Io::new(at, kind, offset, length)))
}

impl Reader for Tencent {
    fn next_raw(&mut self) -> Result<Option<Raw>, LabError> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        let Some((volume, io)) = parse(line) else {
            return Err(self.lines.wrong("it must be SECONDS,SECTOR,SECTORS,0|1,VOLUME").into());
        };
        Ok(Some(Raw { volume: self.volumes.number(&volume.to_string())?, io }))
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::foreign::format::{Format, read_all};
    use crate::trace::io::IoKind;

    #[test]
    fn lines_become_ios_of_their_volumes() {
        let (ios, volumes) = read_all(Format::Tencent, b"1538323200,8,16,1,1058\n1538323199,0,1,0,1063\n").unwrap();
        assert_eq!(volumes, ["1058", "1063"]);
        let (first, second) = (&ios[0].io, &ios[1].io);
        assert_eq!((first.kind, first.offset, first.length), (IoKind::Write, 4096, 8192));
        assert_eq!((second.kind, first.at - second.at), (IoKind::Read, 1_000_000_000));
        let error = read_all(Format::Tencent, b"1538323200,8,16,2,1058\n").unwrap_err().0;
        assert!(error.starts_with("line 1: it must be SECONDS"), "{error}");
    }
}
