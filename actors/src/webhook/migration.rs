//! What is stored as v1beta1 is stored anew as v1: each object is patched with nothing, which has an API server write it in
//! the version that it stores. When none is left the definition says so, and no later release needs to know v1beta1.
//!
//! One object after the other, with a pause after each: pods that wait for nodes come first. What fails begins anew.

use std::time::Duration;

use dovetail_core::webhook::definition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::json;

use super::Pass;
use super::definitions::NAMES;
use crate::kube::calls::CallError;
use crate::telemetry::log_event::LogEvent;

/// How long after the definitions were seen to be right: every API server knows them by then.
const AFTER: Duration = Duration::from_secs(30);
/// Objects a page.
const PAGE: u32 = 100;
/// Pause after each object.
const PAUSE: Duration = Duration::from_millis(50);

impl Pass {
    /// Stores anew what is stored as v1beta1. Whether nothing is left to do.
    pub(super) async fn store_anew(&mut self, standing: Vec<CustomResourceDefinition>) -> Result<bool, CallError> {
        if standing.len() < NAMES.len() {
            return Ok(true);
        }
        let due: Vec<_> = standing.into_iter().filter(definition::stores_older).collect();
        if due.is_empty() {
            return Ok(true);
        }
        if !self.definitions.stand_since(AFTER, self.env.now()) {
            return Ok(false);
        }
        for crd in due {
            self.migrate(&crd).await?;
        }
        Ok(true)
    }

    async fn migrate(&mut self, crd: &CustomResourceDefinition) -> Result<(), CallError> {
        let (names, group) = (&crd.spec.names, &crd.spec.group);
        let kind = GroupVersionKind::gvk(group, definition::STORED, &names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &names.plural);
        // Nothing of the objects is read but their names, so that none is unreadable.
        let api: kube::Api<DynamicObject> = kube::Api::all_with(self.calls.client.clone(), &resource);
        let (mut page, mut count) = (ListParams::default().limit(PAGE), 0_u64);
        loop {
            let found = self.calls.once(api.list_metadata(&page)).await?;
            for one in &found.items {
                let patch = Patch::Merge(json!({"metadata": {"resourceVersion": one.metadata.resource_version}}));
                match self.calls.once(api.patch(&one.name_any(), &PatchParams::default(), &patch)).await {
                    // Whoever has written it meanwhile has had it stored as v1.
                    Ok(_) | Err(CallError::Conflict(_) | CallError::NotFound(_)) => count += 1,
                    Err(error) => return Err(error),
                }
                tokio::time::sleep(PAUSE).await;
            }
            match found.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => break,
            }
        }
        let (name, trimmed) = (crd.name_any(), definition::trimmed(crd));
        let (params, patch) = (PatchParams::default(), Patch::Merge(trimmed));
        self.calls.once(self.crds().patch_status(&name, &params, &patch)).await?;
        self.definitions.migrated += count;
        self.env.emit(LogEvent::StoredAnew { definition: name, objects: count });
        Ok(())
    }
}
