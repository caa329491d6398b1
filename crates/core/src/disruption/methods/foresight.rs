//! Consolidation with commitments looks ahead by both ways of weighing: by the bill, and by the prices of single nodes. Each ends
//! where no single command saves any more, and either may end lower; the one that does is followed.

use jiff::{SignedDuration, Timestamp};

use super::cluster::ClusterView;
use super::settings::ConsolidationSettings;
use super::settle::{Settled, settle_once};
use crate::pack::PackingError;

/// Largest number of nodes for which both ways are looked at to their ends.
const MOST_NODES: usize = 500;
/// Amounts of dollars an hour that are no more than this apart are one.
const EXACT: f64 = 1e-6;

/// Consolidates by both ways; returns the one by which the bill ends lower, and true if it leaves commitments out.
pub(super) fn settle_lower(
    cluster: ClusterView,
    settings: &ConsolidationSettings,
    now: Timestamp,
    allowed: &dyn Fn(usize) -> usize,
) -> Result<(Settled, bool), PackingError> {
    let blind = cluster.as_blind();
    let by_bill = settle_once(cluster, settings, now, allowed)?;
    if blind.nodes.len() > MOST_NODES {
        return Ok((by_bill, false));
    }
    let by_prices = settle_once(blind, settings, now, allowed)?;
    let is_lower = by_prices.price.1 < by_bill.price.1 - EXACT;
    Ok(if is_lower { (by_prices, true) } else { (by_bill, false) })
}

/// True if the bill ends lower without regard to commitments.
pub(super) fn blind_ends_lower(
    cluster: &ClusterView,
    settings: &ConsolidationSettings,
    now: Timestamp,
) -> Result<bool, PackingError> {
    if cluster.nodes.len() > MOST_NODES {
        return Ok(false);
    }
    // Waiting for what pays does not change where it ends.
    let settings = ConsolidationSettings { payback: SignedDuration::ZERO, ..settings.clone() };
    Ok(settle_lower(cluster.clone(), &settings, now, &|_| usize::MAX)?.1)
}
