//! Instances of another region of which this one is a copy: they are there under their own ids and names.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;

use super::Region;
use super::instance::{CapacityType, InstanceState, RegionInstance};
use super::placement::GroupPlace;

/// An instance as it is elsewhere.
#[derive(Clone, Debug)]
pub struct TakenOver {
    /// `i-…`, or whatever names it in its Node's providerID.
    pub id: String,
    /// Its Node's name.
    pub hostname: String,
    /// Its address; those of the region's own instances are others.
    pub private_ip: Ipv4Addr,
    /// `m5.large`; a type that the region does not have costs nothing.
    pub instance_type: String,
    /// `us-east-1a`.
    pub zone: String,
    /// Capacity type by which it is paid for.
    pub capacity_type: CapacityType,
    /// `x86_64` or `arm64`.
    pub architecture: String,
    pub launched: Timestamp,
    /// The instance's tags, by key.
    pub tags: BTreeMap<String, String>,
}

impl Region {
    /// Takes an instance over: it runs, and has done so for a while. One that was taken over before gets the name and the address,
    /// which are known for sure once its Node is there.
    pub fn take_over(&self, other: TakenOver) {
        self.with(|cx| {
            let price = cx.price(&other.instance_type, &other.zone, other.capacity_type);
            let network = &mut cx.state.network;
            network.subnets.values_mut().for_each(|subnet| subnet.reserve(other.private_ip));
            let subnet = network.subnet_in(&other.zone).map(|subnet| (subnet.id.clone(), subnet.zone_id.clone()));
            let (subnet_id, zone_id) = subnet.unwrap_or_default();

            let instance = RegionInstance {
                instance_type: other.instance_type,
                zone: other.zone,
                zone_id,
                capacity_type: other.capacity_type,
                state: InstanceState::Running,
                state_reason: None,
                launched: other.launched,
                architecture: other.architecture,
                image_id: String::new(),
                subnet_id,
                private_ip: other.private_ip,
                hostname: other.hostname,
                security_groups: network.groups.keys().cloned().collect(),
                instance_profile: None,
                user_data: String::new(),
                client_token: None,
                price: price.unwrap_or_default(),
                beforehand: true,
                taken_over: true,
                ended: None,
                tags: other.tags,
                capacity_reservation: None,
                place: GroupPlace::default(),
                reservation: String::new(),
                spot_request: None,
                tenancy: "default".to_owned(),
                volumes: Vec::new(),
                interface: String::new(),
                metadata: BTreeMap::new(),
                detailed_monitoring: false,
                visible_from: cx.now,
                interrupted_at: None,
                id: other.id.clone(),
            };
            let (hostname, private_ip) = (instance.hostname.clone(), instance.private_ip);
            let known = cx.state.instances.entry(other.id).or_insert(instance);
            if known.taken_over {
                (known.hostname, known.private_ip) = (hostname, private_ip);
            }
        });
    }

    pub fn subnet_of(&self, zone: &str) -> Option<String> {
        self.with(|cx| cx.state.network.subnet_in(zone).map(|subnet| subnet.id.clone()))
    }
}
