//! Characters in answers that XML does not carry as they are.
//!
//! A key may hold any character. A carriage return written as it is would be read as a line feed, which is another key;
//! other control characters are none of XML 1.0, and S3 writes references to them, which lenient parsers take. (Strict
//! ones ask for `encoding-type=url`, where there are only plain characters.) `s3s` writes both as they are.

/// `body` with references in place of such characters, if it has any.
pub(crate) fn escape_controls(body: &[u8]) -> Option<Vec<u8>> {
    let is_control = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\n' | b'\t');
    if !body.iter().any(is_control) {
        return None;
    }
    let mut escaped = Vec::with_capacity(body.len() + 64);
    for byte in body {
        if is_control(byte) {
            escaped.extend_from_slice(format!("&#x{byte:X};").as_bytes());
        } else {
            escaped.push(*byte);
        }
    }
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_references() {
        assert_eq!(escape_controls("<Key>a\tb\nü</Key>".as_bytes()), None);
        let escaped = escape_controls(b"<Key>a\rb\x01</Key>").unwrap();
        assert_eq!(escaped, b"<Key>a&#xD;b&#x1;</Key>");
    }
}
