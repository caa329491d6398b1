//! Static pools have no more NodeClaims than they ask for.

use std::collections::BTreeMap;

use dovetail_sandbox::log::ActionEntry;

use super::Checker;
use super::capacity::{heard, staying};
use super::history::{ClusterRecord, accepted, seconds};

/// Seconds for which an earlier number of replicas may be all that a leader knows.
const LATE: f64 = 60.0;

impl Checker {
    /// INV-25: when a replica creates a NodeClaim of a static pool, those of the pool that stay are no more than its replicas,
    /// now or a minute before, and all of them no more than `limits.nodes`.
    pub(super) fn replicas(&mut self, entries: &[ActionEntry]) {
        let mut state = ClusterRecord::default();
        let mut asked: BTreeMap<String, Vec<(f64, i64)>> = BTreeMap::new();
        for entry in entries {
            state.apply(entry);
            if entry.kind == "rules" && entry.text("resource") == "nodepools" {
                let replicas = entry.field("replicas").and_then(serde_json::Value::as_i64);
                let change = replicas.map(|replicas| (seconds(entry), replicas));
                asked.entry(entry.text("name").to_owned()).or_default().extend(change);
            }
            let of_claims = entry.kind == "api" && entry.text("resource") == "nodeclaims" && accepted(entry);
            if !of_claims || entry.replica.is_none() || entry.text("verb") != "create" {
                continue;
            }
            let Some(pool) = state.claims.get(entry.text("uid")).map(|claim| claim.pool.clone()) else { continue };
            let Some(all) = asked.get(&pool).filter(|all| !all.is_empty()) else { continue };
            let before = all.iter().rposition(|(t, _)| *t <= state.now - LATE).unwrap_or(0);
            let most = all[before..].iter().map(|(_, replicas)| *replicas).max().unwrap_or_default();
            let stay = staying(&state, &pool).filter(|claim| heard(&state, claim)).count();
            self.expect("INV-25", state.now, i64::try_from(stay).is_ok_and(|stay| stay <= most), || {
                format!("static pool {pool} has {stay} NodeClaims that stay at {} s, and {most} replicas", state.now)
            });
            let limit = state.rules.pools.get(&pool).and_then(|pool| pool.limits.get("nodes")).copied();
            let living = state.living_claims().filter(|claim| claim.pool == pool && heard(&state, claim)).count();
            self.expect("INV-25", state.now, limit.is_none_or(|limit| living as i64 <= limit), || {
                format!("static pool {pool} has {living} NodeClaims at {} s, beyond limits.nodes", state.now)
            });
        }
    }
}
