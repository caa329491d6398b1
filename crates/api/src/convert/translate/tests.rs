#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};

use super::*;

fn provisioner_named(name: &str, spec: Value) -> Provisioner {
    let metadata = json!({"name": name, "uid": format!("p-{name}"), "creationTimestamp": "2026-01-02T00:00:00Z",
        "labels": {"app.kubernetes.io/instance": "pools"}, "annotations": {"argocd.argoproj.io/tracking-id": "pools"}});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn template_named(name: &str, spec: Value) -> AWSNodeTemplate {
    let metadata = json!({"name": name, "uid": format!("t-{name}"), "creationTimestamp": "2026-01-01T00:00:00Z"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

fn translated(
    templates: &[AWSNodeTemplate],
    provisioners: &[Provisioner],
) -> BTreeMap<Source, Result<Translation, TranslationProblem>> {
    translate(
        templates,
        provisioners,
        &BTreeSet::new(),
        &ConversionContext { kubernetes_minor: Some(33), ..ConversionContext::new("demo") },
    )
}

fn of(name: &str) -> Source {
    Source::Provisioner(name.into())
}

#[test]
fn a_provisioner_becomes_a_pool_that_it_owns_and_its_own_class_and_every_default_is_named() {
    let all = translated(&[], &[provisioner_named("default", json!({"ttlSecondsAfterEmpty": 30}))]);
    let made = all[&of("default")].clone().unwrap();
    let pool = made.pool.unwrap();
    let owner = &pool.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("Provisioner", "p-default", Some(true)));
    assert_eq!(pool.metadata.labels, None, "a label of a delivery tool would make the pool one of its objects");
    let notes: Vec<&str> = pool.annotations().keys().map(String::as_str).collect();
    assert_eq!(notes, [annotations::CONVERTED_FROM, annotations::TTL_SECONDS_AFTER_EMPTY]);
    assert_eq!(made.classes.len(), 1);
    assert_eq!(made.classes[0].metadata.owner_references.as_ref().unwrap()[0].uid, "p-default");
    let defaults = made.defaults.join("\n");
    for field in [
        "spec.requirements: kubernetes.io/os In [linux]",
        "spec.requirements: kubernetes.io/arch In [amd64]",
        "spec.requirements: karpenter.sh/capacity-type In [on-demand]",
        "spec.requirements: karpenter.k8s.aws/instance-category In [c, m, r]",
        "spec.requirements: karpenter.k8s.aws/instance-generation Gt [2]",
        "spec.provider.subnetSelector: karpenter.sh/discovery: demo",
        "spec.provider.securityGroupSelector: karpenter.sh/discovery: demo",
        "spec.provider.instanceProfile: one of the role KarpenterNodeRole-demo",
        "spec.amiFamily: AL2023",
    ] {
        assert!(defaults.contains(field), "{field} is not in\n{defaults}");
    }
}

#[test]
fn an_object_that_cannot_be_translated_names_field_and_remedy_and_stops_no_other() {
    let odd = template_named("odd", json!({"launchTemplate": "mine"}));
    let all = translated(
        &[odd, template_named("good", json!({}))],
        &[
            provisioner_named("a", json!({"providerRef": {"name": "odd"}})),
            provisioner_named("b", json!({"providerRef": {"name": "good"}})),
            provisioner_named("c", json!({"provider": {"launchTemplate": "mine"}})),
        ],
    );
    let problem = |source: &Source| all[source].clone().unwrap_err();
    let template = problem(&Source::Template("odd".into()));
    assert_eq!(template.reason, "Invalid");
    assert!(template.message.starts_with("spec.launchTemplate: "), "{}", template.message);
    assert!(template.message.contains("userData"), "{}", template.message);
    assert_eq!(problem(&of("a")).reason, "TemplateNotTranslated", "its pool stays as it was");
    assert!(problem(&of("c")).message.starts_with("spec.provider.launchTemplate: "));
    assert!(all[&of("b")].is_ok() && all[&Source::Template("good".into())].is_ok());
}

#[test]
fn of_two_that_make_one_class_the_older_keeps_it_and_the_other_is_told() {
    let all = translated(&[template_named("x", json!({}))], &[provisioner_named("x", json!({}))]);
    assert!(all[&Source::Template("x".into())].is_ok());
    let problem = all[&of("x")].clone().unwrap_err();
    assert_eq!(problem.reason, "NameTaken");
    assert!(problem.message.contains("EC2NodeClass x is made from AWSNodeTemplate x"), "{}", problem.message);
}

#[test]
fn kubelet_blocks_go_into_classes_and_where_they_differ_into_copies_of_the_provisioners() {
    let with = |pods: i32| json!({"providerRef": {"name": "t"}, "kubeletConfiguration": {"maxPods": pods}});
    let one = translated(&[template_named("t", json!({}))], &[provisioner_named("a", with(20))]);
    let class = &one[&Source::Template("t".into())].as_ref().unwrap().classes[0];
    assert_eq!(class.spec.kubelet.as_ref().unwrap().0["maxPods"], 20);

    let two = [provisioner_named("a", with(20)), provisioner_named("b", with(30))];
    let two = translated(&[template_named("t", json!({}))], &two);
    for (name, pods) in [("a", 20), ("b", 30)] {
        let made = two[&of(name)].as_ref().unwrap();
        let class = &made.classes[0];
        assert_eq!(
            (class.name_any(), class.spec.kubelet.as_ref().unwrap().0["maxPods"].clone()),
            (format!("t-{name}"), json!(pods))
        );
        assert_eq!(class.metadata.owner_references.as_ref().unwrap()[0].uid, format!("p-{name}"));
        assert_eq!(made.pool.as_ref().unwrap().spec.template.spec.node_class_ref.name, format!("t-{name}"));
    }
    let alone = translated(&[], &[provisioner_named("a", with(20))]);
    let left_out = &alone[&of("a")].as_ref().unwrap().left_out;
    assert_eq!(left_out, &["spec.kubeletConfiguration: belongs into EC2NodeClass t, spec.kubelet"]);
}

#[test]
fn only_what_is_ours_is_written_and_users_annotations_stay() {
    let pool =
        translated(&[], &[provisioner_named("default", json!({}))])[&of("default")].clone().unwrap().pool.unwrap();
    assert_eq!(next_pool(&pool, None), TranslationStep::Create(pool.clone()));
    assert_eq!(next_pool(&pool, Some(&pool)), TranslationStep::Keep);

    let mut by_hand = pool.clone();
    by_hand.metadata.owner_references = None;
    assert!(matches!(next_pool(&pool, Some(&by_hand)), TranslationStep::Taken(_)));
    by_hand.spec.weight = Some(7);
    assert!(matches!(next_pool(&pool, Some(&by_hand)), TranslationStep::Taken(_)));

    let mut edited = pool.clone();
    edited.spec.weight = Some(7);
    edited.annotations_mut().insert("dovetail.dev/disruption".into(), "observe".into());
    let TranslationStep::Replace(written) = next_pool(&pool, Some(&edited)) else {
        panic!("its spec is the Provisioner's")
    };
    assert_eq!(written.spec, pool.spec);
    assert_eq!(written.annotations()["dovetail.dev/disruption"], "observe");
    assert_eq!(next_pool(&pool, Some(&written)), TranslationStep::Keep);

    let mut earlier = pool.clone();
    earlier.metadata.owner_references.as_mut().unwrap()[0].uid = "another".into();
    assert_eq!(
        next_pool(&pool, Some(&earlier)),
        TranslationStep::Wait,
        "the pool of a Provisioner that was deleted goes first"
    );
}

#[test]
fn a_cluster_whose_subnets_have_the_clusters_tag_is_found_by_it_and_a_profile_may_be_set() {
    let context = ConversionContext {
        default_instance_profile: Some("nodes".into()),
        cluster_tagged: true,
        kubernetes_minor: Some(28),
        ..ConversionContext::new("demo")
    };
    let old = provisioner_named("default", json!({}));
    let made = translate([], [&old], &BTreeSet::new(), &context)[&of("default")].clone().unwrap();
    let spec = &made.classes[0].spec;
    assert_eq!(spec.subnet_selector_terms[0].tags["kubernetes.io/cluster/demo"], "*");
    assert_eq!(spec.security_group_selector_terms[0].tags["kubernetes.io/cluster/demo"], "*");
    assert_eq!((spec.instance_profile.as_deref(), spec.role.as_deref()), (Some("nodes"), None));
    assert_eq!(spec.ami_selector_terms[0].alias.as_deref(), Some("al2@latest"));
}
