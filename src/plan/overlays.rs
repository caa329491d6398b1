//! NodeOverlays in a plan: what they make of the types, and both prices of what is planned.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dovetail_api::manifest::Manifest;
use dovetail_api::overlays::{API_VERSION, KIND, NodeOverlay};
use dovetail_core::Problem;
use dovetail_core::cluster_state::{ClusterState, PlanningInput, Snapshot};
use dovetail_core::overlays::{OverlayVerdict, WrittenOverlay, judge_overlay, list_price};
use dovetail_core::pack::{Packing, PlannedClaim};
use dovetail_input::Mistake;
use serde::Serialize;

/// An overlay of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OverlayPlan {
    name: String,
    /// False if it is left out.
    counts: bool,
    /// Reason of the condition ValidationSucceeded.
    reason: &'static str,
    message: String,
}

/// Puts overlays into the state.
pub(super) fn apply_all(state: &mut ClusterState, overlays: Vec<WrittenOverlay>) {
    for overlay in overlays {
        state.apply_overlay(overlay);
    }
}

/// Takes the overlays out of manifests where they count.
///
/// # Errors
/// An overlay that cannot be read.
pub(super) fn take_from(manifests: &mut Vec<Manifest>, count: bool) -> Result<Vec<WrittenOverlay>, Vec<Mistake>> {
    let (mut all, mut mistakes) = (BTreeMap::new(), Vec::new());
    if !count {
        return Ok(Vec::new());
    }
    let is_overlay = |one: &Manifest| one.kind == KIND && one.api_version == API_VERSION;
    for manifest in manifests.iter().filter(|one| is_overlay(one)) {
        match serde_json::from_value::<NodeOverlay>(manifest.object.clone()) {
            Ok(overlay) => drop(all.insert(manifest.name.clone(), WrittenOverlay::new(overlay))),
            Err(why) => mistakes.push(Mistake {
                file: manifest.file.clone(),
                line: manifest.line,
                field: format!("{KIND}/{}", manifest.name),
                what: why.to_string(),
                allowed: String::new(),
            }),
        }
    }
    manifests.retain(|one| !is_overlay(one));
    if mistakes.is_empty() { Ok(all.into_values().collect()) } else { Err(mistakes) }
}

/// The overlays of a cluster, each with what it acts on.
pub(super) fn plans(snapshot: &Snapshot, input: &PlanningInput) -> Vec<OverlayPlan> {
    let overlaid = snapshot.overlaid(&input.instance_types);
    let each = overlaid.effects.iter().map(|(name, effect)| {
        let OverlayVerdict { status, reason, message } = judge_overlay(effect);
        OverlayPlan { name: name.clone(), counts: status == "True", reason, message }
    });
    each.collect()
}

/// Dollars an hour that are paid for all planned nodes, where an overlay says another price of any.
pub(super) fn list_prices(problem: &Problem, packing: &Packing) -> Option<f64> {
    let paid = |claim: &PlannedClaim| list_price(problem, claim);
    packing.claims.iter().any(|claim| paid(claim).is_some()).then(|| {
        let each = packing.claims.iter().map(|claim| paid(claim).unwrap_or(claim.price));
        each.fold(0.0, |sum, price| sum + price)
    })
}

/// A line for the price that is paid, and one for each overlay.
pub(super) fn lines(problem: &Problem, packing: &Packing, overlays: &[OverlayPlan]) -> String {
    let mut text = String::new();
    if let Some(paid) = list_prices(problem, packing) {
        let _ = writeln!(text, "prices are those of nodeoverlays; at list prices these nodes cost ${paid:.4} an hour");
    }
    for OverlayPlan { name, counts, message, .. } in overlays {
        let _ = match counts {
            true => writeln!(text, "nodeoverlay {name}: {message}"),
            false => writeln!(text, "nodeoverlay {name} is left out: {message}"),
        };
    }
    text
}
