//! The condition of a NodePool whose interruptions nobody hears.

use std::sync::Arc;

use dovetail_api::names::conditions::{FALSE, INTERRUPTIONS_HEARD};
use dovetail_api::v1::{NewCondition, NodePool, condition, set_condition};
use dovetail_core::lifecycle::patch;
use jiff::Timestamp;
use kube::ResourceExt;

use super::InterruptionLinks;
use super::unheard::LostQueue;
use crate::context::env::Env;
use crate::messages::Wrote;
use crate::reading::LenientApi;

pub(super) fn is_on(pool: &NodePool) -> bool {
    pool.status.as_ref().is_some_and(|status| condition(&status.conditions, INTERRUPTIONS_HEARD).is_some())
}

/// The pool as it is to be; none where it is so.
pub(super) fn wanted(pool: &NodePool, lost: Option<&LostQueue>, now: Timestamp) -> Option<NodePool> {
    let (mut wanted, generation) = (pool.clone(), pool.metadata.generation);
    let status = wanted.status.get_or_insert_default();
    match lost {
        Some(LostQueue { code, words }) => {
            // A reason is one word.
            let reason: String = code.chars().filter(char::is_ascii_alphanumeric).collect();
            let says = NewCondition::new(INTERRUPTIONS_HEARD, FALSE).because(&reason, words);
            set_condition(&mut status.conditions, says, generation, now);
        }
        None => status.conditions.retain(|one| one.type_ != INTERRUPTIONS_HEARD),
    }
    (wanted.status != pool.status).then_some(wanted)
}

pub(super) async fn write(links: InterruptionLinks, there: Arc<NodePool>, wanted: NodePool, env: Env) {
    let api = LenientApi::<NodePool>::all(links.calls.client.clone());
    let patch = patch::status(&there.metadata, there.status.as_ref(), wanted.status.as_ref());
    if let Ok(pool) = links.calls.merge_status(&api, &there.name_any(), patch).await {
        env.post(&links.cluster, Wrote::Pool(Box::new(pool)));
    }
}
