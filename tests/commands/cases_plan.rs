//! Reports of autoscalers' users, as `plan` has to answer them: each right value by a small input of our own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common;

use common::manifests::{Pool, among, apart, class, container, cpu, pool_of, workload, workload_in};
use common::{dovetail, json, stderr, write};
use serde_json::Value;

/// The answer of `plan`, and its warnings.
struct Plan {
    answer: Value,
    warnings: String,
}

/// The plan of these manifests, one text after the other.
fn plan(name: &str, status: i32, manifests: &[String]) -> Plan {
    let path = write(&format!("{name}.yaml"), &manifests.concat());
    let output = dovetail(&["plan", "--json", "-f", &path]);
    Plan { warnings: stderr(&output), answer: json(&output, status) }
}

impl Plan {
    fn claims(&self) -> &Vec<Value> {
        self.answer["nodeClaims"].as_array().unwrap()
    }

    /// Number of pods of each claim, fewest first.
    fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.claims().iter().map(|one| one["podNames"].as_array().unwrap().len()).collect();
        sizes.sort_unstable();
        sizes
    }

    /// The claim of the pod that begins so.
    fn claim(&self, pod: &str) -> &Value {
        let of = |one: &&Value| names(one).iter().any(|name| name.starts_with(pod));
        self.claims().iter().find(of).unwrap_or_else(|| panic!("{pod} has no claim: {}", self.answer))
    }

    /// The instance types of the claim of a pod.
    fn types(&self, pod: &str) -> Vec<&str> {
        let options = self.claim(pod)["instanceTypeOptions"].as_array().unwrap();
        options.iter().map(|one| one.as_str().unwrap()).collect()
    }

    /// Pods that are left over, each with its reason.
    fn left(&self) -> Vec<(&str, &str)> {
        let all = self.answer["unscheduled"].as_object().unwrap();
        all.iter().map(|(name, reason)| (name.as_str(), reason.as_str().unwrap())).collect()
    }

    /// All that are left over begin so, and their reasons have the word.
    fn left_for(&self, pods: &str, count: usize, word: &str) {
        let left = self.left();
        assert_eq!(left.len(), count, "{left:?}");
        assert!(left.iter().all(|(name, why)| name.starts_with(pods) && why.contains(word)), "{left:?}");
    }
}

fn names(claim: &Value) -> Vec<&str> {
    claim["podNames"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

fn sidecar(name: &str, more: &str) -> String {
    format!("{{name: {name}, image: pause, restartPolicy: Always, {more}}}")
}

#[test]
fn an_init_container_needs_room_beside_the_sidecars_before_it() {
    // Start 200 + 900, running 400 + 200 + 300.
    let init = format!(
        "initContainers: [{}, {{name: migrate, image: pause, resources: {{requests: {{cpu: 900m}}}}}}, {}]",
        sidecar("log", "resources: {requests: {cpu: 200m}}"),
        sidecar("proxy", "resources: {requests: {cpu: 300m}}")
    );
    let plan = plan(
        "sidecars",
        0,
        &[pool_of("m5.large"), workload("Deployment", "web", 2, &format!("{init}, {}", cpu("400m")))],
    );
    assert_eq!(plan.sizes(), [1, 1]);
    assert_eq!(plan.claim("web")["requests"]["cpu"], "1100m");
}

#[test]
fn daemonset_takes_its_limits_or_its_namespaces_defaults() {
    let range = "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: r, namespace: agents}\nspec: {limits: [{type: Container, defaultRequest: {cpu: 600m}}]}\n";
    for (name, agent, more) in [
        ("limited", container("agent", "limits: {cpu: 600m}"), ""),
        ("ranged", "containers: [{name: agent, image: pause}]".to_owned(), range),
    ] {
        let pools = pool_of("m5.large, m5.xlarge");
        let agent = workload_in("agents", "DaemonSet", "agent", 1, &agent);
        let plan = plan(name, 0, &[pools, agent, more.to_owned(), workload("Deployment", "web", 1, &cpu("1500m"))]);
        assert_eq!(plan.types("web"), ["m5.xlarge"], "{name}");
    }
}

#[test]
fn a_port_of_the_host_is_there_once_a_node() {
    let port = |container: &str| format!("containers: [{{name: main, image: pause, ports: [{{{container}}}]}}]");
    let agent = workload("DaemonSet", "agent", 1, &port("containerPort: 9100, hostPort: 9100"));
    let on_host = |name: &str, kind: &str| {
        workload(kind, name, 1, &format!("hostNetwork: true, {}", port("containerPort: 9100")))
    };
    for (name, agent, web) in [
        ("daemon-port", agent.clone(), workload("Deployment", "web", 1, &port("containerPort: 80, hostPort: 9100"))),
        ("daemon-host-network", on_host("agent", "DaemonSet"), on_host("web", "Deployment")),
    ] {
        let plan = plan(name, 1, &[pool_of("m5.large"), agent, web]);
        assert!(plan.claims().is_empty(), "{name}: {}", plan.answer);
        plan.left_for("web", 1, "9100");
    }
    let mesh = sidecar("mesh", "ports: [{containerPort: 15021, hostPort: 15021}]");
    for (name, pod) in [
        ("host-network", format!("hostNetwork: true, {}", port("containerPort: 9443"))),
        ("sidecar-port", format!("initContainers: [{mesh}], {}", cpu("10m"))),
    ] {
        let plan = plan(name, 0, &[pool_of("m5.large"), workload("Deployment", "web", 2, &pod)]);
        assert_eq!(plan.sizes(), [1, 1], "{name}");
    }
}

#[test]
fn pod_level_requests_outweigh_those_of_its_containers() {
    let pod = format!("resources: {{requests: {{cpu: 2500m}}}}, {}", cpu("100m"));
    let plan = plan("pod-level", 0, &[pool_of("m5.large, m5.xlarge"), workload("Deployment", "web", 1, &pod)]);
    assert_eq!((plan.types("web"), &plan.claim("web")["requests"]["cpu"]), (vec!["m5.xlarge"], &Value::from("2500m")));
}

#[test]
fn unavailable_zone_named_by_one_pool_is_no_spread_domain() {
    let requirements = among("topology.kubernetes.io/zone", "us-east-1f");
    let edge = Pool { name: "edge", requirements: &requirements, ..Pool::default() }.text();
    for (name, hard) in [("zone-hard", "DoNotSchedule"), ("zone-soft", "ScheduleAnyway")] {
        let spread = format!(
            "topologySpreadConstraints: [{{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: {hard}, labelSelector: {{matchLabels: {{app: web}}}}}}], {}",
            cpu("1")
        );
        let plan = plan(name, 0, &[pool_of("m5.large"), edge.clone(), workload("Deployment", "web", 3, &spread)]);
        let mut zones: Vec<&str> = plan.claims().iter().map(|one| one["cheapestZone"].as_str().unwrap()).collect();
        zones.sort_unstable();
        assert_eq!(zones, ["us-east-1a", "us-east-1b", "us-east-1c"], "{name}");
    }
}

/// A volume and its claim, which is bound to it; `terms` are the alternatives of where it is.
fn volume(name: &str, mode: &str, terms: &[&str]) -> String {
    let terms: Vec<String> = terms
        .iter()
        .map(|zone| format!("{{matchExpressions: [{}]}}", among("topology.kubernetes.io/zone", zone)))
        .collect();
    format!(
        "---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: pv-{name}}}\nspec: {{capacity: {{storage: 1Gi}}, accessModes: [{mode}], storageClassName: gp3, \
         csi: {{driver: ebs.csi.aws.com, volumeHandle: vol-{name}}}, claimRef: {{namespace: default, name: {name}}}, nodeAffinity: {{required: {{nodeSelectorTerms: [{}]}}}}}}\n\
         ---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\nspec: {{accessModes: [{mode}], storageClassName: gp3, volumeName: pv-{name}, resources: {{requests: {{storage: 1Gi}}}}}}\n",
        terms.join(", ")
    )
}

fn with_claim(claim: &str, pod: &str) -> String {
    format!("volumes: [{{name: data, persistentVolumeClaim: {{claimName: {claim}}}}}], {pod}")
}

#[test]
fn the_terms_of_a_volume_and_of_a_pod_are_alternatives() {
    let requirements = format!(
        "{}, {}, {}",
        among("node.kubernetes.io/instance-type", "m5.large"),
        among("karpenter.sh/capacity-type", "on-demand"),
        among("topology.kubernetes.io/zone", "us-east-1b, us-east-1c")
    );
    let pool = Pool { requirements: &requirements, ..Pool::default() }.text() + &class("");
    let terms = format!(
        "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchExpressions: [{}]}}, {{matchExpressions: [{}]}}]}}}}}}, {}",
        among("eks.amazonaws.com/nodegroup", "old"),
        among("karpenter.sh/capacity-type", "on-demand"),
        cpu("1")
    );
    let plan = plan(
        "terms",
        0,
        &[
            pool,
            volume("ledger", "ReadWriteOnce", &["us-east-1a", "us-east-1b"]),
            volume("archive", "ReadWriteOnce", &["us-east-1c"]),
            workload("Deployment", "ledger", 1, &with_claim("ledger", &cpu("1"))),
            workload("Deployment", "archive", 1, &with_claim("archive", &terms)),
        ],
    );
    assert_eq!(plan.claim("ledger")["cheapestZone"], "us-east-1b");
    assert_eq!(plan.claim("archive")["cheapestZone"], "us-east-1c");
}

#[test]
fn pod_preferring_no_pool_gets_a_node_and_one_requiring_it_not() {
    let elsewhere = "{matchExpressions: [{key: karpenter.sh/nodepool, operator: DoesNotExist}]}";
    let prefers = format!(
        "affinity: {{nodeAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 100, preference: {elsewhere}}}]}}}}, {}",
        cpu("1")
    );
    let has_to = format!(
        "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{elsewhere}]}}}}}}, {}",
        cpu("1")
    );
    let plan = plan(
        "elsewhere",
        1,
        &[
            pool_of("m5.large"),
            workload("Deployment", "rather", 1, &prefers),
            workload("Deployment", "never", 1, &has_to),
        ],
    );
    assert_eq!(plan.sizes(), [1]);
    assert_eq!(names(&plan.claims()[0])[0].split('-').next(), Some("rather"));
    plan.left_for("never", 1, "karpenter.sh/nodepool");
}

#[test]
fn which_daemonsets_count_depends_on_what_the_node_becomes() {
    let on = |key: &str, operator: &str, value: &str, amount: &str| {
        format!(
            "tolerations: [{{operator: Exists}}], affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchExpressions: [{{key: {key}, operator: {operator}, values: [\"{value}\"]}}]}}]}}}}}}, {}",
            cpu(amount)
        )
    };
    let alone = |name: &str, amount: &str| {
        workload(
            "Deployment",
            name,
            1,
            &format!(
                "affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: kubernetes.io/hostname, labelSelector: {{matchExpressions: [{{key: app, operator: In, values: [small, big]}}]}}}}]}}}}, {}",
                cpu(amount)
            ),
        )
    };
    let plan = plan(
        "by-size",
        0,
        &[
            pool_of("m5.large, m5.xlarge, m5.2xlarge, m5.4xlarge"),
            workload("DaemonSet", "few", 1, &on("karpenter.k8s.aws/instance-cpu", "Lt", "5", "100m")),
            workload("DaemonSet", "many", 1, &on("karpenter.k8s.aws/instance-cpu", "Gt", "4", "2")),
            workload("DaemonSet", "joined", 1, &on("karpenter.sh/registered", "In", "true", "200m")),
            alone("small", "1600m"),
            alone("big", "5800m"),
        ],
    );
    // 1600 + 100 + 200 of 1930; 5800 + 2000 + 200 is more than the 7910 of eight vCPU.
    assert_eq!(plan.claim("small")["cheapestType"], "m5.large");
    assert_eq!(plan.types("big"), ["m5.4xlarge"]);
}

#[test]
fn a_limit_holds_within_one_plan_and_is_told() {
    for (name, spec, types, amount, wanted) in
        [("nodes", "limits: {nodes: 2}", "m5.large", "100m", 2), ("uneven", "limits: {cpu: 20}", "r6a.2xlarge", "5", 2)]
    {
        let requirements = format!(
            "{}, {}",
            among("node.kubernetes.io/instance-type", types),
            among("karpenter.sh/capacity-type", "on-demand")
        );
        let pool = Pool { spec, requirements: &requirements, ..Pool::default() }.text() + &class("");
        let plan =
            plan(name, 1, &[pool, workload("Deployment", "web", 3, &format!("{}, {}", apart("web"), cpu(amount)))]);
        assert_eq!(plan.claims().len(), wanted, "{name}");
        plan.left_for("web", 1, "limit");
        assert_eq!(plan.answer["reasons"][0]["reason"]["pools"][0]["rule"], "limits", "{}", plan.answer["reasons"]);
    }
}

#[test]
fn every_claim_keeps_the_choice_that_min_values_ask_for() {
    let pool = |least: u32| {
        let requirements = format!(
            "{{key: karpenter.k8s.aws/instance-family, operator: In, values: [c5, m5], minValues: {least}}}, {{key: node.kubernetes.io/instance-type, operator: Exists, minValues: 8}}, {}",
            among("karpenter.sh/capacity-type", "spot")
        );
        Pool { requirements: &requirements, ..Pool::default() }.text() + &class("")
    };
    let web = workload("Deployment", "web", 20, &cpu("2"));
    let kept = plan("choice", 0, &[pool(2), web.clone()]);
    assert_eq!(kept.answer["scheduledPods"], 20);
    assert!(
        kept.claims().iter().all(|one| one["instanceTypeOptions"].as_array().unwrap().len() >= 8),
        "{}",
        kept.answer
    );
    let path = write("no-choice.yaml", &[pool(3), web].concat());
    let output = dovetail(&["plan", "--json", "-f", &path]);
    let told = format!("{}{}", stderr(&output), common::stdout(&output));
    assert!(matches!(output.status.code(), Some(1 | 2)) && told.contains("minValues"), "{told}");
}

#[test]
fn a_node_takes_no_more_volumes_than_ec2_attaches_to_it() {
    let claims = "volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: gp3, resources: {requests: {storage: 1Gi}}}}]";
    let class = "---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: gp3}\nprovisioner: ebs.csi.aws.com\nvolumeBindingMode: WaitForFirstConsumer\n";
    let own =
        workload("StatefulSet", "db", 30, &cpu("10m")).replace("replicas: 30", &format!("replicas: 30, {claims}"));
    let ephemeral = format!(
        "volumes: [{{name: scratch, ephemeral: {{volumeClaimTemplate: {{spec: {{accessModes: [ReadWriteOnce], storageClassName: gp3, resources: {{requests: {{storage: 1Gi}}}}}}}}}}}}], {}",
        cpu("10m")
    );
    for (name, types, pods, most) in [
        ("ebs", "m5.2xlarge", own.clone(), 26),
        ("ebs-own-limit", "m7i.2xlarge", own.replace("replicas: 30", "replicas: 40"), 31),
        ("ebs-ephemeral", "m5.2xlarge", workload("Deployment", "db", 30, &ephemeral), 26),
    ] {
        let plan = plan(name, 0, &[pool_of(types), class.to_owned(), pods]);
        assert!(plan.left().is_empty(), "{name}");
        assert!(plan.sizes().iter().all(|size| *size <= most), "{name}: {:?}", plan.sizes());
        assert_eq!(plan.claims().len(), 2, "{name}");
    }
}

#[test]
fn local_storage_is_what_the_root_volume_leaves() {
    let requirements = format!(
        "{}, {}",
        among("node.kubernetes.io/instance-type", "m5.large"),
        among("karpenter.sh/capacity-type", "on-demand")
    );
    let pool = Pool { requirements: &requirements, ..Pool::default() }.text();
    let mapping = |device: &str, root: &str| {
        class(&format!(
            "blockDeviceMappings: [{{deviceName: {device}{root}, ebs: {{volumeSize: 100G, volumeType: gp3}}}}]"
        ))
    };
    let needs = |name: &str, amount: &str| {
        workload("Deployment", name, 1, &container("main", &format!("requests: {{ephemeral-storage: {amount}}}")))
    };
    // 100 G less 1 Gi less a tenth: 88.9 G.
    let own = plan("disk", 1, &[pool.clone(), mapping("/dev/xvda", ""), needs("fits", "80G"), needs("large", "95G")]);
    assert_eq!(own.answer["scheduledPods"], 1);
    own.left_for("large", 1, "ephemeral-storage");
    plan("disk-other", 1, &[pool.clone(), mapping("/dev/xvdb", ""), needs("fits", "80G")]).left_for(
        "fits",
        1,
        "ephemeral-storage",
    );
    plan("disk-root", 0, &[pool, mapping("/dev/xvdb", ", rootVolume: true"), needs("fits", "80G")]);
}

#[test]
fn a_provisioner_has_defaults_that_a_nodepool_has_not() {
    let old = "---\napiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: default}\nspec: {requirements: [], providerRef: {name: default}}\n";
    let web = workload("Deployment", "web", 3, &cpu("1"));
    let alpha = plan("alpha", 0, &[old.to_owned(), web.clone()]);
    let option = |name: &str| name.starts_with(['c', 'm', 'r']) && !matches!(name.as_bytes()[1], b'1' | b'2');
    for claim in alpha.claims() {
        assert_eq!(claim["cheapestCapacityType"], "on-demand");
        assert!(alpha.types("web").iter().all(|name| option(name)), "{claim}");
        let arch = claim["requirements"].as_array().unwrap().iter().find(|one| one["key"] == "kubernetes.io/arch");
        assert_eq!(arch.unwrap()["values"], serde_json::json!(["amd64"]));
    }
    let v1 = plan("v1", 0, &[Pool::default().text(), class(""), web]);
    assert!(v1.claims().iter().all(|one| one["cheapestCapacityType"] == "spot"), "{}", v1.answer);
}

#[test]
fn the_kubelet_of_a_beta_pool_bounds_its_pods() {
    let pool = "---\napiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: default}\nspec: {template: {spec: {nodeClassRef: {name: default}, kubelet: {maxPods: 12}, \
                requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}, {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}}}\n";
    let class = class("")
        .replace("karpenter.k8s.aws/v1", "karpenter.k8s.aws/v1beta1")
        .replace("amiSelectorTerms: [{alias: al2023@latest}]", "amiFamily: AL2023");
    let plan = plan("beta", 0, &[pool.to_owned(), class, workload("Deployment", "web", 13, &cpu("10m"))]);
    assert_eq!(plan.sizes().iter().sum::<usize>(), 13);
    assert_eq!(plan.claims().len(), 2);
}

#[test]
fn a_claim_that_one_pod_may_use_is_one_pods() {
    let pods = workload("Deployment", "solo", 2, &with_claim("once", &cpu("100m")));
    let plan = plan("once", 1, &[pool_of("m5.large"), volume("once", "ReadWriteOncePod", &["us-east-1a"]), pods]);
    assert_eq!(plan.sizes(), [1]);
    plan.left_for("solo", 1, "ReadWriteOncePod");
}

#[test]
fn pod_anti_affine_to_a_daemonset_gets_no_node_where_it_runs() {
    let agent = |more: &str| workload("DaemonSet", "agent", 1, &format!("{more}{}", cpu("10m")));
    let web = workload(
        "Deployment",
        "web",
        1,
        &format!("tolerations: [{{key: quiet, operator: Exists}}], {}, {}", apart("agent"), cpu("100m")),
    );
    let everywhere =
        plan("daemon-apart", 1, &[pool_of("m5.large"), agent("tolerations: [{operator: Exists}], "), web.clone()]);
    assert!(everywhere.claims().is_empty());
    everywhere.left_for("web", 1, "anti-affinity");
    let quiet =
        Pool { name: "quiet", template: "taints: [{key: quiet, effect: NoSchedule}]", ..Pool::default() }.text();
    let beside = plan("daemon-tolerates", 0, &[pool_of("m5.large"), quiet, agent(""), web]);
    assert_eq!(beside.claim("web")["nodePool"], "quiet");
}

#[test]
fn the_most_urgent_have_the_nodes_that_a_limit_leaves() {
    let requirements = format!(
        "{}, {}",
        among("node.kubernetes.io/instance-type", "m5.large"),
        among("karpenter.sh/capacity-type", "on-demand")
    );
    let pool = Pool { spec: "limits: {cpu: 4}", requirements: &requirements, ..Pool::default() }.text() + &class("");
    let priority = |name: &str, value: u32, default: bool| {
        format!(
            "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\nglobalDefault: {default}\n"
        )
    };
    let named = |name: &str, class: &str| {
        workload("Deployment", name, 2, &format!("priorityClassName: {class}, {}", cpu("1500m")))
    };
    let plain = workload("Deployment", "plain", 3, &cpu("1500m"));
    for (name, manifests, first) in [
        ("by-name", vec![priority("urgent", 900, false), named("front", "urgent"), plain.clone()], "front"),
        ("system", vec![named("front", "system-cluster-critical"), plain.clone()], "front"),
        (
            "by-default",
            vec![priority("usual", 300, true), priority("low", 20, false), named("front", "low"), plain],
            "plain",
        ),
    ] {
        let plan = plan(name, 1, &[vec![pool.clone()], manifests].concat());
        let placed: Vec<&str> = plan.claims().iter().flat_map(names).collect();
        assert!(placed.len() == 2 && placed.iter().all(|pod| pod.starts_with(first)), "{name}: {placed:?}");
    }
}

#[test]
fn pods_below_the_priority_cutoff_get_no_node() {
    let class = |name: &str, value: i32| {
        format!(
            "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\n"
        )
    };
    let named = |name: &str| workload("Deployment", name, 2, &format!("priorityClassName: {name}, {}", cpu("1500m")));
    let all = [pool_of("m5.large"), class("below", -11), class("at", -10), named("below"), named("at")].concat();
    let path = write("expendable.yaml", &all);
    let args = ["plan", "--json", "-f", &path, "--expendable-pods-priority-cutoff", "-10"];
    let with = json(&dovetail(&args), 1);
    assert_eq!(with["nodeClaims"].as_array().unwrap().len(), 2);
    let left: Vec<&Value> = with["reasons"].as_array().unwrap().iter().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["reason"], serde_json::json!({"kind": "expendable", "priority": -11, "cutoff": -10}));
    assert_eq!(left[0]["podNames"].as_array().unwrap().len(), 2);
    let without = json(&dovetail(&args[..4]), 0);
    assert_eq!(without["nodeClaims"].as_array().unwrap().len(), 4);
}

#[test]
fn pods_that_nobody_is_to_schedule_yet_get_no_node() {
    let gated = format!("schedulingGates: [{{name: example.com/quota}}], {}", cpu("1500m"));
    let held = workload("Job", "held", 2, &format!("restartPolicy: Never, {}", cpu("1500m")))
        .replace("parallelism", "suspend: true, parallelism");
    let bound = format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: bound}}\nspec: {{nodeName: ip-10-0-0-1, {}}}\n",
        cpu("1500m")
    );
    let path = write(
        "held.yaml",
        &[
            pool_of("m5.large"),
            workload("Deployment", "gated", 2, &gated),
            held,
            bound,
            workload("Deployment", "now", 1, &cpu("1500m")),
        ]
        .concat(),
    );
    let output = dovetail(&["plan", "--json", "-f", &path]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let claims = answer["nodeClaims"].as_array().unwrap();
    assert!(claims.len() == 1 && names(&claims[0])[0].starts_with("now"), "{answer}");
}

#[test]
fn pods_that_admission_would_refuse_are_not_planned_for() {
    let quota =
        "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: team}\nspec: {hard: {pods: 1}}\n";
    let range = "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: r, namespace: small}\nspec: {limits: [{type: Container, max: {cpu: 1}}]}\n";
    let plan = plan(
        "refused",
        1,
        &[
            pool_of("m5.large"),
            quota.to_owned(),
            range.to_owned(),
            workload_in("team", "Deployment", "three", 3, &cpu("100m")),
            workload_in(
                "small",
                "Deployment",
                "large",
                1,
                &container("main", "requests: {cpu: 1500m}, limits: {cpu: 1500m}"),
            ),
        ],
    );
    assert_eq!(plan.answer["scheduledPods"], 1);
    let told = format!("{:?}{}", plan.left(), plan.warnings);
    assert!(told.contains("ResourceQuota") && told.contains("LimitRange"), "{told}");
}

#[test]
fn min_domains_unmet_counts_the_least_domain_as_empty() {
    let requirements = format!(
        "{}, {}",
        among("topology.kubernetes.io/zone", "us-east-1a, us-east-1b"),
        among("karpenter.sh/capacity-type", "on-demand")
    );
    let pool = Pool { requirements: &requirements, ..Pool::default() }.text() + &class("");
    let spread = format!(
        "topologySpreadConstraints: [{{maxSkew: 1, minDomains: 3, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {{matchLabels: {{app: web}}}}}}], {}",
        cpu("1")
    );
    let plan = plan("min-domains", 1, &[pool, workload("Deployment", "web", 4, &spread)]);
    assert_eq!((plan.answer["scheduledPods"].as_u64(), plan.left().len()), (Some(2), 2));
}

#[test]
fn what_few_pods_ask_for_has_the_right_pool_or_a_reason() {
    let asks = |limits: &str| {
        workload("Deployment", "web", 1, &container("main", &format!("limits: {{cpu: 100m, memory: 100Mi, {limits}}}")))
    };
    for (name, pod, word) in [
        ("huge", asks("hugepages-2Mi: 64Mi"), "hugepages-2Mi"),
        ("device", asks("example.com/device: 1"), "example.com/device"),
        (
            "host",
            workload("Deployment", "web", 1, &format!("nodeSelector: {{kubernetes.io/hostname: old}}, {}", cpu("1"))),
            "kubernetes.io/hostname",
        ),
    ] {
        plan(name, 1, &[pool_of("m5.large"), pod]).left_for("web", 1, word);
    }
    let accelerated = plan("neuron", 0, &[Pool::default().text(), class(""), asks("aws.amazon.com/neuron: 1")]);
    assert!(
        accelerated.types("web").iter().all(|name| name.starts_with("inf") || name.starts_with("trn")),
        "{}",
        accelerated.answer
    );
    let unknown = plan("unknown", 0, &[pool_of("m5.large, x99.fake"), workload("Deployment", "web", 1, &cpu("1"))]);
    assert_eq!(unknown.types("web"), ["m5.large"]);
    let zone = format!("nodeSelector: {{topology.k8s.aws/zone-id: use1-az1}}, {}", cpu("1"));
    let by_pod = plan("zone-of-pod", 0, &[pool_of("m5.large"), workload("Deployment", "web", 1, &zone)]);
    let requirements = format!(
        "{}, {}",
        among("topology.k8s.aws/zone-id", "use1-az1"),
        among("karpenter.sh/capacity-type", "on-demand")
    );
    let pool = Pool { requirements: &requirements, ..Pool::default() }.text() + &class("");
    let by_pool = plan("zone-of-pool", 0, &[pool, workload("Deployment", "web", 1, &cpu("1"))]);
    assert_eq!(by_pod.claim("web")["cheapestZone"], by_pool.claim("web")["cheapestZone"]);
}

#[test]
fn a_pod_that_the_api_servers_validation_refuses_gets_no_node() {
    let whole = |resources: &str, pod: &str| format!("resources: {{{resources}}}, {}", container("main", pod));
    for (name, more, pod, word) in [
        // The namespace's default limit is less than the container's request.
        (
            "range",
            "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: r}\nspec: {limits: [{type: Container, default: {memory: 512Mi}}]}\n",
            container("main", "requests: {memory: 1Gi}"),
            "must be less than or equal to memory limit of 512Mi",
        ),
        ("device", "", container("main", "requests: {nvidia.com/gpu: 1}"), "Limit must be set for non overcommitable"),
        ("half", "", container("main", "limits: {nvidia.com/gpu: 500m}"), "must be an integer"),
        ("unknown", "", container("main", "requests: {foo: 1}"), "must be a standard resource type or fully qualified"),
        ("huge", "", container("main", "limits: {hugepages-2Mi: 4Mi}"), "HugePages require cpu or memory"),
        (
            "less",
            "",
            whole("requests: {cpu: 1}", "requests: {cpu: 2}"),
            "must be greater than or equal to aggregate container requests of 2",
        ),
        ("disk", "", whole("limits: {ephemeral-storage: 1Gi}", ""), "Unsupported value"),
        (
            "port",
            "",
            "hostNetwork: true, containers: [{name: a, image: a, ports: [{containerPort: 80, hostPort: 81}]}]"
                .to_owned(),
            "must match `containerPort`",
        ),
    ] {
        let manifests = [pool_of("m5.large"), more.to_owned(), workload("Deployment", name, 2, &pod)];
        let plan = plan(&format!("invalid-{name}"), 1, &manifests);
        plan.left_for(name, 2, word);
        let warning = format!("warning: Deployment {name}: the API server would refuse 2 of 2 pod(s): ");
        assert!(plan.warnings.contains(&warning), "{}", plan.warnings);
    }
}

#[test]
fn limit_range_of_type_pod_bounds_the_whole_pod() {
    let range = "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: r}\nspec: {limits: [{type: Pod, max: {memory: 3Gi}}]}\n";
    let pod = "resources: {limits: {memory: 4Gi}}, containers: [{name: a, image: a}]";
    let plan = plan("whole-range", 1, &[pool_of("m5.large"), range.to_owned(), workload("Deployment", "w", 1, pod)]);
    plan.left_for("w", 1, "maximum memory usage per Pod is 3Gi, but limit is 4Gi");
}

#[test]
fn daemonset_with_refused_pods_takes_no_room_and_is_named() {
    let pod = format!("priorityClassName: system-nope, {}", cpu("50"));
    let set = workload_in("lim", "DaemonSet", "agent", 1, &pod);
    let plan = plan("refused-daemons", 0, &[pool_of("m5.large"), set, workload("Deployment", "web", 1, &cpu("1"))]);
    assert_eq!(plan.claims().len(), 1);
    assert!(
        plan.warnings.contains("warning: DaemonSet lim/agent: the API server would refuse its pods"),
        "{}",
        plan.warnings
    );
}

#[test]
fn priority_class_the_api_server_refuses_is_named_and_ignored() {
    let class = |name: &str, value: &str, more: &str| {
        format!(
            "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: {value}\n{more}"
        )
    };
    let manifests = [
        pool_of("m5.large"),
        class("first", "100", "globalDefault: true\n"),
        class("second", "50", "globalDefault: true\n"),
        class("system-mine", "5", ""),
        class("huge", "2000000000", ""),
        workload("Deployment", "web", 1, &cpu("1")),
        workload("Deployment", "urgent", 1, &format!("priorityClassName: huge, {}", cpu("1"))),
    ];
    let plan = plan("priority-classes", 1, &manifests);
    plan.left_for("urgent", 1, "no PriorityClass with name huge was found");
    for told in [
        "PriorityClass second: the API server would refuse it: PriorityClass first is already marked as default",
        "PriorityClass system-mine: the API server would refuse it: priority class names with 'system-' prefix",
        "PriorityClass huge: the API server would refuse it: maximum allowed value of a user defined priority is 1000000000",
    ] {
        assert!(plan.warnings.contains(told), "{told}: {}", plan.warnings);
    }
}

#[test]
fn invalid_user_data_is_named_and_leaves_its_pool_out() {
    let pool = Pool::default().text() + &class("userData: \"MIME-Version: 1.0\\n\\nx\"");
    let plan = plan("user-data", 1, &[pool, workload("Deployment", "web", 1, &cpu("1"))]);
    assert!(plan.warnings.contains("would not be Ready: spec.userData: "), "{}", plan.warnings);
    plan.left_for("web", 1, "spec.userData");
}

#[test]
fn our_keys_where_nobody_looks_and_limits_of_nothing_are_named() {
    let pool = Pool { labels: "dovetail.dev/disruption: observe", spec: "limits: {cpus: 9}", ..Pool::default() };
    let manifests = [pool.text(), class(""), workload("Deployment", "web", 1, &cpu("1"))];
    let plan = plan("misplaced", 0, &manifests);
    for told in [
        "spec.template.metadata.labels[dovetail.dev/disruption]: is a label, and only annotations of ours are looked at",
        "spec.limits.cpus (no node has such a resource: it limits nothing)",
    ] {
        assert!(plan.warnings.contains(told), "{told}: {}", plan.warnings);
    }
}
