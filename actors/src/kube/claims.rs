//! Writes to NodeClaims: each rests on the version read, and is made anew on what is there when that has changed.

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_api::names::{TERMINATION_FINALIZER, annotations};
use dovetail_api::v1::NodeClaim;
use dovetail_core::lifecycle::{patch, tagging};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use crate::kube::calls::{CallError, Calls, Conflicts};
use crate::reading::{LenientApi, ObjectPage};
use crate::telemetry::log_event::LogEvent;

/// Claims in one page of a list.
const PAGE: u32 = 500;

/// Time for which calls that rest on a plan are repeated. With the age of the answer that the plan rests on, up to half a second,
/// it is less than the time for which an API server is away that is restored from a backup.
pub const REPEATED_FOR: Duration = Duration::from_secs(1);

/// NodeClaims at the API server.
#[derive(Clone)]
pub struct NodeClaimApi {
    calls: Calls,
    api: LenientApi<NodeClaim>,
}

impl NodeClaimApi {
    /// Access to NodeClaims by these calls.
    pub fn new(calls: Calls) -> Self {
        let api = LenientApi::all(calls.client.clone());
        Self { calls, api }
    }

    pub async fn get(&self, name: &str) -> Result<NodeClaim, CallError> {
        self.calls.run(&format!("get nodeclaim {name}"), || self.api.get(name)).await
    }

    /// All claims of the provider's classes as the API server has them now, not as a watch knows them (those of another kind of class are
    /// another provider's, and the watch passes over them as well), with those that cannot be read; page by page, each with a patience of its own.
    ///
    /// # Errors
    /// As [`Calls::run`]; [`CallError::NotFound`] when it has taken so long that the list is not to be had any more.
    pub async fn list(&self) -> Result<ObjectPage<NodeClaim>, CallError> {
        let mut all = ObjectPage { items: Vec::new(), unreadable: Vec::new(), continues: None };
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = self.calls.run("list nodeclaims", || self.api.list(&params)).await?;
            all.items.extend(
                page.items
                    .into_iter()
                    .filter(|claim| claim.spec.node_class_ref.is_of(self.calls.env.settings.provider)),
            );
            all.unreadable.extend(page.unreadable);
            match page.continues {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// Creates a claim, or gives it up when nobody answers: after an outage the API server may be another, put back to a backup,
    /// and what was planned by the one before has to be planned anew. One of that name which is ours already (the answer to an earlier attempt was lost) is the same.
    pub async fn create(&self, claim: &NodeClaim) -> Result<NodeClaim, CallError> {
        let name = claim.name_any();
        let what = format!("create nodeclaim {name}");
        let params = PostParams::default();
        match self.calls.run_for(REPEATED_FOR, &what, || self.api.create(&params, claim)).await {
            Err(CallError::Exists(message)) => {
                let there = self.get(&name).await?;
                let written = |claim: &NodeClaim, key: &str| claim.annotations().get(key).cloned();
                let same = [annotations::TRACEPARENT, annotations::TERM]
                    .iter()
                    .all(|key| written(&there, key) == written(claim, key));
                if same { Ok(there) } else { Err(CallError::Exists(message)) }
            }
            other => other,
        }
    }

    /// Changes labels, annotations or finalizers.
    pub async fn change_metadata(
        &self,
        mut claim: NodeClaim,
        change: impl Fn(&mut NodeClaim),
    ) -> Result<NodeClaim, CallError> {
        let (name, mut conflicts) = (claim.name_any(), Conflicts::default());
        loop {
            let mut wanted = claim.clone();
            change(&mut wanted);
            if wanted.metadata == claim.metadata {
                return Ok(claim);
            }
            match self.calls.merge(&self.api, &name, patch::claim_metadata(&claim, &wanted)).await {
                Err(CallError::Conflict(_)) => {
                    conflicts.pause(&self.calls, &name).await;
                    claim = self.same(&claim).await?;
                }
                other => return other,
            }
        }
    }

    /// Changes labels, annotations or finalizers of a claim as it is here: one that has changed is to be looked at again first.
    ///
    /// # Errors
    /// [`CallError::Conflict`] when it has changed, and as [`Calls::run_for`].
    pub async fn change_as_seen(
        &self,
        claim: &NodeClaim,
        change: impl Fn(&mut NodeClaim),
    ) -> Result<NodeClaim, CallError> {
        let mut wanted = claim.clone();
        change(&mut wanted);
        if wanted.metadata == claim.metadata {
            return Ok(wanted);
        }
        let (name, patch) = (claim.name_any(), Patch::Merge(patch::claim_metadata(claim, &wanted)));
        let params = PatchParams::default();
        self.calls.run_for(REPEATED_FOR, &format!("patch {name}"), || self.api.patch(&name, &params, &patch)).await
    }

    /// Sets annotations that nobody else writes, whatever else of the claim has changed: so it conflicts with no other write.
    ///
    /// # Errors
    /// [`CallError::Conflict`] when another claim of its name is there.
    pub async fn annotate(&self, claim: &NodeClaim, own: &[(&str, &str)]) -> Result<NodeClaim, CallError> {
        let own: BTreeMap<&str, &str> = own.iter().copied().collect();
        let patch = json!({"metadata": {"uid": claim.uid(), "annotations": own}});
        self.calls.merge(&self.api, &claim.name_any(), patch).await
    }

    pub async fn change_status(
        &self,
        mut claim: NodeClaim,
        change: impl Fn(&NodeClaim) -> NodeClaim,
    ) -> Result<NodeClaim, CallError> {
        let (name, mut conflicts) = (claim.name_any(), Conflicts::default());
        loop {
            let wanted = change(&claim);
            if wanted.status == claim.status {
                return Ok(claim);
            }
            match self.calls.merge_status(&self.api, &name, patch::claim_status(&wanted)).await {
                Err(CallError::Conflict(_)) => {
                    conflicts.pause(&self.calls, &name).await;
                    claim = self.same(&claim).await?;
                }
                other => return other,
            }
        }
    }

    /// Writes the status once, resting on the version that `claim` was read with.
    ///
    /// # Errors
    /// [`CallError::Conflict`] when the claim has changed since.
    pub async fn write_status(&self, claim: &NodeClaim) -> Result<NodeClaim, CallError> {
        let name = claim.name_any();
        self.calls.merge_status(&self.api, &name, patch::claim_status(claim)).await
    }

    /// Deletes a claim for good reason: one of that name with another uid stays, and one that has changed is looked at
    /// again first. What follows is the terminator's.
    ///
    /// # Errors
    /// [`CallError::NotFound`] when it is gone.
    pub async fn remove(&self, mut claim: NodeClaim) -> Result<NodeClaim, CallError> {
        let (name, mut conflicts) = (claim.name_any(), Conflicts::default());
        while claim.metadata.deletion_timestamp.is_none() {
            let only = Preconditions { uid: claim.uid(), resource_version: claim.resource_version() };
            let params = DeleteParams::default().preconditions(only);
            match self.calls.run(&format!("delete nodeclaim {name}"), || self.api.delete(&name, &params)).await {
                Ok(answer) => return answer.ok_or(CallError::NotFound(name)),
                Err(CallError::Conflict(_)) => {
                    conflicts.pause(&self.calls, &name).await;
                    claim = self.same(&claim).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(claim)
    }

    /// Deletes a claim for a reason that was seen in it as it is here. One that has changed, or is not to be had for a while, is to be
    /// looked at again by whoever has decided.
    ///
    /// # Errors
    /// [`CallError::NotFound`] when it is gone.
    pub async fn remove_as_seen(&self, claim: &NodeClaim) -> Result<NodeClaim, CallError> {
        let name = claim.name_any();
        let only = Preconditions { uid: claim.uid(), resource_version: claim.resource_version() };
        let params = DeleteParams::default().preconditions(only);
        let deleting = || self.api.delete(&name, &params);
        let answer = self.calls.run_for(REPEATED_FOR, &format!("delete nodeclaim {name}"), deleting).await?;
        answer.ok_or(CallError::NotFound(name))
    }

    /// Relabels a claim whose instance is bought in this way, and is in a capacity reservation no more; reports it.
    pub async fn leave_reservation(&self, claim: &NodeClaim, bought: &str) -> Result<NodeClaim, CallError> {
        let (node, node_claim, reservation) = tagging::reservation_of(claim);
        let change = |claim: &mut NodeClaim| tagging::relabel(claim.labels_mut(), bought);
        let written = self.change_metadata(claim.clone(), change).await?;
        self.calls.env.emit(LogEvent::ReservationEnded { node, node_claim, reservation });
        Ok(written)
    }

    /// Deletes a claim of which it is certain that no instance belongs to it, finalizer and all. Answers whether it is
    /// gone: others may hold it. A request that arrives when a successor has launched for it deletes nothing.
    pub async fn delete_without_instance(&self, claim: &NodeClaim) -> Result<bool, CallError> {
        let free = |claim: &mut NodeClaim| claim.finalizers_mut().retain(|one| one != TERMINATION_FINALIZER);
        let freed = async { self.change_metadata(self.remove(claim.clone()).await?, free).await };
        match freed.await {
            Ok(there) => Ok(there.finalizers().is_empty()),
            Err(CallError::NotFound(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads the same claim once, as it stands now.
    ///
    /// # Errors
    /// As [`Calls::once`]; [`CallError::NotFound`] when it is gone.
    pub async fn now(&self, claim: &NodeClaim) -> Result<NodeClaim, CallError> {
        let there = self.calls.once(self.api.get(&claim.name_any())).await?;
        if there.uid() == claim.uid() { Ok(there) } else { Err(CallError::NotFound(claim.name_any())) }
    }

    /// Reads the same claim as it stands now; another claim of its name does not count.
    ///
    /// # Errors
    /// [`CallError::NotFound`] when it is gone.
    pub async fn same(&self, claim: &NodeClaim) -> Result<NodeClaim, CallError> {
        let there = self.get(&claim.name_any()).await?;
        if there.uid() == claim.uid() { Ok(there) } else { Err(CallError::NotFound(claim.name_any())) }
    }
}
