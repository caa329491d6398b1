//! `savings` by metrics: servers in the place of Prometheus that answer badly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::{common, stub};

use std::process::{Command, Output};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{stderr, stdout};
use serde_json::json;
use stub::{reply, serve};

fn savings(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
    command.arg("savings").args(args).env_clear().env("HOME", "/nonexistent").env("PROMETHEUS_TOKEN", stub::TOKEN);
    let output = command.output().unwrap();
    assert!(!stdout(&output).contains(stub::TOKEN) && !stderr(&output).contains(stub::TOKEN), "a secret is written");
    output
}

/// Standard error of the command about a server that answers so; its exit status is 1.
fn said_of(answer: impl Fn(&str, &str) -> stub::Reply + Send + Sync + 'static) -> String {
    let url = format!("http://{}", serve(answer));
    let output = savings(&["--prometheus", &url, "--timeout", "60s"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""), "{}", stderr(&output));
    stderr(&output)
}

#[test]
fn prometheus_that_answers_badly_is_named_with_its_reason() {
    let asked = Arc::new(Mutex::new(String::new()));
    let heard = asked.clone();
    let refusal = json!({"status": "error", "errorType": "bad_data", "error": "query processing\u{1b}[31m would load too many samples"});
    let said = said_of(move |path, _| {
        path.clone_into(&mut heard.lock().unwrap());
        reply(422, &refusal)
    });
    assert!(said.contains("status 422 is a refusal of Prometheus: query processing\\u{1b}[31m would load"), "{said}");
    let path = asked.lock().unwrap().clone();
    for part in ["/api/v1/query_range?query=%7B__name__%3D%7E%22", "&step=86&", "&timeout=60s"] {
        assert!(path.contains(part), "{part}: {path}");
    }
    let said = said_of(|_, _| (302, "text/html", "<html>log in".to_owned()));
    assert!(said.contains("status 302"), "{said}");
    let said = said_of(|_, _| (200, "text/html", "<html>log in".to_owned()));
    assert!(said.contains("what it answers is no whole answer of query_range"), "{said}");
    let said = said_of(|_, _| (200, "application/json", " ".repeat(33 << 20)));
    assert!(said.contains("more than 32 MiB: a larger --step"), "{said}");
    let silent = serve(|_, _| {
        std::thread::sleep(Duration::from_secs(600));
        reply(200, &json!({}))
    });
    let output = savings(&["--prometheus", &format!("http://{silent}"), "--timeout", "1s"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no whole answer within 1 s (--timeout)"), "{}", stderr(&output));
    let nobody = savings(&["--prometheus", "http://127.0.0.1:9"]);
    assert_eq!((nobody.status.code(), stdout(&nobody).as_str()), (Some(1), ""));
    assert!(stderr(&nobody).starts_with("dovetail: http://127.0.0.1:9: "), "{}", stderr(&nobody));
}
