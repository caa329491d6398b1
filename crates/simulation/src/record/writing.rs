//! Writes a record, line by line: one that is interrupted is whole up to its last look.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use dovetail_api::manifest::Manifest;
use dovetail_input::{Failure, describe};
use serde_json::{Map, Value};

use super::{RecordBegin, RecordLine, Seen, SeenAt};

/// A record that is being written.
pub struct RecordWriter {
    path: String,
    file: BufWriter<File>,
    lines: u64,
}

impl RecordWriter {
    /// Creates the file and writes the first line.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(path: &str, begin: RecordBegin) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|why| Failure::System(format!("{path}: {}", describe(&why))))?;
        let mut writer = Self { path: path.to_owned(), file: BufWriter::new(file), lines: 0 };
        writer.write(&RecordLine::Begin(begin))?;
        Ok(writer)
    }

    fn write(&mut self, line: &RecordLine) -> Result<(), Failure> {
        let failed = |why: String| Failure::System(format!("{}: {why}", self.path));
        let text = serde_json::to_string(line).map_err(|why| failed(why.to_string()))?;
        writeln!(self.file, "{text}").map_err(|why| failed(describe(&why)))?;
        self.lines += 1;
        Ok(())
    }

    /// Objects that come or change.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn apply(&mut self, t: f64, objects: Vec<Value>) -> Result<(), Failure> {
        if objects.is_empty() { Ok(()) } else { self.write(&RecordLine::Apply { t, objects }) }
    }

    /// Manifests as they were read.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn apply_manifests(&mut self, t: f64, manifests: &[Manifest]) -> Result<(), Failure> {
        self.apply(t, manifests.iter().map(|manifest| manifest.object.clone()).collect())
    }

    /// A step of a scenario.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn step(&mut self, t: f64, step: Map<String, Value>) -> Result<(), Failure> {
        self.write(&RecordLine::Step { t, step })
    }

    /// A look, and everything before it onto the disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn seen(&mut self, t: f64, seen: Seen) -> Result<(), Failure> {
        self.write(&RecordLine::Seen(SeenAt { t, seen }))?;
        self.flush()
    }

    /// The last line.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(mut self, t: f64) -> Result<(), Failure> {
        let lines = self.lines;
        self.write(&RecordLine::End { t, lines })?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.file.flush().map_err(|why| Failure::System(format!("{}: {}", self.path, describe(&why))))
    }
}
