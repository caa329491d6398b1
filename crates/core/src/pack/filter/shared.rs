//! Volumes that several pods use: a node attaches each once, however many of its pods use it, as kube-scheduler's
//! NodeVolumeLimits counts.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::pack::model::classes::ResourceNames;
use crate::pod::Pod;
use crate::problem::Problem;

/// A pod's shared volumes: which, and the resource that counts it, by place.
pub(crate) type Shared = SmallVec<[(u32, u32); 1]>;

/// All shared volumes, by name.
#[derive(Debug, Default)]
pub(crate) struct SharedVolumes(BTreeMap<String, u32>);

impl SharedVolumes {
    /// Collects them.
    pub fn of(problem: &Problem) -> Self {
        let mut all = BTreeMap::new();
        for name in problem.pods.iter().flat_map(|pod| pod.shared_volumes.keys()) {
            let next = all.len() as u32;
            all.entry(name.clone()).or_insert(next);
        }
        Self(all)
    }

    /// Those of a pod.
    pub fn of_pod(&self, names: &ResourceNames, pod: &Pod) -> Shared {
        let of = |(name, resource): (&String, &String)| {
            let resource = names.0.iter().position(|known| known == resource)?;
            Some((*self.0.get(name)?, resource as u32))
        };
        pod.shared_volumes.iter().filter_map(of).collect()
    }

    /// Those that a node has attached, of the names of all that it has.
    pub fn attached<'n>(&self, names: impl Iterator<Item = &'n String>) -> Attached {
        Attached(names.filter_map(|name| self.0.get(name)).copied().collect())
    }
}

/// The shared volumes that a node has attached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attached(SmallVec<[u32; 2]>);

impl Attached {
    /// Puts what a pod needs that is not there yet on top of amounts.
    pub fn add_missing(&self, shared: &Shared, amounts: &mut [i64]) {
        for (_, resource) in shared.iter().filter(|(volume, _)| !self.0.contains(volume)) {
            let amount = &mut amounts[*resource as usize];
            *amount = amount.saturating_add(1);
        }
    }

    /// Now a pod is there that uses them.
    pub fn attach(&mut self, shared: &Shared) {
        for (volume, _) in shared {
            if !self.0.contains(volume) {
                self.0.push(*volume);
            }
        }
    }
}
