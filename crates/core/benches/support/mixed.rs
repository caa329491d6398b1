//! Workloads of many shapes on the EC2 types of tests/workloads: services, batch jobs and databases, as many pods and as
//! many different ones as asked for.

use std::io::Read;
use std::path::Path;

use dovetail_core::Problem;
use serde_json::{Value, json};

use super::Random;

/// Kinds of pods in a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mix {
    /// Small services, many spread over zones, some one a host, some bound to an architecture or to on-demand.
    Services,
    /// Jobs without rules, spot or on-demand.
    Batch,
    /// Databases of a few replicas: on-demand, one a host, spread over zones.
    Stateful,
}

/// Ways to draw the requests of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// Round figures, as people write them: many workloads ask for the same.
    Round,
    /// Any figures, as a recommender writes them: hardly two workloads ask for the same.
    Any,
}

impl Mix {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Services, Self::Batch, Self::Stateful];

    /// In small letters.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// The workload written as `KIND:SIZES:PODS:SHAPES:SEED`, such as `services:any:12000:1200:1`.
pub fn named(text: &str) -> Option<Problem> {
    let words: Vec<&str> = text.split(':').collect();
    let [mix, sizes, pods, shapes, seed] = words.as_slice() else { return None };
    let mix = Mix::ALL.into_iter().find(|one| one.name() == *mix)?;
    let sizes = [Sizes::Round, Sizes::Any].into_iter().find(|one| format!("{one:?}").to_lowercase() == *sizes)?;
    Some(mixed(mix, sizes, pods.parse().ok()?, shapes.parse().ok()?, seed.parse().ok()?))
}

/// So many pods of so many workloads, each of which has its own label and asks for its own amounts.
pub fn mixed(mix: Mix, sizes: Sizes, pods: usize, shapes: usize, seed: u64) -> Problem {
    let mut random = Random(seed);
    let apps = shapes.clamp(1, pods);
    let mut all: Vec<Value> = Vec::with_capacity(pods);
    for (app, count) in replicas(&mut random, mix, pods, apps).into_iter().enumerate() {
        let one = pod(&mut random, mix, sizes, app);
        for _ in 0..count {
            let mut pod = one.clone();
            pod["name"] = format!("p{:06}", all.len()).into();
            pod["uid"] = format!("u{:06}", all.len()).into();
            all.push(pod);
        }
    }
    let name = format!("{}-{pods}-{apps}", mix.name());
    let capacity_types = if mix == Mix::Stateful { json!(["on-demand"]) } else { json!(["spot", "on-demand"]) };
    let pool = json!({"name": "default", "requirements": [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity_types},
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]},
    ]});
    let keys = ["instance-category", "instance-cpu", "instance-family", "instance-generation", "instance-size"];
    let well_known: Vec<String> = keys.iter().map(|key| format!("karpenter.k8s.aws/{key}")).collect();
    let problem = json!({"name": name, "wellKnownLabels": well_known, "nodePools": [pool], "instanceTypes": types(), "pods": all});
    serde_json::from_value(problem).unwrap()
}

/// The instance types that the workloads of tests/workloads share.
fn types() -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/workloads/packed/types-ec2.json.gz");
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(file).unwrap()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Number of pods of each workload: few have many.
fn replicas(random: &mut Random, mix: Mix, pods: usize, apps: usize) -> Vec<usize> {
    let weights: &[usize] = match mix {
        Mix::Services => &[1, 2, 3, 3, 3, 5, 8, 12, 20, 40],
        Mix::Batch => &[1, 2, 4, 8, 16],
        Mix::Stateful => &[3, 5, 7, 9],
    };
    let drawn: Vec<usize> = (0..apps).map(|_| random.of(weights)).collect();
    let sum: usize = drawn.iter().sum();
    // Each has one; what is left goes by weight, and what rounding leaves one by one.
    let more = pods - apps;
    let mut counts: Vec<usize> = drawn.iter().map(|weight| 1 + weight * more / sum).collect();
    let missing = pods - counts.iter().sum::<usize>();
    counts.iter_mut().take(missing).for_each(|count| *count += 1);
    counts
}

/// A pod of a workload, without its name.
fn pod(random: &mut Random, mix: Mix, sizes: Sizes, app: usize) -> Value {
    let (cpus, gibs): (&[u64], &[f64]) = match mix {
        Mix::Services => (&[50, 50, 100, 250, 500, 500, 1000, 2000], &[0.5, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0, 12.0]),
        Mix::Batch => (&[500, 500, 1000, 1000, 4000, 4000, 7000, 8000, 15_000], &[2.0, 3.0, 3.0, 4.0, 6.0, 8.0, 15.0]),
        Mix::Stateful => (&[500, 1000, 2000, 4000, 8000], &[4.0, 7.0, 7.5, 8.0, 14.0]),
    };
    let (mut cpu, gib) = (random.of(cpus), random.of(gibs));
    let mut memory = (cpu as f64 * gib * 1.024) as u64;
    if sizes == Sizes::Any {
        cpu = cpu * (70 + random.below(61)) / 100;
        memory = memory * (700 + random.below(601)) / 1000;
    }
    let label = format!("{}-{app}", mix.name());
    let mut pod =
        json!({"labels": {"app": label}, "requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}});
    let selector = json!({"matchLabels": {"app": label}});
    let spread = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]);
    let most_on_a_node = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]}});
    match mix {
        Mix::Batch => {}
        Mix::Services => {
            match random.below(100) {
                0..63 => pod["topologySpreadConstraints"] = spread,
                63..71 => pod["affinity"] = most_on_a_node,
                _ => {}
            }
            let mut selector = serde_json::Map::new();
            match random.below(100) {
                0..21 => _ = selector.insert("kubernetes.io/arch".into(), "amd64".into()),
                21..33 => _ = selector.insert("kubernetes.io/arch".into(), "arm64".into()),
                _ => {}
            }
            if random.below(100) < 19 {
                selector.insert("karpenter.sh/capacity-type".into(), "on-demand".into());
            }
            if !selector.is_empty() {
                pod["nodeSelector"] = selector.into();
            }
        }
        Mix::Stateful => {
            pod["topologySpreadConstraints"] = spread;
            pod["affinity"] = most_on_a_node;
        }
    }
    pod
}
