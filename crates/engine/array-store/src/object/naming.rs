//! Names of objects in words for people: reports of damage, errors.

use std::fmt;

use shingle_base::printable;
use shingle_store_api::Named;

/// Names of objects in reports: by the name and the attributes, which are empty if they are not known. [`quoted`], unless a
/// layer above gives them other names.
#[derive(Clone, Copy)]
pub struct Naming(pub fn(&[u8], &[u8]) -> Named);

impl Default for Naming {
    fn default() -> Self {
        Self(|name, _| Named { words: quoted(name), object: None })
    }
}

impl PartialEq for Naming {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Naming {}

impl fmt::Debug for Naming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Naming")
    }
}

/// A printable name between quotation marks.
pub fn quoted(name: &[u8]) -> String {
    format!("`{}`", printable(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_no_control_characters() {
        assert_eq!(printable("films/Übung.mkv".as_bytes()), "films/Übung.mkv");
        assert_eq!(printable(b"a\0b\x1b[2Jc\n\xffd\x7f"), "a\\u{0}b\\u{1b}[2Jc\\n\\xffd\\u{7f}");
        assert_eq!(quoted("c1: \u{9b}".as_bytes()), "`c1: \\u{9b}`");
        assert_eq!((Naming::default().0)(b"x", b"attributes").words, "`x`");
    }
}
