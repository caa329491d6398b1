//! The reader of manifests: the posts' own files are accepted and mean what they meant, misprinted ones give one message a
//! mistake, and nothing a file can hold makes it panic or hang.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
// Real time is what "within a second" is about.
#![allow(clippy::disallowed_methods)]

use std::{fs, path::PathBuf, time::Duration};

use dovetail_api::{
    manifest::{InputError, Manifest, Objects, ReadOptions, read_manifests, workload_pods},
    names::{annotations, labels},
    v1::{ConsolidationPolicy, NodeSelectorOperator},
};
use proptest::prelude::*;

fn seeds() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/posts");
    let mut all: Vec<(String, String)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_string(), fs::read_to_string(path).unwrap()))
        .collect();
    all.sort();
    all
}

fn options() -> ReadOptions {
    let env = [("CLUSTER_NAME", "demo"), ("ARM_AMI_ID", "ami-0a"), ("AMD_AMI_ID", "ami-0b")];
    ReadOptions {
        env: env.map(|(name, value)| (name.to_string(), value.to_string())).into(),
        cluster_name: "demo".into(),
        kubernetes_minor: Some(33),
    }
}

fn seed(name: &str) -> Result<Vec<Manifest>, Vec<InputError>> {
    let all = seeds();
    let (name, text) = all.iter().find(|(file, _)| file == name).expect("a seed of that name");
    read_manifests(&[(name, text)], &options())
}

fn objects(name: &str) -> Objects {
    Objects::from_manifests(&seed(name).unwrap_or_else(|errors| panic!("{name}: {errors:#?}")))
}

/// The mistakes of a text as `LINE FIELD`.
fn mistakes(text: &str) -> Vec<String> {
    told(text).iter().map(|error| format!("{} {}", error.line, error.field).trim().to_string()).collect()
}

fn told(text: &str) -> Vec<InputError> {
    read_manifests(&[("f.yaml", text)], &options()).err().unwrap_or_default()
}

#[test]
fn every_seed_that_is_not_misprinted_is_accepted() {
    for (name, text) in seeds() {
        let result = read_manifests(&[(&name, &text)], &options());
        assert_eq!(result.is_ok(), !name.contains("as-printed"), "{name}: {result:#?}");
    }
}

#[test]
fn the_introductions_slips_are_three_mistakes() {
    let errors = seed("000-provisioner-as-printed.yaml").unwrap_err();
    let found: Vec<_> = errors.iter().map(|error| (error.line, error.field.as_str())).collect();
    let expected = [(6, "name"), (17, "spec.requirements[2].operator"), (19, "spec.requirements[3].key")];
    assert_eq!(found, expected, "{errors:#?}");
    assert!(
        errors[0].to_string().starts_with("000-provisioner-as-printed.yaml:6: name: stands beside metadata"),
        "{}",
        errors[0]
    );
    assert!(errors[1].allowed.contains("NotIn") && errors[2].what.contains("space"));
}

#[test]
fn the_other_editions_slip_is_one_mistake() {
    let errors = seed("004-provisioner-as-printed.yaml").unwrap_err();
    let found: Vec<_> = errors.iter().map(|error| (error.line, error.field.as_str())).collect();
    assert_eq!(found, [(18, "spec.requirements[3].key")], "{errors:#?}");
}

#[test]
fn stray_quote_in_role_is_one_mistake_naming_field_and_value() {
    let errors = seed("002-spot-to-spot-as-printed.yaml").unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!((errors[0].line, errors[0].field.as_str()), (45, "spec.role"));
    assert!(errors[0].what.contains(r#"KarpenterNodeRole-demo\""#), "{}", errors[0]);
    // The same without a value for the variable: that is told besides, and hides nothing.
    let all = seeds();
    let file = all.iter().find(|(name, _)| name == "002-spot-to-spot-as-printed.yaml").unwrap();
    let errors = read_manifests(std::slice::from_ref(file), &ReadOptions::default()).unwrap_err();
    let found: Vec<_> = errors.iter().map(|error| (error.line, error.field.as_str())).collect();
    assert_eq!(found, [(41, ""), (45, "spec.role")], "{errors:#?}");
    assert!(errors[1].what.contains(r#"KarpenterNodeRole-${CLUSTER_NAME}\""#), "{}", errors[1]);
}

#[test]
fn a_missing_separator_is_one_mistake_with_a_hint() {
    let errors = seed("001-volume-topology-as-printed.yaml").unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!((errors[0].line, errors[0].field.as_str()), (14, "apiVersion"));
    assert!(errors[0].what.contains("line 2") && errors[0].what.contains("---"), "{}", errors[0]);
}

#[test]
fn the_introductions_provisioner_means_a_pool_and_a_class() {
    let objects = objects("000-provisioner.yaml");
    let (pool, class) = (&objects.node_pools[0], &objects.node_classes[0]);
    let requirements = &pool.spec.template.spec.requirements;
    assert_eq!(requirements[0].key, labels::INSTANCE_TYPE);
    assert_eq!(requirements[0].values, ["m5.large", "m5.2xlarge"]);
    let added: Vec<_> =
        requirements[4..].iter().map(|one| (one.key.as_str(), one.operator, one.values.join(","))).collect();
    assert_eq!(added, [(labels::OS, NodeSelectorOperator::In, "linux".to_string())]);
    assert_eq!(class.spec.instance_profile.as_deref(), Some("KarpenterNodeInstanceProfile-eks-karpenter-demo"));
    assert_eq!(class.spec.subnet_selector_terms[0].tags["karpenter.sh/discovery"], "demo");
    assert_eq!(pool.spec.disruption.consolidation_policy, ConsolidationPolicy::WhenEmpty);
    assert_eq!(pool.metadata.annotations.as_ref().unwrap()[annotations::TTL_SECONDS_AFTER_EMPTY], "30");
    assert_eq!(workload_pods(&objects.workloads[0]).len(), 10);
}

#[test]
fn spot_provisioners_take_discovery_tags_from_environment() {
    for name in ["003-provisioner-spot.yaml", "003-provisioner-consolidating.yaml"] {
        let objects = objects(name);
        let keys: Vec<_> =
            objects.node_pools[0].spec.template.spec.requirements.iter().map(|one| one.key.as_str()).collect();
        let expected =
            [labels::CAPACITY_TYPE, labels::OS, labels::ARCH, labels::INSTANCE_CATEGORY, labels::INSTANCE_GENERATION];
        assert_eq!(keys, expected);
        assert_eq!(
            objects.node_classes[0].spec.security_group_selector_terms[0].tags["karpenter.sh/discovery"],
            "demo"
        );
        assert_eq!(objects.node_classes[0].spec.role.as_deref(), Some("KarpenterNodeRole-demo"));
    }
    let consolidating = objects("003-provisioner-consolidating.yaml");
    assert_eq!(
        consolidating.node_pools[0].spec.disruption.consolidation_policy,
        ConsolidationPolicy::WhenEmptyOrUnderutilized
    );
}

#[test]
fn the_beta_manifests_mean_what_they_meant() {
    let objects = objects("002-nodepool.yaml");
    let (pool, class) = (&objects.node_pools[0], &objects.node_classes[0]);
    assert_eq!(pool.spec.template.spec.requirements.len(), 5);
    assert_eq!(pool.spec.template.spec.expire_after.to_string(), "720h");
    assert_eq!(pool.spec.limits.as_ref().unwrap()["cpu"].0, "1000");
    assert_eq!(class.spec.ami_family.as_deref(), Some("AL2"));
    let ids: Vec<_> = class.spec.ami_selector_terms.iter().filter_map(|term| term.id.as_deref()).collect();
    assert_eq!(ids, ["ami-0a", "ami-0b"]);
    let objects = self::objects("002-spot-to-spot.yaml");
    assert_eq!(objects.node_pools[0].spec.template.spec.node_class_ref.group, "karpenter.k8s.aws");
    assert_eq!(objects.node_classes[0].spec.ami_selector_terms[0].alias.as_deref(), Some("bottlerocket@latest"));
}

#[test]
fn kubelet_blocks_of_older_pools_reach_the_classes_of_the_files() {
    let pool = |name: &str, kubelet: &str| {
        format!(
            "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {{name: {name}}}\nspec: {{template: {{spec: {{requirements: [], nodeClassRef: {{name: c}}, kubelet: {kubelet}}}}}}}\n---\n"
        )
    };
    let class = "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {name: c}\nspec: {role: r, amiFamily: AL2023, subnetSelectorTerms: [{tags: {a: b}}], securityGroupSelectorTerms: [{tags: {a: b}}]}\n";
    let text = format!("{}{}{class}", pool("a", "{maxPods: 10}"), pool("b", "{maxPods: 20}"));
    let objects = Objects::from_manifests(&read_manifests(&[("f", text)], &options()).unwrap());
    let found: Vec<_> =
        objects.node_pools.iter().map(|pool| pool.spec.template.spec.node_class_ref.name.clone()).collect();
    assert_eq!(found, ["c-a", "c-b"]);
    let pods = |name: &str| {
        let class = objects.node_classes.iter().find(|class| class.metadata.name.as_deref() == Some(name)).unwrap();
        class.spec.kubelet.as_ref().map(|kubelet| kubelet.0["maxPods"].clone())
    };
    assert_eq!((pods("c-a"), pods("c-b"), pods("c")), (Some(10.into()), Some(20.into()), None));
}

#[test]
fn workloads_become_the_pods_that_their_controllers_would_make() {
    let pods = |name: &str| objects(name).workloads.iter().flat_map(workload_pods).collect::<Vec<_>>();
    for (name, count) in [
        ("003-inflate-400.yaml", 400),
        ("003-inflate-tolerating.yaml", 6),
        ("003-two-pools.yaml", 3),
        ("002-inflate.yaml", 5),
    ] {
        let pods = pods(name);
        let mut names: Vec<_> = pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{name}");
    }
    let set = pods("001-volume-topology.yaml");
    assert_eq!(set.len(), 20);
    assert_eq!(set[7].metadata.name.as_deref(), Some("express-nodejs-7"));
    let volumes = set[7].spec.as_ref().unwrap().volumes.as_ref().unwrap();
    assert_eq!(volumes[0].persistent_volume_claim.as_ref().unwrap().claim_name, "express-nodejs-express-nodejs-7");
    assert_eq!(objects("001-volume-topology.yaml").others.len(), 2);
    let one = pods("003-inflate-10.yaml");
    let name = one[0].metadata.name.as_deref().unwrap();
    let parts: Vec<&str> = name.split('-').collect();
    assert_eq!((parts[0], parts[1].len(), parts[2].len()), ("inflate", 10, 5), "{name}");
}

#[test]
#[allow(clippy::too_many_lines)] // one table, or one course from beginning to end
fn each_bad_input_gives_its_mistake_and_no_other() {
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata:\n  name: a\nspec:\n  template:\n    spec:\n      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}\n      requirements: []\n";
    let with = |more: &str| format!("{pool}{more}");
    let required = |requirement: &str| pool.replace("requirements: []", &format!("requirements: [{requirement}]"));
    let pod = |more: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers: [{{name: c}}]\n{more}")
    };
    let cases: Vec<(String, &[&str])> = vec![
        ("".into(), &["1"]),
        ("# only a comment\n---\n---\n".into(), &["1"]),
        ("just text".into(), &["1"]),
        ("- a\n- list".into(), &["1"]),
        ("a: [1, 2".into(), &["2"]),
        ("a: b: c".into(), &["1"]),
        ("kind: Pod\n\tmetadata: {}".into(), &["2"]),
        (with("").replace("NodePool", "NodePol"), &["2 kind"]),
        (with("").replace("sh/v1", "sh/v2"), &["1 apiVersion"]),
        ("kind: Pod\nmetadata: {name: a}".into(), &["1 apiVersion"]),
        (with("").replace("  name: a\n", "  nam: a\n"), &["3 metadata.name", "4 metadata.nam"]),
        (with("").replace("name: a\nspec", "name: A\nspec"), &["4 metadata.name"]),
        (with("").replace("name: a\nspec", "name: a\n  namespace: b\nspec"), &["5 metadata.namespace"]),
        (with("  limits: {cpu: 10 cores}"), &["10 spec.limits.cpu"]),
        (with("  limits: {cpu: 1, cpu: 2}"), &["10 spec.limits.cpu"]),
        (with("  weight: 101"), &["10 spec.weight"]),
        (with("  wieght: 10"), &["10 spec.wieght"]),
        (with("  disruption: {consolidateAfter: 30}"), &["10 spec.disruption.consolidateAfter"]),
        (
            with("  disruption:\n    consolidateAfter: 0s\n    budgets:\n    - nodes: 10%\n      schedule: '@daily'"),
            &["13 spec.disruption.budgets[0]"],
        ),
        (required("{key: a, operator: Inn, values: [b]}"), &["9 spec.template.spec.requirements[0].operator"]),
        (required("{key: a, operator: In}"), &["9 spec.template.spec.requirements[0].values"]),
        (required("{key: a, operator: In, values: [1]}"), &["9 spec.template.spec.requirements[0].values[0]"]),
        (required("{key: a, operator: In, values: ['b c']}"), &["9 spec.template.spec.requirements[0].values[0]"]),
        (required("{key: a, operator: Gt, values: ['-1']}"), &["9 spec.template.spec.requirements[0].values[0]"]),
        (required("{key: a, operator: Lte, values: ['x']}"), &["9 spec.template.spec.requirements[0].values"]),
        (required("{key: a, operator: Exists, values: ['x']}"), &["9 spec.template.spec.requirements[0].values"]),
        (required("{key: karpenter.sh/nodepool, operator: Exists}"), &["9 spec.template.spec.requirements[0].key"]),
        (required("{key: karpenter.sh/unknown, operator: Exists}"), &["9 spec.template.spec.requirements[0].key"]),
        (
            required("{key: karpenter.sh/capacity-type, operator: In, values: [spott]}"),
            &["9 spec.template.spec.requirements[0].values"],
        ),
        (
            required("{key: kubernetes.io/arch, operator: In, values: [amd64], minValues: 2}"),
            &["9 spec.template.spec.requirements[0].minValues"],
        ),
        (
            with("    metadata: {labels: {kubernetes.io/hostname: a}}"),
            &["10 spec.template.metadata.labels[kubernetes.io/hostname]"],
        ),
        (with("    metadata: {labels: {team: 'a b'}}"), &["10 spec.template.metadata.labels.team"]),
        (with("  limits: {cpu: '${NOPE}'}\n  weight: ${NOPE}"), &["10"]),
        (with("  limits: {cpu: '${NOPE}Gi', memory: 'x${NOPE}'}"), &["10", "10 spec.limits.memory"]),
        (with("  limits: {cpu: '${NOPE}'}\n  weight: 101"), &["10", "11 spec.weight"]),
        (format!("{pool}---\n{pool}"), &["11 metadata.name"]),
        (pod("  nodeSelector: {'a b': c}"), &["6 spec.nodeSelector[a b]"]),
        (pod("  tolerations: [{key: a, operator: Exist}]"), &["6 spec.tolerations[0].operator"]),
        (pod("  tolerations: [{key: a, effect: NoExec}]"), &["6 spec.tolerations[0].effect"]),
        (
            pod("  topologySpreadConstraints:\n  - {maxSkew: 1, topologyKey: a, whenUnsatisfiable: Never}"),
            &["7 spec.topologySpreadConstraints[0].whenUnsatisfiable"],
        ),
        (
            pod("").replace("{name: c}", "{name: c, resources: {requests: {cpu: 1 GHz}}}"),
            &["5 spec.containers[0].resources.requests.cpu"],
        ),
        (
            pod("").replace(
                "{name: c}",
                "{name: c, resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 1500m, memory: 1024Mi}}}",
            ),
            &["5 spec.containers[0].resources.requests.cpu"],
        ),
        (pod("").replace("{name: c}", "{name: c}, {name: c}"), &["5 spec.containers[1].name"]),
        (pod("  nodeselector: {a: b}"), &["6 spec.nodeselector"]),
        ("a: &a [*a]".into(), &["1"]),
        ("a: !!binary x".into(), &["1"]),
    ];
    for (text, expected) in cases {
        assert_eq!(mistakes(&text), expected, "{text}\n{:#?}", told(&text));
    }
}

#[test]
fn mistakes_say_what_is_allowed_in_order_of_files_and_lines() {
    let bad = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: []\n  tolerations: [{key: a, operator: x}]\n";
    let errors = read_manifests(&[("b.yaml", bad), ("a.yaml", "")], &options()).unwrap_err();
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "b.yaml:5: spec.containers: is empty (allowed: one container or more)",
            "b.yaml:6: spec.tolerations[0].operator: \"x\" is not supported (allowed: Equal, Exists)",
            "a.yaml:1: holds no object (allowed: one Kubernetes object or more, in YAML)",
        ]
    );
}

#[test]
fn the_same_object_in_two_files_or_under_two_kinds_is_told_once() {
    let old = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: a}\nspec: {}\n";
    let class = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: a}\nspec:\n  role: r\n  amiSelectorTerms: [{alias: al2023@latest}]\n  subnetSelectorTerms: [{tags: {a: b}}]\n  securityGroupSelectorTerms: [{tags: {a: b}}]\n";
    let errors = read_manifests(&[("x", old), ("y", class)], &options()).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!((errors[0].file.as_str(), errors[0].what.as_str()), ("y", "EC2NodeClass a is there already, x:1"));
    assert!(read_manifests(&[("x", old)], &options()).is_ok());
}

#[test]
fn variables_fill_outside_comments_and_aliases_are_unfolded() {
    let text = "# ${NOPE}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: '${CLUSTER_NAME}'}\ndata: # ${NOPE}\n  a: &a |\n    # ${CLUSTER_NAME} $${KEPT}\n  b: *a\n";
    let manifest = &read_manifests(&[("f", text)], &options()).unwrap()[0];
    assert_eq!(manifest.name, "demo");
    assert_eq!(manifest.object["data"]["b"], "# demo ${KEPT}\n");
}

#[test]
fn list_is_its_items_and_namespace_is_default_unless_written() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: a}}\n";
    let found: Vec<_> =
        read_manifests(&[("f", text)], &options()).unwrap().into_iter().map(|one| (one.kind, one.namespace)).collect();
    let text = |text: &str| Some(text.to_string());
    assert_eq!(
        found,
        [("Namespace".into(), None), ("ConfigMap".into(), text("default")), ("ConfigMap".into(), text("a"))]
    );
}

#[test]
fn what_is_nested_or_unfolds_without_end_is_refused_quickly() {
    let deep = "[".repeat(100_000);
    let nested = (0..5_000).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>();
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_string();
    for level in 1..30 {
        let one = format!("*a{}", level - 1);
        laughs.push_str(&format!("a{level}: &a{level} [{}]\n", vec![one; 10].join(", ")));
    }
    for text in [deep, nested, laughs, "- ".repeat(50_000), "? ".repeat(50_000), "{a: ".repeat(50_000)] {
        assert_eq!(told(&text).len(), 1, "{}", &text[..20]);
    }
}

/// A seed with a few bytes changed, taken away or doubled.
fn mutated() -> impl Strategy<Value = String> {
    let edits = prop::collection::vec((any::<prop::sample::Index>(), 0..4usize, any::<u8>()), 1..8);
    (any::<prop::sample::Index>(), edits).prop_map(|(which, edits)| {
        let all = seeds();
        let mut bytes = if all.is_empty() { b"a: 1\n".to_vec() } else { which.get(&all).1.clone().into_bytes() };
        for (at, how, byte) in edits {
            let at = at.index(bytes.len().max(1));
            match how {
                0 if at < bytes.len() => bytes[at] = byte,
                1 if at < bytes.len() => drop(bytes.remove(at)),
                2 => bytes.truncate(at),
                _ => bytes.insert(at.min(bytes.len()), b"{}[]:-#&*!|>'\"%@`\n\t $"[usize::from(byte) % 21]),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[test]
fn long_value_used_often_is_counted_before_it_is_filled_in() {
    let mut options = options();
    options.env.insert("BIG".into(), "x".repeat(100_000));
    let start = std::time::Instant::now();
    for text in [
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: \"{}\"}}\n",
            "${BIG}".repeat(10_000)
        ),
        format!("- {}\n", "a${BIG}".repeat(10_000)),
    ] {
        let errors = read_manifests(&[("f", &text)], &options).unwrap_err();
        assert!(errors.iter().any(|error| error.allowed == "32 MiB at most"), "{errors:?}");
    }
    assert!(start.elapsed() < Duration::from_millis(300), "{:?}", start.elapsed());
}

#[test]
fn volume_of_two_kinds_is_refused() {
    let volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: v}\nspec:\n  accessModes: [ReadWriteOnce]\n  \
        capacity: {storage: 1Gi}\n  csi: {driver: efs.csi.aws.com, volumeHandle: fs-1}\n";
    assert!(read_manifests(&[("f", volume)], &options()).is_ok());
    let two = format!("{volume}  awsElasticBlockStore: {{volumeID: vol-1}}\n");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: i}]\n  \
        volumes: [{name: v, emptyDir: {}, persistentVolumeClaim: {claimName: c}}]\n";
    for (text, place) in [(two.as_str(), "spec.csi"), (pod, "spec.volumes[0].persistentVolumeClaim")] {
        let errors = read_manifests(&[("f", text)], &options()).unwrap_err();
        assert!(errors.len() == 1 && errors[0].field == place, "{errors:?}");
        assert!(errors[0].what.contains("second kind of volume"), "{errors:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = told(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn yaml_like_text_never_panics(text in "[a-c{}\\[\\]:,&*!|>'\"%@#\\-? \n\t~$]{0,120}") {
        let _ = told(&text);
    }

    #[test]
    fn a_mutated_seed_is_read_or_refused_within_a_second(text in mutated()) {
        let start = std::time::Instant::now();
        match read_manifests(&[("f", &text)], &options()) {
            Ok(manifests) => drop(manifests.iter().map(workload_pods).collect::<Vec<_>>()),
            Err(errors) => prop_assert!(!errors.is_empty() && errors.iter().all(|error| error.line >= 1)),
        }
        prop_assert!(start.elapsed() < Duration::from_secs(1));
    }
}
