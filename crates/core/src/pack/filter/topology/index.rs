//! Index of the groups that mean a pod, without asking each.

use rustc_hash::FxHashMap;

use super::groups::{Groups, RuleKind};
use crate::pack::model::ids::GroupId;
use crate::pod::{HostPort, Pod};

/// The groups by a label that the pods they mean have: a pod looks at few of many.
#[derive(Debug, Default)]
pub(super) struct Index {
    by_label: FxHashMap<(String, String), Vec<GroupId>>,
    by_port: FxHashMap<i32, Vec<GroupId>>,
    /// Groups whose pods no label tells.
    pub others: Vec<GroupId>,
}

impl Index {
    pub fn from_groups(groups: &Groups) -> Self {
        let mut index = Self::default();
        for (at, group) in groups.enumerate() {
            if let RuleKind::Port(port) = &group.kind {
                index.by_port.entry(port.port).or_default().push(at);
                continue;
            }
            match group.certain() {
                Some((key, values)) => {
                    for value in values {
                        index.by_label.entry((key.to_owned(), value.clone())).or_default().push(at);
                    }
                }
                None => index.others.push(at),
            }
        }
        index
    }

    /// Number of groups that have to be compared with a pod, labels apart.
    pub fn looked_at(&self, pod: &Pod) -> usize {
        let of_port = |port: &HostPort| self.by_port.get(&port.port).map_or(1, |groups| 1 + groups.len());
        self.others.len() + pod.host_ports.iter().map(of_port).sum::<usize>()
    }

    /// The groups that mean a pod, in order.
    pub fn meaning(&self, groups: &Groups, pod: &Pod) -> Vec<GroupId> {
        let labels = pod.labels.iter().map(|(key, value)| self.by_label.get(&(key.clone(), value.clone())));
        let possible = labels.flatten().flatten().chain(&self.others).copied();
        let mut found: Vec<GroupId> = possible.filter(|at| groups[*at].means(pod)).collect();
        for port in &pod.host_ports {
            let same = self.by_port.get(&port.port).into_iter().flatten().copied();
            let taken = |at: &GroupId| matches!(&groups[*at].kind, RuleKind::Port(own) if own.conflicts(port));
            found.extend(same.filter(taken));
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
