//! Check of our dependencies: licences, bans, sources and known vulnerabilities, by cargo-deny (deny.toml).

use std::process::Output;

use crate::commands::{command, root};

/// Words of cargo-deny when it cannot have RustSec's database of advisories, and when none is kept from an earlier time.
const NO_DATABASE: [&str; 3] =
    ["failed to fetch advisory database", "failed to load advisory database", "failed to get 'FETCH_HEAD' metadata"];

/// Fails naming what is not accepted. Without a database of advisories, from RustSec or from an earlier time, that part is
/// not checked, and that is said: a network that does not reach it says nothing of what we depend on.
pub fn check() -> Result<(), String> {
    let program = program()?;
    let all = run(&program, &["check", "bans", "licenses", "sources"])?;
    if !all.status.success() {
        return Err(format!("cargo-deny (deny.toml): {}", said(&all)));
    }
    println!("== deny: bans, licences and sources are as deny.toml has them");
    advisories(&program)
}

fn advisories(program: &str) -> Result<(), String> {
    let fetched = run(program, &["check", "advisories"])?;
    let kept = if lacks_database(&fetched) { Some(run(program, &["--offline", "check", "advisories"])?) } else { None };
    match (&fetched, &kept) {
        (fetched, None) if fetched.status.success() => {
            println!("== deny: no advisory of RustSec's is about what we depend on")
        }
        (_, Some(kept)) if kept.status.success() => {
            println!(
                "== deny: no advisory is about what we depend on, by a database of an earlier time: RustSec's could not be fetched"
            );
        }
        (_, Some(kept)) if lacks_database(kept) => {
            println!(
                "== deny: ADVISORIES WERE NOT CHECKED: RustSec's database could not be fetched, and none is kept from an earlier time"
            );
        }
        (fetched, kept) => return Err(format!("cargo-deny (advisories): {}", said(kept.as_ref().unwrap_or(fetched)))),
    }
    Ok(())
}

fn lacks_database(output: &Output) -> bool {
    let said = said(output);
    !output.status.success() && NO_DATABASE.iter().any(|text| said.contains(text))
}

/// Path of cargo-deny: in the PATH, or installed once into target/real.
fn program() -> Result<String, String> {
    let output = command("python3").args(["tests/real/build.py", "cargo-deny"]).current_dir(root()).output();
    let output = output.map_err(|why| format!("python3 cannot be started: {why}"))?;
    if !output.status.success() {
        return Err(said(&output));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn run(program: &str, args: &[&str]) -> Result<Output, String> {
    let all = [&["--locked", "--color", "never"], args].concat();
    command(program).args(all).current_dir(root()).output().map_err(|why| format!("{program} cannot be started: {why}"))
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    #[test]
    fn only_a_database_that_cannot_be_had_is_no_failure() {
        let output = |code: i32, text: &str| Output {
            status: ExitStatus::from_raw(code << 8),
            stdout: Vec::new(),
            stderr: text.into(),
        };
        assert!(lacks_database(&output(1, "[ERROR] failed to fetch advisory database https://example.com")));
        assert!(!lacks_database(&output(0, "[WARN] failed to fetch advisory database")));
        assert!(!lacks_database(&output(1, "error[vulnerability]: something is wrong with a crate")));
    }
}
