//! `savings` by metrics: a real Prometheus that scrapes a sandbox, and servers that answer badly.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_methods)]

use crate::{common, stub};

use std::path::Path;
use std::process::{Child, Command, Output};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::live::{LONGEST_WAIT, Live, built};
use common::page::get;
use common::{arg, scratch, stderr, stdout, write};
use serde_json::{Value, json};
use stub::{reply, serve};

fn savings(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dovetail"));
    command.arg("savings").args(args).env_clear().env("HOME", "/nonexistent").env("PROMETHEUS_TOKEN", stub::TOKEN);
    let output = command.output().unwrap();
    assert!(!stdout(&output).contains(stub::TOKEN) && !stderr(&output).contains(stub::TOKEN), "a secret is written");
    output
}

/// Ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Prometheus that scrapes the sandbox each second; its address.
fn prometheus(target: &str) -> (Ends, String) {
    let program = built("promtool");
    let program = Path::new(&program).with_file_name("prometheus");
    let config = json!({"scrape_configs": [{"job_name": "dovetail", "scrape_interval": "1s", "static_configs": [
        {"targets": [target], "labels": {"pod": "one", "cluster": "demo"}}, {"targets": [target], "labels": {"pod": "two", "cluster": "demo"}}]}]});
    let config = write("savings-prometheus.yaml", &config.to_string());
    let data = scratch("savings-prometheus");
    let _ = std::fs::remove_dir_all(&data);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut command = Command::new(program);
    command.args([
        &format!("--config.file={config}"),
        &format!("--storage.tsdb.path={}", arg(&data)),
        &format!("--web.listen-address={free}"),
        "--log.level=error",
    ]);
    (Ends(command.spawn().unwrap()), free)
}

/// The lines of a metric, summed up.
fn sum_of(page: &str, metric: &str) -> f64 {
    let lines = page.lines().filter(|line| line.starts_with(&format!("{metric}{{")));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).fold(0.0, |sum, one| sum + one)
}

#[test]
fn savings_of_a_real_prometheus_are_what_its_cluster_costs() {
    // Nothing moves and no price changes once the pods run: what is paid is known.
    let pools = std::fs::read_to_string(common::root().join("deploy/examples/spot.yaml")).unwrap();
    let mut pools: String = pools.replace("[\"spot\", \"on-demand\"]", "[\"on-demand\"]");
    for (from, to) in [("WhenEmptyOrUnderutilized", "WhenEmpty"), ("consolidateAfter: 10s", "consolidateAfter: Never")]
    {
        assert!(pools.contains(from), "{from}");
        pools = pools.replace(from, to);
    }
    let pools = write("savings-pool.yaml", &pools);
    let pods = "deploy/examples/inflate-10.yaml";
    let live = Live::start("savings", &["--speed", "20", "--replicas", "1", "-f", &pools, "-f", pods]);
    let line = live.wait_for("page: ");
    let address = line.split("page: http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    live.ok(&["rollout", "status", "deployment/inflate", "--timeout=120s"]);
    let page = || get(&address, "/metrics").1;
    let begun = Instant::now();
    while sum_of(&page(), "karpenter_cluster_utilization_percent") < 1.0 {
        assert!(begun.elapsed() < LONGEST_WAIT, "{}", page());
        std::thread::sleep(Duration::from_millis(200));
    }
    let cost = sum_of(&page(), "dovetail_cost_dollars_per_hour");
    let (_ends, prometheus) = prometheus(&address);
    let url = format!("http://{prometheus}/");
    let args = ["--prometheus", &url, "--since", "1h", "--step", "1s", "--cluster", "demo", "--json"];
    let begun = Instant::now();
    let found: Value = loop {
        let output = savings(&args);
        let found: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        if let Some(found) = found.filter(|found| found["hours"].as_f64().unwrap() * 3600.0 > 4.0) {
            break found;
        }
        assert!(begun.elapsed() < LONGEST_WAIT, "{}{}", stdout(&output), stderr(&output));
        std::thread::sleep(Duration::from_millis(500));
    };
    let after = sum_of(&page(), "dovetail_cost_dollars_per_hour");
    assert!(cost > 0.0 && (cost - after).abs() < 1e-9, "nothing changes: {cost} {after}");
    let hours = found["hours"].as_f64().unwrap();
    let of =
        |name: &str| (found[name]["sum"].as_f64().unwrap() / hours, found[name]["error"].as_f64().unwrap() / hours);
    // Two targets are one cluster.
    assert!((of("paid").0 - cost).abs() < 1e-6 && of("paid").1 < 1e-9, "{cost}: {found:#}");
    let use_of = |resource: &str| found[resource].as_f64().unwrap() * cost;
    let (cpu, memory) = (use_of("cpuUse"), use_of("memoryUse"));
    assert!((of("needed").0 - (cpu + memory) / 2.0).abs() < 1e-6 && of("needed").0 < cost, "{found:#}");
    assert_eq!((&found["paidByKarpenter"], &found["comparisons"]), (&Value::Null, &json!(0)));
    let other = savings(&["--prometheus", &url, "--since", "1h", "--cluster", "other"]);
    assert_eq!((other.status.code(), stdout(&other).as_str()), (Some(2), ""));
    assert!(stderr(&other).contains("fewer than two samples"), "{}", stderr(&other));
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
