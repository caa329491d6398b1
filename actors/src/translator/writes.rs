//! Writes for one alpha object.

use dovetail_api::convert::translate::{
    OwnFields, Translation, TranslationProblem, TranslationStep, is_owned, next_class, next_pool,
};
use dovetail_api::names::conditions::{FALSE, READY, TRUE, UNHEALTHY_DEPENDENTS};
use dovetail_api::v1::{EC2NodeClass, NodePool, condition};
use dovetail_core::cluster_state::Snapshot;
use dovetail_core::lifecycle::readiness;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams, Preconditions};

use super::outcome::{Alpha, AlphaKind, TranslationOutcome};
use crate::context::env::Env;
use crate::kube::calls::{CallError, Calls};
use crate::reading::LenientApi;

/// Writes due for one alpha object.
pub struct Task {
    /// The alpha object that this is done for, and that its outcome is written to.
    pub object: Alpha,
    classes: Vec<TranslationStep<EC2NodeClass>>,
    pool: Option<TranslationStep<NodePool>>,
    /// Classes that it does not mean any more.
    orphaned: Vec<EC2NodeClass>,
    outcome: TranslationOutcome,
    /// Ready of what was made.
    ready: Option<Condition>,
    /// Names that the object has for fields of v1.
    fields: OwnFields,
}

impl Task {
    /// Writes due for an object with this translation, beside the existing objects; `None` if everything is in step.
    pub fn next_for(
        object: Alpha,
        meant: Result<Translation, TranslationProblem>,
        there: &Snapshot,
        now: Timestamp,
    ) -> Option<Self> {
        let made = match meant {
            Ok(made) => made,
            Err(problem) => return Self::refused(object, problem, now),
        };
        let classes: Vec<_> =
            made.classes.iter().map(|class| next_class(class, class_of(there, &class.name_any()))).collect();
        let pool = made.pool.as_ref().map(|pool| next_pool(pool, pool_of(there, &pool.name_any())));
        if let Some(problem) = obstacle(&made, &classes, pool.as_ref()) {
            return Self::refused(object, problem, now);
        }
        let orphaned = orphaned(&object, &made, there);
        let fields = made.fields.clone();
        let outcome = TranslationOutcome::InStep {
            made: names(&made),
            defaults: made.defaults.clone(),
            left_out: made.left_out.clone(),
        };
        let ready = readiness(&object, &made, there);
        let is_done = orphaned.is_empty()
            && classes.iter().all(|next| *next == TranslationStep::Keep)
            && pool.as_ref().is_none_or(|next| *next == TranslationStep::Keep)
            && is_said(&object, &outcome, ready.as_ref(), now);
        (!is_done).then_some(Self { object, classes, pool, orphaned, outcome, ready, fields })
    }

    fn refused(object: Alpha, problem: TranslationProblem, now: Timestamp) -> Option<Self> {
        let outcome = TranslationOutcome::Not(problem);
        let fields = OwnFields::default();
        let nothing = Self { classes: vec![], pool: None, orphaned: vec![], outcome, ready: None, object, fields };
        (!is_said(&nothing.object, &nothing.outcome, None, now)).then_some(nothing)
    }
}

fn class_of<'s>(there: &'s Snapshot, name: &str) -> Option<&'s EC2NodeClass> {
    there.classes.get(name).map(AsRef::as_ref)
}

fn pool_of<'s>(there: &'s Snapshot, name: &str) -> Option<&'s NodePool> {
    there.pools.get(name).map(AsRef::as_ref)
}

/// True if its conditions say this already, for this generation.
fn is_said(object: &Alpha, outcome: &TranslationOutcome, ready: Option<&Condition>, now: Timestamp) -> bool {
    object.conditions_after(outcome, ready, now) == object.conditions
}

/// Obstacle for which nothing is written at all: a name is another's, or the object there is being deleted.
fn obstacle(
    made: &Translation,
    classes: &[TranslationStep<EC2NodeClass>],
    pool: Option<&TranslationStep<NodePool>>,
) -> Option<TranslationProblem> {
    let going = |kind: &str, name: String| TranslationProblem {
        reason: "Waiting",
        message: format!("{kind} {name} of an earlier object is being deleted; the new one is created when it is gone"),
    };
    for (class, next) in made.classes.iter().zip(classes) {
        match next {
            TranslationStep::Taken(by) if is_copy(class, made) => {
                return Some(TranslationProblem::copy_taken(&class.name_any(), by));
            }
            TranslationStep::Taken(by) => {
                return Some(TranslationProblem::taken("EC2NodeClass", &class.name_any(), by));
            }
            TranslationStep::Wait => return Some(going("EC2NodeClass", class.name_any())),
            _ => {}
        }
    }
    let name = made.pool.as_ref().map(ResourceExt::name_any).unwrap_or_default();
    match pool {
        Some(TranslationStep::Taken(by)) => Some(TranslationProblem::taken("NodePool", &name, by)),
        Some(TranslationStep::Wait) => Some(going("NodePool", name)),
        _ => None,
    }
}

/// True if a class is the copy of another's for a kubelet block.
fn is_copy(class: &EC2NodeClass, made: &Translation) -> bool {
    made.pool.as_ref().is_some_and(|pool| pool.name_any() != class.name_any())
}

fn names(made: &Translation) -> Vec<String> {
    let pool = made.pool.iter().map(|pool| format!("NodePool {}", pool.name_any()));
    pool.chain(made.classes.iter().map(|class| format!("EC2NodeClass {}", class.name_any()))).collect()
}

/// Classes that were made for it and that nobody means any more. One that a pool names stays: that of a Provisioner which is
/// refused keeps both as they were.
fn orphaned(object: &Alpha, made: &Translation, there: &Snapshot) -> Vec<EC2NodeClass> {
    let is_meant = |name: &String| made.copies.contains(name) || made.classes.iter().any(|one| one.name_any() == *name);
    let is_named = |name: &String| {
        there
            .pools
            .values()
            .map(|pool| &pool.spec.template.spec.node_class_ref)
            .any(|of| of.is_ec2() && of.name == *name)
    };
    let all = there.classes.values().map(AsRef::as_ref);
    let ours =
        all.filter(|class| is_owned(&class.metadata, &object.uid) && class.metadata.deletion_timestamp.is_none());
    let is_left = |class: &&EC2NodeClass| !is_meant(&class.name_any()) && !is_named(&class.name_any());
    ours.filter(is_left).cloned().collect()
}

/// The condition Ready of the pool, or of a template's class; where that is not True, with why, in the object's own words.
fn readiness(object: &Alpha, made: &Translation, there: &Snapshot) -> Option<Condition> {
    let (name, status, class) = match object.kind {
        AlphaKind::Provisioner => {
            let pool = pool_of(there, &made.pool.as_ref()?.name_any())?;
            let class = class_of(there, &pool.spec.template.spec.node_class_ref.name);
            (format!("NodePool {}", pool.name_any()), &pool.status.as_ref()?.conditions, class)
        }
        AlphaKind::Template => {
            let class = class_of(there, &made.classes.first()?.name_any())?;
            (format!("EC2NodeClass {}", class.name_any()), &class.status.as_ref()?.conditions, Some(class))
        }
    };
    let mut ready = condition(status, READY)?.clone();
    if ready.status != TRUE {
        let of_class = class.and_then(|class| Some(class.status.as_ref()?.conditions.as_slice())).unwrap_or_default();
        // A condition that only sums up others has no reason of its own.
        let mut reasons = readiness::roots(status).chain(readiness::roots(of_class)).map(|root| &root.reason);
        if let Some(first) = reasons.find(|reason| *reason != UNHEALTHY_DEPENDENTS) {
            ready.reason.clone_from(first);
        }
        let is_not = if ready.status == FALSE { "is not Ready" } else { "is not known to be Ready" };
        ready.message = format!("{name} {is_not}: {}", made.fields.in_own_words(&readiness::why(status)));
    }
    Some(ready)
}

/// Writes the classes, then the pool, then what is said of the object. What is refused is said on the object.
///
/// # Errors
/// The term is over, or something has changed meanwhile: it is looked at again.
pub async fn carry_out(calls: Calls, task: Task, env: Env) -> Result<TranslationOutcome, CallError> {
    let Task { object, classes, pool, orphaned, outcome, ready, fields } = task;
    let written = write_all(&calls, &classes, pool.as_ref(), &orphaned).await;
    let outcome = match written {
        Ok(()) => outcome,
        Err(CallError::Refused(why) | CallError::Forbidden(why)) => {
            let why = fields.in_own_words(&why);
            let message = format!("the API server refuses the translation, and nothing is changed: {why}");
            TranslationOutcome::Not(TranslationProblem { reason: "Refused", message })
        }
        Err(error) => return Err(error),
    };
    let conditions = object.conditions_after(&outcome, ready.as_ref(), env.wall());
    if conditions != object.conditions {
        object.write(&calls, &conditions).await?;
    }
    Ok(outcome)
}

async fn write_all(
    calls: &Calls,
    classes: &[TranslationStep<EC2NodeClass>],
    pool: Option<&TranslationStep<NodePool>>,
    orphaned: &[EC2NodeClass],
) -> Result<(), CallError> {
    let of_classes = LenientApi::<EC2NodeClass>::all(calls.client.clone());
    let of_pools = LenientApi::<NodePool>::all(calls.client.clone());
    let count =
        classes.iter().filter(|next| next.writes()).count() + usize::from(pool.is_some_and(|next| next.writes()));
    // If one is refused the others stay as they were: with several objects each is tried first as a dry run.
    let runs: &[bool] = if count > 1 { &[true, false] } else { &[false] };
    for dry_run in runs {
        let params = PostParams { dry_run: *dry_run, ..PostParams::default() };
        for next in classes {
            write(calls, &of_classes, next, &params).await?;
        }
        if let Some(next) = pool {
            write(calls, &of_pools, next, &params).await?;
        }
    }
    for class in orphaned {
        let preconditions = Preconditions { uid: class.uid(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let name = class.name_any();
        match calls.run(&format!("delete ec2nodeclass {name}"), || of_classes.delete(&name, &params)).await {
            Ok(_) | Err(CallError::NotFound(_) | CallError::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Creates an object, or writes it on the version that was read: what somebody else has made or changed meanwhile stays, and is
/// looked at again.
async fn write<K>(
    calls: &Calls,
    api: &LenientApi<K>,
    next: &TranslationStep<K>,
    params: &PostParams,
) -> Result<(), CallError>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + serde::Serialize
        + std::fmt::Debug
        + Send
        + Sync,
{
    match next {
        TranslationStep::Create(object) => {
            calls.run(&format!("create {}", object.name_any()), || api.create(params, object)).await.map(drop)
        }
        TranslationStep::Replace(object) => {
            let name = object.name_any();
            calls.run(&format!("update {name}"), || api.replace(&name, params, object)).await.map(drop)
        }
        TranslationStep::Keep | TranslationStep::Taken(_) | TranslationStep::Wait => Ok(()),
    }
}
