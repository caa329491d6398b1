//! Objects that replicas cannot read. A mark on an object turns, on the way to a replica, into what no type can read; the
//! cluster's own parts go on reading the object as it is stored.

use std::borrow::Cow;

use bytes::Bytes;

/// The annotation that an object is marked with.
pub const MARK: &str = "sandbox.dovetail.dev/unreadable";
/// Nesting of [`Spoilt::Depth`]: deeper than `serde_json` goes.
const DEPTH: usize = 300;

/// The way in which a marked object cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoilt {
    /// An annotation of it is no text.
    Type,
    /// An annotation of it is nested deeper than parsers go.
    Depth,
}

impl Spoilt {
    /// The mark's value.
    pub fn word(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Depth => "depth",
        }
    }

    /// The mark as it is stored.
    fn stored(self) -> String {
        format!("\"{MARK}\":\"{}\"", self.word())
    }

    /// The mark as a replica gets it.
    fn sent(self) -> String {
        match self {
            Self::Type => format!("\"{MARK}\":{{\"not\":[\"a\",\"text\"]}}"),
            Self::Depth => format!("\"{MARK}\":{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH)),
        }
    }
}

/// An answer, or a line of a watch, as a replica gets it.
pub fn on_the_wire(bytes: Bytes) -> Bytes {
    let Ok(text) = std::str::from_utf8(&bytes) else { return bytes };
    if !text.contains(MARK) {
        return bytes;
    }
    let all = [Spoilt::Type, Spoilt::Depth];
    let spoilt =
        all.into_iter().fold(Cow::Borrowed(text), |text, one| Cow::Owned(text.replace(&one.stored(), &one.sent())));
    Bytes::from(spoilt.into_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn marked_objects_are_spoilt_on_the_wire_and_others_unchanged() {
        let marked = |value: &str| json!({"metadata": {"annotations": {MARK: value, "a": "b"}}}).to_string();
        let sent = |text: String| String::from_utf8(on_the_wire(Bytes::from(text)).to_vec()).unwrap();
        let odd: Value = serde_json::from_str(&sent(marked("type"))).unwrap();
        assert_eq!(odd["metadata"]["annotations"], json!({MARK: {"not": ["a", "text"]}, "a": "b"}));
        assert!(serde_json::from_str::<Value>(&sent(marked("depth"))).is_err());
        for plain in [marked("else"), "{}".to_owned(), json!({MARK: 5}).to_string()] {
            assert_eq!(sent(plain.clone()), plain);
        }
    }
}
