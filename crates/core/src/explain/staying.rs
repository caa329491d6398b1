//! The ways in which a node may go by our own decision, each with what it says of one node now.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_api::names::conditions::{DRIFTED, TRUE};
use dovetail_api::v1::condition;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::ExplainInput;
use super::remedies::of_staying;
use crate::clock::{later, signed};
use crate::cluster_state::Moment;
use crate::disruption::commands::Question;
use crate::disruption::machines::NodeAndClaim;
use crate::disruption::pools::{DisruptionPool, EMPTY_ONLY, NEVER, Observing};
use crate::disruption::{DisruptionCause, DisruptionDecision, Memory, blocked, decide_disruption, marks};

/// Time after the first look at which an empty node would go.
const SECOND_LOOK: SignedDuration = SignedDuration::from_secs(15);

/// A method's verdict on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum MethodVerdict {
    /// The node goes by it.
    Goes,
    /// The node stays, as far as this method is concerned.
    Stays,
    /// The node goes at a time that is known.
    Later,
}

/// One method's answer about a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MethodAnswer {
    pub method: &'static str,
    pub verdict: MethodVerdict,
    /// The method's reason, as a sentence without its end.
    pub why: String,
    /// The setting that would make it otherwise; empty where nothing helps.
    pub set: String,
}

impl MethodAnswer {
    fn new(method: &'static str, verdict: MethodVerdict, why: impl Into<String>) -> Self {
        let why = why.into();
        let set = if verdict == MethodVerdict::Stays { of_staying(&why) } else { "" };
        Self { method, verdict, set: set.to_owned(), why }
    }

    fn setting(self, set: &str) -> Self {
        Self { set: set.to_owned(), ..self }
    }
}

/// The methods' answers about a machine that is not being removed, in the order of docs/disruption.md.
pub(super) fn methods(input: &ExplainInput<'_>, machine: &NodeAndClaim<'_>) -> Vec<MethodAnswer> {
    let mut memory = Memory::new();
    memory.set_gates(input.gates);
    let (snapshot, offers, now) = (input.snapshot, &input.planning.instance_types, input.planning.now);
    let first = decide_disruption(snapshot, offers, &mut memory, now);
    let long = SECOND_LOOK.unsigned_abs();
    let after = Moment { monotonic: now.monotonic.saturating_add(long), wall: later(now.wall, signed(long)) };
    let second = decide_disruption(snapshot, offers, &mut memory, after);
    let Some(view) = snapshot.pools.get(&machine.claim.pool).map(|pool| DisruptionPool::from_pool(pool)) else {
        let why = format!("its nodepool {} is not there", machine.claim.pool);
        return vec![MethodAnswer::new("all", MethodVerdict::Stays, why)];
    };
    let looks = [&first, &second];
    let mut all = vec![
        drift(input, machine, &first),
        expiry(machine, &view, looks, now.wall),
        emptiness(machine, &view, looks, now.wall),
        consolidation(input, machine, &view),
    ];
    all.extend(repair(input, machine, looks));
    all
}

/// The cause by which a claim goes in one of the looks, and whether its pool is only observed.
fn goes(
    looks: [&DisruptionDecision; 2],
    machine: &NodeAndClaim<'_>,
    fits: fn(DisruptionCause) -> bool,
) -> Option<bool> {
    let mut all = looks.into_iter().flat_map(|look| {
        let removed = look.removals.iter().map(|one| (one, false));
        removed.chain(look.observed.iter().map(|one| (one, true)))
    });
    let found =
        all.find(|(removal, _)| fits(removal.cause) && removal.claims.iter().any(|one| one.uid == machine.claim.uid));
    found.map(|(_, observed)| observed)
}

fn removal(method: &'static str, observed: bool, pool: &str, why: &str) -> MethodAnswer {
    if observed {
        return MethodAnswer::new(
            method,
            MethodVerdict::Stays,
            format!("nodepool {pool} is only observed; otherwise {why}"),
        );
    }
    MethodAnswer::new(method, MethodVerdict::Goes, why)
}

fn drift(input: &ExplainInput<'_>, machine: &NodeAndClaim<'_>, look: &DisruptionDecision) -> MethodAnswer {
    let uid = &machine.claim.uid;
    if input.gates.drift_off {
        let answer = MethodAnswer::new("drift", MethodVerdict::Stays, "the feature gate Drift is off");
        return answer.setting("set the feature gate Drift=true");
    }
    let mark = look.drift.marks.iter().find(|mark| mark.uid == *uid).map(|mark| mark.drifted.clone());
    let written = || {
        let claim = &input.snapshot.claims.get(&machine.claim.name)?.claim;
        let known = condition(&claim.status.as_ref()?.conditions, DRIFTED).filter(|one| one.status == TRUE)?;
        Some((known.reason.clone(), known.message.clone()))
    };
    let drifted = match mark {
        Some(fresh) => fresh.map(|(reason, what)| (reason.name().to_owned(), what)),
        None => written(),
    };
    let Some((reason, what)) = drifted else {
        return MethodAnswer::new(
            "drift",
            MethodVerdict::Stays,
            "it is as its NodePool and EC2NodeClass ask for, as far as that is known",
        );
    };
    let held = look.blocked.iter().find(|one| one.uid == *uid).map(|one| one.why.clone());
    let held = held.or_else(|| exhausted(look, machine, "Drifted"));
    match held {
        Some(why) => {
            let set = of_staying(&why);
            let answer =
                MethodAnswer::new("drift", MethodVerdict::Stays, format!("{reason}: {what}; it stays as {why}"));
            answer.setting(set)
        }
        None => MethodAnswer::new(
            "drift",
            MethodVerdict::Goes,
            format!("{reason}: {what}; it goes once its pods have places"),
        ),
    }
}

/// The sentence for a pool whose budgets allow nothing for a reason.
fn exhausted(look: &DisruptionDecision, machine: &NodeAndClaim<'_>, key: &str) -> Option<String> {
    let own =
        look.exhausted.iter().find(|one| one.pool == machine.claim.pool && one.reason.budget_key() == Some(key))?;
    Some(format!("its NodePool's budgets allow no more disruptions now for reason {}", own.reason.budget_key()?))
}

fn expiry(
    machine: &NodeAndClaim<'_>,
    view: &DisruptionPool<'_>,
    looks: [&DisruptionDecision; 2],
    now: Timestamp,
) -> MethodAnswer {
    let pool = view.pool.metadata.name.as_deref().unwrap_or_default();
    if let Some(observed) = goes(looks, machine, |cause| cause == DisruptionCause::Expired) {
        return removal("expiry", observed, pool, "its time is over (expireAfter)");
    }
    match machine.claim.expires {
        Some(at) if at <= now => {
            MethodAnswer::new("expiry", MethodVerdict::Later, "its time is over; others of its pool go before")
        }
        limit => {
            let (verdict, why) = limit.map_or_else(
                || (MethodVerdict::Stays, "it never expires: expireAfter is Never".to_owned()),
                |at| (MethodVerdict::Later, format!("it goes at {at:.0}, by expireAfter")),
            );
            let answer = MethodAnswer::new("expiry", verdict, why);
            answer.setting("set spec.template.spec.expireAfter of the NodePool for new nodes")
        }
    }
}

fn emptiness(
    machine: &NodeAndClaim<'_>,
    view: &DisruptionPool<'_>,
    looks: [&DisruptionDecision; 2],
    now: Timestamp,
) -> MethodAnswer {
    let pool = view.pool.metadata.name.as_deref().unwrap_or_default();
    let stays = |why: String| MethodAnswer::new("emptiness", MethodVerdict::Stays, why);
    let empty = |cause| matches!(cause, DisruptionCause::Empty | DisruptionCause::Ttl(_));
    if let Some(observed) = goes(looks, machine, empty) {
        return removal("emptiness", observed, pool, "it is empty");
    }
    if !machine.initialized() {
        return stays("it is not ready for pods yet".into());
    }
    if !machine.empty() {
        let count = machine.load.map_or(0, |load| load.costly);
        return stays(format!("it is not empty: {count} of its pods would have to move"));
    }
    if machine.nominated {
        return stays("pods are expected on it".into());
    }
    if let Some(ttl) = view.ttl {
        let why = format!("it is empty for less than ttlSecondsAfterEmpty, {} s", ttl.as_secs());
        return MethodAnswer::new("emptiness", MethodVerdict::Later, why);
    }
    let held = looks.iter().flat_map(|look| &look.blocked).find(|one| one.uid == machine.claim.uid);
    if let Some(held) = held {
        return stays(held.why.clone());
    }
    match marks::consolidatable_from(machine, view) {
        None => stays(NEVER.into()),
        Some(from) if from > now => {
            let why =
                format!("consolidateAfter has not passed since its last pod came or went: it goes from {from:.0}");
            MethodAnswer::new("emptiness", MethodVerdict::Later, why)
        }
        Some(_) => stays(
            exhausted(looks[1], machine, "Empty").unwrap_or_else(|| "it is empty, and other nodes go first".into()),
        ),
    }
}

fn consolidation(input: &ExplainInput<'_>, machine: &NodeAndClaim<'_>, view: &DisruptionPool<'_>) -> MethodAnswer {
    let stays = |why: String| MethodAnswer::new("consolidation", MethodVerdict::Stays, why);
    if machine.empty() {
        return stays("it is empty: emptiness sees to it".into());
    }
    if view.ttl.is_none() && view.after.is_none() {
        return stays(NEVER.into());
    }
    if view.ttl.is_none() && !view.moves_pods() {
        return stays(EMPTY_ONLY.into());
    }
    let question = |only| Question {
        snapshot: input.snapshot.clone(),
        input: input.planning.clone(),
        settings: input.rules.clone(),
        moved: Arc::default(),
        refused: Default::default(),
        spare: Arc::default(),
        asked: Default::default(),
        waiting: vec![],
        kept_slots: vec![],
        reserved_lately: BTreeSet::new(),
        only,
        blind: None,
        now: input.planning.now,
    };
    let own = &machine.claim.uid;
    // All nodes first, as several may go together; then this one alone, as a command for others leaves it without a reason.
    for only in [None, Some(BTreeSet::from([own.clone()]))] {
        let answer = match question(only).answer() {
            Ok(answer) => answer,
            Err(error) => return stays(format!("it cannot be computed: {error}")),
        };
        if let Some(command) = answer.command.as_ref().filter(|one| one.wanted.claims.iter().any(|one| one.uid == *own))
        {
            let saved = command.price_before - command.price_after;
            let why =
                format!("{} of {} node(s) saves ${saved:.4} an hour", command.decision(), command.wanted.claims.len());
            return removal("consolidation", view.observing != Observing::No, &machine.claim.pool, &why);
        }
        let known = answer.stays.iter().chain(&answer.passing).find(|one| one.node.uid == *own);
        if let Some(staying) = known {
            return stays(staying.why.clone());
        }
    }
    if let Some((why, _)) = blocked::why(machine, input.snapshot, input.planning.now.wall) {
        return stays(why);
    }
    stays("nothing is saved by its removal now".into())
}

fn repair(
    input: &ExplainInput<'_>,
    machine: &NodeAndClaim<'_>,
    looks: [&DisruptionDecision; 2],
) -> Option<MethodAnswer> {
    let first = machine.node.unwell.iter().min_by_key(|one| one.until)?;
    if !input.gates.node_repair {
        let why = format!("its condition {} is bad, and the feature gate NodeRepair is off", first.condition);
        return Some(
            MethodAnswer::new("repair", MethodVerdict::Stays, why).setting("set the feature gate NodeRepair=true"),
        );
    }
    let (own, look) = (&machine.claim.uid, looks[0]);
    let bad = format!("its condition {} is bad", first.condition);
    if let Some(observed) = goes(looks, machine, |cause| matches!(cause, DisruptionCause::Unhealthy { .. })) {
        return Some(removal("repair", observed, &machine.claim.pool, &format!("{bad} for too long")));
    }
    if look.drift.repairs.iter().any(|one| one.disrupted.uid == *own) {
        let why = format!("{bad} for too long; it goes once its pods have places");
        return Some(MethodAnswer::new("repair", MethodVerdict::Goes, why));
    }
    if first.until > input.planning.now.wall {
        let why = format!("{bad}; it is replaced from {:.0}", first.until);
        return Some(MethodAnswer::new("repair", MethodVerdict::Later, why));
    }
    let shared = look.not_repaired.iter().find(|one| one.node_uid == machine.node.uid).map(|one| {
        let (unwell, all) = one.unwell;
        format!("{unwell} of {all} nodes of its pool are unwell: {}", one.why.consequence())
    });
    let held = shared
        .or_else(|| look.blocked.iter().find(|one| one.uid == *own).map(|one| one.why.clone()))
        .or_else(|| exhausted(look, machine, "Unhealthy"));
    Some(match held {
        Some(why) => MethodAnswer::new("repair", MethodVerdict::Stays, why),
        None => {
            let why = format!("{bad} for too long; it goes when its pool may replace another node");
            MethodAnswer::new("repair", MethodVerdict::Later, why)
        }
    })
}
