#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};

use crate::names::annotations;

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
fn provisioner_becomes_owned_pool_and_class_with_named_defaults() {
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
fn untranslatable_object_names_field_and_remedy_stops_no_other() {
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
fn older_of_two_making_one_class_keeps_it_and_other_is_told() {
    let all = translated(&[template_named("x", json!({}))], &[provisioner_named("x", json!({}))]);
    assert!(all[&Source::Template("x".into())].is_ok());
    let problem = all[&of("x")].clone().unwrap_err();
    assert_eq!(problem.reason, "NameTaken");
    assert!(problem.message.contains("EC2NodeClass x is made from AWSNodeTemplate x"), "{}", problem.message);
}

fn with_pods(pods: i32) -> Value {
    json!({"providerRef": {"name": "t"}, "kubeletConfiguration": {"maxPods": pods}})
}

/// Name and `maxPods` of the class of each pool.
fn classes_of(
    all: &BTreeMap<Source, Result<Translation, TranslationProblem>>,
    names: &[&str],
) -> Vec<(String, Option<Value>)> {
    let each = names.iter().map(|name| {
        let made = all[&of(name)].as_ref().unwrap();
        let class = made.pool.as_ref().unwrap().spec.template.spec.node_class_ref.name.clone();
        let mut written = all.values().flatten().flat_map(|made| &made.classes).filter(|one| one.name_any() == class);
        let first = written.next().unwrap();
        assert!(written.all(|other| other == first), "{class} is written by all alike");
        (class, first.spec.kubelet.as_ref().map(|kubelet| kubelet.0["maxPods"].clone()))
    });
    each.collect()
}

#[test]
fn each_kubelet_block_has_class_copy_shared_by_like_blocks() {
    let t = [template_named("t", json!({}))];
    let names = ["a", "b", "c", "d", "e"];
    let plain = json!({"providerRef": {"name": "t"}});
    let empty = json!({"providerRef": {"name": "t"}, "kubeletConfiguration": {}});
    let specs = [with_pods(20), with_pods(30), with_pods(20), plain, empty];
    let five: Vec<_> = names.iter().zip(&specs).map(|(name, spec)| provisioner_named(name, spec.clone())).collect();
    let all = translated(&t, &five);
    let classes = classes_of(&all, &names);
    assert_eq!(classes[0], classes[2], "one mind, one class");
    assert_ne!(classes[0].0, classes[1].0);
    let said: Vec<_> = classes.iter().map(|(_, pods)| pods.clone()).collect();
    assert_eq!(said, [Some(json!(20)), Some(json!(30)), Some(json!(20)), None, None]);
    assert_eq!((classes[3].0.as_str(), classes[4].0.as_str()), ("t", "t"), "an empty block says nothing");
    let template = all[&Source::Template("t".into())].as_ref().unwrap();
    let copies: BTreeSet<String> = [classes[0].0.clone(), classes[1].0.clone()].into();
    assert_eq!(template.copies, copies, "the template keeps what is made for others");
    for name in ["a", "b", "c"] {
        let made = all[&of(name)].as_ref().unwrap();
        let owner = &made.classes[0].metadata.owner_references.as_ref().unwrap()[0];
        assert_eq!(owner.uid, "t-t", "a copy goes with the template, and no Provisioner takes it from another");
        assert!(
            made.left_out.is_empty()
                && !made.pool.as_ref().unwrap().annotations().contains_key(annotations::V1BETA1_KUBELET)
        );
    }
    let alone = translated(&[], &[provisioner_named("a", with_pods(20))]);
    let left_out = &alone[&of("a")].as_ref().unwrap().left_out;
    assert_eq!(left_out, &["spec.kubeletConfiguration: belongs in EC2NodeClass t, spec.kubelet"]);
}

#[test]
fn provisioner_never_changes_the_class_of_another_pool() {
    let t = [template_named("t", json!({}))];
    let of_a = |others: &[(&str, Value)]| {
        let mut all = vec![provisioner_named("a", with_pods(20))];
        all.extend(others.iter().map(|(name, spec)| provisioner_named(name, spec.clone())));
        classes_of(&translated(&t, &all), &["a"]).remove(0)
    };
    let alone = of_a(&[]);
    let odd = json!({"providerRef": {"name": "t"}, "kubeletConfiguration": {"maxPods": 20, "podsPerCore": 2}});
    for others in [
        vec![("b", with_pods(20))],
        vec![("b", with_pods(30))],
        vec![("b", json!({"providerRef": {"name": "t"}}))],
        vec![("b", odd), ("c", with_pods(40)), ("0", with_pods(20))],
    ] {
        assert_eq!(of_a(&others), alone, "{others:?}");
    }
    let plain = [provisioner_named("p", json!({"providerRef": {"name": "t"}}))];
    let with = [plain[0].clone(), provisioner_named("a", with_pods(20))];
    assert_eq!(classes_of(&translated(&t, &plain), &["p"]), classes_of(&translated(&t, &with), &["p"]));
}

#[test]
fn a_copy_never_has_the_name_of_what_another_object_makes() {
    let one = translated(&[template_named("t", json!({}))], &[provisioner_named("a", with_pods(20))]);
    let copy = classes_of(&one, &["a"])[0].0.clone();
    let templates = [template_named("t", json!({})), template_named(&copy, json!({}))];
    let all = translated(&templates, &[provisioner_named("a", with_pods(20))]);
    let class = classes_of(&all, &["a"]).remove(0);
    assert_ne!(class.0, copy);
    assert_eq!(class.1, Some(json!(20)));
    assert_eq!(all[&Source::Template(copy)].as_ref().unwrap().classes[0].spec.kubelet, None);
}

#[test]
fn messages_of_pool_and_class_use_alpha_object_fields() {
    let all = translated(
        &[template_named("t", json!({"amiSelector": {"aws-ids": "ami-1"}}))],
        &[
            provisioner_named("inline", json!({})),
            provisioner_named("ref", json!({"providerRef": {"name": "t"}})),
            provisioner_named("own", json!({"providerRef": {"name": "hand-made"}})),
        ],
    );
    let said = |source: Source, text: &str| all[&source].as_ref().unwrap().fields.in_own_words(text);
    let no_subnet = "SubnetsReady=False (spec.subnetSelectorTerms matches no subnet: [0] tag a=\"b\")";
    let template = Source::Template("t".into());
    for (source, text, own) in [
        (
            of("inline"),
            no_subnet,
            "SubnetsReady=False (spec.provider.subnetSelector matches no subnet: [0] tag a=\"b\")",
        ),
        (
            of("ref"),
            no_subnet,
            "SubnetsReady=False (spec.subnetSelector of AWSNodeTemplate t matches no subnet: [0] tag a=\"b\")",
        ),
        (template.clone(), no_subnet, "SubnetsReady=False (spec.subnetSelector matches no subnet: [0] tag a=\"b\")"),
        (of("own"), no_subnet, no_subnet),
        (template.clone(), "spec.securityGroupSelectorTerms[3].tags: too many", "spec.securityGroupSelector: too many"),
        (template.clone(), "spec.amiSelectorTerms[0].id is odd", "spec.amiSelector is odd"),
        (of("inline"), "spec.amiSelectorTerms matches none", "spec.provider.amiFamily matches none"),
        (template, "spec.metadataOptions.httpTokens: x", "spec.metadataOptions.httpTokens: x"),
        (
            of("inline"),
            "spec.role \"r\": none",
            "spec.provider.instanceProfile (not given, which means the role) \"r\": none",
        ),
        (of("inline"), "spec.roles and respec.role", "spec.roles and respec.role"),
        (
            of("ref"),
            "spec.template.spec.requirements[2].values: a, spec.limits.cpu: b",
            "spec.requirements[2].values: a, spec.limits.resources.cpu: b",
        ),
        (of("ref"), "spec.kubelet.maxPods: c", "spec.kubeletConfiguration.maxPods: c"),
        (of("ref"), "spec.disruption.consolidateAfter", "spec.ttlSecondsAfterEmpty"),
        (
            of("own"),
            "create it, or name another in spec.template.spec.nodeClassRef.name",
            "create it, or name another in spec.providerRef.name",
        ),
    ] {
        assert_eq!(said(source.clone(), text), own, "{source:?}");
    }
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
fn cluster_tagged_subnets_are_found_and_profile_may_be_set() {
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
