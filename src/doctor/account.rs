//! Checks of the AWS account: access, interruption queue, spot role, quotas, subnets, images.

use dovetail_actors::catalogue::{KEY, UNAVAILABLE_OFFERINGS};
use dovetail_actors::reading::LenientApi;
use dovetail_api::names::conditions::{AMIS_READY, INTERRUPTIONS_HEARD, TRUE, VALIDATION_SUCCEEDED};
use dovetail_api::v1::{EC2NodeClass, condition};
use dovetail_cloud::{CloudIdentity as _, CloudQueue as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::Value;

use super::{Finding, Installation};
use crate::live::describe;
use crate::run::connect::plainly;
use crate::run::preflight::named;

/// Free addresses of a subnet below which it is reported: a node of a middling type takes about thirty.
const FEW_ADDRESSES: i64 = 64;
/// Remedy where AWS cannot be asked from here.
const NO_AWS: &str = "run doctor with the credentials of the control plane's role, or in its pod";

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

/// The interruption queue. It is not received from: that would hide messages from the control plane.
pub(super) async fn queue(installation: &Installation) -> Finding {
    let name = installation.settings.interruption_queue.as_str();
    let unheard = installation.pools.iter().flatten().find_map(|pool| {
        let known = &pool.status.as_ref()?.conditions;
        condition(known, INTERRUPTIONS_HEARD).filter(|one| one.status != TRUE).map(|one| one.message.clone())
    });
    if let Some(why) = unheard {
        return Finding::red(why, "allow sqs:GetQueueUrl, ReceiveMessage and DeleteMessage, or deploy the stack again");
    }
    if name.is_empty() {
        let what = "no INTERRUPTION_QUEUE is set: spot nodes end without a warning to their pods";
        return Finding::yellow(what, "deploy the stack, and set INTERRUPTION_QUEUE (settings.interruptionQueue)");
    }
    let cloud = match &installation.cloud {
        Ok(cloud) => cloud,
        Err(why) => return Finding::unknown(format!("the queue {name} cannot be asked for: {why}"), NO_AWS),
    };
    if let Err(why) = named::queue(&installation.settings, cloud.region()) {
        return Finding::red(describe(&why), "set the queue of the cluster's own region");
    }
    let rules = "EventBridge's rules cannot be seen from here: aws events list-rule-names-by-target --target-arn QUEUE";
    match cloud.queue_url(name).await {
        Ok(_) => Finding { remedy: rules.to_owned(), ..Finding::green(format!("the queue {name} is there")) },
        Err(why) => {
            Finding::red(format!("the queue {name}: {why}"), "deploy the stack again, or set INTERRUPTION_QUEUE")
        }
    }
}

/// Lines of the ConfigMap in which the leader keeps what EC2 has lately refused.
async fn refusals(installation: &Installation) -> Result<Vec<String>, String> {
    let namespace = &installation.settings.lease_namespace;
    let maps: LenientApi<ConfigMap> = LenientApi::namespaced(installation.connection.client.clone(), namespace);
    let map = maps.get_opt(UNAVAILABLE_OFFERINGS).await.map_err(|why| plainly(&why))?;
    let text = map.and_then(|map| map.data?.remove(KEY)).unwrap_or_default();
    let said = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        Some(format!("{} until {}", line["what"].as_str()?, line["until"].as_str()?))
    };
    Ok(text.lines().filter_map(said).collect())
}

pub(super) async fn spot_role(installation: &Installation) -> Finding {
    let look = "aws iam get-role --role-name AWSServiceRoleForEC2Spot";
    let uses_spot = installation.pools.iter().flatten().any(|pool| {
        let own = pool.spec.template.spec.requirements.iter();
        let listed = own.clone().find(|one| one.key == dovetail_api::names::labels::CAPACITY_TYPE);
        listed.is_none_or(|one| one.values.iter().any(|value| value == dovetail_api::names::labels::SPOT))
    });
    if installation.pools.is_ok() && !uses_spot {
        return Finding::green("no NodePool uses spot");
    }
    match refusals(installation).await {
        Ok(all) => match all.iter().find(|line| line.starts_with("capacity-type spot")) {
            Some(line) => {
                let create = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com";
                Finding::red(format!("EC2 refuses spot altogether ({line})"), create)
            }
            None => {
                Finding::unknown("nothing was refused for lack of it lately; the role itself cannot be asked for", look)
            }
        },
        Err(why) => Finding::unknown(format!("what EC2 refused is not known: {why}"), look),
    }
}

pub(super) async fn quotas(installation: &Installation) -> Finding {
    let look = "compare with the NodePools' limits: aws service-quotas list-service-quotas --service-code ec2";
    match refusals(installation).await {
        Ok(all) => {
            let used_up: Vec<&String> = all.iter().filter(|line| line.starts_with("quota ")).collect();
            match used_up.as_slice() {
                [] => Finding::unknown(
                    "none is used up, as far as launches have shown; Service Quotas cannot be asked",
                    look,
                ),
                lines => {
                    let named = lines.iter().map(|line| line.as_str()).collect::<Vec<_>>().join("; ");
                    Finding::yellow(format!("used up: {named}"), "raise the quota in Service Quotas")
                }
            }
        }
        Err(why) => Finding::unknown(format!("what EC2 refused is not known: {why}"), look),
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
