//! The Secret with the certificates: read by every replica, written by the leader alone, each time on what it has read.

use std::collections::BTreeMap;

use dovetail_core::webhook::kept::{KeptIdentities, ServingIdentity};
use dovetail_core::webhook::rotation::{self, RotationStep};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};

use super::Pass;
use crate::kube::calls::CallError;
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;

/// Most steps of one pass; more would be a fault.
const MOST_STEPS: usize = 4;

impl Pass {
    fn secrets(&self) -> LenientApi<Secret> {
        LenientApi::namespaced(self.calls.client.clone(), &self.env.settings.system_namespace)
    }

    /// Contents of the Secret; the leader first takes the steps that are due. `None` while there is none.
    pub(super) async fn certificates(&mut self) -> Result<Option<KeptIdentities>, CallError> {
        let name = self.env.settings.webhook.secret.clone();
        let api = self.secrets();
        let mut found = self.calls.once(api.get_opt(&name)).await?;
        for _ in 0..MOST_STEPS {
            let kept = found.as_ref().map(read_identities).unwrap_or_default();
            if !self.leads {
                return Ok(found.is_some().then_some(kept));
            }
            let step = self.step(&kept);
            if step == RotationStep::Wait {
                return Ok(Some(kept));
            }
            let new = self.after(kept, step)?;
            let params = PostParams::default();
            found = Some(match found {
                Some(secret) => {
                    let body = Secret { data: Some(entries(&new)), string_data: None, ..secret };
                    self.calls.once(api.replace(&name, &params, &body)).await?
                }
                None => {
                    let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
                    let body = Secret { metadata, data: Some(entries(&new)), ..Secret::default() };
                    self.calls.once(api.create(&params, &body)).await?
                }
            });
            self.env.emit(LogEvent::WebhookRotated { step: step_name(step).into() });
        }
        Err(CallError::Refused(format!("secret {name} does not keep what is written into it")))
    }

    fn step(&self, kept: &KeptIdentities) -> RotationStep {
        let (now, names) = (self.env.wall(), self.place.names());
        let sound = |one: &ServingIdentity| self.identities.is_sound(one, &names, now);
        let trusted = self.definitions.trusted_for(&kept.bundle(), self.env.now());
        rotation::step(&kept.held(sound), trusted, now)
    }

    fn after(&self, kept: KeptIdentities, step: RotationStep) -> Result<KeptIdentities, CallError> {
        let now = self.env.wall();
        let made = if matches!(step, RotationStep::Replace | RotationStep::Prepare) {
            let (begins, until) = rotation::validity(now);
            let made = self.identities.make(&self.place.names(), begins, until);
            Some(made.map_err(|why| CallError::Refused(format!("no certificate can be made: {why}")))?)
        } else {
            None
        };
        Ok(kept.after(step, made, now))
    }
}

fn step_name(step: RotationStep) -> &'static str {
    match step {
        RotationStep::Wait => "unchanged",
        RotationStep::Replace => "made and served at once, as none could be served",
        RotationStep::Prepare => "made, to be served once API servers trust it",
        RotationStep::Promote => "changed for the next",
        RotationStep::Forget => "the only trusted one; the former is no longer trusted",
    }
}

fn read_identities(secret: &Secret) -> KeptIdentities {
    let data = secret.data.iter().flatten();
    let text = data.filter_map(|(name, value)| Some((name.clone(), String::from_utf8(value.0.clone()).ok()?)));
    KeptIdentities::from_entries(&text.collect())
}

fn entries(kept: &KeptIdentities) -> BTreeMap<String, ByteString> {
    kept.entries().into_iter().map(|(name, text)| (name, ByteString(text.into_bytes()))).collect()
}
