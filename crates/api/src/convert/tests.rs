#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};

use super::*;
use crate::{
    names::{alias, labels},
    schema::{UnknownFields, schema_for},
    v1::{ConsolidationPolicy, DurationOrNever, EC2NodeClass, NodePool, NodeSelectorOperator},
};

fn converted(object: &Value) -> Converted {
    let converted = to_v1(object, &ConversionContext { kubernetes_minor: Some(33), ..ConversionContext::new("demo") })
        .unwrap()
        .unwrap();
    if let Some(pool) = &converted.node_pool {
        accepted(&serde_json::to_value(pool).unwrap());
    }
    if let Some(class) = &converted.node_class {
        accepted(&serde_json::to_value(class).unwrap());
    }
    converted
}

/// Asserts that v1's own schema accepts a converted object.
fn accepted(object: &Value) {
    let schema = schema_for(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap()).unwrap();
    assert_eq!(schema.validate(object, UnknownFields::Refuse), [], "{object:#}");
    assert_eq!(schema.check_rules(object, None), [], "{object:#}");
}

fn provisioner(spec: Value) -> (NodePool, Option<EC2NodeClass>) {
    let object = json!({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "default"}, "spec": spec});
    let converted = converted(&object);
    (converted.node_pool.unwrap(), converted.node_class)
}

fn template(spec: Value) -> EC2NodeClass {
    let object = json!({"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": {"name": "default"}, "spec": spec});
    converted(&object).node_class.unwrap()
}

fn beta_pool(disruption: Value) -> NodePool {
    let object = json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
        "template": {"spec": {"requirements": [], "nodeClassRef": {"name": "default"}}}, "disruption": disruption}});
    converted(&object).node_pool.unwrap()
}

fn written(pool: &NodePool) -> Vec<(String, NodeSelectorOperator, Vec<String>)> {
    let requirements = &pool.spec.template.spec.requirements;
    requirements.iter().map(|one| (one.key.clone(), one.operator, one.values.clone())).collect()
}

#[test]
fn an_empty_provisioner_gets_what_alphas_webhook_added() {
    let (pool, class) = provisioner(json!({}));
    let expected = [
        (labels::OS, NodeSelectorOperator::In, vec!["linux"]),
        (labels::ARCH, NodeSelectorOperator::In, vec!["amd64"]),
        (labels::CAPACITY_TYPE, NodeSelectorOperator::In, vec!["on-demand"]),
        (labels::INSTANCE_CATEGORY, NodeSelectorOperator::In, vec!["c", "m", "r"]),
        (labels::INSTANCE_GENERATION, NodeSelectorOperator::Gt, vec!["2"]),
    ];
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(key, operator, values)| (key.to_string(), operator, values.into_iter().map(String::from).collect()))
        .collect();
    assert_eq!(written(&pool), expected);
    let class = class.unwrap();
    assert_eq!(class.metadata.name.as_deref(), Some("default"));
    assert_eq!(class.spec.role.as_deref(), Some("KarpenterNodeRole-demo"));
    assert_eq!(class.spec.subnet_selector_terms[0].tags["karpenter.sh/discovery"], "demo");
    assert_eq!(class.spec.security_group_selector_terms[0].tags["karpenter.sh/discovery"], "demo");
    assert_eq!(class.spec.ami_selector_terms[0].alias.as_deref(), Some("al2023@latest"));
    assert_eq!(class.spec.metadata_options.http_put_response_hop_limit, 2);
}

#[test]
fn what_is_named_by_requirement_or_label_is_not_added() {
    for key in
        ["node.k8s.aws/instance-type", labels::INSTANCE_FAMILY, labels::INSTANCE_CATEGORY, labels::INSTANCE_GENERATION]
    {
        let (pool, _) = provisioner(json!({"requirements": [{"key": key, "operator": "Exists"}]}));
        let keys: Vec<_> = written(&pool).into_iter().map(|(key, ..)| key).collect();
        assert_eq!(keys, [alias::normalize(key), labels::OS, labels::ARCH, labels::CAPACITY_TYPE], "{key}");
    }
    let (pool, _) = provisioner(json!({"labels": {"kubernetes.io/arch": "arm64"}}));
    assert!(!written(&pool).iter().any(|(key, ..)| key == labels::ARCH));
}

#[test]
fn alpha_disruption_keeps_its_meaning() {
    let (pool, _) = provisioner(json!({"ttlSecondsAfterEmpty": 30}));
    assert_eq!(pool.spec.disruption.consolidation_policy, ConsolidationPolicy::WhenEmpty);
    assert_eq!(pool.spec.disruption.consolidate_after, DurationOrNever::from_secs(30));
    assert_eq!(pool.metadata.annotations.as_ref().unwrap()[annotations::TTL_SECONDS_AFTER_EMPTY], "30");
    assert_eq!(pool.spec.template.spec.expire_after, DurationOrNever::Never);

    let (pool, _) = provisioner(json!({"consolidation": {"enabled": true}, "ttlSecondsUntilExpired": 3600}));
    assert_eq!(pool.spec.disruption.consolidation_policy, ConsolidationPolicy::WhenEmptyOrUnderutilized);
    assert_eq!(pool.spec.disruption.consolidate_after, DurationOrNever::from_secs(0));
    assert_eq!(pool.spec.template.spec.expire_after, DurationOrNever::from_secs(3600));

    for neither in [json!({}), json!({"consolidation": {"enabled": false}}), json!({"consolidation": null})] {
        let (pool, _) = provisioner(neither);
        assert_eq!(pool.spec.disruption.consolidation_policy, ConsolidationPolicy::WhenEmpty);
        assert_eq!(pool.spec.disruption.consolidate_after, DurationOrNever::Never);
    }
}

#[test]
fn a_reference_to_a_node_template_becomes_one_to_a_class() {
    let (pool, class) = provisioner(json!({"providerRef": {"name": "mine", "kind": "AWSNodeTemplate"}}));
    assert_eq!(pool.spec.template.spec.node_class_ref, v1::NodeClassRef::ec2("mine"));
    assert_eq!(class, None);
}

#[test]
fn a_node_template_keeps_what_it_says() {
    let class = template(json!({
        "amiFamily": "Bottlerocket", "subnetSelector": {"aws-ids": "subnet-1,subnet-2"}, "securityGroupSelector": {"team": "a"},
        "instanceProfile": "profile", "userData": "x", "detailedMonitoring": true,
        "metadataOptions": {"httpEndpoint": "enabled"}, "tags": {"team": "a", "karpenter.sh/managed-by": "b"},
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "20Gi"}}],
    }));
    assert_eq!(class.spec.ami_selector_terms[0].alias.as_deref(), Some("bottlerocket@latest"));
    assert_eq!((class.spec.role, class.spec.instance_profile.as_deref()), (None, Some("profile")));
    assert_eq!(class.spec.subnet_selector_terms.len(), 2);
    assert_eq!(class.spec.tags.keys().collect::<Vec<_>>(), ["team"]);
    assert_eq!(class.spec.metadata_options.http_tokens, "optional");
    assert_eq!(class.spec.metadata_options.http_put_response_hop_limit, 1);
    let class = template(json!({"amiFamily": "Custom", "amiSelector": {"aws::name": "mine-*"}}));
    assert_eq!(class.spec.ami_family.as_deref(), Some("Custom"));
    assert_eq!(class.spec.ami_selector_terms[0].name.as_deref(), Some("mine-*"));
}

#[test]
fn al2_stays_where_it_has_images_and_where_it_is_asked_for() {
    let old = json!({"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": {"name": "a"}, "spec": {}});
    let alias = |minor: Option<u32>, spec: Value| {
        let mut object = old.clone();
        object["spec"] = spec;
        let context = ConversionContext { kubernetes_minor: minor, ..ConversionContext::new("demo") };
        let converted = to_v1(&object, &context).unwrap().unwrap();
        (converted.node_class.unwrap().spec.ami_selector_terms[0].alias.clone().unwrap(), converted.warnings.len())
    };
    assert_eq!(alias(Some(32), json!({})), ("al2@latest".into(), 0));
    assert_eq!(alias(Some(33), json!({})), ("al2023@latest".into(), 1));
    assert_eq!(alias(None, json!({"amiFamily": "AL2"})), ("al2@latest".into(), 1));
}

#[test]
fn a_launch_template_is_refused() {
    let object = json!({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "a"}, "spec": {"provider": {"launchTemplate": "mine"}}});
    let error = to_v1(&object, &ConversionContext::new("demo")).unwrap().unwrap_err();
    assert_eq!(error.path.to_string(), "spec.provider.launchTemplate");
}

#[test]
fn v1beta1_pools_keep_their_meaning() {
    let pool = beta_pool(json!({"consolidationPolicy": "WhenUnderutilized"}));
    assert_eq!(pool.spec.disruption.consolidation_policy, ConsolidationPolicy::WhenEmptyOrUnderutilized);
    assert_eq!(pool.spec.disruption.consolidate_after, DurationOrNever::from_secs(0));
    assert_eq!(pool.spec.template.spec.expire_after.to_string(), "720h");
    assert_eq!(pool.spec.template.spec.node_class_ref, v1::NodeClassRef::ec2("default"));
    let pool = beta_pool(
        json!({"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "Never", "expireAfter": "Never"}),
    );
    assert_eq!(pool.spec.disruption.consolidate_after, DurationOrNever::Never);
    assert_eq!(pool.spec.template.spec.expire_after, DurationOrNever::Never);
    let pool = beta_pool(json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s", "budgets": []}));
    assert_eq!(pool.spec.disruption.consolidation_policy, ConsolidationPolicy::WhenEmpty);
    assert!(pool.spec.disruption.budgets.is_empty());
}

#[test]
fn v1beta1_classes_keep_their_meaning() {
    let class = |spec: Value| {
        let mut spec = spec;
        spec["role"] = json!("r");
        for terms in ["subnetSelectorTerms", "securityGroupSelectorTerms"] {
            spec[terms] = json!([{"tags": {"a": "b"}}]);
        }
        let object = json!({"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "metadata": {"name": "a"}, "spec": spec});
        converted(&object).node_class.unwrap()
    };
    let kept = class(json!({"amiFamily": "AL2", "amiSelectorTerms": [{"id": "ami-1"}]}));
    assert_eq!(kept.spec.ami_family.as_deref(), Some("AL2"));
    assert_eq!(kept.spec.metadata_options.http_put_response_hop_limit, 2);
    let alias = class(json!({"amiFamily": "AL2023", "metadataOptions": {"httpTokens": "optional"}}));
    assert_eq!(
        (alias.spec.ami_family, alias.spec.ami_selector_terms[0].alias.as_deref()),
        (None, Some("al2023@latest"))
    );
    assert_eq!(alias.spec.metadata_options.http_put_response_hop_limit, 2);
    let ubuntu = class(json!({"amiFamily": "Ubuntu"}));
    assert_eq!(ubuntu.spec.ami_selector_terms[0].id.as_deref(), Some("ami-placeholder"));
    assert_eq!(
        ubuntu.metadata.annotations.unwrap()[annotations::V1BETA1_UBUNTU],
        "amiFamily,blockDeviceMappings,incompatible"
    );
}

#[test]
fn kubelet_blocks_move_into_class_and_split_it_on_disagreement() {
    let pool = |name: &str, kubelet: Value| {
        let object = json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": {"name": name}, "spec": {
            "template": {"spec": {"requirements": [], "nodeClassRef": {"name": "c"}, "kubelet": kubelet}}}});
        converted(&object).node_pool.unwrap()
    };
    let class = || {
        let mut class = template(json!({}));
        class.metadata.name = Some("c".into());
        vec![class]
    };
    let (mut pools, mut classes) =
        (vec![pool("a", json!({"maxPods": 10})), pool("b", json!({"maxPods": 10}))], class());
    settle_kubelets(&mut pools, &mut classes);
    assert_eq!((classes.len(), classes[0].spec.kubelet.as_ref().unwrap().0["maxPods"].clone()), (1, json!(10)));
    let (mut pools, mut classes) = (vec![pool("a", json!({"maxPods": 10})), pool("b", Value::Null)], class());
    settle_kubelets(&mut pools, &mut classes);
    let names: Vec<_> = pools.iter().map(|pool| pool.spec.template.spec.node_class_ref.name.as_str()).collect();
    assert_eq!(names, ["c-a", "c"]);
    assert_eq!(classes[0].spec.kubelet, None);
    assert!(classes[1].spec.kubelet.is_some());
}

fn pool_of(name: &str, class: &str, max_pods: i32) -> v1::NodePool {
    let object = json!({"apiVersion": "karpenter.sh/v1beta1", "kind": "NodePool", "metadata": {"name": name}, "spec": {
        "template": {"spec": {"requirements": [], "nodeClassRef": {"name": class}, "kubelet": {"maxPods": max_pods}}}}});
    converted(&object).node_pool.unwrap()
}

fn class_named(name: &str) -> v1::EC2NodeClass {
    let mut class = template(json!({}));
    class.metadata.name = Some(name.into());
    class
}

#[test]
fn copies_of_classes_never_share_a_name() {
    // `c` for pool `a-b` and `c-a` for pool `b` would both be `c-a-b`; `c-x` is there already; `other-y` is named by a pool.
    let long = "l".repeat(60);
    let mut pools = vec![
        pool_of("a-b", "c", 10),
        pool_of("x", "c", 20),
        pool_of("b", "c-a", 10),
        pool_of("d", "c-a", 20),
        pool_of("y", "other", 10),
        pool_of("z", "other", 20),
        pool_of("w", "other-y", 10),
        pool_of("long-1", &long, 10),
        pool_of("long-2", &long, 20),
    ];
    let mut classes: Vec<_> = ["c", "c-a", "c-x", "other", &long].map(class_named).into();
    settle_kubelets(&mut pools, &mut classes);
    let names: std::collections::BTreeSet<String> =
        classes.iter().map(|class| class.metadata.name.clone().unwrap()).collect();
    assert_eq!(names.len(), classes.len(), "{names:?}");
    assert!(!names.contains("other-y"), "a pool means another class by that name");
    assert!(names.iter().all(|name| name.len() <= 63), "a node's label takes no longer value: {names:?}");
    for (pool, pods) in pools.iter().zip([10, 20, 10, 20, 10, 20, 10, 10, 20]) {
        let named = &pool.spec.template.spec.node_class_ref.name;
        let class = classes.iter().find(|class| class.metadata.name.as_ref() == Some(named));
        let Some(class) = class else {
            assert_eq!(named, "other-y");
            continue;
        };
        assert_eq!(class.spec.kubelet.as_ref().unwrap().0["maxPods"], pods, "{named}");
    }
}
