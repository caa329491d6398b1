//! Workloads for the benches, generated from a seed: of the kinds that tests/workloads has.

#[allow(dead_code)] // not everyone who generates workloads generates these
pub mod mixed;
#[allow(dead_code)] // nor these
pub mod nodes;

use dovetail_core::Problem;
use serde_json::{Value, json};

/// Shapes of the generated pods.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A few shapes without rules.
    Shapes,
    /// Services spread over zones, some bound to an architecture or to on-demand.
    Services,
    /// Apps of which a host takes one pod each.
    Apart,
    /// Fifths: plain, spread over zones, spread over hosts, gathered in zones, one a host.
    Diverse,
    /// Equal pods, spread evenly over zones.
    Even,
    /// Databases of a few replicas each: on-demand, one a host, spread over zones.
    Databases,
}

impl Kind {
    /// The kind of that name, in small letters.
    #[allow(dead_code)] // the benches name theirs
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Shapes, Self::Services, Self::Apart, Self::Diverse, Self::Even, Self::Databases];
        all.into_iter().find(|kind| format!("{kind:?}").to_lowercase() == name)
    }
}

/// Splitmix64: the same numbers from the same seed, everywhere.
struct Random(u64);

impl Random {
    /// One of them.
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// So many pods of a kind on a catalogue of 8 sizes in 30 families, two architectures, three zones, two ways to buy.
pub fn generated(kind: Kind, pods: usize, seed: u64) -> Problem {
    let (mut random, total) = (Random(seed), pods);
    let types: Vec<Value> = (0..30)
        .flat_map(|family| (0..8).map(move |size| (family, size)))
        .map(|(family, size)| machine(&mut random, family, size))
        .collect();
    let pods: Vec<Value> = (0..pods).map(|at| pod(&mut random, kind, at, total)).collect();
    let problem = json!({"name": format!("{kind:?}-{}", pods.len()), "nodePools": [{"name": "default"}], "instanceTypes": types, "pods": pods});
    serde_json::from_value(problem).unwrap_or_default()
}

fn machine(random: &mut Random, family: u64, size: u32) -> Value {
    let (cpu, ratio) = (2u64 << size, [2, 4, 8][(family % 3) as usize]);
    let arch = ["amd64", "arm64"][(family / 3 % 2) as usize];
    let price = cpu as f64 * (0.02 + 0.005 * ratio as f64) * (0.85 + 0.01 * random.below(30) as f64);
    let mut offerings = Vec::new();
    for zone in ["zone-a", "zone-b", "zone-c"] {
        let spot = price * (0.3 + 0.01 * random.below(20) as f64);
        for (kind, price) in [("on-demand", price), ("spot", spot)] {
            offerings.push(json!({"zone": zone, "capacityType": kind, "price": price, "available": true}));
        }
    }
    let name = format!("f{family:02}.{cpu}");
    json!({
        "name": name, "capacity": {"cpu": cpu.to_string(), "memory": format!("{}Mi", cpu * ratio * 950), "pods": (cpu * 8).to_string()},
        "overhead": {"kubeReserved": {"cpu": "80m", "memory": "600Mi"}, "evictionThreshold": {"memory": "100Mi"}},
        "requirements": [
            {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": [format!("f{family:02}")]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": [arch]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [name]},
        ],
        "offerings": offerings,
    })
}

fn pod(random: &mut Random, kind: Kind, at: usize, total: usize) -> Value {
    let app = format!("app-{}", at / 25);
    let cpu = [100, 250, 500, 1000, 1500][random.below(5) as usize];
    let memory = [128, 512, 2048, 4096][random.below(4) as usize];
    let mut pod = json!({"name": format!("p{at:06}"), "uid": format!("u{at:06}"), "labels": {"app": app},
        "requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}});
    let selector = json!({"matchLabels": {"app": app}});
    match kind {
        Kind::Shapes => {}
        Kind::Services => {
            if !(at / 25).is_multiple_of(3) {
                pod["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]);
            }
            match at / 25 % 5 {
                0 => pod["nodeSelector"] = json!({"kubernetes.io/arch": "arm64"}),
                1 => pod["nodeSelector"] = json!({"karpenter.sh/capacity-type": "on-demand"}),
                _ => {}
            }
        }
        Kind::Apart => {
            pod["requests"] = json!({"cpu": "1", "memory": "2Gi"});
            pod["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}]}});
        }
        Kind::Diverse => diverse(random, &mut pod, at * 5 / total.max(1)),
        Kind::Even => {
            pod["labels"] = json!({"app": "even"});
            pod["requests"] = json!({"cpu": "1", "memory": "2Gi"});
            pod["topologySpreadConstraints"] = json!([spread("topology.kubernetes.io/zone", "app", "even")]);
        }
        Kind::Databases => {
            let app = format!("db-{}", at / 5);
            let size = [1, 2, 4, 8][at / 5 * 7 % 4];
            pod["labels"] = json!({"app": app});
            pod["requests"] = json!({"cpu": size.to_string(), "memory": format!("{}Gi", size * [4, 7, 8][at / 5 % 3])});
            pod["nodeSelector"] = json!({"karpenter.sh/capacity-type": "on-demand"});
            pod["topologySpreadConstraints"] = json!([spread("topology.kubernetes.io/zone", "app", &app)]);
            pod["affinity"] = json!({"podAntiAffinity": near("kubernetes.io/hostname", "app", &app)});
        }
    }
    pod
}

/// The rule of a fifth, between pods that share one of seven labels.
fn diverse(random: &mut Random, pod: &mut Value, fifth: usize) {
    let mut letter = || ["a", "b", "c", "d", "e", "f", "g"][random.below(7) as usize];
    let (own, other) = (letter(), letter());
    pod["labels"] = json!({"letter": own});
    match fifth {
        1 => pod["topologySpreadConstraints"] = json!([spread("topology.kubernetes.io/zone", "letter", other)]),
        2 => pod["topologySpreadConstraints"] = json!([spread("kubernetes.io/hostname", "letter", other)]),
        3 => {
            pod["labels"] = json!({"friend": own});
            pod["affinity"] = json!({"podAffinity": near("topology.kubernetes.io/zone", "friend", own)});
        }
        4 => {
            pod["labels"] = json!({"app": "nginx"});
            pod["affinity"] = json!({"podAntiAffinity": near("kubernetes.io/hostname", "app", "nginx")});
        }
        _ => {}
    }
}

fn spread(key: &str, label: &str, value: &str) -> Value {
    json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {label: value}}})
}

fn near(key: &str, label: &str, value: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {label: value}}}]})
}
