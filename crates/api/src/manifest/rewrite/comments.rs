//! The comments of a file, and what each of them is about.

use std::ops::Range;

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
    /// True if nothing but blanks stands before it on its line.
    pub alone: bool,
}

/// A place in a text: its line, from 1, and its column, from 0. Ordered as the text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    line: usize,
    column: usize,
}

impl Position {
    fn of_marker(marker: &saphyr_parser::Marker) -> Self {
        Self { line: marker.line(), column: marker.col() }
    }
}

/// Every comment of a file's text. What looks like one inside of a scalar is none.
pub(super) fn comments(text: &str) -> Vec<Comment> {
    let scalars = scalars(text);
    let inside = |line: usize, column: usize| {
        let at = Position { line, column };
        let before = scalars.partition_point(|scalar| scalar.start <= at);
        before > 0 && at < scalars[before - 1].end
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

/// Ranges of scalars that may have a `#` in them. A plain one has none: there, ` #` begins a comment.
fn scalars(text: &str) -> Vec<Range<Position>> {
    let lines: Vec<Vec<char>> = text.lines().map(|line| line.chars().collect()).collect();
    let events = Parser::new_from_str(text).map_while(Result::ok);
    let spans = events.filter_map(|(event, span)| match event {
        Event::Scalar(_, ScalarStyle::Plain, ..) => None,
        Event::Scalar(_, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted, ..) => {
            let start = Position::of_marker(&span.start);
            Some(start..closing(&lines, start))
        }
        Event::Scalar(..) => Some(Position::of_marker(&span.start)..Position::of_marker(&span.end)),
        _ => None,
    });
    spans.collect()
}

/// The end of a quoted scalar. The parser's own end lies beyond what follows it on its line.
fn closing(lines: &[Vec<char>], opening: Position) -> Position {
    let Position { mut line, mut column } = opening;
    let quote = lines.get(line - 1).and_then(|line| line.get(column)).copied().unwrap_or('"');
    column += 1;
    while let Some(written) = lines.get(line - 1) {
        match written.get(column) {
            None => (line, column) = (line + 1, 0),
            Some('\\') if quote == '"' => column += 2,
            Some(letter) if *letter == quote && quote == '\'' && written.get(column + 1) == Some(&quote) => column += 2,
            Some(letter) if *letter == quote => return Position { line, column: column + 1 },
            Some(_) => column += 1,
        }
    }
    Position { line, column }
}

/// The value that a comment is about: the one on its line, or the next one after it; none at the end of a document.
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
    fn comments_are_found_but_not_lookalikes_in_scalars() {
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
