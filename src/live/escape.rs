//! Text from a cluster, made harmless for a terminal: anybody may name an object, or write a message.

/// The text on one line: control characters, and those that hide or turn text, are written as `\u{1b}`.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for one in text.chars() {
        if is_harmful(one) { out.extend(one.escape_unicode()) } else { out.push(one) }
    }
    out
}

/// Lines, each made harmless, as one text.
pub fn escape_lines<'a>(lines: impl IntoIterator<Item = &'a String>) -> String {
    let mut out = String::new();
    for line in lines {
        out.push_str(&escape(line));
        out.push('\n');
    }
    out
}

/// True for controls, the marks that turn the direction of writing, and characters without width.
fn is_harmful(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_and_turned_text_are_shown_as_codes() {
        assert_eq!(escape("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(escape("x\u{202e}y\nz\r"), "x\\u{202e}y\\u{a}z\\u{d}");
        assert_eq!(escape("größe-1.ü"), "größe-1.ü");
    }

    #[test]
    fn name_with_a_line_break_stays_on_its_line() {
        let lines = ["one\ntwo".to_owned(), "three".to_owned()];
        assert_eq!(escape_lines(&lines), "one\\u{a}two\nthree\n");
    }
}
