//! Launching one instance: what it is asked to be, whether EC2 can do it, and doing it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::actions::filters::Tags;
use super::instance::{CapacityType, InstanceState, RegionInstance};
use super::placement::GroupPlace;
use super::wire::error::AwsError;
use super::wire::form::FormNode;
use super::{Cx, Region, RegionError, actions::tags, ids};

/// An instance that is to be there without a launch: `nodes` of a scenario.
#[derive(Clone, Debug)]
pub struct Placement {
    /// `m5.large`.
    pub instance_type: String,
    /// `us-east-1a`; has to be a zone with a subnet.
    pub zone: String,
    /// Capacity type by which it is paid for.
    pub capacity_type: CapacityType,
    /// Tags of the instance and its volumes.
    pub tags: BTreeMap<String, String>,
    /// Its user data, not encoded.
    pub user_data: String,
}

/// Parameters of a launch.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub instance_type: String,
    pub subnet_id: Option<String>,
    pub zone: Option<String>,
    pub image_id: Option<String>,
    pub security_groups: Vec<String>,
    pub profile: Option<String>,
    pub user_data: String,
    pub tags: Tags,
    pub capacity: CapacityType,
    pub tenancy: String,
    pub devices: Vec<String>,
    pub metadata: BTreeMap<String, String>,
    pub detailed_monitoring: bool,
    /// The capacity reservation that it is aimed at.
    pub capacity_reservation: Option<String>,
    /// The market type of instances that are neither spot nor merely on demand.
    pub market: Option<String>,
    /// The placement group that it is aimed at, by id or name.
    pub placement_group: Option<String>,
    /// The partition of it that it is aimed at.
    pub partition: Option<u32>,
}

impl Spec {
    /// Reads a launch from a template's data and what the request or an override puts over it.
    pub fn from_forms(base: &FormNode, over: &FormNode, capacity: CapacityType) -> Result<Self, AwsError> {
        let pick = |name: &str| if over.get(name).is_absent() { base.get(name) } else { over.get(name) };
        let text = |name: &str| pick(name).value().filter(|t| !t.is_empty()).map(str::to_owned);
        let interface = pick("NetworkInterface").children().next().map(|(_, first)| first);
        let own_groups = [over.strings("SecurityGroupId"), base.strings("SecurityGroupId")].concat();
        let groups = interface.map(|i| i.strings("SecurityGroupId")).unwrap_or_default();
        let profile = pick("IamInstanceProfile");
        let of_arn = |arn: &str| arn.rsplit('/').next().unwrap_or(arn).to_owned();
        let placement = pick("Placement");
        let group = placement.text("GroupId").or_else(|| placement.text("GroupName"));
        let mut tags = tags::specified(base, "instance");
        tags.extend(tags::specified(over, "instance"));
        Ok(Self {
            instance_type: text("InstanceType").ok_or_else(|| AwsError::missing("InstanceType"))?,
            subnet_id: over
                .text("SubnetId")
                .or_else(|| interface.and_then(|i| i.text("SubnetId")))
                .or_else(|| base.text("SubnetId"))
                .map(str::to_owned),
            zone: text("AvailabilityZone").or_else(|| pick("Placement").text("AvailabilityZone").map(str::to_owned)),
            image_id: text("ImageId"),
            security_groups: if groups.is_empty() { own_groups } else { groups },
            profile: profile.text("Name").map(str::to_owned).or_else(|| profile.text("Arn").map(of_arn)),
            user_data: decode_user_data(text("UserData").as_deref()),
            tags,
            capacity,
            tenancy: pick("Placement").text("Tenancy").unwrap_or("default").to_owned(),
            devices: pick("BlockDeviceMapping")
                .children()
                .filter_map(|(_, device)| device.text("DeviceName").map(str::to_owned))
                .collect(),
            metadata: [
                "HttpTokens",
                "HttpPutResponseHopLimit",
                "HttpEndpoint",
                "HttpProtocolIpv6",
                "InstanceMetadataTags",
            ]
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), pick("MetadataOptions").text(name)?.to_owned())))
            .collect(),
            detailed_monitoring: pick("Monitoring").flag("Enabled"),
            capacity_reservation: pick("CapacityReservationSpecification")
                .get("CapacityReservationTarget")
                .text("CapacityReservationId")
                .map(str::to_owned),
            market: pick("InstanceMarketOptions")
                .text("MarketType")
                .filter(|kind| !matches!(*kind, "spot" | "on-demand"))
                .map(str::to_owned),
            placement_group: group.map(str::to_owned),
            partition: pick("Placement").number("PartitionNumber")?.and_then(|number| u32::try_from(number).ok()),
        })
    }
}

fn decode_user_data(encoded: Option<&str>) -> String {
    let bytes = encoded.and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A launch that EC2 can do.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    pub subnet_id: String,
    zone: String,
    zone_id: String,
    architecture: String,
    image_id: String,
    price: f64,
    security_groups: Vec<String>,
    place: GroupPlace,
}

impl Cx<'_> {
    /// Checks that EC2 can launch this now, in the order in which EC2 finds fault: with the request, then with capacity, then
    /// with addresses.
    pub fn check(&mut self, spec: &Spec) -> Result<Ready, AwsError> {
        let name = &spec.instance_type;
        let catalogue = self.catalogue;
        let info = catalogue.instance_type(name).ok_or_else(|| {
            AwsError::new(
                "InvalidInstanceType",
                format_args!("The following supplied instance types do not exist: [{name}]"),
            )
        })?;
        let image_id = self.image_of(spec)?;
        let image = self.state.images.get(&image_id).ok_or_else(|| {
            AwsError::new("InvalidAMIID.NotFound", format_args!("The image id '[{image_id}]' does not exist"))
        })?;
        if !info.architectures.iter().any(|arch| arch == image.architecture) {
            let (theirs, ours) = (info.architectures.join(", "), image.architecture);
            return Err(AwsError::invalid(format_args!(
                "The architecture '{theirs}' of the specified instance type does not match the architecture '{ours}' of the specified AMI. Specify an instance type and an AMI that have matching architectures, and try again."
            )));
        }
        let subnet = self.subnet_of(spec)?;
        let ready = Ready {
            subnet_id: subnet.id.clone(),
            zone: subnet.zone.clone(),
            zone_id: subnet.zone_id.clone(),
            architecture: image.architecture.to_owned(),
            image_id,
            price: 0.0,
            security_groups: self.groups_of(spec)?,
            place: self.place_in_group(spec, &subnet.zone, &info.placement)?,
        };
        if let Some(profile) = &spec.profile
            && !self.state.iam.can_launch_with(profile)
        {
            return Err(AwsError::invalid(format_args!(
                "Value ({profile}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
            )));
        }
        self.check_account(spec, &ready.zone)?;
        let price = self.capacity(spec, &ready.zone)?;
        if self.state.network.subnets.get(&ready.subnet_id).is_none_or(|subnet| self.free_addresses(subnet) == 0) {
            return Err(Self::no_address_in(&ready.subnet_id));
        }
        Ok(Ready { price, ..ready })
    }

    fn image_of(&mut self, spec: &Spec) -> Result<String, AwsError> {
        let asked = spec.image_id.as_deref().ok_or_else(|| AwsError::missing("ImageId"))?;
        match asked.strip_prefix("resolve:ssm:") {
            None => Ok(asked.to_owned()),
            Some(path) => self
                .state
                .images
                .parameter(path)
                .ok_or_else(|| AwsError::invalid(format_args!("The SSM parameter '{path}' could not be resolved"))),
        }
    }

    fn subnet_of(&self, spec: &Spec) -> Result<&super::network::VpcSubnet, AwsError> {
        let Some(id) = &spec.subnet_id else {
            // Without a subnet EC2 takes the default VPC's, and there is none.
            return Err(AwsError::new("VPCIdNotSpecified", "No default VPC for this user"));
        };
        let missing = || AwsError::new("InvalidSubnetID.NotFound", format_args!("The subnet ID '{id}' does not exist"));
        let subnet = self.state.network.subnets.get(id).ok_or_else(missing)?;
        match &spec.zone {
            Some(zone) if *zone != subnet.zone => Err(AwsError::invalid(format_args!(
                "The availability zone {zone} does not match that of subnet {id} ({})",
                subnet.zone
            ))),
            _ => Ok(subnet),
        }
    }

    fn groups_of(&self, spec: &Spec) -> Result<Vec<String>, AwsError> {
        let groups = &self.state.network.groups;
        match spec.security_groups.iter().find(|id| !groups.contains_key(*id)) {
            Some(id) => {
                Err(AwsError::new("InvalidGroup.NotFound", format_args!("The security group '{id}' does not exist")))
            }
            None if spec.security_groups.is_empty() => Ok(groups.keys().take(1).cloned().collect()),
            None => Ok(spec.security_groups.clone()),
        }
    }

    /// The price if EC2 has the type there at that capacity type.
    fn capacity(&self, spec: &Spec, zone: &str) -> Result<f64, AwsError> {
        let name = &spec.instance_type;
        let offered = self.catalogue.offered.get(name).is_some_and(|zones| zones.contains(zone));
        let price = self.price(name, zone, spec.capacity);
        let Some(price) = price.filter(|_| offered) else {
            return Err(AwsError::new(
                "Unsupported",
                format_args!(
                    "Your requested instance type ({name}) is not supported in your requested Availability Zone ({zone})."
                ),
            ));
        };
        if let Some(id) = &spec.capacity_reservation {
            // Reserved capacity is there whatever others may have.
            return self.check_reservation(id, spec, zone).map(|()| price);
        }
        let market = spec.capacity.name();
        if !self.faults.sold_out(name, zone, market)
            && !self.is_of_the_missing_share(name, zone, market)
            && self.room_in_pool(spec, zone, &[]) > 0
        {
            return Ok(price);
        }
        Err(Self::no_capacity(spec, zone))
    }

    /// Launches `count` instances of one reservation, as far as the subnet has addresses.
    pub fn launch(&mut self, spec: &Spec, ready: &Ready, token: Option<&str>, count: usize) -> Vec<String> {
        let reservation = ids::resource(&mut self.state.ids, "r");
        let mut launched = Vec::new();
        for _ in 0..count {
            let Some(instance) = self.build(spec, ready, token, &reservation) else { break };
            let id = instance.id.clone();
            self.state.instances.insert(id.clone(), instance);
            self.plan_end_of_block(spec.capacity_reservation.as_ref(), &id);
            self.launched(&id);
            launched.push(id);
        }
        launched
    }

    fn build(&mut self, spec: &Spec, ready: &Ready, token: Option<&str>, reservation: &str) -> Option<RegionInstance> {
        let private_ip = self.state.network.subnets.get_mut(&ready.subnet_id)?.take_address()?;
        let ids = &mut self.state.ids;
        let id = ids::resource(ids, "i");
        let root = self.state.images.get(&ready.image_id).and_then(|image| image.devices.first());
        let devices = if spec.devices.is_empty() {
            root.map(|(device, _)| (*device).to_owned()).into_iter().collect()
        } else {
            spec.devices.clone()
        };
        let hostname = format!("ip-{}.{}", private_ip.to_string().replace('.', "-"), self.config.host_domain());
        Some(RegionInstance {
            instance_type: spec.instance_type.clone(),
            zone: ready.zone.clone(),
            zone_id: ready.zone_id.clone(),
            capacity_type: spec.capacity,
            state: InstanceState::Pending,
            state_reason: None,
            launched: self.wall,
            architecture: ready.architecture.clone(),
            image_id: ready.image_id.clone(),
            subnet_id: ready.subnet_id.clone(),
            private_ip,
            hostname,
            security_groups: ready.security_groups.clone(),
            instance_profile: spec.profile.clone(),
            user_data: spec.user_data.clone(),
            client_token: token.map(str::to_owned),
            price: ready.price,
            tags: spec.tags.clone(),
            capacity_reservation: spec.capacity_reservation.clone(),
            place: ready.place.clone(),
            reservation: reservation.to_owned(),
            spot_request: (spec.capacity == CapacityType::Spot).then(|| format!("sir-{}", ids::hex(ids, 8))),
            tenancy: spec.tenancy.clone(),
            volumes: devices.into_iter().map(|device| (device, ids::resource(ids, "vol"))).collect(),
            interface: ids::resource(ids, "eni"),
            metadata: spec.metadata.clone(),
            detailed_monitoring: spec.detailed_monitoring,
            visible_from: self.now + self.faults.consistency_lag(),
            interrupted_at: None,
            beforehand: self.state.placing,
            taken_over: false,
            ended: None,
            id,
        })
    }
}

impl Region {
    /// Puts an instance there that runs at once, as if launched some time before.
    ///
    /// # Errors
    /// When the zone has no subnet, the type is unknown or not offered there, or no address is free. Faults do not
    /// matter: the instance is there already.
    pub fn place(&self, placement: &Placement) -> Result<RegionInstance, RegionError> {
        self.with(|cx| {
            let refuse = |error: AwsError| RegionError::CannotPlace {
                instance_type: placement.instance_type.clone(),
                zone: placement.zone.clone(),
                reason: error.to_string(),
            };
            let (spec, ready) = cx.placed(placement).map_err(refuse)?;
            cx.state.placing = true;
            let ids = cx.launch(&spec, &ready, None, 1);
            cx.state.placing = false;
            let id = ids.first().cloned().unwrap_or_default();
            cx.come_up_now(&id);
            let no_address = || refuse(AwsError::new("InsufficientFreeAddressesInSubnet", "no address is free"));
            cx.state.instances.get(&id).cloned().ok_or_else(no_address)
        })
    }
}

impl Cx<'_> {
    /// Parameters of an instance that is placed, or launched without a template.
    pub fn placed(&mut self, placement: &Placement) -> Result<(Spec, Ready), AwsError> {
        let name = &placement.instance_type;
        let unknown = || AwsError::new("InvalidInstanceType", format_args!("there is no instance type {name}"));
        let catalogue = self.catalogue;
        let arm = catalogue.instance_type(name).ok_or_else(unknown)?.kube_arch() == Some("arm64");
        let architecture = if arm { "arm64" } else { "x86_64" };
        let version = &self.config.kubernetes_version;
        let path = format!(
            "/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/standard/recommended/image_id"
        );
        let no_subnet = || AwsError::new("InvalidSubnet", "the zone has no subnet");
        let subnet = self.state.network.subnet_in(&placement.zone).ok_or_else(no_subnet)?.clone();
        let no_price = || AwsError::new("Unsupported", "the type is not offered there");
        let price = self.price(name, &subnet.zone, placement.capacity_type).ok_or_else(no_price)?;
        let spec = Spec {
            instance_type: name.clone(),
            subnet_id: Some(subnet.id.clone()),
            zone: None,
            image_id: self.state.images.parameter(&path),
            security_groups: Vec::new(),
            profile: Some(self.config.node_instance_profile()),
            user_data: placement.user_data.clone(),
            tags: placement.tags.clone(),
            capacity: placement.capacity_type,
            tenancy: "default".to_owned(),
            devices: Vec::new(),
            metadata: BTreeMap::new(),
            detailed_monitoring: false,
            capacity_reservation: None,
            market: None,
            placement_group: None,
            partition: None,
        };
        let ready = Ready {
            subnet_id: subnet.id,
            zone: subnet.zone,
            zone_id: subnet.zone_id,
            architecture: architecture.to_owned(),
            image_id: spec.image_id.clone().unwrap_or_default(),
            price,
            security_groups: self.groups_of(&spec)?,
            place: GroupPlace::default(),
        };
        Ok((spec, ready))
    }

    fn come_up_now(&mut self, id: &str) {
        if let Some(instance) = self.state.instances.get_mut(id) {
            instance.visible_from = self.now;
        }
        self.come_up(id);
    }
}
