//! NodePools that Karpenter has had: taken over in the write that stamps them, held back as `ADOPT_AS` says, and said once.
//! What is decided stands in `dovetail_core::adoption`.

use dovetail_api::names::conditions::{ADOPTED, TRUE};
use dovetail_api::v1::{EC2NodeClass, NewCondition, NodePool, set_condition};
use dovetail_core::adoption::{self, AdoptionChange};
use jiff::Timestamp;
use kube::ResourceExt;

use super::{NodeClassActor, pools};
use crate::messages::Record;
use crate::recorder::object;
use crate::settings::Settings;
use crate::telemetry::log_event::LogEvent;

/// The reason of the condition and of the event that a pool is taken over.
const ADOPTED_FROM_KARPENTER: &str = "AdoptedFromKarpenter";
/// The reason of the event that less is held back.
const RELEASED: &str = "Released";

/// The pool as it is to be, and what has become of it. A pool of another provider's is nobody's to take over here.
pub(super) fn judged(
    pool: &NodePool,
    class: Option<&EC2NodeClass>,
    settings: &Settings,
    now: Timestamp,
) -> (NodePool, Option<AdoptionChange>) {
    let mut settled = pool.clone();
    let stays =
        pool.metadata.deletion_timestamp.is_none() && pool.spec.template.spec.node_class_ref.is_of(settings.provider);
    let own = settled.metadata.annotations.as_mut().filter(|_| stays);
    let change = own.and_then(|own| adoption::settle(own, settings.adopt_as, now));
    let mut wanted = pools::judged(&settled, class, settings.provider, now);
    let held = adoption::sentence(&wanted.name_any(), wanted.annotations());
    let generation = wanted.metadata.generation;
    let conditions = &mut wanted.status.get_or_insert_default().conditions;
    match held {
        Some(held) => {
            set_condition(
                conditions,
                NewCondition::new(ADOPTED, TRUE).because(ADOPTED_FROM_KARPENTER, &held),
                generation,
                now,
            );
        }
        None => conditions.retain(|one| one.type_ != ADOPTED),
    }
    (wanted, change)
}

impl NodeClassActor {
    /// Says what has become of a pool, once it is written.
    pub(super) fn tell_adoption(&mut self, pool: &NodePool) {
        let node_pool = pool.name_any();
        let Some(change) = self.adoptions.remove(&node_pool) else { return };
        let said = adoption::sentence(&node_pool, pool.annotations());
        let instances = self.env.settings.adopt_karpenter_instances;
        let (reason, message) = match &change {
            AdoptionChange::TakenOver { .. } => {
                let held = said.unwrap_or_else(|| "taken over from Karpenter as it is: nothing is held back".into());
                let stay =
                    "; the instances that Karpenter launched stay as they are (ADOPT_KARPENTER_INSTANCES is off)";
                (ADOPTED_FROM_KARPENTER, format!("{held}{}", if instances { "" } else { stay }))
            }
            AdoptionChange::Released { .. } => {
                (RELEASED, said.unwrap_or_else(|| "nothing is held back any more in this NodePool".into()))
            }
        };
        self.env.post(&self.recorder, Record::normal(object::pool(pool), reason, message));
        self.env.emit(match change {
            AdoptionChange::TakenOver { version, held } => {
                LogEvent::PoolAdopted { node_pool, version, held: held.name(), instances }
            }
            AdoptionChange::Released { held } => LogEvent::PoolReleased { node_pool, held: held.name() },
        });
    }
}
