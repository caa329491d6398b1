//! Launch templates: found or made, named by the hash of what they say (karpenter-aws 4.3).

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{RequestLaunchTemplateData, ResourceType};
use dovetail_api::names::tags;
use dovetail_api::v1::EC2NodeClass;
use kube::ResourceExt;

use crate::ec2::Ec2Cloud;
use crate::ec2::classify::{Effect, classify};
use crate::ec2::describe::filter;
use crate::ec2::launching::template_data::tag_specification;
use crate::ec2::launching::template_text::template_text;
use crate::error::CloudError;
use crate::hash::fnv_parts;

const PREFIX: &str = "karpenter.k8s.aws/";
const PAGE: i32 = 200;

/// A template's name says what it holds: the hash of its text, which no version of the SDK changes.
pub(in crate::ec2) fn template_name(cluster: &str, class: &str, data: &RequestLaunchTemplateData) -> String {
    format!("{PREFIX}{}", fnv_parts(&[cluster, class, &template_text(data)]))
}

impl Ec2Cloud {
    /// Name of a template with this content; it exists when this returns.
    pub(in crate::ec2) async fn ensure_template(
        &self,
        class: &EC2NodeClass,
        data: RequestLaunchTemplateData,
        tags: &BTreeMap<String, String>,
    ) -> Result<String, CloudError> {
        let name = template_name(&self.settings.cluster_name, &class.name_any(), &data);
        let made = || {
            let (this, name, tags) = (self.clone(), name.clone(), tags.clone());
            async move {
                match this.template_exists(&name).await? {
                    true => Ok(()),
                    false => this.create_template(&name, data, &tags).await,
                }
            }
        };
        self.memory.used_templates.put(self.now(), name.clone(), ());
        self.memory.templates.get_or_ask(|| self.now(), name.clone(), made).await?;
        Ok(name)
    }

    /// True if a launch has needed it within the last hour.
    pub(in crate::ec2) fn uses_template(&self, name: &str) -> bool {
        self.memory.used_templates.get(self.now(), &name.to_owned()).is_some()
    }

    /// The template turned out to be gone.
    pub(in crate::ec2) fn forget_template(&self, name: &str) {
        self.memory.templates.forget(&name.to_owned());
    }

    async fn template_exists(&self, name: &str) -> Result<bool, CloudError> {
        match self.clients.ec2.describe_launch_templates().launch_template_names(name).send().await {
            Ok(answer) => Ok(!answer.launch_templates().is_empty()),
            Err(error) => match classify("DescribeLaunchTemplates", Effect::Repeatable, error) {
                error if error.is_not_found() => Ok(false),
                error => Err(error),
            },
        }
    }

    async fn create_template(
        &self,
        name: &str,
        data: RequestLaunchTemplateData,
        tags: &BTreeMap<String, String>,
    ) -> Result<(), CloudError> {
        let call = self.clients.ec2.create_launch_template().launch_template_name(name).launch_template_data(data);
        // The SDK would make a random token; ours differs from that of an earlier template that was deleted.
        let token = format!("{:x}-{}", fnv_parts(&[name]), self.clock.wall().as_millisecond());
        let call = call.client_token(token).tag_specifications(tag_specification(ResourceType::LaunchTemplate, tags));
        match call.send().await.map_err(|e| classify("CreateLaunchTemplate", Effect::Repeatable, e)) {
            // Its name is its content: whoever was quicker made the same one.
            Err(error) if error.code().contains("AlreadyExists") => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Deletes every template of a class that this cluster's control plane has made: those that carry its UID. Karpenter's carry
    /// the cluster's name and the class's as well, and are left to it.
    pub(in crate::ec2) async fn remove_templates(&self, class: &EC2NodeClass) -> Result<(), CloudError> {
        if self.settings.cluster_uid.is_empty() {
            return Ok(());
        }
        let call = self.clients.ec2.describe_launch_templates().max_results(PAGE).set_filters(Some(vec![
            filter(format!("tag:{}", tags::CLUSTER_NAME), [self.settings.cluster_name.as_str()]),
            filter(format!("tag:{}", tags::CLUSTER_UID), [self.settings.cluster_uid.as_str()]),
            filter(format!("tag:{}", tags::NODE_CLASS), [class.name_any()]),
        ]));
        let mut items = call.into_paginator().items().send();
        while let Some(item) = items.next().await {
            let item = item.map_err(|e| classify("DescribeLaunchTemplates", Effect::Repeatable, e))?;
            let Some(name) = item.launch_template_name else { continue };
            self.delete_template(&name).await?;
        }
        Ok(())
    }

    /// Deletes a template by its name.
    pub(in crate::ec2) async fn delete_template(&self, name: &str) -> Result<(), CloudError> {
        let delete = self.clients.ec2.delete_launch_template().launch_template_name(name).send().await;
        self.forget_template(name);
        match delete.map_err(|e| classify("DeleteLaunchTemplate", Effect::Repeatable, e)) {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}
