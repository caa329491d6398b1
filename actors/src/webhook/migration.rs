//! Stores anew as v1 the objects that are stored as v1beta1: each object gets an empty patch, which has an API server write it in
//! the version that it stores. When none is left the definition says so, and no later release needs to know v1beta1.
//! `dovetail_core::webhook::migration` keeps the progress and the next step.
//!
//! One object after the other, with a pause after each: pods that wait for nodes come first. After so many the certificates are
//! looked at again, and it goes on from there.

use std::time::Duration;

use dovetail_core::webhook::definition;
use dovetail_core::webhook::migration::{Listed, MigrationStep};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;

use super::Pass;
use super::definitions::NAMES;
use crate::kube::calls::CallError;
use crate::telemetry::log_event::LogEvent;

/// Pause after the definitions were seen to be right: every API server knows them by then.
const AFTER: Duration = Duration::from_secs(30);
/// Objects a page.
const PAGE: u32 = 500;
/// Objects a pass.
const MOST: usize = 200;
/// Pause after each object.
const PAUSE: Duration = Duration::from_millis(50);

impl Pass {
    /// Stores anew what is stored as v1beta1. Whether nothing is left to do for now.
    pub(super) async fn store_anew(&mut self, standing: Vec<CustomResourceDefinition>) -> Result<bool, CallError> {
        if standing.len() < NAMES.len() {
            // Objects written meanwhile may have been stored in any version.
            self.definitions.migrations.clear();
            return Ok(true);
        }
        let due: Vec<_> = standing.into_iter().filter(definition::stores_older).collect();
        self.definitions.migrations.retain(|name, _| due.iter().any(|crd| crd.name_any() == *name));
        if due.is_empty() {
            return Ok(true);
        }
        if !self.definitions.stand_since(AFTER, self.env.now()) {
            return Ok(false);
        }
        let (mut room, mut rests, mut failed) = (MOST, true, None);
        for crd in due {
            match self.migrate(&crd, &mut room).await {
                Ok(rested) => rests &= rested,
                Err(error @ CallError::Deposed) => return Err(error),
                // One kind never stops the others.
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(rests), Err)
    }

    /// Stores objects of a kind anew, as many as there is room for. Whether nothing is left to do for now.
    async fn migrate(&mut self, crd: &CustomResourceDefinition, room: &mut usize) -> Result<bool, CallError> {
        let (names, group, name) = (&crd.spec.names, &crd.spec.group, crd.name_any());
        let kind = GroupVersionKind::gvk(group, definition::STORED, &names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &names.plural);
        // Nothing of the objects is read but their names, so that none is unreadable.
        let api: kube::Api<DynamicObject> = kube::Api::all_with(self.calls.client.clone(), &resource);
        loop {
            let now = self.env.now();
            match self.definitions.migrations.entry(name.clone()).or_default().next(crd.metadata.generation, now) {
                MigrationStep::List => {
                    let all = self.list_all(&api).await?;
                    self.definitions.migrations.entry(name.clone()).or_default().listed(all);
                }
                MigrationStep::Wait => return Ok(true),
                MigrationStep::Write(_) if *room == 0 => return Ok(false),
                MigrationStep::Write(object) => {
                    *room -= 1;
                    self.write_anew(&api, &name, object).await?;
                    tokio::time::sleep(PAUSE).await;
                }
                MigrationStep::Done(count) => {
                    let (params, patch) = (PatchParams::default(), Patch::Merge(definition::trimmed(crd)));
                    self.calls.once(self.crds().patch_status(&name, &params, &patch)).await?;
                    self.definitions.migrations.remove(&name);
                    self.definitions.migrated += count;
                    self.env.emit(LogEvent::StoredAnew { definition: name, objects: count });
                    return Ok(true);
                }
            }
        }
    }

    /// All objects of a kind, before the first is written: where a page is long in coming, the API server knows no more of the list.
    async fn list_all(&self, api: &kube::Api<DynamicObject>) -> Result<Vec<Listed>, CallError> {
        let (mut page, mut all) = (ListParams::default().limit(PAGE), Vec::new());
        loop {
            let found = self.calls.once(api.list_metadata(&page)).await?;
            all.extend(
                found
                    .items
                    .into_iter()
                    .map(|one| Listed { name: one.name_any(), resource_version: one.metadata.resource_version }),
            );
            match found.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    async fn write_anew(
        &mut self,
        api: &kube::Api<DynamicObject>,
        definition: &str,
        object: Listed,
    ) -> Result<(), CallError> {
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": object.resource_version}}));
        let answer = self.calls.once(api.patch(&object.name, &PatchParams::default(), &patch)).await;
        let (env, now) = (self.env.clone(), self.env.now());
        let migration = self.definitions.migrations.entry(definition.to_owned()).or_default();
        match answer {
            // Whoever has written it meanwhile has had it stored as v1.
            Ok(_) | Err(CallError::Conflict(_) | CallError::NotFound(_)) => migration.written(),
            Err(CallError::Refused(why)) => {
                if migration.refused(&why, now) {
                    let (definition, object) = (definition.to_owned(), object.name);
                    env.emit(LogEvent::NotStoredAnew { definition, object, why });
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
