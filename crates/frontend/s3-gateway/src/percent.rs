//! Percent encoding, as listings with `encoding-type=url` want it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// All but letters, digits and `-_.~/`.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// `text` with all but letters, digits and `-_.~/` escaped.
pub(crate) fn encode(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::query_of;

    fn read(query: &str) -> Vec<(String, String)> {
        query_of(Some(query)).collect()
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn keys_survive_encoding() {
        assert_eq!(encode("a b/ü+%.txt"), "a%20b/%C3%BC%2B%25.txt");
        let all: String = (0..=0x17f).filter_map(char::from_u32).collect();
        for key in ["", "plain/key.txt", "sp ace", "ünï/\u{1}\n", "%41+", "a&b=c;d", &all] {
            assert_eq!(read(&format!("key={}&x", encode(key))), [pair("key", key), pair("x", "")]);
        }
        let plain: String = all.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.~/".contains(*c)).collect();
        assert_eq!(encode(&plain), plain);
        assert!(encode(&all).bytes().all(|byte| byte == b'%' || plain.as_bytes().contains(&byte)));
    }

    #[test]
    fn an_escape_that_is_none_stays_in_a_query() {
        for (written, meant) in [
            ("%", "%"),
            ("%4", "%4"),
            ("%zz", "%zz"),
            ("%5", "%5"),
            ("%%41", "%A"),
            ("%53ig", "Sig"),
            ("%2b", "+"),
            ("a+b", "a b"),
        ] {
            assert_eq!(read(&format!("&{written}={written}&&")), [pair(meant, meant)], "{written}");
        }
    }

    #[test]
    fn a_query_has_a_value_behind_its_first_equals_sign_and_text_for_any_bytes() {
        assert_eq!(read("a=b=c&=d&e"), [pair("a", "b=c"), pair("", "d"), pair("e", "")]);
        assert_eq!(read("k=%ff%C3%BC%C3"), [pair("k", "\u{fffd}ü\u{fffd}")]);
        assert_eq!(read("k=ü;l=%00"), [pair("k", "ü;l=\0")]);
        assert_eq!(query_of(None).count() + read("").len() + read("&&&").len(), 0);
    }
}
