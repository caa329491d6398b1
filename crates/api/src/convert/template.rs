//! AWSNodeTemplate, and a Provisioner's inline provider, to EC2NodeClass (aws spec 10.2, 10.3).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{ConversionContext, ConvertError, Converted, family, metadata, selector};
use crate::{
    names::{labels, tags},
    v1::{EC2NodeClass, EC2NodeClassSpec, MetadataOptions, SecurityGroupSelectorTerm, SubnetSelectorTerm},
    v1alpha1::{AWSNodeTemplate, AlphaMetadataOptions, Aws},
};

/// Converts an AWSNodeTemplate.
///
/// # Errors
/// It names a launch template, which v1 does not know.
pub fn node_template(old: &AWSNodeTemplate, context: &ConversionContext) -> Result<Converted, ConvertError> {
    let mut converted = Converted::default();
    let mut class = class_of(&old.spec.aws, &["spec"], context, &mut converted)?;
    class.user_data.clone_from(&old.spec.user_data);
    class.detailed_monitoring = old.spec.detailed_monitoring;
    class.ami_selector_terms =
        if old.spec.ami_selector.is_empty() { vec![] } else { selector::images(&old.spec.ami_selector) };
    let node_class = finish(class, metadata(old), old.spec.aws.ami_family.as_deref(), context, &mut converted);
    Ok(Converted { node_class: Some(node_class), ..converted })
}

/// The class of a Provisioner that references none.
pub(super) fn inline(
    aws: &Aws,
    metadata: ObjectMeta,
    context: &ConversionContext,
    converted: &mut Converted,
) -> Result<EC2NodeClass, ConvertError> {
    let class = class_of(aws, &["spec", "provider"], context, converted)?;
    Ok(finish(class, metadata, aws.ami_family.as_deref(), context, converted))
}

fn finish(
    mut class: EC2NodeClassSpec,
    mut metadata: ObjectMeta,
    said: Option<&str>,
    context: &ConversionContext,
    converted: &mut Converted,
) -> EC2NodeClass {
    let notes = metadata.annotations.get_or_insert_default();
    family::settle(&mut class, said, notes, context, converted);
    EC2NodeClass { metadata, spec: class, status: None }
}

/// The class of the fields that both forms have, images apart.
fn class_of(
    aws: &Aws,
    at: &[&str],
    context: &ConversionContext,
    converted: &mut Converted,
) -> Result<EC2NodeClassSpec, ConvertError> {
    if aws.launch_template.is_some() {
        let path: Vec<&str> = at.iter().copied().chain(["launchTemplate"]).collect();
        return Err(ConvertError::new(
            &path,
            "launch templates of one's own are no longer supported",
            "userData, blockDeviceMappings, amiSelector, instanceProfile and securityGroupSelector instead",
        ));
    }
    let profile = aws.instance_profile.clone().or_else(|| context.default_instance_profile.clone());
    let role = profile.is_none().then(|| context.node_role());
    note_defaults(aws, at, context, converted);
    Ok(EC2NodeClassSpec {
        subnet_selector_terms: if aws.subnet_selector.is_empty() {
            vec![SubnetSelectorTerm { tags: context.discovery(), ..Default::default() }]
        } else {
            selector::subnets(&aws.subnet_selector)
        },
        security_group_selector_terms: if aws.security_group_selector.is_empty() {
            vec![SecurityGroupSelectorTerm { tags: context.discovery(), ..Default::default() }]
        } else {
            selector::security_groups(&aws.security_group_selector)
        },
        role,
        instance_profile: profile,
        tags: own_tags(&aws.tags, at, converted),
        context: aws.context.clone(),
        metadata_options: metadata_options(aws.metadata_options.as_ref()),
        block_device_mappings: family::disks(&aws.block_device_mappings),
        ..EC2NodeClassSpec::default()
    })
}

/// Names what an object that does not say it means: selectors by the cluster's name, profile or role, metadata options.
fn note_defaults(aws: &Aws, at: &[&str], context: &ConversionContext, converted: &mut Converted) {
    let at = at.join(".");
    let tag = context.discovery().into_iter().map(|(key, value)| format!("{key}: {value}")).collect::<String>();
    for (field, unsaid) in [
        ("subnetSelector", aws.subnet_selector.is_empty()),
        ("securityGroupSelector", aws.security_group_selector.is_empty()),
    ] {
        converted.defaults.extend(unsaid.then(|| format!("{at}.{field}: {tag}")));
    }
    if aws.instance_profile.is_none() {
        converted.defaults.push(match &context.default_instance_profile {
            Some(profile) => format!("{at}.instanceProfile: {profile} (DEFAULT_INSTANCE_PROFILE)"),
            None => format!("{at}.instanceProfile: one of the role {}", context.node_role()),
        });
    }
    if aws.metadata_options.is_none() {
        converted.defaults.push(format!("{at}.metadataOptions: httpPutResponseHopLimit 2, httpTokens required"));
    }
}

/// Tags without those that Karpenter itself writes or wrote.
fn own_tags(written: &BTreeMap<String, String>, at: &[&str], converted: &mut Converted) -> BTreeMap<String, String> {
    let ours = |key: &str| {
        key.starts_with("kubernetes.io/cluster")
            || matches!(
                key,
                tags::MANAGED_BY | tags::CLUSTER_NAME | tags::NODE_POOL | tags::NODE_CLAIM | tags::NODE_CLASS
            )
            || key == labels::PROVISIONER_NAME
    };
    let (dropped, kept): (BTreeMap<_, _>, BTreeMap<_, _>) = written.clone().into_iter().partition(|(key, _)| ours(key));
    for key in dropped.keys() {
        converted.warnings.push(format!("tag {key} is written by the control plane itself; it is left out"));
        converted.left_out.push(format!("{}.tags[{key}]: the control plane writes this tag itself", at.join(".")));
    }
    kept
}

/// An unset object meant hop limit 2 and tokens required; a partially filled one fell to EC2's defaults.
fn metadata_options(written: Option<&AlphaMetadataOptions>) -> MetadataOptions {
    let Some(written) = written else {
        return MetadataOptions { http_put_response_hop_limit: 2, ..Default::default() };
    };
    let text = |value: &Option<String>, default: &str| value.clone().unwrap_or_else(|| default.into());
    MetadataOptions {
        http_endpoint: text(&written.http_endpoint, "enabled"),
        http_protocol_ipv6: text(&written.http_protocol_ipv6, "disabled"),
        http_put_response_hop_limit: written.http_put_response_hop_limit.unwrap_or(1),
        http_tokens: text(&written.http_tokens, "optional"),
    }
}
