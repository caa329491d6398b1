//! On every NodePool it is said that the leader's clock is wrong, as that is where people look when nothing is launched
//! (docs/decisions/054).

use dovetail_api::names::conditions::{CLOCK_IN_SYNC, FALSE};
use dovetail_api::v1::{NewCondition, NodePool, set_condition};
use dovetail_core::clock::ClockSkew;
use jiff::Timestamp;

use super::NodeClassActor;
use super::pools::CLOCK_SKEWED;

/// Writes the condition, or takes it away.
pub fn write(pool: &mut NodePool, skew: ClockSkew, leader: &str, now: Timestamp) {
    let generation = pool.metadata.generation;
    let Some(status) = pool.status.as_mut() else { return };
    if skew.step() == 0 {
        return status.conditions.retain(|one| one.type_ != CLOCK_IN_SYNC);
    }
    let message = format!("The clock of the leading replica {leader} is {skew}");
    let says = NewCondition::new(CLOCK_IN_SYNC, FALSE).because(CLOCK_SKEWED, &message);
    set_condition(&mut status.conditions, says, generation, now);
}

impl NodeClassActor {
    /// All pools are looked at when the clock has become wrong, more so, or right.
    pub(super) fn look_at_clock(&mut self, ctx: &mut actix::Context<Self>) {
        let step = self.env.skew().step();
        if std::mem::replace(&mut self.skew, step) != step {
            let names: Vec<_> = self.pools.keys().cloned().collect();
            names.iter().for_each(|name| self.look_at_pool(name, ctx));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_api::v1::condition;
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn condition_names_clock_and_remedy_while_it_is_wrong() {
        let mut pool: NodePool = serde_json::from_value(serde_json::json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "status": {},
            "spec": {"template": {"spec": {"requirements": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "class"}}}},
        }))
        .unwrap();
        let skew = |seconds| ClockSkew::settled(SignedDuration::from_secs(seconds));
        let said = |pool: &NodePool| {
            condition(&pool.status.as_ref().unwrap().conditions, CLOCK_IN_SYNC).map(|one| one.message.clone())
        };
        write(&mut pool, skew(310), "dovetail-0", Timestamp::UNIX_EPOCH);
        let first = said(&pool).unwrap();
        assert!(first.contains("dovetail-0 is more than 5 min ahead of") && first.contains("chrony"), "{first}");
        write(&mut pool, skew(400), "dovetail-0", Timestamp::UNIX_EPOCH);
        assert_eq!(said(&pool), Some(first), "the same words as long as nothing follows from the difference");
        write(&mut pool, skew(5), "dovetail-0", Timestamp::UNIX_EPOCH);
        assert_eq!(said(&pool), None);
    }
}
