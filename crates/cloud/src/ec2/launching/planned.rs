//! A CreateFleet as it is sent, and what its answer says. It is kept while nobody knows what came of it: a call under the
//! same token has to say the same, or EC2 will not have it (IdempotentParameterMismatch).

use std::collections::BTreeMap;

use aws_sdk_ec2::operation::create_fleet::CreateFleetOutput;
use aws_sdk_ec2::operation::create_fleet::builders::CreateFleetInputBuilder;
use aws_sdk_ec2::types as sdk;
use dovetail_api::names::labels::{RESERVED, SPOT};

use crate::ec2::launching::template_data::tag_specification;
use crate::launch::placement::Placing;
use crate::launch::plan::Override;
use crate::launch::reserved::ReservationKind;
use crate::launch::{LaunchError, LaunchedFleet, LaunchedInstance, OfferingRefusal};

/// One launch template and what is asked for under it.
pub(in crate::ec2) struct Config {
    pub template: String,
    pub image: String,
    pub reservation: Option<String>,
    pub overrides: Vec<Override>,
}

/// A CreateFleet call with everything that was planned for it.
pub(in crate::ec2) struct PlannedCall {
    pub call: CreateFleetInputBuilder,
    /// Number of instances that it asks for.
    pub count: u32,
    pub capacity_type: &'static str,
    pub configs: Vec<Config>,
    /// Addresses that it may take, by subnet.
    pub addresses: Vec<(String, i64)>,
    /// Placement group, partition and tenancy.
    pub placing: Placing,
}

/// The call for so many instances under a client token, with these tags.
pub(in crate::ec2) fn call(
    (token, count): (&str, u32),
    capacity_type: &str,
    reservation: ReservationKind,
    configs: &[Config],
    tags: &BTreeMap<String, String>,
    context: Option<String>,
) -> CreateFleetInputBuilder {
    let kind = match (capacity_type, reservation) {
        (SPOT, _) => sdk::DefaultTargetCapacityType::Spot,
        (RESERVED, ReservationKind::CapacityBlock) => sdk::DefaultTargetCapacityType::CapacityBlock,
        (RESERVED, ReservationKind::Interruptible) => sdk::DefaultTargetCapacityType::ReservedCapacity,
        _ => sdk::DefaultTargetCapacityType::OnDemand,
    };
    let target = sdk::TargetCapacitySpecificationRequest::builder()
        .total_target_capacity(i32::try_from(count).unwrap_or(i32::MAX))
        .default_target_capacity_type(kind.clone());
    let specification = |kind| tag_specification(kind, tags);
    let call = CreateFleetInputBuilder::default()
        .client_token(token)
        .r#type(sdk::FleetType::Instant)
        .target_capacity_specification(target.build())
        .set_launch_template_configs(Some(configs.iter().map(fleet_config).collect()))
        .tag_specifications(specification(sdk::ResourceType::Instance))
        .tag_specifications(specification(sdk::ResourceType::Volume))
        .tag_specifications(specification(sdk::ResourceType::Fleet))
        .set_context(context);
    // EC2 knows no overlay: where one ranks offerings, it goes by their priorities, and not by its own prices.
    let ranked = configs.iter().flat_map(|one| &one.overrides).any(|one| one.overlaid);
    let (of_spot, of_demand) = match ranked {
        true => (
            sdk::SpotAllocationStrategy::CapacityOptimizedPrioritized,
            sdk::FleetOnDemandAllocationStrategy::Prioritized,
        ),
        false => {
            (sdk::SpotAllocationStrategy::PriceCapacityOptimized, sdk::FleetOnDemandAllocationStrategy::LowestPrice)
        }
    };
    match kind {
        sdk::DefaultTargetCapacityType::Spot => {
            call.spot_options(sdk::SpotOptionsRequest::builder().allocation_strategy(of_spot).build())
        }
        // There is one offering, and nothing to allocate by.
        sdk::DefaultTargetCapacityType::CapacityBlock => call,
        sdk::DefaultTargetCapacityType::ReservedCapacity => call.reserved_capacity_options(
            sdk::ReservedCapacityOptionsRequest::builder()
                .reservation_types(sdk::FleetReservationType::InterruptibleCapacityReservation)
                .build(),
        ),
        _ => call.on_demand_options(sdk::OnDemandOptionsRequest::builder().allocation_strategy(of_demand).build()),
    }
}

fn fleet_config(config: &Config) -> sdk::FleetLaunchTemplateConfigRequest {
    let template = sdk::FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_name(&config.template)
        .version("$Latest")
        .build();
    let one = |o: &Override| {
        sdk::FleetLaunchTemplateOverridesRequest::builder()
            .instance_type(o.instance_type.as_str().into())
            .subnet_id(&o.subnet)
            .image_id(&config.image)
            .availability_zone(&o.zone)
            .priority(o.rank)
            .build()
    };
    sdk::FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(template)
        .set_overrides(Some(config.overrides.iter().map(one).collect()))
        .build()
}

impl PlannedCall {
    /// The instance types that it asks for.
    pub(in crate::ec2) fn instance_types(&self) -> impl Iterator<Item = &str> {
        self.configs.iter().flat_map(|config| &config.overrides).map(|one| one.instance_type.as_str())
    }

    /// The instances, and everything that EC2 refused.
    pub(in crate::ec2) fn outcome(&self, answer: &CreateFleetOutput) -> Result<LaunchedFleet, LaunchError> {
        let refusals: Vec<OfferingRefusal> = answer.errors().iter().map(|e| refusal(e, self.capacity_type)).collect();
        let listed = answer.instances().iter().flat_map(|one| one.instance_ids().iter().map(move |id| (one, id)));
        let mut instances: Vec<LaunchedInstance> =
            listed.map(|(one, id)| LaunchedInstance { id: id.clone(), ..self.launched(one, answer) }).collect();
        // EC2 lists an offering's instances together; whose turn is next is decided by their ids.
        instances.sort_by(|a, b| a.id.cmp(&b.id));
        let few = instances.len() < usize::try_from(self.count).unwrap_or(usize::MAX);
        let missing = few.then(|| match refusals.is_empty() {
            true => LaunchError::unsaid(),
            false => LaunchError::from_refusals(refusals.iter().flat_map(|one| self.with_names(one.clone())).collect()),
        });
        match missing {
            Some(error) if instances.is_empty() => Err(error),
            missing => Ok(LaunchedFleet { instances, refusals, missing }),
        }
    }

    fn launched(&self, instance: &sdk::CreateFleetInstance, answer: &CreateFleetOutput) -> LaunchedInstance {
        let chosen = instance.launch_template_and_overrides().and_then(|l| l.overrides());
        let name = instance.instance_type().or_else(|| chosen.and_then(|c| c.instance_type()));
        let name = name.map(|t| t.as_str().to_owned()).unwrap_or_default();
        let zone = chosen.and_then(|c| c.availability_zone()).or_else(|| instance.availability_zone());
        let subnet = chosen.and_then(|c| c.subnet_id()).or_else(|| instance.subnet_id()).unwrap_or_default();
        let asked = self.configs.iter().flat_map(|c| c.overrides.iter().map(move |o| (c, o)));
        let asked = asked
            .clone()
            .find(|(_, o)| o.instance_type == name && o.subnet == subnet)
            .or_else(|| asked.clone().find(|(_, o)| o.instance_type == name && zone.is_none_or(|z| o.zone == z)));
        LaunchedInstance {
            id: String::new(),
            instance_type: name,
            zone: zone.or(asked.map(|(_, o)| o.zone.as_str())).unwrap_or_default().to_owned(),
            capacity_type: self.capacity_type.to_owned(),
            reservation_id: asked.and_then(|(c, _)| c.reservation.clone()),
            placing: self.placing.clone(),
            price: asked.map_or(0.0, |(_, o)| o.price),
            image_id: asked.map_or_else(String::new, |(c, _)| c.image.clone()),
            subnet_id: asked.map_or(subnet, |(_, o)| o.subnet.as_str()).to_owned(),
            fleet_id: answer.fleet_id().unwrap_or_default().to_owned(),
            refusals: Vec::new(),
        }
    }

    /// EC2 may refuse without naming an offering: then it is all that was asked for, or the same would be asked for at once.
    fn with_names(&self, refusal: OfferingRefusal) -> Vec<OfferingRefusal> {
        if !refusal.instance_type.is_empty() || !refusal.is_capacity() || refusal.is_account_wide() {
            return vec![refusal];
        }
        let asked = self.configs.iter().flat_map(|config| &config.overrides);
        let named = asked.map(|one| OfferingRefusal {
            instance_type: one.instance_type.clone(),
            zone: one.zone.clone(),
            subnet: one.subnet.clone(),
            ..refusal.clone()
        });
        named.collect()
    }
}

fn refusal(error: &sdk::CreateFleetError, capacity_type: &str) -> OfferingRefusal {
    let chosen = error.launch_template_and_overrides().and_then(|l| l.overrides());
    OfferingRefusal {
        instance_type: chosen.and_then(|c| c.instance_type()).map(|t| t.as_str().to_owned()).unwrap_or_default(),
        zone: chosen.and_then(|c| c.availability_zone()).unwrap_or_default().to_owned(),
        // EC2 calls reserved capacity on-demand.
        capacity_type: match capacity_type {
            RESERVED => RESERVED.to_owned(),
            other => error.lifecycle().map_or(other, |l| l.as_str()).to_owned(),
        },
        subnet: chosen.and_then(|c| c.subnet_id()).unwrap_or_default().to_owned(),
        code: error.error_code().unwrap_or_default().to_owned(),
        message: error.error_message().unwrap_or_default().to_owned(),
    }
}
