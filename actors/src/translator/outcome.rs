//! The conditions and events of an alpha object.

use std::sync::Arc;

use dovetail_api::convert::translate::TranslationProblem;
use dovetail_api::names::conditions::{DEFAULTS_TAKEN, FALSE, FIELDS_LEFT_OUT, READY, TRANSLATED, TRUE, UNKNOWN};
use dovetail_api::v1::{NewCondition, condition, set_condition};
use dovetail_api::v1alpha1::AWSNodeTemplate;
use dovetail_api::v1alpha5::{Machine, Provisioner};
use dovetail_core::cluster_state::Unreadable;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt};
use serde_json::json;

use crate::kube::calls::{CallError, Calls};
use crate::messages::reference;
use crate::reading::LenientApi;

/// Longest message of a condition, in characters; the API server takes 32,768.
const LONGEST_MESSAGE: usize = 8_000;

/// Outcome of an alpha object's translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TranslationOutcome {
    /// Its v1 objects are in step with it.
    InStep {
        /// The objects, as `NodePool default`.
        made: Vec<String>,
        /// Defaults for omitted fields, with their meaning.
        defaults: Vec<String>,
        /// Fields without a counterpart.
        left_out: Vec<String>,
    },
    /// It is not translated; what was made from it before stays as it was.
    Not(TranslationProblem),
}

impl TranslationOutcome {
    pub fn text(&self) -> String {
        match self {
            Self::InStep { made, .. } => format!("in step: {}", made.join(", ")),
            Self::Not(problem) => format!("{}: {}", problem.reason, problem.message),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlphaKind {
    Provisioner,
    Template,
}

/// The parts of an alpha object that are used here.
#[derive(Clone, Debug)]
pub struct Alpha {
    pub kind: AlphaKind,
    pub name: String,
    pub uid: String,
    pub generation: Option<i64>,
    pub resource_version: Option<String>,
    pub conditions: Vec<Condition>,
}

impl Alpha {
    pub fn provisioner(object: &Provisioner) -> Self {
        let conditions = object.status.as_ref().map(|status| status.conditions.clone());
        Self::from_object(AlphaKind::Provisioner, object, conditions)
    }

    pub fn template(object: &AWSNodeTemplate) -> Self {
        let conditions = object.status.as_ref().map(|status| status.conditions.clone());
        Self::from_object(AlphaKind::Template, object, conditions)
    }

    fn from_object<K: ResourceExt>(kind: AlphaKind, object: &K, conditions: Option<Vec<Condition>>) -> Self {
        Self {
            kind,
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            generation: object.meta().generation,
            resource_version: object.resource_version(),
            conditions: conditions.unwrap_or_default(),
        }
    }

    pub fn reference(&self) -> ObjectReference {
        match self.kind {
            AlphaKind::Provisioner => object::<Provisioner>(&self.name, &self.uid),
            AlphaKind::Template => object::<AWSNodeTemplate>(&self.name, &self.uid),
        }
    }

    /// Its conditions after this outcome; `ready` is the condition Ready of what was made from it.
    pub fn conditions_after(
        &self,
        outcome: &TranslationOutcome,
        ready: Option<&Condition>,
        now: Timestamp,
    ) -> Vec<Condition> {
        let mut all = self.conditions.clone();
        let mut set = |type_: &str, status: &str, reason: &str, message: &str| {
            let message: String = message.chars().take(LONGEST_MESSAGE).collect();
            set_condition(&mut all, NewCondition::new(type_, status).because(reason, &message), self.generation, now);
        };
        match outcome {
            TranslationOutcome::InStep { made, defaults, left_out } => {
                set(TRANSLATED, TRUE, "Translated", &made.join(", "));
                set(DEFAULTS_TAKEN, TRUE, "NotSaid", &defaults.join("\n"));
                set(FIELDS_LEFT_OUT, TRUE, "NoCounterpart", &left_out.join("\n"));
                let unknown = ("AwaitingReconciliation", "what it means has not been looked at yet");
                let (status, (reason, message)) = ready.map_or((UNKNOWN, unknown), |ready| {
                    (ready.status.as_str(), (ready.reason.as_str(), ready.message.as_str()))
                });
                set(READY, status, reason, message);
                let empty = |one: &Condition| {
                    one.type_ == DEFAULTS_TAKEN && defaults.is_empty()
                        || one.type_ == FIELDS_LEFT_OUT && left_out.is_empty()
                };
                all.retain(|one| !empty(one));
            }
            TranslationOutcome::Not(problem) => {
                set(TRANSLATED, FALSE, problem.reason, &problem.message);
                set(READY, FALSE, "NotTranslated", &problem.message);
            }
        }
        all
    }

    pub async fn write(&self, calls: &Calls, conditions: &[Condition]) -> Result<(), CallError> {
        let patch = json!({
            "metadata": {"resourceVersion": self.resource_version},
            "status": {"conditions": conditions},
        });
        match self.kind {
            AlphaKind::Provisioner => {
                let api = LenientApi::<Provisioner>::all(calls.client.clone());
                calls.merge_status(&api, &self.name, patch).await.map(drop)
            }
            AlphaKind::Template => {
                let api = LenientApi::<AWSNodeTemplate>::all(calls.client.clone());
                calls.merge_status(&api, &self.name, patch).await.map(drop)
            }
        }
    }
}

fn object<K: Resource<DynamicType = ()>>(name: &str, uid: &str) -> ObjectReference {
    reference(&K::api_version(&()), &K::kind(&()), "", name, uid)
}

/// The condition of a Machine.
const OF_MACHINE: &str = "a Machine is the record that an earlier Karpenter kept of an instance of its own: no NodeClaim is made of it, \
     as that would launch a second one; leave it to that Karpenter, or delete it when its instance is gone";

/// True if a Machine says already that it is not translated.
pub fn is_reported(machine: &Machine) -> bool {
    let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    condition(conditions, TRANSLATED).is_some_and(|one| one.status == FALSE)
}

/// Says it on the Machine. A failure is tried again by the next leader: it is of no consequence.
pub async fn refuse_machine(calls: Calls, machine: Arc<Machine>, now: Timestamp) {
    let mut conditions = machine.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    set_condition(
        &mut conditions,
        NewCondition::new(TRANSLATED, FALSE).because("NotOurs", OF_MACHINE),
        machine.metadata.generation,
        now,
    );
    let patch = json!({
        "metadata": {"resourceVersion": machine.resource_version()},
        "status": {"conditions": conditions},
    });
    let api = LenientApi::<Machine>::all(calls.client.clone());
    let _ = calls.merge_status(&api, &machine.name_any(), patch).await;
}

/// Says on an object that it cannot be read, where its status takes that.
pub async fn refuse_unreadable(calls: Calls, object: Unreadable, now: Timestamp) {
    let mut conditions = Vec::new();
    let message: String = object.why.chars().take(LONGEST_MESSAGE).collect();
    let generation = object.metadata.generation;
    set_condition(
        &mut conditions,
        NewCondition::new(TRANSLATED, FALSE).because("Unreadable", &message),
        generation,
        now,
    );
    set_condition(&mut conditions, NewCondition::new(READY, FALSE).because("NotTranslated", &message), generation, now);
    // Another object of that name is another.
    let patch = json!({"metadata": {"uid": object.metadata.uid}, "status": {"conditions": conditions}});
    let name = object.metadata.name.clone().unwrap_or_default();
    let client = calls.client.clone();
    // The answer may be as unreadable as the object was.
    let _ = match object.kind.as_str() {
        "Provisioner" => calls.merge_status(&LenientApi::<Provisioner>::all(client), &name, patch).await.map(drop),
        "AWSNodeTemplate" => {
            calls.merge_status(&LenientApi::<AWSNodeTemplate>::all(client), &name, patch).await.map(drop)
        }
        _ => Ok(()),
    };
}
