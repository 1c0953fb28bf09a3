//! The haggling over options, as a function from an option to answers. Pure: it sees the faces of exports, and no socket.

use std::sync::Arc;

use crate::face::Face;
use crate::option::{ContextRequest, InfoRequest, Malformed, answer, name};
use crate::wire::{ALLOCATION, ALLOCATION_ID, ZEROES, answer as kind, info, option};

/// Options on one connection: a client needs ten.
const OPTIONS_MAX: u32 = 256;

/// TLS on this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cover {
    /// There is none to be had.
    None,
    /// It is to be had.
    Offered,
    /// Nothing is told before it (NBD-TLS-1).
    Required,
    /// It is on.
    On,
}

/// Step after an option.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next option.
    More,
    /// Requests to an export.
    Transmit(Chosen),
    /// TLS, and then options from the start.
    StartTls,
    /// The connection's end, once the answer is sent.
    End,
}

/// The result of the haggling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// Place of the export in the list.
    pub(crate) export: usize,
    /// Replies are in chunks.
    pub(crate) structured: bool,
    /// The client asks for the state of blocks.
    pub(crate) allocation: bool,
    /// The client was told the sizes of requests, and keeps to them.
    pub(crate) aligned: bool,
}

/// State of the haggling on a connection.
#[derive(Debug)]
pub(crate) struct Haggle {
    faces: Vec<Arc<Face>>,
    cover: Cover,
    /// The client understands answers to options.
    fixed: bool,
    no_zeroes: bool,
    structured: bool,
    /// Export for which `base:allocation` was chosen.
    allocation: Option<usize>,
    options_left: u32,
}

impl Haggle {
    pub(crate) fn new(faces: Vec<Arc<Face>>, cover: Cover, fixed: bool, no_zeroes: bool) -> Self {
        Self { faces, cover, fixed, no_zeroes, structured: false, allocation: None, options_left: OPTIONS_MAX }
    }

    /// TLS is on now: all that was agreed before is void. (NBD-TLS-1)
    pub(crate) fn covered(self) -> Self {
        Self { options_left: self.options_left, ..Self::new(self.faces, Cover::On, self.fixed, self.no_zeroes) }
    }

    /// Answers an option: bytes to send, and the next step.
    pub(crate) fn answer(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Next {
        self.options_left = self.options_left.saturating_sub(1);
        if self.options_left == 0 || !self.fixed && !matches!(option, option::EXPORT_NAME | option::ABORT) {
            return Next::End;
        }
        let naked = self.cover == Cover::Required;
        match option {
            option::EXPORT_NAME if naked => Next::End,
            option::EXPORT_NAME => self.enter(data, out),
            option::ABORT => {
                answer(out, option, kind::ACK, &[]);
                Next::End
            }
            option::STARTTLS => self.start_tls(data, out),
            _ if naked => refuse(out, option, kind::ERR_TLS_REQD, "TLS is required: begin with STARTTLS"),
            option::LIST => self.list(data, out),
            option::INFO | option::GO => self.info(option, data, out).unwrap_or_else(|wrong| wrong.tell(out, option)),
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                answer(out, option, kind::ACK, &[]);
                Next::More
            }
            option::STRUCTURED_REPLY => Malformed::Invalid("STRUCTURED_REPLY has no data").tell(out, option),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(option, data, out).unwrap_or_else(|wrong| wrong.tell(out, option))
            }
            _ => refuse(out, option, kind::ERR_UNSUP, "the option is not known here"),
        }
    }

    /// The export of this name; the only one, or the one without a name, if there is no name.
    fn find(&self, name: &str) -> Option<(usize, &Arc<Face>)> {
        let named = self.faces.iter().position(|face| face.about.name == name);
        let only = || (name.is_empty() && self.faces.len() == 1).then_some(0);
        let at = named.or_else(only)?;
        Some((at, self.faces.get(at)?))
    }

    fn chosen(&self, export: usize, aligned: bool) -> Chosen {
        let allocation = self.structured && self.allocation == Some(export);
        Chosen { export, structured: self.structured, allocation, aligned }
    }

    /// `EXPORT_NAME` cannot be refused but by the connection's end.
    fn enter(&self, data: &[u8], out: &mut Vec<u8>) -> Next {
        let Some((export, face)) = name(data).ok().and_then(|name| self.find(name)) else { return Next::End };
        out.extend(face.size_bytes.to_be_bytes());
        out.extend(face.flags(self.structured).to_be_bytes());
        if !self.no_zeroes {
            out.extend([0; ZEROES]);
        }
        Next::Transmit(self.chosen(export, false))
    }

    fn start_tls(&self, data: &[u8], out: &mut Vec<u8>) -> Next {
        let option = option::STARTTLS;
        match self.cover {
            Cover::None => refuse(out, option, kind::ERR_POLICY, "this server has no TLS"),
            Cover::On => refuse(out, option, kind::ERR_INVALID, "TLS is on"),
            _ if !data.is_empty() => refuse(out, option, kind::ERR_INVALID, "STARTTLS has no data"),
            Cover::Offered | Cover::Required => {
                answer(out, option, kind::ACK, &[]);
                Next::StartTls
            }
        }
    }

    fn list(&self, data: &[u8], out: &mut Vec<u8>) -> Next {
        let option = option::LIST;
        if !data.is_empty() {
            return refuse(out, option, kind::ERR_INVALID, "LIST has no data");
        }
        for face in &self.faces {
            let (name, words) = (face.about.name.as_bytes(), face.about.description.as_bytes());
            answer(out, option, kind::SERVER, &[&(name.len() as u32).to_be_bytes(), name, words]);
        }
        answer(out, option, kind::ACK, &[]);
        Next::More
    }

    fn info(&self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Result<Next, Malformed> {
        let InfoRequest { name, items } = InfoRequest::parse(data)?;
        let Some((export, face)) = self.find(name) else {
            return Ok(refuse(out, option, kind::ERR_UNKNOWN, "there is no such export"));
        };
        let mut tell = |item: u16, data: &[u8]| answer(out, option, kind::INFO, &[&item.to_be_bytes(), data]);
        let flags = face.flags(self.structured).to_be_bytes();
        tell(info::EXPORT, &[&face.size_bytes.to_be_bytes()[..], &flags].concat());
        if items.contains(&info::NAME) {
            tell(info::NAME, face.about.name.as_bytes());
        }
        if items.contains(&info::DESCRIPTION) {
            tell(info::DESCRIPTION, face.about.description.as_bytes());
        }
        let aligned = items.contains(&info::BLOCK_SIZE);
        if aligned {
            tell(info::BLOCK_SIZE, face.block_sizes().map(u32::to_be_bytes).as_flattened());
        }
        answer(out, option, kind::ACK, &[]);
        Ok(if option == option::GO { Next::Transmit(self.chosen(export, aligned)) } else { Next::More })
    }

    fn contexts(&mut self, option: u32, data: &[u8], out: &mut Vec<u8>) -> Result<Next, Malformed> {
        let sets = option == option::SET_META_CONTEXT;
        if sets {
            // The earlier choice is void, even if this one fails.
            self.allocation = None;
        }
        if !self.structured {
            return Err(Malformed::Invalid("contexts need structured replies: ask for those first"));
        }
        let ContextRequest { name, queries } = ContextRequest::parse(data)?;
        let Some((export, _)) = self.find(name) else {
            return Ok(refuse(out, option, kind::ERR_UNKNOWN, "there is no such export"));
        };
        // All contexts of a namespace are only listed, and so are those that nobody asked for by name.
        let listed = |query: &&str| *query == "base:" && !sets;
        let found = queries.iter().any(|query| *query == ALLOCATION || listed(query)) || queries.is_empty() && !sets;
        if found {
            let id = if sets { ALLOCATION_ID } else { 0 };
            answer(out, option, kind::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION.as_bytes()]);
            self.allocation = if sets { Some(export) } else { self.allocation };
        }
        answer(out, option, kind::ACK, &[]);
        Ok(Next::More)
    }
}

impl Malformed {
    fn tell(self, out: &mut Vec<u8>, option: u32) -> Next {
        match self {
            Self::Invalid(words) => refuse(out, option, kind::ERR_INVALID, words),
            Self::TooBig(words) => refuse(out, option, kind::ERR_TOO_BIG, words),
        }
    }
}

pub(crate) fn refuse(out: &mut Vec<u8>, option: u32, error: u32, words: &str) -> Next {
    answer(out, option, error, &[words.as_bytes()]);
    Next::More
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::face::About;

    fn haggle(names: &[&str], cover: Cover) -> Haggle {
        let face = |name: &&str| Arc::new(Face { about: About::new(*name), size_bytes: 1 << 20, sector_bytes: 4096 });
        Haggle::new(names.iter().map(face).collect(), cover, true, true)
    }

    fn named(name: &str, rest: &[u8]) -> Vec<u8> {
        [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), rest].concat()
    }

    /// The next step, and the kind of the last answer.
    fn asked(haggle: &mut Haggle, option: u32, data: &[u8]) -> (Next, Option<u32>) {
        let mut out = Vec::new();
        let next = haggle.answer(option, data, &mut out);
        let (mut rest, mut last) = (&out[..], None);
        while rest.len() >= 20 && option != option::EXPORT_NAME {
            let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
            assert_eq!(number(8), option);
            last = Some(number(12));
            rest = &rest[20 + number(16) as usize..];
        }
        (next, last)
    }

    #[test]
    fn the_default_export_is_the_only_one_or_has_no_name() {
        let found = |names: &[&str], name: &str| haggle(names, Cover::None).find(name).map(|(at, _)| at);
        assert_eq!(found(&["a"], ""), Some(0));
        assert_eq!(found(&["a", "b"], ""), None);
        assert_eq!(found(&["a", ""], ""), Some(1));
        assert_eq!(found(&["a", "b"], "b"), Some(1));
        assert_eq!(found(&[], ""), None);
    }

    #[test]
    fn contexts_hold_for_their_export_and_until_the_next_choice() {
        let go = |haggle: &mut Haggle, name: &str| match asked(haggle, option::GO, &named(name, &[0, 1, 0, 3])) {
            (Next::Transmit(chosen), Some(kind::ACK)) => chosen,
            other => panic!("{other:?}"),
        };
        let set = named("a", &[&[0, 0, 0, 1][..], &named(ALLOCATION, &[])].concat());
        let mut one = haggle(&["a", "b"], Cover::None);
        assert_eq!(asked(&mut one, option::SET_META_CONTEXT, &set), (Next::More, Some(kind::ERR_INVALID)));
        assert_eq!(asked(&mut one, option::STRUCTURED_REPLY, &[1]), (Next::More, Some(kind::ERR_INVALID)));
        assert_eq!(asked(&mut one, option::STRUCTURED_REPLY, &[]), (Next::More, Some(kind::ACK)));
        assert_eq!(asked(&mut one, option::SET_META_CONTEXT, &set), (Next::More, Some(kind::ACK)));
        assert_eq!(go(&mut one, "a"), Chosen { export: 0, structured: true, allocation: true, aligned: true });
        assert!(!go(&mut one, "b").allocation);
        // A wildcard is only listed; so the choice is empty, as after a failure.
        let wild = named("a", &[&[0, 0, 0, 1][..], &named("base:", &[])].concat());
        assert_eq!(asked(&mut one, option::SET_META_CONTEXT, &wild), (Next::More, Some(kind::ACK)));
        assert!(!go(&mut one, "a").allocation);
        for (query, listed) in [("base:", 2), ("base:allocation", 2), ("base:dirty", 1), ("x-own:all", 1)] {
            let mut out = Vec::new();
            let data = named("a", &[&[0, 0, 0, 1][..], &named(query, &[])].concat());
            one.answer(option::LIST_META_CONTEXT, &data, &mut out);
            let answers = out.windows(8).filter(|bytes| *bytes == 0x0003_e889_0455_65a9u64.to_be_bytes()).count();
            assert_eq!(answers, listed, "{query}");
        }
        let unknown = named("c", &[0; 4]);
        assert_eq!(asked(&mut one, option::SET_META_CONTEXT, &unknown), (Next::More, Some(kind::ERR_UNKNOWN)));
    }

    /// NBD-TLS-1.
    #[test]
    fn nothing_is_told_before_tls_and_nothing_holds_after_it() {
        let mut one = haggle(&["a"], Cover::Required);
        for option in (1..40).filter(|option| !matches!(*option, 1 | 2 | 5)) {
            assert_eq!(asked(&mut one, option, &named("a", &[0, 0])), (Next::More, Some(kind::ERR_TLS_REQD)));
        }
        assert_eq!(asked(&mut one, option::EXPORT_NAME, b"a"), (Next::End, None));
        assert_eq!(asked(&mut one, option::STARTTLS, b"a"), (Next::More, Some(kind::ERR_INVALID)));
        assert_eq!(asked(&mut one, option::STARTTLS, b""), (Next::StartTls, Some(kind::ACK)));
        let mut one = haggle(&["a"], Cover::Offered);
        asked(&mut one, option::STRUCTURED_REPLY, &[]);
        let mut one = one.covered();
        assert_eq!(asked(&mut one, option::STARTTLS, b""), (Next::More, Some(kind::ERR_INVALID)));
        let plain = Chosen { export: 0, structured: false, allocation: false, aligned: false };
        assert_eq!(asked(&mut one, option::EXPORT_NAME, b"a").0, Next::Transmit(plain));
        assert_eq!(asked(&mut haggle(&[], Cover::None), option::STARTTLS, b""), (Next::More, Some(kind::ERR_POLICY)));
    }

    #[test]
    fn options_are_refused_by_reason_and_end_at_their_bound() {
        let mut one = haggle(&["a"], Cover::None);
        assert_eq!(asked(&mut one, 11, &[]), (Next::More, Some(kind::ERR_UNSUP)));
        assert_eq!(asked(&mut one, option::LIST, b"a"), (Next::More, Some(kind::ERR_INVALID)));
        assert_eq!(asked(&mut one, option::GO, b"a"), (Next::More, Some(kind::ERR_INVALID)));
        assert_eq!(asked(&mut one, option::INFO, &named("b", &[0, 0])), (Next::More, Some(kind::ERR_UNKNOWN)));
        assert_eq!(asked(&mut one, option::INFO, &named("a", &[0, 0])), (Next::More, Some(kind::ACK)));
        assert_eq!(asked(&mut one, option::EXPORT_NAME, b"b"), (Next::End, None));
        assert_eq!(asked(&mut one, option::ABORT, b""), (Next::End, Some(kind::ACK)));
        while asked(&mut one, option::LIST, &[]).0 == Next::More {}
        assert_eq!(one.options_left, 0);
        let mut old = Haggle { fixed: false, ..haggle(&["a"], Cover::None) };
        assert_eq!(asked(&mut old, option::LIST, &[]), (Next::End, None));
        assert!(matches!(asked(&mut old, option::EXPORT_NAME, b"").0, Next::Transmit(_)));
    }
}
