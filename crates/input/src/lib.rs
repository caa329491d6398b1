//! Mistakes in a user's input: one line each on standard error, exit status 2, nothing on standard output.

pub mod manifests;

use std::fmt;
use std::io::Read as _;

/// A mistake in the input, with its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// The file, or the flag or variable, as the user named it.
    pub file: String,
    /// The line, from 1; 0 where the whole file is meant.
    pub line: usize,
    /// The field (`steps[2].at`), or empty where the place says enough.
    pub field: String,
    /// The fault, as the rest of a sentence about the place.
    pub what: String,
    /// The allowed values, or empty.
    pub allowed: String,
}

impl Mistake {
    /// A mistake in a whole file, flag or variable.
    pub fn of_file(file: impl Into<String>, what: impl Into<String>) -> Self {
        Self { file: file.into(), line: 0, field: String::new(), what: what.into(), allowed: String::new() }
    }

    /// Adds the allowed values.
    #[must_use]
    pub fn allowing(mut self, allowed: impl Into<String>) -> Self {
        self.allowed = allowed.into();
        self
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.what)?;
        if !self.allowed.is_empty() {
            write!(f, " (allowed: {})", self.allowed)?;
        }
        Ok(())
    }
}

impl From<dovetail_api::manifest::InputError> for Mistake {
    fn from(error: dovetail_api::manifest::InputError) -> Self {
        Self { file: error.file, line: error.line, field: error.field, what: error.what, allowed: error.allowed }
    }
}

/// The reason that a command did not end well.
#[derive(Debug)]
pub enum Failure {
    /// Bad input: exit status 2.
    Input(Vec<Mistake>),
    /// The result is not as asked for, and has been reported: exit status 1.
    Outcome,
    /// Something outside of us failed (a file could not be written, a port is taken): exit status 1.
    System(String),
}

impl From<Vec<Mistake>> for Failure {
    fn from(mistakes: Vec<Mistake>) -> Self {
        Self::Input(mistakes)
    }
}

impl From<Mistake> for Failure {
    fn from(mistake: Mistake) -> Self {
        Self::Input(vec![mistake])
    }
}

/// Most bytes of text that are read: manifests, a scenario, variables.
pub const MOST_TEXT: u64 = 8 << 20;

/// Reads everything from a source, at most `most` bytes: a device or a pipe may have no end.
pub fn read_all(path: &str, from: impl std::io::Read, most: u64) -> Result<Vec<u8>, Mistake> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes).map_err(|why| Mistake::of_file(path, describe(&why)))?;
    if bytes.len() as u64 > most {
        let what = format!("holds more than {} MiB", most >> 20);
        return Err(Mistake { line: 1, ..Mistake::of_file(path, what) }.allowing(format!("{} MiB at most", most >> 20)));
    }
    Ok(bytes)
}

/// The bytes of a file that the user named.
pub fn read_bytes(path: &str, most: u64) -> Result<Vec<u8>, Mistake> {
    let file = std::fs::File::open(path).map_err(|why| Mistake::of_file(path, describe(&why)))?;
    read_all(path, file, most)
}

/// The text of a file that the user named.
pub fn read_text(path: &str) -> Result<String, Mistake> {
    as_text(path, read_bytes(path, MOST_TEXT)?)
}

/// Bytes of a file as UTF-8 text.
pub fn as_text(path: &str, bytes: Vec<u8>) -> Result<String, Mistake> {
    String::from_utf8(bytes).map_err(|_| Mistake::of_file(path, "is not UTF-8 text"))
}

/// An I/O error in words, without the system's numbers.
pub fn describe(why: &std::io::Error) -> String {
    match why.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "may not be read".to_owned(),
        std::io::ErrorKind::IsADirectory => "is a directory, not a file".to_owned(),
        _ => why.to_string(),
    }
}

/// `--env K=V` and `--env-file`: later ones win, `--env` wins over files.
pub fn environment(
    pairs: &[String],
    files: &[String],
) -> Result<std::collections::BTreeMap<String, String>, Vec<Mistake>> {
    let mut found = std::collections::BTreeMap::new();
    let mut mistakes = Vec::new();
    for file in files {
        match read_text(file) {
            Ok(text) => {
                for (index, line) in text.lines().enumerate() {
                    let line = line.trim();
                    if line.is_empty() || line.starts_with('#') {
                        continue;
                    }
                    match pair(line.strip_prefix("export ").unwrap_or(line)) {
                        Some((key, value)) => drop(found.insert(key, unquoted(&value))),
                        None => mistakes.push(Mistake { line: index + 1, ..not_a_pair(file, line) }),
                    }
                }
            }
            Err(mistake) => mistakes.push(mistake),
        }
    }
    for text in pairs {
        match pair(text) {
            Some((key, value)) => drop(found.insert(key, value)),
            None => mistakes.push(not_a_pair("--env", text)),
        }
    }
    if mistakes.is_empty() { Ok(found) } else { Err(mistakes) }
}

fn not_a_pair(place: &str, text: &str) -> Mistake {
    Mistake::of_file(place, format!("{text:?} is not NAME=VALUE"))
        .allowing("a name of letters, digits and _, then =, then the value")
}

fn pair(text: &str) -> Option<(String, String)> {
    let (key, value) = text.split_once('=')?;
    let starts_well = key.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let is_name = starts_well && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| (key.to_owned(), value.to_owned()))
}

/// A value without the quotes that shells and tools that print JSON leave around it.
fn unquoted(value: &str) -> String {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner.to_owned();
        }
    }
    value.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_names_file_line_field_and_what_is_allowed() {
        let mistake = Mistake {
            file: "a.yaml".into(),
            line: 3,
            field: "spec.x".into(),
            what: "is odd".into(),
            allowed: "even".into(),
        };
        assert_eq!(mistake.to_string(), "a.yaml:3: spec.x: is odd (allowed: even)");
    }

    #[test]
    fn environment_takes_pairs_and_refuses_the_rest() {
        let found = environment(&["A=1".into(), "B=x=y".into()], &[]).unwrap_or_default();
        assert_eq!(found.get("B").map(String::as_str), Some("x=y"));
        assert!(environment(&["=1".into()], &[]).is_err());
        assert!(environment(&["novalue".into()], &[]).is_err());
    }
}
