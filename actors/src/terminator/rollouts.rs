//! Pods that are moved by a restart of their Deployment: asked for by their annotation, decided by
//! `dovetail_core::termination::rollout`, begun once a drain and Deployment.
//!
//! An example: `web` has two replicas, both on the node that goes, and a budget that keeps both. An eviction would be refused
//! for ever. A restart brings new pods first, elsewhere as the node is tainted, and then takes the old ones; the drain waits for
//! that. Where it brings none within ten minutes, the pods are evicted as any others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::{Moment, PodEntry, Snapshot};
use dovetail_core::termination::rollout::progress::{News, RestartAnswer, RestartProgress};
use dovetail_core::termination::rollout::{RestartVerdict, judge, restart};
use dovetail_core::termination::{Drain, HeldPod, HoldReason, SuccessorPlace};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::ResourceExt;

use super::Terminator;
use super::places::Drained;
use super::steps::StepEnv;
use crate::context::book::Key;
use crate::kube::calls::{CallError, Calls};
use crate::messages::{Record, Roll};
use crate::reading::LenientApi;
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;

/// A restart within a drain: one for each Node and ReplicaSet whose pods are to leave.
#[derive(Clone)]
struct RolloutKey {
    node: String,
    /// Namespace and name of the ReplicaSet.
    set: String,
}

/// A Deployment's restart in a drain.
pub(super) struct Restart {
    progress: RestartProgress,
    /// Its namespace and name; its ReplicaSet's before it is known.
    deployment: String,
}

/// A pod's set, if the pod asks to be moved by a rollout.
fn set_of(pod: &PodEntry) -> Option<String> {
    pod.drain.rollout.as_ref().map(|set| format!("{}/{set}", pod.pod.namespace))
}

impl Terminator {
    /// Takes out of a drain's evictions the pods that go by a restart of their Deployment, and begins what is due.
    pub(super) fn by_rollout(
        &mut self,
        drained: &Drained<'_>,
        drain: &mut Drain,
        snapshot: &Snapshot,
        now: Moment,
        ctx: &mut Context<Self>,
    ) -> BTreeMap<String, HoldReason> {
        let mut rules = BTreeMap::new();
        let (step_env, name) = (drained.step_env, drained.node.name_any());
        for pod in std::mem::take(&mut drain.evict) {
            let Some(set) = set_of(&pod).filter(|_| snapshot.rollouts) else {
                drain.evict.push(pod);
                continue;
            };
            // A restart that has failed gives its pods back to the evictions below.
            let key = RolloutKey { node: name.clone(), set };
            self.give_up_rollout(step_env, &pod, &key, now.monotonic);
            let there = || {
                SuccessorPlace::for_pod(snapshot, &pod, now) == SuccessorPlace::Ready || snapshot.budgets_hold(&pod.pod)
            };
            // Once begun it stays begun: whether the budget would allow an eviction by now no longer matters.
            let moves = match self.known_restart(&key) {
                Some(known) => known.progress.moves(),
                None => snapshot.moves_by_rollout(&pod) && there(),
            };
            if !moves {
                drain.evict.push(pod);
                continue;
            }
            let new = || Restart { progress: RestartProgress::new(now.monotonic), deployment: key.set.clone() };
            let Some(removal) = self.known.get_mut(&Key::node(&key.node)) else { continue };
            let progress = &mut removal.rollouts.entry(key.set.clone()).or_insert_with(new).progress;
            let full = format!("{}/{}", pod.pod.namespace, pod.pod.name);
            rules.insert(full, HoldReason::Rollout(progress.description().to_owned()));
            let asks = progress.asks(now.monotonic);
            // The pod that the restart brings has this pod's place, and no other place is looked for.
            if progress.add(&pod.pod.uid) {
                let pods = vec![pod.pod.uid.clone()];
                self.env.post(&self.links.cluster, Roll { pods, rolls: true });
            }
            if asks {
                self.ask_rollout(drained, pod, key, ctx);
            }
        }
        rules
    }

    fn known_restart(&mut self, key: &RolloutKey) -> Option<&mut Restart> {
        self.known.get_mut(&Key::node(&key.node))?.rollouts.get_mut(&key.set)
    }

    /// Gives up the wait for a restart that has brought no new pod for too long.
    fn give_up_rollout(&mut self, step_env: &StepEnv, pod: &PodEntry, key: &RolloutKey, now: Duration) {
        let Some(known) = self.known_restart(key) else { return };
        if let Some(news) = known.progress.give_up(now) {
            let deployment = known.deployment.clone();
            self.report_rollout(step_env, pod, &key.node, deployment, news);
        }
    }

    fn ask_rollout(&mut self, drained: &Drained<'_>, pod: Arc<PodEntry>, key: RolloutKey, ctx: &mut Context<Self>) {
        let deleted = |meta: &kube::api::ObjectMeta| meta.deletion_timestamp.as_ref().map(|time| time.0);
        let began =
            deleted(&drained.node.metadata).or_else(|| drained.claim.and_then(|claim| deleted(&claim.metadata)));
        let since = began.unwrap_or_else(|| self.env.wall());
        let asking = ask_restart(self.links.calls.clone(), pod.clone(), since, self.env.wall()).into_actor(self);
        let step_env = drained.step_env.clone();
        ctx.spawn(asking.map(move |answer, terminator, ctx| {
            terminator.rollout_answered(&step_env, &pod, &key, answer);
            ctx.run_later(super::SETTLING_TIME, move |terminator, ctx| {
                terminator.mark_if_going(super::Key::Node(key.node), ctx);
            });
        }));
    }

    fn rollout_answered(&mut self, step_env: &StepEnv, pod: &PodEntry, key: &RolloutKey, answered: AskedRestart) {
        let AskedRestart { deployment, answer } = answered;
        let now = self.env.now();
        // The Node may have gone while the API server was asked.
        let Some(known) = self.known_restart(key) else { return };
        deployment.clone_into(&mut known.deployment);
        if let Some(news) = known.progress.answered(answer, now) {
            self.report_rollout(step_env, pod, &key.node, deployment, news);
        }
    }

    /// Says what became of a restart; the pods that do not go by it after all need other places.
    fn report_rollout(&self, step_env: &StepEnv, pod: &PodEntry, node: &str, deployment: String, news: News) {
        let (object, full) = (object::pod(&pod.pod), format!("{}/{}", pod.pod.namespace, pod.pod.name));
        let node = node.to_owned();
        match news {
            News::Restarted => {
                let message = format!("Restarted deployment {deployment}: node {node} is being terminated");
                step_env.emit(LogEvent::DeploymentRestarted { deployment, node, pod: full });
                step_env.record(Record::normal(object, "MovedByRollout", message));
            }
            News::Never(why, pods) => {
                self.env.post(&self.links.cluster, Roll { pods, rolls: false });
                let message = format!("Deployment {deployment} does not move the pod from node {node}: {why}");
                step_env.emit(LogEvent::NotRestarted { deployment, node, pod: full, why });
                step_env.record(Record::warning(object, "NotMovedByRollout", message));
            }
        }
    }
}

/// Says of pods that go by a rollout that they do.
pub(super) fn name_rollouts(held: &mut [HeldPod], rules: &BTreeMap<String, HoldReason>) {
    for one in held {
        if let Some(rule) = rules.get(&one.pod) {
            one.rule = rule.clone();
        }
    }
}

/// Outcome of a request for a restart.
struct AskedRestart {
    /// Namespace and name of the Deployment; of its ReplicaSet while nobody knows the Deployment.
    deployment: String,
    answer: RestartAnswer,
}

/// Finds a pod's Deployment, judges it, and restarts it.
async fn ask_restart(calls: Calls, pod: Arc<PodEntry>, since: Timestamp, now: Timestamp) -> AskedRestart {
    let (namespace, set) = (&pod.pod.namespace, pod.drain.rollout.clone().unwrap_or_default());
    let of_set = |answer| AskedRestart { deployment: format!("{namespace}/{set}"), answer };
    let deployment = match deployment_of(&calls, namespace, &set).await {
        Ok(Some(deployment)) => deployment,
        Ok(None) => return of_set(RestartAnswer::Never("its pods are of no Deployment".into())),
        Err(error) => return of_set(answer_of_error(error)),
    };
    let name = deployment.name_any();
    let answer = match judge(&deployment, since) {
        RestartVerdict::Restarted => RestartAnswer::Known,
        RestartVerdict::Wait(why) => RestartAnswer::Waits(why.into()),
        RestartVerdict::Never(why) => RestartAnswer::Never(why.into()),
        RestartVerdict::Restart => {
            let api = LenientApi::<Deployment>::namespaced(calls.client.clone(), namespace);
            match calls.merge(&api, &name, restart(&deployment, now)).await {
                Ok(_) => RestartAnswer::Restarted,
                Err(error) => answer_of_error(error),
            }
        }
    };
    AskedRestart { deployment: format!("{namespace}/{name}"), answer }
}

fn answer_of_error(error: CallError) -> RestartAnswer {
    match error {
        CallError::Forbidden(why) => {
            RestartAnswer::Never(format!("{why} (the chart's value moves.rollout gives the verb)"))
        }
        CallError::Refused(why) | CallError::NotFound(why) => RestartAnswer::Never(why),
        error => RestartAnswer::Waits(error.to_string()),
    }
}

async fn deployment_of(calls: &Calls, namespace: &str, set: &str) -> Result<Option<Deployment>, CallError> {
    let sets = LenientApi::<ReplicaSet>::namespaced(calls.client.clone(), namespace);
    let set = calls.run(&format!("get replicaset {namespace}/{set}"), || sets.get(set)).await?;
    let owner = set.owner_references().iter().find(|owner| owner.controller == Some(true));
    // A ReplicaSet of another owner than a Deployment, such as an Argo Rollout, is not restarted by an annotation.
    let Some(owner) = owner.filter(|owner| owner.kind == "Deployment").cloned() else { return Ok(None) };
    let all = LenientApi::<Deployment>::namespaced(calls.client.clone(), namespace);
    let deployment = calls.run(&format!("get deployment {namespace}/{}", owner.name), || all.get(&owner.name)).await?;
    // One that was made anew under its name does not own the ReplicaSet, and its restart would move no pod.
    Ok(Some(deployment).filter(|deployment| deployment.uid().as_deref() == Some(owner.uid.as_str())))
}
