//! The workload files that tests and benches pack.

use std::path::Path;
use std::process::Command;

/// The workload of that name as JSON, made by the repository's tests/workloads/make.py.
pub fn workload(name: &str) -> Vec<u8> {
    let maker = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/workloads/make.py");
    let made = Command::new("python3").arg(maker).arg(name).output().unwrap();
    assert!(made.status.success(), "{name}: {}", String::from_utf8_lossy(&made.stderr));
    made.stdout
}
