//! Filling `${NAME}` from the environment that the user gives.
//!
//! Before the YAML is parsed each `${NAME}` becomes a mark that is harmless in any scalar, and the mark becomes the value
//! when the scalar is read. So comments need no value, a value cannot break the YAML, and a plain `${COUNT}` is a number.
//! `$${NAME}` is the text `${NAME}` itself; other forms (`$NAME`, `${NAME:-x}`) are left as they are.

use std::collections::{BTreeMap, BTreeSet};

const OPEN: char = '\u{E000}';
const CLOSE: char = '\u{E001}';

/// A variable where it is used.
#[derive(Debug)]
struct Use {
    name: String,
    line: usize,
    literal: bool,
}

/// The marks of one file.
#[derive(Debug, Default)]
pub(super) struct FileMarks {
    uses: Vec<Use>,
    /// Uses of variables that are not set, by name, found while scalars are read.
    unset: BTreeMap<String, BTreeSet<usize>>,
    /// Lines on which a scalar is nothing but variables that are not set.
    unknown: BTreeSet<usize>,
    /// Scalars that hold more than such a variable: what stands in for them, and what was written.
    stand_ins: Vec<(String, String)>,
    /// The line on which there were too many.
    beyond: Option<usize>,
}

/// So many scalars with stand-ins are told as they were written.
const MOST_STAND_INS: usize = 1_000;

/// The name in the `${NAME}` that a text begins with.
pub(super) fn name_at(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("${")?;
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (begins && after.starts_with('}')).then_some(name)
}

/// Puts marks in place of variables, so many at most.
pub(super) fn mark(text: &str, most: usize) -> (String, FileMarks) {
    let mut marked = String::with_capacity(text.len());
    let mut marks = FileMarks::default();
    let mut rest = text;
    let mut line = 1;
    while let Some(at) = rest.find("${") {
        if marks.uses.len() >= most {
            marks.beyond = Some(line);
            break;
        }
        let (before, after) = rest.split_at(at);
        line += before.matches('\n').count();
        let Some(name) = name_at(after) else {
            marked.push_str(before);
            marked.push_str("${");
            rest = &after[2..];
            continue;
        };
        let literal = before.ends_with('$');
        marked.push_str(if literal { &before[..before.len() - 1] } else { before });
        marked.push(OPEN);
        marked.push_str(&marks.uses.len().to_string());
        marked.push(CLOSE);
        marks.uses.push(Use { name: name.into(), line, literal });
        rest = &after["${}".len() + name.len()..];
    }
    marked.push_str(rest);
    (marked, marks)
}

impl FileMarks {
    /// Puts values in place of marks. In place of a variable that is not set stands `1` if there is other text around it, so
    /// that a mistake in that text is still found.
    pub fn fill(&mut self, text: &str, env: &BTreeMap<String, String>) -> String {
        if self.uses.is_empty() || !text.contains(OPEN) {
            return text.into();
        }
        let (mut filled, mut written) = (String::with_capacity(text.len()), String::new());
        let mut lines = BTreeSet::new();
        let mut bare = true;
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(OPEN) {
            let used = after
                .split_once(CLOSE)
                .and_then(|(index, tail)| Some((self.uses.get(index.parse::<usize>().ok()?)?, tail)));
            bare &= before.is_empty() && used.is_some();
            filled.push_str(before);
            written.push_str(before);
            let Some((used, tail)) = used else {
                filled.push(OPEN);
                written.push(OPEN);
                rest = after;
                continue;
            };
            let name = format!("${{{}}}", used.name);
            match env.get(&used.name) {
                _ if used.literal => filled.push_str(&name),
                Some(value) => filled.push_str(value),
                None => {
                    lines.insert(used.line);
                    self.unset.entry(used.name.clone()).or_default().insert(used.line);
                    filled.push('1');
                }
            }
            written.push_str(&name);
            rest = tail;
        }
        filled.push_str(rest);
        written.push_str(rest);
        if lines.is_empty() {
            return filled;
        }
        if bare && rest.is_empty() {
            self.unknown.append(&mut lines);
            return written;
        }
        if self.stand_ins.len() < MOST_STAND_INS {
            self.stand_ins.push((filled.clone(), written));
        }
        filled
    }

    /// The bytes of a text with values in place of marks, counted before they are: one text may use a long value often.
    pub fn filled_bytes(&self, text: &str, env: &BTreeMap<String, String>) -> usize {
        let mut bytes = text.len();
        for part in text.split(OPEN).skip(1) {
            let used = part.split_once(CLOSE).and_then(|(index, _)| self.uses.get(index.parse::<usize>().ok()?));
            let value =
                used.map(|used| env.get(&used.name).filter(|_| !used.literal).map_or(used.name.len(), String::len));
            bytes = bytes.saturating_add(value.unwrap_or_default());
        }
        bytes
    }

    /// The line on which there were more variables than are filled.
    pub fn beyond(&self) -> Option<usize> {
        self.beyond
    }

    /// True if a variable without a value is the only mistake on that line.
    pub fn explains(&self, line: usize) -> bool {
        self.unknown.contains(&line)
    }

    /// A message with what was written in place of what stood in for it.
    pub fn as_written(&self, message: &str) -> String {
        let shown = self.stand_ins.iter().map(|(filled, written)| (format!("{filled:?}"), format!("{written:?}")));
        shown.fold(message.to_string(), |message, (filled, written)| message.replace(&filled, &written))
    }

    /// Variables that are used and not set, with the lines of their uses.
    pub fn unset(&self) -> &BTreeMap<String, BTreeSet<usize>> {
        &self.unset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> (String, Vec<String>) {
        let env = [("A".to_string(), "x".to_string())].into();
        let (marked, mut marks) = mark(text, 100);
        let filled = marks.fill(&marked, &env);
        (filled, marks.unset().iter().map(|(name, lines)| format!("{name}{lines:?}")).collect())
    }

    #[test]
    fn names_in_braces_are_filled_and_nothing_else() {
        assert_eq!(filled("${A}-$A-${A:-y}-${}-${1}-$${A}-${A"), ("x-$A-${A:-y}-${}-${1}-${A}-${A".into(), vec![]));
        assert_eq!(filled("\u{E000}9\u{E001}${A}"), ("\u{E000}9\u{E001}x".into(), vec![]));
    }

    #[test]
    fn an_unset_variable_is_known_by_its_lines() {
        assert_eq!(filled("${B}\n${A} ${B}").1, ["B{1, 2}"]);
        assert_eq!(filled("a-${B}\"").0, "a-1\"");
        assert_eq!(filled("${B}").0, "${B}");
    }
}
