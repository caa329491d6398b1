//! Percent-encoding undone; what is no escape stays as it is.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// A part of a URL's path as it is meant.
pub(crate) fn decode_path(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

/// A name or a value of `application/x-www-form-urlencoded` text as it is meant: `+` stands for a space there.
pub(crate) fn decode_form(text: &str) -> Cow<'_, str> {
    if !text.contains('+') {
        return decode_path(text);
    }
    Cow::Owned(decode_path(&text.replace('+', " ")).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_escapes_stay_as_they_are() {
        assert_eq!(decode_form("100%&%zz%4"), "100%&%zz%4");
        assert_eq!(decode_form("%E2%82%AC+1"), "€ 1");
        assert_eq!(decode_path("a%2Fb+c%é"), "a/b+c%é");
        assert_eq!((decode_path("%+1"), decode_form("%+1")), ("%+1".into(), "% 1".into()), "a sign is no digit");
    }
}
