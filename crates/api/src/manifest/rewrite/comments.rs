//! The comments of a file, and what each of them is about.

use saphyr_parser::{Event, Parser};

use super::paths::Placed;
use crate::schema::Path;

/// A comment as it is written, from `#` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comment {
    /// Its line in the file, from 1.
    pub line: usize,
    /// From `#` to the end of the line.
    pub text: String,
    /// Whether nothing but blanks stands before it on its line.
    pub alone: bool,
}

/// Every comment of a file's text. What looks like one inside of a scalar is none.
pub(super) fn comments(text: &str) -> Vec<Comment> {
    let scalars = scalars(text);
    let inside = |line: usize, column: usize| {
        let at = (line, column);
        let before = scalars.partition_point(|(from, _)| *from <= at);
        before > 0 && at < scalars[before - 1].1
    };
    let mut all = Vec::new();
    for (index, written) in text.lines().enumerate() {
        let line = index + 1;
        let mut before = None;
        for (column, letter) in written.chars().enumerate() {
            let begins = before.is_none_or(|before: char| before == ' ' || before == '\t');
            if letter == '#' && begins && !inside(line, column) {
                let text: String = written.chars().skip(column).collect();
                let alone = written.chars().take(column).all(char::is_whitespace);
                all.push(Comment { line, text: text.trim_end().to_owned(), alone });
                break;
            }
            before = Some(letter);
        }
    }
    all
}

/// Where scalars stand, from (line, column) to (line, column).
fn scalars(text: &str) -> Vec<((usize, usize), (usize, usize))> {
    let events = Parser::new_from_str(text).map_while(Result::ok);
    let spans = events.filter(|(event, _)| matches!(event, Event::Scalar(..)));
    spans.map(|(_, span)| ((span.start.line(), span.start.col()), (span.end.line(), span.end.col()))).collect()
}

/// What a comment is about: the value on its line, or the next one after it; none at the end of a document.
pub(super) fn subject<'p>(comment: &Comment, placed: &'p [Placed]) -> Option<&'p Path> {
    let of = if comment.alone {
        placed.iter().find(|one| one.line > comment.line && !one.path.0.is_empty())
    } else {
        placed.iter().rfind(|one| one.line == comment.line)
    };
    of.map(|one| &one.path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_and_what_looks_like_one_in_a_scalar_is_none() {
        let text = "# one\na: 'x # no' # two\nb: |\n  # no\n  text # no\n# three\nc: a#no\nd: \"y\n  # no\"\n";
        let found: Vec<_> = comments(text).into_iter().map(|one| (one.line, one.text, one.alone)).collect();
        let expected = [(1, "# one".to_owned(), true), (2, "# two".to_owned(), false), (6, "# three".to_owned(), true)];
        assert_eq!(found, expected);
    }
}
