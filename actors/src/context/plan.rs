//! A packing turned into claims: names, types, requests. Pure but for the seeded names.

use std::cell::RefCell;
use std::collections::BTreeMap;

use dovetail_api::names::annotations;
use dovetail_api::v1::{NodeClaim, NodePool};
use dovetail_core::Resources;
use dovetail_core::buffers::write_room;
use dovetail_core::cluster_state::{Planning, Snapshot};
use dovetail_core::gangs::write_request;
use dovetail_core::launch_backoff::Demand;
use dovetail_core::lifecycle::claim::{ClaimPlan, node_claim};
use dovetail_core::lifecycle::hash::{self, Generations};
use dovetail_core::pack::PlannedClaim;
use dovetail_core::resources::NODES;
use kube::ResourceExt;

use crate::messages::{LaunchOrder, Term};

/// Letters of Kubernetes' generated names: no vowels, nothing that looks like something else.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the random suffix after the pool's name, characters.
const SUFFIX: usize = 5;

/// Notes at a claim the drivers that have to publish its pods' devices before its node is ready.
pub fn request_drivers<'d>(claim: &mut NodeClaim, drivers: impl IntoIterator<Item = &'d str>) {
    let drivers: Vec<&str> = drivers.into_iter().collect();
    if !drivers.is_empty() {
        let own = claim.metadata.annotations.get_or_insert_default();
        own.insert(annotations::REQUESTED_DRA_DRIVERS.to_owned(), drivers.join(","));
    }
}

/// The objects that a packing's indices point to.
pub struct Plans<'a> {
    /// The cluster that it was computed for.
    pub snapshot: &'a Snapshot,
    /// Pools, pods and nodes that the packing's indices point into.
    pub planning: &'a Planning,
    pub term: Term,
    /// By pool what its claims carry: the hashes of pool and class, worked out once.
    hashes: RefCell<BTreeMap<usize, (String, Option<String>)>>,
}

impl<'a> Plans<'a> {
    /// Plans for a packing of this snapshot.
    pub fn new(snapshot: &'a Snapshot, planning: &'a Planning, term: Term) -> Self {
        Self { snapshot, planning, term, hashes: RefCell::default() }
    }

    fn hashes(&self, at: usize, pool: &NodePool) -> (String, Option<String>) {
        let work_out = || {
            let class = pool.spec.template.spec.node_class_ref.name_for(self.snapshot.provider);
            let class = class.and_then(|name| self.snapshot.classes.get(name));
            let on_class = class.and_then(|class| {
                let computed = hash::of_class(class, "");
                hash::OF_CLASS.settled(&class.metadata, &computed).map(|standing| standing.hash)
            });
            let (computed, at) = (hash::of_pool(pool), Generations::of_pool(pool));
            (hash::OF_POOL.for_claims(&pool.metadata, &computed, at), on_class)
        };
        self.hashes.borrow_mut().entry(at).or_insert_with(work_out).clone()
    }

    /// The claim of a planned node, under a name that no claim has. `None` for a pool that is not there.
    pub fn order(&self, planned: &PlannedClaim, traceparent: &str, rng: &mut fastrand::Rng) -> Option<LaunchOrder> {
        let pool = self.planning.pools.get(planned.pool)?;
        let name = self.free_name(&pool.name_any(), rng);
        let (pool_hash, class_hash) = self.hashes(planned.pool, pool);
        // The class is said by nodeClassRef and by the label; as a requirement its key is refused.
        let class_label = pool.spec.template.spec.node_class_ref.label();
        let requirements: Vec<_> = planned.requirements.iter().filter(|one| one.key != class_label).cloned().collect();
        let mut claim = node_claim(ClaimPlan {
            name: &name,
            pool,
            requirements: &requirements,
            instance_types: planned
                .options
                .iter()
                .map(|option| self.planning.problem.instance_types[option.instance_type].name.clone())
                .collect(),
            requests: &planned.requests,
            term: self.term.0,
            traceparent,
            pool_hash: &pool_hash,
            class_hash: class_hash.as_deref(),
        });
        let launched_for = self.snapshot.launched_for(
            &pool.name_any(),
            &pool.spec.template.spec.node_class_ref.name,
            &self.uids(&planned.pods),
        );
        if !launched_for.is_empty() {
            let own = claim.metadata.annotations.get_or_insert_default();
            own.insert(annotations::LAUNCHED_FOR.to_owned(), launched_for);
        }
        let pods = || planned.pods.iter().map(|pod| &self.planning.problem.pods[*pod]);
        if let Some(room) = write_room(pods()) {
            let own = claim.metadata.annotations.get_or_insert_default();
            own.insert(annotations::LAUNCHED_FOR_ROOM.to_owned(), room);
        }
        if let Some(request) = write_request(pods()) {
            let own = claim.metadata.annotations.get_or_insert_default();
            own.insert(annotations::LAUNCHED_FOR_REQUEST.to_owned(), request);
        }
        if planned.min_values_relaxed {
            let own = claim.metadata.annotations.get_or_insert_default();
            own.insert(annotations::MIN_VALUES_RELAXED.to_owned(), "true".to_owned());
        }
        self.mark_overlaid(planned, &mut claim);
        let demand = Demand::from_planned(planned, self.planning);
        Some(LaunchOrder { claim, pods: planned.pods.len(), demand })
    }

    /// Notes at a claim that overlays say something of its types.
    fn mark_overlaid(&self, planned: &PlannedClaim, claim: &mut NodeClaim) {
        let types = planned.options.iter().map(|option| &self.planning.problem.instance_types[option.instance_type]);
        // Interruptions give offerings another price, too.
        let overlaid = !self.snapshot.overlays.is_empty();
        let priced = overlaid && types.clone().any(|one| one.offerings.iter().any(|one| one.list_price.is_some()));
        let more = types.clone().any(|one| !one.overlaid_resources.is_empty());
        for (key, _) in [(annotations::PRICE_OVERLAY, priced), (annotations::CAPACITY_OVERLAY, more)]
            .into_iter()
            .filter(|(_, says)| *says)
        {
            claim.metadata.annotations.get_or_insert_default().insert(key.to_owned(), "true".to_owned());
        }
    }

    pub fn uids(&self, pods: &[usize]) -> Vec<String> {
        pods.iter().map(|pod| self.planning.problem.pods[*pod].uid.clone()).collect()
    }

    /// The most that the instance may have: what counts against the pool's limits until the cloud has answered.
    pub fn most_capacity(&self, planned: &PlannedClaim) -> Resources {
        let mut most = Resources::new();
        for option in &planned.options {
            most.max(&self.planning.problem.instance_types[option.instance_type].capacity);
        }
        most.set(NODES, 1);
        most
    }

    fn free_name(&self, pool: &str, rng: &mut fastrand::Rng) -> String {
        loop {
            let suffix: String = (0..SUFFIX).map(|_| LETTERS[rng.usize(..LETTERS.len())] as char).collect();
            let name = format!("{pool}-{suffix}");
            if !self.snapshot.claims.contains_key(&name) {
                return name;
            }
        }
    }
}
