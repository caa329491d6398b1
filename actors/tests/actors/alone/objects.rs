//! Objects as the API server has them, and the cluster as its watches would show it.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_actors::messages::InstanceKnown;
use dovetail_api::v1::{EC2NodeClass, NodeClaim, NodePool};
use dovetail_cloud::node_class::subnet_views;
use dovetail_cloud::resolve::{self, NodeClassView};
use dovetail_cloud::{Instance, shipped};
use dovetail_core::cluster_state::ClusterState;
use dovetail_core::ownership::OwnershipMarks;
use dovetail_core::ownership::token::launch_token;
use dovetail_sandbox::apiserver::{
    DAEMON_SETS, DeleteOptions, EC2_NODE_CLASSES, Gvr, NODE_CLAIMS, NODE_POOLS, NODES, POD_DISRUPTION_BUDGETS, PODS,
    REPLICA_SETS,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Alone;

/// This cluster's, as the world's cloud has it.
pub const CLUSTER_UID: &str = "uid-of-this-cluster";

/// An instance's id that EC2 may be asked for.
pub fn id(number: u64) -> String {
    format!("i-{number:017x}")
}

/// The name of an instance's Node.
pub fn node_name(number: u64) -> String {
    format!("ip-10-0-0-{number}.ec2.internal")
}

fn read<K: DeserializeOwned>(object: &Value) -> K {
    serde_json::from_value(object.clone()).unwrap()
}

impl Alone {
    /// A pool and its class, both ready.
    pub fn pool(&self, name: &str) {
        self.class(name);
        self.pool_of(name, json!({}));
    }

    /// A pool that is ready, with more in its spec.
    pub fn pool_of(&self, name: &str, more: Value) {
        let mut spec = json!({"template": {"spec": {
            "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5"]}],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}}}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let pool =
            json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec});
        self.api.create(&NODE_POOLS, "", pool).unwrap();
        self.ready(&NODE_POOLS, name, &["Ready", "NodeClassReady", "ValidationSucceeded"], json!({}));
    }

    /// A class of which nobody has said anything.
    pub fn bare_class(&self, name: &str) {
        let class = json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name},
            "spec": {"role": "nodes", "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}],
                "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "demo"}}]},
        });
        self.api.create(&EC2_NODE_CLASSES, "", class).unwrap();
    }

    /// A class that is resolved.
    pub fn class(&self, name: &str) {
        self.bare_class(name);
        let subnet = |zone: &str| json!({"id": format!("subnet-{zone}"), "zone": zone});
        let more = json!({"subnets": [subnet("us-east-1a"), subnet("us-east-1b")], "instanceProfile": "profile",
            "securityGroups": [{"id": "sg-1"}], "amis": [{"id": "ami-1", "requirements": []}]});
        self.ready(&EC2_NODE_CLASSES, name, &["Ready"], more);
    }

    fn ready(&self, kind: &Gvr, name: &str, conditions: &[&str], mut status: Value) {
        let generation = self.api.get(kind, "", name).unwrap()["metadata"]["generation"].clone();
        status["conditions"] = conditions.iter().map(|type_| self.condition(type_, "True", &generation)).collect();
        self.api.patch_status(kind, "", name, &json!({"status": status})).unwrap();
    }

    fn condition(&self, type_: &str, status: &str, generation: &Value) -> Value {
        json!({"type": type_, "status": status, "reason": type_, "message": "", "observedGeneration": generation,
            "lastTransitionTime": self.now_text()})
    }

    /// Wall clock's time as text.
    pub fn now_text(&self) -> String {
        use dovetail_core::clock::Clock as _;
        self.clock.wall().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    /// A claim that nobody has launched for.
    pub fn claim(&self, name: &str) -> Arc<NodeClaim> {
        self.claim_with(name, json!({}))
    }

    /// A claim like [`Self::claim`]'s, with these annotations.
    pub fn claim_with(&self, name: &str, annotations: Value) -> Arc<NodeClaim> {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default", "topology.kubernetes.io/zone": "us-east-1a",
                    "karpenter.sh/capacity-type": "on-demand", "node.kubernetes.io/instance-type": "m5.large",
                    "karpenter.k8s.aws/instance-family": "m5"},
                "annotations": annotations, "finalizers": ["karpenter.sh/termination"]},
            "spec": {"requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}],
                "expireAfter": "Never", "resources": {"requests": {"cpu": "1"}},
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        });
        self.api.create(&NODE_CLAIMS, "", claim).unwrap();
        self.claim_now(name)
    }

    /// The claim as it stands.
    pub fn claim_now(&self, name: &str) -> Arc<NodeClaim> {
        Arc::new(read(&self.api.get(&NODE_CLAIMS, "", name).unwrap_or_else(|| panic!("claim {name} is gone"))))
    }

    /// True if there is such an object.
    pub fn is_there(&self, kind: &Gvr, name: &str) -> bool {
        self.api.get(kind, "", name).is_some()
    }

    /// Deletes what is of no namespace.
    pub fn delete(&self, kind: &Gvr, name: &str) {
        self.api.delete(kind, "", name, &DeleteOptions::default()).unwrap();
    }

    /// A claim that was launched and has come as far as the stages say; its instance runs.
    pub fn launched(&self, name: &str, number: u64, stages: &[&str]) -> Arc<NodeClaim> {
        let claim = self.claim(name);
        let token = launch_token([claim.metadata.uid.as_deref().unwrap()], 1);
        let annotations =
            json!({"metadata": {"annotations": {"dovetail.dev/launch-token": token, "dovetail.dev/term": "3"}}});
        self.api.patch(&NODE_CLAIMS, "", name, &annotations).unwrap();
        let instance = self.sky.inner.strange(
            &id(number),
            &[
                ("dovetail.dev/launch-token", token.as_str()),
                ("dovetail.dev/cluster-uid", CLUSTER_UID),
                ("karpenter.sh/nodepool", "default"),
            ],
        );
        self.stages(name, &instance, number, stages)
    }

    /// Writes an instance and stages on a claim.
    pub fn stages(&self, name: &str, instance: &Instance, number: u64, stages: &[&str]) -> Arc<NodeClaim> {
        let conditions: Vec<Value> = stages.iter().map(|stage| self.condition(stage, "True", &json!(1))).collect();
        let node = if stages.contains(&"Registered") { node_name(number) } else { String::new() };
        let status = json!({"providerID": instance.provider_id(), "nodeName": node, "conditions": conditions, "imageID": "ami-1",
            "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"}, "allocatable": {"cpu": "1900m", "memory": "7Gi", "pods": "29"}});
        self.api.patch_status(&NODE_CLAIMS, "", name, &json!({"status": status})).unwrap();
        self.claim_now(name)
    }

    /// Ownership by the tags of a launched claim's instance.
    pub fn marks(&self, claim: &NodeClaim, number: u64) -> InstanceKnown {
        let token = launch_token([claim.metadata.uid.as_deref().unwrap()], 1);
        InstanceKnown {
            id: id(number),
            marks: Some(Arc::new(OwnershipMarks::launched_with(&token, &node_name(number)))),
        }
    }

    /// The Node of a claim's instance as its kubelet brings it.
    pub fn joined(&self, number: u64) -> Arc<k8s_openapi::api::core::v1::Node> {
        let provider_id = format!("aws:///us-east-1a/{}", id(number));
        let name = node_name(number);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
                "kubernetes.io/hostname": name, "karpenter.sh/nodepool": "default", "node.kubernetes.io/instance-type": "m5.large"}},
            "spec": {"providerID": provider_id, "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]}});
        self.api.create(&NODES, "", node).unwrap();
        self.node_now(number)
    }

    /// A joined Node that is registered and initialized, with finalizer and labels.
    pub fn working(&self, number: u64) -> Arc<k8s_openapi::api::core::v1::Node> {
        self.joined(number);
        let patch = json!({"metadata": {"finalizers": ["karpenter.sh/termination"], "labels": {
            "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true", "karpenter.sh/capacity-type": "on-demand",
            "topology.kubernetes.io/zone": "us-east-1a"}}, "spec": {"taints": []}});
        self.api.patch(&NODES, "", &node_name(number), &patch).unwrap();
        self.kubelet(number, "True");
        self.node_now(number)
    }

    /// A kubelet says how it is.
    pub fn kubelet(&self, number: u64, ready: &str) -> Arc<k8s_openapi::api::core::v1::Node> {
        let amounts = json!({"cpu": "1900m", "memory": "7Gi", "pods": "29"});
        let status = json!({"conditions": [{"type": "Ready", "status": ready, "reason": "Kubelet",
            "lastTransitionTime": self.now_text()}], "capacity": amounts, "allocatable": amounts});
        self.api.patch_status(&NODES, "", &node_name(number), &json!({"status": status})).unwrap();
        self.node_now(number)
    }

    /// The Node as it stands.
    pub fn node_now(&self, number: u64) -> Arc<k8s_openapi::api::core::v1::Node> {
        Arc::new(read(&self.api.get(&NODES, "", &node_name(number)).unwrap()))
    }

    /// A pod of a ReplicaSet, bound where a node is named; otherwise kube-scheduler finds none for it. Answers its uid.
    pub fn pod(&self, name: &str, node: Option<u64>) -> String {
        self.pod_of(name, node, "500m")
    }

    /// A pod with this request for cpu.
    pub fn pod_of(&self, name: &str, node: Option<u64>, cpu: &str) -> String {
        let owner = self.owner(&REPLICA_SETS, "ReplicaSet");
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
                "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}]}});
        let made = self.api.create(&PODS, "default", pod).unwrap();
        match node {
            Some(number) => {
                self.api.bind("default", name, &node_name(number)).unwrap();
                self.pod_status(name, json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}));
            }
            None => self.pod_status(
                name,
                json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0 nodes"}]}),
            ),
        }
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// Returns the owner of pods, which is made if missing: a pod whose owner is gone is collected.
    pub fn owner(&self, kind: &Gvr, of: &str) -> Value {
        let there = self.api.get(kind, "default", "web").unwrap_or_else(|| {
            let labels = json!({"app": "web"});
            let pod =
                json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "pause"}]}});
            let owner = json!({"metadata": {"name": "web", "namespace": "default"},
                "spec": {"selector": {"matchLabels": labels}, "template": pod}});
            self.api.create(kind, "default", owner).unwrap()
        });
        json!({"apiVersion": "apps/v1", "kind": of, "name": "web", "uid": there["metadata"]["uid"], "controller": true})
    }

    /// Sets a pod's status.
    pub fn pod_status(&self, name: &str, status: Value) {
        self.api.patch_status(&PODS, "default", name, &json!({"status": status})).unwrap();
    }

    /// The watches show everything as it stands, to who asks for snapshots.
    pub fn show(&self) {
        self.heard.cluster(|state| self.apply_all(state));
    }

    fn apply_all(&self, state: &mut ClusterState) {
        let each = |kind: &Gvr| self.api.list(kind).into_iter().map(|one| Value::clone(&one)).collect::<Vec<_>>();
        let names = |kind: &Gvr| {
            each(kind).iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let known = state.snapshot();
        let (pods, nodes, claims) = (each(&PODS), names(&NODES), names(&NODE_CLAIMS));
        let uids: Vec<String> = pods.iter().map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect();
        known.pods.keys().filter(|uid| !uids.contains(uid)).for_each(|uid| state.delete_pod(uid));
        known.nodes.keys().filter(|name| !nodes.contains(name)).for_each(|name| state.delete_node(name, None));
        let there = known.claims.iter().filter(|(_, entry)| !entry.is_planned());
        there.filter(|(name, _)| !claims.contains(name)).for_each(|(name, _)| state.delete_claim(name, None));
        for one in each(&EC2_NODE_CLASSES) {
            state.apply_class(read::<EC2NodeClass>(&one));
        }
        for one in each(&NODE_POOLS) {
            state.apply_pool(read::<NodePool>(&one));
        }
        for one in each(&NODE_CLAIMS) {
            state.apply_claim(Arc::new(read(&one)));
        }
        for one in each(&NODES) {
            state.apply_node(&read(&one));
        }
        each(&DAEMON_SETS).iter().for_each(|one| state.apply_daemon_set(read(one)));
        each(&POD_DISRUPTION_BUDGETS).iter().for_each(|one| state.apply_budget(read(one)));
        for one in pods {
            state.apply_pod(&read(&one)).unwrap();
        }
    }

    /// The catalogue has the family m5 for a class, as it is shipped.
    pub fn offer(&self, class: &str) {
        let shipped = shipped::catalogue_once("us-east-1").narrowed(|name| name.starts_with("m5."));
        let there: EC2NodeClass = read(&self.api.get(&EC2_NODE_CLASSES, "", class).unwrap());
        let view = NodeClassView::from_spec(&there.spec, subnet_views(there.status.as_ref().unwrap())).unwrap();
        let types = resolve::instance_types(&shipped, &view, &resolve::ResolveSettings::default());
        let types = Arc::new(types.into_iter().map(Arc::new).collect());
        self.heard.offers(Some(BTreeMap::from([(class.to_owned(), types)])));
    }
}
