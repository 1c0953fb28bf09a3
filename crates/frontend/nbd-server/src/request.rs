//! Requests of the transmission: reading one, and judging it before the store sees it. Pure.

use std::sync::Arc;

use shingle_store_api::Durability;

use crate::face::Face;
use crate::failure::{Errno, Failure};
use crate::fields::Fields;
use crate::wire::{REQUEST_BYTES_MAX, REQUEST_MAGIC, command, command_flag as flag};

/// Bytes of a request before its data.
pub(crate) const HEAD_BYTES: usize = 28;

/// A request as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) kind: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

/// A run of bytes of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Span {
    /// The span between two offsets.
    pub(crate) fn between(offset: u64, end: u64) -> Self {
        Self { offset, length: end.saturating_sub(offset) }
    }

    /// The first byte behind it. One that was judged ends inside its export.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// A request that may be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// `holes`: those may be told in place of zeros.
    Read {
        span: Span,
        holes: bool,
    },
    Write {
        span: Span,
        durability: Durability,
    },
    Flush,
    Trim {
        span: Span,
        durability: Durability,
    },
    /// `filled`: the zeros are to take their room.
    Zero {
        span: Span,
        durability: Durability,
        filled: bool,
    },
    /// `one`: a single run is enough.
    Status {
        span: Span,
        one: bool,
    },
}

/// Judgement of the requests of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) face: Arc<Face>,
    pub(crate) structured: bool,
    pub(crate) allocation: bool,
    pub(crate) aligned: bool,
}

impl Request {
    /// `None` if these bytes begin no request: whatever follows is not to be understood either.
    pub(crate) fn parse(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let mut fields = Fields(bytes);
        (fields.u32()? == REQUEST_MAGIC).then_some(())?;
        let (flags, kind, cookie) = (fields.u16()?, fields.u16()?, fields.u64()?);
        Some(Self { flags, kind, cookie, offset: fields.u64()?, length: fields.u32()? })
    }

    /// The client takes its leave: there is no reply.
    pub(crate) fn disconnects(&self) -> bool {
        self.kind == command::DISC
    }

    /// Bytes of data behind it.
    pub(crate) fn data_bytes(&self) -> u32 {
        if self.kind == command::WRITE { self.length } else { 0 }
    }

    /// Bytes of data that it, or its reply, holds in memory.
    pub(crate) fn held_bytes(&self) -> u32 {
        if matches!(self.kind, command::READ | command::WRITE) { self.length } else { 0 }
    }
}

impl Rules {
    /// The order that a request is, or why it is none.
    pub(crate) fn judge(&self, request: &Request) -> Result<Order, Failure> {
        let durability = if request.flags & flag::FUA == 0 { Durability::Cached } else { Durability::Durable };
        let has = |bit: u16| request.flags & bit != 0;
        let span = Span { offset: request.offset, length: u64::from(request.length) };
        match request.kind {
            command::READ => {
                self.flags(request, if self.structured { flag::DF } else { 0 })?;
                self.inside(&span, Errno::Invalid)?;
                if request.length > REQUEST_BYTES_MAX {
                    return Err(Failure::invalid(format!("a read has at most {REQUEST_BYTES_MAX} bytes")));
                }
                Ok(Order::Read { span, holes: self.structured && !has(flag::DF) })
            }
            command::WRITE => {
                self.writable()?;
                self.flags(request, 0)?;
                self.inside(&span, Errno::NoSpace)?;
                Ok(Order::Write { span, durability })
            }
            command::FLUSH => {
                self.flags(request, 0)?;
                let whole = (request.offset, request.length) == (0, 0);
                whole.then_some(Order::Flush).ok_or_else(|| Failure::invalid("a flush has no offset and no length"))
            }
            command::TRIM => {
                self.writable()?;
                self.flags(request, 0)?;
                self.inside(&span, Errno::Invalid)?;
                Ok(Order::Trim { span, durability })
            }
            command::WRITE_ZEROES => {
                self.writable()?;
                self.flags(request, flag::NO_HOLE | flag::FAST_ZERO)?;
                self.inside(&span, Errno::NoSpace)?;
                let (filled, whole) = (has(flag::NO_HOLE), self.of_sectors(&span));
                if has(flag::FAST_ZERO) && (filled || !whole || !self.face.about.fast_zeros) {
                    return Err(Failure::new(Errno::NotSupported, "such zeros are written as data is"));
                }
                Ok(Order::Zero { span, durability, filled })
            }
            command::BLOCK_STATUS => {
                self.flags(request, flag::REQ_ONE)?;
                if !self.allocation {
                    return Err(Failure::invalid("no metadata context was chosen for this export"));
                }
                self.inside(&span, Errno::Invalid)?;
                Ok(Order::Status { span, one: has(flag::REQ_ONE) })
            }
            kind => Err(Failure::invalid(format!("there is no command {kind} here"))),
        }
    }

    /// NBD-RO-1.
    fn writable(&self) -> Result<(), Failure> {
        let refused = || Failure::new(Errno::NotPermitted, "the export is read-only");
        (!self.face.about.read_only).then_some(()).ok_or_else(refused)
    }

    /// FUA may come with any command.
    fn flags(&self, request: &Request, known: u16) -> Result<(), Failure> {
        let unknown = request.flags & !(known | flag::FUA);
        let refused = || Failure::invalid(format!("command {} has no flags {unknown:#x} here", request.kind));
        (unknown == 0).then_some(()).ok_or_else(refused)
    }

    fn inside(&self, span: &Span, beyond: Errno) -> Result<(), Failure> {
        let Span { offset, length } = span;
        let size = self.face.size_bytes;
        if offset.checked_add(*length).is_none_or(|end| end > size) {
            return Err(Failure::new(beyond, format!("{length} bytes at {offset} end beyond {size}")));
        }
        if *length == 0 {
            return Err(Failure::invalid("a request of no bytes"));
        }
        if self.aligned && !self.of_sectors(span) {
            let sector = self.face.sector_bytes;
            return Err(Failure::invalid(format!(
                "{length} bytes at {offset} are not whole sectors of {sector} bytes"
            )));
        }
        Ok(())
    }

    fn of_sectors(&self, span: &Span) -> bool {
        let sector = u64::from(self.face.sector_bytes);
        span.offset.is_multiple_of(sector) && span.length.is_multiple_of(sector)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::face::About;

    fn rules() -> Rules {
        let face = Face { about: About::new("a"), size_bytes: 1 << 30, sector_bytes: 4096 };
        Rules { face: Arc::new(face), structured: true, allocation: true, aligned: true }
    }

    fn request(kind: u16, flags: u16, offset: u64, length: u32) -> Request {
        Request { flags, kind, cookie: 7, offset, length }
    }

    fn errno(rules: &Rules, request: Request) -> u32 {
        rules.judge(&request).map_or_else(|failure| failure.errno as u32, |_| 0)
    }

    #[test]
    fn a_request_begins_with_its_magic() {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[5] = 4;
        bytes[7] = 1;
        bytes[15] = 9;
        bytes[23] = 8;
        bytes[27] = 5;
        let parsed = Request { flags: 4, kind: 1, cookie: 9, offset: 8, length: 5 };
        assert_eq!(Request::parse(&bytes), Some(parsed));
        assert_eq!((parsed.data_bytes(), request(0, 0, 0, 9).data_bytes()), (5, 0));
        bytes[0] = 0;
        assert_eq!(Request::parse(&bytes), None);
    }

    #[test]
    fn requests_outside_the_export_fail_by_their_kind() {
        let rules = rules();
        for (kind, beyond) in [(0, 22), (1, 28), (4, 22), (6, 28), (7, 22)] {
            assert_eq!(errno(&rules, request(kind, 0, 0, 4096)), 0, "{kind}");
            for offset in [1 << 30, (1 << 30) - 4096, u64::MAX - 4095] {
                assert_eq!(errno(&rules, request(kind, 0, offset, 8192)), beyond, "{kind} at {offset}");
            }
            assert_eq!(errno(&rules, request(kind, 0, 0, 0)), 22, "{kind} of nothing");
            assert_eq!(errno(&rules, request(kind, 0, 512, 4096)), 22, "{kind} beside a sector");
        }
        assert_eq!(errno(&rules, request(0, 0, 0, (32 << 20) + 4096)), 22);
        assert_eq!(errno(&rules, request(6, 0, 0, 1 << 30)), 0, "zeros have no data");
        assert_eq!(errno(&rules, request(3, 1, 0, 0)), 0);
        assert_eq!(errno(&rules, request(3, 0, 4096, 0)), 22);
        let bytes = Rules { aligned: false, ..rules };
        assert_eq!(errno(&bytes, request(1, 0, 513, 1)), 0);
    }

    #[test]
    fn flags_go_with_their_commands() {
        let rules = rules();
        // FUA with any; NO_HOLE, DF, REQ_ONE, and one that nobody knows.
        let known = [(0, vec![4]), (1, vec![]), (3, vec![]), (4, vec![]), (6, vec![2]), (7, vec![8])];
        for (kind, known) in known {
            for bit in [1, 2, 4, 8, 32, 1 << 15] {
                let length = if kind == 3 { 0 } else { 4096 };
                let fails = bit != 1 && !known.contains(&bit);
                assert_eq!(errno(&rules, request(kind, bit, 0, length)), if fails { 22 } else { 0 }, "{kind} {bit}");
            }
        }
        let simple = Rules { structured: false, allocation: false, ..rules };
        assert_eq!(errno(&simple, request(0, 4, 0, 4096)), 22);
        assert_eq!(errno(&simple, request(7, 0, 0, 4096)), 22);
        for unknown in [5, 8, 9, u16::MAX] {
            assert_eq!(errno(&simple, request(unknown, 0, 0, 4096)), 22);
        }
    }

    /// NBD-RO-1.
    #[test]
    fn a_read_only_export_is_not_written() {
        let mut rules = rules();
        Arc::make_mut(&mut rules.face).about.read_only = true;
        for (kind, error) in [(0, 0), (1, 1), (4, 1), (6, 1), (7, 0)] {
            assert_eq!(errno(&rules, request(kind, 0, 0, 4096)), error, "{kind}");
        }
        assert_eq!(errno(&rules, request(1, 0, 1 << 40, 4096)), 1, "whatever else is wrong");
    }

    #[test]
    fn zeros_are_fast_only_where_the_store_makes_them_so() {
        let mut rules = rules();
        assert_eq!(errno(&rules, request(6, 16, 0, 4096)), 95);
        Arc::make_mut(&mut rules.face).about.fast_zeros = true;
        assert_eq!(errno(&rules, request(6, 16, 0, 4096)), 0);
        assert_eq!(errno(&rules, request(6, 16 | 2, 0, 4096)), 95, "filled");
        rules.aligned = false;
        assert_eq!(errno(&rules, request(6, 16, 0, 100)), 95, "less than a sector");
    }
}
