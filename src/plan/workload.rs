//! The workload file: JSON, plain or gzipped.

use std::io::Read as _;

use dovetail_core::Problem;

use super::Loaded;
use crate::input::{Mistake, describe};
use crate::stopwatch::Stopwatch;

/// More than this does not come out of a workload file that makes sense.
const MOST_BYTES: u64 = 1 << 30;

/// Reads a workload file.
pub fn load(path: &str) -> Result<Loaded, Vec<Mistake>> {
    let watch = Stopwatch::start();
    let text = read(path).map_err(|mistake| vec![mistake])?;
    let problem: Problem = serde_json::from_slice(&text).map_err(|error| vec![mistake(path, &text, &error)])?;
    let load = watch.elapsed();
    let faults = dovetail_core::faults::of(&problem);
    if !faults.is_empty() {
        let told = |fault: dovetail_core::faults::Fault| Mistake {
            file: path.to_owned(),
            line: 0,
            field: fault.field,
            what: fault.what,
            allowed: fault.allowed,
        };
        return Err(faults.into_iter().map(told).collect());
    }
    let warnings = dovetail_core::pack::warnings(&problem);
    Ok(Loaded { problem, load, warnings })
}

fn read(path: &str) -> Result<Vec<u8>, Mistake> {
    let raw = std::fs::read(path).map_err(|why| Mistake::of_file(path, describe(&why)))?;
    if !raw.starts_with(&[0x1f, 0x8b]) {
        return Ok(raw);
    }
    let mut text = Vec::with_capacity(raw.len() * 12);
    let mut decoder = flate2::read::MultiGzDecoder::new(&*raw).take(MOST_BYTES + 1);
    decoder.read_to_end(&mut text).map_err(|why| Mistake::of_file(path, format!("is not a whole gzip file: {why}")))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(Mistake::of_file(path, "is larger than 1 GiB when unpacked"));
    }
    Ok(text)
}

/// The reader's error with its line. Files on one line are helped by the column.
fn mistake(path: &str, text: &[u8], error: &serde_json::Error) -> Mistake {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Mistake::of_file(path, "is empty").allowing("a workload file (docs/commands.md)");
    }
    let full = error.to_string();
    let what = full.split(" at line ").next().unwrap_or(&full).to_owned();
    let what = format!("{what} (column {})", error.column());
    Mistake { file: path.to_owned(), line: error.line(), field: String::new(), what, allowed: String::new() }
}
