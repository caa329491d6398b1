//! EC2's actions by name.

use crate::region::wire::error::AwsError;
use crate::region::wire::form::FormNode;
use crate::region::wire::xml::Xml;
use crate::region::{
    Cx, actions::discovery, actions::fleet, actions::instance_types, actions::instances, actions::run_instances,
    actions::tags, actions::templates, commitments, placement, prices, reservations,
};

/// Carries out an action of EC2.
pub(crate) fn act(cx: &mut Cx<'_>, action: &str, form: &FormNode) -> Result<Xml, AwsError> {
    // Nothing can fail for a describe but its parameters' form, so its dry run is decided here; the others know more.
    if action.starts_with("Describe") && form.flag("DryRun") {
        return Err(AwsError::dry_run());
    }
    match action {
        "DescribeInstanceTypes" => instance_types::types(cx, form),
        "DescribeInstanceTypeOfferings" => instance_types::offerings(cx, form),
        "DescribeAvailabilityZones" => discovery::zones(cx, form),
        "DescribeSubnets" => discovery::subnets(cx, form),
        "DescribeSecurityGroups" => discovery::security_groups(cx, form),
        "DescribeVpcs" => discovery::vpcs(cx, form),
        "DescribeImages" => discovery::images(cx, form),
        "DescribeSpotPriceHistory" => prices::spot_history(cx, form),
        "CreateLaunchTemplate" => templates::create(cx, form),
        "DescribeLaunchTemplates" => templates::describe(cx, form),
        "DescribeLaunchTemplateVersions" => templates::describe_versions(cx, form),
        "DeleteLaunchTemplate" => templates::delete(cx, form),
        "CreateFleet" => fleet::create(cx, form),
        "RunInstances" => run_instances::run(cx, form),
        "DescribeInstances" => instances::describe(cx, form),
        "DescribeInstanceStatus" => instances::status(cx, form),
        "TerminateInstances" => instances::terminate(cx, form),
        "RebootInstances" => instances::reboot(cx, form),
        "CreateTags" => tags::create(cx, form),
        "DeleteTags" => tags::delete(cx, form),
        "DescribeCapacityReservations" => reservations::describe(cx, form),
        "DescribePlacementGroups" => placement::describe(cx, form),
        "DescribeReservedInstances" => commitments::reserved_instances(cx, form),
        _ => Err(AwsError::unknown_action(action)),
    }
}
