//! Options of the handshake: reading clients' ones, and writing answers to them. Pure.

use crate::fields::Fields;
use crate::wire::{OPTION_MAGIC, OPTION_REPLY_MAGIC, STRING_BYTES_MAX};

/// Bytes before an option's data.
pub(crate) const HEAD_BYTES: usize = 16;
/// Data of an option that is read. No real one is as long.
pub(crate) const DATA_BYTES_MAX: u32 = 64 << 10;
/// Items of information in one option: there are four of them.
const ITEMS_MAX: u16 = 1024;
/// Queries in one option: there is one context.
const QUERIES_MAX: u32 = 64;

/// Head of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) option: u32,
    pub(crate) length: u32,
}

/// An option that makes no sense, or too much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    Invalid(&'static str),
    TooBig(&'static str),
}

impl Head {
    /// `None` if these bytes begin no option: whatever follows is not to be understood either.
    pub(crate) fn parse(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let mut fields = Fields(bytes);
        (fields.u64()? == OPTION_MAGIC).then_some(())?;
        Some(Self { option: fields.u32()?, length: fields.u32()? })
    }
}

/// Data of `INFO` and `GO`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InfoRequest<'a> {
    pub(crate) name: &'a str,
    pub(crate) items: Vec<u16>,
}

impl<'a> InfoRequest<'a> {
    pub(crate) fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let short = Malformed::Invalid("the option is shorter than its fields");
        let mut fields = Fields(data);
        let name = name(fields.string().ok_or(short)?)?;
        let count = fields.u16().ok_or(short)?;
        if count > ITEMS_MAX {
            return Err(Malformed::TooBig("too many items of information"));
        }
        let items = (0..count).map(|_| fields.u16()).collect::<Option<_>>().ok_or(short)?;
        fields.end().then_some(Self { name, items }).ok_or(Malformed::Invalid("the option is longer than its fields"))
    }
}

/// Data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ContextRequest<'a> {
    pub(crate) name: &'a str,
    pub(crate) queries: Vec<&'a str>,
}

impl<'a> ContextRequest<'a> {
    pub(crate) fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let short = Malformed::Invalid("the option is shorter than its fields");
        let mut fields = Fields(data);
        let name = name(fields.string().ok_or(short)?)?;
        let count = fields.u32().ok_or(short)?;
        if count > QUERIES_MAX {
            return Err(Malformed::TooBig("too many queries for contexts"));
        }
        let mut queries = Vec::new();
        for _ in 0..count {
            let query = text(fields.string().ok_or(short)?)?;
            if !query.contains(':') {
                return Err(Malformed::Invalid("a query for contexts begins with a namespace and a colon"));
            }
            queries.push(query);
        }
        fields.end().then_some(Self { name, queries }).ok_or(Malformed::Invalid("the option is longer than its fields"))
    }
}

/// The name of an export.
pub(crate) fn name(bytes: &[u8]) -> Result<&str, Malformed> {
    text(bytes)
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    if bytes.len() > STRING_BYTES_MAX {
        return Err(Malformed::TooBig("a string has at most 4096 bytes"));
    }
    std::str::from_utf8(bytes).map_err(|_| Malformed::Invalid("a string is not UTF-8"))
}

/// Appends an answer to `option`. Its data is of this server, and short.
pub(crate) fn answer(out: &mut Vec<u8>, option: u32, kind: u32, data: &[&[u8]]) {
    let length: usize = data.iter().map(|part| part.len()).sum();
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend([option, kind, length as u32].iter().flat_map(|number| number.to_be_bytes()));
    data.iter().for_each(|part| out.extend(*part));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &[u8]) -> Vec<u8> {
        [&(text.len() as u32).to_be_bytes()[..], text].concat()
    }

    #[test]
    fn heads_begin_with_their_magic() {
        let bytes = [&OPTION_MAGIC.to_be_bytes()[..], &7u32.to_be_bytes(), &9u32.to_be_bytes()].concat();
        let mut bytes: [u8; HEAD_BYTES] = bytes.try_into().unwrap();
        assert_eq!(Head::parse(&bytes), Some(Head { option: 7, length: 9 }));
        bytes[7] ^= 1;
        assert_eq!(Head::parse(&bytes), None);
    }

    #[test]
    fn requests_for_information_are_read_to_their_end() {
        let data = [string(b"disk"), vec![0, 2, 0, 1, 0, 3]].concat();
        assert_eq!(InfoRequest::parse(&data), Ok(InfoRequest { name: "disk", items: vec![1, 3] }));
        for cut in 0..data.len() {
            assert!(matches!(InfoRequest::parse(&data[..cut]), Err(Malformed::Invalid(_))), "{cut}");
        }
        assert!(InfoRequest::parse(&[&data[..], &[0]].concat()).is_err());
        assert!(InfoRequest::parse(&[string(&[0xff]), vec![0, 0]].concat()).is_err());
        let long = [string(&[b'a'; 4097]), vec![0, 0]].concat();
        assert!(matches!(InfoRequest::parse(&long), Err(Malformed::TooBig(_))));
    }

    #[test]
    fn queries_have_a_namespace_and_a_bound() {
        let of = |queries: &[&[u8]]| {
            let queries: Vec<u8> = queries.iter().flat_map(|query| string(query)).collect();
            [string(b""), vec![0, 0, 0, 1], queries].concat()
        };
        let data = of(&[b"base:"]);
        assert_eq!(ContextRequest::parse(&data), Ok(ContextRequest { name: "", queries: vec!["base:"] }));
        for cut in 0..data.len() {
            assert!(ContextRequest::parse(&data[..cut]).is_err(), "{cut}");
        }
        assert!(matches!(ContextRequest::parse(&of(&[b"base"])), Err(Malformed::Invalid(_))));
        assert!(matches!(ContextRequest::parse(&of(&[b"a:", b"b:"])), Err(Malformed::Invalid(_))));
        let many = [string(b""), vec![0xff; 4]].concat();
        assert!(matches!(ContextRequest::parse(&many), Err(Malformed::TooBig(_))));
    }
}
