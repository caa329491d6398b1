//! `sandbox`, live: the README's first command, how it ends, and what it refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::common;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use common::live::{Live, kubectl_program};
use common::{arg, dovetail, python, scratch, stderr, stdout, write};

const README: &[&str] = &["-f", "deploy/examples/spot.yaml", "-f", "deploy/examples/inflate-400.yaml"];

fn address(live: &Live) -> String {
    let text = std::fs::read_to_string(live.kubeconfig()).unwrap();
    let line = text.lines().find(|line| line.contains("server:")).expect("a server").to_owned();
    line.trim().trim_start_matches("server: \"http://").trim_end_matches('"').to_owned()
}

fn ask(address: &str, path: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The pods of all batches.
fn batched(lines: &[String]) -> usize {
    let counts = lines.iter().filter_map(|line| line.split_once("batched ")?.1.split(' ').next());
    counts.filter_map(|count| count.parse::<usize>().ok()).sum()
}

#[test]
fn the_readmes_command_batches_its_pods_and_ends_well_at_ctrl_c() {
    let live = Live::start("sandbox-readme", README);
    live.wait_for("kubeconfig: ");
    live.wait_for("prices of spot capacity are synthetic");
    // One batch, unless the machine is so busy that a batch's time is over before all pods are marked.
    live.wait_until("batched 400 pods", |lines| (batched(lines) >= 400).then_some(()));
    assert!(std::fs::read_to_string(live.kubeconfig()).unwrap().contains("http://127.0.0.1:"));
    assert_eq!(live.interrupt(), Some(0));
}

#[test]
fn the_page_and_its_state_say_what_there_is() {
    let live = Live::start("sandbox-page", &[README, &["--speed", "20"]].concat());
    live.wait_for("initialized node");
    let address = address(&live);
    let page = ask(&address, "/", "text/html");
    assert!(page.contains("<title>Dovetail sandbox</title>") && page.contains("synthetic"), "{page}");
    let outside = page.replace("http://www.w3.org", "");
    assert!(!outside.contains("src=\"http") && !outside.contains("href=\"http"), "something is loaded from elsewhere");
    let state = ask(&address, "/sandbox/state", "application/json");
    let state: serde_json::Value = serde_json::from_str(state.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(state["pods"]["total"], 400);
    assert!(state["pricePerHour"].as_f64().unwrap() > 0.0, "{state}");
    assert!(state["leader"].as_str().unwrap().starts_with("dovetail-"), "{state}");
    assert!(state["nodes"].as_array().unwrap().iter().any(|node| node["state"] == "ready"), "{state}");
    assert!(!state["timeline"].as_array().unwrap().is_empty());
}

#[test]
fn a_story_in_json_has_a_machine_s_lines_alone() {
    let live =
        Live::start("sandbox-json", &["-f", "deploy/examples/spot.yaml", "--log-format", "json", "--speed", "20"]);
    live.wait_for("\"event\":\"elected\"");
    for line in live.lines() {
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        assert!(parsed["t"].is_number() && parsed["actor"].is_string(), "{line}");
    }
}

#[test]
fn nothing_is_coloured_where_nobody_looks() {
    let live = Live::start("sandbox-plain", &["-f", "deploy/examples/spot.yaml", "--speed", "20"]);
    live.wait_for("elected");
    assert!(live.lines().iter().all(|line| !line.contains('\u{1b}')), "{:#?}", live.lines());
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let refused = dovetail(&["sandbox", "--port", &port]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains(&format!("--port {port}: is taken")), "{}", stderr(&refused));
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_runs() {
    let kubeconfig = scratch("no-such-folder/kubeconfig");
    let broken =
        write("broken.yaml", "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {templat: {}}\n");
    let cases: &[(&[&str], &str)] = &[
        (&["-f", "nowhere.yaml"], "nowhere.yaml: no such file"),
        (&["-f", &broken], "broken.yaml:4: spec.templat"),
        (&["--region", "mars-1"], "--region: unknown region \"mars-1\""),
        (&["--speed", "0"], "is out of range (allowed: a number from 0.1 to 100)"),
        (&["--replicas", "9"], "--replicas"),
        (&["--listen", "0.0.0.0"], "--listen: other machines can reach 0.0.0.0"),
        (&["--listen", "0.0.0.0", "--token", "short"], "--token: has 5 characters (allowed: 16 or more"),
        (&["--listen", "somewhere"], "--listen"),
    ];
    for (args, said) in cases {
        let refused = dovetail(&[&["sandbox"], *args].concat());
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(said), "{args:?}: {}", stderr(&refused));
        assert!(stdout(&refused).is_empty(), "{args:?}: {}", stdout(&refused));
    }
    let refused = dovetail(&["sandbox", "--kubeconfig", arg(&kubeconfig)]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("no-such-folder/kubeconfig: no such file"), "{}", stderr(&refused));
}

#[test]
fn with_a_token_kubectl_is_let_in_by_its_kubeconfig_alone() {
    let live = Live::start("sandbox-token", &["--token", "a-token-of-some-length", "--speed", "20"]);
    live.wait_for("the token as the password");
    assert!(live.ok(&["get", "namespaces", "-o", "name"]).contains("namespace/default"));
    let without = live.refused(&["get", "namespaces", "--token", "another-token-entirely"]);
    assert!(without.contains("Unauthorized") || without.contains("logged in"), "{without}");
}

#[test]
fn with_tls_alone_kubectl_asks_for_no_name() {
    let live = Live::start("sandbox-tls", &["--tls", "--speed", "20"]);
    assert!(std::fs::read_to_string(live.kubeconfig()).unwrap().contains("https://127.0.0.1:"));
    assert!(live.ok(&["get", "namespaces", "-o", "name"]).contains("namespace/default"));
}

#[test]
fn sandbox_answers_beside_two_hundred_watches_and_half_requests() {
    let live = Live::start("sandbox-watches", &["--speed", "20"]);
    live.wait_for("kubeconfig: ");
    let address = address(&live);
    let open = |request: &str| {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let watch = "GET /api/v1/configmaps?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut watches: Vec<TcpStream> = (0..200).map(|_| open(watch)).collect();
    let _half: Vec<TcpStream> = (0..200).map(|_| open("GET /api/v1/po")).collect();
    live.ok(&["create", "configmap", "seen-by-all"]);
    for stream in &mut watches {
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        let mut seen = String::new();
        let mut buffer = [0; 4096];
        while !seen.contains("seen-by-all") {
            let read = stream.read(&mut buffer).expect("the watch goes on");
            assert!(read > 0, "the watch ended: {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    }
    assert_eq!(live.ok(&["get", "--raw", "/readyz"]), "ok");
}

/// Answer to a connection that sends this and no more, until it is closed.
fn cut_off(address: &str, sent: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(sent.as_bytes()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(180))).unwrap();
    let mut answer = Vec::new();
    // A reset says the same as an end; a time-out says that it goes on.
    if let Err(why) = stream.read_to_end(&mut answer) {
        assert_eq!(why.kind(), std::io::ErrorKind::ConnectionReset, "still open: {why}");
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn who_sends_half_of_something_or_nothing_is_cut_off() {
    let (plain, tls) =
        (Live::start("sandbox-half", &["--speed", "20"]), Live::start("sandbox-half-tls", &["--speed", "20", "--tls"]));
    let (address, secure) = (address(&plain), address(&tls).replace("server: \"https://", ""));
    let body = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
    let halves = [
        (&address, ""),
        (&address, "GET /api/v1/po"),
        (&address, "PRI * HT"),
        (&address, body),
        (&secure, "\u{16}\u{3}\u{1}"),
    ];
    std::thread::scope(|scope| {
        let cut: Vec<_> = halves.map(|(to, sent)| scope.spawn(move || cut_off(to, sent))).into();
        let answers: Vec<String> = cut.into_iter().map(|one| one.join().expect("it is cut off")).collect();
        assert!(answers[3].starts_with("HTTP/1.1 408") && answers[3].contains("body did not come"), "{answers:#?}");
    });
    assert_eq!(plain.ok(&["get", "--raw", "/readyz"]), "ok");
    assert_eq!(tls.ok(&["get", "--raw", "/readyz"]), "ok");
}

#[test]
fn the_session_that_is_recorded_is_what_happens() {
    let played = python(&["tests/session.py", env!("CARGO_BIN_EXE_dovetail"), kubectl_program()]);
    assert!(played.status.success(), "{}", stderr(&played));
}

#[test]
fn an_object_of_five_megabytes_is_refused_and_nothing_breaks() {
    let live = Live::start("sandbox-large", &["--speed", "20"]);
    live.wait_for("kubeconfig: ");
    let text =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: large}}\ndata: {{a: {:?}}}\n", "x".repeat(5 << 20));
    let file = write("large.yaml", &text);
    let refused = live.refused(&["create", "-f", &file]);
    assert!(refused.contains("Request entity too large: limit is 3145728"), "{refused}");
    assert!(live.refused(&["get", "configmap", "large"]).contains("not found"));
}
