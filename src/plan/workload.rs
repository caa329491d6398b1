//! The workload file: JSON, plain or gzipped.

use std::sync::Arc;

use dovetail_core::Problem;
use dovetail_input::{Mistake, read_all, read_bytes};
use dovetail_telemetry::stopwatch::Stopwatch;

use super::{Loaded, census};

/// Longest workload file, bytes, packed and unpacked: 200,000 pods have some 50 MB.
const MOST_BYTES: u64 = 64 << 20;

/// Reads a workload file.
pub fn load(path: &str) -> Result<Loaded, Vec<Mistake>> {
    let watch = Stopwatch::start();
    let text = read_workload(path).map_err(|mistake| vec![mistake])?;
    census::check(&text).map_err(|error| vec![mistake(path, &text, &error)])?;
    let mut problem: Problem = serde_json::from_slice(&text).map_err(|error| vec![mistake(path, &text, &error)])?;
    problem.existing_nodes.iter_mut().for_each(dovetail_core::problem::ExistingNode::count_used);
    let load = watch.elapsed();
    let faults = dovetail_core::faults::find_faults(&problem);
    if !faults.is_empty() {
        let mistake = |fault: dovetail_core::faults::Fault| Mistake {
            file: path.to_owned(),
            line: 0,
            field: fault.field,
            what: fault.what,
            allowed: fault.allowed,
        };
        return Err(faults.into_iter().map(mistake).collect());
    }
    let warnings = dovetail_core::pack::warnings(&problem);
    Ok(Loaded {
        problem: Arc::new(problem),
        load,
        warnings,
        passed_over: None,
        live: None,
        baseline: None,
        static_pools: Vec::new(),
        commitments: Arc::default(),
        running: None,
        buffers: Default::default(),
        overlays: Vec::new(),
        quotas: Vec::new(),
        devices: None,
        gangs: Default::default(),
    })
}

fn read_workload(path: &str) -> Result<Vec<u8>, Mistake> {
    let raw = read_bytes(path, MOST_BYTES)?;
    if !raw.starts_with(&[0x1f, 0x8b]) {
        return Ok(raw);
    }
    let unpacked = read_all(path, flate2::read::MultiGzDecoder::new(&*raw), MOST_BYTES);
    unpacked.map_err(|mistake| match mistake.line {
        0 => Mistake { what: format!("is not a whole gzip file: {}", mistake.what), ..mistake },
        _ => Mistake { what: format!("{} when unpacked", mistake.what), ..mistake },
    })
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
