//! Writing XML answers.

use std::fmt::{Display, Write};

/// XML text that grows by elements. Names are ours and need no escaping; values are escaped.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Xml {
    text: String,
}

impl Xml {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// `<name>value</name>`.
    pub fn text(&mut self, name: &str, value: impl Display) -> &mut Self {
        self.node(name, |xml| xml.escaped(value))
    }

    // Writing to a String cannot fail.
    fn escaped(&mut self, value: impl Display) {
        let _ = write!(Escaping(&mut self.text), "{value}");
    }

    /// `<name>value</name>` if there is a value.
    pub fn opt(&mut self, name: &str, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// An element with what `inner` writes.
    pub fn node(&mut self, name: &str, inner: impl FnOnce(&mut Self)) -> &mut Self {
        inner(self.begin(name));
        self.end(name)
    }

    /// `<name>`
    pub fn begin(&mut self, name: &str) -> &mut Self {
        self.text.extend(["<", name, ">"]);
        self
    }

    /// `</name>`
    pub fn end(&mut self, name: &str) -> &mut Self {
        self.text.extend(["</", name, ">"]);
        self
    }

    /// A list as EC2 writes it: `<name><item>…</item>…</name>`.
    pub fn list<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        inner: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.list_of(name, "item", items, inner)
    }

    /// A list whose items have a name of their own, such as IAM's `member`.
    pub fn list_of<T>(
        &mut self,
        name: &str,
        item: &str,
        items: impl IntoIterator<Item = T>,
        mut inner: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        self.node(name, |xml| {
            for each in items {
                xml.node(item, |xml| inner(xml, each));
            }
        })
    }

    /// A list of plain values.
    pub fn values<T: Display>(&mut self, name: &str, items: impl IntoIterator<Item = T>) -> &mut Self {
        self.list(name, items, Self::escaped)
    }

    /// Tags as EC2 writes them.
    pub fn tags<'a>(&mut self, tags: impl IntoIterator<Item = (&'a String, &'a String)>) -> &mut Self {
        self.list("tagSet", tags, |xml, (key, value)| {
            xml.text("key", key).text("value", value);
        })
    }

    /// Text within the present element.
    pub fn raw_value(&mut self, value: &str) {
        escape(value, &mut self.text);
    }

    /// Appends what another writer has.
    pub fn append(&mut self, other: &Self) -> &mut Self {
        self.text.push_str(&other.text);
        self
    }

    /// The text written so far.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Text that is escaped as it is written.
struct Escaping<'a>(&'a mut String);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        escape(text, self.0);
        Ok(())
    }
}

/// Escapes markup, and the control characters that XML 1.0 knows no way to write become spaces.
fn escape(value: &str, into: &mut String) {
    let plain = |byte: u8| (b' '..0x7f).contains(&byte) && !matches!(byte, b'<' | b'>' | b'&' | b'"');
    if value.bytes().all(plain) {
        return into.push_str(value);
    }
    for c in value.chars() {
        match c {
            '<' => into.push_str("&lt;"),
            '>' => into.push_str("&gt;"),
            '&' => into.push_str("&amp;"),
            '"' => into.push_str("&quot;"),
            '\r' => into.push_str("&#13;"),
            c if c.is_control() && !matches!(c, '\t' | '\n') => into.push(' '),
            c => into.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_nest_and_values_are_escaped() {
        let mut xml = Xml::new();
        xml.text("a", "<&>\u{1}").opt("b", None::<u8>).list("set", [1, 2], |xml, n| {
            xml.text("n", n);
        });
        assert_eq!(xml.as_str(), "<a>&lt;&amp;&gt; </a><set><item><n>1</n></item><item><n>2</n></item></set>");
    }
}
