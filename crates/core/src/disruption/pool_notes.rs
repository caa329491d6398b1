//! Notes at pools: memory of a term that a later leader needs, as annotations. They are read at a term's first look, and
//! written whenever the memory is another than what is written.

use dovetail_api::names::annotations::{ENDED_FIRST, INTERRUPTIONS, REPAIR_PACE};
use dovetail_api::v1::NodePool;

use super::look::Look;
use crate::cluster_state::{ClaimFacts, RebootState};
use crate::interruption_prices::Interruptions;

/// An annotation that is to be written on a pool, or taken off it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolNote {
    /// The pool's name.
    pub pool: String,
    /// The annotation.
    pub key: &'static str,
    /// Its value; `None` takes it off.
    pub text: Option<String>,
}

/// The text of a pool's annotation.
pub(super) fn noted<'a>(pool: &'a NodePool, key: &str) -> Option<&'a str> {
    pool.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Takes over what an earlier term has noted. Text that cannot be read is as none.
pub(super) fn take_notes(look: &mut Look<'_>) {
    if !look.first {
        return;
    }
    let repairs = look.memory.drift.gates.repairs_by_budget();
    for (name, pool) in look.snapshot.pools.iter() {
        if let Some(text) = noted(pool, ENDED_FIRST) {
            look.memory.own_slots.restore(name, text, look.snapshot, look.now);
        }
        if let Some(text) = noted(pool, REPAIR_PACE).filter(|_| repairs) {
            look.memory.repairs.restore(name, text, look.now);
        }
    }
    if repairs {
        let is_going =
            |facts: &ClaimFacts| facts.repaired && facts.deleting || facts.reboot.is_some_and(RebootState::is_running);
        let going = look.snapshot.claims.values().filter(|entry| is_going(&entry.facts));
        going.for_each(|entry| look.memory.repairs.note_going(&entry.facts));
    }
}

/// Orders the notes that differ from what is written.
pub(super) fn write_notes(look: &mut Look<'_>) {
    let interruptions = look.snapshot.interruptions(look.now);
    for (name, pool) in look.snapshot.pools.iter().filter(|(_, pool)| pool.metadata.deletion_timestamp.is_none()) {
        let interrupted = interruptions.get(name.as_str()).and_then(Interruptions::text);
        let (first, pace) = (look.memory.own_slots.note(name), look.memory.repairs.note(name));
        let wanted = [(ENDED_FIRST, first), (REPAIR_PACE, pace), (INTERRUPTIONS, interrupted)];
        for (key, text) in wanted {
            if noted(pool, key) != text.as_deref() {
                look.out.drift.notes.push(PoolNote { pool: name.clone(), key, text });
            }
        }
    }
}
