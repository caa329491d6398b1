//! `savings` of saved answers of Prometheus: what is summed up, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;
use common::{dovetail, json as answer_of, stderr, stdout, write};
use serde_json::{Value, json};

const COST: &str = "dovetail_cost_dollars_per_hour";

/// Two hours of a series, a sample a minute.
fn series(metric: &str, labels: &Value, value: impl Fn(u32) -> f64) -> Value {
    let mut own = json!({"__name__": metric, "job": "dovetail"});
    own.as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
    let values: Vec<Value> =
        (0..=120).map(|minute| json!([1_767_225_600 + 60 * minute, value(minute).to_string()])).collect();
    json!({"metric": own, "values": values})
}

/// A day of two replicas that see the same, with a packing compared every half hour.
fn day(cluster: &Value) -> Vec<Value> {
    let of = |metric: &str, more: Value, value: &dyn Fn(u32) -> f64| {
        let mut labels = cluster.clone();
        labels.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        series(metric, &labels, value)
    };
    let mut all = Vec::new();
    for pod in ["dovetail-0", "dovetail-1"] {
        all.push(of(COST, json!({"pod": pod, "nodepool": "web", "capacity_type": "spot", "zone": "a"}), &|_| 2.0));
        all.push(of(COST, json!({"pod": pod, "nodepool": "web", "capacity_type": "on-demand", "zone": "b"}), &|_| 1.0));
        for (resource, percent) in [("cpu", 80.0), ("memory", 40.0)] {
            let labels = json!({"pod": pod, "resource_type": resource});
            all.push(of("karpenter_cluster_utilization_percent", labels, &|_| percent));
        }
    }
    for (policy, dollars) in [("cost", 10.0), ("fewest-nodes", 25.0)] {
        let labels = json!({"pod": "dovetail-0", "policy": policy});
        let value = |minute: u32| dollars * f64::from(minute / 30);
        all.push(of("dovetail_packing_compared_dollars_per_hour_total", labels, &value));
    }
    all
}

fn saved(name: &str, result: &[Value]) -> String {
    write(name, &json!({"status": "success", "data": {"resultType": "matrix", "result": result}}).to_string())
}

fn refused(args: &[&str], said: &str) {
    let output = dovetail(&[&["savings"], args].concat());
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{args:?}: {}", stderr(&output));
    assert!(stderr(&output).contains(said), "{args:?}: {said} is not in {}", stderr(&output));
}

#[test]
fn metrics_say_what_was_paid_requested_and_by_karpenter() {
    let file = saved("day.json", &day(&json!({})));
    let found = answer_of(&dovetail(&["savings", "--file", &file, "--json"]), 0);
    let of = |name: &str| (found[name]["sum"].as_f64().unwrap(), found[name]["error"].as_f64().unwrap());
    let close = |(sum, error): (f64, f64), expected: (f64, f64)| {
        assert!((sum - expected.0).abs() < 1e-6 && (error - expected.1).abs() < 1e-6, "{sum} ±{error}: {found:#}");
    };
    close(of("paid"), (6.0, 0.0));
    // Between 40 and 80 % of it.
    close(of("needed"), (3.6, 1.2));
    close(of("paidByKarpenter"), (15.0, 0.0));
    assert_eq!((&found["hours"], &found["comparisons"]), (&json!(2.0), &json!(4)));
    let text = stdout(&dovetail(&["savings", "--file", &file]));
    for part in [
        "over 2.00 hours, by metrics",
        "$6.0000 ±0.0000",
        "67 % ±56 more was paid",
        "60 % ±0 less was paid",
        "4 packings",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // In pieces, as somebody saves them who asks for one metric at a time.
    let all = day(&json!({}));
    let (first, second) = (saved("first.json", &all[..3]), saved("second.json", &all[3..]));
    let again = answer_of(&dovetail(&["savings", "--file", &first, "--file", &second, "--json"]), 0);
    assert_eq!(again, found);
    // Nothing but what a bare Karpenter has: the rest is said to be missing.
    let bare = saved("bare.json", &[series("karpenter_nodepools_cost_total", &json!({"nodepool": "web"}), |_| 3.0)]);
    let text = stdout(&dovetail(&["savings", "--file", &bare]));
    for part in ["$6.0000", "what the pods requested is not known", "no packing was compared"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn metrics_that_are_no_day_of_one_cluster_are_refused() {
    let both = [day(&json!({"cluster": "blue\u{1b}[31m"})), day(&json!({"cluster": "green"}))].concat();
    let file = saved("clusters.json", &both);
    refused(&["--file", &file], "series of 2 clusters: --cluster NAME says which (allowed: blue\\u{1b}[31m, green)");
    refused(&["--file", &file, "--cluster", "red"], "no series with the label cluster=red");
    let green = answer_of(&dovetail(&["savings", "--file", &file, "--cluster", "green", "--json"]), 0);
    assert!((green["paid"]["sum"].as_f64().unwrap() - 6.0).abs() < 1e-6, "{green:#}");
    refused(&["--file", &saved("nothing.json", &[])], "fewer than two samples of what nodes cost");
    refused(&["--file", "/nonexistent"], "no such file");
    let instant =
        json!({"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "2"]}]}});
    refused(&["--file", &write("instant.json", &instant.to_string())], "query_range's is a matrix");
    refused(&["--file", &write("page.json", "<html>")], "is no whole answer of query_range");
    refused(&["--file", &file, "--prometheus", "http://127.0.0.1:1"], "cannot be used with");
    refused(&["day.jsonl", "--file", &file], "cannot be used with");
    refused(&[], "<RECORD>");
    refused(&["--prometheus", "http://user:sesame@prometheus"], "has a password in it");
    refused(&["--prometheus", "http://prometheus", "--since", "31d", "--step", "1s"], "11000 at most");
}
