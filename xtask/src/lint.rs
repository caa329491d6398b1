//! Clippy on what the build has compiled: cargo's own `clippy` analyses every dependency a second time, a third of the work of
//! a first build. Here cargo builds into a folder that shares the dependencies of `target/release`, and this program stands in
//! for its compiler: it lets clippy look at each crate of ours, and generates no code.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::commands::{cargo_program, root, run_with};

/// Set where cargo calls this program in place of its compiler.
const STANDS_IN: &str = "DOVETAIL_LINT";
/// Arguments of clippy, in the form in which cargo hands them to it.
const CLIPPY_ARGS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";
/// The folder that shares the dependencies.
const FOLDER: &str = "target/lint";

/// Looks at all targets of all packages of ours; fails with the first crate that has a warning.
///
/// # Errors
/// A warning, or what cargo says.
pub fn run() -> Result<(), String> {
    share_dependencies().map_err(|why| format!("clippy: {FOLDER}: {why}"))?;
    let program = std::env::current_exe().map_err(|why| format!("clippy: this program's path: {why}"))?;
    let args = ["build", "--release", "--workspace", "--all-targets", "--target-dir", FOLDER];
    let wrapper = program.display().to_string();
    let environment = [("RUSTC_WORKSPACE_WRAPPER", wrapper.as_str()), (STANDS_IN, "1"), ("CLIPPY_ARGS", CLIPPY_ARGS)];
    run_with("clippy", &cargo_program(), &args, &environment)
}

/// Puts what is built of dependencies where cargo looks for it below the folder.
fn share_dependencies() -> std::io::Result<()> {
    let (from, to) = (root().join("target/release"), root().join(FOLDER).join("release"));
    for name in ["deps", ".fingerprint", "build"] {
        share(&from.join(name), &to.join(name), name == "deps")?;
    }
    Ok(())
}

/// Links files, or copies those that cargo may write to again; what is there stays.
fn share(from: &Path, to: &Path, link: bool) -> std::io::Result<()> {
    if !from.exists() {
        return Ok(());
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            share(&entry.path(), &target, link)?;
        } else if !target.exists() {
            if link {
                std::fs::hard_link(entry.path(), target)?;
            } else {
                copy_with_time(&entry.path(), &target)?;
            }
        }
    }
    Ok(())
}

/// Cargo compares times of files.
fn copy_with_time(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::copy(from, to)?;
    let time = std::fs::metadata(from)?.modified()?;
    std::fs::File::options().write(true).open(to)?.set_modified(time)
}

/// Compiles nothing of the crate that cargo asks for, and looks at it, if cargo has called this program for that.
pub fn stand_in() -> Option<ExitCode> {
    std::env::var_os(STANDS_IN)?;
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let compiler = args.first()?.clone();
    let Some(request) = Request::from_args(&args) else {
        // Cargo asks the compiler for its version and what it can do.
        return Some(failed(&Command::new(compiler).args(args.split_off(1)).exec()));
    };
    let analysed = args.iter().map(analysed);
    match Command::new("clippy-driver").args(analysed).status() {
        Ok(status) if status.success() => match request.write_outputs() {
            Ok(()) => Some(ExitCode::SUCCESS),
            Err(why) => Some(failed(&why)),
        },
        Ok(_) => Some(ExitCode::FAILURE),
        Err(why) => Some(failed(&why)),
    }
}

fn failed(why: &std::io::Error) -> ExitCode {
    eprintln!("xtask, in place of the compiler: {why} (clippy: rustup component add clippy)");
    ExitCode::FAILURE
}

/// An argument of the compiler's as one that asks for no code, neither of this crate nor of those of ours that it uses.
fn analysed(arg: &OsString) -> OsString {
    let Some(text) = arg.to_str() else { return arg.clone() };
    if text.starts_with("--emit=") {
        return "--emit=dep-info,metadata".into();
    }
    let ours = text.split_once('=').is_some_and(|(name, _)| name.starts_with("dovetail"));
    match text.strip_suffix(".rlib") {
        Some(path) if ours => format!("{path}.rmeta").into(),
        _ => arg.clone(),
    }
}

/// The crate that cargo asks for, and where it expects it.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// With the suffix that tells builds of one crate apart.
    name: String,
    folder: PathBuf,
    library: bool,
}

impl Request {
    /// `None` where no crate is to be compiled.
    fn from_args(args: &[OsString]) -> Option<Self> {
        let texts: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
        let after = |flag: &str| texts.iter().position(|text| *text == flag).and_then(|at| texts.get(at + 1)).copied();
        let (name, folder) = (after("--crate-name")?, after("--out-dir")?);
        let suffix = texts.iter().find_map(|text| text.strip_prefix("extra-filename=")).unwrap_or_default();
        let library = after("--crate-type") == Some("lib");
        Some(Self { name: format!("{name}{suffix}"), folder: folder.into(), library })
    }

    /// Cargo takes a crate for compiled once these files are there.
    fn write_outputs(&self) -> std::io::Result<()> {
        let name = if self.library { format!("lib{}.rlib", self.name) } else { self.name.clone() };
        std::fs::write(self.folder.join(name), [])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_crate_is_analysed_and_no_code_is_generated() {
        let asked = "--emit=dep-info,metadata,link --extern serde=/t/libserde-1.rlib --extern dovetail_core=/t/libdovetail_core-2.rlib";
        let got: Vec<OsString> = words(asked).iter().map(analysed).collect();
        let wanted = "--emit=dep-info,metadata --extern serde=/t/libserde-1.rlib --extern dovetail_core=/t/libdovetail_core-2.rmeta";
        assert_eq!(got, words(wanted));
    }

    #[test]
    fn outputs_are_where_cargo_expects_them() {
        let library = words("rustc --crate-name a_b --crate-type lib -C extra-filename=-12 --out-dir /t/deps");
        let request = Request { name: "a_b-12".into(), folder: "/t/deps".into(), library: true };
        assert_eq!(Request::from_args(&library), Some(request));
        let test = words("rustc --crate-name live --test -C extra-filename=-9 --out-dir /t/deps");
        let request = Request { name: "live-9".into(), folder: "/t/deps".into(), library: false };
        assert_eq!(Request::from_args(&test), Some(request));
        assert_eq!(Request::from_args(&words("rustc -vV")), None);
    }
}
