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

/// PersistentVolumes of pods that stay on their node until it ends, by claim.
#[derive(Default)]
pub struct KeptVolumes(BTreeMap<ClaimName, ClaimLookUp>);

/// A look at a PersistentVolumeClaim.
#[derive(Default)]
struct ClaimLookUp {
    /// The claim's volume: `None` until it has been read, `Some(None)` if it is not bound or not there.
    volume: Option<Option<String>>,
    asking: bool,
    refused: Refusals,
}

impl KeptVolumes {
    /// Forgets all volumes, as nothing is being deleted. A read under way ends.
    pub fn forget_all(&mut self) {
        self.0.retain(|_, look| look.asking);
        self.0.values_mut().for_each(|look| (look.volume, look.refused) = (None, Refusals::default()));
    }
}

impl Terminator {
    /// The volumes of those of the pods that stay; unknown until their claims have been looked at.
    pub(super) fn kept_volumes(
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
        let volume_of = |claim: &ClaimName| self.kept.0.get(claim)?.volume.clone();
        // Until all are known none is: a volume that is missing here would be waited for, and its pod never lets it go.
        let volumes: Option<Vec<_>> = claims.iter().map(volume_of).collect();
        if volumes.is_none() {
            claims.into_iter().for_each(|claim| self.look_up_claim(claim, node.to_owned(), ctx));
        }
        Some(volumes?.into_iter().flatten().collect())
    }

    /// Reads a claim, unless it is known or being read.
    fn look_up_claim(&mut self, claim: ClaimName, node: String, ctx: &mut Context<Self>) {
        let what = format!("reading persistentvolumeclaim {}/{}", claim.0, claim.1);
        let look = self.kept.0.entry(claim.clone()).or_default();
        if look.volume.is_some()
            || look.refused.hold(&what, self.env.now())
            || std::mem::replace(&mut look.asking, true)
        {
            return;
        }
        let asking = volume_of(self.links.calls.clone(), claim.clone()).into_actor(self);
        ctx.spawn(asking.map(move |answer, terminator, ctx| {
            let look = terminator.kept.0.entry(claim).or_default();
            look.asking = false;
            match answer {
                Ok(volume) => {
                    look.refused.done(&what, &terminator.env);
                    look.volume = Some(volume);
                }
                // It is asked for again with a tick.
                Err(error) if error.is_refusal() => {
                    look.refused.refused(&what, &error.to_string(), &terminator.env);
                    return;
                }
                Err(_) => return,
            }
            // A failed read is not kept: the look that follows asks again.
            ctx.run_later(SETTLING_TIME, move |terminator, ctx| terminator.mark_if_going(Key::Node(node), ctx));
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
