//! Subnets and security groups of a node class, and which subnet of a zone has room (karpenter-aws 1.2, 4.2).

use std::collections::BTreeMap;
use std::sync::PoisonError;

use aws_sdk_ec2::types::Filter;
use dovetail_api::v1::{EC2NodeClassSpec, SecurityGroup, Subnet};

use crate::ec2::Ec2Cloud;
use crate::ec2::classify::{Effect, classify};
use crate::ec2::describe::filter;
use crate::error::CloudError;
use crate::launch::{LaunchError, LaunchedFleet};

/// Free addresses by subnet as EC2 last said, less those that launches under way will take.
#[derive(Debug, Default)]
pub(in crate::ec2) struct FreeAddresses {
    free: BTreeMap<String, i64>,
}

impl FreeAddresses {
    /// EC2's figures replace ours, launches under way included.
    fn set(&mut self, subnet: &str, free: i64) {
        self.free.insert(subnet.to_owned(), free);
    }

    /// The subnet with the most free addresses; the first by id among equals. `None` for no subnets.
    pub fn roomiest<'a>(&self, subnets: impl Iterator<Item = &'a str>) -> Option<&'a str> {
        subnets.max_by(|a, b| {
            let free = |s: &str| self.free.get(s).copied().unwrap_or(0);
            free(a).cmp(&free(b)).then_with(|| b.cmp(a))
        })
    }

    /// A launch is about to take so many.
    pub fn reserve(&mut self, subnet: &str, count: i64) {
        *self.free.entry(subnet.to_owned()).or_default() -= count;
    }

    /// It did not use this subnet after all.
    pub fn give_back(&mut self, subnet: &str, count: i64) {
        self.reserve(subnet, -count);
    }

    /// EC2 said that there are none left.
    pub fn exhaust(&mut self, subnet: &str) {
        self.set(subnet, 0);
    }

    fn knows(&self, subnet: &str) -> bool {
        self.free.contains_key(subnet)
    }
}

/// Addresses that a launch is about to take. Those that it did not take, or is not known to have taken, are given back,
/// also when nobody waits for it any more.
pub(in crate::ec2) struct TakenAddresses<'a> {
    cloud: &'a Ec2Cloud,
    counts: Vec<(String, i64)>,
}

impl<'a> TakenAddresses<'a> {
    pub fn reserve(cloud: &'a Ec2Cloud, counts: Vec<(String, i64)>) -> Self {
        cloud.with_addresses(|all| counts.iter().for_each(|(subnet, count)| all.reserve(subnet, *count)));
        Self { cloud, counts }
    }

    /// The launch has ended like this.
    pub fn settle(mut self, result: Result<LaunchedFleet, LaunchError>) -> Result<LaunchedFleet, LaunchError> {
        let refusals = result.as_ref().map_or_else(|error| &error.refusals, |fleet| &fleet.refusals);
        let used = |subnet: &str| result.iter().flat_map(|fleet| &fleet.instances).any(|one| one.subnet_id == subnet);
        self.counts.retain(|(subnet, _)| !used(subnet));
        let cloud = self.cloud;
        drop(self);
        cloud.with_addresses(|all| refusals.iter().filter(|r| r.fills_subnet()).for_each(|r| all.exhaust(&r.subnet)));
        result
    }
}

impl Drop for TakenAddresses<'_> {
    fn drop(&mut self) {
        self.cloud.with_addresses(|all| self.counts.iter().for_each(|(subnet, count)| all.give_back(subnet, *count)));
    }
}

/// A tag of a selector: `*` is any value.
pub(in crate::ec2) fn tag_filters(tags: &BTreeMap<String, String>) -> Vec<Filter> {
    let one = |(key, value): (&String, &String)| match value.as_str() {
        "*" => filter("tag-key", [key.as_str()]),
        _ => filter(format!("tag:{key}"), [value.as_str()]),
    };
    tags.iter().map(one).collect()
}

impl Ec2Cloud {
    /// Runs `with` on the free addresses; nothing waits while the lock is held.
    pub(in crate::ec2) fn with_addresses<T>(&self, with: impl FnOnce(&mut FreeAddresses) -> T) -> T {
        with(&mut self.memory.addresses.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The class's subnets, those with the most free addresses first.
    pub(in crate::ec2) async fn subnets_of(&self, spec: &EC2NodeClassSpec) -> Result<Vec<Subnet>, CloudError> {
        let terms = &spec.subnet_selector_terms;
        let ids: Vec<&str> = terms.iter().filter_map(|t| t.id.as_deref()).collect();
        let mut filters: Vec<Vec<Filter>> =
            terms.iter().filter(|t| t.id.is_none()).map(|t| tag_filters(&t.tags)).collect();
        if !ids.is_empty() {
            filters.push(vec![filter("subnet-id", ids)]);
        }
        let mut found: BTreeMap<String, (i64, Subnet)> = BTreeMap::new();
        for filters in filters {
            found.extend(self.describe_subnets(filters).await?.into_iter().map(|(n, s)| (s.id.clone(), (n, s))));
        }
        let mut subnets: Vec<(i64, Subnet)> = found.into_values().collect();
        subnets.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| x.id.cmp(&y.id)));
        Ok(subnets.into_iter().map(|(_, subnet)| subnet).collect())
    }

    /// True if a subnet has a tag of that key.
    pub(in crate::ec2) async fn has_tagged_subnet(&self, key: &str) -> Result<bool, CloudError> {
        Ok(!self.describe_subnets(vec![filter("tag-key", [key])]).await?.is_empty())
    }

    /// The free addresses of subnets, by id; a subnet that is not there is not among them.
    ///
    /// # Errors
    /// EC2 does not answer, or does not let us.
    pub async fn free_addresses(&self, subnets: &[String]) -> Result<BTreeMap<String, i64>, CloudError> {
        let found = self.describe_subnets(vec![filter("subnet-id", subnets.iter().cloned())]).await?;
        Ok(found.into_iter().map(|(free, subnet)| (subnet.id, free)).collect())
    }

    /// Learns the free addresses of subnets that nothing is known of.
    pub(in crate::ec2) async fn learn_addresses(&self, subnets: &[Subnet]) -> Result<(), CloudError> {
        let unknown = |all: &mut FreeAddresses| {
            subnets.iter().map(|s| s.id.clone()).filter(|id| !all.knows(id)).collect::<Vec<_>>()
        };
        let unknown = self.with_addresses(unknown);
        if !unknown.is_empty() {
            self.describe_subnets(vec![filter("subnet-id", unknown)]).await?;
        }
        Ok(())
    }

    async fn describe_subnets(&self, filters: Vec<Filter>) -> Result<Vec<(i64, Subnet)>, CloudError> {
        let mut items = self.clients.ec2.describe_subnets().set_filters(Some(filters)).into_paginator().items().send();
        let mut subnets = Vec::new();
        while let Some(item) = items.next().await {
            let item = item.map_err(|e| classify("DescribeSubnets", Effect::Repeatable, e))?;
            let free = i64::from(item.available_ip_address_count().unwrap_or(0));
            let subnet = Subnet {
                id: item.subnet_id.unwrap_or_default(),
                zone: item.availability_zone.unwrap_or_default(),
                zone_id: item.availability_zone_id.unwrap_or_default(),
            };
            subnets.push((free, subnet));
        }
        self.with_addresses(|all| subnets.iter().for_each(|(free, subnet)| all.set(&subnet.id, *free)));
        Ok(subnets)
    }

    /// The class's security groups, by id.
    pub(in crate::ec2) async fn security_groups_of(
        &self,
        spec: &EC2NodeClassSpec,
    ) -> Result<Vec<SecurityGroup>, CloudError> {
        let terms = &spec.security_group_selector_terms;
        let ids: Vec<&str> = terms.iter().filter_map(|t| t.id.as_deref()).collect();
        let names: Vec<&str> = terms.iter().filter_map(|t| t.name.as_deref()).collect();
        let tagged = terms.iter().filter(|t| t.id.is_none() && t.name.is_none());
        let mut filters: Vec<Vec<Filter>> = tagged.map(|t| tag_filters(&t.tags)).collect();
        if !ids.is_empty() {
            filters.push(vec![filter("group-id", ids)]);
        }
        if !names.is_empty() {
            filters.push(vec![filter("group-name", names)]);
        }
        let mut found: BTreeMap<String, SecurityGroup> = BTreeMap::new();
        for filters in filters {
            let call = self.clients.ec2.describe_security_groups().set_filters(Some(filters));
            let mut items = call.into_paginator().items().send();
            while let Some(item) = items.next().await {
                let item = item.map_err(|e| classify("DescribeSecurityGroups", Effect::Repeatable, e))?;
                let id = item.group_id.unwrap_or_default();
                found.insert(id.clone(), SecurityGroup { id, name: item.group_name.unwrap_or_default() });
            }
        }
        Ok(found.into_values().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnet_with_most_free_addresses_wins_counting_launches() {
        let mut all = FreeAddresses::default();
        all.set("subnet-a", 100);
        all.set("subnet-b", 90);
        let roomiest = |all: &FreeAddresses| all.roomiest(["subnet-a", "subnet-b"].into_iter()).map(str::to_owned);
        assert_eq!(roomiest(&all).as_deref(), Some("subnet-a"));
        all.reserve("subnet-a", 29);
        assert_eq!(roomiest(&all).as_deref(), Some("subnet-b"));
        all.give_back("subnet-a", 29);
        assert_eq!(roomiest(&all).as_deref(), Some("subnet-a"));
        all.exhaust("subnet-a");
        assert_eq!(roomiest(&all).as_deref(), Some("subnet-b"));
    }
}
