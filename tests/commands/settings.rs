//! docs/settings.md against the table in the code. `UPDATE=1` writes the page anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use std::fmt::Write as _;

use dovetail_actors::settings::{KnownSetting, TABLE};

const INTRODUCTION: &str = "\
# Settings

`dovetail run` takes each setting as a flag or as an environment variable, under Karpenter's names.
The flag wins. An empty variable counts as not set. Durations are Go's (`500ms`, `1m30s`). Booleans
are `true` or `false`; the flag alone is `true`, a value follows `=`. With an invalid value the
process ends with status 2 before it does anything; the message says what is allowed. In a scenario,
`settings` takes the same names. The chart takes nearly all of them under `settings`, in Karpenter's
spelling (`settings.batchMaxDuration`).
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
