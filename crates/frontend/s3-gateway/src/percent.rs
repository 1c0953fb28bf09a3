//! Percent encoding, as listings with `encoding-type=url` want it.

/// `text` with all but letters, digits and `-_.~/` escaped.
pub(crate) fn encode(text: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    out
}

/// `text` with escapes undone; bytes that are no UTF-8 and escapes that are none are left as they stand.
pub(crate) fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = match (first, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        if let Some((high, low)) = escaped {
            out.push(high << 4 | low);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            out.push(if first == b'+' { b' ' } else { first });
            rest = tail;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_encoding() {
        assert_eq!(encode("a b/ü+%.txt"), "a%20b/%C3%BC%2B%25.txt");
        for key in ["", "plain/key.txt", "sp ace", "ünï/\u{1}\n", "%41+"] {
            assert_eq!(decode(&encode(key)), key);
        }
    }

    #[test]
    fn what_is_no_escape_stays() {
        assert_eq!(decode("%"), "%");
        assert_eq!(decode("%4"), "%4");
        assert_eq!(decode("%zz"), "%zz");
        assert_eq!(decode("%53ig"), "Sig");
    }
}
