//! Traces of MSR Cambridge (Narayanan et al., FAST 2008), as SNIA's IOTTA repository has them: for each I/O a line
//!
//! ```text
//! 128166372003061629,hm,1,Read,383496192,32768,113736
//! ```
//!
//! of arrival (100 ns since 1601), host name, disk number, `Read` or `Write`, offset and size in bytes, and response time (100 ns).

use std::io::BufRead;

use super::reader::{Raw, Reader, Volumes};
use crate::error::LabError;
use crate::trace::io::{Io, IoKind};
use crate::trace::lines::Lines;

/// Nanoseconds of a tick of Windows.
const TICK: u64 = 100;

/// A trace of MSR Cambridge.
pub(super) struct Msr {
    lines: Lines,
    volumes: Volumes,
}

impl Msr {
    pub(super) fn new(text: Box<dyn BufRead>) -> Self {
        Self { lines: Lines::new(text), volumes: Volumes::default() }
    }
}

fn parse(line: &str) -> Option<(String, Io)> {
    let mut fields = line.split(',').map(str::trim);
    let mut next = || fields.next();
    let ticks = |text: &str| text.parse::<u64>().ok()?.checked_mul(TICK);
    let (at, host, disk, kind) = (ticks(next()?)?, next()?, next()?.parse::<u32>().ok()?, next()?);
    let kind = match () {
        () if kind.eq_ignore_ascii_case("read") => IoKind::Read,
        () if kind.eq_ignore_ascii_case("write") => IoKind::Write,
        () => return None,
    };
    let (offset, length) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let took = ticks(next()?)?;
    Some((format!("{host}_{disk}"), Io { took: Some(took), ..Io::new(at, kind, offset, length) }))
}

impl Reader for Msr {
    fn next_raw(&mut self) -> Result<Option<Raw>, LabError> {
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        let Some((volume, io)) = parse(line) else {
            return Err(self.lines.wrong("it must be TIME,HOST,DISK,Read|Write,OFFSET,SIZE,RESPONSE_TIME").into());
        };
        Ok(Some(Raw { volume: self.volumes.number(&volume)?, io }))
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
    fn lines_become_ios_of_their_disks() {
        let text =
            "128166372003061629,web,1,Read,383496192,32768,113736\r\n128166372016382155,web,0,write,4096,512,99\n";
        let (ios, volumes) = read_all(Format::Msr, text.as_bytes()).unwrap();
        assert_eq!(volumes, ["web_1", "web_0"]);
        let io = &ios[0].io;
        assert_eq!((io.kind, io.offset, io.length), (IoKind::Read, 383_496_192, 32_768));
        assert_eq!((ios[1].volume, ios[1].io.kind, ios[1].io.took), (1, IoKind::Write, Some(9_900)));
        assert_eq!(ios[1].io.at - io.at, 1_332_052_600);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let good = "1,web,1,Read,0,512,9\n";
        for wrong in [
            "",
            "1,web,1,Read,0,512",
            "1,web,x,Read,0,512,9",
            "1,web,1,Erase,0,512,9",
            "99999999999999999999,w,1,Read,0,1,9",
        ] {
            let error = read_all(Format::Msr, format!("{good}{wrong}\n").as_bytes()).unwrap_err().0;
            assert!(error.starts_with("line 2: it must be TIME,HOST"), "{error}");
        }
    }
}
