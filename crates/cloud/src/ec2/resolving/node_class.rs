//! Resolving a node class, with a finding for each of its conditions (karpenter-aws 1.3).

use dovetail_api::names::{annotations, conditions};
use dovetail_api::v1::{CapacityReservation, EC2NodeClass};

use crate::ec2::resolving::images::SelectedImages;
use crate::ec2::{Ec2Cloud, resolving::placement, resolving::profile, resolving::selectors, resolving::validation};
use crate::error::CloudError;
use crate::family::AmiFamily;
use crate::node_class::{Finding, NodeClassResolution};

/// True if the class was made from an AWSNodeTemplate, whose images are chosen by their tags as well.
fn is_of_template(class: &EC2NodeClass) -> bool {
    let from = class.metadata.annotations.as_ref().and_then(|notes| notes.get(annotations::CONVERTED_FROM));
    from.is_some_and(|from| from.starts_with("karpenter.k8s.aws/v1alpha1/AWSNodeTemplate/"))
}

impl Ec2Cloud {
    /// Asks for everything side by side; what cannot be asked is unknown, and does not hide the rest.
    pub(in crate::ec2) async fn resolve_class(&self, class: &EC2NodeClass) -> Result<NodeClassResolution, CloudError> {
        let spec = &class.spec;
        let by_tags = is_of_template(class);
        let images = async { self.images_of(spec, &self.cluster_facts().await?.version, by_tags).await };
        let (subnets, groups, images, profile, reservations, placed) = futures::join!(
            self.subnets_of(spec),
            self.security_groups_of(spec),
            images,
            self.profile_of(class),
            self.reservations_of(spec),
            self.placement_of(spec)
        );
        let mut conditions = vec![
            self.images_finding(class, &images),
            finding(conditions::SUBNETS_READY, "SubnetsNotFound", || selectors::no_subnet(spec), &subnets),
            finding(
                conditions::SECURITY_GROUPS_READY,
                "SecurityGroupsNotFound",
                || selectors::no_security_group(spec),
                &groups,
            ),
            profile::finding(&profile),
            placement::finding(&placed),
        ];
        let uses_open = self.uses_open(spec);
        if uses_open || !spec.capacity_reservation_selector_terms.is_empty() && self.settings.reserved_capacity {
            conditions.push(reservations_finding(&reservations, uses_open));
        }
        let mut resolved = NodeClassResolution {
            conditions,
            subnets: subnets.unwrap_or_default(),
            security_groups: groups.unwrap_or_default(),
            amis: images.unwrap_or_default().amis,
            reservations: reservations.unwrap_or_default(),
            instance_profile: profile.map(|one| one.name().to_owned()).unwrap_or_default(),
            placement_group: placed.ok().and_then(|one| one.group().cloned()),
        };
        let cluster = self.memory.cluster.get(self.now(), &());
        let mut valid = validation::validate(class, &resolved, cluster.as_ref());
        if valid.status == Some(true)
            && let Some(refused) = self.authorization(class, &resolved).await
        {
            valid = refused;
        }
        resolved.conditions.push(valid);
        Ok(resolved)
    }

    /// Removes what was made for the class.
    pub(in crate::ec2) async fn remove_class(&self, class: &EC2NodeClass) -> Result<(), CloudError> {
        futures::try_join!(self.remove_templates(class), self.remove_profile(class))?;
        Ok(())
    }

    fn images_finding(&self, class: &EC2NodeClass, images: &Result<SelectedImages, CloudError>) -> Finding {
        let version = self.memory.cluster.get(self.now(), &()).map(|f| f.version).unwrap_or_default();
        let condition = conditions::AMIS_READY;
        match (unsupported_alias(class, &version), images) {
            (Some(why), _) => Finding::not_ready(condition, "UnsupportedAlias", why),
            (None, Ok(SelectedImages { amis, unfit })) if amis.is_empty() => {
                Finding::not_ready(condition, "AMINotFound", selectors::no_image(&class.spec, unfit))
            }
            (None, Ok(_)) => Finding::ready(condition),
            (None, Err(error)) => Finding::unknown(condition, error.code(), error.to_string()),
        }
    }
}

fn finding<T>(
    condition: &'static str,
    missing: &str,
    why: impl FnOnce() -> String,
    found: &Result<Vec<T>, CloudError>,
) -> Finding {
    match found {
        Ok(all) if all.is_empty() => Finding::not_ready(condition, missing, why()),
        Ok(_) => Finding::ready(condition),
        Err(error) => Finding::unknown(condition, error.code(), error.to_string()),
    }
}

/// Well also where none is found: what is not reserved is bought. So it is where EC2 does not let us ask for open ones, which
/// nobody has selected.
fn reservations_finding(reservations: &Result<Vec<CapacityReservation>, CloudError>, open: bool) -> Finding {
    let condition = conditions::CAPACITY_RESERVATIONS_READY;
    match reservations {
        Ok(_) => Finding::ready(condition),
        Err(error) if open && !error.is_retryable() => {
            let message = format!("open reservations are not used, as they are not known: {error}");
            let reason = conditions::OPEN_RESERVATIONS_UNKNOWN.to_owned();
            Finding { condition, status: Some(true), reason, message }
        }
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
