//! Volumes that several pods use: a node attaches each once, however many of its pods use it, as kube-scheduler's
//! NodeVolumeLimits counts.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::pack::model::ids::VolumeId;
use crate::pack::model::names::ResourceNames;
use crate::pod::Pod;
use crate::problem::Problem;

/// A volume that a pod uses together with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SharedVolume {
    volume: VolumeId,
    /// The resource that counts it, by its place among [`ResourceNames`].
    resource: usize,
}

/// A pod's shared volumes.
pub(crate) type Shared = SmallVec<[SharedVolume; 1]>;

/// All shared volumes, by name.
#[derive(Debug, Default)]
pub(crate) struct SharedVolumes(BTreeMap<String, VolumeId>);

impl SharedVolumes {
    /// Collects the shared volumes of all pods.
    pub fn from_problem(problem: &Problem) -> Self {
        let mut all = BTreeMap::new();
        for name in problem.pods.iter().flat_map(|pod| pod.shared_volumes.keys()) {
            let next = VolumeId::from(all.len());
            all.entry(name.clone()).or_insert(next);
        }
        Self(all)
    }

    pub fn of_pod(&self, names: &ResourceNames, pod: &Pod) -> Shared {
        let of = |(name, resource): (&String, &String)| {
            let resource = names.0.iter().position(|known| known == resource)?;
            Some(SharedVolume { volume: *self.0.get(name)?, resource })
        };
        pod.shared_volumes.iter().filter_map(of).collect()
    }

    /// The shared volumes among the names of all volumes that a node has attached.
    pub fn attached<'n>(&self, names: impl Iterator<Item = &'n String>) -> Attached {
        Attached(names.filter_map(|name| self.0.get(name)).copied().collect())
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Attached(SmallVec<[VolumeId; 2]>);

impl Attached {
    /// Adds the volumes that a pod needs and the node has not attached yet to amounts.
    pub fn add_missing(&self, shared: &Shared, amounts: &mut [i64]) {
        for SharedVolume { resource, .. } in shared.iter().filter(|one| !self.0.contains(&one.volume)) {
            let amount = &mut amounts[*resource];
            *amount = amount.saturating_add(1);
        }
    }

    /// Records a pod's volumes as attached.
    pub fn attach(&mut self, shared: &Shared) {
        for SharedVolume { volume, .. } in shared {
            if !self.0.contains(volume) {
                self.0.push(*volume);
            }
        }
    }
}
