//! Reads a record. One that was cut short is read as far as it goes, and says so.

use dovetail_input::{Mistake, as_text, read_bytes};

use super::{RecordBegin, RecordLine, Series, VERSION};

/// Longest record, bytes: a day of 3,000 looks at a large cluster is some 20 MB.
const MOST_BYTES: u64 = 128 << 20;
/// Longest record, seconds: a month.
const MOST_SECONDS: f64 = 31.0 * 86_400.0;

/// The place where a record ends before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of whole lines.
    pub lines: usize,
    /// Seconds that they cover.
    pub seconds: u64,
}

/// A record as it was read.
#[derive(Clone, Debug)]
pub struct Record {
    pub begin: RecordBegin,
    /// Objects and steps, in order.
    pub happened: Vec<RecordLine>,
    pub series: Series,
    /// Seconds from its beginning to its end.
    pub seconds: f64,
    /// Set if it was cut short.
    pub cut: Option<Cut>,
}

impl Record {
    /// Reads a file.
    ///
    /// # Errors
    /// No record, or a line that is none where more lines follow.
    pub fn from_file(path: &str) -> Result<Self, Mistake> {
        let mut bytes = read_bytes(path, MOST_BYTES)?;
        // A record may be cut within a letter.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let torn = bytes.len() > whole;
        bytes.truncate(whole);
        Self::from_text(path, &as_text(path, bytes)?, torn)
    }

    fn from_text(path: &str, text: &str, torn: bool) -> Result<Self, Mistake> {
        let wrong = |line: usize, what: String| Mistake { line, ..Mistake::of_file(path, what) };
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let no_record =
            |line, what| wrong(line, what).allowing("a record, as dovetail record and simulate --record write it");
        let begin = match lines.next() {
            None => return Err(no_record(0, "holds no whole line".to_owned())),
            Some((at, line)) => match serde_json::from_str(line) {
                Ok(RecordLine::Begin(begin)) => begin,
                Ok(_) => return Err(no_record(at, "is not the beginning of a record".to_owned())),
                Err(why) => return Err(no_record(at, sentence(&why))),
            },
        };
        if begin.version != VERSION {
            let what = format!("is a record of version {}", begin.version);
            return Err(wrong(1, what).allowing(format!("version {VERSION}")));
        }
        let (mut happened, mut series, mut seconds, mut count, mut ended) = (vec![], Series::default(), 0.0, 1, false);
        for (at, line) in lines {
            if ended {
                return Err(wrong(at, "comes after the end of the record".to_owned()));
            }
            let line: RecordLine = serde_json::from_str(line).map_err(|why| no_record(at, sentence(&why)))?;
            let t = line.seconds();
            if !(seconds..=MOST_SECONDS).contains(&t) {
                return Err(wrong(at, format!("t is {t} after {seconds}")).allowing("times in order, a month at most"));
            }
            seconds = t;
            match line {
                RecordLine::Begin(_) => return Err(wrong(at, "is a second beginning".to_owned())),
                RecordLine::Seen(seen) => series.all.push(seen),
                RecordLine::End { lines, .. } if lines != count => {
                    return Err(wrong(at, format!("there are {count} lines before it, not {lines}: some are missing")));
                }
                RecordLine::End { .. } => ended = true,
                line => happened.push(line),
            }
            count += 1;
        }
        let cut = (torn || !ended)
            .then(|| Cut { lines: usize::try_from(count).unwrap_or(usize::MAX), seconds: seconds as u64 });
        Ok(Self { begin, happened, series, seconds, cut })
    }

    /// A sentence about where it was cut.
    #[must_use]
    pub fn cut_sentence(&self, path: &str) -> Option<String> {
        let cut = self.cut.as_ref()?;
        let minutes = cut.seconds / 60;
        Some(format!(
            "{path}: the record was cut short: its {} whole lines cover {minutes}m{}s, and count as all of it",
            cut.lines,
            cut.seconds % 60
        ))
    }
}

fn sentence(why: &serde_json::Error) -> String {
    let full = why.to_string();
    full.split(" at line ").next().unwrap_or(&full).to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const BEGIN: &str = r#"{"line":"begin","version":1,"source":"cluster","started":"","every":30.0,"hashed":false,"prices":"","scenario":{}}"#;
    const SEEN: &str = r#"{"line":"seen","t":30.0,"nodes":[],"pricePerHour":1.0,"bound":1,"pending":0,"requestedCpu":1.0,"requestedMemory":1.0,"allocatableCpu":2.0,"allocatableMemory":4.0,"launched":1,"ended":0}"#;

    fn read(text: &str, torn: bool) -> Result<Record, String> {
        Record::from_text("r", text, torn).map_err(|why| why.to_string())
    }

    #[test]
    fn whole_record_is_told_from_one_that_was_cut() {
        let whole = format!("{BEGIN}\n{SEEN}\n{{\"line\":\"end\",\"t\":60.0,\"lines\":2}}\n");
        let record = read(&whole, false).unwrap();
        assert_eq!((record.cut.as_ref(), record.seconds, record.series.all.len()), (None, 60.0, 1));
        let short = read(&format!("{BEGIN}\n{SEEN}\n"), true).unwrap();
        assert_eq!(short.cut, Some(Cut { lines: 2, seconds: 30 }));
        assert!(short.cut_sentence("r").unwrap().contains("its 2 whole lines cover 0m30s"));
    }

    #[test]
    fn lines_that_are_none_are_refused_with_their_place() {
        for (text, said) in [
            (String::new(), "r: holds no whole line"),
            ("{}\n".to_owned(), "r:1: missing field"),
            (format!("{SEEN}\n"), "r:1: is not the beginning"),
            (format!("{BEGIN}\n{{\"line\":\"step\"\n{SEEN}\n"), "r:2: EOF"),
            (
                format!("{BEGIN}\n{SEEN}\n{{\"line\":\"end\",\"t\":60.0,\"lines\":9}}\n"),
                "r:3: there are 2 lines before it",
            ),
            (format!("{BEGIN}\n{SEEN}\n{{\"line\":\"end\",\"t\":1.0,\"lines\":2}}\n"), "r:3: t is 1 after 30"),
            (BEGIN.replace("\"version\":1", "\"version\":2") + "\n", "r:1: is a record of version 2"),
        ] {
            let why = read(&text, false).unwrap_err();
            assert!(why.starts_with(said), "{why}");
        }
    }
}
