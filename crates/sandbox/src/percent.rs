//! Percent-encoding undone; what is no escape stays as it is.

use std::borrow::Cow;

/// A part of a URL's path as it is meant.
pub(crate) fn decode_path(text: &str) -> Cow<'_, str> {
    decode(text, false)
}

/// A name or a value of `application/x-www-form-urlencoded` text as it is meant: `+` stands for a space there.
pub(crate) fn decode_form(text: &str) -> Cow<'_, str> {
    decode(text, true)
}

fn decode(text: &str, plus: bool) -> Cow<'_, str> {
    let plain = |byte: u8| byte != b'%' && !(plus && byte == b'+');
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        match (bytes[at], hex.and_then(|pair| u8::from_str_radix(pair, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 2;
            }
            (b'+', _) if plus => decoded.push(b' '),
            (byte, _) => decoded.push(byte),
        }
        at += 1;
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_escapes_stay_as_they_are() {
        assert_eq!(decode_form("100%&%zz%4"), "100%&%zz%4");
        assert_eq!(decode_form("%E2%82%AC+1"), "€ 1");
        assert_eq!(decode_path("a%2Fb+c%é"), "a/b+c%é");
    }
}
