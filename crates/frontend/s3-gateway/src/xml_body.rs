//! Checks of an XML body as it passes: its size, its digests, and its elements.
//!
//! The parser in `s3s` skips elements that it does not know, CDATA sections and comments. A skipped element is something asked
//! for and not done; a skipped CDATA section makes another key of the one that it stands in. So they are refused here.
//!
//! # Invariants
//! - GW-XML-1: a body that is acted on has only the elements that are listed for its operation, and no section that the parser
//!   would skip.

use s3s::crypto::{Checksum as _, Sha256};
use s3s::{S3Result, s3_error};

use crate::digests::Digests;
use crate::errors::with_status;
use crate::hex::hex;
use crate::options::XML_BYTES_MAX;
use hyper::{HeaderMap, StatusCode};

/// The longest name of an element.
const NAME_BYTES_MAX: usize = 64;

/// Checks a body on its way to the parser.
pub(crate) struct XmlBody {
    elements: &'static [&'static str],
    digests: Digests,
    /// Its SHA-256 so far, and the one that was signed.
    sha256: Option<(Sha256, String)>,
    bytes: usize,
    state: State,
}

enum State {
    /// Before the first element: a declaration may come.
    Prolog,
    /// Between tags.
    Text,
    /// Behind a `<`; whether the declaration may stand here.
    Open { prolog: bool },
    /// In an element's name.
    Name(Vec<u8>),
    /// In the rest of a tag; in a value that this character quotes.
    Tag { quote: Option<u8> },
}

impl XmlBody {
    /// For a request with these headers, whose body may have these elements.
    ///
    /// # Errors
    /// `InvalidDigest`, `InvalidRequest` for a digest that is none, `NotImplemented` for a body in `aws-chunked`.
    pub(crate) fn new(elements: &'static [&'static str], headers: &HeaderMap, digests: Digests) -> S3Result<Self> {
        if crate::guard::framing(headers).is_some() {
            return Err(s3_error!(NotImplemented, "XML in aws-chunked is not served: send it as it is"));
        }
        let signed = headers.get("x-amz-content-sha256").and_then(|value| value.to_str().ok());
        let sha256 = signed.filter(|value| value.len() == 64).map(|value| (Sha256::new(), value.to_ascii_lowercase()));
        Ok(Self { elements, digests, sha256, bytes: 0, state: State::Prolog })
    }

    /// Takes the next bytes of the body.
    ///
    /// # Errors
    /// `MaxMessageLengthExceeded`, or the fault in the XML.
    pub(crate) fn update(&mut self, data: &[u8]) -> S3Result<()> {
        self.bytes += data.len();
        if self.bytes > XML_BYTES_MAX {
            let message = format!("Your request was too big: its XML has more than {XML_BYTES_MAX} bytes.");
            return Err(with_status("MaxMessageLengthExceeded", StatusCode::BAD_REQUEST, message));
        }
        self.digests.update(data);
        if let Some((hasher, _)) = &mut self.sha256 {
            hasher.update(data);
        }
        data.iter().try_for_each(|byte| self.step(*byte))
    }

    fn step(&mut self, byte: u8) -> S3Result<()> {
        match &mut self.state {
            State::Prolog | State::Text if byte == b'<' => {
                self.state = State::Open { prolog: matches!(self.state, State::Prolog) };
            }
            State::Prolog | State::Text => {}
            State::Open { prolog } => match byte {
                b'!' => {
                    let message = "The XML has a comment, a CDATA section or a document type; write text as it is, with &lt; and &amp;.";
                    return Err(s3_error!(MalformedXML, "{message}"));
                }
                b'?' if *prolog => self.state = State::Tag { quote: None },
                b'?' => return Err(s3_error!(MalformedXML, "The XML has a processing instruction.")),
                b'/' => self.state = State::Tag { quote: None },
                first => self.state = State::Name(vec![first]),
            },
            State::Name(name) => {
                let ends = byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>');
                if !ends {
                    name.push(byte);
                }
                if !ends && name.len() <= NAME_BYTES_MAX {
                    return Ok(());
                }
                if !self.elements.iter().any(|element| element.as_bytes() == name) {
                    let name = String::from_utf8_lossy(name).into_owned();
                    return Err(s3_error!(
                        NotImplemented,
                        "The XML has an element <{name}>, which is not served here."
                    ));
                }
                self.state = if byte == b'>' { State::Text } else { State::Tag { quote: None } };
            }
            State::Tag { quote } => match (*quote, byte) {
                (Some(opened), byte) if byte == opened => *quote = None,
                (None, b'"' | b'\'') => *quote = Some(byte),
                (None, b'>') => self.state = State::Text,
                _ => {}
            },
        }
        Ok(())
    }

    /// Checks that the whole body was as stated.
    ///
    /// # Errors
    /// `XAmzContentSHA256Mismatch`, `BadDigest`.
    pub(crate) fn verify(self) -> S3Result<()> {
        if let Some((hasher, signed)) = self.sha256
            && hex(&hasher.finalize()) != signed
        {
            let message = "The provided 'x-amz-content-sha256' header does not match what was computed.";
            return Err(with_status("XAmzContentSHA256Mismatch", StatusCode::BAD_REQUEST, message));
        }
        self.digests.verify()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELETE: &[&str] = &["Delete", "Object", "Key", "Quiet"];

    fn code(body: &[u8], frame: usize) -> Option<String> {
        let digests = Digests::of_request(&HeaderMap::new(), false).unwrap();
        let mut xml = XmlBody::new(DELETE, &HeaderMap::new(), digests).unwrap();
        let result = body.chunks(frame).try_for_each(|piece| xml.update(piece)).and_then(|()| xml.verify());
        result.err().map(|error| error.code().as_str().to_owned())
    }

    #[test]
    fn what_a_parser_would_skip_is_refused() {
        let malformed = Some("MalformedXML".to_owned());
        let unserved = Some("NotImplemented".to_owned());
        for frame in [1, 3, 1000] {
            for good in [
                "<Delete><Object><Key>a&lt;!</Key></Object></Delete>",
                "<?xml version=\"1.0\" encoding='UTF-8'?>\n<Delete xmlns=\"http://s3/>\">\n<Quiet/> <Object ><Key\n>!?</Key></Object></Delete >",
                "",
                "no XML at all",
            ] {
                assert_eq!(code(good.as_bytes(), frame), None, "{good}");
            }
            for bad in [
                "<Delete><Object><Key><![CDATA[a]]></Key></Object></Delete>",
                "<!DOCTYPE x [<!ENTITY a \"b\">]><Delete/>",
                "<Delete><!-- a --></Delete>",
                "<Delete><?php a?></Delete>",
            ] {
                assert_eq!(code(bad.as_bytes(), frame), malformed, "{bad}");
            }
            for unknown in ["<Delete><Forever/></Delete>", "<Key2>", "<s3:Delete>", "<delete>", "< Delete>"] {
                assert_eq!(code(unknown.as_bytes(), frame), unserved, "{unknown}");
            }
        }
        assert_eq!(code(format!("<{}", "K".repeat(1000)).as_bytes(), 1000), unserved);
    }

    #[test]
    fn a_body_has_a_limit_and_the_digest_that_was_signed() {
        let text = vec![b' '; XML_BYTES_MAX];
        assert_eq!(code(&text, 1 << 16), None);
        assert_eq!(code(&[&text[..], b" "].concat(), 1 << 16), Some("MaxMessageLengthExceeded".to_owned()));

        let signed = hex(&Sha256::checksum(b"<Delete/>")).to_ascii_uppercase();
        let headers = HeaderMap::from_iter([("x-amz-content-sha256".parse().unwrap(), signed.parse().unwrap())]);
        for (body, right) in [(&b"<Delete/>"[..], true), (b"<Delete />", false)] {
            let mut xml = XmlBody::new(DELETE, &headers, Digests::of_request(&headers, false).unwrap()).unwrap();
            xml.update(body).unwrap();
            assert_eq!(xml.verify().is_ok(), right);
        }
    }
}
