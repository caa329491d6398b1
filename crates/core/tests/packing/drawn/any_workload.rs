//! Any workload, with every field that the workload file has: packing never panics, meets no bound, answers every pod once, and
//! what it answers is valid by an independent check as far as there is one. Volumes that pods share are in most of them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use crate::common;

use std::collections::BTreeSet;

use dovetail_core::pack::{Options, Packing, solve_within};
use dovetail_core::{Pod, Problem};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const ZONES: [&str; 3] = ["a", "b", "c"];
const APPS: [&str; 4] = ["web", "api", "db", "job"];
/// Stands for a workload's own name until it has one.
const OWN: &str = "the-workload-s-own";
const DRIVERS: [&str; 2] = ["attachable-volumes-csi-ebs", "attachable-volumes-csi-efs"];
const VOLUMES: [&str; 4] = ["v0", "v1", "v2", "v3"];
const KINDS: [&str; 3] = ["spot", "on-demand", "reserved"];

/// Fields together, later ones over earlier ones.
fn merged(parts: Vec<Value>) -> Value {
    let mut all = Map::new();
    parts.into_iter().for_each(|part| all.extend(part.as_object().unwrap().clone()));
    Value::Object(all)
}

fn named(prefix: &str, mut all: Vec<Value>) -> Vec<Value> {
    for (at, one) in all.iter_mut().enumerate() {
        one["name"] = json!(format!("{prefix}{at}"));
        if prefix == "p" {
            one["uid"] = json!(format!("uid{at}"));
        }
    }
    all
}

fn some<T: std::fmt::Debug + Clone + 'static>(
    from: &'static [T],
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = Vec<T>> {
    prop::sample::subsequence(from.to_vec(), count)
}

fn app() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&APPS[..])
}

/// Volumes that other pods use too, with the resource that counts each: the same for all pods.
fn shared_volumes(most: usize) -> impl Strategy<Value = Value> {
    some(&VOLUMES, 0..most + 1).prop_map(|names| {
        let of = |name: &str| DRIVERS[usize::from(name > "v1")];
        json!({"sharedVolumes": names.iter().map(|name| ((*name).to_owned(), json!(of(name)))).collect::<Map<_, _>>()})
    })
}

/// Zones that the pod's volumes are in, one list a way.
fn volume_zones() -> impl Strategy<Value = Value> {
    prop::option::weighted(0.3, some(&ZONES, 1..3)).prop_map(|zones| match zones {
        None => json!({}),
        Some(zones) => {
            let way = |zone: &&str| json!([{"key": ZONE, "operator": "In", "values": [zone]}]);
            json!({"volumeTopology": zones.iter().map(way).collect::<Vec<_>>()})
        }
    })
}

/// A type that can be had in every zone, both ways: where it could not, the check would have to know what the solver knows.
fn machine() -> impl Strategy<Value = Value> {
    let prices = prop::collection::vec(1u32..1000, 6);
    let limits = prop::collection::vec(prop::option::weighted(0.7, 0u32..5), 2);
    (1u32..17, 1u32..65, 3u32..30, prices, limits).prop_map(|(cpu, gib, pods, prices, limits)| {
        let offers = prices.into_iter().enumerate().map(|(at, price)| {
            json!({"zone": ZONES[at % 3], "capacityType": KINDS[at / 3], "price": f64::from(price) / 100.0, "available": true})
        });
        let attachments = DRIVERS.iter().zip(limits).filter_map(|(driver, most)| Some(((*driver).to_owned(), json!(most?))));
        json!({"capacity": {"cpu": cpu.to_string(), "memory": format!("{gib}Gi"), "pods": pods.to_string()},
            "attachments": attachments.collect::<Map<_, _>>(), "requirements": [], "offerings": offers.collect::<Vec<_>>()})
    })
}

/// Rules that the check knows: over zones and hosts, each of a workload about its own pods. Of others' pods the order in which they
/// are bound decides, which the check does not know.
fn rules() -> impl Strategy<Value = Value> {
    let key = || prop::sample::select(vec![ZONE, HOST]);
    let selector = || json!({"matchLabels": {"app": OWN}});
    prop_oneof![
        3 => Just(json!({})),
        1 => (key(), 1..4u32).prop_map(move |(key, skew)| json!({"topologySpreadConstraints": [
            {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector()}]})),
        1 => key().prop_map(move |key| json!({"affinity": {"podAntiAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": key, "labelSelector": selector()}]}}})),
        1 => (key(), 1..4u32).prop_map(move |(key, skew)| json!({"topologySpreadConstraints": [
            {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector()}]})),
        1 => (key(), 1..100).prop_map(move |(key, weight)| json!({"affinity": {"podAffinity":
            {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": weight, "podAffinityTerm": {"topologyKey": key, "labelSelector": selector()}}]}}})),
        1 => some(&ZONES, 1..3).prop_map(|zones| json!({"affinity": {"nodeAffinity":
            {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": {"matchExpressions": [
                {"key": ZONE, "operator": "In", "values": zones}]}}]}}})),
    ]
}

fn pod() -> impl Strategy<Value = Value> {
    let ports = prop::option::weighted(0.2, prop::sample::select(vec![80, 443]));
    let selected = prop::option::weighted(0.2, prop::sample::select(&ZONES[..]));
    let amounts = (1u32..60, 1u32..60, 0..3u32);
    let plain = (amounts, ports, selected, any::<bool>(), -1..2i32).prop_map(
        |((cpu, memory, own), port, zone, tolerates, priority)| {
            json!({
                "requests": {"cpu": format!("{}m", cpu * 100), "memory": format!("{}Mi", memory * 256), DRIVERS[0]: own},
                "labels": {"app": OWN}, "priority": priority,
                "hostPorts": port.map(|port| vec![json!({"port": port})]).unwrap_or_default(),
                "nodeSelector": zone.map(|zone| json!({ZONE: zone})).unwrap_or(json!({})),
                "tolerations": if tolerates { json!([{"key": "dedicated", "operator": "Exists"}]) } else { json!([]) },
            })
        },
    );
    (plain, shared_volumes(3), volume_zones(), rules())
        .prop_map(|(plain, shared, zones, rules)| merged(vec![plain, shared, zones, rules]))
}

fn pool() -> impl Strategy<Value = Value> {
    let policy = prop::sample::select(vec!["cost", "cost", "fewest-nodes", "node-groups"]);
    let limits = prop::option::weighted(0.3, (1u32..60, prop::option::of(1u32..9)));
    (policy, any::<bool>(), 0..3i32, limits, prop::option::weighted(0.3, 0..2usize)).prop_map(
        |(policy, tainted, weight, limits, kind)| {
            let requirements =
                kind.map(|kind| json!({"key": CAPACITY_TYPE, "operator": "In", "values": [KINDS[kind]]}));
            let limits = limits.map(|(cpu, nodes)| json!({"cpu": cpu, "nodes": nodes.unwrap_or(1000)}));
            json!({"policy": policy, "weight": weight, "limits": limits.unwrap_or(json!({})),
                "requirements": requirements.into_iter().collect::<Vec<_>>(),
                "taints": if tainted { json!([{"key": "dedicated", "effect": "NoSchedule"}]) } else { json!([]) }})
        },
    )
}

fn node() -> impl Strategy<Value = Value> {
    let zone = prop::sample::select(&ZONES[..]);
    (1u32..17, zone, any::<bool>(), 0..4u32, some(&VOLUMES, 0..3)).prop_map(
        |(cpu, zone, initialized, most, volumes)| {
            // Attached volumes are among those that are used.
            let attached =
                |driver: &str| volumes.iter().filter(|name| DRIVERS[usize::from(**name > "v1")] == driver).count();
            json!({"labels": {ZONE: zone}, "initialized": initialized, "volumes": volumes,
            "allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "20", DRIVERS[0]: most + 2, DRIVERS[1]: 3},
            "used": {DRIVERS[0]: attached(DRIVERS[0]), DRIVERS[1]: attached(DRIVERS[1])}})
        },
    )
}

/// A problem that the check knows everything of.
fn problem() -> impl Strategy<Value = Problem> {
    let copies = prop::collection::vec((pod(), 1..9usize), 1..7);
    let pools = prop::collection::vec(pool(), 1..3);
    (prop::collection::vec(machine(), 1..7), pools, copies, prop::collection::vec(node(), 0..4)).prop_map(
        |(types, pools, pods, nodes)| {
            let workload = |(at, (pod, count)): (usize, (Value, usize))| {
                let own: Value = serde_json::from_str(&pod.to_string().replace(OWN, &format!("w{at}"))).unwrap();
                std::iter::repeat_n(own, count)
            };
            let pods = pods.into_iter().enumerate().flat_map(workload).collect();
            serde_json::from_value(json!({"nodePools": named("pool", pools), "instanceTypes": named("t", types),
                "pods": named("p", pods), "existingNodes": named("n", nodes)}))
            .unwrap()
        },
    )
}

/// That no two pods on one node take the same port.
fn ports_taken_twice(problem: &Problem, packing: &Packing) -> Vec<String> {
    let planned = packing.claims.iter().map(|claim| &claim.pods);
    let nodes = planned.chain(packing.on_existing.iter().map(|(_, pods)| pods));
    let mut wrong = Vec::new();
    for pods in nodes {
        let mut taken = BTreeSet::new();
        for pod in pods {
            let own = &problem.pods[*pod].host_ports;
            wrong.extend(
                own.iter().filter(|port| !taken.insert(port.port)).map(|port| format!("{} of {pod}", port.port)),
            );
        }
    }
    wrong
}

fn packed(problem: &Problem) -> Packing {
    solve_within(problem, &Options::default()).expect("a small problem is far from its bound")
}

// Anything at all: what the check does not know, in amounts that make no sense.

fn quantity() -> impl Strategy<Value = &'static str> {
    // As much as cpu can be, in thousandths, and more than anything else can sum up to.
    prop::sample::select(vec!["0", "1m", "1", "3", "100", "1P", "9P", "8E", "9223372036854775807"])
}

fn amounts() -> impl Strategy<Value = Value> {
    let names = some(
        &[
            "cpu",
            "memory",
            "pods",
            "ephemeral-storage",
            "nvidia.com/gpu",
            "hugepages-2Mi",
            "hugepages-1Gi",
            DRIVERS[0],
            DRIVERS[1],
        ],
        0..6,
    );
    (names, prop::collection::vec(quantity(), 9)).prop_map(|(names, amounts)| {
        let held = |name: &str, amount: &'static str| {
            if name == "cpu" && (amount == "8E" || amount.len() > 3) { "9P" } else { amount }
        };
        Value::Object(
            names.into_iter().zip(amounts).map(|(name, amount)| (name.to_owned(), json!(held(name, amount)))).collect(),
        )
    })
}

fn selector() -> impl Strategy<Value = Value> {
    prop_oneof![
        app().prop_map(|app| json!({"matchLabels": {"app": app}})),
        Just(json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})),
        Just(json!({})),
        Just(json!(null)),
    ]
}

fn key() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![ZONE, HOST, CAPACITY_TYPE, "rack"]).prop_map(|key| json!(key))
}

/// A requirement of any kind, also such as nothing can meet.
fn requirement() -> impl Strategy<Value = Value> {
    let key = prop::sample::select(vec![
        ZONE,
        HOST,
        CAPACITY_TYPE,
        "rack",
        "team",
        "node.kubernetes.io/instance-type",
        "size",
    ]);
    let operator = prop::sample::select(vec!["In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]);
    let values = some(&["a", "b", "r0", "t0", "spot", "on-demand", "4"], 1..4);
    let number = prop::sample::select(vec!["0", "4", "-1", "9223372036854775807", "x"]);
    (key, operator, values, number).prop_map(|(key, operator, values, number)| {
        let values = match operator {
            "Exists" | "DoesNotExist" => json!([]),
            "Gt" | "Lt" => json!([number]),
            _ => json!(values),
        };
        json!({"key": key, "operator": operator, "values": values})
    })
}

fn requirements(most: usize) -> impl Strategy<Value = Vec<Value>> {
    let none = Just(Vec::new());
    prop_oneof![3 => none, 1 => prop::collection::vec(requirement(), 0..most + 1)]
}

fn own_labels() -> impl Strategy<Value = Value> {
    (prop::option::weighted(0.3, 0..3u32), prop::option::weighted(0.3, 0..3u32)).prop_map(|(rack, team)| {
        let rack = rack.map(|rack| ("rack".to_owned(), json!(format!("r{rack}"))));
        let team = team.map(|team| ("team".to_owned(), json!(format!("t{team}"))));
        Value::Object(rack.into_iter().chain(team).collect())
    })
}

fn effect() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["NoSchedule", "PreferNoSchedule", "NoExecute"])
}

fn any_taints() -> impl Strategy<Value = Value> {
    let taint = (prop::sample::select(vec!["dedicated", "odd"]), prop::option::of(Just("yes")), effect());
    let taints = prop::collection::vec(taint, 0..3);
    prop_oneof![3 => Just(Vec::new()), 1 => taints].prop_map(|all| {
        all.into_iter().map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effect})).collect()
    })
}

fn any_tolerations() -> impl Strategy<Value = Value> {
    let key = prop::option::of(prop::sample::select(vec!["dedicated", "odd"]));
    let operator = prop::option::of(prop::sample::select(vec!["Exists", "Equal"]));
    let seconds = prop::sample::select(vec![None, Some(0), Some(-1), Some(i64::MAX)]);
    let one = (key, operator, prop::option::of(Just("yes")), prop::option::of(effect()), seconds).prop_map(
        |(key, operator, value, effect, seconds)| {
            json!({"key": key, "operator": operator, "value": value, "effect": effect, "tolerationSeconds": seconds})
        },
    );
    prop::collection::vec(one, 0..3).prop_map(Value::Array)
}

fn any_ports() -> impl Strategy<Value = Value> {
    let port = prop::sample::select(vec![80, 443, 0, -1, i32::MAX]);
    let (protocol, ip) =
        (prop::sample::select(vec!["TCP", "UDP", "SCTP"]), prop::sample::select(vec!["", "0.0.0.0", "::", "10.0.0.1"]));
    let one =
        (port, protocol, ip).prop_map(|(port, protocol, ip)| json!({"port": port, "protocol": protocol, "ip": ip}));
    prop::collection::vec(one, 0..3).prop_map(Value::Array)
}

/// Further fields of some pods: preferences, creation time, tolerations.
fn more_of_pod() -> impl Strategy<Value = Value> {
    let created = prop::sample::select(vec![
        None,
        Some("2026-01-01T00:00:00Z"),
        Some("-009999-01-02T01:59:59Z"),
        Some("9999-12-30T22:00:00Z"),
    ]);
    let refused = some(&["n0", "n1", "n2", "no-such-node"], 0..3);
    let often = (any_ports(), any_tolerations(), own_labels());
    let existing_only = prop::bool::weighted(0.2);
    let more = (often, created, refused, existing_only).prop_map(
        |((ports, tolerations, selector), created, refused, waits)| {
            json!({"hostPorts": ports, "tolerations": tolerations, "nodeSelector": selector, "created": created,
            "refusedNodes": refused, "existingOnly": waits})
        },
    );
    prop_oneof![3 => Just(json!({})), 1 => more]
}

/// Requirements of the pod's volumes that nothing may meet, in few.
fn any_volume_topology() -> impl Strategy<Value = Value> {
    let ways = prop::collection::vec(prop::collection::vec(requirement(), 0..3), 0..3);
    prop_oneof![9 => Just(json!({})), 1 => ways.prop_map(|ways| json!({"volumeTopology": ways}))]
}

fn overhead() -> impl Strategy<Value = Value> {
    let none = Just(json!({}));
    let some = (amounts(), amounts(), amounts())
        .prop_map(|(kube, system, threshold)| json!({"kubeReserved": kube, "systemReserved": system, "evictionThreshold": threshold}));
    prop_oneof![5 => none, 1 => some]
}

fn term() -> impl Strategy<Value = Value> {
    (key(), selector(), any::<(bool, bool)>()).prop_map(|(key, selector, (keyed, everywhere))| {
        let keys = if keyed { json!(["pod-template-hash"]) } else { json!(null) };
        let namespaces = if everywhere { json!({}) } else { json!(null) };
        json!({"topologyKey": key, "labelSelector": selector, "matchLabelKeys": keys, "namespaceSelector": namespaces})
    })
}

fn any_spread() -> impl Strategy<Value = Value> {
    let policy = || prop::sample::select(vec![None, Some("Honor"), Some("Ignore")]);
    let skew = prop::sample::select(vec![1, 2, 10, i32::MAX]);
    (key(), selector(), skew, any::<bool>(), prop::option::of(1..9), policy(), policy()).prop_map(
        |(key, selector, skew, hard, domains, affinity, taints)| {
            json!({"topologyKey": key, "labelSelector": selector, "maxSkew": skew, "minDomains": domains,
                "whenUnsatisfiable": if hard { "DoNotSchedule" } else { "ScheduleAnyway" }, "matchLabelKeys": ["pod-template-hash"],
                "nodeAffinityPolicy": affinity, "nodeTaintsPolicy": taints})
        },
    )
}

fn any_affinity() -> impl Strategy<Value = Value> {
    let terms = || prop::collection::vec(term(), 0..3);
    let weighted = || {
        let one = (1..100, term()).prop_map(|(weight, term)| json!({"weight": weight, "podAffinityTerm": term}));
        prop::collection::vec(one, 0..4)
    };
    let zones = || {
        some(&ZONES, 1..3)
            .prop_map(|zones| json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": zones}]}))
    };
    let preferred = || (1..100, zones()).prop_map(|(weight, term)| json!({"weight": weight, "preference": term}));
    // Now and then far more than count.
    let preferred =
        prop_oneof![9 => prop::collection::vec(preferred(), 0..4), 1 => prop::collection::vec(preferred(), 30..80)];
    let required = prop::option::weighted(0.3, prop::collection::vec(zones(), 1..3));
    (terms(), terms(), weighted(), weighted(), preferred, required).prop_map(|(near, far, nearer, farther, preferred, required)| {
        let required = required.map(|terms| json!({"nodeSelectorTerms": terms}));
        json!({"affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required, "preferredDuringSchedulingIgnoredDuringExecution": preferred},
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near, "preferredDuringSchedulingIgnoredDuringExecution": nearer},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": far, "preferredDuringSchedulingIgnoredDuringExecution": farther}}})
    })
}

fn any_pod() -> impl Strategy<Value = Value> {
    let rare = |part: f64| prop::bool::weighted(part);
    let sane = (1u32..40).prop_map(|cpu| json!({"cpu": format!("{}m", cpu * 100), "memory": "512Mi"}));
    let requests = prop_oneof![2 => sane, 1 => amounts()];
    let port = prop::option::weighted(0.2, prop::sample::select(vec![80, 443]));
    let flags = (rare(0.1), rare(0.1), rare(0.05), rare(0.5), rare(0.3));
    let plain = (requests, app(), port, flags, -1..2i32, 0..3u32).prop_map(
        |(requests, app, port, (to_come, relaxed, blocked, tolerates, away), priority, hash)| {
            json!({"requests": requests, "labels": {"app": app, "pod-template-hash": hash.to_string()}, "priority": priority,
                "namespace": if away { "away" } else { "default" }, "toCome": to_come, "relaxed": relaxed,
                "blocked": blocked.then_some("its claim is not there"),
                "hostPorts": port.map(|port| vec![json!({"port": port})]).unwrap_or_default(),
                "tolerations": if tolerates { json!([{"operator": "Exists"}]) } else { json!([]) }})
        },
    );
    let spreads = prop::collection::vec(any_spread(), 0..3).prop_map(|all| json!({"topologySpreadConstraints": all}));
    let affinity = prop_oneof![1 => Just(json!({})), 1 => any_affinity()];
    (plain, shared_volumes(4), volume_zones(), spreads, affinity, more_of_pod(), any_volume_topology()).prop_map(
        |(plain, shared, zones, spreads, affinity, more, topology)| {
            merged(vec![plain, shared, zones, spreads, affinity, more, topology])
        },
    )
}

fn any_machine() -> impl Strategy<Value = Value> {
    let reserved = prop::option::weighted(0.3, (0..3usize, prop::option::of(0u32..3), 0..2usize));
    let own = (overhead(), requirements(2), requirements(2), prop::sample::select(vec![1.0, 0.0, 1e300, 5e-324]));
    (machine(), reserved, prop::bool::weighted(0.2), amounts(), amounts(), own).prop_map(
        |(mut one, reserved, odd, capacity, attachments, (overhead, requirements, offered, price))| {
            (one["overhead"], one["requirements"]) = (overhead, json!(requirements));
            one["offerings"][0]["requirements"] = json!(offered);
            if odd {
                one["offerings"][1]["price"] = json!(price);
            }
            let some = one["capacity"]["cpu"].as_str().unwrap().len();
            one["offerings"].as_array_mut().unwrap().iter_mut().step_by(1 + some).for_each(|offer| offer["available"] = json!(false));
            if let Some((zone, left, id)) = reserved {
                let pin = json!([{"key": "karpenter.k8s.aws/capacity-reservation-id", "operator": "In", "values": [format!("cr-{id}")]}]);
                let offer = json!({"zone": ZONES[zone], "capacityType": "reserved", "price": 0.0, "available": true,
                    "reservationCapacity": left, "requirements": pin});
                one["offerings"].as_array_mut().unwrap().push(offer);
            }
            if odd {
                (one["capacity"], one["attachments"]) = (capacity, attachments);
            }
            one
        },
    )
}

fn any_pool() -> impl Strategy<Value = Value> {
    let least = prop::option::weighted(0.2, 1..9u32);
    let odd = prop::option::weighted(0.2, (amounts(), amounts()));
    let types = prop::option::weighted(0.1, prop::collection::vec(0..7usize, 0..4));
    let own = (own_labels(), any_taints(), any_taints(), requirements(3), types, prop::option::of(Just("class")));
    (pool(), least, odd, 0..4u32, own).prop_map(|(mut pool, least, odd, nodes, own)| {
        let (labels, taints, startup, requirements, types, class) = own;
        (pool["labels"], pool["startupTaints"], pool["nodeClass"]) = (labels, startup, json!(class));
        (pool["instanceTypes"], pool["weight"]) = (json!(types), json!(if nodes == 3 { i32::MIN } else { 1 }));
        if taints != json!([]) {
            pool["taints"] = taints;
        }
        if !requirements.is_empty() {
            pool["requirements"] = json!(requirements);
        }
        if let Some(least) = least {
            pool["requirements"] = json!([{"key": "node.kubernetes.io/instance-type", "operator": "Exists", "values": [], "minValues": least}]);
        }
        if let Some((limits, usage)) = odd {
            (pool["limits"], pool["usage"]) = (limits, usage);
        }
        pool["minNodes"] = json!(nodes);
        pool
    })
}

fn any_node() -> impl Strategy<Value = Value> {
    let bound = prop::collection::vec(any_pod(), 0..3);
    let odd = prop::option::weighted(0.2, (amounts(), amounts(), amounts()));
    (node(), bound, odd, any_taints(), own_labels()).prop_map(|(mut node, bound, odd, taints, labels)| {
        (node["pods"], node["taints"]) = (json!(named("bound", bound)), taints);
        node["labels"] = merged(vec![labels, node["labels"].clone()]);
        if let Some((allocatable, used, daemons)) = odd {
            (node["allocatable"], node["used"], node["daemonRequests"]) = (allocatable, used, daemons);
        }
        node
    })
}

fn anything() -> impl Strategy<Value = Problem> {
    let copies = prop::collection::vec((any_pod(), 1..9usize), 1..7);
    let daemons = prop::collection::vec(any_pod(), 0..2);
    (
        (prop::collection::vec(any_machine(), 1..7), prop::collection::vec(any_pool(), 0..3), copies),
        (prop::collection::vec(any_node(), 0..4), daemons, any::<(bool, bool, bool)>(), own_labels()),
    )
        .prop_map(|((types, pools, pods), (nodes, daemons, (respect, strict, known), labels))| {
            let count = types.len();
            let mut pools: Vec<Value> = pools;
            for pool in &mut pools {
                // Numbers of types that there are.
                if let Some(all) = pool["instanceTypes"].as_array_mut() {
                    all.retain(|number| number.as_u64().is_some_and(|number| number < count as u64));
                }
            }
            let pods = pods.into_iter().flat_map(|(pod, count)| std::iter::repeat_n(pod, count)).collect();
            let namespaces = if known { json!([{"name": "default"}, {"name": "away", "labels": labels}]) } else { json!([]) };
            serde_json::from_value(json!({"nodePools": named("pool", pools), "instanceTypes": named("t", types),
                "pods": named("p", pods), "existingNodes": named("n", nodes), "daemonPods": named("d", daemons),
                "namespaces": namespaces, "wellKnownLabels": if strict { json!(["rack"]) } else { json!(["rack", "team", ""]) },
                "leftOut": if known { json!([{"pool": "other", "why": "it is not Ready"}]) } else { json!([]) }, "preferencePolicy": if respect { "Respect" } else { "Ignore" },
                "minValuesPolicy": if strict { "Strict" } else { "BestEffort" }}))
            .unwrap()
        })
}

/// Number of answers for each pod that waits.
fn answered(problem: &Problem, packing: &Packing) -> Vec<(String, usize)> {
    let mut seen = vec![0; problem.pods.len()];
    packing.claims.iter().flat_map(|claim| &claim.pods).for_each(|pod| seen[*pod] += 1);
    packing.on_existing.iter().flat_map(|(_, pods)| pods).for_each(|pod| seen[*pod] += 1);
    packing.unscheduled.iter().for_each(|(pod, _)| seen[*pod] += 1);
    let expected = |pod: &Pod| usize::from(!pod.to_come);
    let wrong = problem.pods.iter().zip(seen).filter(|(pod, seen)| expected(pod) != *seen);
    wrong.map(|(pod, seen)| (pod.name.clone(), seen)).collect()
}

/// Number of problems that are drawn: some seconds' worth, more by `PROPTEST_CASES`.
fn cases(own: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|text| text.parse().ok());
    ProptestConfig {
        cases: asked.unwrap_or(own),
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn a_workload_with_shared_volumes_is_packed_validly(problem in problem()) {
        let packing = packed(&problem);
        prop_assert_eq!(common::violations(&problem, &packing), Vec::<String>::new());
        prop_assert_eq!(ports_taken_twice(&problem, &packing), Vec::<String>::new());
    }

    #[test]
    fn anything_that_can_be_written_is_answered_pod_by_pod(problem in anything()) {
        let packing = packed(&problem);
        prop_assert_eq!(answered(&problem, &packing), vec![]);
        let waits = |pod: &usize| problem.pods[*pod].existing_only;
        prop_assert!(!packing.claims.iter().flat_map(|claim| &claim.pods).any(waits));
    }

    #[test]
    fn at_whatever_bound_it_is_an_error_or_the_whole_answer(problem in anything(), part in 0.0..1.0f64) {
        let whole = packed(&problem);
        // A bound anywhere between nothing and enough.
        let most_steps = Some((part.powi(3) * 20_000.0) as u64);
        let bounded = || solve_within(&problem, &Options { most_steps, ..Options::default() });
        if let Ok(packing) = bounded() {
            prop_assert_eq!(&packing, &whole);
        }
        prop_assert_eq!(bounded(), bounded());
    }
}
