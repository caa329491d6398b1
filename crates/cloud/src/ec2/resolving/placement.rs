//! The placement group of a node class: found by name or id, and the zone that one of strategy `cluster` is bound to
//! (karpenter-aws 1.1, 1.3).

use aws_sdk_ec2::types as sdk;
use dovetail_api::names::conditions;
use dovetail_api::v1::{EC2NodeClassSpec, PlacementGroup, PlacementGroupSelector};

use crate::ec2::Ec2Cloud;
use crate::ec2::classify::{Effect, classify};
use crate::ec2::describe::filter;
use crate::error::CloudError;
use crate::launch::{LaunchError, LaunchErrorKind, LaunchedFleet};
use crate::node_class::Finding;

const CALL: &str = "DescribePlacementGroups";
const CONDITION: &str = conditions::PLACEMENT_GROUP_READY;
/// The beginning of EC2's codes for a group that it does not know.
const UNKNOWN_GROUP: &str = "InvalidPlacementGroup";

/// Placement group that a class's selector chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ec2) enum PlacementChoice {
    /// The class selects none.
    NotAsked,
    /// The class's instances belong into this group.
    In(PlacementGroup),
    /// None that instances can be launched in, and why.
    Nowhere(String),
}

impl PlacementChoice {
    pub fn group(&self) -> Option<&PlacementGroup> {
        if let Self::In(group) = self { Some(group) } else { None }
    }
}

/// The zone of a cluster group that EC2 has not shown an instance of yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ec2) struct GroupBinding {
    zone: String,
    /// True once a launch has succeeded there: the next ones have to go there, too.
    has_instances: bool,
}

impl Ec2Cloud {
    /// The class's group, as EC2 has it; asked for at most once a minute for each selector.
    pub(in crate::ec2) async fn placement_of(&self, spec: &EC2NodeClassSpec) -> Result<PlacementChoice, CloudError> {
        let Some(selector) = &spec.placement_group_selector else { return Ok(PlacementChoice::NotAsked) };
        let key = (selector.name.clone(), selector.id.clone());
        let ask = || {
            let (this, selector) = (self.clone(), selector.clone());
            async move { this.find_placement_group(&selector).await }
        };
        self.memory.placement_groups.get_or_ask(|| self.now(), key, ask).await
    }

    async fn find_placement_group(&self, selector: &PlacementGroupSelector) -> Result<PlacementChoice, CloudError> {
        let asked = match (&selector.name, &selector.id) {
            (Some(name), _) => format!("spec.placementGroupSelector.name {name:?}"),
            (None, id) => format!("spec.placementGroupSelector.id {:?}", id.as_deref().unwrap_or_default()),
        };
        let call = self.clients.ec2.describe_placement_groups().set_group_ids(selector.id.clone().map(|id| vec![id]));
        let named = selector.name.as_deref().map(|name| vec![filter("group-name", [name])]);
        let answer = match call.set_filters(named).send().await {
            Ok(answer) => answer,
            Err(error) => match classify(CALL, Effect::Repeatable, error) {
                error if error.code().starts_with(UNKNOWN_GROUP) => {
                    return Ok(PlacementChoice::Nowhere(format!("{asked}: there is no such placement group")));
                }
                error => return Err(error),
            },
        };
        let Some(found) = answer.placement_groups().first() else {
            return Ok(PlacementChoice::Nowhere(format!("{asked}: there is no such placement group")));
        };
        if let Some(state) = found.state().filter(|state| **state != sdk::PlacementGroupState::Available) {
            return Ok(PlacementChoice::Nowhere(format!("{asked}: the placement group is {state}, not available")));
        }
        let mut group = group_of(found);
        if group.is_cluster() {
            group.zone = self.zone_of_group(&group.name).await?;
        }
        Ok(PlacementChoice::In(group))
    }

    /// The zone of a group's instances, whoever's they are; none while it has none.
    async fn zone_of_group(&self, name: &str) -> Result<Option<String>, CloudError> {
        let live = ["pending", "running", "stopping", "stopped"];
        let filters = vec![filter("placement-group-name", [name]), filter("instance-state-name", live)];
        let instances = self.describe_all(filters).await?;
        Ok(instances.into_iter().map(|instance| instance.zone).find(|zone| !zone.is_empty()))
    }

    /// The group that a launch goes into; nothing is launched outside of it.
    ///
    /// # Errors
    /// It is not there, or cannot be asked for.
    pub(in crate::ec2) async fn launch_group(
        &self,
        spec: &EC2NodeClassSpec,
    ) -> Result<Option<PlacementGroup>, LaunchError> {
        let mut group = match self.placement_of(spec).await.map_err(|error| LaunchError::from_call(&error))? {
            PlacementChoice::NotAsked => return Ok(None),
            PlacementChoice::Nowhere(why) => return Err(LaunchError::node_class_not_ready(why)),
            PlacementChoice::In(group) => group,
        };
        if group.is_cluster() && group.zone.is_none() {
            group.zone = self.memory.group_zones.get(self.now(), &group.id).map(|binding| binding.zone);
        }
        Ok(Some(group))
    }

    /// Binds a cluster group without instances to the zone that a launch goes to, so that what is launched beside it goes
    /// there, too.
    pub(in crate::ec2) fn bind_group(&self, group: &PlacementGroup, zone: &str) {
        let binding = GroupBinding { zone: zone.to_owned(), has_instances: false };
        self.memory.group_zones.put(self.now(), group.id.clone(), binding);
    }

    /// Takes over the outcome of a launch into a cluster group. One that has launched holds the group in its zone. One that has
    /// found no capacity lets another zone be tried, unless the group has instances by now.
    pub(in crate::ec2) fn settle_group(&self, group: &PlacementGroup, launched: &Result<LaunchedFleet, LaunchError>) {
        let bindings = &self.memory.group_zones;
        match launched {
            Ok(fleet) if group.is_cluster() => {
                let Some(instance) = fleet.instances.first() else { return };
                let binding = GroupBinding { zone: instance.zone.clone(), has_instances: true };
                bindings.put(self.now(), group.id.clone(), binding);
            }
            Err(error) if error.kind == LaunchErrorKind::InsufficientCapacity => {
                let binding = bindings.get(self.now(), &group.id);
                if binding.is_some_and(|one| !one.has_instances && Some(&one.zone) == group.zone.as_ref()) {
                    bindings.forget(&group.id);
                }
            }
            _ => {}
        }
    }
}

fn group_of(found: &sdk::PlacementGroup) -> PlacementGroup {
    PlacementGroup {
        id: found.group_id().unwrap_or_default().to_owned(),
        name: found.group_name().unwrap_or_default().to_owned(),
        strategy: found.strategy().map(|one| one.as_str().to_owned()).unwrap_or_default(),
        partition_count: found.partition_count().and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0),
        zone: None,
    }
}

pub(in crate::ec2) fn finding(placed: &Result<PlacementChoice, CloudError>) -> Finding {
    match placed {
        Ok(PlacementChoice::NotAsked | PlacementChoice::In(_)) => Finding::ready(CONDITION),
        Ok(PlacementChoice::Nowhere(why)) => Finding::not_ready(CONDITION, "PlacementGroupNotFound", why.as_str()),
        Err(error @ CloudError::Final { .. }) => {
            Finding::not_ready(CONDITION, "PlacementGroupResolutionFailed", error.to_string())
        }
        Err(error) => Finding::unknown(CONDITION, "PlacementGroupResolutionFailed", error.to_string()),
    }
}
