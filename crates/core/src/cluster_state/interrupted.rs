//! Own spot interruptions in the cluster state, and the prices by which plans weigh their offerings (docs/decisions/092).

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::annotations::INTERRUPTIONS;
use jiff::{SignedDuration, Timestamp};

use super::{ClaimEntry, ClusterState, Snapshot};
use crate::instance_type::InstanceType;
use crate::interruption::{InterruptionKind, InterruptionNotice};
use crate::interruption_prices::{Interrupted, Interruptions, PriceMultiples};
use crate::labels::{INSTANCE_TYPE, ZONE};

impl ClusterState {
    /// Half-life of an interruption's weight; without one interruptions raise no price.
    pub fn set_interruption_half_life(&mut self, half_life: Option<SignedDuration>) {
        self.now.interruption_half_life = half_life;
    }
}

impl Snapshot {
    /// The interruptions that count, by NodePool: those that its annotation has, and those of its claims that EC2 takes back now.
    /// None where the setting is off.
    #[must_use]
    pub fn interruptions(&self, now: Timestamp) -> BTreeMap<&str, Interruptions> {
        let mut all = BTreeMap::new();
        let Some(half_life) = self.interruption_half_life else { return all };
        for (name, pool) in self.pools.iter() {
            let written = pool.metadata.annotations.as_ref().and_then(|own| own.get(INTERRUPTIONS));
            let read = written.map(|text| Interruptions::from_text(text, now)).unwrap_or_default();
            all.insert(name.as_str(), read);
        }
        for (entry, at) in self.claims.values().filter_map(|entry| Some((entry, interrupted_at(entry)?))) {
            if let (Some(own), Some(one)) = (all.get_mut(entry.facts.pool.as_str()), interrupted(entry, at)) {
                own.add(one);
            }
        }
        all.values_mut().for_each(|own| own.forget_old(half_life, now));
        all
    }

    /// Raises the prices by which a plan weighs spot offerings whose instances were taken back lately.
    pub(super) fn price_interruptions(&self, types: &mut [Arc<InstanceType>], now: Timestamp) {
        let Some(half_life) = self.interruption_half_life else { return };
        PriceMultiples::of_all(self.interruptions(now).values(), half_life, now).apply(types);
    }
}

/// The end of a claim's spot instance, where EC2 has announced that it takes it back.
fn interrupted_at(entry: &ClaimEntry) -> Option<Timestamp> {
    let notice = InterruptionNotice::on(&entry.claim)?;
    (notice.kind == InterruptionKind::SpotInterruption).then_some(notice.deadline)
}

fn interrupted(entry: &ClaimEntry, at: Timestamp) -> Option<Interrupted> {
    let label = |key: &str| entry.claim.metadata.labels.as_ref()?.get(key).cloned();
    let (instance_type, zone) = (label(INSTANCE_TYPE)?, label(ZONE)?);
    Some(Interrupted { at, claim: entry.facts.name.clone(), instance_type, zone })
}
