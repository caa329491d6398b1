//! The Secret with the certificates: read by every replica, written by the leader alone, each time on what it has read.

use std::collections::BTreeMap;

use dovetail_core::webhook::kept::{Identity, Kept};
use dovetail_core::webhook::rotation::{self, Step};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};

use super::Pass;
use crate::kube::calls::CallError;
use crate::reading::Api;
use crate::telemetry::log_event::LogEvent;

/// More steps than this follow from nothing.
const MOST_STEPS: usize = 4;

impl Pass {
    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.calls.client.clone(), &self.env.settings.system_namespace)
    }

    /// What the Secret holds, after what is due has been done where this is the leader. `None` while there is none.
    pub(super) async fn certificates(&mut self) -> Result<Option<Kept>, CallError> {
        let name = self.env.settings.webhook_secret.clone();
        let api = self.secrets();
        let mut found = self.calls.once(api.get_opt(&name)).await?;
        for _ in 0..MOST_STEPS {
            let kept = found.as_ref().map(read).unwrap_or_default();
            if !self.leads {
                return Ok(found.is_some().then_some(kept));
            }
            let step = self.step(&kept);
            if step == Step::Wait {
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
            self.env.emit(LogEvent::WebhookRotated { step: told(step).into() });
        }
        Err(CallError::Refused(format!("secret {name} does not keep what is written into it")))
    }

    fn step(&self, kept: &Kept) -> Step {
        let (now, names) = (self.env.wall(), self.place.names());
        let sound = |one: &Identity| self.identities.is_sound(one, &names, now);
        let trusted = self.definitions.trusted_for(&kept.bundle(), self.env.now());
        rotation::step(&kept.held(sound), trusted, now)
    }

    fn after(&self, kept: Kept, step: Step) -> Result<Kept, CallError> {
        let now = self.env.wall();
        let made = if matches!(step, Step::Replace | Step::Prepare) {
            let (begins, until) = rotation::validity(now);
            let made = self.identities.make(&self.place.names(), begins, until);
            Some(made.map_err(|why| CallError::Refused(format!("no certificate can be made: {why}")))?)
        } else {
            None
        };
        Ok(kept.after(step, made, now))
    }
}

fn told(step: Step) -> &'static str {
    match step {
        Step::Wait => "unchanged",
        Step::Replace => "made and served at once, as none could be served",
        Step::Prepare => "made, to be served once API servers trust it",
        Step::Promote => "changed for the next",
        Step::Forget => "the only one that is trusted: the former is not any more",
    }
}

fn read(secret: &Secret) -> Kept {
    let data = secret.data.iter().flatten();
    let text = data.filter_map(|(name, value)| Some((name.clone(), String::from_utf8(value.0.clone()).ok()?)));
    Kept::read(&text.collect())
}

fn entries(kept: &Kept) -> BTreeMap<String, ByteString> {
    kept.entries().into_iter().map(|(name, text)| (name, ByteString(text.into_bytes()))).collect()
}
