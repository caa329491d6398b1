//! Nodes of a request that has come to nothing: they are given back at once, whatever the pool's budgets, as no pod was ever to be
//! on half of a gang's nodes.

use super::placing::promised_to_requests;
use crate::cluster_state::{HeldRoom, NominationTarget, Snapshot};

/// Claims that were launched for a request and hold nothing else, name and uid. `held` is the room of other requests.
#[must_use]
pub fn claims_to_give_back(snapshot: &Snapshot, key: &str, held: &HeldRoom) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (name, entry) in snapshot.claims.iter().filter(|(_, entry)| !entry.facts.deleting && !entry.is_planned()) {
        if !promised_to_requests(&entry.claim).keys().any(|(of, _)| of == key) {
            continue;
        }
        let node = &entry.facts.node;
        let targets = [NominationTarget::Claim(name.clone()), NominationTarget::Node(node.clone())];
        let is_used = snapshot.loads.get(node).is_some_and(|load| load.visitors > 0);
        let is_expected =
            |target: &NominationTarget| held.contains_key(target) || snapshot.expected_at(target).next().is_some();
        if let Some(uid) = entry.claim.metadata.uid.clone().filter(|_| !is_used && !targets.iter().any(is_expected)) {
            all.push((name.clone(), uid));
        }
    }
    all
}
