//! Node classes and claims with moto as the AWS, which is nobody's of ours: see tests/real/moto/life.py.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{python, stderr, stdout};

#[test]
fn classes_and_claims_live_on_moto_and_leave_nothing_behind() {
    let played = python(&["tests/real/moto/life.py", env!("CARGO_BIN_EXE_dovetail")]);
    assert!(played.status.success(), "{}{}", stdout(&played), stderr(&played));
    assert!(stdout(&played).contains("nothing is left"), "{}", stdout(&played));
    println!("{}", stdout(&played));
}
