//! Instances of the account that are not this cluster's, as far as Savings Plans and Reserved Instances apply to them.

use aws_sdk_ec2::types as sdk;
use dovetail_api::names::tags;
use dovetail_core::commitments::{Usage, Uses};

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use super::describe::filter;
use crate::error::CloudError;

/// Instances of a page.
const PAGE: i32 = 1000;
/// Most pages that are read: what runs beyond them does not count.
const MOST_PAGES: usize = 100;
/// Tags in which EKS writes the name of a node group's cluster, beside Karpenter's.
const CLUSTER_TAGS: [&str; 2] = [tags::CLUSTER_NAME, "eks:cluster-name"];

impl Ec2Cloud {
    pub(super) async fn describe_others(&self) -> Result<Uses, CloudError> {
        let wanted = vec![filter("instance-state-name", ["pending", "running"]), filter("tenancy", ["default"])];
        let call = self.clients.ec2.describe_instances().max_results(PAGE).set_filters(Some(wanted));
        let mut pages = call.into_paginator().send();
        let mut others = Uses::default();
        for _ in 0..MOST_PAGES {
            let Some(page) = pages.next().await else { break };
            let page = page.map_err(|e| classify("DescribeInstances", Effect::Repeatable, e))?;
            let all = page.reservations().iter().flat_map(sdk::Reservation::instances);
            let (cluster, uid) = (&self.settings.cluster_name, &self.settings.cluster_uid);
            for usage in all.filter(|one| !is_own(one, cluster, uid)).filter_map(usage_of) {
                others.add(usage, 1);
            }
        }
        Ok(others)
    }
}

/// True for a node of this cluster, whoever launched it.
fn is_own(one: &sdk::Instance, cluster: &str, uid: &str) -> bool {
    let tag = |key: &str| one.tags().iter().find(|tag| tag.key() == Some(key)).and_then(sdk::Tag::value);
    let is_foreign = !uid.is_empty() && tag(tags::CLUSTER_UID).is_some_and(|other| other != uid);
    let is_named = CLUSTER_TAGS.iter().any(|key| tag(key) == Some(cluster));
    !is_foreign && (is_named || tag(&tags::owned_by(cluster)).is_some())
}

/// Its use of commitments; `None` for spot instances and others at prices of their own.
fn usage_of(one: &sdk::Instance) -> Option<Usage> {
    if one.instance_lifecycle().is_some() {
        return None;
    }
    let instance_type = one.instance_type()?.as_str().to_owned();
    let zone = one.placement().and_then(sdk::Placement::availability_zone).unwrap_or_default().to_owned();
    // Reserved Instances for Linux cover no Red Hat or SUSE.
    let linux = one.platform_details().map_or(one.platform().is_none(), |system| system.starts_with("Linux/UNIX"));
    Some(Usage { instance_type, zone, price: 0.0, linux })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use aws_sdk_ec2::types::builders::InstanceBuilder;

    use super::*;

    fn instance() -> InstanceBuilder {
        let placement = sdk::Placement::builder().availability_zone("us-east-1a").build();
        sdk::Instance::builder().instance_type(sdk::InstanceType::from("m5.large")).placement(placement)
    }

    fn tag(key: &str, value: &str) -> sdk::Tag {
        sdk::Tag::builder().key(key).value(value).build()
    }

    #[test]
    fn nodes_of_the_cluster_are_no_others() {
        let own = |all: &[(&str, &str)]| {
            let tags = all.iter().map(|(key, value)| tag(key, value)).collect();
            is_own(&instance().set_tags(Some(tags)).build(), "demo", "u-1")
        };
        assert!(!own(&[]) && !own(&[("Name", "demo")]));
        assert!(own(&[("kubernetes.io/cluster/demo", "owned")]) && own(&[("kubernetes.io/cluster/demo", "shared")]));
        assert!(own(&[("eks:cluster-name", "demo")]) && own(&[("eks:eks-cluster-name", "demo")]));
        assert!(!own(&[("eks:cluster-name", "other")]) && !own(&[("kubernetes.io/cluster/other", "owned")]));
        let named = ("kubernetes.io/cluster/demo", "owned");
        assert!(own(&[named, ("dovetail.dev/cluster-uid", "u-1")]));
        assert!(!own(&[named, ("dovetail.dev/cluster-uid", "u-2")]), "another cluster of that name");
    }

    #[test]
    fn only_instances_at_on_demand_prices_take_of_commitments() {
        let usage = usage_of(&instance().build()).unwrap();
        assert_eq!((usage.instance_type.as_str(), usage.zone.as_str(), usage.linux), ("m5.large", "us-east-1a", true));
        let spot = instance().instance_lifecycle(sdk::InstanceLifecycleType::Spot).build();
        assert_eq!(usage_of(&spot), None);
        assert_eq!(usage_of(&sdk::Instance::builder().build()), None);
        for (details, linux) in [("Linux/UNIX", true), ("Red Hat Enterprise Linux", false), ("Windows", false)] {
            assert_eq!(usage_of(&instance().platform_details(details).build()).unwrap().linux, linux, "{details}");
        }
        let windows = instance().platform(sdk::PlatformValues::Windows).build();
        assert!(!usage_of(&windows).unwrap().linux);
    }
}
