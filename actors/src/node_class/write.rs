//! Resolution of a class: judged and written to its status.

use std::sync::Arc;

use dovetail_api::names::conditions::{CAPACITY_RESERVATIONS_READY, FALSE, READY, TRUE, UNKNOWN};
use dovetail_api::unimplemented;
use dovetail_api::v1::{EC2NodeClass, NewCondition, condition, set_condition};
use dovetail_api::validation::own;
use dovetail_cloud::CloudNodeClasses;
use dovetail_cloud::node_class::NodeClassResolution;
use dovetail_core::lifecycle::{hash, patch, readiness};
use kube::ResourceExt;
use serde_json::json;

use super::{DOUBTS, said};
use crate::context::backoff::Backoff;
use crate::context::env::Env;
use crate::kube::calls::{CallError, Calls};
use crate::kube::node_classes::NodeClassApi;
use crate::settings::Settings;
use crate::telemetry::log_event::LogEvent;

/// Resolves a class, as often as it takes, and writes what is found. `seen` is the class with its hash as it last stood on it.
pub(super) async fn resolve(
    cloud: Arc<dyn CloudNodeClasses>,
    calls: Calls,
    env: Env,
    class: Arc<EC2NodeClass>,
    seen: EC2NodeClass,
) -> Result<EC2NodeClass, CallError> {
    let mut backoff = Backoff::cloud(env.rng(&class.name_any()));
    let found = loop {
        let error = match cloud.resolve_node_class(&class).await {
            Ok(found) if !is_doubtful(&found) => break found,
            // A check that failed proves nothing: a class that was ready stays so, and is looked at again.
            Ok(found) if backoff.failures() >= DOUBTS => match is_ready(&class) {
                true => return Ok(EC2NodeClass::clone(&class)),
                false => break found,
            },
            Ok(_) => None,
            Err(error) => Some(error),
        };
        if !calls.may_act() {
            return Err(CallError::Deposed);
        }
        let pause = backoff.pause();
        if let (Some(error), 1) = (error, backoff.failures()) {
            env.emit(LogEvent::Retrying { what: error.call().to_owned(), error: error.to_string() });
        }
        tokio::time::sleep(pause).await;
    };
    write_class(&calls, &class, judged(&seen, &found, &env.settings, env.wall())).await
}

/// True if a call failed and nothing is known to be wrong with the class.
pub(super) fn is_doubtful(found: &NodeClassResolution) -> bool {
    let any = |status| found.conditions.iter().any(|finding| finding.status == status);
    any(None) && !any(Some(false))
}

pub(super) fn is_ready(class: &EC2NodeClass) -> bool {
    let conditions = class.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition(conditions, READY)
        .is_some_and(|ready| ready.status == TRUE && ready.observed_generation == class.metadata.generation)
}

/// The class with what was found written on it.
pub(super) fn judged(
    class: &EC2NodeClass,
    found: &NodeClassResolution,
    settings: &Settings,
    now: jiff::Timestamp,
) -> EC2NodeClass {
    let mut class = class.clone();
    let finalizer = settings.provider.class().finalizer;
    let hash = hash::of_class(&class, &settings.cluster_ca_bundle);
    let at = hash::Generations::of_class(&class);
    hash::OF_CLASS.settle(class.annotations_mut(), &hash, at);
    if !class.finalizers().iter().any(|one| one == finalizer) {
        class.finalizers_mut().push(finalizer.into());
    }
    let generation = class.metadata.generation;
    let misspelt = own::of_class(&class);
    let missing = unimplemented::of_class(&class);
    let status = class.status.get_or_insert_default();
    found.write_to(status);
    said::write(&mut status.conditions, misspelt, &missing, generation, now);
    for finding in &found.conditions {
        let says = match finding.status {
            Some(true) => TRUE,
            Some(false) => FALSE,
            None => UNKNOWN,
        };
        let written = NewCondition::new(finding.condition, says).because(&finding.reason, &finding.message);
        set_condition(&mut status.conditions, written, generation, now);
    }
    // Nothing of it is asked for any more.
    let is_asked = found.conditions.iter().any(|finding| finding.condition == CAPACITY_RESERVATIONS_READY);
    status.conditions.retain(|one| is_asked || one.type_ != CAPACITY_RESERVATIONS_READY);
    let dependents: Vec<&str> = found.conditions.iter().map(|finding| finding.condition).collect();
    readiness::set_root_of(&mut status.conditions, &dependents, generation, now);
    class
}

pub(super) async fn write_class(
    calls: &Calls,
    there: &EC2NodeClass,
    wanted: EC2NodeClass,
) -> Result<EC2NodeClass, CallError> {
    let (api, name) = (NodeClassApi::new(calls), wanted.name_any());
    let mut written = there.clone();
    if written.metadata.annotations != wanted.metadata.annotations
        || written.metadata.finalizers != wanted.metadata.finalizers
    {
        let patch = json!({"metadata": {
            "resourceVersion": written.metadata.resource_version,
            "annotations": wanted.metadata.annotations,
            "finalizers": wanted.metadata.finalizers,
        }});
        written = api.merge(&name, patch).await?;
    }
    if written.status != wanted.status {
        let patch = patch::status(&written.metadata, written.status.as_ref(), wanted.status.as_ref());
        written = api.merge_status(&name, patch).await?;
    }
    Ok(written)
}
