//! Names that people see: on terminals, in logs and reports.

/// A name that came from outside, with all escaped that a terminal would act on, or that changes how the rest is read: control
/// characters, marks of writing direction, and bytes that are no UTF-8.
pub fn printable(name: &[u8]) -> String {
    let mut shown = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() || directs(letter) {
                shown.extend(letter.escape_default());
            } else {
                shown.push(letter);
            }
        }
        chunk.invalid().iter().for_each(|byte| shown += &format!("\\x{byte:02x}"));
    }
    shown
}

/// True for marks that turn the direction of the following text.
fn directs(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_nothing_to_act_on() {
        assert_eq!(printable("häuser/2.jpg \u{1f3e0}".as_bytes()), "häuser/2.jpg \u{1f3e0}");
        assert_eq!(printable(b"a\x1b[31m\n\x07"), "a\\u{1b}[31m\\n\\u{7}");
        assert_eq!(printable("exe.\u{202e}gpj".as_bytes()), "exe.\\u{202e}gpj");
        assert_eq!(printable(&[b'a', 0xff, 0x9b]), "a\\xff\\x9b");
    }
}
