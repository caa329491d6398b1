//! Images of a node class: by alias through SSM, or by id, name, tags and owner (karpenter-aws 1.2, 4.7).

use std::collections::BTreeMap;

use aws_sdk_ec2::types::{Filter, Image};
use dovetail_api::names::{alias, labels};
use dovetail_api::v1::{Ami, AmiSelectorTerm, EC2NodeClassSpec};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeSelectorRequirement;

use crate::ec2::Ec2Cloud;
use crate::ec2::cache::TtlCache;
use crate::ec2::classify::{Effect, classify};
use crate::ec2::describe::filter;
use crate::ec2::resolving::network::tag_filters;
use crate::error::CloudError;
use crate::family::AmiFamily;
use crate::launch::images::{ImageQuery, Variant, alias_queries};

const PAGE: i32 = 1000;
/// Most images that no node can run, for each term, that a message names.
const MOST_UNFIT: usize = 3;
/// The version of an alias whose parameters change with each release.
const LATEST: &str = "latest";

/// An image with what is needed to choose among its like.
struct Found {
    created: String,
    ami: Ami,
}

/// Images that a class's selector finds.
#[derive(Debug, Default)]
pub(in crate::ec2) struct SelectedImages {
    /// Newest first; of equals in what they need, the best one only.
    pub amis: Vec<Ami>,
    /// Images that no node can run, each with its architecture.
    pub unfit: Vec<String>,
}

impl Ec2Cloud {
    /// The class's images, newest first; of equals in what they need, the best one only. With `by_tags` an image's tags of
    /// well-known labels are what it is for, as they were for an AWSNodeTemplate (karpenter-aws 10.2).
    pub(in crate::ec2) async fn images_of(
        &self,
        spec: &EC2NodeClassSpec,
        version: &str,
        by_tags: bool,
    ) -> Result<SelectedImages, CloudError> {
        let (mut found, mut unfit) = (Vec::new(), Vec::new());
        for term in &spec.ami_selector_terms {
            match &term.alias {
                Some(alias) => found.extend(self.images_of_alias(alias, version).await?),
                None => found.extend(self.images_of_term(term, by_tags, &mut unfit).await?),
            }
        }
        Ok(SelectedImages { amis: newest_of_each(found), unfit })
    }

    async fn images_of_alias(&self, alias: &str, version: &str) -> Result<Vec<Found>, CloudError> {
        let (name, image_version) = alias.split_once('@').unwrap_or((alias, "latest"));
        let Some(family) = AmiFamily::parse(name) else {
            return Err(CloudError::invalid("ResolveAlias", "UnknownFamily", format!("unknown alias {alias:?}")));
        };
        let mut variants: BTreeMap<String, Vec<Variant>> = BTreeMap::new();
        let mut named: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for ImageQuery { path, variants: serves } in alias_queries(family, version, image_version) {
            if let Some(id) = self.parameter(&self.memory.parameters, &path).await? {
                variants.entry(id.clone()).or_default().extend(serves);
                named.entry(id).or_default().push(path);
            }
        }
        if variants.is_empty() {
            return Ok(Vec::new());
        }
        let images = self.describe_images(vec![filter("image-id", variants.keys().cloned())], None).await?;
        if image_version == LATEST {
            self.forget_deprecated(&images, &named);
        }
        let entries = images.iter().flat_map(|image| {
            let serves = image.image_id().and_then(|id| variants.get(id)).cloned().unwrap_or_default();
            serves.into_iter().filter_map(|variant| found(image, Some(variant), family, self.clock.wall()))
        });
        Ok(entries.collect())
    }

    async fn images_of_term(
        &self,
        term: &AmiSelectorTerm,
        by_tags: bool,
        unfit: &mut Vec<String>,
    ) -> Result<Vec<Found>, CloudError> {
        let mut filters = tag_filters(&term.tags);
        if let Some(parameter) = &term.ssm_parameter {
            match self.parameter(&self.memory.own_parameters, parameter).await? {
                Some(id) if id.starts_with("ami-") => filters.push(filter("image-id", [id])),
                _ => {
                    tracing::warn!(parameter, "an SSM parameter names no image; skipped");
                    return Ok(Vec::new());
                }
            }
        }
        filters.extend(term.id.as_deref().map(|id| filter("image-id", [id])));
        filters.extend(term.name.as_deref().map(|name| filter("name", [name])));
        let owners = match (&term.owner, &term.name) {
            (Some(owner), _) => Some(vec![owner.clone()]),
            (None, Some(_)) => Some(vec!["self".to_owned(), "amazon".to_owned()]),
            (None, None) => None,
        };
        let images = self.describe_images(filters, owners).await?;
        let now = self.clock.wall();
        unfit.extend(images.iter().filter(|image| arch_of(image).is_none()).take(MOST_UNFIT).map(|image| {
            let arch = image.architecture().map_or("no architecture", |arch| arch.as_str());
            format!("{} of {arch}", image.image_id().unwrap_or_default())
        }));
        let one = |image: &Image| {
            let mut found = found(image, None, AmiFamily::Custom, now)?;
            if by_tags {
                require_tags(&mut found.ami.requirements, image);
            }
            Some(found)
        };
        Ok(images.iter().filter_map(one).collect())
    }

    async fn describe_images(
        &self,
        mut filters: Vec<Filter>,
        owners: Option<Vec<String>>,
    ) -> Result<Vec<Image>, CloudError> {
        filters.push(filter("state", ["available"]));
        let call = self.clients.ec2.describe_images().include_deprecated(true).max_results(PAGE);
        let mut items = call.set_filters(Some(filters)).set_owners(owners).into_paginator().items().send();
        let mut images = Vec::new();
        while let Some(item) = items.next().await {
            images.push(item.map_err(|e| classify("DescribeImages", Effect::Repeatable, e))?);
        }
        Ok(images)
    }

    /// Forgets parameters that change with each release and name an image that is deprecated by now: the next look asks for
    /// them anew, each once in half an hour (karpenter-aws 4.7).
    fn forget_deprecated(&self, images: &[Image], named: &BTreeMap<String, Vec<String>>) {
        let now = self.clock.wall();
        let old = images.iter().filter(|image| is_deprecated(image, now)).filter_map(Image::image_id);
        for path in old.filter_map(|id| named.get(id)).flatten() {
            if self.memory.forgotten_parameters.get(self.now(), path).is_none() {
                self.memory.forgotten_parameters.put(self.now(), path.clone(), ());
                self.memory.parameters.forget(path);
            }
        }
    }

    /// Value of an SSM parameter, kept for as long as `known` keeps it; `None` when it does not exist.
    async fn parameter(&self, known: &TtlCache<String, String>, path: &str) -> Result<Option<String>, CloudError> {
        let key = path.to_owned();
        if let Some(value) = known.get(self.now(), &key) {
            return Ok(Some(value));
        }
        let value = match self.clients.ssm.get_parameter(path).await {
            Ok(value) => value,
            Err(error) => match classify("GetParameter", Effect::Repeatable, error) {
                error if error.is_not_found() => None,
                error => return Err(error),
            },
        };
        // A missing parameter may be published any minute; a value stays.
        if let Some(value) = &value {
            known.put(self.now(), key, value.clone());
        }
        Ok(value)
    }
}

/// Kubernetes' name of an image's architecture; none for one that no node has.
fn arch_of(image: &Image) -> Option<&'static str> {
    match image.architecture()?.as_str() {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    }
}

fn found(image: &Image, variant: Option<Variant>, family: AmiFamily, now: Timestamp) -> Option<Found> {
    let arch = arch_of(image)?;
    let mut requirements = vec![requirement(labels::ARCH, "In", &[arch])];
    requirements.extend(variant.into_iter().flat_map(variant_requirements));
    if let Some(build) = family.windows_build() {
        requirements.push(requirement(labels::OS, "In", &["windows"]));
        requirements.push(requirement(labels::WINDOWS_BUILD, "In", &[build]));
    }
    requirements.sort_by(|a, b| (a.key.len(), &a.key).cmp(&(b.key.len(), &b.key)));
    let ami = Ami {
        id: image.image_id()?.to_owned(),
        name: image.name().unwrap_or_default().to_owned(),
        deprecated: is_deprecated(image, now),
        requirements,
    };
    Some(Found { created: image.creation_date().unwrap_or_default().to_owned(), ami })
}

fn is_deprecated(image: &Image, now: Timestamp) -> bool {
    image.deprecation_time().and_then(|at| at.parse::<Timestamp>().ok()).is_some_and(|at| at <= now)
}

/// Adds what an image's tags ask for: of a tag that is a well-known label, a node has to have its value.
fn require_tags(requirements: &mut Vec<NodeSelectorRequirement>, image: &Image) {
    for tag in image.tags() {
        let (Some(key), Some(value)) = (tag.key().map(alias::normalize), tag.value()) else { continue };
        if labels::is_well_known(key) && !value.is_empty() {
            requirements.retain(|one| one.key != key);
            requirements.push(requirement(key, "In", &[value]));
        }
    }
    requirements.sort_by(|a, b| (a.key.len(), &a.key).cmp(&(b.key.len(), &b.key)));
}

fn variant_requirements(variant: Variant) -> Vec<NodeSelectorRequirement> {
    match variant {
        Variant::Standard => vec![
            requirement(labels::INSTANCE_GPU_COUNT, "DoesNotExist", &[]),
            requirement(labels::INSTANCE_ACCELERATOR_COUNT, "DoesNotExist", &[]),
        ],
        Variant::Nvidia => vec![requirement(labels::INSTANCE_GPU_COUNT, "Exists", &[])],
        Variant::Neuron => vec![requirement(labels::INSTANCE_ACCELERATOR_COUNT, "Exists", &[])],
        Variant::Any => Vec::new(),
    }
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
    let values = (!values.is_empty()).then(|| values.iter().map(|v| (*v).to_owned()).collect());
    NodeSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
}

/// One image for each set of requirements: not deprecated, then the newest, then the greatest name. Newest first.
fn newest_of_each(mut all: Vec<Found>) -> Vec<Ami> {
    all.sort_by(|a, b| {
        let better = |f: &Found| (!f.ami.deprecated, f.created.clone(), f.ami.name.clone());
        better(b).cmp(&better(a)).then_with(|| a.ami.id.cmp(&b.ami.id))
    });
    let mut kept: Vec<Found> = Vec::new();
    for one in all {
        if !kept.iter().any(|k| k.ami.requirements == one.ami.requirements) {
            kept.push(one);
        }
    }
    kept.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| a.ami.id.cmp(&b.ami.id)));
    kept.into_iter().map(|f| f.ami).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, created: &str, deprecated: bool, arch: &str) -> Found {
        let requirements = vec![requirement(labels::ARCH, "In", &[arch])];
        let ami = Ami { id: id.into(), name: id.into(), deprecated, requirements };
        Found { created: created.into(), ami }
    }

    #[test]
    fn an_images_tags_of_well_known_labels_are_what_it_is_for() {
        let tag = |key: &str, value: &str| aws_sdk_ec2::types::Tag::builder().key(key).value(value).build();
        let image = Image::builder()
            .tags(tag("karpenter.k8s.aws/instance-category", "g"))
            .tags(tag("beta.kubernetes.io/arch", "arm64"))
            .tags(tag("team", "a"))
            .build();
        let mut requirements = vec![requirement(labels::ARCH, "In", &["amd64"])];
        require_tags(&mut requirements, &image);
        let expected =
            vec![requirement(labels::ARCH, "In", &["arm64"]), requirement(labels::INSTANCE_CATEGORY, "In", &["g"])];
        assert_eq!(requirements, expected);
    }

    #[test]
    fn of_images_with_same_needs_newest_undeprecated_stays() {
        let all = vec![
            image("ami-old", "2026-01-01", false, "amd64"),
            image("ami-dead", "2026-03-01", true, "amd64"),
            image("ami-new", "2026-02-01", false, "amd64"),
            image("ami-arm", "2026-02-15", false, "arm64"),
        ];
        let ids: Vec<String> = newest_of_each(all).into_iter().map(|a| a.id).collect();
        assert_eq!(ids, ["ami-arm", "ami-new"]);
    }
}
