//! Every rule that keeps a pod off a pool, with the change that ends it; every reason that keeps a node; claims and pools.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod book;
mod gangs;

use std::sync::Arc;
use std::time::Duration;

use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod as KubePod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::*;
use crate::InstanceType;
use crate::cluster_state::{ClusterState, Moment, NominationTarget};
use crate::disruption::methods::ConsolidationSettings;
use crate::lifecycle::hash::{Computed, Generations, OF_POOL, of_pool};
use crate::pack::{Rule, solve};

fn at(seconds: i64) -> Timestamp {
    "2026-03-10T12:00:00Z".parse::<Timestamp>().unwrap() + seconds.seconds()
}

/// Offered in zones a and b, on demand and, as asked for, as spot.
fn kind(name: &str, cpu: u32, price: f64, spot: bool) -> Value {
    let offering = |zone: &str, kind: &str, price: f64, available: bool| json!({"zone": zone, "capacityType": kind, "price": price, "available": available});
    json!({"name": name, "capacity": {"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4), "pods": "29"},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]}],
        "offerings": [offering("a", "on-demand", price, true), offering("b", "on-demand", price, true),
            offering("a", "spot", price / 3.0, spot), offering("b", "spot", price / 3.0, spot)]})
}

/// A cluster with one pool, `default`, unless it is changed.
struct World {
    state: ClusterState,
    types: Vec<Value>,
    version: u64,
    seconds: i64,
    gates: Gates,
}

impl World {
    fn new() -> Self {
        let types = vec![kind("m5.large", 2, 0.096, true), kind("m5.xlarge", 4, 0.192, true)];
        let mut world = Self { state: ClusterState::new(), types, version: 10, seconds: 3600, gates: Gates::default() };
        let class: EC2NodeClass = serde_json::from_value(json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default", "uid": "uid-class", "resourceVersion": "1"}, "spec": {"subnetSelectorTerms": [], "securityGroupSelectorTerms": [], "amiSelectorTerms": []}}))
        .unwrap();
        world.state.apply_class(class);
        world
    }

    fn with_pool(change: impl FnOnce(&mut Value)) -> Self {
        let mut world = Self::new();
        world.pool("default", change);
        world
    }

    fn next(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn pool(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let ready =
            json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": at(0)});
        let mut pool = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": self.next(), "annotations": {}},
            "spec": {"disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{"nodes": "100%"}]},
                "template": {"metadata": {"labels": {}}, "spec": {"requirements": [], "expireAfter": "Never",
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}}}},
            "status": {"conditions": [ready]},
        });
        change(&mut pool);
        let mut pool: NodePool = serde_json::from_value(pool).unwrap();
        let (hash, at) = (of_pool(&pool), Generations::default());
        let own = pool.metadata.annotations.get_or_insert_default();
        let before = Computed { same: "before".into(), fresh: "before".into(), ..hash.clone() };
        [before, hash].iter().for_each(|hash| OF_POOL.settle(own, hash, at));
        self.state.apply_pool(pool);
    }

    fn pending(&mut self, name: &str, change: impl FnOnce(&mut Value)) -> KubePod {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"app": name},
                "resourceVersion": self.next(), "creationTimestamp": at(0)},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
            "status": {"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]},
        });
        change(&mut pod);
        let pod: KubePod = serde_json::from_value(pod).unwrap();
        drop(self.state.apply_pod(&pod));
        pod
    }

    /// A node of the pool, ready for pods an hour ago.
    fn machine(&mut self, name: &str, change: impl FnOnce(&mut Value, &mut Value)) {
        let version = self.next();
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": at(0)});
        let annotations = json!({"karpenter.sh/nodepool-hash-version": "v3", "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6",
            "dovetail.dev/term": "3", "dovetail.dev/traceparent": "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"});
        let labels = json!({"karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": "m5.large",
            "topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": "on-demand", "karpenter.k8s.aws/ec2nodeclass": "default"});
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": format!("claim-{name}"), "annotations": annotations, "uid": format!("uid-claim-{name}"),
                "resourceVersion": version, "creationTimestamp": at(0), "labels": labels},
            "spec": {"expireAfter": "Never", "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"providerID": format!("aws:///a/i-{name}"), "nodeName": name,
                "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"}, "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "29"},
                "conditions": [condition("Initialized"), condition("Launched"), condition("Registered")]},
        });
        let mut node = json!({
            "metadata": {"name": name, "uid": format!("uid-node-{name}"), "resourceVersion": version, "annotations": {}, "labels": labels},
            "spec": {"providerID": format!("aws:///a/i-{name}")},
            "status": {"capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"}, "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "29"},
                "conditions": [{"type": "Ready", "status": "True"}]},
        });
        change(&mut claim, &mut node);
        self.state.apply_claim(Arc::new(serde_json::from_value::<NodeClaim>(claim).unwrap()));
        self.state.apply_node(&serde_json::from_value::<Node>(node).unwrap());
    }

    fn running(&mut self, name: &str, node: &str, change: impl FnOnce(&mut Value)) {
        self.pending(name, |pod| {
            pod["spec"]["nodeName"] = json!(node);
            pod["status"] =
                json!({"phase": "Running", "startTime": at(0), "conditions": [{"type": "Ready", "status": "True"}]});
            change(pod);
        });
    }

    /// A budget for pods of a label `app` that allows no eviction.
    fn budget(&mut self, name: &str, app: &str) {
        let budget = json!({"metadata": {"name": name, "namespace": "default", "generation": 1, "resourceVersion": self.next()},
            "spec": {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1},
            "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
        self.state.apply_budget(serde_json::from_value::<PodDisruptionBudget>(budget).unwrap());
    }

    /// A volume in a zone, with its claim.
    fn volume(&mut self, name: &str, zone: &str) {
        let bound = json!({"pv.kubernetes.io/bind-completed": "yes"});
        let claim = json!({"metadata": {"name": name, "namespace": "default", "uid": "uid-pvc", "annotations": bound, "resourceVersion": self.next()},
            "spec": {"volumeName": name, "accessModes": ["ReadWriteOnce"]}, "status": {"phase": "Bound"}});
        let place =
            json!({"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]});
        let volume = json!({"metadata": {"name": name, "resourceVersion": self.next()},
            "spec": {"claimRef": {"name": name, "namespace": "default", "uid": "uid-pvc"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [place]}},
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}}, "status": {"phase": "Bound"}});
        self.state.apply(&serde_json::from_value::<PersistentVolumeClaim>(claim).unwrap());
        self.state.apply(&serde_json::from_value::<PersistentVolume>(volume).unwrap());
    }

    fn asked<T>(&self, question: impl FnOnce(&ExplainInput<'_>) -> T) -> T {
        let types: Vec<Arc<InstanceType>> =
            self.types.iter().map(|one| Arc::new(serde_json::from_value(one.clone()).unwrap())).collect();
        let now = Moment { monotonic: Duration::from_secs(10_000), wall: at(self.seconds) };
        let planning = PlanningInput {
            instance_types: [("default".to_owned(), Arc::new(types))].into(),
            now,
            ..PlanningInput::default()
        };
        let (snapshot, options, rules) = (self.state.snapshot(), Options::default(), ConsolidationSettings::default());
        question(&ExplainInput {
            snapshot: &snapshot,
            planning: &planning,
            options: &options,
            rules: &rules,
            gates: self.gates,
            solve: &|problem, options| solve(problem, options),
        })
    }

    fn of_pod(&self, pod: &KubePod) -> PodAnswer {
        self.asked(|input| explain_pod(input, pod, None))
    }

    fn of_node(&self, name: &str) -> NodeAnswer {
        self.asked(|input| explain_node(input, name)).unwrap()
    }

    fn method(&self, node: &str, method: &str) -> MethodAnswer {
        let answer = self.of_node(node);
        answer.methods.iter().find(|one| one.method == method).unwrap_or_else(|| panic!("{answer:#?}")).clone()
    }
}

fn requires(pool: &mut Value, key: &str, values: &[&str]) {
    pool["spec"]["template"]["spec"]["requirements"]
        .as_array_mut()
        .unwrap()
        .push(json!({"key": key, "operator": "In", "values": values}));
}

/// The pod gets no node by that rule, and these changes, of which one sentence is this, let it run.
fn gets_no_node_by(answer: &PodAnswer, rule: Rule, change: &str) {
    assert_eq!(answer.verdict, PodVerdict::Unschedulable, "{answer:#?}");
    assert_eq!(answer.pools[0].rule, rule, "{answer:#?}");
    assert!(answer.changes.iter().any(|one| one.sentence == change), "{:#?}", answer.changes);
    assert!(!answer.remedy.is_empty() && !answer.sentence.is_empty());
}

#[test]
fn request_that_is_too_large_is_lowered_to_what_fits() {
    let mut world = World::with_pool(|_| ());
    let big = world.pending("big", |pod| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("400"));
    let answer = world.of_pod(&big);
    gets_no_node_by(&answer, Rule::Resources, "lower the pod's request of cpu to 4 in all");
    assert!(answer.sentence.contains("needs 400 CPU"), "{}", answer.sentence);
    assert_eq!(answer.scheduler.as_deref(), Some("0/1 nodes are available"));
}

#[test]
fn taint_that_is_not_tolerated_is_named_to_be_tolerated() {
    let taint = json!([{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]);
    let mut world = World::with_pool(|pool| pool["spec"]["template"]["spec"]["taints"] = taint);
    let pod = world.pending("web", |_| ());
    gets_no_node_by(&world.of_pod(&pod), Rule::Taints, "let the pod tolerate the taint dedicated=db:NoSchedule");
}

#[test]
fn limit_that_is_used_up_is_raised_by_what_the_node_needs() {
    let mut world = World::with_pool(|pool| pool["spec"]["limits"] = json!({"cpu": "3"}));
    world.machine("n", |_, _| ());
    world.running("other", "n", |pod| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2"));
    let pod = world.pending("web", |_| ());
    let answer = world.of_pod(&pod);
    gets_no_node_by(&answer, Rule::Limits, "raise spec.limits.cpu of nodepool default to 4");
    assert!(matches!(&answer.changes[0].then, Placement::New { pool, .. } if pool == "default"), "{answer:#?}");
}

#[test]
fn limit_that_other_pods_use_up_is_raised_for_all_of_them() {
    let mut world = World::with_pool(|pool| pool["spec"]["limits"] = json!({"cpu": "2"}));
    let request = |pod: &mut Value| pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("2");
    let pods = [world.pending("a", request), world.pending("b", request)];
    let answers = pods.map(|pod| world.of_pod(&pod));
    let waits: Vec<_> = answers.iter().filter(|one| one.verdict == PodVerdict::Unschedulable).collect();
    assert_eq!(waits.len(), 1, "{answers:#?}");
    gets_no_node_by(waits[0], Rule::Limits, "raise spec.limits.cpu of nodepool default to 4");
}

#[test]
fn volume_in_another_zone_asks_for_that_zone_in_the_pool() {
    let mut world = World::with_pool(|pool| requires(pool, "topology.kubernetes.io/zone", &["a"]));
    world.volume("data", "b");
    let pod = world.pending("db", |pod| {
        pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    });
    let change = "allow b for topology.kubernetes.io/zone in the requirements of nodepool default";
    gets_no_node_by(&world.of_pod(&pod), Rule::Volumes, change);
}

#[test]
fn spot_only_pool_is_opened_to_on_demand_or_the_pod_gives_in() {
    let mut world = World::with_pool(|pool| requires(pool, "karpenter.sh/capacity-type", &["spot"]));
    let pod =
        world.pending("web", |pod| pod["spec"]["nodeSelector"] = json!({"karpenter.sh/capacity-type": "on-demand"}));
    let answer = world.of_pod(&pod);
    gets_no_node_by(&answer, Rule::Requirements, "remove karpenter.sh/capacity-type from the pod's nodeSelector");
    let other = "allow on-demand for karpenter.sh/capacity-type in the requirements of nodepool default";
    assert_eq!(answer.changes[1].sentence, other);
}

#[test]
fn sold_out_spot_asks_for_on_demand_in_the_pool() {
    let mut world = World::with_pool(|pool| requires(pool, "karpenter.sh/capacity-type", &["spot"]));
    world.types = vec![kind("m5.large", 2, 0.096, false)];
    let pod = world.pending("web", |_| ());
    let change = "allow on-demand for karpenter.sh/capacity-type in the requirements of nodepool default";
    gets_no_node_by(&world.of_pod(&pod), Rule::Offerings, change);
}

#[test]
fn label_that_no_node_has_is_given_to_the_pool_or_left_out() {
    let mut world = World::with_pool(|_| ());
    let pod = world.pending("web", |pod| pod["spec"]["nodeSelector"] = json!({"team": "blue"}));
    let answer = world.of_pod(&pod);
    gets_no_node_by(&answer, Rule::UndefinedLabel, "remove team from the pod's nodeSelector");
    let other = "give the nodes of nodepool default the label team=blue (spec.template.metadata.labels)";
    assert_eq!(answer.changes[1].sentence, other);
}

#[test]
fn instance_type_that_is_not_offered_leaves_the_affinity() {
    let mut world = World::with_pool(|_| ());
    let wanted = json!([{"matchExpressions": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["z9.huge"]}]}]);
    let pod = world.pending("web", |pod| {
        pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wanted}}});
    });
    let change = "remove node.kubernetes.io/instance-type from the pod's required node affinity";
    gets_no_node_by(&world.of_pod(&pod), Rule::InstanceTypes, change);
}

#[test]
fn hopeless_affinity_is_named_to_be_removed() {
    let mut world = World::with_pool(|_| ());
    let nobody =
        json!([{"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "nobody"}}}]);
    let pod = world.pending("web", |pod| {
        pod["spec"]["affinity"] = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": nobody}});
    });
    let change = "remove the pod's required pod affinity over topology.kubernetes.io/zone";
    gets_no_node_by(&world.of_pod(&pod), Rule::Topology, change);
}

#[test]
fn min_values_are_lowered_as_little_as_helps() {
    let mut world = World::with_pool(|pool| {
        let key = "node.kubernetes.io/instance-type";
        pool["spec"]["template"]["spec"]["requirements"] =
            json!([{"key": key, "operator": "In", "values": ["m5.large", "m5.xlarge", "c9.x"], "minValues": 3}]);
    });
    world.types = vec![kind("m5.large", 2, 0.096, true), kind("m5.xlarge", 4, 0.1, true)];
    let pod = world.pending("web", |_| ());
    let change = "lower minValues of node.kubernetes.io/instance-type in nodepool default to 2";
    gets_no_node_by(&world.of_pod(&pod), Rule::MinValues, change);
}

#[test]
fn two_rules_in_the_way_take_two_changes_together() {
    let mut world = World::with_pool(|pool| {
        pool["spec"]["template"]["spec"]["taints"] = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
        pool["spec"]["limits"] = json!({"nodes": "0"});
    });
    let pod = world.pending("web", |_| ());
    let answer = world.of_pod(&pod);
    assert_eq!(answer.changes[0].changes.len(), 2, "{answer:#?}");
    let said =
        "let the pod tolerate the taint dedicated:NoSchedule, and raise spec.limits.nodes of nodepool default to 1";
    assert_eq!(answer.changes[0].sentence, said);
}

#[test]
fn pool_that_is_not_ready_and_none_at_all_have_their_reasons() {
    let mut world = World::with_pool(|pool| pool["status"] = json!({"conditions": []}));
    let pod = world.pending("web", |_| ());
    let answer = world.of_pod(&pod);
    assert_eq!((answer.pools[0].rule, answer.changes.len()), (Rule::Pool, 0));
    assert!(answer.sentence.contains("it is not Ready"), "{}", answer.sentence);
    let mut none = World::new();
    let pod = none.pending("web", |_| ());
    let answer = none.of_pod(&pod);
    assert_eq!((answer.sentence.as_str(), answer.remedy.as_str()), ("no NodePool exists", "create a NodePool"));
}

#[test]
fn each_pool_has_its_own_rule_and_the_nearest_is_first() {
    let mut world = World::with_pool(|pool| pool["spec"]["limits"] = json!({"cpu": "0"}));
    world.pool("gpu", |pool| {
        pool["spec"]["template"]["spec"]["taints"] = json!([{"key": "gpu", "effect": "NoSchedule"}]);
    });
    let pod = world.pending("web", |_| ());
    let answer = world.of_pod(&pod);
    let rules: Vec<_> = answer.pools.iter().map(|one| (one.pool.as_str(), one.rule)).collect();
    assert_eq!(rules, [("default", Rule::Limits), ("gpu", Rule::Taints)]);
    assert_eq!(answer.pools[0].removed.iter().map(|one| one.instance_types).sum::<usize>(), 2);
}

#[test]
fn pod_that_gets_a_node_says_which_and_what_it_costs() {
    let mut world = World::with_pool(|pool| requires(pool, "karpenter.sh/capacity-type", &["on-demand"]));
    let pod = world.pending("web", |_| ());
    let answer = world.of_pod(&pod);
    let PodVerdict::Placed { place: Placement::New { pool, instance_types, price, .. } } = &answer.verdict else {
        panic!("{answer:#?}");
    };
    assert_eq!((pool.as_str(), instance_types[0].as_str()), ("default", "m5.large"));
    assert!((price - 0.096).abs() < 1e-9 && answer.changes.is_empty());
}

#[test]
fn pod_for_which_a_claim_is_on_its_way_waits_for_that() {
    let mut world = World::with_pool(|_| ());
    world.machine("n", |claim, _| {
        let launched = json!({"type": "Launched", "status": "True", "reason": "Launched", "message": "", "lastTransitionTime": at(3590)});
        let unknown = json!({"type": "Registered", "status": "Unknown", "reason": "NodeNotFound", "message": "no Node yet", "lastTransitionTime": at(3590)});
        claim["status"]["conditions"] = json!([launched, unknown]);
        claim["status"]["nodeName"] = json!("");
    });
    world.state.delete_node("n", None);
    let pod = world.pending("web", |_| ());
    let placed = world.of_pod(&pod).waits_for.unwrap();
    assert_eq!((placed.claim.as_str(), placed.since), ("claim-n", Some(at(0))));
    assert_eq!(placed.waits_for, "its instance runs, it waits for its Node to join: NodeNotFound: no Node yet");
    let nominated = NominatedTo { claim: "claim-n".to_owned(), since: at(3595) };
    let told = world.asked(|input| explain_pod(input, &pod, Some(&nominated)));
    assert_eq!(told.waits_for.unwrap().since, Some(at(3595)), "its event says since when");
    let claim = NominationTarget::Claim("claim-n".to_owned());
    world.state.nominate(["uid-web"], &claim, Duration::MAX);
    let known = world.asked(|input| explain_known_pod(input, "default", "web")).unwrap();
    let place = Placement::Existing { node: "claim-n".to_owned() };
    assert_eq!(known.verdict, PodVerdict::Placed { place }, "a leader goes by what it expects");
    assert_eq!(known.waits_for.unwrap().since, Some(at(0)));
}

#[test]
fn pod_that_waits_for_something_else_is_told_what() {
    let mut world = World::with_pool(|_| ());
    let gated = world.pending("gated", |pod| {
        pod["spec"]["schedulingGates"] = json!([{"name": "quota"}]);
        pod["status"]["conditions"][0]["reason"] = json!("SchedulingGated");
    });
    let other = world.pending("other", |pod| {
        pod["spec"]["schedulerName"] = json!("volcano");
        pod["status"]["conditions"] = json!([]);
    });
    let daemon = world.pending("daemon", |pod| {
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}]);
    });
    let ended = world.pending("ended", |pod| pod["status"]["phase"] = json!("Succeeded"));
    for (pod, said) in [
        (&gated, "it waits for its scheduling gates to be removed: quota"),
        (&other, "its scheduler, volcano, has not said that it finds no node"),
        (&daemon, "it belongs to its node: no node is launched for a DaemonSet's pod or a static pod"),
        (&ended, "it has ended"),
    ] {
        assert_eq!(world.of_pod(pod).sentence, said);
    }
    let known = |name: &str| world.asked(|input| explain_known_pod(input, "default", name));
    let gates = "no scheduler has said that it finds no node for it; it may have scheduling gates";
    assert_eq!(known("gated").unwrap().sentence, gates, "a snapshot keeps no gates");
    assert_eq!(known("daemon"), Some(world.of_pod(&daemon)));
    assert_eq!(known("none"), None);
    world.machine("n", |_, _| ());
    let bound = world.pending("bound", |pod| pod["spec"]["nodeName"] = json!("n"));
    assert_eq!(world.of_pod(&bound).verdict, PodVerdict::Bound { node: "n".to_owned() });
}

#[test]
fn the_words_are_those_of_the_event() {
    let mut world = World::with_pool(|pool| pool["spec"]["limits"] = json!({"cpu": "0"}));
    let pod = world.pending("web", |_| ());
    let answer = world.of_pod(&pod);
    let by_packing = world.asked(|input| {
        let planning = input.snapshot.planning(input.planning);
        let packing = (input.solve)(&planning.problem, input.options);
        let (at, reason) = &packing.unscheduled[0];
        (why_not(&planning.problem.pods[*at], reason, &planning), reason.remedy())
    });
    assert_eq!((answer.sentence.as_str(), answer.remedy.as_str()), (by_packing.0.as_str(), by_packing.1));
}

#[test]
fn node_tells_where_it_comes_from_and_what_it_costs() {
    let mut world = World::with_pool(|_| ());
    world.machine("n", |_, _| ());
    world.running("web", "n", |_| ());
    let workload = world.state.snapshot().pods["uid-web"].workload.clone();
    world.machine("n", |claim, _| claim["metadata"]["annotations"]["dovetail.dev/launched-for"] = json!(workload));
    let answer = world.of_node("n");
    assert_eq!((answer.price, answer.pods, answer.visitors), (Some(0.096), 1, 1));
    assert_eq!(answer.trace_id, "0123456789abcdef0123456789abcdef");
    let told = answer.exists.join("\n");
    for part in
        ["Dovetail made its nodeclaim claim-n", "nodepool default", "has the trace 0123456789abcdef", "default/web"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    world.state.delete_claim("claim-n", None);
    let foreign = world.of_node("n");
    assert!(foreign.methods.is_empty() && foreign.exists[0].contains("never removed here"), "{foreign:#?}");
}

#[test]
fn policy_of_the_pool_keeps_a_node_with_what_to_set() {
    let never = |pool: &mut Value| pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    let empty_only = |pool: &mut Value| pool["spec"]["disruption"]["consolidationPolicy"] = json!("WhenEmpty");
    let cases: [(&dyn Fn(&mut Value), &str); 2] = [(&never, "consolidateAfter"), (&empty_only, "consolidationPolicy")];
    for (change, set) in cases {
        let mut world = World::with_pool(change);
        world.machine("n", |_, _| ());
        world.running("web", "n", |_| ());
        let answer = world.method("n", "consolidation");
        assert_eq!(answer.verdict, MethodVerdict::Stays);
        assert!(answer.set.contains(set), "{answer:?}");
    }
}

#[test]
fn annotation_and_budget_keep_a_node_and_block_its_drain() {
    let mut world = World::with_pool(|_| ());
    world.machine("held", |_, _| ());
    world.running("web", "held", |pod| {
        pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    });
    let answer = world.method("held", "consolidation");
    assert_eq!(answer.why, "pod default/web has the annotation karpenter.sh/do-not-disrupt");
    assert!(answer.set.starts_with("remove the annotation from the pod"), "{answer:?}");
    let drain = world.of_node("held").drain;
    assert!(drain[0].holds && drain[0].remedy.contains("take the annotation off"), "{drain:?}");
    let mut world = World::with_pool(|_| ());
    world.machine("n", |_, _| ());
    world.running("db", "n", |_| ());
    world.budget("db", "db");
    let answer = world.method("n", "consolidation");
    assert_eq!(answer.why, "pdb default/db prevents the eviction of pod default/db");
    assert!(answer.set.contains("PodDisruptionBudget"), "{answer:?}");
    let drain = world.of_node("n").drain;
    assert_eq!(drain[0].why, "pod default/db is kept by pdb default/db");
}

#[test]
fn pod_that_fits_nowhere_else_keeps_its_node() {
    let mut world = World::with_pool(|pool| requires(pool, "node.kubernetes.io/instance-type", &["m5.large"]));
    world.machine("n", |_, _| ());
    world.running("web", "n", |_| ());
    let answer = world.method("n", "consolidation");
    assert_eq!(answer.verdict, MethodVerdict::Stays, "{answer:?}");
    assert!(!answer.why.is_empty() && !answer.why.contains("not of the command"), "{answer:?}");
}

#[test]
fn empty_node_goes_unless_it_is_held_young_or_out_of_budget() {
    let mut world = World::with_pool(|_| ());
    world.machine("n", |_, _| ());
    assert_eq!(world.method("n", "emptiness").verdict, MethodVerdict::Goes);
    world.machine("n", |_, node| node["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"}));
    let held = world.method("n", "emptiness");
    assert_eq!((held.verdict, held.set.as_str()), (MethodVerdict::Stays, "remove the annotation from the Node"));
    let mut world = World::with_pool(|pool| pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "0"}]));
    world.machine("n", |_, _| ());
    let spent = world.method("n", "emptiness");
    assert!(spent.why.contains("budgets allow no more disruptions now for reason Empty"), "{spent:?}");
    assert!(spent.set.contains("spec.disruption.budgets"), "{spent:?}");
    let mut world = World::with_pool(|pool| pool["spec"]["disruption"]["consolidateAfter"] = json!("2h"));
    world.machine("n", |_, _| ());
    assert_eq!(world.method("n", "emptiness").verdict, MethodVerdict::Later);
    let mut world =
        World::with_pool(|pool| pool["metadata"]["annotations"] = json!({"dovetail.dev/disruption": "observe"}));
    world.machine("n", |_, _| ());
    let observed = world.method("n", "emptiness");
    assert!(observed.why.contains("only observed; otherwise it is empty"), "{observed:?}");
}

#[test]
fn expiry_and_drift_say_when_and_by_what() {
    let mut world = World::with_pool(|_| ());
    world.machine("n", |claim, _| claim["spec"]["expireAfter"] = json!("2h"));
    world.running("web", "n", |_| ());
    let later = world.method("n", "expiry");
    assert!(later.verdict == MethodVerdict::Later && later.why.contains("2026-03-10T14:00:0"), "{later:?}");
    world.seconds = 3 * 3600;
    assert_eq!(world.method("n", "expiry").verdict, MethodVerdict::Goes);
    world.machine("n", |claim, _| {
        claim["metadata"]["annotations"]["karpenter.sh/nodepool-hash"] = json!("another");
    });
    let drifted = world.method("n", "drift");
    assert!(drifted.why.starts_with("NodePoolDrifted: the template of nodepool default has changed"), "{drifted:?}");
    world.gates.drift_off = true;
    assert_eq!(world.method("n", "drift").set, "set the feature gate Drift=true");
}

/// The answer of repair about a node that is not Ready since then.
fn repair_of(
    since: i64,
    repairs: bool,
    pool: impl FnOnce(&mut Value),
    change: impl FnOnce(&mut Value),
) -> MethodAnswer {
    let mut world = World::with_pool(pool);
    world.gates.node_repair = repairs;
    world.machine("n", |_, node| {
        node["status"]["conditions"] = json!([{"type": "Ready", "status": "False", "lastTransitionTime": at(since)}]);
        change(node);
    });
    world.running("web", "n", |_| ());
    world.of_node("n").methods.into_iter().find(|one| one.method == "repair").unwrap()
}

#[test]
fn repair_tells_when_a_sick_node_goes_and_what_keeps_it() {
    let off = repair_of(0, false, |_| (), |_| ());
    assert_eq!((off.verdict, off.set.as_str()), (MethodVerdict::Stays, "set the feature gate NodeRepair=true"));
    let early = repair_of(3000, true, |_| (), |_| ());
    assert!(
        early.verdict == MethodVerdict::Later && early.why.contains("it is replaced from 2026-03-10T13:"),
        "{early:?}"
    );
    let due = repair_of(0, true, |_| (), |_| ());
    assert!(due.verdict != MethodVerdict::Stays && due.why.contains("is bad for too long"), "{due:?}");
    let veto = |node: &mut Value| node["metadata"]["annotations"]["karpenter.sh/do-not-repair"] = json!("true");
    let none = |pool: &mut Value| {
        pool["spec"]["disruption"]["budgets"] = json!([{"nodes": "0", "reasons": ["Unhealthy"]}]);
    };
    let observed = |pool: &mut Value| pool["metadata"]["annotations"] = json!({"dovetail.dev/disruption": "observe"});
    for (held, why, set) in [
        (
            repair_of(0, true, |_| (), veto),
            "annotation karpenter.sh/do-not-repair",
            "remove the annotation karpenter.sh/do-not-repair",
        ),
        (
            repair_of(0, true, none, |_| ()),
            "budgets allow no more disruptions now for reason Unhealthy",
            "spec.disruption.budgets",
        ),
        (
            repair_of(0, true, observed, |_| ()),
            "is only observed; otherwise its condition Ready",
            "dovetail.dev/disruption",
        ),
    ] {
        assert_eq!(held.verdict, MethodVerdict::Stays, "{held:?}");
        assert!(held.why.contains(why) && held.set.contains(set), "{held:?}");
    }
}

#[test]
fn node_that_is_going_says_why_and_asks_no_method() {
    let mut world = World::with_pool(|_| ());
    world.machine("n", |claim, _| {
        claim["metadata"]["deletionTimestamp"] = json!(at(3500));
        claim["metadata"]["annotations"]["dovetail.dev/end-reason"] = json!("expired 2026-03-10T12:58:20Z");
    });
    world.running("db", "n", |_| ());
    world.budget("db", "db");
    let answer = world.of_node("n");
    let going = answer.going.unwrap();
    assert!(going.starts_with("removed by Dovetail: expired 2026-03-10T12:58:20Z; it is being drained"), "{going}");
    assert!(answer.methods.is_empty() && answer.drain[0].holds, "{:?}", answer.drain);
}

#[test]
fn claim_tells_its_stage_and_when_it_is_given_up() {
    let mut world = World::with_pool(|_| ());
    world.machine("n", |claim, _| {
        let message = "InsufficientInstanceCapacity in us-east-1a";
        claim["status"] = json!({"conditions": [{"type": "Launched", "status": "Unknown", "reason": "LaunchFailed", "message": message, "lastTransitionTime": at(3500)}]});
    });
    let answer = world.asked(|input| explain_claim(input, "claim-n")).unwrap();
    assert_eq!((answer.stage, answer.given_up_at), (None, Some(at(3800))));
    assert_eq!(answer.waits_for, "it waits for its instance: LaunchFailed: InsufficientInstanceCapacity in us-east-1a");
    world.machine("m", |_, _| ());
    let ready = world.asked(|input| explain_claim(input, "claim-m")).unwrap();
    assert_eq!((ready.instance.as_str(), ready.given_up_at), ("i-m", None));
    assert!(world.asked(|input| explain_claim(input, "nobody")).is_none());
}

#[test]
fn pool_tells_what_it_may_launch_its_limits_and_budgets() {
    let mut world = World::with_pool(|pool| {
        pool["spec"]["limits"] = json!({"cpu": "3"});
        pool["spec"]["disruption"]["budgets"] =
            json!([{"nodes": "10%"}, {"nodes": "0", "schedule": "0 22 * * *", "duration": "8h"}]);
    });
    world.machine("n", |_, _| ());
    let answer = world.asked(|input| explain_pool(input, "default")).unwrap();
    let limit = &answer.limits[0];
    assert_eq!((limit.used.as_str(), limit.limit.as_str(), limit.left.as_str()), ("2", "3", "1"));
    assert_eq!(answer.launches_nothing.as_ref().map(|one| one.rule), Some(Rule::Limits), "{answer:#?}");
    let budget = &answer.budgets[0];
    assert_eq!((budget.nodes, budget.nodes_then), (Some(1), Some(0)));
    assert_eq!(budget.changes_at, Some("2026-03-10T22:00:00Z".parse().unwrap()));
    assert_eq!((answer.nodes, answer.coming), (1, 0));
    world.pool("default", |pool| pool["spec"]["limits"] = json!({"cpu": "30"}));
    let open = world.asked(|input| explain_pool(input, "default")).unwrap();
    assert!(matches!(open.launches, Some(Placement::New { .. })), "{open:#?}");
    world.pool("default", |pool| pool["status"] = json!({"conditions": []}));
    let left_out = world.asked(|input| explain_pool(input, "default")).unwrap();
    assert_eq!(left_out.left_out.as_deref(), Some("it is not Ready"));
    assert!(world.asked(|input| explain_pool(input, "nobody")).is_none());
}
