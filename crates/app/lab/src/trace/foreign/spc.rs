//! Traces in the Storage Performance Council's format (SPC Trace File Format Specification, 2001), as UMass has them: for each I/O a
//! line
//!
//! ```text
//! 0,20941264,8192,W,0.551706
//! ```
//!
//! of application-specific unit (a volume), address in blocks of 512 bytes, size in bytes, `R` or `W`, and arrival in seconds. Further
//! fields may follow, and mean nothing here.

use std::io::BufRead;

use super::reader::{Raw, Reader, Volumes};
use crate::error::LabError;
use crate::trace::io::{Io, IoKind, SECTOR};
use crate::trace::lines::{Lines, seconds};

/// A trace of the Storage Performance Council.
pub(super) struct Spc {
    lines: Lines,
    volumes: Volumes,
}

impl Spc {
    pub(super) fn new(text: Box<dyn BufRead>) -> Self {
        Self { lines: Lines::new(text), volumes: Volumes::default() }
    }
}

fn parse(line: &str) -> Option<(u32, Io)> {
    let mut fields = line.split(',').map(str::trim);
    let mut next = || fields.next();
    let unit = next()?.parse().ok()?;
    let offset = next()?.parse::<u64>().ok()?.checked_mul(SECTOR)?;
    let length = next()?.parse().ok()?;
    let kind = match next()? {
        "R" | "r" => IoKind::Read,
        "W" | "w" => IoKind::Write,
        _ => return None,
    };
    Some((unit, Io::new(seconds(next()?)?, kind, offset, length)))
}

impl Reader for Spc {
    fn next_raw(&mut self) -> Result<Option<Raw>, LabError> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        let Some((unit, io)) = parse(line) else {
            return Err(self.lines.wrong("it must be UNIT,BLOCK,BYTES,R|W,SECONDS").into());
        };
        Ok(Some(Raw { volume: self.volumes.number(&unit.to_string())?, io }))
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
    fn lines_become_ios_of_their_units() {
        let text = "0,303567,3584,w,0.000000\n1,55590,3072,R,1.026214,extra\n0, 7, 512, W, 2\n";
        let (ios, volumes) = read_all(Format::Spc, text.as_bytes()).unwrap();
        assert_eq!(volumes, ["0", "1"]);
        let found: Vec<_> =
            ios.iter().map(|raw| (raw.volume, raw.io.at, raw.io.kind, raw.io.offset, raw.io.length)).collect();
        let expected = [
            (0, 0, IoKind::Write, 303_567 * 512, 3584),
            (1, 1_026_214_000, IoKind::Read, 55_590 * 512, 3072),
            (0, 2_000_000_000, IoKind::Write, 3584, 512),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for wrong in ["0,1,512,W", "0,1,512,X,0.0", "-1,1,512,W,0.0", "0,36028797018963968,1,W,0.0", "0,1,512,W,now"] {
            let error = read_all(Format::Spc, format!("0,1,512,W,0.0\n{wrong}\n").as_bytes()).unwrap_err().0;
            assert!(error.starts_with("line 2: it must be UNIT,BLOCK"), "{error}");
        }
    }
}
