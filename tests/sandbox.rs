//! `sandbox`, live: the README's first command on real time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

mod common;

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use common::{arg, root, scratch};

#[test]
fn the_readmes_command_batches_its_pods_and_ends_well_at_ctrl_c() {
    let kubeconfig = scratch("live.kubeconfig");
    // `timeout` ends a sandbox that says nothing; a signal that it gets goes on to the sandbox.
    let mut child = Command::new("timeout")
        .args(["120", env!("CARGO_BIN_EXE_dovetail"), "sandbox", "-f", "deploy/examples/spot.yaml"])
        .args(["-f", "deploy/examples/inflate-400.yaml", "--kubeconfig", arg(&kubeconfig)])
        .current_dir(root())
        .stdout(Stdio::piped())
        .spawn()
        .expect("timeout starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("batched 400 pods")), "the first batch is never told");
    assert!(std::fs::read_to_string(&kubeconfig).unwrap().contains("http://127.0.0.1:"));
    let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill starts");
    assert!(signalled.success());
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest:#?}");
    assert!(rest.iter().any(|line| line.starts_with("stopped")), "{rest:#?}");
}
