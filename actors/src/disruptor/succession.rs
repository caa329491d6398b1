//! Nodes of static pools that are replaced: what is decided of them (`dovetail_core::disruption::succession`) is ordered and told
//! here. `static_pools` launches their successors.

use std::collections::BTreeSet;

use dovetail_core::cluster_state::Snapshot;
use dovetail_core::disruption::succession::{EndedAtLimit, SuccessionMark, Successions};

use super::Disruptor;
use super::report::{claim_object, node_object};
use super::writes::Write;
use crate::messages::{HoldClaims, Record};
use crate::telemetry::log_event::LogEvent;

pub(super) fn writes(orders: &Successions, snapshot: &Snapshot) -> Vec<Write> {
    let claim = |name: &str| snapshot.claims.get(name).map(|entry| entry.claim.clone());
    let marks = orders.marks.iter().cloned();
    marks.filter_map(|mark| Some(Write::Succession { claim: claim(&mark.disrupted.claim)?, mark })).collect()
}

impl Disruptor {
    /// Has nothing planned on nodes that wait for their successors, from when their claims say so, and tells what is new.
    pub(super) fn hold_for_successors(&mut self, orders: &Successions, snapshot: &Snapshot) {
        let held: BTreeSet<String> = orders.held.iter().cloned().collect();
        let new: Vec<String> = held.difference(&self.succeeded).cloned().collect();
        // A claim that is about to go is held until then.
        let gives_up = |name: &&String| orders.marks.iter().any(|mark| !mark.waits && mark.disrupted.claim == **name);
        let free: Vec<String> = self.succeeded.iter().filter(gives_up).cloned().collect();
        let there = |name: &String| snapshot.claims.contains_key(name) && !free.contains(name);
        self.succeeded = self.succeeded.union(&held).filter(|name| there(name)).cloned().collect();
        let term = self.env.term;
        for (claims, held) in [(new, true), (free, false)] {
            if !claims.is_empty() {
                self.env.post(&self.links.cluster, HoldClaims { term, claims, held });
            }
        }
        let news = orders
            .marks
            .iter()
            .filter(|mark| mark.waits && self.reported_successions.insert(mark.disrupted.uid.clone()));
        let news: Vec<&SuccessionMark> = news.collect();
        news.into_iter().for_each(|mark| self.tell_succession(mark));
        let stays = |uid: &String| snapshot.claims.values().any(|entry| entry.facts.uid == *uid);
        let given_up = |uid: &String| orders.marks.iter().any(|mark| !mark.waits && mark.disrupted.uid == *uid);
        self.reported_successions.retain(|uid| !given_up(uid) && stays(uid));
        orders.ended.iter().for_each(|one| self.tell_ended_at_limit(one));
    }

    fn tell_succession(&self, mark: &SuccessionMark) {
        let (one, why) = (&mark.disrupted, mark.why.clone());
        let object = claim_object(&one.claim, &one.uid);
        let message = format!("Waiting for its successor in the static nodepool to be initialized: {why}");
        self.env.post(&self.links.recorder, Record::normal(object, "DisruptionWaitingReadiness", message));
        let (node, node_claim, node_pool) = (one.node.clone(), one.claim.clone(), one.pool.clone());
        self.env.emit(LogEvent::AwaitingSuccessor { node, node_claim, node_pool, why });
    }

    fn tell_ended_at_limit(&self, ended: &EndedAtLimit) {
        let EndedAtLimit { disrupted: one, limit, .. } = ended;
        let message = format!(
            "Ended before its successor is launched: spec.limits.nodes {limit} of its static nodepool leaves no room for both"
        );
        for object in [node_object(&one.node, &one.node_uid), claim_object(&one.claim, &one.uid)] {
            self.env.post(&self.links.recorder, Record::normal(object, "TerminatingFirst", &*message));
        }
        let (node, node_claim, node_pool) = (one.node.clone(), one.claim.clone(), one.pool.clone());
        self.env.emit(LogEvent::TerminatingAtLimit { node, node_claim, node_pool, limit: *limit });
    }
}
