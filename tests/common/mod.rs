//! Helpers that tests of the binary from outside share.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

pub mod live;
pub mod manifests;
pub mod page;
pub mod real;
pub mod spans;

use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The repository's root.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A manifest of the posts.
pub fn post(file: &str) -> PathBuf {
    let found = root().join("tests/fixtures/posts").join(file);
    assert!(found.is_file(), "{} is not there", found.display());
    found
}

/// A workload file of that name, made by tests/workloads/make.py.
#[track_caller]
pub fn workload(name: &str) -> PathBuf {
    let file = scratch(&format!("{name}.json.gz"));
    let made = python(&["tests/workloads/make.py", name, arg(&file)]);
    assert!(made.status.success(), "{name}: {}", stderr(&made));
    file
}

/// Runs the binary.
pub fn dovetail(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dovetail"))
        .args(args)
        .current_dir(root())
        .env_remove("CLUSTER_NAME")
        .env_remove("AWS_REGION")
        .output()
        .expect("the binary starts")
}

/// Its standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Its standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Its standard output as JSON, after an exit with the status expected.
pub fn json(output: &Output, status: i32) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(status), "stderr: {}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A file of a test's own under target/, in a folder that each run of a test program begins empty: a file that an earlier
/// run left must never stand in for one that this run did not write. Each source file of tests that asks has a folder of
/// its own there, so that tests of two files may choose the same names.
#[track_caller]
pub fn scratch(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = root().join("target/test-scratch").join(env!("CARGO_CRATE_NAME"));
        match std::fs::remove_dir_all(&folder) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => panic!("{}: {error}", folder.display()),
        }
        std::fs::create_dir_all(&folder).expect("target/ is writable");
        folder
    });
    let asks = Path::new(Location::caller().file()).file_stem().expect("a source file has a name");
    let folder = folder.join(asks);
    std::fs::create_dir_all(&folder).expect("target/ is writable");
    folder.join(name)
}

/// Writes a file of a test's own.
#[track_caller]
pub fn write(name: &str, text: &str) -> String {
    let path = scratch(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("target/ is writable");
    std::fs::write(&path, text).expect("target/ is writable");
    path.to_str().expect("UTF-8").to_owned()
}

/// Runs one of the Python checkers; its output is shown when it finds something.
pub fn python(args: &[&str]) -> Output {
    Command::new("python3").args(args).current_dir(root()).output().expect("python3 starts")
}

/// The path as an argument.
pub fn arg(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
