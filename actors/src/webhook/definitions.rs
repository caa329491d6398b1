//! The CustomResourceDefinitions, as the leader keeps them: v1beta1 served, converted by the webhook, which is trusted by what
//! the Secret holds.

use std::collections::BTreeMap;
use std::time::Duration;

use dovetail_core::webhook::Brake;
use dovetail_core::webhook::definition::{self, DefinitionVerdict};
use dovetail_core::webhook::migration::Migration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};

use super::Pass;
use crate::kube::calls::CallError;
use crate::reading::LenientApi;
use crate::telemetry::log_event::LogEvent;

pub(crate) const NAMES: [&str; 3] =
    ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"];
/// Most patches of one definition within [`PATCHES_WITHIN`]; more are needed only if somebody else undoes them.
const PATCHES: usize = 4;
const PATCHES_WITHIN: Duration = Duration::from_secs(600);

/// Memory of the leader about the definitions.
#[derive(Default)]
pub(super) struct Definitions {
    /// The authorities that all of them have been seen to trust, and since when.
    trusted: Option<(String, Duration)>,
    brakes: BTreeMap<&'static str, Brake>,
    /// Fault of each definition that is not as it should be; reported once.
    wrong: BTreeMap<&'static str, String>,
    /// Progress of storing the objects of each anew.
    pub migrations: BTreeMap<String, Migration>,
    /// Objects that were stored anew.
    pub migrated: u64,
}

impl Definitions {
    /// Time for which all definitions have been seen to trust these authorities.
    pub(super) fn trusted_for(&self, bundle: &str, now: Duration) -> Option<Duration> {
        let (known, since) = self.trusted.as_ref()?;
        (known == bundle).then(|| now.saturating_sub(*since))
    }

    /// True if all definitions have been seen as they should be for this time.
    pub(super) fn stand_since(&self, time: Duration, now: Duration) -> bool {
        self.trusted.as_ref().is_some_and(|(_, since)| now.saturating_sub(*since) >= time)
    }

    /// Faults of the definitions, by name.
    pub(super) fn standing(&self) -> BTreeMap<&'static str, String> {
        self.wrong.clone()
    }

    fn brake(&mut self, name: &'static str, now: Duration) -> Result<(), Duration> {
        self.brakes.entry(name).or_insert_with(|| Brake::new(PATCHES, PATCHES_WITHIN)).take_token(now)
    }
}

impl Pass {
    pub(super) fn crds(&self) -> LenientApi<CustomResourceDefinition> {
        LenientApi::all(self.calls.client.clone())
    }

    /// Keeps the definitions in step; those that are as they should be. One never stops the others.
    pub(super) async fn trust(&mut self, bundle: &str) -> Result<Vec<CustomResourceDefinition>, CallError> {
        let (mut standing, mut failed) = (Vec::new(), None);
        for name in NAMES {
            match self.keep_definition(name, bundle).await {
                Ok(found) => standing.extend(found),
                Err(error @ CallError::Deposed) => return Err(error),
                Err(error) => failed = Some(error),
            }
        }
        if standing.len() < NAMES.len() {
            self.definitions.trusted = None;
        } else if self.definitions.trusted_for(bundle, self.env.now()).is_none() {
            self.definitions.trusted = Some((bundle.to_owned(), self.env.now()));
        }
        failed.map_or(Ok(standing), Err)
    }

    /// One definition, if it is as it should be now.
    async fn keep_definition(
        &mut self,
        name: &'static str,
        bundle: &str,
    ) -> Result<Option<CustomResourceDefinition>, CallError> {
        let api = self.crds();
        let Some(found) = self.calls.once(api.get_opt(name)).await? else {
            self.tell_once(name, "there is no such definition".into());
            return Ok(None);
        };
        let patch = match definition::judge(&found, &self.place, bundle) {
            DefinitionVerdict::AsWanted => {
                self.definitions.wrong.remove(name);
                return Ok(Some(found));
            }
            DefinitionVerdict::Not(why) => {
                self.tell_once(name, why);
                return Ok(None);
            }
            DefinitionVerdict::Patch(patch) => patch,
        };
        if self.definitions.brake(name, self.env.now()).is_err() {
            let why = "somebody else reverts what the leader writes into it; the leader retries after ten minutes";
            self.tell_once(name, why.into());
            return Ok(None);
        }
        let patch = serde_json::from_value(patch).map_err(|why| CallError::Refused(why.to_string()))?;
        let (params, patch) = (PatchParams::default(), Patch::Json::<()>(patch));
        let now = self.calls.once(api.patch(name, &params, &patch)).await?;
        self.env.emit(LogEvent::WebhookDefined { definition: name.into() });
        Ok((definition::judge(&now, &self.place, bundle) == DefinitionVerdict::AsWanted).then_some(now))
    }

    fn tell_once(&mut self, name: &'static str, why: String) {
        if self.definitions.wrong.get(name) != Some(&why) {
            self.env.emit(LogEvent::WebhookNotDefined { definition: name.into(), why: why.clone() });
            self.definitions.wrong.insert(name, why);
        }
    }
}
