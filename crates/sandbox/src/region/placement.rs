//! Placement groups, and what each strategy lets be launched (EC2 user guide, "Placement groups").

use super::actions::discovery::choose;
use super::actions::filters::{Filterable, Tags, one};
use super::launch::Spec;
use super::wire::error::AwsError;
use super::wire::form::FormNode;
use super::wire::xml::Xml;
use super::{AccountPlacementGroup, Cx};

/// Instances that a spread group has in a zone at most.
const SPREAD: usize = 7;

impl Filterable for AccountPlacementGroup {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "group-name" => one(&self.name),
            "strategy" => one(&self.strategy),
            "state" => one("available"),
            _ => None,
        }
    }
}

fn unknown(asked: &str) -> AwsError {
    AwsError::new("InvalidPlacementGroup.Unknown", format_args!("The Placement Group '{asked}' is unknown."))
}

/// DescribePlacementGroups.
pub(crate) fn describe(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let all = &cx.config.placement_groups;
    if let Some(name) = form.strings("GroupName").iter().find(|name| all.iter().all(|one| one.name != **name)) {
        return Err(unknown(name));
    }
    let ids = form.strings("GroupId");
    if let Some(id) = ids.iter().find(|id| all.iter().all(|one| one.id != **id)) {
        return Err(unknown(id));
    }
    let (none, names) = (std::collections::BTreeMap::<String, Tags>::new(), form.strings("GroupName"));
    let named = all.iter().filter(|one| names.is_empty() || names.contains(&one.name));
    let chosen = choose(named.map(|one| (&one.id, one)), form, &ids, "InvalidPlacementGroup.Unknown", &none)?;
    let mut xml = Xml::new();
    xml.list("placementGroupSet", chosen, |xml, (_, group)| {
        xml.text("groupName", &group.name)
            .text("groupId", &group.id)
            .text("groupArn", cx.arn("placement-group", &group.name))
            .text("strategy", &group.strategy)
            .text("state", "available");
        if group.strategy == "partition" {
            xml.text("partitionCount", group.partitions);
        }
    });
    Ok(xml)
}

/// Place of an instance in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupPlace {
    /// The group's id and name.
    pub group: Option<(String, String)>,
    pub partition: Option<u32>,
}

impl Cx<'_> {
    /// Place in the group that a launch names, if any, or the refusal of that group in that zone.
    pub(crate) fn place_in_group(
        &self,
        spec: &Spec,
        zone: &str,
        strategies: &[String],
    ) -> Result<GroupPlace, AwsError> {
        let Some(asked) = &spec.placement_group else { return Ok(GroupPlace::default()) };
        let groups = &self.config.placement_groups;
        let group = groups.iter().find(|one| one.id == *asked || one.name == *asked).ok_or_else(|| unknown(asked))?;
        if !strategies.contains(&group.strategy) {
            return Err(AwsError::new(
                "InvalidParameterCombination",
                format_args!(
                    "The instance type {} is not supported in a placement group of strategy {}.",
                    spec.instance_type, group.strategy
                ),
            ));
        }
        let instances = self.state.instances.values();
        let inside: Vec<_> = instances
            .filter(|i| i.state.is_alive() && i.place.group.as_ref().is_some_and(|(id, _)| *id == group.id))
            .collect();
        let mut place = GroupPlace { group: Some((group.id.clone(), group.name.clone())), partition: None };
        match group.strategy.as_str() {
            "cluster" => {
                if let Some(other) = inside.iter().find(|i| i.zone != zone) {
                    return Err(AwsError::new(
                        "InvalidPlacementGroup.InUse",
                        format_args!("Instances of a cluster placement group are in one zone: {}.", other.zone),
                    ));
                }
            }
            "spread" if inside.iter().filter(|i| i.zone == zone).count() >= SPREAD => {
                let what = "You have reached the limit of instances in this spread placement group in this zone.";
                return Err(AwsError::new("InvalidRequest", what));
            }
            "partition" => {
                let used = |number: &u32| inside.iter().filter(|i| i.place.partition == Some(*number)).count();
                let number = spec.partition.or_else(|| (1..=group.partitions).min_by_key(used)).unwrap_or(1);
                if !(1..=group.partitions).contains(&number) {
                    return Err(AwsError::invalid(format_args!("The partition number {number} is invalid.")));
                }
                place.partition = Some(number);
            }
            _ => {}
        }
        Ok(place)
    }
}
