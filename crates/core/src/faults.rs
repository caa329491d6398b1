//! Faults of a problem that can be read but has impossible values: found before anything is packed.

use std::collections::{BTreeMap, BTreeSet};

use crate::problem::Problem;

/// A field with an impossible value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The field, as a path into the workload file.
    pub field: String,
    /// The fault, as the rest of a sentence about the field.
    pub what: String,
    pub allowed: String,
}

/// All faults of a problem, in the file's order.
#[must_use]
pub fn find_faults(problem: &Problem) -> Vec<Fault> {
    let mut found = Finder::default();
    found.pools(problem);
    found.instance_types(problem);
    found.pods(problem);
    found.volumes(problem);
    found.0
}

#[derive(Default)]
struct Finder(Vec<Fault>);

impl Finder {
    fn expect(&mut self, holds: bool, field: impl FnOnce() -> String, what: impl Into<String>, allowed: &str) {
        if !holds {
            self.0.push(Fault { field: field(), what: what.into(), allowed: allowed.to_owned() });
        }
    }

    fn pools(&mut self, problem: &Problem) {
        let mut names = BTreeSet::new();
        for (index, pool) in problem.node_pools.iter().enumerate() {
            let field = |rest: &str| format!("nodePools[{index}].{rest}");
            self.expect(!pool.name.is_empty(), || field("name"), "is empty", "the pool's name");
            let first = names.insert(&pool.name);
            self.expect(first, || field("name"), format!("{:?} stands twice", pool.name), "each name once");
            self.expect(
                (0..=100).contains(&pool.weight),
                || field("weight"),
                format!("is {}", pool.weight),
                "1 to 100, or 0 for none",
            );
            let known = pool.instance_types.iter().flatten().all(|at| *at < problem.instance_types.len());
            self.expect(
                known,
                || field("instanceTypes"),
                "names an instance type that is not there",
                "indices into instanceTypes",
            );
        }
    }

    fn instance_types(&mut self, problem: &Problem) {
        for (index, one) in problem.instance_types.iter().enumerate() {
            let field = |rest: &str| format!("instanceTypes[{index}].{rest}");
            self.expect(!one.name.is_empty(), || field("name"), "is empty", "the type's name");
            let negative = one.capacity.iter().find(|(_, amount)| *amount < 0).map(|(name, _)| name.to_owned());
            let name = negative.clone().unwrap_or_default();
            self.expect(negative.is_none(), || field(&format!("capacity.{name}")), "is negative", "zero or more");
            let mut reserved = BTreeSet::new();
            for (at, offering) in one.offerings.iter().enumerate() {
                let twice = offering.reservation().is_some_and(|id| !reserved.insert((id, &offering.zone)));
                let what = "is a reservation that stands in this type and zone already";
                self.expect(!twice, || field(&format!("offerings[{at}]")), what, "each reservation once");
                let sane = offering.price.is_finite() && offering.price >= 0.0;
                let what = format!("is {}", offering.price);
                self.expect(sane, || field(&format!("offerings[{at}].price")), what, "dollars an hour, zero or more");
            }
        }
    }

    fn pods(&mut self, problem: &Problem) {
        let mut names = BTreeSet::new();
        for (index, pod) in problem.pods.iter().enumerate() {
            let field = |rest: &str| format!("pods[{index}].{rest}");
            self.expect(!pod.name.is_empty(), || field("name"), "is empty", "the pod's name");
            let first = names.insert((&pod.namespace, &pod.name));
            self.expect(first, || field("name"), format!("{:?} stands twice", pod.name), "each name once");
            let negative = pod.requests.iter().find(|(_, amount)| *amount < 0).map(|(name, _)| name.to_owned());
            let name = negative.clone().unwrap_or_default();
            self.expect(negative.is_none(), || field(&format!("requests.{name}")), "is negative", "zero or more");
        }
    }
}

impl Finder {
    /// Checks that each volume has one driver: one that two drivers count would take a place of each, or of neither.
    fn volumes(&mut self, problem: &Problem) {
        let waiting = problem.pods.iter().enumerate().map(|(index, pod)| (format!("pods[{index}]"), pod));
        let running = problem.existing_nodes.iter().enumerate().flat_map(|(at, node)| {
            let pods = node.pods.iter().enumerate();
            pods.map(move |(index, pod)| (format!("existingNodes[{at}].pods[{index}]"), &**pod))
        });
        let mut counted: BTreeMap<&str, &str> = BTreeMap::new();
        for (field, pod) in waiting.chain(running) {
            for (volume, by) in &pod.shared_volumes {
                let first = *counted.entry(volume).or_insert(by);
                let field = || format!("{field}.sharedVolumes.{volume}");
                self.expect(first == by, field, format!("is {by}, and {first} for another pod"), "one driver");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn each_fault_is_named_by_its_field() {
        let text = r#"{"nodePools": [{"name": "a"}, {"name": "a", "weight": -1}],
            "instanceTypes": [{"name": "t", "capacity": {"cpu": "1"}, "offerings": [{"zone": "z", "capacityType": "spot", "price": -1.0, "available": true}]}],
            "pods": [{"name": "p"}, {"name": "p"}]}"#;
        let problem: Problem = serde_json::from_str(text).unwrap();
        let fields: Vec<String> = find_faults(&problem).into_iter().map(|fault| fault.field).collect();
        assert_eq!(
            fields,
            ["nodePools[1].name", "nodePools[1].weight", "instanceTypes[0].offerings[0].price", "pods[1].name"]
        );
        assert!(find_faults(&Problem::default()).is_empty());
    }

    #[test]
    fn volume_of_two_drivers_and_reservation_given_twice_are_faults() {
        let reserved = |zone: &str| {
            format!(
                r#"{{"zone": "{zone}", "capacityType": "reserved", "price": 0, "available": true, "requirements":
                [{{"key": "karpenter.k8s.aws/capacity-reservation-id", "operator": "In", "values": ["cr-1"]}}]}}"#
            )
        };
        let text = format!(
            r#"{{"nodePools": [], "instanceTypes": [{{"name": "t", "capacity": {{"cpu": "1"}}, "offerings": [{}, {}, {}]}}],
            "pods": [{{"name": "p", "sharedVolumes": {{"v": "attachable-volumes-csi-ebs.csi.aws.com"}}}},
                {{"name": "q", "sharedVolumes": {{"v": "attachable-volumes-csi-efs.csi.aws.com"}}}}]}}"#,
            reserved("a"),
            reserved("b"),
            reserved("a")
        );
        let problem: Problem = serde_json::from_str(&text).unwrap();
        let fields: Vec<String> = find_faults(&problem).into_iter().map(|fault| fault.field).collect();
        assert_eq!(fields, ["instanceTypes[0].offerings[2]", "pods[1].sharedVolumes.v"]);
    }
}
