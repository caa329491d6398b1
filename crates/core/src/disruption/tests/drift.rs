//! Nodes that drift, and nodes that do not.

use std::collections::BTreeMap;

use dovetail_api::v1::{EC2NodeClass, condition};

use super::*;
use crate::disruption::drift::{Gates, InstanceNetwork};
use crate::lifecycle::hash;

/// The annotation with the record of hashes.
const RECORD: &str = "dovetail.dev/computed-hash";

/// A pool, its class as it was resolved, and nodes launched by both.
pub(super) struct Drifting {
    pub world: World,
    pub class: Value,
    pub networks: BTreeMap<String, InstanceNetwork>,
}

impl Drifting {
    pub(super) fn new(disruption: Value) -> Self {
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass",
            "metadata": {"name": "default", "uid": "uid-class", "generation": 1, "resourceVersion": "2"},
            "spec": {"role": "r", "subnetSelectorTerms": [{"id": "subnet-1"}], "tags": {"release": "one"},
                "securityGroupSelectorTerms": [{"id": "sg-1"}], "amiFamily": "AL2023", "amiSelectorTerms": [{"name": "al2023-*"}]},
            "status": {
                "subnets": [{"id": "subnet-1", "zone": "a"}],
                "securityGroups": [{"id": "sg-1"}, {"id": "sg-2"}],
                "amis": [{"id": "ami-1", "name": "one", "requirements": []}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                    "observedGeneration": 1, "lastTransitionTime": at(0.0)}]},
        });
        let mut all = Self { world: World::new(disruption), class, networks: BTreeMap::new() };
        all.world.memory.set_gates(Gates { reserved_capacity: true, ..Gates::default() });
        all.change_pool(|_| ());
        all.apply_class();
        all
    }

    fn apply_class(&mut self) {
        self.class["metadata"]["resourceVersion"] = json!(self.world.next().to_string());
        let mut class: EC2NodeClass = serde_json::from_value(self.class.clone()).unwrap();
        let (hash, at) = (hash::of_class(&class, ""), hash::Generations::default());
        hash::OF_CLASS.settle(class.metadata.annotations.get_or_insert_default(), &hash, at);
        self.class = json!(class);
        self.world.state.apply_class(class);
    }

    /// The class changes, and is resolved again.
    pub(super) fn change_class(&mut self, change: impl FnOnce(&mut Value)) {
        let generation = json!(self.class["metadata"]["generation"].as_i64().unwrap() + 1);
        change(&mut self.class);
        self.class["metadata"]["generation"] = generation.clone();
        self.class["status"]["conditions"][0]["observedGeneration"] = generation;
        self.apply_class();
    }

    pub(super) fn change_pool(&mut self, change: impl FnOnce(&mut Value)) {
        let mut pool = self.world.pool.clone();
        change(&mut pool);
        pool["metadata"]["resourceVersion"] = json!(self.world.next().to_string());
        let mut pool: NodePool = serde_json::from_value(pool).unwrap();
        let (hash, at) = (hash::of_pool(&pool), hash::Generations::default());
        hash::OF_POOL.settle(pool.metadata.annotations.get_or_insert_default(), &hash, at);
        self.world.apply_pool(json!(pool));
    }

    pub(super) fn hashes(&self) -> Value {
        let pool: NodePool = serde_json::from_value(self.world.pool.clone()).unwrap();
        let class: EC2NodeClass = serde_json::from_value(self.class.clone()).unwrap();
        let of_pool = hash::OF_POOL.stamp(&hash::node_pool(&pool));
        json!(BTreeMap::from_iter(of_pool.into_iter().chain(hash::OF_CLASS.stamp(&hash::node_class(&class.spec, "")))))
    }

    /// A node that was launched as pool and class are now.
    pub(super) fn node(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let hashes = self.hashes();
        self.world.machine(name, |claim, node| {
            claim["metadata"]["annotations"] = hashes;
            claim["metadata"]["labels"] = node["metadata"]["labels"].clone();
            claim["status"]["imageID"] = json!("ami-1");
            claim["status"]["providerID"] = json!(format!("aws:///a/i-{name}"));
            node["spec"]["providerID"] = json!(format!("aws:///a/i-{name}"));
            change(claim);
        });
        let security_groups = ["sg-1".to_owned(), "sg-2".to_owned()].into();
        self.networks.insert(format!("i-{name}"), InstanceNetwork { subnet: "subnet-1".into(), security_groups });
        self.hear();
    }

    /// The cloud's instances are listed.
    pub(super) fn hear(&mut self) {
        self.world.memory.learn_networks(Arc::new(self.networks.clone()));
    }

    /// A look; what it wants written on claims is written.
    pub(super) fn look(&mut self, seconds: f64) -> DisruptionDecision {
        let decision = self.world.look(seconds);
        for mark in &decision.drift.marks {
            let there = self.world.state.snapshot().claims[&mark.claim].claim.clone();
            self.write(mark.on(&there, at(seconds)));
        }
        for stamp in &decision.drift.stamps {
            let mut claim = NodeClaim::clone(&self.world.state.snapshot().claims[&stamp.claim].claim);
            stamp.put_on(&mut claim);
            self.write(claim);
        }
        decision
    }

    fn write(&mut self, mut claim: NodeClaim) {
        claim.metadata.resource_version = Some(self.world.next().to_string());
        self.world.state.apply_claim(Arc::new(claim));
    }

    /// The reason why a node drifts, by its claim's condition.
    pub(super) fn reason(&self, name: &str) -> Option<String> {
        let claim = self.world.claim(name);
        condition(&claim.status.as_ref().unwrap().conditions, "Drifted").map(|one| one.reason.clone())
    }
}

/// A pool whose nodes nothing but drift takes away.
fn one_node() -> Drifting {
    let mut all = Drifting::new(json!({"consolidateAfter": "Never"}));
    all.node("n", |_| ());
    all.world.pod("p", "n", |_| ());
    all.look(1.0);
    assert_eq!(all.reason("n"), None, "nothing has changed");
    all
}

#[test]
fn changed_template_is_drift_and_other_pool_fields_are_not() {
    let mut all = one_node();
    all.change_pool(|pool| pool["spec"]["limits"] = json!({"cpu": "100"}));
    all.look(2.0);
    assert_eq!(all.reason("n"), None);
    all.change_pool(|pool| pool["spec"]["template"]["metadata"] = json!({"labels": {"release": "two"}}));
    all.look(3.0);
    assert_eq!(all.reason("n").as_deref(), Some("NodePoolDrifted"));
    all.change_pool(|pool| drop(pool["spec"]["template"].as_object_mut().unwrap().remove("metadata")));
    all.look(4.0);
    assert_eq!(all.reason("n"), None, "taken back, it is no drift any more");
}

#[test]
fn requirement_a_running_node_satisfies_is_no_drift() {
    let mut all = one_node();
    let require =
        |key: &str, operator: &str, values: Value| json!([{"key": key, "operator": operator, "values": values}]);
    let set = |all: &mut Drifting, wanted: Value| {
        all.change_pool(|pool| pool["spec"]["template"]["spec"]["requirements"] = wanted)
    };
    set(&mut all, require("karpenter.sh/capacity-type", "In", json!(["spot"])));
    all.look(2.0);
    set(&mut all, require("node.kubernetes.io/instance-type", "In", json!(["m5.large"])));
    all.look(3.0);
    set(&mut all, require("example.com/rack", "Exists", json!([])));
    all.look(4.0);
    assert_eq!(all.reason("n"), None, "no new node would have that label either");
    set(&mut all, require("karpenter.sh/capacity-type", "In", json!(["on-demand"])));
    all.look(5.0);
    assert_eq!(all.reason("n").as_deref(), Some("RequirementsDrifted"));
    set(&mut all, require("example.com/team", "In", json!(["a"])));
    all.look(6.0);
    assert_eq!(all.reason("n").as_deref(), Some("RequirementsDrifted"), "a label that it lacks and new nodes get");
}

#[test]
fn nonsense_pool_drifts_nothing_by_its_requirements() {
    let mut all = one_node();
    let nonsense = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []}]);
    all.change_pool(|pool| pool["spec"]["template"]["spec"]["requirements"] = nonsense);
    all.look(2.0);
    assert_eq!(all.reason("n"), None);
}

#[test]
fn changed_class_is_drift_but_not_a_selector_finding_the_same() {
    let mut all = one_node();
    all.change_class(|class| {
        class["spec"]["amiSelectorTerms"] = json!([{"id": "ami-1"}]);
        class["spec"]["subnetSelectorTerms"] = json!([{"tags": {"a": "b"}}]);
        class["spec"]["securityGroupSelectorTerms"] = json!([{"name": "nodes"}]);
        class["status"]["securityGroups"].as_array_mut().unwrap().reverse();
    });
    all.look(2.0);
    assert_eq!(all.reason("n"), None);
    all.change_class(|class| class["spec"]["tags"]["release"] = json!("two"));
    all.look(3.0);
    assert_eq!(all.reason("n").as_deref(), Some("NodeClassDrift"));
}

#[test]
fn each_thing_a_class_resolves_to_is_drift_if_node_differs() {
    for (path, value, reason) in [
        ("/status/amis/0/id", json!("ami-2"), "AMIDrift"),
        ("/status/securityGroups", json!([{"id": "sg-1"}]), "SecurityGroupDrift"),
        ("/status/subnets", json!([{"id": "subnet-9", "zone": "b"}]), "SubnetDrift"),
    ] {
        let mut all = one_node();
        all.change_class(|class| *class.pointer_mut(path).unwrap() = value);
        all.look(2.0);
        assert_eq!(all.reason("n").as_deref(), Some(reason));
    }
}

#[test]
fn reservation_the_class_lost_is_drift_while_the_gate_is_on() {
    let reserved = |claim: &mut Value| {
        claim["metadata"]["labels"]["karpenter.sh/capacity-type"] = json!("reserved");
        claim["metadata"]["labels"]["karpenter.k8s.aws/capacity-reservation-id"] = json!("cr-1");
    };
    let ready = |status: &str| json!({"type": "CapacityReservationsReady", "status": status, "reason": "x", "message": "", "lastTransitionTime": at(0.0)});
    for (gate, status, reason) in
        [(true, "True", Some("CapacityReservationDrift")), (true, "Unknown", None), (false, "True", None)]
    {
        let mut all = Drifting::new(json!({"consolidateAfter": "Never"}));
        all.world.memory.set_gates(Gates { reserved_capacity: gate, ..Gates::default() });
        all.change_class(|class| {
            class["spec"]["capacityReservationSelectorTerms"] = json!([{"id": "cr-2"}]);
            class["status"]["conditions"].as_array_mut().unwrap().push(ready(status));
        });
        all.node("n", reserved);
        for early in [1.0, 70.0, 115.0] {
            all.look(early);
            assert_eq!(all.reason("n"), None, "its labels may follow");
        }
        all.look(190.0);
        assert_eq!(all.reason("n").as_deref(), reason, "{gate} {status}");
    }
}

#[test]
fn reservation_of_no_selector_is_drift_if_open_ones_are_known() {
    let ready = |status: &str, reason: &str| json!({"type": "CapacityReservationsReady", "status": status, "reason": reason, "message": "", "lastTransitionTime": at(0.0)});
    for (condition, drifts) in [
        (None, false),
        (Some(ready("True", "CapacityReservationsReady")), true),
        (Some(ready("True", "OpenReservationsUnknown")), false),
        (Some(ready("Unknown", "Throttling")), false),
    ] {
        let mut all = Drifting::new(json!({"consolidateAfter": "Never"}));
        all.change_class(|class| class["status"]["conditions"].as_array_mut().unwrap().extend(condition.clone()));
        all.node("n", |claim| {
            claim["metadata"]["labels"]["karpenter.sh/capacity-type"] = json!("reserved");
            claim["metadata"]["labels"]["karpenter.k8s.aws/capacity-reservation-id"] = json!("cr-1");
        });
        all.look(1.0);
        all.look(130.0);
        assert_eq!(all.reason("n").is_some(), drifts, "{condition:?}");
    }
}

#[test]
fn with_the_gate_off_nothing_drifts_and_the_condition_goes() {
    let mut all = Drifting::new(json!({"consolidateAfter": "Never"}));
    all.node("n", |_| {});
    all.change_class(|class| class["spec"]["tags"] = json!({"release": "two"}));
    all.look(1.0);
    assert_eq!(all.reason("n").as_deref(), Some("NodeClassDrift"));
    all.world.memory.set_gates(Gates { drift_off: true, ..Gates::default() });
    all.look(2.0);
    assert_eq!(all.reason("n"), None);
}

#[test]
fn instance_known_outside_its_placement_group_drifts() {
    let group = |id: &str| json!({"id": id, "name": "rack", "strategy": "spread"});
    let label = "karpenter.k8s.aws/placement-group-id";
    for (own, group, reason) in [
        (Some("pg-1"), Some(group("pg-1")), None),
        (Some("pg-1"), Some(group("pg-2")), Some("PlacementGroupDrift")),
        (None, Some(group("pg-2")), None),
        (Some("pg-1"), None, None),
    ] {
        let mut all = Drifting::new(json!({"consolidateAfter": "Never"}));
        all.change_class(|class| {
            class["spec"]["placementGroupSelector"] = json!({"name": "rack"});
            class["status"]["placementGroup"] = json!(group);
        });
        all.node("n", |claim| {
            if let Some(own) = own {
                claim["metadata"]["labels"][label] = json!(own);
            }
        });
        all.look(1.0);
        assert_eq!(all.reason("n").as_deref(), reason, "{own:?} {group:?}");
    }
}

#[test]
fn unready_unresolved_or_gone_class_changes_no_drift() {
    let spoil: Vec<(&str, Box<dyn Fn(&mut Value)>)> = vec![
        ("not ready", Box::new(|class| class["status"]["conditions"][0]["status"] = json!("False"))),
        ("unknown", Box::new(|class| class["status"]["conditions"][0]["status"] = json!("Unknown"))),
        ("not resolved yet", Box::new(|class| class["metadata"]["generation"] = json!(99))),
        ("deleted", Box::new(|class| class["metadata"]["deletionTimestamp"] = json!(at(1.0)))),
        ("without a status", Box::new(|class| drop(class.as_object_mut().unwrap().remove("status")))),
    ];
    for (what, spoil) in &spoil {
        let mut all = one_node();
        all.class["spec"]["tags"]["release"] = json!("two");
        all.class["status"]["amis"][0]["id"] = json!("ami-2");
        spoil(&mut all.class);
        all.apply_class();
        assert_eq!(all.look(2.0).drift.marks, [], "{what}");
        let mut all = one_node();
        all.change_class(|class| class["status"]["amis"][0]["id"] = json!("ami-2"));
        all.look(2.0);
        all.class["status"]["amis"][0]["id"] = json!("ami-1");
        spoil(&mut all.class);
        all.apply_class();
        all.look(3.0);
        assert_eq!(all.reason("n").as_deref(), Some("AMIDrift"), "{what}: nobody knows");
    }
}

#[test]
fn images_groups_and_subnets_not_looked_up_drift_nothing() {
    for path in ["/status/amis", "/status/securityGroups", "/status/subnets"] {
        let mut all = one_node();
        all.change_class(|class| *class.pointer_mut(path).unwrap() = json!([]));
        all.look(2.0);
        assert_eq!(all.reason("n"), None, "{path}");
    }
    let mut all = one_node();
    all.networks.clear();
    all.hear();
    all.change_class(|class| class["status"]["securityGroups"] = json!([{"id": "sg-9"}]));
    all.look(2.0);
    assert_eq!(all.reason("n"), None, "the instance was not listed");
    let mut all = one_node();
    let gpu = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}]);
    all.change_class(|class| class["status"]["amis"] = json!([{"id": "ami-2", "name": "two", "requirements": gpu}]));
    all.world.pod("other", "n", |_| ());
    all.look(2.0);
    assert_eq!(all.reason("n").as_deref(), Some("AMIDrift"), "the type says nothing of its architecture here");
}

#[test]
fn moving_image_is_told_once_and_a_chosen_one_is_not() {
    let mut all = one_node();
    all.node("m", |_| ());
    all.change_class(|class| class["status"]["amis"][0]["id"] = json!("ami-2"));
    let told = all.look(2.0).drift.unpinned;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].selector.as_str(), told[0].image.as_str()), ("name al2023-*", "ami-2"));
    all.node("o", |_| ());
    assert_eq!(all.look(3.0).drift.unpinned, []);
    let mut all = one_node();
    all.change_class(|class| {
        class["spec"]["amiSelectorTerms"] = json!([{"id": "ami-2"}]);
        class["status"]["amis"][0]["id"] = json!("ami-2");
    });
    assert_eq!(all.look(2.0).drift.unpinned, []);
    assert_eq!(all.reason("n").as_deref(), Some("AMIDrift"));
}

#[test]
fn type_not_offered_for_half_an_hour_is_drift_on_an_old_node() {
    let mut all = one_node();
    all.node("n", |claim| {
        claim["metadata"]["labels"]["node.kubernetes.io/instance-type"] = json!("m1.tiny");
    });
    for (seconds, reason) in
        [(2.0, None), (3590.0, None), (3700.0, None), (5000.0, None), (5510.0, Some("InstanceTypeNotFound"))]
    {
        all.look(seconds);
        assert_eq!(all.reason("n").as_deref(), reason, "{seconds}");
    }
    all.node("m", |claim| claim["metadata"]["labels"]["topology.kubernetes.io/zone"] = json!("z"));
    all.look(5600.0);
    all.look(7500.0);
    assert_eq!(all.reason("m").as_deref(), Some("InstanceTypeNotFound"), "it is offered elsewhere only");
}

#[test]
fn claims_of_other_hash_version_are_stamped_once_without_drift() {
    let mut all = one_node();
    for (name, version) in [("old", json!("dovetail-v2")), ("karpenter", json!("v2")), ("none", Value::Null)] {
        all.node(name, |claim| {
            let own = claim["metadata"]["annotations"].as_object_mut().unwrap();
            for key in ["karpenter.sh/nodepool-hash", "karpenter.k8s.aws/ec2nodeclass-hash"] {
                own.insert(key.into(), json!("123"));
                own.insert(format!("{key}-version"), version.clone());
            }
            own.retain(|_, value| !value.is_null());
        });
    }
    assert_eq!(all.look(2.0).drift.stamps.len(), 3);
    for seconds in [3.0, 70.0, 140.0] {
        let drift = all.look(seconds).drift;
        assert_eq!((drift.stamps, drift.marks), (vec![], vec![]));
    }
    let own = all.world.claim("karpenter").metadata.annotations.unwrap();
    assert_eq!(own["karpenter.sh/nodepool-hash-version"], "v3");
    assert_eq!(all.hashes()["karpenter.sh/nodepool-hash"], own["karpenter.sh/nodepool-hash"]);
    all.change_pool(|pool| pool["spec"]["template"]["metadata"] = json!({"labels": {"release": "two"}}));
    all.look(150.0);
    assert_eq!(all.reason("karpenter").as_deref(), Some("NodePoolDrifted"), "from then on it is held against its hash");
}

/// A claim that is marked as Drifted for a reason.
fn mark(claim: &mut Value, reason: &str) {
    let drifted = json!({"type": "Drifted", "status": "True", "reason": reason, "message": "",
        "lastTransitionTime": at(0.0)});
    claim["status"]["conditions"].as_array_mut().unwrap().push(drifted);
}

/// Hashes of a release before on a claim, which is marked as Drifted for a reason.
fn of_before(claim: &mut Value, reason: &str) {
    let own = claim["metadata"]["annotations"].as_object_mut().unwrap();
    for key in ["karpenter.sh/nodepool-hash", "karpenter.k8s.aws/ec2nodeclass-hash"] {
        own.insert(key.into(), json!("123"));
        own.insert(format!("{key}-version"), json!("dovetail-v2"));
    }
    let drifted =
        json!({"type": "Drifted", "status": "True", "reason": reason, "message": "", "lastTransitionTime": at(0.0)});
    claim["status"]["conditions"].as_array_mut().unwrap().push(drifted);
}

#[test]
fn drifted_claim_keeps_only_the_hash_that_it_drifts_by() {
    for (reason, of_pool, of_class) in
        [("AMIDrift", false, false), ("NodePoolDrifted", true, false), ("NodeClassDrift", false, true)]
    {
        let mut all = one_node();
        all.node("n", |claim| of_before(claim, reason));
        all.look(2.0);
        all.look(3.0);
        let own = all.world.claim("n").metadata.annotations.unwrap();
        let kept = ["karpenter.sh/nodepool-hash", "karpenter.k8s.aws/ec2nodeclass-hash"].map(|key| own[key] == "123");
        assert_eq!(kept, [of_pool, of_class], "{reason}");
        let still = all.reason("n");
        assert_eq!(still.as_deref(), Some(reason).filter(|_| of_pool || of_class), "the image is the class's again");
    }
}

#[test]
fn claims_without_room_for_a_stamp_get_it_at_the_next_look() {
    let mut all = one_node();
    for n in 0..130 {
        all.node(&format!("m{n}"), |claim| {
            claim["metadata"]["annotations"]["karpenter.sh/nodepool-hash-version"] = json!("v2");
        });
    }
    let stamps: Vec<_> = [2.0, 3.0, 4.0].map(|seconds| all.look(seconds).drift.stamps.len()).into();
    assert_eq!(stamps, [100, 30, 0]);
}

#[test]
fn drifted_claim_keeps_its_hash_and_goes_on_drifting() {
    let mut all = one_node();
    all.node("n", |claim| {
        let own = &mut claim["metadata"]["annotations"];
        (own["karpenter.sh/nodepool-hash"], own["karpenter.sh/nodepool-hash-version"]) = (json!("123"), json!("dovetail-v2"));
        let drifted = json!({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "message": "", "lastTransitionTime": at(0.0)});
        claim["status"]["conditions"].as_array_mut().unwrap().push(drifted);
    });
    all.look(2.0);
    all.look(3.0);
    let own = all.world.claim("n").metadata.annotations.unwrap();
    assert_eq!(
        (own["karpenter.sh/nodepool-hash"].as_str(), own["karpenter.sh/nodepool-hash-version"].as_str()),
        ("123", "v3")
    );
    assert_eq!(all.reason("n").as_deref(), Some("NodePoolDrifted"));
}

#[test]
fn drift_karpenter_left_is_found_once_the_leader_has_the_hash() {
    let mut all = one_node();
    all.node("k", |_| ());
    let marked = [("n", Some("NodePoolDrifted")), ("m", Some("NodeClassDrift")), ("o", None)];
    for (name, reason) in marked {
        all.node(name, |claim| {
            let key = if name == "m" { "karpenter.k8s.aws/ec2nodeclass-hash" } else { "karpenter.sh/nodepool-hash" };
            claim["metadata"]["annotations"][key] = json!("123");
            reason.into_iter().for_each(|reason| mark(claim, reason));
        });
    }
    // The pool and the class carry Karpenter's hashes, and Dovetail has written nothing yet.
    let (pool, class) = (all.world.pool.clone(), all.class.clone());
    let mut unknown = |mut object: Value| {
        object["metadata"]["annotations"].as_object_mut().unwrap().remove(RECORD);
        object["metadata"]["resourceVersion"] = json!(all.world.next().to_string());
        object
    };
    let (pool, class) = (unknown(pool), unknown(class));
    all.world.apply_pool(pool);
    all.world.state.apply_class(serde_json::from_value::<EC2NodeClass>(class).unwrap());
    all.look(2.0);
    let reasons = |all: &Drifting| ["n", "m", "o", "k"].map(|name| all.reason(name).unwrap_or_default());
    assert_eq!(reasons(&all), ["NodePoolDrifted", "NodeClassDrift", "", ""], "nobody knows");
    all.change_pool(|pool| drop(pool["metadata"]["annotations"].as_object_mut().unwrap().remove(RECORD)));
    all.change_class(|class| drop(class["metadata"]["annotations"].as_object_mut().unwrap().remove(RECORD)));
    all.look(3.0);
    assert_eq!(reasons(&all), ["NodePoolDrifted", "NodeClassDrift", "", ""], "nothing begins to drift");
    all.change_pool(|pool| pool["spec"]["template"]["metadata"] = json!({"labels": {"release": "two"}}));
    all.look(4.0);
    let [.., o, k] = reasons(&all);
    assert_eq!([o, k], ["NodePoolDrifted"; 2], "an edit replaces those as well");
}

#[test]
fn a_claim_that_cannot_be_stamped_is_tried_ever_later() {
    let mut all = one_node();
    all.node("n", |claim| claim["metadata"]["annotations"] = json!({}));
    let mut tried = Vec::new();
    for step in 0..1200 {
        let seconds = 2.0 + f64::from(step);
        all.change_pool(|pool| pool["metadata"]["annotations"]["tick"] = json!(step.to_string()));
        if !all.world.look_only(seconds).drift.stamps.is_empty() {
            tried.push(step);
        }
    }
    assert_eq!(tried, [0, 10, 30, 70, 150, 310, 630], "10 s, then twice that and so on");
}

#[test]
fn nodes_without_a_pool_or_a_class_do_not_drift() {
    let mut all = one_node();
    all.node("n", |claim| {
        claim["metadata"]["labels"]["karpenter.sh/nodepool"] = json!("gone");
        claim["metadata"]["annotations"]["karpenter.sh/nodepool-hash"] = json!("1");
    });
    assert_eq!(all.look(2.0).drift.marks, []);
    all.node("m", |claim| claim["spec"]["nodeClassRef"]["name"] = json!("gone"));
    all.change_class(|class| class["spec"]["tags"]["release"] = json!("two"));
    all.look(3.0);
    assert_eq!(all.reason("m"), None);
}

#[test]
fn node_is_judged_again_only_where_what_it_is_held_to_changes() {
    let mut all = Drifting::new(json!({"consolidateAfter": "Never"}));
    (0..5).for_each(|node| all.node(&format!("node-{node}"), |_| ()));
    // Offers of the cloud are the same, and the writes that a look orders do not come through.
    let offers: crate::disruption::look::OffersByClass =
        [("default".to_owned(), Arc::new(vec![Arc::new(large())]))].into();
    let looked = |all: &mut Drifting, seconds: f64| {
        let now = Moment { monotonic: Duration::from_secs_f64(seconds), wall: at(seconds) };
        decide_disruption(&all.world.state.snapshot(), &offers, &mut all.world.memory, now)
    };
    looked(&mut all, 10.0);
    let judged = |all: &Drifting| all.world.memory.drift.judged();
    let first = judged(&all);
    assert_eq!(first, 5, "each once");
    // Counts on a pool, its weight and a condition of a class change.
    all.change_pool(|pool| pool["status"] = json!({"resources": {"cpu": "12"}}));
    all.change_pool(|pool| pool["spec"]["weight"] = json!(7));
    all.class["status"]["conditions"][0]["lastTransitionTime"] = json!(at(11.0));
    all.apply_class();
    looked(&mut all, 12.0);
    assert_eq!(judged(&all), first);
    all.change_class(|class| class["status"]["securityGroups"] = json!([{"id": "sg-9"}]));
    assert_eq!(looked(&mut all, 14.0).drift.marks.len(), 5);
    assert_eq!(judged(&all), first + 5, "each once more");
    let second = judged(&all);
    all.change_pool(|pool| {
        pool["spec"]["template"]["spec"]["requirements"] =
            json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z"]}]);
    });
    looked(&mut all, 16.0);
    assert_eq!(judged(&all), second + 5, "each once more");
}
