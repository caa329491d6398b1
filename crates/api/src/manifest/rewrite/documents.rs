//! A file's text cut into its documents, no byte lost.

/// A document: lines of the file, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Document<'t> {
    /// The line `---` before it, as it is written, if there is one.
    pub marker: Option<&'t str>,
    /// The line of the file on which [`Document::text`] begins, from 1.
    pub first: usize,
    /// Its text without the marker's line.
    pub text: &'t str,
}

impl Document<'_> {
    /// True if a line of the file is one of this document's, the marker's line included.
    pub fn has(&self, line: usize) -> bool {
        let from = self.first - usize::from(self.marker.is_some());
        (from..self.first + self.text.lines().count().max(1)).contains(&line)
    }
}

/// Cuts a text into documents. YAML lets a line that begins with `---` be nothing but the beginning of a document.
pub(super) fn documents(text: &str) -> Vec<Document<'_>> {
    let mut all = Vec::new();
    let (mut from, mut at, mut first) = (0, 0, 1);
    let mut marker = None;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if is_marker(line) {
            if marker.is_some() || !text[from..at].is_empty() {
                all.push(Document { marker, first, text: &text[from..at] });
            }
            marker = Some(line);
            from = at + line.len();
            first = index + 2;
        }
        at += line.len();
    }
    if marker.is_some() || from < text.len() {
        all.push(Document { marker, first, text: &text[from..] });
    }
    all
}

fn is_marker(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_cut_at_their_markers_and_no_byte_is_lost() {
        let text = "# head\n--- # one\na: 1\nb: |\n  --- no marker\n---\n---\nc: 1\n...\n";
        let all = documents(text);
        let whole: String = all.iter().map(|one| format!("{}{}", one.marker.unwrap_or_default(), one.text)).collect();
        assert_eq!(whole, text);
        let firsts: Vec<_> = all.iter().map(|one| one.first).collect();
        assert_eq!(firsts, [1, 3, 7, 8]);
        assert!(all[1].has(2) && all[1].has(5) && !all[1].has(6));
    }
}
