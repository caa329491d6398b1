//! Resources made for node classes: launch templates and instance profiles, found again when nothing uses them (karpenter-aws
//! 4.3, 4.9). Only those that carry this cluster's UID are ours.

use aws_sdk_ec2::types::LaunchTemplate;
use dovetail_api::names::tags;
use jiff::Timestamp;

use crate::cloud::{MadeKind, MadeResource};
use crate::ec2::Ec2Cloud;
use crate::ec2::classify::{Effect, classify};
use crate::ec2::describe::filter;
use crate::ec2::services::{InstanceProfile, next_page};
use crate::error::CloudError;

const PAGE: i32 = 200;

impl Ec2Cloud {
    /// One kind without the other where that cannot be listed: a VPC may have no way to IAM, and has templates.
    pub(in crate::ec2) async fn list_made(&self) -> Result<Vec<MadeResource>, CloudError> {
        if self.settings.cluster_uid.is_empty() {
            return Ok(Vec::new());
        }
        let mut made = match futures::join!(self.made_templates(), self.made_profiles()) {
            (Ok(templates), Ok(profiles)) => [templates, profiles].concat(),
            (Ok(listed), Err(error)) | (Err(error), Ok(listed)) => {
                tracing::warn!(%error, "not all that was made for node classes can be listed");
                listed
            }
            (Err(error), Err(_)) => return Err(error),
        };
        made.sort();
        Ok(made)
    }

    async fn made_templates(&self) -> Result<Vec<MadeResource>, CloudError> {
        let settings = &self.settings;
        let call = self.clients.ec2.describe_launch_templates().max_results(PAGE).set_filters(Some(vec![
            filter(format!("tag:{}", tags::CLUSTER_NAME), [settings.cluster_name.as_str()]),
            filter(format!("tag:{}", tags::CLUSTER_UID), [settings.cluster_uid.as_str()]),
        ]));
        let mut items = call.into_paginator().items().send();
        let mut made = Vec::new();
        while let Some(item) = items.next().await {
            let item = item.map_err(|e| classify("DescribeLaunchTemplates", Effect::Repeatable, e))?;
            made.extend(template_of(&item).map(|made| MadeResource { in_use: self.uses_template(&made.name), ..made }));
        }
        Ok(made)
    }

    /// None where the VPC is isolated: there is no way to IAM (`ISOLATED_VPC`).
    async fn made_profiles(&self) -> Result<Vec<MadeResource>, CloudError> {
        if self.settings.isolated_vpc {
            return Ok(Vec::new());
        }
        let prefix = format!("/karpenter/{}/{}/", self.region, self.settings.cluster_name);
        let (mut made, mut marker) = (Vec::new(), None);
        loop {
            let page = self.clients.iam.list_instance_profiles(&prefix, marker.as_deref()).await;
            let page = page.map_err(|e| classify("ListInstanceProfiles", Effect::Repeatable, e))?;
            for item in page.profiles {
                made.extend(self.made_profile(item, &prefix).await?);
            }
            match next_page(marker.as_deref(), page.marker) {
                None => return Ok(made),
                next => marker = next,
            }
        }
    }

    /// A listed profile as what we made; none where another made it, or where it is gone by now.
    async fn made_profile(&self, item: InstanceProfile, prefix: &str) -> Result<Option<MadeResource>, CloudError> {
        // A listing does not show tags.
        let Some(whole) = self.find_profile(&item.name).await? else { return Ok(None) };
        if whole.tag(tags::CLUSTER_UID) != Some(&self.settings.cluster_uid) {
            return Ok(None);
        }
        Ok(Some(MadeResource {
            kind: MadeKind::InstanceProfile,
            class: whole.tag(tags::NODE_CLASS).unwrap_or_default().to_owned(),
            class_uid: item.path.strip_prefix(prefix).map(|rest| rest.trim_end_matches('/').to_owned()),
            created: item.created.and_then(|created| Timestamp::from_second(created.secs()).ok()),
            name: item.name,
            in_use: false,
        }))
    }

    pub(in crate::ec2) async fn remove_one_made(&self, made: &MadeResource) -> Result<(), CloudError> {
        match made.kind {
            // Listed some time ago: what a launch has come to need since is not taken from it.
            MadeKind::LaunchTemplate if self.uses_template(&made.name) => {
                Err(CloudError::invalid("DeleteLaunchTemplate", "InUse", "a launch has come to need it"))
            }
            MadeKind::LaunchTemplate => self.delete_template(&made.name).await,
            MadeKind::InstanceProfile => match self.find_profile(&made.name).await? {
                Some(profile) => self.delete_profile(&profile).await,
                None => Ok(()),
            },
        }
    }
}

fn template_of(template: &LaunchTemplate) -> Option<MadeResource> {
    let class = template.tags().iter().find(|tag| tag.key() == Some(tags::NODE_CLASS))?.value()?;
    Some(MadeResource {
        kind: MadeKind::LaunchTemplate,
        name: template.launch_template_name()?.to_owned(),
        class: class.to_owned(),
        class_uid: None,
        in_use: false,
        created: template.create_time().and_then(|time| Timestamp::from_second(time.secs()).ok()),
    })
}
