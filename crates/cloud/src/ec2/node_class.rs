//! Resolving a node class, with a finding for each of its conditions (karpenter-aws 1.3).

use dovetail_api::names::{annotations, conditions};
use dovetail_api::v1::EC2NodeClass;

use super::reservations::Selected;
use super::{Ec2Cloud, validation};
use crate::error::CloudError;
use crate::family::AmiFamily;
use crate::node_class::{Finding, NodeClassResolution};

/// Whether it is what an AWSNodeTemplate means, whose images are chosen by their tags as well.
fn is_of_template(class: &EC2NodeClass) -> bool {
    let from = class.metadata.annotations.as_ref().and_then(|notes| notes.get(annotations::CONVERTED_FROM));
    from.is_some_and(|from| from.starts_with("karpenter.k8s.aws/v1alpha1/AWSNodeTemplate/"))
}

impl Ec2Cloud {
    /// Asks for everything side by side; what cannot be asked is unknown, and does not hide the rest.
    pub(super) async fn resolve_class(&self, class: &EC2NodeClass) -> Result<NodeClassResolution, CloudError> {
        let spec = &class.spec;
        let by_tags = is_of_template(class);
        let images = async { self.images_of(spec, &self.cluster_facts().await?.version, by_tags).await };
        let (subnets, groups, images, profile, reservations) = futures::join!(
            self.subnets_of(spec),
            self.security_groups_of(spec),
            images,
            self.profile_of(class),
            self.reservations_of(spec)
        );
        let mut conditions = vec![
            self.images_finding(class, &images),
            finding(conditions::SUBNETS_READY, "SubnetsNotFound", "the selector matches no subnet", &subnets),
            finding(
                conditions::SECURITY_GROUPS_READY,
                "SecurityGroupsNotFound",
                "the selector matches no security group",
                &groups,
            ),
            profile_finding(&profile),
        ];
        if !spec.capacity_reservation_selector_terms.is_empty() && self.settings.reserved_capacity {
            conditions.push(reservations_finding(&reservations));
        }
        let mut resolved = NodeClassResolution {
            conditions,
            subnets: subnets.unwrap_or_default(),
            security_groups: groups.unwrap_or_default(),
            amis: images.unwrap_or_default(),
            reservations: reservations.map(|selected| selected.used).unwrap_or_default(),
            instance_profile: profile.unwrap_or_default(),
        };
        let cluster = self.memory.cluster.get(self.now(), &());
        resolved.conditions.push(validation::of(class, &resolved, cluster.as_ref()));
        Ok(resolved)
    }

    /// Removes what was made for the class.
    pub(super) async fn remove_class(&self, class: &EC2NodeClass) -> Result<(), CloudError> {
        futures::try_join!(self.remove_templates(class), self.remove_profile(class))?;
        Ok(())
    }

    fn images_finding<T>(&self, class: &EC2NodeClass, images: &Result<Vec<T>, CloudError>) -> Finding {
        let version = self.memory.cluster.get(self.now(), &()).map(|f| f.version).unwrap_or_default();
        match unsupported_alias(class, &version) {
            Some(why) => Finding::not_ready(conditions::AMIS_READY, "UnsupportedAlias", why),
            None => finding(conditions::AMIS_READY, "AMINotFound", "the selector matches no image", images),
        }
    }
}

fn finding<T>(condition: &'static str, missing: &str, why: &str, found: &Result<Vec<T>, CloudError>) -> Finding {
    match found {
        Ok(all) if all.is_empty() => Finding::not_ready(condition, missing, why),
        Ok(_) => Finding::ready(condition),
        Err(error) => Finding::unknown(condition, error.code(), error.to_string()),
    }
}

/// Well also where none is found: what is not reserved is bought. What is selected and not used is named.
fn reservations_finding(reservations: &Result<Selected, CloudError>) -> Finding {
    let condition = conditions::CAPACITY_RESERVATIONS_READY;
    match reservations {
        Ok(Selected { passed_over, .. }) if !passed_over.is_empty() => {
            let message = format!("not implemented: {}", passed_over.join(", "));
            Finding { message, ..Finding::ready(condition) }
        }
        Ok(_) => Finding::ready(condition),
        Err(error) => Finding::unknown(condition, error.code(), error.to_string()),
    }
}

fn profile_finding(profile: &Result<String, CloudError>) -> Finding {
    let condition = conditions::INSTANCE_PROFILE_READY;
    match profile {
        // A class that was stored before the API server asked for one of them; no launch could succeed.
        Ok(name) if name.is_empty() => {
            let why = "spec.role and spec.instanceProfile are absent (allowed: exactly one of them)";
            Finding::not_ready(condition, "InstanceProfileMissing", why)
        }
        Ok(_) => Finding::ready(condition),
        Err(error) => Finding::unknown(condition, error.code(), error.to_string()),
    }
}

/// Amazon Linux 2 ended with Kubernetes 1.32; Windows Server 2025 began with 1.35.
fn unsupported_alias(class: &EC2NodeClass, version: &str) -> Option<String> {
    let alias = class.spec.ami_selector_terms.iter().find_map(|t| t.alias.as_deref())?;
    let minor: u32 = version.split('.').nth(1)?.parse().ok()?;
    let unsupported = match AmiFamily::parse(alias)? {
        AmiFamily::Al2 => minor >= 33,
        AmiFamily::Windows2025 => minor < 35,
        _ => false,
    };
    unsupported.then(|| format!("alias {alias} has no images for Kubernetes {version}"))
}
