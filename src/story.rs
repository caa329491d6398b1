//! The control plane's story as lines on a terminal.

use std::io::Write as _;

use crate::world::Line;

/// One aligned line: time, replica, actor, what happened. A terminal that has gone away is no reason to stop.
pub fn print_plain(line: &Line) {
    let _ = writeln!(std::io::stdout(), "{}", plain(line));
}

/// The line as text.
pub fn plain(line: &Line) -> String {
    format!("{:>9.3}s  {}  {:<15} {}", line.seconds, line.replica, line.actor, line.text)
}

/// One line of JSON.
pub fn print_json(line: &Line) {
    let mut entry = serde_json::Map::new();
    entry.insert("t".to_owned(), line.seconds.into());
    entry.insert("replica".to_owned(), line.replica.into());
    entry.insert("actor".to_owned(), line.actor.into());
    entry.insert("event".to_owned(), line.event.into());
    entry.insert("message".to_owned(), line.text.clone().into());
    entry.extend(line.fields.clone());
    let _ = writeln!(std::io::stdout(), "{}", serde_json::Value::Object(entry));
}
