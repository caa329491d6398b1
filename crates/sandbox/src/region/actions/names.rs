//! The names of all actions that the region carries out.

/// In the order of their names, whichever service they are of.
pub const ACTIONS: [&str; 50] = [
    "AddRoleToInstanceProfile",
    "AssumeRoleWithWebIdentity",
    "ChangeMessageVisibility",
    "CreateFleet",
    "CreateInstanceProfile",
    "CreateLaunchTemplate",
    "CreateQueue",
    "CreateServiceLinkedRole",
    "CreateTags",
    "DeleteInstanceProfile",
    "DeleteLaunchTemplate",
    "DeleteMessage",
    "DeleteMessageBatch",
    "DeleteTags",
    "DescribeAvailabilityZones",
    "DescribeCapacityReservations",
    "DescribeCluster",
    "DescribeImages",
    "DescribeInstanceStatus",
    "DescribeInstanceTypeOfferings",
    "DescribeInstanceTypes",
    "DescribeInstances",
    "DescribeLaunchTemplateVersions",
    "DescribeLaunchTemplates",
    "DescribePlacementGroups",
    "DescribeReservedInstances",
    "DescribeSavingsPlanRates",
    "DescribeSavingsPlans",
    "DescribeSecurityGroups",
    "DescribeSpotPriceHistory",
    "DescribeSubnets",
    "DescribeVpcs",
    "GetCallerIdentity",
    "GetInstanceProfile",
    "GetManagedResource",
    "GetParameter",
    "GetParameters",
    "GetProducts",
    "GetQueueAttributes",
    "GetQueueUrl",
    "GetRole",
    "ListClusters",
    "ListInstanceProfiles",
    "RebootInstances",
    "ReceiveMessage",
    "RemoveRoleFromInstanceProfile",
    "RunInstances",
    "SendMessage",
    "TagInstanceProfile",
    "TerminateInstances",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::ACTIONS;

    #[test]
    fn every_action_that_is_carried_out_is_named() {
        let sources = [
            include_str!("ec2.rs"),
            include_str!("../services/eks.rs"),
            include_str!("../services/iam.rs"),
            include_str!("../services/savings_plans.rs"),
            include_str!("../services/sqs.rs"),
            include_str!("../services/ssm.rs"),
            include_str!("../services/sts.rs"),
            include_str!("../services/zonal_shift.rs"),
        ];
        let arms = sources.iter().flat_map(|source| source.lines()).filter_map(|line| line.split_once(" => "));
        let quoted = arms.flat_map(|(names, _)| names.split('|')).map(str::trim);
        let named = quoted.filter_map(|name| name.strip_prefix('"')?.strip_suffix('"'));
        let is_action = |name: &&str| name.starts_with(|first: char| first.is_ascii_uppercase());
        let carried_out: BTreeSet<&str> = named.filter(is_action).chain(["GetProducts", "ReceiveMessage"]).collect();
        assert_eq!(carried_out.into_iter().collect::<Vec<_>>(), ACTIONS);
    }
}
