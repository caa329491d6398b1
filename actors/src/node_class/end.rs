//! The end of an EC2NodeClass: it waits for the claims that use it, then what was made for it in the cloud is removed,
//! then its finalizer (aws spec 4.3, 4.9).

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::{EC2NodeClass, NodeClaim};
use dovetail_cloud::CloudNodeClasses;
use dovetail_core::cluster_state::Unreadable;
use kube::ResourceExt;
use serde_json::json;

use super::{NodeClassActor, is_same};
use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::kube::calls::{CallError, Calls, Conflicts};
use crate::kube::claims::NodeClaimApi;
use crate::kube::node_classes::NodeClassApi;
use crate::links::ToClusterWatcher;
use crate::messages::{Record, TakeSnapshot};
use crate::recorder::object;
use crate::telemetry::log_event::{LogEvent, Names};

/// Interval at which a class that waits for its claims is checked.
const AGAIN: Duration = Duration::from_secs(5);

/// Links that the end of a class needs.
struct EndingContext {
    /// Cloud where instance profiles and launch templates are removed.
    cloud: Arc<dyn CloudNodeClasses>,
    /// The API server.
    calls: Calls,
    /// For claims planned and there.
    cluster: ToClusterWatcher,
    /// For the log.
    env: Env,
}

impl NodeClassActor {
    /// Brings a class that is being deleted to its end, as far as its claims let it go.
    pub(super) fn end_class(&mut self, class: Arc<EC2NodeClass>, ctx: &mut Context<Self>) {
        let (name, key) = (class.name_any(), format!("class/{}", class.name_any()));
        if !is_held(&class, self.env.settings.provider.class().finalizer) || !self.busy.insert(key.clone()) {
            return;
        }
        let means = EndingContext {
            cloud: self.cloud.clone(),
            calls: self.calls.clone(),
            cluster: self.cluster.clone(),
            env: self.env.clone(),
        };
        ctx.spawn(end(means, class.clone()).into_actor(self).map(move |ended, actor, ctx| {
            actor.busy.remove(&key);
            if actor.classes.contains_key(&name) && !is_same(&actor.classes, &name, &class) {
                return actor.look_at_class(&name, ctx);
            }
            if let Ok(claims) = ended
                && !claims.is_empty()
            {
                actor.tell_waiting(&class, claims);
                actor.look_at_class_in(name, AGAIN, ctx);
            }
        }));
    }

    fn tell_waiting(&mut self, class: &EC2NodeClass, claims: Vec<String>) {
        let (node_class, node_claims) = (class.name_any(), Names::first(5, claims));
        let message = format!("Waiting on NodeClaim termination for {node_claims}");
        let object = object::class(class, self.env.settings.provider);
        self.env.post(&self.recorder, Record::normal(object, "WaitingOnNodeClaimTermination", &*message));
        let news = (false, "being deleted".to_owned());
        if self.reported.is_news(format!("class/{node_class}"), news) {
            self.env.emit(LogEvent::NodeClassWaits { node_class, node_claims });
        }
    }
}

/// True if our finalizer is on it.
fn is_held(class: &EC2NodeClass, finalizer: &str) -> bool {
    class.finalizers().iter().any(|one| one == finalizer)
}

/// Ends a class that is being deleted; answers the claims that it still waits for.
///
/// # Errors
/// As [`Calls::run`].
async fn end(means: EndingContext, class: Arc<EC2NodeClass>) -> Result<Vec<String>, CallError> {
    let name = class.name_any();
    let waits_for = users(&means, &name).await?;
    if !waits_for.is_empty() {
        return Ok(waits_for);
    }
    let mut backoff = Backoff::cloud(means.env.rng(&name));
    loop {
        // Resources are removed by the class's name: by now another class may have that name, and resources of its own.
        if !still_goes(&means.calls, &class).await? {
            return Ok(Vec::new());
        }
        let Err(error) = means.cloud.remove_node_class(&class).await else { break };
        let pause = backoff.pause();
        if backoff.failures() == 1 && means.calls.may_act() {
            let what = format!("removing what was made for node class {name}");
            means.env.emit(LogEvent::Retrying { what, error: error.to_string() });
        }
        if !means.calls.may_act() {
            return Err(CallError::Deposed);
        }
        tokio::time::sleep(pause).await;
    }
    match release(&means.calls, &class).await {
        Ok(()) => means.env.emit(LogEvent::NodeClassDeleted { node_class: name }),
        Err(CallError::NotFound(_)) => {}
        Err(error) => return Err(error),
    }
    Ok(Vec::new())
}

/// Claims of the class: as planned and known here, and, when these are none, as the API server has them.
async fn users(means: &EndingContext, class: &str) -> Result<Vec<String>, CallError> {
    let provider = means.env.settings.provider;
    let uses = |claim: &NodeClaim| claim.spec.node_class_ref.name_for(provider) == Some(class);
    let Ok(Some(snapshot)) = means.cluster.send(TakeSnapshot).await else { return Err(CallError::Deposed) };
    let known = snapshot.claims.iter().filter(|(_, entry)| uses(&entry.claim)).map(|(name, _)| name.clone());
    let known: Vec<_> = known.collect();
    if !known.is_empty() {
        return Ok(known);
    }
    let there = NodeClaimApi::new(means.calls.clone()).list().await?;
    let read = there.items.iter().filter(|claim| uses(claim)).map(ResourceExt::name_any);
    // One that cannot be read may be of any class, unless it says of which.
    let may_use = |one: &&Unreadable| one.facts.node_class == class || one.facts.node_class.is_empty();
    let unread = there.unreadable.iter().filter(may_use).map(Unreadable::full_name);
    Ok(read.chain(unread).collect())
}

/// True if the class, and no other of its name, exists and is still being deleted.
async fn still_goes(calls: &Calls, class: &EC2NodeClass) -> Result<bool, CallError> {
    match NodeClassApi::new(calls).get(&class.name_any()).await {
        Ok(there) => Ok(there.uid() == class.uid() && there.metadata.deletion_timestamp.is_some()),
        Err(CallError::NotFound(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn release(calls: &Calls, class: &EC2NodeClass) -> Result<(), CallError> {
    let (api, name) = (NodeClassApi::new(calls), class.name_any());
    let finalizer = calls.env.settings.provider.class().finalizer;
    let (mut there, mut conflicts) = (class.clone(), Conflicts::default());
    while is_held(&there, finalizer) && there.uid() == class.uid() {
        let kept: Vec<_> = there.finalizers().iter().filter(|one| *one != finalizer).collect();
        let patch = json!({"metadata": {"resourceVersion": there.resource_version(), "finalizers": kept}});
        match api.merge(&name, patch).await {
            Err(CallError::Conflict(_)) => {
                conflicts.pause(calls, &name).await;
                there = api.get(&name).await?;
            }
            other => return other.map(drop),
        }
    }
    Ok(())
}
