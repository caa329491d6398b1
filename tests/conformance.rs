//! The sandbox's API server and region held to the real parts: tests/conformance/README.md.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod common;

use common::real::script;
use common::{stderr, stdout};

/// A run's requests are recorded; each kind of them, and what else an API server and AWS are asked, is asked of both sides.
#[test]
fn what_the_sandbox_answers_is_what_the_real_parts_answer() {
    let output = script("conformance/run.py", &[]);
    let said = stdout(&output);
    assert!(output.status.success() && said.contains("conformance: held"), "{said}{}", stderr(&output));
    println!("{said}");
}
