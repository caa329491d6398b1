//! The console of a live sandbox in headless Chromium: what an operator sees, finds and opens, with pictures in
//! target/console. Debian's Chromium is installed where it is not there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::common;

use common::live::Live;
use common::{arg, python, root, stderr, stdout};

#[test]
fn console_is_legible_by_keyboard_and_harmless_at_all_widths() {
    let there = python(&["tests/real/build.py", "chromium"]);
    assert!(there.status.success(), "{}", stderr(&there));
    let pictures = root().join("target/console/made");
    let checked = python(&["tests/console/looks.py", arg(&pictures)]);
    assert!(checked.status.success(), "{}{}", stdout(&checked), stderr(&checked));
}

#[test]
fn console_works_in_both_themes_on_a_phone_and_by_keyboard() {
    let there = python(&["tests/real/build.py", "chromium"]);
    assert!(there.status.success(), "{}", stderr(&there));
    let live = Live::start(
        "console",
        &["-f", "deploy/examples/spot.yaml", "-f", "deploy/examples/inflate-400.yaml", "--speed", "20"],
    );
    let line = live.wait_for("page: ");
    let address = line.split("page: ").nth(1).unwrap().split_whitespace().next().unwrap();
    let pictures = root().join("target/console");
    let checked = python(&["tests/console/check.py", address, arg(&pictures)]);
    assert!(checked.status.success(), "{}{}", stdout(&checked), stderr(&checked));
}
