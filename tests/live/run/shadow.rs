//! `run --shadow` beside a `run` that leads, through a door that lets nothing pass that writes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::live::LONGEST_WAIT;
use crate::common::page::get;
use crate::stub::{Run, Sandbox, kubeconfig};

/// A kind that the role does not know: the shadow does without.
const FORBIDDEN: &[u8] = b"/limitranges";

/// Passes on to a server what asks it for GET, as a role does without verbs that write. Counts what passes and what does not.
fn read_only(server: SocketAddr) -> (SocketAddr, Arc<[AtomicUsize; 2]>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, counts) = (listener.local_addr().unwrap(), Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]));
    let counted = counts.clone();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let counts = counted.clone();
            thread::spawn(move || pass(&client, &TcpStream::connect(server).unwrap(), &counts));
        }
    });
    (address, counts)
}

fn pass(client: &TcpStream, server: &TcpStream, counts: &[AtomicUsize; 2]) {
    let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || {
        let mut bytes = [0; 16 * 1024];
        while let Ok(count @ 1..) = answers.read(&mut bytes) {
            if back.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut to = server;
    // Requests that read have no body: what comes are lines.
    let mut lines = BufReader::new(client).split(b'\n').map_while(Result::ok);
    while let Some(line) = lines.next() {
        if line.windows(FORBIDDEN.len()).any(|part| part == FORBIDDEN) {
            lines.by_ref().find(|line| line.iter().all(u8::is_ascii_whitespace));
            let _ = forbid(client);
            break;
        }
        let writes = [&b"POST "[..], b"PUT ", b"PATCH ", b"DELETE "].iter().any(|verb| line.starts_with(verb));
        counts[usize::from(writes)].fetch_add(usize::from(writes || line.starts_with(b"GET ")), Ordering::Relaxed);
        if writes || to.write_all(&[&line[..], b"\n"].concat()).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

fn forbid(mut client: &TcpStream) -> std::io::Result<()> {
    let status =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"no"}"#;
    let head = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ";
    write!(client, "{head}{}\r\n\r\n{status}", status.len())
}

#[test]
fn shadow_runs_by_a_read_only_role_and_reports_its_launches() {
    let sandbox = Sandbox::start("beside", &["deploy/examples/spot.yaml"]);
    let (door, counts) = read_only(sandbox.api.parse().unwrap());
    let mut active = sandbox.run("active").start();
    active.event("elected");
    let flags = ["--shadow", "--cluster-name", "demo"];
    let kubeconfig = kubeconfig("shadow", &format!("http://{door}"));
    let run = Run::new("shadow", &flags).env("KUBECONFIG", &kubeconfig).aws(sandbox.aws.parse().unwrap());
    let mut shadow = run.env("STARTUP_TIMEOUT", "120s").start();
    let serving = shadow.line(|line| !line["metrics"].is_null());
    let metrics = serving["metrics"].as_str().unwrap().to_owned();
    let report = || serde_json::from_str::<Value>(&get(&metrics, "/shadow").1).unwrap_or_default();
    let until = |what: &str, holds: &dyn Fn(&Value) -> bool| {
        let begun = Instant::now();
        while !holds(&report()) {
            assert!(begun.elapsed() < LONGEST_WAIT, "{what}: {:#}", report());
            thread::sleep(Duration::from_millis(200));
        }
    };
    until("it has begun", &|report| report["now"].is_string());
    let missing = "limitranges cannot be listed and watched";
    shadow.line(|line| line["message"].as_str().is_some_and(|text| text.contains(missing)));

    let pods = sandbox.apply("deploy/examples/inflate-400.yaml");
    assert!(pods.status.success(), "{pods:?}");
    let launched = |report: &Value, side: &str| report[side]["launched"].as_u64().is_some_and(|count| count > 0);
    until("both have launched", &|report| launched(report, "active") && launched(report, "shadow"));
    shadow.line(|line| line["message"].as_str().is_some_and(|text| text.starts_with("would launch ")));
    shadow.line(|line| line["message"].as_str().is_some_and(|text| text.starts_with("launched ")));
    let (code, text) = get(&metrics, "/shadow.txt");
    assert!(code == 200 && text.contains("evictions"), "{code} {text}");
    assert!(get(&metrics, "/metrics").1.contains("dovetail_shadow_launched_total{side=\"shadow\"}"));

    shadow.signal("-TERM");
    let ended = shadow.ended();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("the report:") && ended.stdout.contains("SIGTERM: ended"), "{}", ended.stdout);
    let [reads, writes] = &*counts;
    assert_eq!(writes.load(Ordering::Relaxed), 0, "it has asked for a verb that writes");
    assert!(reads.load(Ordering::Relaxed) >= 13, "it did not come by this door");
}
