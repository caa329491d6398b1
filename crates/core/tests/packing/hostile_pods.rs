//! A hundred pods of any shape cost no more than their bound, and take nobody else's place: everything that a pod can multiply
//! takes steps before it takes time.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use dovetail_core::Problem;
use dovetail_core::pack::{Isolated, Isolation, Options, most_steps, solve_within};
use serde_json::{Map, Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const TYPE: &str = "node.kubernetes.io/instance-type";

/// So many hostile pods there are.
const PODS: usize = 100;

/// Three hundred instance types in three zones, as a region has them.
fn types() -> Vec<Value> {
    let one = |at: usize| {
        let (family, size) = (at / 6, at % 6);
        let cpu = 2 << size;
        let memory = cpu * [2, 4, 8][family % 3];
        let price = f64::from(cpu) * 0.04 + f64::from(memory) * 0.003 + 0.0001 * family as f64;
        let offering = |zone: &str, kind: &str, times: f64| json!({"zone": zone, "capacityType": kind, "price": price * times, "available": true});
        let offerings: Vec<Value> = ["a", "b", "c"]
            .iter()
            .flat_map(|zone| [offering(zone, "on-demand", 1.0), offering(zone, "spot", 0.4)])
            .collect();
        let is = |key: &str, value: String| json!({"key": key, "operator": "In", "values": [value]});
        json!({"name": format!("f{family}.s{size}"),
            "capacity": {"cpu": cpu.to_string(), "memory": format!("{memory}Gi"), "pods": "110"},
            "requirements": [is(TYPE, format!("f{family}.s{size}")), is("karpenter.k8s.aws/instance-family", format!("f{family}")),
                is("kubernetes.io/arch", "amd64".to_owned())],
            "offerings": offerings})
    };
    (0..300).map(one).collect()
}

/// Hostile pods, each by its number, beside five that are none.
fn problem(hostile: impl Fn(usize) -> Value) -> Problem {
    let pod = |at: usize| {
        let mut one = json!({"name": format!("h{at}"), "uid": format!("h{at}"), "namespace": "evil", "labels": {"app": format!("h{at}")},
            "requests": {"cpu": "100m", "memory": "128Mi"}});
        hostile(at).as_object().into_iter().flatten().for_each(|(key, value)| one[key] = value.clone());
        one
    };
    let good = |at: usize| json!({"name": format!("g{at}"), "uid": format!("g{at}"), "namespace": "good", "requests": {"cpu": "1", "memory": "1Gi"}});
    let pods: Vec<Value> = (0..PODS).map(pod).chain((0..5).map(good)).collect();
    serde_json::from_value(json!({"nodePools": [{"name": "default"}, {"name": "other", "weight": 5}], "pods": pods,
        "instanceTypes": types(), "wellKnownLabels": [TYPE, "karpenter.k8s.aws/instance-family"]}))
    .unwrap()
}

/// The result of the isolation, and the number of steps that failed attempts were given.
fn isolated(problem: &Problem) -> (Isolated, u64) {
    let mut isolation = Isolation::new(Arc::new(problem.clone()), Options::default(), |_| None);
    let mut lost = 0;
    loop {
        let asked = isolation.asked();
        let answer = solve_within(&asked.problem, &asked.options);
        if answer.is_err() {
            lost += asked.options.most_steps.unwrap_or_else(|| most_steps(&asked.problem));
        }
        if let Some(isolated) = isolation.answered(answer) {
            return (isolated, lost);
        }
    }
}

fn terms(count: usize, of: impl Fn(usize) -> Value) -> Value {
    Value::Array((0..count).map(of).collect())
}

/// Makes a hostile pod's spec from its number.
type Shape = Box<dyn Fn(usize) -> Value>;

fn not_in(key: &str, values: &[String]) -> Value {
    json!({"key": key, "operator": "NotIn", "values": values})
}

fn node_affinity(terms: &Value) -> Value {
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
}

fn apart(terms: &Value) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
}

/// The shapes, by name.
#[allow(clippy::too_many_lines)] // one shape after the other
fn shapes() -> Vec<(&'static str, Shape)> {
    let port = |number: usize| json!({"port": 1 + number % 65_000});
    let named = |at: usize, count: usize| -> Map<String, Value> {
        (0..count).map(|nth| (format!("evil.example/r{at}-{nth}"), json!("1"))).collect()
    };
    let own_term = |at: usize, nth: usize, key: &str| {
        json!({"topologyKey": key, "labelSelector": {"matchExpressions": [
            {"key": "app", "operator": "NotIn", "values": [format!("x{at}-{nth}")]}]}})
    };
    vec![
        (
            "ports of one's own",
            Box::new(move |at| json!({"hostPorts": (0..500).map(|nth| port(at * 500 + nth)).collect::<Vec<_>>()})),
        ),
        (
            "the same ports",
            Box::new(move |at| {
                let ip = format!("10.0.{}.{}", at / 250, at % 250);
                json!({"hostPorts": (0..500).map(|nth| json!({"port": 1 + nth, "ip": ip})).collect::<Vec<_>>()})
            }),
        ),
        ("resources of one's own", Box::new(move |at| json!({"requests": named(at, 50)}))),
        (
            "types not wanted",
            Box::new(|at| {
                let values: Vec<String> = (0..20).map(|nth| format!("f{}.s{}", (at + nth) % 50, nth % 6)).collect();
                node_affinity(&json!([{"matchExpressions": [not_in(TYPE, &values)]}]))
            }),
        ),
        (
            "keys of one's own",
            Box::new(|at| {
                let said: Vec<Value> =
                    (0..50).map(|nth| not_in(&format!("evil.example/k{at}-{nth}"), &["x".to_owned()])).collect();
                node_affinity(&json!([{"matchExpressions": said}]))
            }),
        ),
        (
            "many terms",
            Box::new(|at| {
                let term = |nth: usize| {
                    let values = [format!("f{}.s{}", (at + nth) % 50, nth % 6)];
                    json!({"matchExpressions": [not_in(TYPE, &values), not_in(ZONE, &["q".to_owned()])]})
                };
                node_affinity(&terms(200, term))
            }),
        ),
        ("anti-affinity on nodes", Box::new(move |at| apart(&terms(200, |nth| own_term(at, nth, HOST))))),
        ("anti-affinity over zones", Box::new(move |at| apart(&terms(200, |nth| own_term(at, nth, ZONE))))),
        (
            "namespaces by label",
            Box::new(|at| {
                apart(&terms(100, |nth| {
                    json!({"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": format!("x{nth}")}},
                    "namespaceSelector": {"matchLabels": {"team": format!("t{at}-{nth}")}}})
                }))
            }),
        ),
        (
            "spread over everything",
            Box::new(|at| {
                let spread = |nth: usize| {
                    json!({"topologyKey": ([ZONE, HOST, TYPE, "karpenter.k8s.aws/instance-family"][nth % 4]), "maxSkew": 1 + nth,
                    "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": format!("h{}", (at + nth) % PODS)}}})
                };
                json!({"topologySpreadConstraints": (0..40).map(spread).collect::<Vec<_>>()})
            }),
        ),
        (
            "a size of one's own",
            Box::new(
                |at| json!({"requests": {"cpu": format!("{}m", 101 + 7 * at), "memory": format!("{}Mi", 64 + 13 * at)}}),
            ),
        ),
        ("large for every type", Box::new(|at| json!({"requests": {"cpu": format!("{}", 1000 + at)}}))),
        (
            "volumes in many ways",
            Box::new(|at| {
                let way = |nth: usize| {
                    json!([{"key": ZONE, "operator": "In", "values": [(["a", "b", "c"][(at + nth) % 3])]},
                {"key": TYPE, "operator": "NotIn", "values": [format!("f{}.s{}", (at + nth) % 50, nth % 6)]}])
                };
                json!({"volumeTopology": (0..60).map(way).collect::<Vec<_>>()})
            }),
        ),
    ]
}

#[test]
fn hundred_pods_of_any_shape_take_no_place_of_others() {
    for (name, shape) in shapes() {
        let problem = problem(shape);
        let all = most_steps(&problem);
        let (isolated, lost) = isolated(&problem);
        let left: Vec<usize> = isolated.packing.unscheduled.iter().map(|(pod, _)| *pod).collect();
        assert!(left.iter().all(|pod| problem.pods[*pod].namespace == "evil"), "{name}: {left:?}");
        assert!(lost <= all * 5 / 2, "{name}: {lost} of {all}");
    }
}

#[test]
fn resources_that_nothing_has_are_named_and_cost_nothing() {
    let names = |at: usize| -> Map<String, Value> {
        (0..50).map(|nth| (format!("evil.example/r{at}-{nth}"), json!("1"))).collect()
    };
    let problem = problem(|at| json!({"requests": names(at)}));
    let options = Options { most_steps: Some(most_steps(&problem) / 10), ..Options::default() };
    let packing = solve_within(&problem, &options).unwrap();
    assert_eq!(packing.unscheduled.len(), PODS);
    let told = packing.unscheduled[0].1.to_string();
    assert!(
        told.contains("needs 1 evil.example/r") && told.contains("which no instance type and no node has"),
        "{told}"
    );
}

#[test]
fn daemonsets_are_compared_with_pods_within_a_bound() {
    let mut problem = problem(|at| json!({"labels": {"app": format!("h{at}"), "own": format!("{at}")}}));
    let daemon = |at: usize| {
        let term = |nth: usize| {
            // The last one means pods of others: the DaemonSet counts nowhere, but only after all the others were looked at.
            let values = if nth == 59 { vec![] } else { vec![format!("nobody-{at}-{nth}")] };
            let operator = if nth == 59 { "DoesNotExist" } else { "In" };
            json!({"topologyKey": HOST, "namespaceSelector": {},
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}})
        };
        let mut one = apart(&terms(60, term));
        one["name"] = json!(format!("d{at}"));
        one["namespace"] = json!("evil");
        one["requests"] = json!({"cpu": "10m"});
        serde_json::from_value(one).unwrap()
    };
    problem.daemon_pods = (0..300).map(daemon).collect();
    let packing = solve_within(&problem, &Options::default()).unwrap();
    assert!(packing.unscheduled.is_empty());
    let compared = packing.daemons_not_counted.iter().filter(|one| one.why.contains("against pods of others"));
    assert!((1..=60).contains(&compared.count()));
    assert_eq!(packing.daemons_not_counted.len(), 300);
}
