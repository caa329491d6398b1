//! Ownership of instances as `owner` has reported it; each actor that acts on a claim's instance or Node keeps one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::names::{instance_id, tags};
use dovetail_api::v1::NodeClaim;
pub use dovetail_core::ownership::OwnershipVerdict;
use dovetail_core::ownership::{NotOwned, OwnershipMarks, token_on};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::messages::InstanceKnown;

/// Ownership of each instance, as `owner` has reported it.
#[derive(Default)]
pub struct Instances {
    known: BTreeMap<String, Option<Arc<OwnershipMarks>>>,
    /// Instance named by each claim, by the claim's name.
    named: BTreeMap<String, String>,
    /// Names of claims by the instance that they name.
    naming: BTreeMap<String, BTreeSet<String>>,
    /// Launch token of each claim that names an instance, by the claim's name.
    tokens: BTreeMap<String, String>,
}

impl Instances {
    /// `owner` has said what an instance's tags say. Answers whether that is news.
    pub fn learn(&mut self, known: &InstanceKnown) -> bool {
        let before = self.known.insert(known.id.clone(), known.marks.clone());
        before.as_ref() != Some(&known.marks)
    }

    /// A claim is there or has changed.
    pub fn note(&mut self, claim: &NodeClaim) {
        let name = claim.name_any();
        if self.named.get(&name).map(String::as_str) == instance_of(claim) {
            return;
        }
        self.unname(&name);
        if let Some(id) = instance_of(claim) {
            self.naming.entry(id.to_owned()).or_default().insert(name.clone());
            self.tokens.extend(token_on(claim).map(|token| (name.clone(), token)));
            self.named.insert(name, id.to_owned());
        }
    }

    /// A claim is gone. Its instance is looked up again if another claim names it.
    pub fn forget(&mut self, claim: &NodeClaim) {
        let ours = self.verdict(claim) == OwnershipVerdict::Ours;
        self.unname(&claim.name_any());
        // Also what EC2 did not know: a claim that comes back with a backup is asked about anew.
        if let Some(id) = instance_of(claim).filter(|id| ours || !self.naming.contains_key(*id)) {
            self.known.remove(id);
        }
    }

    fn unname(&mut self, claim: &str) {
        let Some(id) = self.named.remove(claim) else { return };
        self.tokens.remove(claim);
        if let Some(names) = self.naming.get_mut(&id) {
            names.remove(claim);
            if names.is_empty() {
                self.naming.remove(&id);
            }
        }
    }

    /// The names of the claims on which an instance is written.
    pub fn naming(&self, id: &str) -> Vec<String> {
        self.naming.get(id).into_iter().flatten().cloned().collect()
    }

    /// True if the instance is written on some claim.
    pub fn is_named(&self, id: &str) -> bool {
        self.naming.contains_key(id)
    }

    /// No claim needs an instance any more.
    pub fn forget_instance(&mut self, id: &str) {
        self.known.remove(id);
    }

    /// Number of claims that name an instance and may have it.
    fn rivals(&self, id: &str, marks: &OwnershipMarks) -> usize {
        let naming = self.naming.get(id).into_iter().flatten();
        naming.filter(|name| marks.may_be_of(self.tokens.get(*name).map(String::as_str))).count()
    }

    /// Decides if the instance that is written on a claim is the claim's.
    pub fn verdict(&self, claim: &NodeClaim) -> OwnershipVerdict {
        let Some(id) = instance_of(claim) else { return OwnershipVerdict::NoInstance };
        match self.known.get(id) {
            None => OwnershipVerdict::Unknown,
            Some(None) => OwnershipVerdict::Missing,
            // Nothing but that it names it says that it is this one's, and another says the same.
            Some(Some(marks)) if marks.needs_sole_claim() && self.rivals(id, marks) > 1 => {
                OwnershipVerdict::NotOurs(NotOwned::TagMissing { tag: tags::NODE_CLAIM.to_owned() })
            }
            Some(Some(marks)) => marks.is_of(claim).map_or_else(OwnershipVerdict::NotOurs, |_| OwnershipVerdict::Ours),
        }
    }

    /// Tags of an instance; `None` while EC2 has not answered.
    pub fn marks(&self, id: &str) -> Option<Option<&OwnershipMarks>> {
        self.known.get(id).map(Option::as_deref)
    }

    /// Returns the Nodes that are the claim's instance's, of those with its provider ID. Anybody who may create Nodes can make
    /// one with any provider ID. So where several carry it, the one that goes by the instance's name in the VPC is it, or else
    /// the one that has registered.
    pub fn own_nodes(&self, claim: &NodeClaim, mut nodes: Vec<Arc<Node>>) -> Vec<Arc<Node>> {
        if nodes.len() < 2 {
            return nodes;
        }
        let marks = instance_of(claim).and_then(|id| self.known.get(id)).and_then(Option::as_deref);
        let by_ec2 = marks.map(|marks| marks.dns_name.as_str()).unwrap_or_default();
        let registered = claim.status.as_ref().map(|status| status.node_name.as_str()).unwrap_or_default();
        for name in [by_ec2, registered].into_iter().filter(|name| !name.is_empty()) {
            if nodes.iter().any(|node| node.name_any() == name) {
                nodes.retain(|node| node.name_any() == name);
                return nodes;
            }
        }
        nodes
    }
}

/// The id of the instance that is written on a claim; the whole provider ID where it names none.
pub fn instance_of(claim: &NodeClaim) -> Option<&str> {
    let provider_id = claim.status.as_ref().map_or("", |status| status.provider_id.as_str());
    (!provider_id.is_empty()).then(|| instance_id(provider_id).unwrap_or(provider_id))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use dovetail_core::ownership::token::launch_token;
    use serde_json::json;

    use super::*;

    fn claim(name: &str, provider_id: &str) -> NodeClaim {
        serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name, "uid": format!("uid-{name}")},
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c"}},
            "status": {"providerID": provider_id, "nodeName": "registered"},
        }))
        .unwrap()
    }

    fn node(name: &str) -> Arc<Node> {
        let node = json!({"metadata": {"name": name}, "spec": {"providerID": "aws:///us-east-1a/i-1"}});
        Arc::new(serde_json::from_value(node).unwrap())
    }

    fn known(id: &str, marks: Option<OwnershipMarks>) -> InstanceKnown {
        InstanceKnown { id: id.into(), marks: marks.map(Arc::new) }
    }

    #[test]
    fn of_two_claims_with_one_instance_the_non_owner_is_refused() {
        let (own, thief) = (claim("own", "aws:///us-east-1a/i-1"), claim("thief", "aws:///us-east-1b/i-1"));
        let mut instances = Instances::default();
        assert_eq!(instances.verdict(&own), OwnershipVerdict::Unknown);
        [&own, &thief].into_iter().for_each(|claim| instances.note(claim));
        assert_eq!(instances.naming("i-1"), ["own", "thief"]);
        let marks = OwnershipMarks::launched_with(&launch_token(["uid-own"], 1), "");
        assert!(instances.learn(&known("i-1", Some(marks))));
        assert_eq!(instances.verdict(&own), OwnershipVerdict::Ours);
        assert!(matches!(instances.verdict(&thief), OwnershipVerdict::NotOurs(NotOwned::OtherClaim { .. })));
        instances.forget(&thief);
        assert_eq!(instances.verdict(&own), OwnershipVerdict::Ours, "it is forgotten with its own claim only");
        instances.forget(&own);
        assert_eq!((instances.verdict(&own), instances.is_named("i-1")), (OwnershipVerdict::Unknown, false));
    }

    #[test]
    fn what_names_no_instance_is_known_by_its_provider_id() {
        for id in ["kind://docker/x", "aws:///us-east-1a/", "nonsense"] {
            assert_eq!(instance_of(&claim("a", id)), Some(id));
        }
        assert_eq!(instance_of(&claim("a", "")), None);
    }

    #[test]
    fn a_node_with_a_copied_provider_id_is_not_the_claims() {
        let (claim, mut instances) = (claim("own", "aws:///us-east-1a/i-1"), Instances::default());
        let names = |nodes: Vec<Arc<Node>>| nodes.iter().map(|node| node.name_any()).collect::<Vec<_>>();
        let all = || vec![node("copied"), node("registered"), node("ip-10-0-0-1.ec2.internal")];
        assert_eq!(names(instances.own_nodes(&claim, all())), ["registered"]);
        let marks = OwnershipMarks::launched_with(&launch_token(["uid-own"], 1), "ip-10-0-0-1.ec2.internal");
        instances.learn(&known("i-1", Some(marks)));
        assert_eq!(names(instances.own_nodes(&claim, all())), ["ip-10-0-0-1.ec2.internal"]);
        assert_eq!(names(instances.own_nodes(&claim, vec![node("by-its-own-name")])), ["by-its-own-name"]);
    }
}
