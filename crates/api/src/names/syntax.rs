//! The syntax of names: RFC 1123, Kubernetes' labels, IAM.

/// A DNS subdomain: most objects' names, and the domains of label keys. Kubernetes bounds the whole, not its parts.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_part)
}

/// A DNS label.
pub fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

fn is_part(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !text.is_empty() && text.chars().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// A label's or an annotation's key.
pub fn is_key(text: &str) -> bool {
    let (domain, name) = text.split_once('/').map_or((None, text), |(domain, name)| (Some(domain), name));
    domain.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

/// A label's value.
pub fn is_label_value(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= 63 && text.chars().all(inner) && edge(text.chars().next()) && edge(text.chars().last())
}

/// A name of IAM's, of at most that many characters.
pub fn is_iam_name(text: &str, most: usize) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '=' | ',' | '.' | '@' | '-');
    (1..=most).contains(&text.len()) && text.chars().all(inner)
}

/// Form of a key, in words.
pub const KEY: &str = "letters, digits, '-', '_' and '.', 63 at most, after an optional domain and '/'";
/// Form of a label's value, in words.
pub const LABEL_VALUE: &str =
    "nothing, or letters, digits, '-', '_' and '.', 63 at most, first and last a letter or digit";

/// A text as a message shows it, with a word on spaces at its ends.
pub fn shown(text: &str) -> String {
    const MOST: usize = 80;
    let space = if text.trim() == text { "" } else { ", which begins or ends with a space" };
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{:?}… of {} characters{space}", &text[..at], text.chars().count()),
        None => format!("{text:?}{space}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_forms() {
        assert!(
            is_subdomain("a.b-c.9")
                && !is_subdomain("A")
                && !is_subdomain("a..b")
                && !is_subdomain("")
                && !is_label("-a")
        );
        assert!(is_key("a.b/C_d") && is_key("x") && !is_key("a/") && !is_key(" x") && !is_key("a/b/c") && !is_key(""));
        assert!(
            is_label_value("")
                && is_label_value("a.B_c-1")
                && !is_label_value("-a")
                && !is_label_value(&"a".repeat(64))
        );
        assert!(is_iam_name("KarpenterNodeRole-demo", 64) && !is_iam_name("x\"", 64) && !is_iam_name("", 64));
    }
}
