//! `top` on a cluster: one reading on a pipe, and the screen on a terminal, with keys.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::common;

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::live::Live;
use common::{stderr, write};
use serde_json::{Value, json};

/// The command on a cluster, with nothing of the tests' environment.
fn top(program: &str, live: &Live) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("HOME", "/nonexistent").env("AWS_REGION", "us-east-1").env("PATH", path);
    command.env("KUBECONFIG", live.kubeconfig()).env("TERM", "xterm-256color");
    command
}

#[test]
fn top_shows_nodes_and_pending_pods_on_a_pipe_and_on_a_terminal() {
    let live = Live::start("top", &["--speed", "10", "--replicas", "1", "-f", "deploy/examples/spot.yaml"]);
    live.wait_for("elected");
    let pod = |name: &str, cpu: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [
            {"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]}})
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [pod("small", "500m"), pod("huge", "5000")]});
    let file = write("top.json", &list.to_string());
    live.ok(&["apply", "-f", &file]);
    live.ok(&["wait", "--for=condition=Ready", "pod/small", "--timeout=120s"]);
    // The words about it are written as an event, after the decision.
    let mut facts = Value::Null;
    for _ in 0..300 {
        let mut once = top(env!("CARGO_BIN_EXE_dovetail"), &live);
        let output = once.args(["top", "--once", "-o", "json", "--offers", "shipped"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        facts = serde_json::from_slice(&output.stdout).unwrap();
        if facts["pending"][0]["why"].as_str().is_some_and(|why| !why.is_empty()) {
            break;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(facts["pending"][0]["pod"], "huge", "{facts:#}");
    assert!(facts["pending"][0]["why"].as_str().is_some_and(|why| why.contains("5000 CPU")), "{facts:#}");
    assert!(facts["totals"]["price"].as_f64().is_some_and(|price| price > 0.0), "{facts:#}");
    assert_eq!(facts["pools"][0]["ready"], 1, "{facts:#}");
    let node = facts["nodes"][0]["name"].as_str().unwrap().split('.').next().unwrap().to_owned();

    for (rows, columns) in [(24, 80), (50, 200)] {
        on_a_terminal(&live, rows, columns, &node);
    }
}

/// A terminal of util-linux's `script`, which has the size that it is told.
fn on_a_terminal(live: &Live, rows: u16, columns: u16, node: &str) {
    let program = env!("CARGO_BIN_EXE_dovetail");
    let line = format!("stty rows {rows} cols {columns}; exec {program} top --every 1s --offers shipped");
    let mut terminal = top("script", live);
    terminal.args(["-qefc", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = terminal.spawn().expect("script");
    let mut keys = child.stdin.take().unwrap();
    let mut screen = child.stdout.take().unwrap();
    let mut shown = Vec::new();
    // A key is pressed when what the one before brings is there.
    let pages =
        [("", vec!["\u{1b}[?1049h", "/month", node]), ("3", vec!["huge"]), ("\r", vec!["explain pod", "gets no node"])];
    for (key, words) in pages {
        keys.write_all(key.as_bytes()).unwrap();
        keys.flush().unwrap();
        while !words.iter().all(|word| String::from_utf8_lossy(&shown).contains(word)) {
            let mut more = [0; 4096];
            let read = screen.read(&mut more).unwrap();
            assert!(read > 0, "it has ended before it showed {words:?}: {}", String::from_utf8_lossy(&shown));
            shown.extend_from_slice(&more[..read]);
        }
    }
    keys.write_all(b"qq").unwrap();
    keys.flush().unwrap();
    screen.read_to_end(&mut shown).unwrap();
    let shown = String::from_utf8_lossy(&shown);
    assert!(child.wait().unwrap().success() && shown.contains("\u{1b}[?1049l"), "{shown}");
}
