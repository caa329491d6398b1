//! Node classes and claims with moto as the AWS, which is nobody's of ours: see tests/real/moto/life.py.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{python, stderr, stdout};

#[test]
fn a_class_of_each_family_is_ready_on_moto_claims_live_there_and_nothing_is_left_behind() {
    let played = python(&["tests/real/moto/life.py", env!("CARGO_BIN_EXE_dovetail")]);
    assert!(played.status.success(), "{}{}", stdout(&played), stderr(&played));
    assert!(stdout(&played).contains("nothing is left"), "{}", stdout(&played));
    println!("{}", stdout(&played));
}
