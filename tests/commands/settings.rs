//! docs/settings.md against the table in the code. `UPDATE=1` writes the page anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::fmt::Write as _;

use dovetail_actors::settings::{KnownSetting, TABLE};

const INTRODUCTION: &str = "\
# Settings

`dovetail run` takes each setting as a flag, from the environment or from a file. The names are
Karpenter's. A flag wins over the environment, and the environment over the file; an empty variable
counts as not set. Durations are Go's (`500ms`, `1m30s`). Booleans are `true` or `false`; the flag
alone means `true`, and a value follows `=`. A value that makes no sense ends the process with
status 2 before it does anything; the message says what is allowed. A scenario takes the same names
under `settings`. The chart takes nearly all of them under `settings`, in Karpenter's spelling
(`settings.batchMaxDuration`).

`--config FILE` names the file, a YAML mapping. Its keys are the names as the chart, the environment
or the flags write them. Gates and EC2's limits may be mappings, modes and paths lists, and settings
that are YAML need no quotes:

    clusterName: demo
    batchMaxDuration: 20s
    featureGates:
      spotToSpotConsolidation: true
    commitments:
      - {id: all, type: computeSavingsPlan, dollarsPerHour: 4.5}

A key that is no setting, or that is there twice, is refused with its line. `run` reads the file
once, at its start.
";

fn page() -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut topic = None;
    for known in TABLE {
        if topic != Some(known.topic) {
            topic = Some(known.topic);
            let heading = known.topic.heading();
            write!(text, "\n## {heading}\n\n| variable | flag | value | default | what |\n|---|---|---|---|---|\n")
                .unwrap();
        }
        text.push_str(&row(known));
    }
    text
}

fn row(known: &KnownSetting) -> String {
    let code = |text: &str| if text.is_empty() { String::new() } else { format!("`{}`", text.replace('|', "\\|")) };
    let flag = format!("--{}", known.flag());
    let (value, default) = (code(known.value), code(known.default));
    format!("| {} | {} | {value} | {default} | {} |\n", code(known.name), code(&flag), known.what)
}

#[test]
fn the_page_of_settings_says_what_the_code_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/settings.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let written = std::fs::read_to_string(path).expect("docs/settings.md is there");
    for (written, expected) in written.lines().zip(page().lines()) {
        assert_eq!(written, expected, "UPDATE=1 cargo test --release --test commands settings writes the page anew");
    }
    assert_eq!(written, page());
}
