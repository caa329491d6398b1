//! NodeClaims by the machines that they have. For each pod that is bound it is asked which places its node is: with a thousand
//! nodes on their way, they are not looked through for that.

use std::sync::Arc;

use crate::cluster_state::{ClaimEntry, ClusterState, NominationTarget};

impl ClusterState {
    /// Keeps a claim as it is now.
    pub(super) fn put_claim(&mut self, name: String, entry: ClaimEntry) {
        let machine = entry.provider_id().to_owned();
        let known = Arc::make_mut(&mut self.now.claims).insert(name.clone(), Arc::new(entry));
        if known.as_ref().is_some_and(|known| known.provider_id() == machine) {
            return;
        }
        known.into_iter().for_each(|known| self.leave_machine(&name, &known));
        if !machine.is_empty() {
            self.claims_on.entry(machine).or_default().insert(name);
        }
    }

    /// Forgets a claim.
    pub(super) fn take_claim(&mut self, name: &str) {
        if let Some(known) = Arc::make_mut(&mut self.now.claims).remove(name) {
            self.leave_machine(name, &known);
        }
    }

    fn leave_machine(&mut self, name: &str, entry: &ClaimEntry) {
        if let Some(names) = self.claims_on.get_mut(entry.provider_id()) {
            names.remove(name);
            if names.is_empty() {
                self.claims_on.remove(entry.provider_id());
            }
        }
    }

    /// The targets that are a node, in their order: the claims of its machine, which pods are bound to before these say which
    /// node they have, and itself.
    pub(super) fn targets_on(&self, node: &str) -> impl Iterator<Item = NominationTarget> {
        let machine = self.now.nodes.get(node).map(|entry| entry.provider_id.as_str());
        let claims = machine.and_then(|machine| self.claims_on.get(machine)).into_iter().flatten();
        claims.cloned().map(NominationTarget::Claim).chain([NominationTarget::Node(node.to_owned())])
    }

    /// Claims by machine, as they would be found by a look at all of them.
    #[cfg(test)]
    pub(super) fn holds_machines(&self) -> bool {
        use std::collections::{BTreeMap, BTreeSet};

        let mut all = BTreeMap::<String, BTreeSet<String>>::new();
        for (name, entry) in self.now.claims.iter().filter(|(_, entry)| !entry.provider_id().is_empty()) {
            all.entry(entry.provider_id().to_owned()).or_default().insert(name.clone());
        }
        all == self.claims_on
    }
}
