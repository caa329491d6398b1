//! Filters, scores and the queue, as a pod feels them.

use super::*;

fn zones(rig: &Rig) {
    for (name, zone) in [("a1", "a"), ("b1", "b"), ("c1", "c")] {
        rig.node(name, zone, "8");
    }
}

#[test]
fn a_pod_without_any_node_says_so() {
    on(&[], async |rig| {
        rig.pod("p", json!({}), json!({}));
        rig.after(1.0).await;
        assert_eq!(rig.why("p"), "no nodes available to schedule pods");
    });
}

#[test]
fn a_pod_that_fits_nowhere_is_told_why_node_by_node() {
    on(&[], async |rig| {
        rig.node("small", "a", "500m");
        rig.node_with("cordoned", "a", "8", json!({"unschedulable": true}));
        rig.node_with("tainted", "a", "8", json!({"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}));
        rig.pod("p", json!({}), json!({}));
        rig.pod("q", json!({}), json!({"nodeSelector": {"node": "none"}}));
        rig.after(1.0).await;
        assert_eq!(
            rig.why("p"),
            "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {team: x}, 1 node(s) were unschedulable."
        );
        assert!(rig.why("q").contains("1 node(s) didn't match Pod's node affinity/selector"), "{}", rig.why("q"));
    });
}

#[test]
fn four_hundred_pods_are_found_unschedulable_within_a_second() {
    on(&[], async |rig| {
        for n in 0..3 {
            rig.node(&format!("n{n}"), "a", "500m");
        }
        rig.deployment("web", 400, "1");
        rig.after(1.0).await;
        assert_eq!(rig.told("pod", "unschedulable").len(), 400);
        let name = rig.places().keys().next().unwrap().clone();
        assert_eq!(rig.why(&name), "0/3 nodes are available: 3 Insufficient cpu.");
    });
}

#[test]
fn new_node_and_a_pods_end_wake_the_pods_they_make_room_for() {
    on(&[], async |rig| {
        rig.pod("p", json!({}), json!({}));
        rig.pod("q", json!({}), json!({}));
        rig.after(20.0).await;
        rig.node("n", "a", "1");
        rig.after(1.0).await;
        assert_eq!((rig.place("p").as_str(), rig.place("q").as_str()), ("n", ""));
        rig.api
            .delete(&api::PODS, "default", "p", &DeleteOptions { grace_period_seconds: Some(0), ..Default::default() })
            .unwrap();
        rig.after(11.0).await;
        assert_eq!(rig.place("q"), "n");
    });
}

#[test]
fn the_emptier_node_is_preferred_and_a_disliked_taint_avoided() {
    on(&[], async |rig| {
        rig.node_with("disliked", "a", "64", json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}));
        rig.node("a", "a", "8");
        rig.node("b", "a", "4");
        rig.pod("p", json!({}), json!({}));
        rig.after(1.0).await;
        assert_eq!(rig.place("p"), "a");
    });
}

#[test]
fn preferred_node_affinity_decides_between_nodes_that_are_alike() {
    on(&[], async |rig| {
        zones(&rig);
        let term = json!({"weight": 50, "preference": {"matchExpressions": [{"key": "node", "operator": "In", "values": ["c1"]}]}});
        let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}});
        rig.pod("p", json!({}), json!({"affinity": affinity}));
        rig.after(1.0).await;
        assert_eq!(rig.place("p"), "c1");
    });
}

#[test]
fn a_host_port_is_taken_once_a_node() {
    on(&[], async |rig| {
        rig.node("n", "a", "8");
        for name in ["p", "q"] {
            let mut container = container("1");
            container["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
            rig.pod(name, json!({}), json!({"containers": [container]}));
        }
        rig.after(1.0).await;
        assert_eq!(rig.bound(), 1);
        assert_eq!(
            rig.why("q"),
            "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
        );
    });
}

#[test]
fn the_pods_that_a_node_takes_are_limited_by_its_count_too() {
    on(&[], async |rig| {
        rig.node("n", "a", "200");
        for n in 0..111 {
            rig.pod(&format!("p{n:03}"), json!({}), json!({}));
        }
        rig.after(2.0).await;
        assert_eq!((rig.bound(), rig.why("p110").as_str()), (110, "0/1 nodes are available: 1 Too many pods."));
    });
}

fn anti(app: &str, key: &str) -> Value {
    json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}})
}

#[test]
fn anti_affinity_keeps_pods_apart_in_both_directions() {
    on(&[], async |rig| {
        rig.node("n", "a", "8");
        rig.pod("guard", json!({"app": "guard"}), json!({"affinity": anti("web", "kubernetes.io/hostname")}));
        rig.after(1.0).await;
        rig.pod("web", json!({"app": "web"}), json!({}));
        rig.pod("shy", json!({"app": "shy"}), json!({"affinity": anti("guard", "kubernetes.io/hostname")}));
        rig.after(1.0).await;
        let at = |why: &str| format!("0/1 nodes are available: 1 node(s) {why}.");
        assert_eq!(rig.why("web"), at("didn't satisfy existing pods anti-affinity rules"));
        assert_eq!(rig.why("shy"), at("didn't match pod anti-affinity rules"));
    });
}

#[test]
fn affinity_follows_into_a_zone_and_first_of_its_kind_is_free() {
    on(&[], async |rig| {
        zones(&rig);
        let with = |app: &str| {
            json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": app}}}]}}})
        };
        rig.pod("w0", json!({"app": "web"}), with("web"));
        rig.pod("stray", json!({"app": "stray"}), with("nobody"));
        rig.after(1.0).await;
        for n in 1..6 {
            rig.pod(&format!("w{n}"), json!({"app": "web"}), with("web"));
        }
        rig.after(1.0).await;
        let places: std::collections::BTreeSet<String> = (0..6).map(|n| rig.place(&format!("w{n}"))).collect();
        assert_eq!(places.len(), 1);
        assert_eq!(rig.why("stray"), "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.");
    });
}

fn spread(skew: i64, key: &str, when: &str) -> Value {
    json!([{"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": {"matchLabels": {"app": "web"}}}])
}

fn by_zone(rig: &Rig) -> BTreeMap<char, usize> {
    let mut counts = BTreeMap::new();
    for node in rig.places().values().filter(|n| !n.is_empty()) {
        *counts.entry(node.chars().next().unwrap()).or_insert(0) += 1;
    }
    counts
}

#[test]
fn hard_spread_keeps_zones_within_skew_and_stops_at_a_full_zone() {
    on(&[], async |rig| {
        rig.node("a1", "a", "8");
        rig.node("b1", "b", "8");
        rig.node("c1", "c", "2");
        let constraints = spread(1, "topology.kubernetes.io/zone", "DoNotSchedule");
        for n in 0..10 {
            rig.pod(&format!("p{n}"), json!({"app": "web"}), json!({"topologySpreadConstraints": constraints}));
        }
        rig.after(1.0).await;
        assert_eq!(by_zone(&rig), BTreeMap::from([('a', 3), ('b', 3), ('c', 2)]));
        let waiting = rig.places().into_iter().find(|(_, node)| node.is_empty()).unwrap().0;
        assert_eq!(
            rig.why(&waiting),
            "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match pod topology spread constraints."
        );
    });
}

#[test]
fn min_domains_counts_the_zones_that_are_missing_as_empty() {
    on(&[], async |rig| {
        rig.node("a1", "a", "8");
        let mut constraints = spread(1, "topology.kubernetes.io/zone", "DoNotSchedule");
        constraints[0]["minDomains"] = json!(2);
        for n in 0..3 {
            rig.pod(&format!("p{n}"), json!({"app": "web"}), json!({"topologySpreadConstraints": constraints}));
        }
        rig.after(1.0).await;
        assert_eq!(rig.bound(), 1);
    });
}

#[test]
fn replica_set_pods_are_spread_over_zones_by_default() {
    on(&[], async |rig| {
        zones(&rig);
        rig.deployment("web", 9, "100m");
        rig.after(1.0).await;
        assert_eq!(by_zone(&rig), BTreeMap::from([('a', 3), ('b', 3), ('c', 3)]));
    });
}

#[test]
fn spread_over_a_label_no_node_has_reports_it_missing() {
    on(&[], async |rig| {
        rig.node("n", "a", "8");
        rig.pod("p", json!({"app": "web"}), json!({"topologySpreadConstraints": spread(1, "rack", "DoNotSchedule")}));
        rig.after(1.0).await;
        assert!(rig.why("p").contains("(missing required label)"), "{}", rig.why("p"));
    });
}

#[test]
fn a_gated_pod_is_left_alone_until_its_gates_are_gone() {
    on(&[], async |rig| {
        rig.node("n", "a", "8");
        rig.pod("p", json!({}), json!({"schedulingGates": [{"name": "wait"}]}));
        rig.after(2.0).await;
        assert_eq!(rig.place("p"), "");
        rig.api.patch(&api::PODS, "default", "p", &json!({"spec": {"schedulingGates": null}})).unwrap();
        rig.after(1.0).await;
        assert_eq!(rig.place("p"), "n");
    });
}

/// A measurement, not a claim: `cargo test --release -p dovetail-sandbox -- --ignored five_thousand --nocapture`.
#[test]
#[ignore = "measures real time"]
#[allow(clippy::disallowed_methods, clippy::print_stderr)]
fn five_thousand_pods_on_three_hundred_nodes() {
    let started = std::time::Instant::now();
    on(&[], async |rig| {
        for n in 0..300 {
            rig.node(&format!("{}{n}", ["a", "b", "c"][n % 3]), ["a", "b", "c"][n % 3], "32");
        }
        rig.deployment("web", 5000, "1");
        rig.after(30.0).await;
        eprintln!("{} bound of 5000 after {:?} of real time", rig.bound(), started.elapsed());
    });
}

/// A measurement, not a claim: `cargo test --release -p dovetail-sandbox --lib -- --ignored ten_minutes --nocapture`.
#[test]
#[ignore = "measures real time"]
#[allow(clippy::disallowed_methods, clippy::print_stderr)]
fn four_hundred_pods_on_eleven_nodes_then_ten_minutes_of_peace() {
    on(&[nodes("m5.4xlarge", 11)], async |rig| {
        let started = std::time::Instant::now();
        rig.deployment("web", 400, "250m");
        rig.after(10.0).await;
        eprintln!("{} ready after {:?} of real time", rig.ready(), started.elapsed());
        let started = std::time::Instant::now();
        rig.after(600.0).await;
        eprintln!("{:?} of real time for ten quiet minutes", started.elapsed());
    });
}

/// A node of 3 CPUs behind a taint, three pods of one CPU that came first, and one of two CPUs that is nominated to it.
fn contended(rig: &Rig) {
    let taint = json!({"taints": [{"key": "later", "effect": "NoExecute"}]});
    rig.node_with("n", "a", "3", taint);
    for name in ["a", "b", "c"] {
        rig.pod(name, json!({"app": "small"}), json!({}));
    }
    rig.pod("large", json!({}), json!({"containers": [container("2")]}));
}

fn nominate(rig: &Rig, pod: &str, node: Value) {
    let status = json!({"status": {"nominatedNodeName": node}});
    rig.api.patch_status(&api::PODS, "default", pod, &status).unwrap();
}

fn let_in(rig: &Rig) {
    rig.api.patch(&api::NODES, "", "n", &json!({"spec": {"taints": null}})).unwrap();
}

#[test]
fn place_of_a_nominated_pod_is_kept_from_earlier_pods() {
    for (nominated, on_it) in [(false, 3), (true, 2)] {
        on(&[], async |rig| {
            contended(&rig);
            rig.after(20.0).await;
            if nominated {
                nominate(&rig, "large", json!("n"));
            }
            let_in(&rig);
            rig.after(15.0).await;
            let places = rig.places();
            let there: Vec<_> = places.iter().filter(|(_, node)| *node == "n").map(|(pod, _)| pod.as_str()).collect();
            assert_eq!((there.len(), there.contains(&"large")), (on_it, nominated), "{there:?}");
        });
    }
}

#[test]
fn nominated_pod_that_shuns_others_keeps_its_node_for_itself() {
    // The shy pod is refused beside one of app small; the other is small and refuses whatever is shy.
    let shuns = |app| json!({"containers": [container("1")], "affinity": anti(app, "kubernetes.io/hostname")});
    for (nominated, on_it) in [(false, "first"), (true, "second")] {
        on(&[], async |rig| {
            rig.node_with("n", "a", "3", json!({"taints": [{"key": "later", "effect": "NoExecute"}]}));
            rig.pod("first", json!({"app": "small"}), json!({}));
            rig.pod("second", json!({"app": "shy"}), shuns("small"));
            rig.pod("third", json!({"app": "small"}), shuns("shy"));
            rig.after(20.0).await;
            if nominated {
                nominate(&rig, "second", json!("n"));
            }
            let_in(&rig);
            rig.after(15.0).await;
            assert_eq!(rig.place(on_it), "n", "{:?}", rig.places());
            assert_eq!(rig.place("second") == "n", nominated, "{:?}", rig.places());
            assert_eq!(rig.bound(), if nominated { 1 } else { 2 }, "{:?}", rig.places());
        });
    }
}

#[test]
fn a_bound_pod_is_nominated_no_more() {
    on(&[], async |rig| {
        contended(&rig);
        nominate(&rig, "large", json!("n"));
        let_in(&rig);
        rig.after(15.0).await;
        assert_eq!(rig.place("large"), "n");
        assert!(rig.get(&api::PODS, "large")["status"]["nominatedNodeName"].is_null());
    });
}

#[test]
fn kept_place_ends_with_pod_or_nomination_or_higher_priority() {
    for freed in ["taken back", "gone", "priority"] {
        on(&[], async |rig| {
            contended(&rig);
            // It keeps its place without ever being there: who never preempts keeps its nomination when a try fails.
            let never =
                json!({"preemptionPolicy": "Never", "containers": [container("2")], "nodeSelector": {"node": "none"}});
            rig.pod("never", json!({}), never);
            nominate(&rig, "never", json!("n"));
            rig.delete(&api::PODS, "large");
            let_in(&rig);
            rig.after(15.0).await;
            assert_eq!(rig.bound(), 1, "{freed}");
            match freed {
                "taken back" => nominate(&rig, "never", Value::Null),
                "gone" => rig.delete(&api::PODS, "never"),
                _ => {
                    rig.create(json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}));
                    rig.pod("urgent", json!({}), json!({"priorityClassName": "high", "containers": [container("2")]}));
                }
            }
            rig.after(15.0).await;
            assert_eq!(rig.bound(), if freed == "priority" { 2 } else { 3 }, "{freed}");
        });
    }
}

/// As kube-scheduler 1.36 does it.
#[test]
fn failed_try_clears_a_nomination_unless_pod_never_preempts() {
    for policy in ["PreemptLowerPriority", "Never"] {
        on(&[], async |rig| {
            rig.node_with("n", "a", "3", json!({"taints": [{"key": "later", "effect": "NoExecute"}]}));
            rig.pod("p", json!({}), json!({"preemptionPolicy": policy, "containers": [container("2")]}));
            rig.after(5.0).await;
            nominate(&rig, "p", json!("n"));
            rig.after(60.0).await;
            assert_eq!(rig.get(&api::PODS, "p")["status"]["nominatedNodeName"], "n", "nothing has happened");
            rig.node("other", "a", "2");
            rig.pod("q", json!({}), json!({"nodeName": "other", "containers": [container("1")]}));
            rig.after(15.0).await;
            let nominated = rig.get(&api::PODS, "p")["status"]["nominatedNodeName"] == "n";
            assert_eq!((rig.place("p").as_str(), nominated), ("", policy == "Never"), "{policy}");
        });
    }
}

#[test]
fn nominated_pods_fill_a_small_node_once_one_has_given_up() {
    on(&[], async |rig| {
        contended(&rig);
        ["a", "b", "large"].iter().for_each(|pod| nominate(&rig, pod, json!("n")));
        let_in(&rig);
        rig.after(30.0).await;
        let places = rig.places();
        let on_it: Vec<&str> = places.iter().filter(|(_, node)| *node == "n").map(|(pod, _)| pod.as_str()).collect();
        assert_eq!((rig.bound(), on_it.len()), (2, 2), "{places:?}");
        assert!(on_it.contains(&"large") && !on_it.contains(&"c"), "who is not nominated waits: {places:?}");
    });
}
