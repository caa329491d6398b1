//! Clusters whose nodes are all of one type.

use dovetail_core::{ExistingNode, Pod, Problem, Resources};

/// The type that all nodes have: 16 cpus.
const TYPE: usize = 3;

/// So many nodes with 15 pods each, of which each asks for so many thousandths of a cpu, or up to a third more.
pub fn occupied(nodes: usize, milli: i64) -> Problem {
    let mut problem: Problem = super::generated(super::Kind::Shapes, 1, 1);
    problem.pods.clear();
    let one = problem.instance_types[TYPE].clone();
    let offering = one.offerings.iter().find(|offering| offering.capacity_type == "on-demand").unwrap();
    let labels = [
        ("node.kubernetes.io/instance-type", one.name.as_str()),
        ("topology.kubernetes.io/zone", offering.zone.as_str()),
        ("karpenter.sh/capacity-type", "on-demand"),
        ("karpenter.sh/nodepool", "default"),
    ];
    let labels: std::collections::BTreeMap<String, String> =
        labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    for at in 0..nodes {
        let mut node = ExistingNode {
            name: format!("node-{at:05}"),
            labels: labels.clone(),
            allocatable: one.allocatable(),
            initialized: true,
            ..ExistingNode::default()
        };
        for which in 0..15 {
            let asked = milli + milli * ((at * 7 + which * 13) % 10) as i64 / 30;
            let memory = 1i64 << 30;
            let requests: Resources = [("cpu".to_owned(), asked), ("memory".to_owned(), memory)].into_iter().collect();
            node.used.add(&requests);
            let name = format!("p-{at}-{which}");
            let pod = Pod { uid: name.clone(), name, namespace: "default".into(), requests, ..Pod::default() };
            node.pods.push(pod.into());
        }
        node.used.set("pods", 15);
        problem.existing_nodes.push(node);
    }
    problem
}
