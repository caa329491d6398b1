//! Pods that are moved by a restart of their Deployment: asked for by their annotation, decided by
//! `dovetail_core::termination::rollout`, begun once a drain and Deployment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::NodeClaim;
use dovetail_core::cluster_state::{Moment, PodEntry, Snapshot};
use dovetail_core::termination::rollout::{Verdict, judge, restart};
use dovetail_core::termination::{Drain, Held, Place, Rule};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::Terminator;
use super::steps::StepEnv;
use crate::kube::calls::{CallError, Calls};
use crate::messages::{Record, Roll};
use crate::reading::Api;
use crate::recorder::object;
use crate::telemetry::log_event::LogEvent;

/// A Deployment that is rolling out already is looked at again after this.
const AGAIN: Duration = Duration::from_secs(10);
/// And waited for no longer than this: then its pods are evicted as any others.
const LONGEST: Duration = Duration::from_secs(600);

/// How far a restart is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The API server is being asked.
    Asking,
    /// It was restarted.
    Restarted,
    /// Not yet, and why.
    Waits(String),
    /// It will not be; its pods are evicted.
    Never,
}

/// What is known of a Deployment's restart in a drain.
#[derive(Clone, Debug)]
struct Known {
    state: State,
    since: Duration,
    again: Duration,
    /// Its pods on the Node, by uid, of which the state knows that they go by it.
    pods: BTreeSet<String>,
}

/// Restarts by Node and by the namespace and name of the ReplicaSet whose pods are to leave.
#[derive(Default)]
pub(super) struct Rollouts {
    known: BTreeMap<(String, String), Known>,
}

impl Rollouts {
    /// The Node is gone.
    pub fn forget(&mut self, node: &str) {
        self.known.retain(|(of, _), _| of != node);
    }
}

/// A pod's set, if the pod asks to be moved by a rollout.
fn set_of(pod: &PodEntry) -> Option<String> {
    pod.drain.rollout.as_ref().map(|set| format!("{}/{set}", pod.pod.namespace))
}

impl Terminator {
    /// Takes out of a drain's evictions the pods that go by a restart of their Deployment, and begins what is due.
    pub(super) fn by_rollout(
        &mut self,
        (step_env, node, claim): (&StepEnv, &Arc<Node>, Option<&NodeClaim>),
        drain: &mut Drain,
        snapshot: &Snapshot,
        now: Moment,
        ctx: &mut Context<Self>,
    ) -> BTreeMap<String, Rule> {
        let mut rules = BTreeMap::new();
        let name = node.name_any();
        for pod in std::mem::take(&mut drain.evict) {
            let Some(set) = set_of(&pod).filter(|_| snapshot.rollouts) else {
                drain.evict.push(pod);
                continue;
            };
            let key = (name.clone(), set);
            let known = self.rollouts.known.get(&key).cloned();
            let there = || Place::of(snapshot, &pod, now) == Place::Ready || snapshot.budgets_hold(&pod.pod);
            let due = match known.as_ref().map(|known| &known.state) {
                Some(State::Restarted | State::Asking | State::Waits(_)) => true,
                Some(State::Never) => false,
                None => snapshot.moves_by_rollout(&pod) && there(),
            };
            if !due {
                drain.evict.push(pod);
                continue;
            }
            let state = known.as_ref().map(|known| known.state.clone());
            let how = match &state {
                Some(State::Waits(why)) => why.clone(),
                Some(State::Restarted) => "it was restarted".to_owned(),
                _ => "it is being restarted".to_owned(),
            };
            rules.insert(format!("{}/{}", pod.pod.namespace, pod.pod.name), Rule::Rollout(how));
            let again = known.as_ref().is_none_or(|known| known.again <= now.monotonic);
            if again && matches!(state, None | Some(State::Waits(_))) {
                let (since, known_pods) =
                    known.map_or((now.monotonic, BTreeSet::new()), |known| (known.since, known.pods));
                let known = Known { state: State::Asking, since, again: now.monotonic, pods: known_pods };
                self.rollouts.known.insert(key.clone(), known);
                self.roll(&key, &pod);
                self.ask_rollout(step_env, node, claim, (pod, key), ctx);
            } else {
                self.roll(&key, &pod);
            }
        }
        rules
    }

    /// What the restart brings is to have the pod's place, and nobody is to look for another.
    fn roll(&mut self, key: &(String, String), pod: &PodEntry) {
        let Some(known) = self.rollouts.known.get_mut(key) else { return };
        if known.pods.insert(pod.pod.uid.clone()) {
            let pods = vec![pod.pod.uid.clone()];
            self.env.post(&self.links.cluster, Roll { pods, rolls: true });
        }
    }

    fn ask_rollout(
        &mut self,
        step_env: &StepEnv,
        node: &Arc<Node>,
        claim: Option<&NodeClaim>,
        (pod, key): (Arc<PodEntry>, (String, String)),
        ctx: &mut Context<Self>,
    ) {
        let deleted = |meta: &kube::api::ObjectMeta| meta.deletion_timestamp.as_ref().map(|time| time.0);
        let began = deleted(&node.metadata).or_else(|| claim.and_then(|claim| deleted(&claim.metadata)));
        let since = began.unwrap_or_else(|| self.env.wall());
        let asking = ask(self.links.calls.clone(), pod.clone(), since, self.env.wall()).into_actor(self);
        let (step_env, node) = (step_env.clone(), node.clone());
        ctx.spawn(asking.map(move |answer, terminator, ctx| {
            terminator.rollout_answered(&step_env, &node, (&pod, &key), answer);
            ctx.run_later(super::SETTLING_TIME, move |terminator, ctx| {
                terminator.touch(super::Key::Node(key.0), ctx);
            });
        }));
    }

    fn rollout_answered(
        &mut self,
        step_env: &StepEnv,
        node: &Node,
        (pod, key): (&PodEntry, &(String, String)),
        (deployment, answer): (String, Answer),
    ) {
        let now = self.env.now();
        let Some(known) = self.rollouts.known.get_mut(key) else { return };
        let node = node.name_any();
        let full = format!("{}/{}", pod.pod.namespace, pod.pod.name);
        let given_up = now.saturating_sub(known.since) >= LONGEST;
        let (state, reason, message) = match answer {
            Answer::Restarted => {
                let message = format!("Restarted deployment {deployment}: node {node} is being terminated");
                step_env.emit(LogEvent::DeploymentRestarted { deployment, node, pod: full });
                (State::Restarted, "MovedByRollout", message)
            }
            Answer::Known => {
                known.state = State::Restarted;
                return;
            }
            Answer::Waits(why) if !given_up => {
                (known.state, known.again) = (State::Waits(why), now + AGAIN);
                return;
            }
            Answer::Waits(why) | Answer::Never(why) => {
                let message = format!("Deployment {deployment} is not restarted for node {node}: {why}");
                step_env.emit(LogEvent::NotRestarted { deployment, node, pod: full, why });
                (State::Never, "NotMovedByRollout", message)
            }
        };
        known.state = state;
        let warning = known.state == State::Never;
        if warning {
            let pods = std::mem::take(&mut known.pods).into_iter().collect();
            self.env.post(&self.links.cluster, Roll { pods, rolls: false });
        }
        step_env.record(Record { warning, ..Record::normal(object::pod(&pod.pod), reason, message) });
    }
}

/// Says of pods that go by a rollout that they do.
pub(super) fn overlay(held: &mut [Held], rules: &BTreeMap<String, Rule>) {
    for one in held {
        if let Some(rule) = rules.get(&one.pod) {
            one.rule = rule.clone();
        }
    }
}

/// What the API server has answered.
enum Answer {
    Restarted,
    /// It had been before, in this drain.
    Known,
    Waits(String),
    Never(String),
}

/// Finds a pod's Deployment, judges it, and restarts it. Answers its namespace and name too, or its set's.
async fn ask(calls: Calls, pod: Arc<PodEntry>, since: Timestamp, now: Timestamp) -> (String, Answer) {
    let (namespace, set) = (&pod.pod.namespace, pod.drain.rollout.clone().unwrap_or_default());
    let of_set = format!("{namespace}/{set}");
    let deployment = match deployment_of(&calls, namespace, &set).await {
        Ok(Some(deployment)) => deployment,
        Ok(None) => return (of_set, Answer::Never("its pods are of no Deployment".into())),
        Err(error) => return (of_set, failed(error)),
    };
    let name = deployment.name_any();
    let full = format!("{namespace}/{name}");
    let answer = match judge(&deployment, since) {
        Verdict::Restarted => Answer::Known,
        Verdict::Wait(why) => Answer::Waits(why.into()),
        Verdict::Never(why) => Answer::Never(why.into()),
        Verdict::Restart => {
            let api = Api::<Deployment>::namespaced(calls.client.clone(), namespace);
            match calls.merge(&api, &name, restart(&deployment, now)).await {
                Ok(_) => Answer::Restarted,
                Err(error) => failed(error),
            }
        }
    };
    (full, answer)
}

fn failed(error: CallError) -> Answer {
    match error {
        CallError::Forbidden(why) => Answer::Never(format!("{why} (the chart's value moves.rollout gives the verb)")),
        CallError::Refused(why) | CallError::NotFound(why) => Answer::Never(why),
        error => Answer::Waits(error.to_string()),
    }
}

async fn deployment_of(calls: &Calls, namespace: &str, set: &str) -> Result<Option<Deployment>, CallError> {
    let sets = Api::<ReplicaSet>::namespaced(calls.client.clone(), namespace);
    let set = calls.run(&format!("get replicaset {namespace}/{set}"), || sets.get(set)).await?;
    let owner = set.owner_references().iter().find(|owner| owner.controller == Some(true));
    let Some(owner) = owner.filter(|owner| owner.kind == "Deployment").cloned() else { return Ok(None) };
    let all = Api::<Deployment>::namespaced(calls.client.clone(), namespace);
    let deployment = calls.run(&format!("get deployment {namespace}/{}", owner.name), || all.get(&owner.name)).await?;
    Ok(Some(deployment).filter(|deployment| deployment.uid().as_deref() == Some(owner.uid.as_str())))
}
