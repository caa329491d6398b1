//! Permission of a node class's launches: dry runs of the calls of a launch (karpenter-aws 1.5).
//!
//! Nothing is launched to find it out. What is made is a launch template, which costs nothing, as the dry run of CreateFleet
//! needs one; it goes with the class. An answer is kept for half an hour, a refusal for five minutes. What is no refusal of
//! the permission (no capacity, throttling, no answer) keeps no class from being used: the launch itself will say it.

use std::collections::BTreeMap;

use aws_sdk_ec2::types as sdk;
use dovetail_api::names::{annotations, conditions, tags};
use dovetail_api::v1::EC2NodeClass;
use kube::ResourceExt;

use crate::ec2::Ec2Cloud;
use crate::ec2::classify::{Effect, classify};
use crate::ec2::launching::template_data::{TemplateInputs, tag_specification, template_data};
use crate::ec2::preflight::WOULD_WORK;
use crate::error::CloudError;
use crate::hash::fnv_parts;
use crate::launch::placement::Placing;
use crate::launch::plan::GroupKey;
use crate::launch::unauthorized::Denied;
use crate::node_class::{Finding, NodeClassResolution};
use crate::resolve::family_of;
use crate::user_data::{self, Inputs};

/// Signs in EC2's refusal of a call that we may not make.
const NOT_ALLOWED: [&str; 4] = ["UnauthorizedOperation", "AccessDenied", "AuthFailure", "not authorized"];
/// Subnets that a launch is tried in: permissions may differ between them.
const SUBNETS: usize = 3;
/// Stand-in for a NodePool's name: no NodePool can be called so.
const NO_POOL: &str = "-";
/// Pods of a node that nobody launches.
const MAX_PODS: i64 = 110;

/// Verdict of the dry runs: nothing to be said, or the reason of the condition and its message.
pub(in crate::ec2) type DryRunVerdict = Option<(&'static str, String)>;

impl Ec2Cloud {
    /// The finding on a class that is well otherwise; none where dry runs are switched off or refuse nothing.
    pub(in crate::ec2) async fn authorization(
        &self,
        class: &EC2NodeClass,
        found: &NodeClassResolution,
    ) -> Option<Finding> {
        if !self.settings.dry_runs {
            return None;
        }
        let (key, now) = (key(class, found), self.now());
        if self.memory.authorized.get(now, &key).is_some() {
            return None;
        }
        let verdict = match self.memory.refused.get(now, &key) {
            Some(known) => known,
            None => match self.dry_runs(class, found).await {
                Ok(()) => {
                    self.memory.authorized.put(self.now(), key, ());
                    None
                }
                Err(verdict) => {
                    self.memory.refused.put(self.now(), key, verdict.clone());
                    verdict
                }
            },
        };
        verdict.map(|(reason, why)| Finding::not_ready(conditions::VALIDATION_SUCCEEDED, reason, why))
    }

    /// One call after the other, up to the first refusal. An error without a verdict could not be found out.
    async fn dry_runs(&self, class: &EC2NodeClass, found: &NodeClassResolution) -> Result<(), DryRunVerdict> {
        let mut all = self.class_tags(class);
        // Policies ask for the tag, whatever its value (karpenter-aws 7.1). Not empty: a condition may take that for none.
        all.insert(tags::NODE_POOL.into(), NO_POOL.into());
        let Some(template) = self.template_of(class, found, &all).await? else { return Ok(()) };
        let arm = found.amis.first().is_some_and(|ami| {
            ami.requirements.iter().any(|one| one.values.iter().flatten().any(|value| value == "arm64"))
        });
        let instance_type = if arm { "m6g.large" } else { "m5.large" };
        let subnets: Vec<&str> = found.subnets.iter().map(|subnet| subnet.id.as_str()).take(SUBNETS).collect();
        self.run_instances(&template, instance_type, found, &all).await?;
        self.create_fleet(&template, instance_type, &subnets, &all).await
    }

    /// A launch template as a launch on demand would make it; none where the class cannot be read, which is said elsewhere.
    async fn template_of(
        &self,
        class: &EC2NodeClass,
        found: &NodeClassResolution,
        tags: &BTreeMap<String, String>,
    ) -> Result<Option<String>, DryRunVerdict> {
        let (Ok(cluster), Ok(family)) = (self.cluster_facts().await, family_of(&class.spec)) else { return Ok(None) };
        let (Some(ami), labels) = (found.amis.first(), BTreeMap::new()) else { return Ok(None) };
        let inputs = Inputs {
            family,
            cluster: &cluster,
            class: &class.spec,
            labels: &labels,
            taints: &[],
            max_pods: MAX_PODS,
            image_version: None,
        };
        let Ok(user_data) = user_data::render(&inputs) else { return Ok(None) };
        let (image, image_name) = (ami.id.clone(), ami.name.clone());
        let group = GroupKey { image, image_name, max_pods: MAX_PODS, efa: 0, reservation: None };
        let in_group = found.placement_group.as_ref().map(|group| group.id.clone());
        let data = template_data(&TemplateInputs {
            region: &self.region,
            family,
            class: &class.spec,
            security_groups: found.security_groups.iter().map(|group| group.id.clone()).collect(),
            instance_profile: &found.instance_profile,
            group: &group,
            user_data: &user_data,
            spot: false,
            placing: &Placing { group: in_group, ..Placing::default() },
            market: None,
            reserved_capacity: self.settings.reserved_capacity,
            ipv6: cluster.ipv6,
            enclave: false,
            tags,
        });
        let made = self.ensure_template(class, data, tags).await;
        made.map(Some).map_err(|error| verdict("CreateLaunchTemplateAuthCheckFailed", &error))
    }

    async fn run_instances(
        &self,
        template: &str,
        instance_type: &str,
        found: &NodeClassResolution,
        tags: &BTreeMap<String, String>,
    ) -> Result<(), DryRunVerdict> {
        let mut errors = Vec::new();
        let groups: Vec<String> = found.security_groups.iter().map(|group| group.id.clone()).collect();
        for subnet in found.subnets.iter().take(SUBNETS) {
            let named = sdk::LaunchTemplateSpecification::builder().launch_template_name(template).version("$Latest");
            let call = self.clients.ec2_once.run_instances().dry_run(true).min_count(1).max_count(1);
            let call = call.launch_template(named.build()).instance_type(instance_type.into());
            // Subnet and groups belong to the interface, which stands for the template's.
            let interface = sdk::InstanceNetworkInterfaceSpecification::builder().device_index(0).subnet_id(&subnet.id);
            let interface = interface.set_groups(Some(groups.clone()));
            let call = call.network_interfaces(interface.build());
            let call = call.tag_specifications(tag_specification(sdk::ResourceType::Instance, tags));
            let call = call.tag_specifications(tag_specification(sdk::ResourceType::Volume, tags));
            match call.send().await.map_err(|error| classify("RunInstances", Effect::Repeatable, error)) {
                Ok(_) => return Ok(()),
                Err(error) if error.code() == WOULD_WORK => return Ok(()),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        // The first error that says something of permissions decides: others, such as a throttled call, say nothing.
        Err(errors.iter().find_map(|error| verdict("RunInstancesAuthCheckFailed", error)))
    }

    async fn create_fleet(
        &self,
        template: &str,
        instance_type: &str,
        subnets: &[&str],
        tags: &BTreeMap<String, String>,
    ) -> Result<(), DryRunVerdict> {
        let named = sdk::FleetLaunchTemplateSpecificationRequest::builder();
        let named = named.launch_template_name(template).version("$Latest").build();
        let over = |subnet: &&str| {
            let one = sdk::FleetLaunchTemplateOverridesRequest::builder();
            one.instance_type(instance_type.into()).subnet_id(*subnet).build()
        };
        let config = sdk::FleetLaunchTemplateConfigRequest::builder().launch_template_specification(named);
        let config = config.set_overrides(Some(subnets.iter().map(over).collect())).build();
        let target = sdk::TargetCapacitySpecificationRequest::builder().total_target_capacity(1);
        let target = target.default_target_capacity_type(sdk::DefaultTargetCapacityType::OnDemand).build();
        let call = self.clients.ec2_once.create_fleet().dry_run(true).r#type(sdk::FleetType::Instant);
        let call = call.target_capacity_specification(target).launch_template_configs(config);
        let call = call.tag_specifications(tag_specification(sdk::ResourceType::Instance, tags));
        let call = call.tag_specifications(tag_specification(sdk::ResourceType::Volume, tags));
        let call = call.tag_specifications(tag_specification(sdk::ResourceType::Fleet, tags));
        match call.send().await.map_err(|error| classify("CreateFleet", Effect::Repeatable, error)) {
            Ok(_) => Ok(()),
            Err(error) if error.code() == WOULD_WORK => Ok(()),
            Err(error) => Err(verdict("CreateFleetAuthCheckFailed", &error)),
        }
    }
}

/// The verdict of an error on permissions; none where it is of another kind.
fn verdict(reason: &'static str, error: &CloudError) -> DryRunVerdict {
    let refused = |sign: &&str| error.code().contains(*sign) || error.message().contains(*sign);
    let final_one = matches!(error, CloudError::Final { .. });
    (final_one && NOT_ALLOWED.iter().any(refused)).then(|| {
        let (call, code, message) = (error.call(), error.code(), error.message());
        let words =
            Denied::from_message(call, code, message).map_or_else(|| message.to_owned(), |denied| denied.words());
        (reason, format!("{call} is not allowed ({code}): {words}"))
    })
}

/// Hash of everything that the answer depends on. An annotation that somebody adds has it asked anew.
fn key(class: &EC2NodeClass, found: &NodeClassResolution) -> u64 {
    let own = [annotations::NODE_CLASS_HASH, annotations::NODE_CLASS_HASH_VERSION, annotations::COMPUTED_HASH];
    let notes: Vec<_> = class.annotations().iter().filter(|(key, _)| !own.contains(&key.as_str())).collect();
    let spec = serde_json::to_string(&class.spec).unwrap_or_default();
    let subnets: Vec<&str> = found.subnets.iter().map(|one| one.id.as_str()).collect();
    let mut subnets = subnets;
    subnets.sort_unstable();
    let resolved = format!(
        "{subnets:?}/{:?}/{:?}/{:?}/{:?}",
        found.security_groups, found.amis, found.instance_profile, found.placement_group
    );
    fnv_parts(&[&class.uid().unwrap_or_default(), &spec, &format!("{notes:?}"), &resolved])
}
