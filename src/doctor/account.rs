//! Checks of the AWS account: access, subnets, images.

use dovetail_api::names::conditions::{AMIS_READY, TRUE, VALIDATION_SUCCEEDED};
use dovetail_api::v1::{EC2NodeClass, condition};
use dovetail_cloud::CloudIdentity as _;
use kube::ResourceExt as _;

use super::{Finding, Installation};

/// Free addresses of a subnet below which it is reported: a node of a middling type takes about thirty.
const FEW_ADDRESSES: i64 = 64;
/// Reason of a condition whose dry run waits for other conditions.
const DEPENDENCIES_NOT_READY: &str = "DependenciesNotReady";
/// Remedy where AWS cannot be asked from here.
pub(super) const NO_AWS: &str = "run doctor with the credentials of the control plane's role, or in its pod";

/// Credentials, and EC2's answer to a dry run; the control plane's own dry runs of launches are on its classes.
pub(super) async fn access(installation: &Installation) -> Finding {
    let cloud = match &installation.cloud {
        Ok(cloud) => cloud,
        Err(why) if why.contains("no AWS credentials here") || why.contains("AWS_REGION") => {
            return Finding::unknown(format!("it cannot be asked from here: {why}"), NO_AWS);
        }
        Err(why) => {
            return Finding::red(why.clone(), "see the role and its policy (deploy/cloudformation, deploy/terraform)");
        }
    };
    if let Err(why) = cloud.probe().await {
        return Finding::red(why.to_string(), "allow what the stack of this version allows");
    }
    let refused = installation.classes.iter().flatten().find_map(|class| {
        let status = class.status.as_ref()?;
        let own = condition(&status.conditions, VALIDATION_SUCCEEDED).filter(|one| one.status != TRUE)?;
        // No launch was tried where images, subnets or others are missing: their own checks say so.
        let own = Some(own).filter(|one| one.reason != DEPENDENCIES_NOT_READY)?;
        Some(format!("EC2NodeClass {}: {}: {}", class.name_any(), own.reason, own.message))
    });
    match refused {
        Some(why) => Finding::red(
            format!("a dry run of a launch fails: {why}"),
            "mend what is named, or allow it in the role's policy",
        ),
        None => Finding::green(format!("EC2 in {} takes the credentials, by a dry run", cloud.region())),
    }
}

/// Classes with their statuses, or the finding that there are none.
fn classes(installation: &Installation) -> Result<&[EC2NodeClass], Finding> {
    match &installation.classes {
        Ok(all) if all.is_empty() => Err(Finding::yellow("no EC2NodeClass exists", "create one (docs/pools.md)")),
        Ok(all) => Ok(all),
        Err(why) => Err(Finding::unknown(format!("classes cannot be listed: {why}"), "allow list on ec2nodeclasses")),
    }
}

pub(super) async fn subnets(installation: &Installation) -> Finding {
    let classes = match classes(installation) {
        Ok(classes) => classes,
        Err(finding) => return finding,
    };
    let none: Vec<String> = classes
        .iter()
        .filter(|class| class.status.as_ref().is_none_or(|status| status.subnets.is_empty()))
        .map(|class| format!("EC2NodeClass {} has found none", class.name_any()))
        .collect();
    if !none.is_empty() {
        return Finding::red(
            none.join("; "),
            "tag subnets, or mend spec.subnetSelectorTerms; the condition SubnetsReady says more",
        );
    }
    let mut ids: Vec<String> = classes
        .iter()
        .filter_map(|class| class.status.as_ref())
        .flat_map(|status| status.subnets.iter().map(|one| one.id.clone()))
        .collect();
    ids.sort();
    ids.dedup();
    let cloud = match &installation.cloud {
        Ok(cloud) => cloud,
        Err(why) => return Finding::unknown(format!("their free addresses cannot be asked for: {why}"), NO_AWS),
    };
    let free = match cloud.free_addresses(&ids).await {
        Ok(free) => free,
        Err(why) => return Finding::unknown(why.to_string(), "allow ec2:DescribeSubnets"),
    };
    let gone: Vec<&String> = ids.iter().filter(|id| !free.contains_key(*id)).collect();
    let few: Vec<String> = free
        .iter()
        .filter(|(_, count)| **count < FEW_ADDRESSES)
        .map(|(id, count)| format!("{id} has {count}"))
        .collect();
    match (gone.as_slice(), few.as_slice()) {
        ([], []) => Finding::green(format!("{} subnets, each with {FEW_ADDRESSES} free addresses or more", ids.len())),
        ([], few) if few.len() == free.len() => {
            Finding::red(format!("few free addresses: {}", few.join(", ")), "add subnets, or a larger CIDR to the VPC")
        }
        ([], few) => Finding::yellow(
            format!("few free addresses: {}", few.join(", ")),
            "add subnets, or a larger CIDR to the VPC",
        ),
        (gone, _) => {
            let named = gone.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", ");
            Finding::red(format!("EC2 does not know {named}"), "mend spec.subnetSelectorTerms of the EC2NodeClass")
        }
    }
}

pub(super) async fn images(installation: &Installation) -> Finding {
    let classes = match classes(installation) {
        Ok(classes) => classes,
        Err(finding) => return finding,
    };
    let without = |class: &EC2NodeClass| {
        let status = class.status.as_ref();
        let own = status.and_then(|status| condition(&status.conditions, AMIS_READY)).filter(|one| one.status != TRUE);
        let empty = status.is_none_or(|status| status.amis.is_empty());
        let why = own.map(|one| format!(": {}", one.message)).unwrap_or_default();
        (own.is_some() || empty).then(|| format!("EC2NodeClass {} has found none{why}", class.name_any()))
    };
    let bad: Vec<String> = classes.iter().filter_map(without).collect();
    if bad.is_empty() {
        return Finding::green(format!("all {} classes have found theirs", classes.len()));
    }
    Finding::red(bad.join("; "), "mend spec.amiSelectorTerms of the EC2NodeClass")
}
