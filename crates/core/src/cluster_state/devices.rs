//! Devices in the known state, and the question of which pods get which.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use super::{ClusterState, JoinedNode, PlanningInput, PodEntry, Snapshot};
use crate::dra::{Claim, DeviceBook, DeviceGates, DeviceModel, DeviceNode, DeviceQuestion, Misfits, lacking_devices};
use crate::labels::INSTANCE_TYPE;
use crate::pack::Packing;
use crate::pod::Pod;
use crate::problem::Problem;

impl ClusterState {
    /// Claims for devices, and the devices.
    pub fn devices_mut(&mut self) -> &mut DeviceBook {
        &mut self.now.devices
    }
}

impl Snapshot {
    /// The question of where pods with claims for devices go; `None` if no pod of the problem has any. Claims of pods that have to
    /// leave their node are as good as free.
    #[must_use]
    pub fn device_question(
        &self,
        problem: &Arc<Problem>,
        gates: DeviceGates,
        now: Timestamp,
    ) -> Option<DeviceQuestion> {
        if !problem.pods.iter().any(Pod::has_claims) {
            return None;
        }
        let bound = problem.pods.iter().filter(|pod| !pod.devices.is_empty() && self.is_bound(&pod.uid));
        let mut leaving = self.pods_that_leave(now);
        leaving.extend(bound.map(|pod| pod.uid.clone()));
        let models = self.joined().into_iter().filter(|node| node.deleting && node.initialized);
        Some(DeviceQuestion {
            problem: problem.clone(),
            book: self.devices.clone(),
            nodes: nodes_of(problem),
            models: models.filter_map(|node| model_of(&node)).collect(),
            leaving,
            gates,
            misfits: Misfits::default(),
        })
    }

    /// The same for pods of the problem that are all on nodes which stay, unless it is decided otherwise: without the problem, and
    /// with the devices of nodes alone.
    pub(crate) fn device_moves(&self, problem: &Problem, gates: DeviceGates, now: Timestamp) -> Option<DeviceQuestion> {
        if !problem.pods.iter().any(Pod::has_claims) {
            return None;
        }
        let models = self.joined().into_iter().filter(|node| node.initialized);
        Some(DeviceQuestion {
            problem: Arc::new(Problem::default()),
            book: self.devices.of_nodes(),
            nodes: nodes_of(problem),
            models: models.filter_map(|node| model_of(&node)).collect(),
            leaving: self.pods_that_leave(now),
            gates,
            misfits: Misfits::default(),
        })
    }

    /// Packs a problem with the places of pods that claim devices, where these count; answers it as it was packed.
    pub(crate) fn pack_with_devices(
        &self,
        problem: Arc<Problem>,
        input: &PlanningInput,
        pack: impl Fn(&Arc<Problem>) -> Packing,
    ) -> (Arc<Problem>, Packing) {
        match input.devices.and_then(|gates| self.device_question(&problem, gates, input.now.wall)) {
            Some(question) => question.pack(pack),
            None => {
                let packing = pack(&problem);
                (problem, packing)
            }
        }
    }

    /// Pods with claims, by uid, that go or have to leave their node.
    fn pods_that_leave(&self, now: Timestamp) -> BTreeSet<String> {
        let goes = self.pods.values().filter(|entry| {
            !entry.pod.devices.is_empty()
                && !entry.node_name.is_empty()
                && (entry.deleting || self.must_move(entry, now))
        });
        goes.map(|entry| entry.pod.uid.clone()).collect()
    }

    /// The reason that a pod could not use its ResourceClaims elsewhere if its node went: somebody who stays uses one of them too, or
    /// those who use it may not go together.
    pub(crate) fn held_by_claims(&self, pod: &PodEntry) -> Option<String> {
        if self.devices.is_empty() {
            return None;
        }
        let names = pod.pod.devices.iter().filter_map(|one| one.claim.as_ref());
        let claims = names.filter_map(|name| self.devices.claims.all().get(&format!("{}/{name}", pod.pod.namespace)));
        // Devices that every node can use go with the pod.
        let of_node = |claim: &&Arc<Claim>| claim.allocation.as_ref().is_some_and(|own| own.terms.is_some());
        claims.filter(of_node).find_map(|claim| self.held_by_claim(pod, claim))
    }

    fn held_by_claim(&self, pod: &PodEntry, claim: &Claim) -> Option<String> {
        let key = claim.key();
        if claim.used_by_others {
            return Some(format!("ResourceClaim {key} is used by others than pods"));
        }
        let goes = |entry: &PodEntry| {
            let moves = entry.node_name == pod.node_name && entry.reschedulable();
            moves || entry.deleting || entry.terminal
        };
        for uid in claim.users.iter().filter(|uid| **uid != pod.pod.uid) {
            match self.pods.get(uid) {
                Some(entry) if goes(entry) => {}
                Some(entry) => {
                    let (namespace, name) = (&entry.pod.namespace, &entry.pod.name);
                    return Some(format!("pod {namespace}/{name}, which stays, uses ResourceClaim {key} too"));
                }
                None => return Some(format!("ResourceClaim {key} is reserved for a pod that is not known")),
            }
        }
        let users = claim.users.len();
        let tight = self.budgets_of(&pod.pod).find(|one| usize::try_from(one.allowed()).unwrap_or(0) < users);
        tight.filter(|_| users > 1).map(|budget| {
            format!("pdb {} does not let the {users} pods go together that use ResourceClaim {key}", budget.name())
        })
    }

    /// The reason that a node's devices are not enough for a pod's claims, as far as its drivers have published them.
    pub(super) fn lacks(&self, node: &super::NodeEntry, pod: &Pod) -> Option<String> {
        if self.devices.is_empty() || pod.devices.is_empty() {
            return None;
        }
        lacking_devices(&self.devices, (&node.name, &node.labels), pod)
    }
}

/// A node that is initialized goes by the name of its Node.
fn nodes_of(problem: &Problem) -> Vec<DeviceNode> {
    let each = problem.existing_nodes.iter();
    each.map(|node| DeviceNode { name: Some(node.name.clone()), initialized: node.initialized }).collect()
}

fn model_of(node: &JoinedNode) -> Option<DeviceModel> {
    let instance_type = node.labels.get(INSTANCE_TYPE)?.clone();
    Some(DeviceModel { node: node.node_name()?.to_owned(), instance_type })
}
