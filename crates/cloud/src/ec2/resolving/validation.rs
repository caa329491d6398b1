//! Checks of a node class that need no launch: the condition ValidationSucceeded (karpenter-aws 1.3, 1.4).

use dovetail_api::names::conditions;
use dovetail_api::v1::EC2NodeClass;
use dovetail_api::validation::kubelet::kubelet;

use crate::ec2::resolving::contradictions;
use crate::family::AmiFamily;
use crate::node_class::{Finding, NodeClassResolution};
use crate::resolve::{NodeClassView, family_of, subnet_views_of};
use crate::user_data::{ClusterFacts, UserDataError, judge};

const CONDITION: &str = conditions::VALIDATION_SUCCEEDED;

/// The finding: fields that instances are made from can be read, user data can be made of them, and the rest is ready.
pub(in crate::ec2) fn validate(
    class: &EC2NodeClass,
    resolved: &NodeClassResolution,
    cluster: Option<&ClusterFacts>,
) -> Finding {
    own(class, resolved, cluster).unwrap_or_else(|| dependencies(resolved))
}

/// The mistake of the class itself, if it has one.
fn own(class: &EC2NodeClass, resolved: &NodeClassResolution, cluster: Option<&ClusterFacts>) -> Option<Finding> {
    let family = match family_of(&class.spec) {
        Ok(family) => family,
        Err(error) => return Some(Finding::not_ready(CONDITION, "InvalidNodeClass", error.to_string())),
    };
    let contradictions = contradictions::find_contradictions(&class.spec);
    if !contradictions.is_empty() {
        let messages: Vec<String> = contradictions.into_iter().take(MOST).collect();
        return Some(Finding::not_ready(CONDITION, "InvalidNodeClass", messages.join("; ")));
    }
    if let Some(finding) = kubelet_block(class, family) {
        return Some(finding);
    }
    if let Err(error) = NodeClassView::from_spec(&class.spec, subnet_views_of(&resolved.subnets)) {
        let of_kubelet = error.field.starts_with("spec.kubelet");
        let reason = if of_kubelet { "InvalidKubeletConfiguration" } else { "InvalidNodeClass" };
        return Some(Finding::not_ready(CONDITION, reason, error.to_string()));
    }
    let error = judge(&class.spec, family, cluster?).err()?;
    let reason = match &error {
        UserDataError::Custom(_) => "InvalidUserData",
        UserDataError::Kubelet(_) => "InvalidKubeletConfiguration",
        UserDataError::NoServiceCidr => "ClusterCIDRResolutionFailed",
        UserDataError::TooLong(_) => "UserDataSizeLimitExceeded",
    };
    Some(Finding::not_ready(CONDITION, reason, error.to_string()))
}

fn kubelet_block(class: &EC2NodeClass, family: AmiFamily) -> Option<Finding> {
    let found = kubelet(&class.spec.kubelet.as_ref()?.0, family.as_str());
    let first = found.iter().find(|one| !one.unsupported).or(found.first())?;
    let reason = match first.unsupported {
        true => "UnsupportedKubeletConfiguration",
        // Karpenter's gate NodeClassCEL lets them be written; it is not here.
        false if is_expression(class, &first.path) => "KubeletExpressionsDisabled",
        false => "InvalidKubeletConfiguration",
    };
    let messages = found.iter().map(|one| {
        let path = one.path.join(".");
        format!("spec.kubelet.{path}: {} (allowed: {})", one.wrong.what, one.wrong.allowed)
    });
    Some(Finding::not_ready(CONDITION, reason, messages.take(MOST).collect::<Vec<_>>().join("; ")))
}

/// Variables of expressions for `maxPods` and reserved amounts (karpenter-aws 1.4).
const VARIABLES: [&str; 6] = ["vcpus", "memory_mib", "default_enis", "ips_per_eni", "max_pods", "instance_type"];

/// True if a field of the block holds an expression rather than an amount.
fn is_expression(class: &EC2NodeClass, path: &[String]) -> bool {
    let block = class.spec.kubelet.as_ref().map(|kubelet| &kubelet.0);
    let top = block.zip(path.first()).and_then(|(block, key)| block.get(key));
    let value = path.iter().skip(1).try_fold(top, |value, key| value.map(|value| value.get(key)));
    let text = value.flatten().and_then(serde_json::Value::as_str).unwrap_or_default();
    VARIABLES.iter().any(|variable| text.contains(variable))
}

/// Most fields that one message names.
const MOST: usize = 5;

fn dependencies(resolved: &NodeClassResolution) -> Finding {
    match resolved.conditions.iter().find(|finding| finding.status != Some(true)) {
        Some(other) if other.status == Some(false) => {
            Finding::not_ready(CONDITION, "DependenciesNotReady", format!("{} is not ready", other.condition))
        }
        Some(other) => Finding::unknown(CONDITION, "DependenciesNotReady", format!("{} is not known", other.condition)),
        None => Finding::ready(CONDITION),
    }
}
