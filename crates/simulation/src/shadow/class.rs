//! EC2NodeClasses of the copy: the network, images and identity are the copy's own, in the zones that the original resolves to;
//! what decides how large a node is and what runs on it stays.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::names::tags;
use dovetail_api::v1::{AmiSelectorTerm, EC2NodeClass, SecurityGroupSelectorTerm, SubnetSelectorTerm};
use dovetail_cloud::family::AmiFamily;
use dovetail_core::lifecycle::hash::HashKeys;
use dovetail_sandbox::region::Region;
use serde_json::Value;

use super::kinds::text;

/// The copy of a class, or why there is none.
pub enum Copied {
    /// The class with the copy's own resources.
    Class(Value),
    /// Nothing yet: the original has no subnets in its status.
    NotResolved,
    /// None, for this reason.
    Unusable(String),
}

/// A class as the copy has it.
pub fn copied(class: &Value, region: &Region, notes: &mut Vec<String>) -> Copied {
    let name = text(class, &["metadata", "name"]);
    let read: EC2NodeClass = match serde_json::from_value(class.clone()) {
        Ok(read) => read,
        Err(why) => return Copied::Unusable(format!("ec2nodeclass {name} cannot be read: {why}")),
    };
    let zones: BTreeSet<&str> = read.status.iter().flat_map(|status| &status.subnets).map(|one| &*one.zone).collect();
    if zones.is_empty() {
        return Copied::NotResolved;
    }
    let mut spec = read.spec.clone();
    let subnets = zones.iter().filter_map(|zone| {
        let id = region.subnet_of(zone);
        if id.is_none() {
            notes.push(format!("ec2nodeclass {name}: zone {zone} was unknown at the start and is left out"));
        }
        Some(SubnetSelectorTerm { id: Some(id?), ..SubnetSelectorTerm::default() })
    });
    spec.subnet_selector_terms = subnets.collect();
    if spec.subnet_selector_terms.is_empty() {
        return Copied::Unusable(format!("ec2nodeclass {name}: none of its zones is in the copy"));
    }
    let own = BTreeMap::from([(tags::DISCOVERY.to_owned(), region.config().cluster_name.clone())]);
    spec.security_group_selector_terms =
        vec![SecurityGroupSelectorTerm { tags: own, ..SecurityGroupSelectorTerm::default() }];
    let family = family(&read);
    let alias = format!("{}@latest", family.as_str().to_ascii_lowercase());
    spec.ami_selector_terms = vec![AmiSelectorTerm { alias: Some(alias), ..AmiSelectorTerm::default() }];
    spec.ami_family = None;
    spec.user_data = None;
    spec.role = Some(region.config().node_role());
    spec.instance_profile = None;
    if !spec.capacity_reservation_selector_terms.is_empty() {
        notes.push(format!("ec2nodeclass {name}: capacity reservations are left out, the copy has none"));
        spec.capacity_reservation_selector_terms.clear();
    }
    spec.placement_group_selector = None;
    let mut copy = class.clone();
    match serde_json::to_value(&spec) {
        Ok(spec) => copy["spec"] = spec,
        Err(why) => return Copied::Unusable(format!("ec2nodeclass {name}: {why}")),
    }
    Copied::Class(copy)
}

/// The family of a class's images; that of Amazon Linux 2023 for an image of the user's own.
fn family(class: &EC2NodeClass) -> AmiFamily {
    let alias = class.spec.ami_selector_terms.iter().find_map(|term| term.alias.as_deref());
    let named = alias.or(class.spec.ami_family.as_deref()).and_then(AmiFamily::parse);
    named.filter(|family| *family != AmiFamily::Custom).unwrap_or_default()
}

/// Takes the hash of its pool or class off a NodeClaim where it is that of the object as it stands: the copy has hashes of its
/// own. One of an earlier object stays, and the node is drifted in the copy as it is in the cluster.
pub fn take_hash_off(claim: &mut Value, keys: HashKeys, object: Option<&Value>) {
    let own = &claim["metadata"]["annotations"];
    let hash = |own: &Value| {
        let own = serde_json::from_value::<BTreeMap<String, String>>(own.clone()).ok()?;
        keys.found(&own).cloned()
    };
    let current = object.and_then(|object| hash(&object["metadata"]["annotations"]));
    let earlier = current.zip(hash(own)).is_some_and(|(current, own)| current != own);
    if !earlier && let Some(own) = claim["metadata"]["annotations"].as_object_mut() {
        own.remove(keys.hash);
        own.remove(keys.version);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::sync::Arc;

    use dovetail_core::clock::Clock;
    use dovetail_core::lifecycle::hash::{OF_CLASS, OF_POOL};
    use dovetail_sandbox::clock::{DEFAULT_START, VirtualClock};
    use dovetail_sandbox::faults::FaultsInForce;
    use dovetail_sandbox::log::EventLog;
    use dovetail_sandbox::region::RegionConfig;
    use serde_json::json;

    use super::*;

    fn region() -> Region {
        let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(DEFAULT_START));
        let config = RegionConfig::new("ca-west-1", "demo");
        Region::new(config, clock.clone(), EventLog::new(clock), FaultsInForce::new(1))
    }

    fn class(zones: &[&str]) -> Value {
        let subnets: Vec<Value> =
            zones.iter().map(|zone| json!({"id": format!("subnet-{zone}"), "zone": zone})).collect();
        json!({
            "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "own"},
            "spec": {
                "role": "theirs", "userData": "echo", "amiFamily": "Bottlerocket", "kubelet": {"maxPods": 17},
                "amiSelectorTerms": [{"id": "ami-1"}], "subnetSelectorTerms": [{"id": "subnet-1"}],
                "securityGroupSelectorTerms": [{"id": "sg-1"}],
            },
            "status": {"subnets": subnets},
        })
    }

    #[tokio::test(start_paused = true)]
    async fn copied_class_takes_copy_network_in_its_zones_and_keeps_rest() {
        let (region, mut notes) = (region(), Vec::new());
        let Copied::Class(copy) = copied(&class(&["ca-west-1b", "elsewhere"]), &region, &mut notes) else {
            panic!("it is not copied")
        };
        let spec = &copy["spec"];
        let subnet = region.subnet_of("ca-west-1b").unwrap();
        assert_eq!(spec["subnetSelectorTerms"], json!([{"id": subnet}]));
        assert_eq!(spec["amiSelectorTerms"], json!([{"alias": "bottlerocket@latest"}]));
        assert_eq!((&spec["kubelet"]["maxPods"], &spec["role"]), (&json!(17), &json!("KarpenterNodeRole-demo")));
        assert!(spec["userData"].is_null() && notes.len() == 1 && notes[0].contains("elsewhere"), "{notes:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn unresolved_class_is_awaited_and_unreadable_class_is_named() {
        let (region, mut notes) = (region(), Vec::new());
        assert!(matches!(copied(&class(&[]), &region, &mut notes), Copied::NotResolved));
        let mut odd = class(&["ca-west-1b"]);
        odd["spec"]["kubelet"] = json!("odd");
        let Copied::Unusable(why) = copied(&odd, &region, &mut notes) else { panic!("it is copied") };
        assert!(why.starts_with("ec2nodeclass own cannot be read"), "{why}");
    }

    #[test]
    fn claim_loses_hash_of_its_pool_and_class_as_they_stand() {
        for keys in [OF_POOL, OF_CLASS] {
            let object = |hash: &str| json!({"metadata": {"annotations": BTreeMap::from(keys.stamp(hash))}});
            for (of_object, kept) in [(Some(object("7")), false), (None, false), (Some(object("8")), true)] {
                let mut claim = object("7");
                take_hash_off(&mut claim, keys, of_object.as_ref());
                let own = &claim["metadata"]["annotations"];
                assert_eq!((own[keys.hash].is_string(), own[keys.version].is_string()), (kept, kept), "{of_object:?}");
            }
        }
    }
}
