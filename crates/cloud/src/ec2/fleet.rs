//! The launch itself: from a request to CreateFleet and back (karpenter-aws 4).

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_ec2::operation::create_fleet::CreateFleetOutput;
use aws_sdk_ec2::types as sdk;
use dovetail_api::names::labels::{CAPACITY_TYPE, RESERVED, SPOT};
use dovetail_api::names::tags;
use dovetail_api::v1::EC2NodeClassStatus;
use futures::future::try_join_all;
use kube::ResourceExt;

use super::Ec2Cloud;
use super::classify::{Effect, classify};
use super::template_data::{TemplateInputs, tag_specification, template_data};
use crate::error::CloudError;
use crate::hash::fnv;
use crate::launch::filters::{Selection, select};
use crate::launch::plan::{Group, Override, fewest_pods_by_zone, groups};
use crate::launch::readiness::ready_status;
use crate::launch::{LaunchError, LaunchErrorKind, LaunchRequest, LaunchedInstance, Refusal};
use crate::resolve::family_of;
use crate::user_data::{self, Inputs};

const CALL: &str = "CreateFleet";
/// How often one CreateFleet is sent at most, always with the same token and parameters.
const ATTEMPTS: u32 = 4;
/// Pause before the first repetition; doubled each time.
const PAUSE: Duration = Duration::from_millis(500);
/// A pod that runs enclaves asks for it.
const ENCLAVE: &str = "eks.amazonaws.com/nitro-sandbox";

/// One launch template and what is asked for under it.
struct Config {
    template: String,
    image: String,
    reservation: Option<String>,
    overrides: Vec<Override>,
}

impl Ec2Cloud {
    pub(super) async fn launch_one(&self, request: &LaunchRequest) -> Result<LaunchedInstance, LaunchError> {
        let status = ready_status(&request.node_class)?;
        let selection = select(request)?;
        if selection.inflexible {
            tracing::warn!(token = request.token, types = selection.candidates.len(), "on-demand with few types");
        }
        let subnets = self.choose_subnets(status, &selection).await.map_err(|e| LaunchError::from_call(&e))?;
        let taken = self.take_addresses(&selection, &subnets);
        let result = self.launch_into(request, status, &selection, &subnets).await;
        let used = result.as_ref().map(|i| i.subnet_id.as_str()).unwrap_or_default();
        let refusals = result.as_ref().map_or_else(|e| &e.refusals, |i| &i.refusals);
        self.with_addresses(|all| {
            for (subnet, count) in taken.iter().filter(|(subnet, _)| *subnet != used) {
                all.give_back(subnet, *count);
            }
            refusals.iter().filter(|r| r.fills_subnet()).for_each(|r| all.exhaust(&r.subnet));
        });
        result
    }

    /// By zone the subnet with the most free addresses.
    async fn choose_subnets(
        &self,
        status: &EC2NodeClassStatus,
        selection: &Selection,
    ) -> Result<BTreeMap<String, String>, CloudError> {
        self.learn_addresses(&status.subnets).await?;
        let zones = fewest_pods_by_zone(selection);
        Ok(self.with_addresses(|all| {
            let roomiest = |zone: &String| {
                let ids = status.subnets.iter().filter(|s| s.zone == *zone).map(|s| s.id.as_str());
                all.roomiest(ids).map(|id| (zone.clone(), id.to_owned()))
            };
            zones.keys().filter_map(roomiest).collect()
        }))
    }

    /// Predicts what the launch takes of each subnet that it may use.
    fn take_addresses(&self, selection: &Selection, subnets: &BTreeMap<String, String>) -> Vec<(String, i64)> {
        let fewest = fewest_pods_by_zone(selection);
        let taken: Vec<(String, i64)> =
            subnets.iter().map(|(zone, subnet)| (subnet.clone(), fewest.get(zone).copied().unwrap_or(0))).collect();
        self.with_addresses(|all| taken.iter().for_each(|(subnet, count)| all.take(subnet, *count)));
        taken
    }

    async fn launch_into(
        &self,
        request: &LaunchRequest,
        status: &EC2NodeClassStatus,
        selection: &Selection,
        subnets: &BTreeMap<String, String>,
    ) -> Result<LaunchedInstance, LaunchError> {
        let configs = self.configs(request, status, selection, subnets).await?;
        let result = self.create_fleet(request, selection, &configs, &request.token).await;
        match result {
            Err(error) if error.reason == "LaunchTemplateNotFound" && error.kind == LaunchErrorKind::Final => {
                // Deleted behind our back. That fleet launched nothing for certain, so this is another call.
                configs.iter().for_each(|c| self.forget_template(&c.template));
                let configs = self.configs(request, status, selection, subnets).await?;
                let token = format!("{}-r", request.token);
                self.create_fleet(request, selection, &configs, &token).await
            }
            result => result,
        }
    }

    /// Makes sure of the launch templates, all at once.
    async fn configs(
        &self,
        request: &LaunchRequest,
        status: &EC2NodeClassStatus,
        selection: &Selection,
        subnets: &BTreeMap<String, String>,
    ) -> Result<Vec<Config>, LaunchError> {
        let groups = groups(selection, &status.amis, &request.requests);
        if groups.is_empty() {
            return Err(LaunchError::insufficient_capacity(
                "no image of the node class fits any type left",
                Vec::new(),
            ));
        }
        let configs = groups.iter().map(|group| self.config(request, status, selection, group, subnets));
        let mut configs = try_join_all(configs).await?;
        configs.retain(|c| !c.overrides.is_empty());
        if configs.is_empty() {
            return Err(LaunchError::insufficient_capacity(
                "the node class has no subnet in any zone left",
                Vec::new(),
            ));
        }
        Ok(configs)
    }

    async fn config(
        &self,
        request: &LaunchRequest,
        status: &EC2NodeClassStatus,
        selection: &Selection,
        group: &Group,
        subnets: &BTreeMap<String, String>,
    ) -> Result<Config, LaunchError> {
        let class = &request.node_class;
        let cluster = self.cluster_facts().await.map_err(|e| LaunchError::from_call(&e))?;
        let family = family_of(&class.spec).map_err(|e| LaunchError::node_class_not_ready(e.to_string()))?;
        let mut labels = request.labels.clone();
        labels.insert(CAPACITY_TYPE.into(), selection.capacity_type.into());
        let taints: Vec<_> = request.taints.iter().chain(&request.startup_taints).cloned().collect();
        let user_data = user_data::render(&Inputs {
            family,
            cluster: &cluster,
            class: &class.spec,
            labels: &labels,
            taints: &taints,
            max_pods: group.key.max_pods,
            image_version: image_version(&group.key.image_name),
        })
        .map_err(|e| LaunchError::node_class_not_ready(e.to_string()))?;
        let tags = self.shared_tags(request);
        let data = template_data(&TemplateInputs {
            region: &self.region,
            family,
            class: &class.spec,
            security_groups: status.security_groups.iter().map(|g| g.id.clone()).collect(),
            instance_profile: &status.instance_profile,
            group: &group.key,
            user_data: &user_data,
            spot: selection.capacity_type == SPOT,
            reserved_capacity: self.settings.reserved_capacity,
            ipv6: cluster.ipv6,
            enclave: request.requests.get(ENCLAVE) > 0,
            tags: &tags,
        });
        let template = self.ensure_template(class, data, &tags).await.map_err(|e| LaunchError::from_call(&e))?;
        let (image, reservation) = (group.key.image.clone(), group.key.reservation.clone());
        Ok(Config { template, image, reservation, overrides: group.overrides(subnets) })
    }

    /// Tags of everything that launches of one pool and class share.
    fn shared_tags(&self, request: &LaunchRequest) -> BTreeMap<String, String> {
        let settings = &self.settings;
        let mut all = request.node_class.spec.tags.clone();
        all.insert(tags::owned_by(&settings.cluster_name), tags::OWNED.into());
        all.insert(tags::CLUSTER_NAME.into(), settings.cluster_name.clone());
        all.insert(tags::NODE_POOL.into(), request.node_pool.clone());
        all.insert(tags::NODE_CLASS.into(), request.node_class.name_any());
        if !settings.cluster_uid.is_empty() {
            all.insert(tags::CLUSTER_UID.into(), settings.cluster_uid.clone());
        }
        all
    }

    async fn create_fleet(
        &self,
        request: &LaunchRequest,
        selection: &Selection,
        configs: &[Config],
        token: &str,
    ) -> Result<LaunchedInstance, LaunchError> {
        let mut unsure = None;
        for attempt in 1..=ATTEMPTS {
            let error = match self.create_fleet_once(request, selection, configs, token).await {
                Ok(answer) => return outcome(&answer, selection, configs),
                Err(error) => error,
            };
            tracing::debug!(token, attempt, %error, "CreateFleet failed");
            let last = attempt == ATTEMPTS || matches!(error, CloudError::Final { .. });
            if matches!(error, CloudError::MayHaveHappened { .. }) {
                unsure = Some(error.clone());
            }
            if last {
                // Once an answer got lost nothing later proves that nothing was launched.
                return Err(LaunchError::from_call(unsure.as_ref().unwrap_or(&error)));
            }
            tokio::time::sleep(pause(fnv(token) ^ self.seed, attempt)).await;
        }
        Err(LaunchError::invalid("LaunchFailed", "no attempt was made"))
    }

    async fn create_fleet_once(
        &self,
        request: &LaunchRequest,
        selection: &Selection,
        configs: &[Config],
        token: &str,
    ) -> Result<CreateFleetOutput, CloudError> {
        let spot = selection.capacity_type == SPOT;
        let mut tags = self.shared_tags(request);
        tags.insert(tags::LAUNCH_TOKEN.into(), request.token.clone());
        let kind = if spot { sdk::DefaultTargetCapacityType::Spot } else { sdk::DefaultTargetCapacityType::OnDemand };
        let target = sdk::TargetCapacitySpecificationRequest::builder()
            .total_target_capacity(1)
            .default_target_capacity_type(kind);
        let specification = |kind| tag_specification(kind, &tags);
        let mut call = self
            .clients
            .ec2_once
            .create_fleet()
            .client_token(token)
            .r#type(sdk::FleetType::Instant)
            .target_capacity_specification(target.build())
            .set_launch_template_configs(Some(configs.iter().map(fleet_config).collect()))
            .tag_specifications(specification(sdk::ResourceType::Instance))
            .tag_specifications(specification(sdk::ResourceType::Volume))
            .tag_specifications(specification(sdk::ResourceType::Fleet))
            .set_context(request.node_class.spec.context.clone());
        call = match spot {
            true => call.spot_options(
                sdk::SpotOptionsRequest::builder()
                    .allocation_strategy(sdk::SpotAllocationStrategy::PriceCapacityOptimized)
                    .build(),
            ),
            false => call.on_demand_options(
                sdk::OnDemandOptionsRequest::builder()
                    .allocation_strategy(sdk::FleetOnDemandAllocationStrategy::LowestPrice)
                    .build(),
            ),
        };
        call.send().await.map_err(|e| classify(CALL, Effect::Once, e))
    }
}

/// Longer each time, and not at once for all launches that were throttled together.
fn pause(spread: u64, attempt: u32) -> Duration {
    PAUSE * 2_u32.saturating_pow(attempt - 1) + Duration::from_millis(spread % 500)
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
            .priority(o.price)
            .build()
    };
    sdk::FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(template)
        .set_overrides(Some(config.overrides.iter().map(one).collect()))
        .build()
}

/// An instance, or everything that EC2 refused.
fn outcome(
    answer: &CreateFleetOutput,
    selection: &Selection,
    configs: &[Config],
) -> Result<LaunchedInstance, LaunchError> {
    let refusals: Vec<Refusal> = answer.errors().iter().map(|e| refusal(e, selection.capacity_type)).collect();
    let launched = answer.instances().iter().find_map(|i| Some((i, i.instance_ids().first()?)));
    let Some((instance, id)) = launched else { return Err(LaunchError::from_refusals(refusals)) };
    let chosen = instance.launch_template_and_overrides().and_then(|l| l.overrides());
    let name = instance.instance_type().or_else(|| chosen.and_then(|c| c.instance_type()));
    let name = name.map(|t| t.as_str().to_owned()).unwrap_or_default();
    let zone = chosen.and_then(|c| c.availability_zone()).or_else(|| instance.availability_zone());
    let subnet = chosen.and_then(|c| c.subnet_id()).or_else(|| instance.subnet_id()).unwrap_or_default();
    let asked = configs.iter().flat_map(|c| c.overrides.iter().map(move |o| (c, o)));
    let asked = asked
        .clone()
        .find(|(_, o)| o.instance_type == name && o.subnet == subnet)
        .or_else(|| asked.clone().find(|(_, o)| o.instance_type == name && zone.is_none_or(|z| o.zone == z)));
    Ok(LaunchedInstance {
        id: id.clone(),
        instance_type: name,
        zone: zone.or(asked.map(|(_, o)| o.zone.as_str())).unwrap_or_default().to_owned(),
        capacity_type: selection.capacity_type.to_owned(),
        reservation_id: asked.and_then(|(c, _)| c.reservation.clone()),
        price: asked.map_or(0.0, |(_, o)| o.price),
        image_id: asked.map_or_else(String::new, |(c, _)| c.image.clone()),
        subnet_id: asked.map_or(subnet, |(_, o)| o.subnet.as_str()).to_owned(),
        fleet_id: answer.fleet_id().unwrap_or_default().to_owned(),
        refusals,
    })
}

fn refusal(error: &sdk::CreateFleetError, capacity_type: &str) -> Refusal {
    let chosen = error.launch_template_and_overrides().and_then(|l| l.overrides());
    Refusal {
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

/// `1.46.0` of `bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-abcdef`.
fn image_version(name: &str) -> Option<&str> {
    name.starts_with("bottlerocket").then(|| name.rsplit("-v").next()?.split('-').next())?
}
