//! The cluster's network: a VPC, a private subnet a zone, and its security groups.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use dovetail_cloud::catalogue::Zone;

use super::actions::filters::{Filterable, Tags, maybe, one};
use super::config::{ACCOUNT, RegionConfig};
use super::ids;

/// A subnet holds /19, 8,187 addresses: AWS keeps the first four and the last.
const PREFIX: u8 = 19;
const KEPT_BY_AWS: u32 = 5;

/// A subnet and which of its addresses are taken.
#[derive(Clone, Debug)]
pub(crate) struct VpcSubnet {
    pub id: String,
    pub vpc_id: String,
    pub zone: String,
    pub zone_id: String,
    pub base: Ipv4Addr,
    taken: BTreeSet<Ipv4Addr>,
    /// Start of the search for the next address: a freed address is not given away again at once.
    next: u32,
}

impl VpcSubnet {
    pub fn cidr(&self) -> String {
        format!("{}/{PREFIX}", self.base)
    }

    fn size(&self) -> u32 {
        1 << (32 - PREFIX)
    }

    /// Addresses that nobody has.
    pub fn free(&self) -> u32 {
        self.size() - KEPT_BY_AWS - u32::try_from(self.taken.len()).unwrap_or(u32::MAX)
    }

    /// Addresses that somebody has.
    pub fn used(&self) -> u32 {
        u32::try_from(self.taken.len()).unwrap_or(u32::MAX)
    }

    /// Takes an address, if one is free.
    pub fn take_address(&mut self) -> Option<Ipv4Addr> {
        if self.free() == 0 {
            return None;
        }
        let usable = self.size() - KEPT_BY_AWS;
        let base = u32::from(self.base);
        let ip = (0..usable).map(|step| Ipv4Addr::from(base + 4 + (self.next + step) % usable));
        let ip = ip.into_iter().find(|ip| !self.taken.contains(ip))?;
        self.next = (u32::from(ip) - base - 4 + 1) % usable;
        self.taken.insert(ip);
        Some(ip)
    }

    /// Somebody has that address, if it is one of the subnet's.
    pub fn reserve(&mut self, ip: Ipv4Addr) {
        let within = u32::from(ip).checked_sub(u32::from(self.base)).is_some_and(|step| step < self.size());
        if within && self.free() > 0 {
            self.taken.insert(ip);
        }
    }

    pub fn give_back(&mut self, ip: Ipv4Addr) {
        self.taken.remove(&ip);
    }
}

impl Filterable for VpcSubnet {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "subnet-id" => one(&self.id),
            "vpc-id" => one(&self.vpc_id),
            "state" => one("available"),
            "availability-zone" | "availabilityZone" => one(&self.zone),
            "availability-zone-id" | "availabilityZoneId" => one(&self.zone_id),
            "cidr-block" | "cidr" | "cidrBlock" => one(self.cidr()),
            "available-ip-address-count" => one(self.free()),
            "default-for-az" | "defaultForAz" => one(false),
            "map-public-ip-on-launch" => one(false),
            "owner-id" => one(ACCOUNT),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct VpcSecurityGroup {
    pub id: String,
    pub name: String,
    pub description: String,
    pub vpc_id: String,
}

impl Filterable for VpcSecurityGroup {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "group-id" => one(&self.id),
            "group-name" => one(&self.name),
            "description" => one(&self.description),
            "vpc-id" => one(&self.vpc_id),
            "owner-id" => one(ACCOUNT),
            _ => None,
        }
    }
}

/// The one network of the region, in which all subnets lie.
#[derive(Clone, Debug)]
pub(crate) struct Vpc {
    pub id: String,
    pub cidr: String,
}

impl Filterable for Vpc {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "vpc-id" => one(&self.id),
            "state" => one("available"),
            "cidr" | "cidr-block" => one(&self.cidr),
            "is-default" | "isDefault" => one(false),
            "owner-id" => one(ACCOUNT),
            "dhcp-options-id" => maybe(None::<String>),
            _ => None,
        }
    }
}

/// Subnets and security groups of the account.
#[derive(Clone, Debug)]
pub(crate) struct VpcNetwork {
    pub vpc: Vpc,
    /// By id.
    pub subnets: BTreeMap<String, VpcSubnet>,
    /// By id.
    pub groups: BTreeMap<String, VpcSecurityGroup>,
}

impl VpcNetwork {
    /// The network of a cluster as eksctl and Karpenter's guides lay it out, with its tags.
    pub fn new(config: &RegionConfig, zones: &[Zone], tags: &mut BTreeMap<String, Tags>) -> Self {
        let scope = format!("{}/{}", config.region, config.cluster_name);
        let vpc = Vpc { id: ids::named("vpc", &scope), cidr: "10.0.0.0/16".to_owned() };
        tags.insert(vpc.id.clone(), own_tags(config, &format!("{}/VPC", config.cluster_name)));
        let mut network = Self { vpc, subnets: BTreeMap::new(), groups: BTreeMap::new() };
        for (index, zone) in (0..8).zip(zones) {
            let subnet = network.subnet(&scope, zone, index);
            let name = format!("{}/SubnetPrivate{}", config.cluster_name, zone.name);
            let mut own = own_tags(config, &name);
            own.insert("kubernetes.io/role/internal-elb".into(), "1".into());
            tags.insert(subnet.id.clone(), own);
            network.subnets.insert(subnet.id.clone(), subnet);
        }
        for (suffix, description) in
            [("cluster", "EKS created security group applied to ENIs"), ("nodes", "communication between all nodes")]
        {
            let group = network.group(config, &scope, suffix, description);
            tags.insert(group.id.clone(), own_tags(config, &group.name));
            network.groups.insert(group.id.clone(), group);
        }
        network
    }

    fn subnet(&self, scope: &str, zone: &Zone, index: u8) -> VpcSubnet {
        VpcSubnet {
            id: ids::named("subnet", &format!("{scope}/{}", zone.name)),
            vpc_id: self.vpc.id.clone(),
            zone: zone.name.clone(),
            zone_id: zone.id.clone(),
            base: Ipv4Addr::new(10, 0, index * 32, 0),
            taken: BTreeSet::new(),
            // eksctl's first node is rarely at .4; a start that looks lived in also tells zones' nodes apart.
            next: 6,
        }
    }

    fn group(&self, config: &RegionConfig, scope: &str, suffix: &str, description: &str) -> VpcSecurityGroup {
        VpcSecurityGroup {
            id: ids::named("sg", &format!("{scope}/{suffix}")),
            name: format!("eks-{}-sg-{suffix}", config.cluster_name),
            description: description.to_owned(),
            vpc_id: self.vpc.id.clone(),
        }
    }

    pub fn subnet_in(&self, zone: &str) -> Option<&VpcSubnet> {
        self.subnets.values().find(|subnet| subnet.zone == zone)
    }
}

fn own_tags(config: &RegionConfig, name: &str) -> Tags {
    Tags::from([
        ("Name".to_owned(), name.to_owned()),
        ("karpenter.sh/discovery".to_owned(), config.cluster_name.clone()),
        (format!("kubernetes.io/cluster/{}", config.cluster_name), "owned".to_owned()),
    ])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn network() -> (VpcNetwork, BTreeMap<String, Tags>) {
        let zones = ["a", "b"].map(|z| Zone { name: format!("us-east-1{z}"), id: format!("use1-{z}") });
        let mut tags = BTreeMap::new();
        (VpcNetwork::new(&RegionConfig::new("us-east-1", "demo"), &zones, &mut tags), tags)
    }

    #[test]
    fn each_zone_has_a_subnet_that_discovery_finds() {
        let (network, tags) = network();
        let subnet = network.subnet_in("us-east-1b").unwrap();
        assert_eq!(subnet.cidr(), "10.0.32.0/19");
        assert_eq!(tags[&subnet.id]["karpenter.sh/discovery"], "demo");
        assert_eq!(tags[&subnet.id]["kubernetes.io/cluster/demo"], "owned");
        assert_eq!(network.groups.len(), 2);
    }

    #[test]
    fn addresses_are_counted_down_and_up_and_never_given_twice() {
        let (mut network, _) = network();
        let subnet = network.subnets.values_mut().next().unwrap();
        let free = subnet.free();
        assert_eq!(free, 8187);
        let taken: BTreeSet<Ipv4Addr> = (0..free).map(|_| subnet.take_address().unwrap()).collect();
        assert_eq!((taken.len(), subnet.free(), subnet.take_address()), (8187, 0, None));
        subnet.give_back(*taken.first().unwrap());
        assert_eq!((subnet.free(), subnet.take_address().as_ref()), (1, taken.first()));
    }
}
