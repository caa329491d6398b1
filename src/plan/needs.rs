//! The nodes that pods need: objects of one moment as a problem without any node.

use std::sync::Arc;

use dovetail_api::manifest::{self, Manifest, ReadOptions};
use dovetail_core::Problem;
use dovetail_core::cluster_state::{ClusterState, PlanningInput};
use dovetail_input::Mistake;
use serde_json::{Value, json};

use super::admitted::PlanAdmission;
use super::manifests::{apply_pools, apply_workloads, catalogue_of};
use super::storage;

/// The problem of objects, all of whose pods wait. `place` is said of mistakes in them.
///
/// # Errors
/// An object that is none.
pub fn problem_of_objects(place: &str, objects: &[Value], region: &str) -> Result<Arc<Problem>, Vec<Mistake>> {
    let catalogue = catalogue_of(place, region)?;
    let text = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let read = manifest::read_manifests(&[(place, text.as_str())], &ReadOptions::default());
    let read = read.map_err(|errors| errors.into_iter().map(Mistake::from).collect::<Vec<_>>())?;
    let manifests: Vec<Manifest> = read.into_iter().filter(|one| !one.foreign).collect();
    let (mut state, mut input, mut warnings) = (ClusterState::new(), PlanningInput::default(), Vec::new());
    apply_pools(&mut state, &mut input, &manifests, &catalogue, false, &mut warnings)?;
    let admission = PlanAdmission::from_manifests(&manifests);
    let pods = admission.pods(&manifests, &mut warnings);
    storage::apply(&mut state, &manifests, &pods, &mut warnings);
    let refused = admission.refused_daemon_sets(&manifests, &mut warnings);
    apply_workloads(&mut state, &manifests, &pods, &refused)?;
    Ok(state.snapshot().planning(&input).problem)
}
