//! CapacityQuotas in a plan: they hold, and what the plan takes of them is shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dovetail_api::autoscaling::{CapacityQuota, VERSIONS};
use dovetail_api::manifest::Manifest;
use dovetail_core::Problem;
use dovetail_core::Resources;
use dovetail_core::cluster_state::{ClusterState, Snapshot};
use dovetail_core::pack::{Packing, quotas_with_plan};
use dovetail_core::quotas::{WrittenQuota, judge_quota};
use dovetail_core::resources::format_amount;
use dovetail_input::Mistake;
use serde::Serialize;

/// A quota of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct QuotaPlan {
    name: String,
    /// False if it cannot be read, or is beyond those that are held.
    held: bool,
    message: String,
    /// `spec.limits.resources`.
    limits: Resources,
    /// Resources that nodes have, with the most that the plan's nodes may get.
    used: Resources,
}

/// Puts quotas into the state.
pub(super) fn apply_all(state: &mut ClusterState, quotas: Vec<WrittenQuota>) {
    for quota in quotas {
        state.apply_quota(quota);
    }
}

/// Takes the quotas out of manifests where they are held.
///
/// # Errors
/// A quota that is no quota at all; one whose fields make no sense is not held, as in a cluster.
pub(super) fn take_from(manifests: &mut Vec<Manifest>, are_held: bool) -> Result<Vec<WrittenQuota>, Vec<Mistake>> {
    let (mut all, mut mistakes) = (BTreeMap::new(), Vec::new());
    if !are_held {
        return Ok(Vec::new());
    }
    let is_quota = |one: &Manifest| one.kind == "CapacityQuota" && VERSIONS.contains(&one.api_version.as_str());
    for manifest in manifests.iter().filter(|one| is_quota(one)) {
        match serde_json::from_value::<CapacityQuota>(manifest.object.clone()) {
            Ok(quota) => drop(all.insert(manifest.name.clone(), WrittenQuota::new(quota))),
            Err(why) => mistakes.push(Mistake {
                file: manifest.file.clone(),
                line: manifest.line,
                field: format!("CapacityQuota/{}", manifest.name),
                what: why.to_string(),
                allowed: String::new(),
            }),
        }
    }
    manifests.retain(|one| !is_quota(one));
    if mistakes.is_empty() { Ok(all.into_values().collect()) } else { Err(mistakes) }
}

/// The quotas of a cluster; what is used of them is not known before the plan.
pub(super) fn plans(snapshot: &Snapshot) -> Vec<QuotaPlan> {
    let held: Vec<&str> = snapshot.quotas.held().map(|quota| quota.name.as_str()).collect();
    let each = snapshot.quotas.all().iter().map(|(name, written)| {
        let verdict = judge_quota(written, held.contains(&name.as_str()), Resources::new());
        let limits = written.read.as_ref().map(|quota| quota.limits.clone()).unwrap_or_default();
        let (held, message) = (verdict.held, verdict.message);
        QuotaPlan { name: name.clone(), held, message, limits, used: Resources::new() }
    });
    each.collect()
}

/// The quotas with what is used of them once the plan is carried out.
pub(super) fn planned(quotas: &[QuotaPlan], problem: &Problem, packing: &Packing) -> Vec<QuotaPlan> {
    if quotas.is_empty() {
        return Vec::new();
    }
    let used: BTreeMap<String, Resources> =
        quotas_with_plan(problem, packing).into_iter().map(|quota| (quota.name, quota.usage)).collect();
    let with_use =
        |quota: &QuotaPlan| QuotaPlan { used: used.get(&quota.name).cloned().unwrap_or_default(), ..quota.clone() };
    quotas.iter().map(with_use).collect()
}

/// A line for each quota.
pub(super) fn lines(quotas: &[QuotaPlan]) -> String {
    let mut text = String::new();
    for QuotaPlan { name, held, message, limits, used } in quotas {
        let amounts = limits.iter().map(|(resource, limit)| {
            let amount = |amount: i64| format_amount(resource, amount);
            format!("{} of {} {resource}", amount(used.get(resource)), amount(limit))
        });
        let _ = match held {
            true => writeln!(text, "capacityquota {name}: {} with this plan", amounts.collect::<Vec<_>>().join(", ")),
            false => writeln!(text, "capacityquota {name}: {message}"),
        };
    }
    text
}
