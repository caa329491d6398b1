//! Cost of the cluster's instances per hour, and of one more (for the ceiling MAX_COST_PER_HOUR).

use std::collections::BTreeMap;

use dovetail_api::names::labels;
use dovetail_api::v1::{EC2NodeClass, NodeClaim};
use dovetail_cloud::launch::filters;
use dovetail_core::Offering;
use dovetail_core::cluster_state::ClaimEntry;
use dovetail_core::ownership::{has_foreign_token, token_on};
use kube::ResourceExt;
use std::sync::Arc;

use crate::launcher::LauncherLinks;
use crate::launcher::facts::{self, ClassTypes};
use crate::messages::{InstanceTypesFor, TakeSnapshot};

/// $/h of all claims, those that are `committed` but not yet known among them, and of one more at its cheapest. Nothing
/// when the cluster, its classes or their prices are not known.
pub async fn cost_with(links: LauncherLinks, claim: NodeClaim, committed: BTreeMap<String, f64>) -> Option<(f64, f64)> {
    let snapshot = links.cluster.send(TakeSnapshot).await.ok()??;
    let classes: Vec<_> = snapshot.classes.values().cloned().collect();
    let types = links.catalogue.send(InstanceTypesFor::new(classes)).await.ok()??;
    // By the catalogue of now, for running nodes too: what a ceiling bounds is the bill from here on.
    let price = |claim: &NodeClaim| {
        let class = snapshot.classes.get(claim.spec.node_class_ref.name_for(snapshot.provider)?)?;
        price_of(claim, class, types.get(&class.name_any())?)
    };
    // A claim that waits itself costs nothing yet, and one whose instance is not its own nothing at all.
    let costs = |entry: &ClaimEntry| {
        !entry.provider_id().is_empty() || (token_on(&entry.claim).is_some() && !has_foreign_token(&entry.claim))
    };
    let other =
        |name: &String| *name != claim.name_any() && !committed.contains_key(name) && !snapshot.is_refused(name);
    let known = snapshot.claims.iter().filter(|(name, entry)| !entry.is_planned() && other(name) && costs(entry));
    // A claim of a class that is gone has no price that we know.
    let all: f64 = known.filter_map(|(_, entry)| price(&entry.claim)).sum();
    Some((all + committed.values().sum::<f64>(), price(&claim)?))
}

/// $/h of a claim's instance: of its offering once it is launched, of the cheapest that it may be before.
fn price_of(claim: &NodeClaim, class: &Arc<EC2NodeClass>, types: &ClassTypes) -> Option<f64> {
    let label = |key: &str| claim.labels().get(key).map(String::as_str);
    if claim.status.as_ref().is_some_and(|status| !status.provider_id.is_empty()) {
        let kind = types.iter().find(|one| Some(one.name.as_str()) == label(labels::INSTANCE_TYPE))?;
        return kind.offering(label(labels::ZONE)?, label(labels::CAPACITY_TYPE)?).map(Offering::billed_price);
    }
    let request = facts::request(claim, "", class.clone(), types);
    let selection = filters::select(&request).ok()?;
    let prices = selection.candidates.iter().flat_map(|one| one.offerings.iter().map(Offering::billed_price));
    prices.min_by(f64::total_cmp)
}
