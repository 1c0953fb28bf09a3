//! Answers in XML as S3 writes them, where `s3s` writes them otherwise.
//!
//! - A key may hold any character. A carriage return written as it is would be read as a line feed, which is another key, and
//!   parsers drop white space at the ends of a text; other control characters are none of XML 1.0, and S3 writes references to
//!   them, which lenient parsers take. (Strict ones ask for `encoding-type=url`, where there are only plain characters.)
//! - Every error has a message, and the id of its request.
//! - The ETag of `GetObjectAttributes` has no quotes.

/// `body` as S3 would write it, where that differs. `id` is the request's.
pub(crate) fn as_s3(body: &[u8], id: &str) -> Option<Vec<u8>> {
    let escaped = escape_controls(body);
    let text = std::str::from_utf8(escaped.as_deref().unwrap_or(body)).ok()?;
    let (declaration, root) = text.split_at(root_of(text.as_bytes()));
    let changed = if root.starts_with("<Error>") {
        Some(complete_error(root, id))
    } else if root.starts_with("<GetObjectAttributesResponse") {
        Some(root.replacen("<ETag>\"", "<ETag>", 1).replacen("\"</ETag>", "</ETag>", 1))
    } else {
        None
    };
    match changed {
        Some(root) => Some(format!("{declaration}{root}").into_bytes()),
        None => escaped,
    }
}

/// The offset of the first element.
fn root_of(body: &[u8]) -> usize {
    let is_root = |pair: &[u8]| pair[0] == b'<' && pair[1].is_ascii_alphabetic();
    body.windows(2).position(is_root).unwrap_or(body.len())
}

/// `body` with references in place of control characters, if it has any.
fn escape_controls(body: &[u8]) -> Option<Vec<u8>> {
    let (declaration, root) = body.split_at(root_of(body));
    if !root.iter().any(|byte| *byte < 0x20) {
        return None;
    }
    let mut escaped = Vec::with_capacity(body.len() + 64);
    escaped.extend_from_slice(declaration);
    for byte in root {
        if *byte < 0x20 {
            escaped.extend_from_slice(format!("&#x{byte:X};").as_bytes());
        } else {
            escaped.push(*byte);
        }
    }
    Some(escaped)
}

fn complete_error(root: &str, id: &str) -> String {
    let mut root = root.to_owned();
    let between = |text: &str, open: &str, close: &str| {
        let from = text.find(open)? + open.len();
        Some(text[from..from + text[from..].find(close)?].to_owned())
    };
    let end = "</Error>";
    if let (None, Some(code)) = (root.find("<Message>"), between(&root, "<Code>", "</Code>")) {
        root = root.replacen(end, &format!("<Message>{}</Message>{end}", message_of(&code)), 1);
    }
    if !root.contains("<RequestId>") {
        root = root.replacen(end, &format!("<RequestId>{id}</RequestId>{end}"), 1);
    }
    root
}

/// The message of an error that `s3s` says nothing of.
fn message_of(code: &str) -> &'static str {
    match code {
        "InvalidBucketName" => {
            "The specified bucket is not valid: 3 to 63 characters of a-z, 0-9, '.' and '-', a letter or digit at both ends, no two '.' in a row, no IP address."
        }
        "KeyTooLongError" => "Your key is too long: 1,024 bytes of UTF-8 are the most.",
        "InvalidURI" => "The URI could not be parsed: it must be UTF-8 behind its percent signs.",
        "SignatureDoesNotMatch" => {
            "The request signature we calculated does not match the signature you provided. Check your key and signing method, and that no proxy changes the request or its Host."
        }
        "MethodNotAllowed" => "The specified method is not allowed against this resource.",
        "MissingContentLength" => "You must provide the Content-Length HTTP header.",
        "MalformedXML" => "The XML you provided was not well-formed or is not what this operation takes.",
        "AccessDenied" => "Access denied.",
        "NotImplemented" => "This is not served.",
        "InternalError" => "An internal error was met; the server's log says more. Please try again.",
        _ => "The request was refused, for the reason that the code names.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

    fn written(root: &str) -> String {
        let body = format!("{DECLARATION}{root}");
        let written = as_s3(body.as_bytes(), "07").map_or(body, |bytes| String::from_utf8(bytes).unwrap());
        written.strip_prefix(DECLARATION).unwrap().to_owned()
    }

    #[test]
    fn control_characters_become_references() {
        assert_eq!(written("<Key>aü</Key>"), "<Key>aü</Key>");
        assert_eq!(written("<Key>\ta\rb\x01\n</Key>"), "<Key>&#x9;a&#xD;b&#x1;&#xA;</Key>");
        assert_eq!(as_s3(b"", "1"), None);
    }

    #[test]
    fn an_error_has_a_message_and_an_id() {
        let error = written("<Error><Code>KeyTooLongError</Code></Error>");
        assert_eq!(
            error,
            "<Error><Code>KeyTooLongError</Code><Message>Your key is too long: 1,024 bytes of UTF-8 are the most.</Message><RequestId>07</RequestId></Error>"
        );
        assert_eq!(written(&error), error);
        let own = "<Error><Code>NoSuchKey</Code><Message>none</Message>";
        assert_eq!(written(&format!("{own}</Error>")), format!("{own}<RequestId>07</RequestId></Error>"));
        let within = "<DeleteResult><Error><Code>A</Code></Error></DeleteResult>";
        assert_eq!(written(within), within);
    }

    #[test]
    fn attributes_have_an_etag_without_quotes() {
        let answer = "<GetObjectAttributesResponse xmlns=\"x\"><ETag>\"aa\"</ETag></GetObjectAttributesResponse>";
        assert!(written(answer).contains("<ETag>aa</ETag>"));
    }
}
