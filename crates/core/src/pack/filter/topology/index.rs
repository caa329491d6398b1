//! Which groups mean a pod, without asking each.

use rustc_hash::FxHashMap;

use super::groups::Groups;
use crate::pack::model::ids::GroupId;
use crate::pod::Pod;

/// The groups by a label that the pods they mean have: a pod looks at few of many.
#[derive(Debug, Default)]
pub(super) struct Index {
    by_label: FxHashMap<(String, String), Vec<GroupId>>,
    /// Groups whose pods no label tells.
    pub others: Vec<GroupId>,
}

impl Index {
    pub fn from_groups(groups: &Groups) -> Self {
        let mut index = Self { by_label: FxHashMap::default(), others: vec![] };
        for (at, group) in groups.enumerate() {
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

    /// The groups that mean a pod, in order.
    pub fn meaning(&self, groups: &Groups, pod: &Pod) -> Vec<GroupId> {
        let labels = pod.labels.iter().map(|(key, value)| self.by_label.get(&(key.clone(), value.clone())));
        let possible = labels.flatten().flatten().chain(&self.others).copied();
        let mut found: Vec<GroupId> = possible.filter(|at| groups[*at].means(pod)).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}
