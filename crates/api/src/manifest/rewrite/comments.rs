//! The comments of a file, and what each of them is about.

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::paths::PlacedValue;
use crate::schema::FieldPath;

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

/// Where scalars stand that may have a `#` in them, from (line, column) to (line, column): in a plain one, ` #` begins a comment.
fn scalars(text: &str) -> Vec<((usize, usize), (usize, usize))> {
    let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
    let events = Parser::new_from_str(text).map_while(Result::ok);
    let spans = events.filter_map(|(event, span)| match event {
        Event::Scalar(_, ScalarStyle::Plain, ..) => None,
        Event::Scalar(_, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted, ..) => {
            let from = (span.start.line(), span.start.col());
            Some((from, closing(&lines, from)))
        }
        Event::Scalar(..) => Some(((span.start.line(), span.start.col()), (span.end.line(), span.end.col()))),
        _ => None,
    });
    spans.collect()
}

/// Where a quoted scalar ends. The parser's own end lies beyond what follows it on its line.
fn closing(lines: &[Vec<char>], from: (usize, usize)) -> (usize, usize) {
    let (mut line, mut column) = (from.0, from.1 + 1);
    let quote = lines.get(line - 1).and_then(|line| line.get(from.1)).copied().unwrap_or('"');
    while let Some(written) = lines.get(line - 1) {
        match written.get(column) {
            None => (line, column) = (line + 1, 0),
            Some('\\') if quote == '"' => column += 2,
            Some(letter) if *letter == quote && quote == '\'' && written.get(column + 1) == Some(&quote) => column += 2,
            Some(letter) if *letter == quote => return (line, column + 1),
            Some(_) => column += 1,
        }
    }
    (line, column)
}

/// What a comment is about: the value on its line, or the next one after it; none at the end of a document.
pub(super) fn subject<'p>(comment: &Comment, placed: &'p [PlacedValue]) -> Option<&'p FieldPath> {
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
        let text = "# one\na: 'x # no' # two\nb: |\n  # no\n  text # no\n# three\nc: a#no\nd: \"y\n  # no\"\ne: [\"a \\\" # no\", 'b''c'] # four\n";
        let found: Vec<_> = comments(text).into_iter().map(|one| (one.line, one.text, one.alone)).collect();
        let expected = [
            (1, "# one".to_owned(), true),
            (2, "# two".to_owned(), false),
            (6, "# three".to_owned(), true),
            (10, "# four".to_owned(), false),
        ];
        assert_eq!(found, expected);
    }
}
