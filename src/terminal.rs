//! The control plane's log events as lines on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Mutex, PoisonError};

use dovetail_actors::telemetry::log_event::Level;
use dovetail_simulation::JournalLine;
use jiff::Timestamp;

use crate::cli::SandboxLogFormat;

/// One aligned line: time, replica, actor, what happened. A terminal that has gone away is no reason to stop.
pub fn print_plain(line: &JournalLine) {
    let _ = writeln!(std::io::stdout(), "{}", plain(line));
}

/// The line as text.
pub fn plain(line: &JournalLine) -> String {
    format!("{:>9.3}s  {}  {:<15} {}", line.seconds, who(line), line.actor, line.text)
}

/// The number of the replica that says so; a step of the scenario is nobody's.
fn who(line: &JournalLine) -> String {
    line.replica.map_or_else(|| "-".to_owned(), |replica| replica.to_string())
}

/// The line as JSON.
pub fn json(line: &JournalLine) -> String {
    let mut entry = serde_json::Map::new();
    entry.insert("t".to_owned(), line.seconds.into());
    entry.insert("replica".to_owned(), line.replica.into());
    entry.insert("actor".to_owned(), line.actor.into());
    entry.insert("event".to_owned(), line.event.into());
    entry.insert("message".to_owned(), line.text.clone().into());
    entry.extend(line.fields.clone());
    serde_json::Value::Object(entry).to_string()
}

/// Meanings of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Faint,
    Actor,
    Plain,
    Plan,
    Begins,
    Good,
    Care,
    Bad,
}

impl Tone {
    fn from_line(line: &JournalLine) -> Self {
        match (line.level, line.event) {
            (Level::Error, _) => Tone::Bad,
            (Level::Warn, _) => Tone::Care,
            (_, "elected" | "registered" | "initialized" | "bound" | "recovered") => Tone::Good,
            (_, "batched" | "packing_computed" | "fits_existing") => Tone::Plan,
            (_, "nodeclaim_created" | "launched" | "adopted") => Tone::Begins,
            (_, "deposed" | "offering_refused" | "retrying" | "nodeclaim_deleted") => Tone::Care,
            _ => Tone::Plain,
        }
    }

    /// The escape sequence of one of the sixteen colours, which every terminal's theme makes readable.
    fn code(self) -> &'static str {
        match self {
            Tone::Faint => "\x1b[2m",
            Tone::Actor => "\x1b[36m",
            Tone::Plain => "",
            Tone::Plan => "\x1b[1m",
            Tone::Begins => "\x1b[34m",
            Tone::Good => "\x1b[32m",
            Tone::Care => "\x1b[33m",
            Tone::Bad => "\x1b[31m",
        }
    }

    fn paint(self, text: &str) -> String {
        if self == Tone::Plain { text.to_owned() } else { format!("{}{text}\x1b[0m", self.code()) }
    }
}

/// The line in colours.
fn coloured(line: &JournalLine) -> String {
    let head = Tone::Faint.paint(&format!("{:>9.3}s  {}", line.seconds, who(line)));
    let actor = Tone::Actor.paint(&format!("{:<15}", line.actor));
    format!("{head}  {actor} {}", Tone::from_line(line).paint(&line.text))
}

/// Takes back the line that the cursor is in.
const CLEAR: &str = "\r\x1b[2K";

/// Writer of log events as they happen: lines, and on a terminal one more below them, of what is on its way.
pub struct Screen {
    format: SandboxLogFormat,
    terminal: bool,
    colours: bool,
    /// True if log events are not shown.
    quiet: bool,
    progress: Mutex<String>,
}

impl Screen {
    /// Standard output as it is: colours and progress on a terminal only, no colours where NO_COLOR is set.
    pub fn new(format: SandboxLogFormat, quiet: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dumb = set("TERM").is_none_or(|term| term == "dumb");
        let terminal = !quiet && format == SandboxLogFormat::Text && std::io::stdout().is_terminal() && !dumb;
        Self { format, terminal, colours: terminal && set("NO_COLOR").is_none(), quiet, progress: Mutex::default() }
    }

    /// Prints a line.
    pub fn emit(&self, line: &JournalLine) {
        match self.format {
            _ if self.quiet => {}
            SandboxLogFormat::Json => self.print(&json(line)),
            SandboxLogFormat::Text if self.colours => self.print(&coloured(line)),
            SandboxLogFormat::Text => self.print(&plain(line)),
        }
    }

    /// Something of the sandbox's own, on standard error where standard output is for a machine.
    pub fn say(&self, text: &str) {
        match self.format {
            SandboxLogFormat::Text => self.print(text),
            SandboxLogFormat::Json => drop(writeln!(std::io::stderr(), "{text}")),
        }
    }

    /// The line as the log of the replica's pod has it.
    pub fn logged(&self, line: &JournalLine, at: Timestamp) -> String {
        match self.format {
            SandboxLogFormat::Json => json(line),
            SandboxLogFormat::Text => {
                let level = match line.level {
                    Level::Error => "ERROR",
                    Level::Warn => "WARN",
                    Level::Info | Level::Debug => "INFO",
                };
                format!("{at:.3}  {level:<5}  {:<15} {}", line.actor, line.text)
            }
        }
    }

    /// True if there is a place for the line of progress.
    pub fn has_progress(&self) -> bool {
        self.terminal
    }

    /// Shows the line of progress; an empty one is removed.
    pub fn progress(&self, text: &str) {
        let mut shown = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if *shown != text {
            let painted = if self.colours { Tone::Faint.paint(text) } else { text.to_owned() };
            let _ = write!(std::io::stdout(), "{CLEAR}{painted}").and_then(|()| std::io::stdout().flush());
            text.clone_into(&mut shown);
        }
    }

    fn print(&self, text: &str) {
        let mut shown = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let before = if shown.is_empty() { "" } else { CLEAR };
        // It comes back below the new line by itself.
        shown.clear();
        let _ = writeln!(std::io::stdout(), "{before}{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(event: &'static str, level: Level) -> JournalLine {
        JournalLine {
            seconds: 1.5,
            replica: Some(0),
            actor: "packer",
            level,
            event,
            text: "batched 400 pods in 1.0s".to_owned(),
            fields: serde_json::Map::new(),
            trace_id: String::new(),
        }
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let line = line("batched", Level::Info);
        let mut bare = coloured(&line);
        for tone in [Tone::Faint, Tone::Actor, Tone::Plan] {
            bare = bare.replace(tone.code(), "");
        }
        assert_eq!(bare.replace("\x1b[0m", ""), plain(&line));
    }

    #[test]
    fn an_error_is_red_whatever_it_is_called() {
        assert_eq!(Tone::from_line(&line("bound", Level::Error)), Tone::Bad);
        assert_eq!(Tone::from_line(&line("bound", Level::Info)), Tone::Good);
    }
}
