//! Numbers for people.

/// A figure for people: three or four digits, and a thin gap between thousands.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 || size == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.1 => 3,
        size if size >= 0.001 => 4,
        _ => 6,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    let (sign, whole) = text.strip_prefix('-').map_or(("", text.as_str()), |whole| ("-", whole));
    if whole.len() < 5 {
        return text;
    }
    let mut out = sign.to_owned();
    for (at, digit) in whole.char_indices() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn a_figure_has_no_more_digits_than_it_deserves() {
        let shown =
            [0.0, 0.000_25, 0.05, 0.829_015, 2.5, 66.794_29, 126.528_17, 1234.5, 20_000.0, -1_234_567.0].map(number);
        let expected = [
            "0",
            "0.00025",
            "0.05",
            "0.829",
            "2.5",
            "66.79",
            "126.5",
            "1234",
            "20\u{202f}000",
            "-1\u{202f}234\u{202f}567",
        ];
        assert_eq!(shown, expected);
    }
}
