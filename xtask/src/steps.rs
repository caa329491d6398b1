//! Steps of the habits.

use std::thread;

use crate::commands::{cargo_program, command, root, run, run_with};
use crate::deny;
use crate::lint;
use crate::programs::{self, Program};
use crate::suites::{SUITES, Suite};

/// Everything, in the order in which a mistake is cheapest to find.
pub fn all_that_has_to_hold() -> Result<(), String> {
    format()?;
    house()?;
    references()?;
    let programs = checked_and_built()?;
    thread::scope(|scope| {
        let beside = scope.spawn(image);
        // One change is judged by the same cases twice; new ones are drawn by `proof properties`.
        let tests = programs::run(programs, &[(PROPERTY_SEED, &property_seed())]);
        let beside = beside.join().unwrap_or_else(|_| Err("image: xtask panicked".to_owned()));
        tests.and(beside)
    })?;
    roles()?;
    nothing_compiled_twice()
}

/// The seed of the property tests, as the environment has it or 1.
pub fn property_seed() -> String {
    std::env::var(PROPERTY_SEED).unwrap_or_else(|_| "1".to_owned())
}

/// Checks that need nothing that is built here; most use one core.
fn checks() -> Result<(), String> {
    deny::check()?;
    suites()
}

/// Python suites that need nothing that is built here.
pub fn suites() -> Result<(), String> {
    SUITES.iter().try_for_each(Suite::run)
}

/// Holds the chart's roles to the requests that the tests on the real parts have recorded.
pub fn roles() -> Result<(), String> {
    run("roles", "python3", &["tests/deploy/roles.py"])
}

/// The test programs, then clippy, while the real parts are built and other checks run beside: on a machine that has never
/// seen the project each waits for downloads and for what only one core can do.
fn checked_and_built() -> Result<Vec<Program>, String> {
    thread::scope(|scope| {
        let panicked = |_| Err("real parts and checks: xtask panicked".to_owned());
        let checks = scope.spawn(checks);
        // The checks of deploy and docs use some of the parts.
        let parts = scope.spawn(|| real_parts().and_then(|()| deploy()).and_then(|()| docs()));
        let programs = programs::built().and_then(|programs| lint::run().map(|()| programs));
        let (checks, parts) = (checks.join().unwrap_or_else(panicked), parts.join().unwrap_or_else(panicked));
        let programs = programs?;
        checks.and(parts).map(|()| programs)
    })
}

/// Folder where the tests record their requests to AWS (crates/cloud/src/recorder).
const RECORD_AWS: &str = "DOVETAIL_RECORD_AWS";

/// An empty folder for what the tests ask of AWS.
fn folder_for_requests() -> Result<String, String> {
    let folder = root().join("target/aws-requests");
    let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(failed)?;
    }
    std::fs::create_dir_all(&folder).map_err(failed)?;
    Ok(folder.display().to_string())
}

/// Variable for the seed from which proptest draws its cases.
pub const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";

/// Holds all requests of the tests to AWS to the policies.
fn proof_policies() -> Result<(), String> {
    let requests = folder_for_requests()?;
    programs::run(programs::built()?, &[(RECORD_AWS, &requests)])?;
    run("policies and what was asked of AWS", "python3", &["tests/deploy/union.py", &requests])
}

/// The core's property tests with other cases: a whole round for every seed of `FIRST..LAST`.
fn proof_properties(seeds: &str) -> Result<(), String> {
    let wrong = || format!("{seeds:?} are no seeds; allowed: FIRST..LAST, such as 2..50");
    let (first, last) = seeds.split_once("..").ok_or_else(wrong)?;
    let (first, last): (u64, u64) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    let tests = ["test", "--release", "--quiet", "--package", "dovetail-core"];
    for seed in first..=last {
        let what = format!("properties, seed {seed}");
        run_with(&what, &cargo_program(), &tests, &[(PROPERTY_SEED, &seed.to_string())])?;
    }
    Ok(())
}

/// The README's `cargo run` has to use what the tests have built: one feature more on either side and the SDKs, minutes
/// of work, are compiled a second time.
pub fn nothing_compiled_twice() -> Result<(), String> {
    println!("== one build: cargo build --release");
    let built = command(&cargo_program()).args(["build", "--release"]).current_dir(root()).output();
    let built = built.map_err(|why| format!("one build: cargo cannot be started: {why}"))?;
    let said = String::from_utf8_lossy(&built.stderr);
    let again: Vec<&str> = said.lines().map(str::trim).filter(|line| line.starts_with("Compiling")).collect();
    if built.status.success() && again.is_empty() {
        return Ok(());
    }
    Err(format!(
        "one build: `cargo build` after `cargo test` compiled anew (equalise the features in Cargo.toml):\n{said}"
    ))
}

/// Programs that others wrote, for the tests that need them: etcd, Kubernetes, kwok, helm, moto. Once a version.
pub fn real_parts() -> Result<(), String> {
    run("real parts", "python3", &["tests/real/build.py", "all"])
}

/// Helm, for the tests of charts. Once a version.
pub fn helm() -> Result<(), String> {
    run("helm", "python3", &["tests/real/build.py", "helm"])
}

/// The Helm chart.
pub fn chart() -> Result<(), String> {
    helm()?;
    cargo("chart", &["test", "--release", "--workspace", "--test", "commands", "chart::"])
}

/// Checks everything that goes into an AWS account: template, policies, module, cluster configurations.
pub fn deploy() -> Result<(), String> {
    run("deploy", "python3", &["tests/suite.py", "deploy"])
}

/// The book: its links, and what its pages have to name.
pub fn docs() -> Result<(), String> {
    run("docs", "python3", &["tests/suite.py", "docs"])
}

/// The binary that the image is made of.
pub fn binary() -> Result<(), String> {
    cargo("binary", &["build", "--release"])
}

/// The image of the binary that is there.
pub fn image() -> Result<(), String> {
    run("image", "python3", &["tests/suite.py", "image"])
}

/// A release of this checkout, without a registry.
pub fn release() -> Result<(), String> {
    let more: Vec<String> = std::env::args().skip(2).collect();
    let args: Vec<&str> = std::iter::once("tools/release.py").chain(more.iter().map(String::as_str)).collect();
    run("release", "python3", &args)
}

/// A real cluster by hand.
pub fn real() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(2).collect();
    let Some(verb) = words.first().filter(|verb| ["up", "down", "status"].contains(&verb.as_str())) else {
        return Err("say `real up`, `real down` or `real status` (more: tests/real/cluster.py --help)".to_owned());
    };
    if verb == "up" {
        binary()?;
    }
    let args: Vec<&str> = std::iter::once("tests/real/cluster.py").chain(words.iter().map(String::as_str)).collect();
    run("real", "python3", &args)
}

/// Figures of the tree beside their goals.
pub fn measure() -> Result<(), String> {
    let more: Vec<String> = std::env::args().skip(2).collect();
    let args: Vec<&str> = std::iter::once("tools/measure.py").chain(more.iter().map(String::as_str)).collect();
    run("measure", "python3", &args)
}

/// Format, references, lengths and words, and clippy.
pub fn lint() -> Result<(), String> {
    format()?;
    references()?;
    house()?;
    clippy()
}

/// Scripts that play longer courses, most of them on the real control plane.
const COURSES: [(&str, &str); 18] = [
    ("adoption", "tests/real/adoption.py"),
    ("bill", "tests/day/bill.py"),
    ("drift", "tests/real/drift.py"),
    ("day", "tests/day/day.py"),
    ("doctor", "tests/real/diagnosed.py"),
    ("explain", "tests/real/explained.py"),
    ("gated", "tests/real/gated.py"),
    ("hostile", "tests/real/hostile.py"),
    ("kwok", "tests/real/kwok_provider.py"),
    ("load", "tests/real/load.py"),
    ("posts", "tests/real/posts.py"),
    ("repair", "tests/real/repair.py"),
    ("scale", "tests/growth.py"),
    ("scale-in", "tests/real/scale_in.py"),
    ("shadow", "tests/real/shadow.py"),
    ("upstream", "tests/real/upstream.py"),
    ("verdicts", "tests/real/verdicts.py"),
    ("webhook", "tests/real/conversion.py"),
];

/// Runs a proof that takes too long for every test; its output goes into the docs.
pub fn proof() -> Result<(), String> {
    let name = std::env::args().nth(2);
    if let Some((name, script)) = COURSES.iter().find(|(known, _)| Some(*known) == name.as_deref()) {
        let more: Vec<String> = std::env::args().skip(3).collect();
        let args: Vec<&str> = std::iter::once(*script).chain(more.iter().map(String::as_str)).collect();
        binary()?;
        return run(name, "python3", &args);
    }
    match name.as_deref() {
        Some("fuzz") => {
            let more: Vec<String> = std::env::args().skip(3).collect();
            let args: Vec<&str> = std::iter::once("tests/fuzz.py").chain(more.iter().map(String::as_str)).collect();
            run("fuzz", "python3", &args)
        }
        Some("seeds") => {
            let seeds = std::env::args().nth(3).unwrap_or_else(|| "1..100000".to_owned());
            // A third less CPU is worth the build where it is hours.
            cargo("binary", &["build", "--profile", "dist", "--bin", "dovetail"])?;
            // Worlds come and go: pages that one has let go are the next one's.
            let keeping = [("MIMALLOC_PURGE_DELAY", "-1")];
            run_with("seeds", "target/dist/dovetail", &["simulate", "--random", "--seeds", &seeds], &keeping)
        }
        Some("policies") => proof_policies(),
        Some("properties") => proof_properties(&std::env::args().nth(3).unwrap_or_else(|| "2..20".to_owned())),
        Some("lines") => {
            let lines = std::env::args().nth(3).unwrap_or_else(|| "10000".to_owned());
            let tests = ["test", "--release", "--workspace", "--test", "commands", "--", "random_lines", "--nocapture"];
            run_with("lines", &cargo_program(), &tests, &[("LINES", &lines)])
        }
        Some("tracing") => {
            let rounds = std::env::args().nth(3).unwrap_or_else(|| "5".to_owned());
            binary()?;
            run("tracing", "python3", &["tests/real/tracing.py", &rounds])
        }
        Some("console") => {
            run("chromium", "python3", &["tests/real/build.py", "chromium"])?;
            run("console", "python3", &["tests/console/scale.py"])
        }
        Some("metrics") => {
            binary()?;
            run("metrics", "python3", &["tests/metrics_scale.py"])
        }
        Some("model") => {
            // Built in the workspace, as the tests are: for the package alone, core would be compiled a second time.
            let tests = ["test", "--release", "--workspace", "--test", "protocols"];
            cargo("model", &[&tests[..], &["--", "--ignored", "--nocapture", "--test-threads=1"]].concat())
        }
        Some("handover") => {
            let rounds = std::env::args().nth(3).unwrap_or_else(|| "5".to_owned());
            binary()?;
            run("handover", "python3", &["tests/real/handover.py", &rounds])
        }
        other => Err(format!(
            "there is no proof {:?} (there are: adoption, bill, console, day, doctor, drift, explain, fuzz, handover, hostile, kwok, lines, load, metrics, model, policies, posts, properties, repair, scale, scale-in, seeds, \
             shadow, tracing, upstream, verdicts, webhook)",
            other.unwrap_or_default()
        )),
    }
}

/// The figures of docs/performance.md.
pub fn figures() -> Result<(), String> {
    cargo("binary", &["build", "--release", "--workspace"])?;
    run("figures", "python3", &["tests/figures.py"])
}

/// Checks that texts refer to files in the repository.
pub fn references() -> Result<(), String> {
    run("references can fail", "python3", &["-m", "unittest", "discover", "-s", "tests", "-p", "test_references.py"])?;
    run("references", "python3", &["tests/references.py"])
}

/// Files are short, documents narrow, words the field's (tools/words.txt).
pub fn house() -> Result<(), String> {
    run("lint can fail", "python3", &["-m", "unittest", "discover", "-s", "tools", "-p", "test_*.py"])?;
    run("lengths, widths, words", "python3", &["tools/lint.py"])
}

/// Every file is as rustfmt writes it.
pub fn format() -> Result<(), String> {
    cargo("format", &["fmt", "--all", "--check"])
}

/// Cargo's own clippy, warnings refused.
pub fn clippy() -> Result<(), String> {
    cargo("clippy", &["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

fn cargo(what: &str, args: &[&str]) -> Result<(), String> {
    run(what, &cargo_program(), args)
}
