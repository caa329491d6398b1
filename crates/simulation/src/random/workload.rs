//! Pools and workloads of a drawn scenario. Everything in them can run once nothing goes wrong any more.

use std::fmt::Write as _;

use fastrand::Rng;

use super::terms;

/// A workload, as far as steps need it.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Deployment or StatefulSet.
    pub kind: &'static str,
    /// The Deployment's `metadata.name`.
    pub name: String,
    /// Replicas at first.
    pub replicas: u32,
    /// Most replicas.
    pub most: u32,
}

/// The manifests, and what of them can be scaled.
pub fn draw(rng: &mut Rng) -> (String, Vec<Workload>) {
    let mut text = String::new();
    let mut own = terms::own(rng);
    class(&mut text);
    let pools = rng.u32(1..=3);
    for number in 0..pools {
        pool(&mut text, number, rng, &mut own);
    }
    let workloads: Vec<Workload> =
        (0..rng.u32(2..=5)).map(|number| workload(&mut text, number, rng, &mut own)).collect();
    (text, workloads)
}

fn class(text: &mut String) {
    text.push_str(
        "apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
",
    );
}

/// The first pool takes every pod; the others are a choice beside it.
fn pool(text: &mut String, number: u32, rng: &mut Rng, own: &mut Rng) {
    let capacity = match (number, rng.u32(0..3)) {
        (_, 0) => "[on-demand]",
        (0, _) => "[spot, on-demand]",
        _ => "[spot]",
    };
    let weight = if number > 0 { rng.u32(1..=100) } else { 1 };
    let policy = if rng.bool() { "WhenEmpty" } else { "WhenEmptyOrUnderutilized" };
    let after = ["0s", "30s", "2m", "Never"][rng.usize(0..4)];
    let terms::PoolTerms { limits, budgets, lifetime } = terms::of_pool(number, own);
    let _ = write!(
        text,
        "---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: pool-{number}}}
spec:
  weight: {weight}
{limits}  disruption: {{consolidationPolicy: {policy}, consolidateAfter: {after}{budgets}}}
  template:
    spec:
{lifetime}      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements:
        - {{key: karpenter.sh/capacity-type, operator: In, values: {capacity}}}
        - {{key: kubernetes.io/arch, operator: In, values: [amd64]}}
        - {{key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m, r]}}
"
    );
}

fn workload(text: &mut String, number: u32, rng: &mut Rng, own: &mut Rng) -> Workload {
    let kind = if rng.u32(0..5) == 0 { "StatefulSet" } else { "Deployment" };
    let most = rng.u32(1..=12);
    let replicas = rng.u32(0..=most);
    let (name, cpu) = (format!("app-{number}"), [250, 500, 1000, 2000, 4000][rng.usize(0..5)]);
    let (memory, grace) = (cpu * [1, 2, 4][rng.usize(0..3)], [1, 5, 30][rng.usize(0..3)]);
    let service = if kind == "StatefulSet" { format!("  serviceName: {name}\n") } else { String::new() };
    let _ = write!(
        text,
        "---
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}, namespace: default}}
spec:
{service}  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: {grace}
{}      containers:
        - name: main
          image: registry.k8s.io/pause:3.10
          resources: {{requests: {{cpu: {cpu}m, memory: {memory}Mi}}}}
",
        rules(&name, rng)
    );
    let usual = kind == "Deployment" && rng.u32(0..3) == 0;
    let rule = usual.then(|| format!("maxUnavailable: {}", rng.u32(1..=3)));
    let other = terms::of_pods(own);
    if let Some(rule) = rule.or(other) {
        let _ = write!(
            text,
            "---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {name}, namespace: default}}
spec: {{{rule}, selector: {{matchLabels: {{app: {name}}}}}}}
"
        );
    }
    Workload { kind, name, replicas, most }
}

/// Rules for the pods' places beside one another.
fn rules(name: &str, rng: &mut Rng) -> String {
    let selector = format!("labelSelector: {{matchLabels: {{app: {name}}}}}");
    match rng.u32(0..4) {
        0 => format!(
            "      topologySpreadConstraints:
        - {{maxSkew: {}, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway, {selector}}}
",
            rng.u32(1..=2)
        ),
        1 => format!(
            "      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            - {{topologyKey: kubernetes.io/hostname, {selector}}}
"
        ),
        _ => String::new(),
    }
}
