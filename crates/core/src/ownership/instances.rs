//! Ownership of instances as `owner` has found it out: one record for each instance, with the claims that name it. Each actor that
//! acts on a claim's instance or Node has one of these.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::{instance_id, tags};
use dovetail_api::v1::NodeClaim;
use k8s_openapi::api::core::v1::Node;

use super::{NotOwned, OwnershipMarks, OwnershipVerdict, token_on};

#[derive(Debug, Default)]
pub struct Instances {
    /// By the instance's id.
    instances: BTreeMap<String, OwnedInstance>,
    /// Instance named by each claim, by the claim's name.
    named: BTreeMap<String, String>,
}

#[derive(Debug, Default)]
struct OwnedInstance {
    /// Its tags; `Some(None)` for one that EC2 does not know.
    marks: Option<Option<Arc<OwnershipMarks>>>,
    /// Claims on which it is written, by name, each with its launch token of then.
    claims: BTreeMap<String, Option<String>>,
}

impl Instances {
    /// `owner` has said what an instance's tags say. Answers whether that is news.
    pub fn learn(&mut self, id: &str, marks: Option<Arc<OwnershipMarks>>) -> bool {
        let own = &mut self.instances.entry(id.to_owned()).or_default().marks;
        let news = own.as_ref() != Some(&marks);
        *own = Some(marks);
        news
    }

    /// A claim is there or has changed.
    pub fn note(&mut self, claim: &NodeClaim) {
        let name = name_of(claim);
        if self.named.get(name).map(String::as_str) == instance_of(claim) {
            return;
        }
        self.unname(name);
        if let Some(id) = instance_of(claim) {
            self.instances.entry(id.to_owned()).or_default().claims.insert(name.to_owned(), token_on(claim));
            self.named.insert(name.to_owned(), id.to_owned());
        }
    }

    /// A claim is gone. Its instance is looked up again if another claim names it.
    pub fn forget(&mut self, claim: &NodeClaim) {
        let ours = self.verdict(claim) == OwnershipVerdict::Ours;
        self.unname(name_of(claim));
        // Also what EC2 did not know: a claim that comes back with a backup is asked about anew.
        if let Some(id) = instance_of(claim).filter(|id| ours || !self.is_named(id)) {
            self.forget_instance(id);
        }
    }

    fn unname(&mut self, claim: &str) {
        let Some(id) = self.named.remove(claim) else { return };
        if let Some(own) = self.instances.get_mut(&id) {
            own.claims.remove(claim);
        }
        self.tidy(&id);
    }

    /// Drops an instance of which nothing is known.
    fn tidy(&mut self, id: &str) {
        if self.instances.get(id).is_some_and(|own| own.marks.is_none() && own.claims.is_empty()) {
            self.instances.remove(id);
        }
    }

    /// The names of the claims on which an instance is written.
    #[must_use]
    pub fn naming(&self, id: &str) -> Vec<String> {
        self.instances.get(id).into_iter().flat_map(|own| own.claims.keys().cloned()).collect()
    }

    /// True if the instance is written on some claim.
    #[must_use]
    pub fn is_named(&self, id: &str) -> bool {
        self.instances.get(id).is_some_and(|own| !own.claims.is_empty())
    }

    /// No claim needs an instance any more.
    pub fn forget_instance(&mut self, id: &str) {
        if let Some(own) = self.instances.get_mut(id) {
            own.marks = None;
        }
        self.tidy(id);
    }

    /// Decides if the instance that is written on a claim is the claim's.
    #[must_use]
    pub fn verdict(&self, claim: &NodeClaim) -> OwnershipVerdict {
        let Some(id) = instance_of(claim) else { return OwnershipVerdict::NoInstance };
        let Some(OwnedInstance { marks: Some(marks), claims }) = self.instances.get(id) else {
            return OwnershipVerdict::Unknown;
        };
        let Some(marks) = marks else { return OwnershipVerdict::Missing };
        // Nothing but that it names it says that it is this one's, and another says the same.
        let rivals = claims.values().filter(|token| marks.may_be_of(token.as_deref()));
        if marks.needs_sole_claim() && rivals.count() > 1 {
            return OwnershipVerdict::NotOurs(NotOwned::TagMissing { tag: tags::NODE_CLAIM.to_owned() });
        }
        marks.is_of(claim).map_or_else(OwnershipVerdict::NotOurs, |_| OwnershipVerdict::Ours)
    }

    /// Tags of an instance; `None` while EC2 has not answered.
    #[must_use]
    pub fn marks(&self, id: &str) -> Option<Option<&OwnershipMarks>> {
        self.instances.get(id)?.marks.as_ref().map(Option::as_deref)
    }

    /// Returns the Nodes that are the claim's instance's, of those with its provider ID. Anybody who may create Nodes can make
    /// one with any provider ID. So where several carry it, the one that goes by the instance's name in the VPC is it, or else
    /// the one that has registered.
    #[must_use]
    pub fn own_nodes(&self, claim: &NodeClaim, mut nodes: Vec<Arc<Node>>) -> Vec<Arc<Node>> {
        if nodes.len() < 2 {
            return nodes;
        }
        let marks = instance_of(claim).and_then(|id| self.marks(id)).flatten();
        let by_ec2 = marks.map(|marks| marks.dns_name.as_str()).unwrap_or_default();
        let registered = claim.status.as_ref().map(|status| status.node_name.as_str()).unwrap_or_default();
        for name in [by_ec2, registered].into_iter().filter(|name| !name.is_empty()) {
            if nodes.iter().any(|node| node.metadata.name.as_deref() == Some(name)) {
                nodes.retain(|node| node.metadata.name.as_deref() == Some(name));
                return nodes;
            }
        }
        nodes
    }
}

/// The id of the instance that is written on a claim; the whole provider ID where it names none.
#[must_use]
pub fn instance_of(claim: &NodeClaim) -> Option<&str> {
    let provider_id = claim.status.as_ref().map_or("", |status| status.provider_id.as_str());
    (!provider_id.is_empty()).then(|| instance_id(provider_id).unwrap_or(provider_id))
}

fn name_of(claim: &NodeClaim) -> &str {
    claim.metadata.name.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use serde_json::json;

    use super::*;
    use crate::ownership::token::launch_token;

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

    #[test]
    fn of_two_claims_with_one_instance_the_non_owner_is_refused() {
        let (own, thief) = (claim("own", "aws:///us-east-1a/i-1"), claim("thief", "aws:///us-east-1b/i-1"));
        let mut instances = Instances::default();
        assert_eq!(instances.verdict(&own), OwnershipVerdict::Unknown);
        [&own, &thief].into_iter().for_each(|claim| instances.note(claim));
        assert_eq!(instances.naming("i-1"), ["own", "thief"]);
        let marks = OwnershipMarks::launched_with(&launch_token(["uid-own"], 1), "");
        assert!(instances.learn("i-1", Some(Arc::new(marks))));
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
        let names =
            |nodes: Vec<Arc<Node>>| nodes.iter().filter_map(|node| node.metadata.name.clone()).collect::<Vec<_>>();
        let all = || vec![node("copied"), node("registered"), node("ip-10-0-0-1.ec2.internal")];
        assert_eq!(names(instances.own_nodes(&claim, all())), ["registered"]);
        let marks = OwnershipMarks::launched_with(&launch_token(["uid-own"], 1), "ip-10-0-0-1.ec2.internal");
        instances.learn("i-1", Some(Arc::new(marks)));
        assert_eq!(names(instances.own_nodes(&claim, all())), ["ip-10-0-0-1.ec2.internal"]);
        assert_eq!(names(instances.own_nodes(&claim, vec![node("by-its-own-name")])), ["by-its-own-name"]);
    }
}
