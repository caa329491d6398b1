//! The launch itself: from a request to CreateFleet and back (karpenter-aws 4).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_api::names::labels::{CAPACITY_TYPE, SPOT};
use dovetail_api::names::tags;
use dovetail_api::v1::{EC2NodeClass, EC2NodeClassStatus};
use dovetail_core::pause::DoublingPause;
use futures::future::try_join_all;
use kube::ResourceExt;

use crate::ec2::Ec2Cloud;
use crate::ec2::classify::{Effect, classify};
use crate::ec2::launching::planned::{self, Config, PlannedCall};
use crate::ec2::launching::template_data::{TemplateInputs, template_data};
use crate::ec2::resolving::network::TakenAddresses;
use crate::error::CloudError;
use crate::hash::fnv;
use crate::launch::filters::{LaunchSelection, select_in};
use crate::launch::placement::{first_zone, place};
use crate::launch::plan::{LaunchGroup, fewest_pods_by_zone, groups};
use crate::launch::readiness::ready_status;
use crate::launch::{ENCLAVE, LaunchError, LaunchErrorKind, LaunchRequest, LaunchedFleet, LaunchedInstance};
use crate::resolve::family_of;
use crate::user_data::{self, Inputs};

const CALL: &str = "CreateFleet";
/// Most times that one CreateFleet is sent, always with the same token and parameters.
const ATTEMPTS: u32 = 4;
/// Pause before a repetition.
const PAUSE: DoublingPause = DoublingPause { first: Duration::from_millis(500), longest: Duration::from_secs(2) };

impl Ec2Cloud {
    pub(in crate::ec2) async fn launch_one(&self, request: &LaunchRequest) -> Result<LaunchedInstance, LaunchError> {
        let LaunchedFleet { instances, refusals, .. } = self.launch_fleet(request, 1).await?;
        let launched = instances.into_iter().next().ok_or_else(LaunchError::unsaid)?;
        Ok(LaunchedInstance { refusals, ..launched })
    }

    /// A call that may have been carried out is repeated as it was, whatever would be asked for now.
    pub(in crate::ec2) async fn launch_fleet(
        &self,
        request: &LaunchRequest,
        count: u32,
    ) -> Result<LaunchedFleet, LaunchError> {
        if let Some(before) = self.memory.unsettled.get(self.now(), &request.token) {
            let taken = TakenAddresses::reserve(self, before.addresses.clone());
            return taken.settle(self.send(&request.token, &before, true).await);
        }
        let status = ready_status(&request.node_class)?;
        let mut group = self.launch_group(&request.node_class.spec).await?;
        let mut selection = select_in(request, group.as_ref().and_then(|group| group.zone.as_deref()))?;
        if let Some(group) = &mut group {
            // Settled before anything is waited for: launches side by side go to one zone.
            if group.is_cluster() && group.zone.is_none() {
                group.zone = first_zone(&selection);
                group.zone.iter().for_each(|zone| self.bind_group(group, zone));
            }
            place(&mut selection, group, &request.token)?;
        }
        if selection.inflexible {
            tracing::warn!(token = request.token, types = selection.candidates.len(), "on-demand with few types");
        }
        let subnets = self.choose_subnets(status, &selection).await.map_err(|e| LaunchError::from_call(&e))?;
        let taken = TakenAddresses::reserve(self, predicted(&selection, &subnets, count));
        let launched = taken.settle(self.launch_into(request, count, status, &selection, &subnets).await);
        if let Some(group) = &group {
            self.settle_group(group, &launched);
        }
        launched
    }

    /// By zone the subnet with the most free addresses.
    async fn choose_subnets(
        &self,
        status: &EC2NodeClassStatus,
        selection: &LaunchSelection,
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

    async fn launch_into(
        &self,
        request: &LaunchRequest,
        count: u32,
        status: &EC2NodeClassStatus,
        selection: &LaunchSelection,
        subnets: &BTreeMap<String, String>,
    ) -> Result<LaunchedFleet, LaunchError> {
        let planned = self.plan(request, (request.token.as_str(), count), status, selection, subnets).await?;
        match self.send(&request.token, &planned, false).await {
            Err(error) if error.reason == "LaunchTemplateNotFound" && error.kind == LaunchErrorKind::Final => {
                // Deleted behind our back. That fleet launched nothing for certain, so this is another call.
                planned.configs.iter().for_each(|c| self.forget_template(&c.template));
                let token = format!("{}-r", request.token);
                let planned = self.plan(request, (token.as_str(), count), status, selection, subnets).await?;
                self.send(&request.token, &planned, false).await
            }
            result => result,
        }
    }

    /// The call, put together; its launch templates are there.
    async fn plan(
        &self,
        request: &LaunchRequest,
        (token, count): (&str, u32),
        status: &EC2NodeClassStatus,
        selection: &LaunchSelection,
        subnets: &BTreeMap<String, String>,
    ) -> Result<Arc<PlannedCall>, LaunchError> {
        let (configs, capacity_type) =
            (self.configs(request, status, selection, subnets).await?, selection.capacity_type);
        let mut tags = self.shared_tags(request);
        tags.insert(tags::LAUNCH_TOKEN.into(), request.token.clone());
        let context = request.node_class.spec.context.clone().filter(|_| !request.min_values_relaxed);
        let call = planned::call((token, count), capacity_type, selection.reservation, &configs, &tags, context);
        let (addresses, placing) = (predicted(selection, subnets, count), selection.placing.clone());
        Ok(Arc::new(PlannedCall { call, count, capacity_type, configs, addresses, placing }))
    }

    /// Makes sure of the launch templates, all at once.
    async fn configs(
        &self,
        request: &LaunchRequest,
        status: &EC2NodeClassStatus,
        selection: &LaunchSelection,
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
        selection: &LaunchSelection,
        group: &LaunchGroup,
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
            placing: &selection.placing,
            market: group.key.reservation.as_ref().map(|_| selection.reservation),
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
        let mut all = self.class_tags(&request.node_class);
        all.insert(tags::NODE_POOL.into(), request.node_pool.clone());
        all
    }

    /// Tags of everything that launches of one class share.
    pub(in crate::ec2) fn class_tags(&self, class: &EC2NodeClass) -> BTreeMap<String, String> {
        let settings = &self.settings;
        let mut all = class.spec.tags.clone();
        all.insert(tags::owned_by(&settings.cluster_name), tags::OWNED.into());
        all.insert(tags::CLUSTER_NAME.into(), settings.cluster_name.clone());
        all.insert(tags::NODE_CLASS.into(), class.name_any());
        if !settings.cluster_uid.is_empty() {
            all.insert(tags::CLUSTER_UID.into(), settings.cluster_uid.clone());
        }
        all
    }

    /// Sends a call; `again`: it was sent before, and what came of that is not known.
    async fn send(&self, token: &str, planned: &Arc<PlannedCall>, again: bool) -> Result<LaunchedFleet, LaunchError> {
        // Kept before it goes out: whoever waits for the answer may give up at any time.
        let (memory, token) = (&self.memory.unsettled, token.to_owned());
        memory.put(self.now(), token.clone(), Arc::clone(planned));
        let mut unsure = None;
        for attempt in 1..=ATTEMPTS {
            let sent = planned.call.clone().send_with(&self.clients.ec2_once).await;
            let error = match sent.map_err(|e| classify(CALL, Effect::Once, e)) {
                Ok(answer) => {
                    memory.forget(&token);
                    return planned.outcome(&answer);
                }
                Err(error) => error,
            };
            tracing::debug!(token, attempt, %error, "CreateFleet failed");
            if error.is_token_used() {
                memory.forget(&token);
                return Err(LaunchError::from_call(&error));
            }
            let last = attempt == ATTEMPTS || matches!(error, CloudError::Final { .. });
            if matches!(error, CloudError::MayHaveHappened { .. }) {
                unsure = Some(error.clone());
            }
            if last {
                if unsure.is_none() && !again {
                    memory.forget(&token);
                }
                // Once an answer got lost nothing later proves that nothing was launched.
                let error = unsure.as_ref().unwrap_or(&error);
                return Err(LaunchError::from_fleet(error, planned.capacity_type, planned.instance_types()));
            }
            tokio::time::sleep(pause(fnv(&token) ^ self.seed, attempt)).await;
        }
        Err(LaunchError::invalid("LaunchFailed", "no attempt was made"))
    }
}

/// Least number of addresses that so many launches take of each subnet that they may use.
fn predicted(selection: &LaunchSelection, subnets: &BTreeMap<String, String>, count: u32) -> Vec<(String, i64)> {
    let fewest = fewest_pods_by_zone(selection);
    let taken = |zone: &String| fewest.get(zone).copied().unwrap_or(0).saturating_mul(i64::from(count));
    subnets.iter().map(|(zone, subnet)| (subnet.clone(), taken(zone))).collect()
}

/// Longer each time, and not at once for all launches that were throttled together.
fn pause(spread: u64, attempt: u32) -> Duration {
    PAUSE.length_of_nth(attempt) + Duration::from_millis(spread % 500)
}

/// `1.46.0` of `bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-abcdef`.
fn image_version(name: &str) -> Option<&str> {
    name.starts_with("bottlerocket").then(|| name.rsplit("-v").next()?.split('-').next())?
}
