//! Volumes of pods that stay on a node until it ends: nobody waits for their detachment. Which volume a claim is bound to
//! is asked only for these few, and once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::prelude::*;
use dovetail_core::cluster_state::PodEntry;
use dovetail_core::termination::drain::{self, Latecomers};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::{Key, SETTLING_TIME, Terminator};
use crate::context::refusals::Refusals;
use crate::kube::calls::{CallError, Calls};
use crate::reading::LenientApi;

/// Namespace and name of a PersistentVolumeClaim.
type ClaimName = (String, String);

/// PersistentVolumes of pods that stay on their node until it ends, by claim, asked for once.
#[derive(Default)]
pub struct KeptVolumes {
    /// The volume of each claim, none for one that is not bound or not there.
    volumes: BTreeMap<ClaimName, Option<String>>,
    asked: BTreeSet<ClaimName>,
    /// Claims that cannot be looked at.
    refused: Refusals,
}

impl KeptVolumes {
    /// Forgets all volumes, as nothing is being deleted.
    pub fn clear(&mut self) {
        self.volumes.clear();
        self.refused = Refusals::default();
    }
}

impl Terminator {
    /// The volumes of those of the pods that stay; unknown until their claims have been looked at.
    pub(super) fn kept(
        &mut self,
        node: &str,
        pods: &[Arc<PodEntry>],
        late: &Latecomers,
        ctx: &mut Context<Self>,
    ) -> Option<BTreeSet<String>> {
        let now = self.env.wall();
        let staying = pods.iter().filter(|pod| !pod.terminal && !drain::is_waited_for(pod, late, now));
        let claims: BTreeSet<ClaimName> = staying
            .flat_map(|pod| pod.drain.volume_claims.iter().map(|claim| (pod.pod.namespace.clone(), claim.clone())))
            .collect();
        // Until all are known none is: a volume that is missing here would be waited for, and its pod never lets it go.
        let unknown: Vec<_> = claims.iter().filter(|claim| !self.kept.volumes.contains_key(*claim)).cloned().collect();
        for claim in &unknown {
            self.look_up(claim.clone(), node.to_owned(), ctx);
        }
        let volumes = || claims.iter().filter_map(|claim| self.kept.volumes.get(claim).cloned().flatten()).collect();
        unknown.is_empty().then(volumes)
    }

    fn look_up(&mut self, claim: ClaimName, node: String, ctx: &mut Context<Self>) {
        let what = format!("reading persistentvolumeclaim {}/{}", claim.0, claim.1);
        if self.kept.refused.hold(&what, self.env.now()) || !self.kept.asked.insert(claim.clone()) {
            return;
        }
        let asking = volume_of(self.links.calls.clone(), claim.clone()).into_actor(self);
        ctx.spawn(asking.map(move |answer, terminator, ctx| {
            terminator.kept.asked.remove(&claim);
            match answer {
                Ok(volume) => {
                    terminator.kept.refused.done(&what, &terminator.env);
                    terminator.kept.volumes.insert(claim, volume);
                }
                // It is asked for again with a tick.
                Err(error) if error.is_refusal() => {
                    terminator.kept.refused.refused(&what, &error.to_string(), &terminator.env);
                    return;
                }
                Err(_) => return,
            }
            // A failed read is not kept: the look that follows asks again.
            ctx.run_later(SETTLING_TIME, move |terminator, ctx| terminator.touch(Key::Node(node), ctx));
        }));
    }
}

/// The volume that a claim is bound to.
async fn volume_of(calls: Calls, (namespace, name): ClaimName) -> Result<Option<String>, CallError> {
    let api = LenientApi::<PersistentVolumeClaim>::namespaced(calls.client.clone(), &namespace);
    match calls.run(&format!("get persistentvolumeclaim {namespace}/{name}"), || api.get(&name)).await {
        Ok(claim) => Ok(claim.spec.and_then(|spec| spec.volume_name).filter(|volume| !volume.is_empty())),
        // A claim that is gone holds no volume back.
        Err(CallError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
