//! Says of each CapacityQuota what its nodes have, and if it is held: by its status, an event and a log line. Decided in
//! `dovetail_core::quotas`; started where the feature gate CapacityQuota is open. Plans are held to quotas whether or not anything
//! has been said of them: nobody waits for this actor.
//!
//! At the mailbox's bound: what comes in only says that something has changed; there is one look at a time.

mod said;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use actix::prelude::*;
use dovetail_core::cluster_state::Snapshot;
use dovetail_core::quotas::{MOST_QUOTAS, QuotaVerdict, WrittenQuota, judge_quota};
use dovetail_core::resources::{CPU, Resources};

use crate::context::env::Env;
use crate::context::looks::{Looking, Looks};
use crate::context::statuses::{StatusWrites, WritesStatuses};
use crate::kube::calls::Calls;
use crate::links::{ToClusterWatcher, ToRecorder};
use crate::messages::{ClusterChanged, Observe, QuotaState, QuotasState, TakeSnapshot};

/// Pause after a change before a look, as changes come in bursts.
const SETTLING_TIME: Duration = Duration::from_millis(500);
/// Minimum time between two looks: nodes and pods change the cluster all the time.
const REST: Duration = Duration::from_secs(5);
/// Interval of the looks when nothing changes.
const POLL: Duration = Duration::from_secs(60);
/// Most statuses that are written at a time; the others come with the next look.
const MOST_WRITES: usize = 20;
/// Pause before the next look while there are more to be written, or there was no answer.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Addresses that it sends to.
#[derive(Clone)]
pub struct QuotasLinks {
    /// For snapshots and read-your-writes.
    pub cluster: ToClusterWatcher,
    /// For events.
    pub recorder: ToRecorder,
    /// For the statuses.
    pub calls: Calls,
}

/// The actor `quotas`.
pub struct Quotas {
    env: Env,
    links: QuotasLinks,
    looks: Looks,
    state: QuotasState,
    /// Findings as they were reported last.
    reported: said::Reported,
    /// Findings as they were written last.
    written: said::Written,
    /// Writes of statuses that are under way or have failed.
    writes: StatusWrites,
}

impl Quotas {
    /// At the start of a term.
    pub fn new(env: &Env, links: QuotasLinks) -> Self {
        Self {
            env: env.for_actor("quotas"),
            links,
            looks: Looks::default(),
            state: QuotasState::default(),
            reported: said::Reported::default(),
            written: said::Written::default(),
            writes: StatusWrites::default(),
        }
    }
}

impl Looking for Quotas {
    fn looks(&mut self) -> &mut Looks {
        &mut self.looks
    }

    fn look_clock(&self) -> Duration {
        self.env.now()
    }

    fn begin_look(&mut self, ctx: &mut Context<Self>) {
        if self.looks.under_way() || !self.links.calls.may_decide() {
            return self.look_in(POLL, ctx);
        }
        self.looks.begin();
        ctx.spawn(self.links.cluster.send(TakeSnapshot).into_actor(self).map(|snapshot, actor, ctx| {
            let again = match snapshot {
                Ok(Some(snapshot)) => actor.report_quotas(&snapshot, ctx),
                _ => RETRY_DELAY,
            };
            actor.end_look(again, REST, ctx);
        }));
    }
}

impl WritesStatuses for Quotas {
    fn status_writes(&mut self) -> &mut StatusWrites {
        &mut self.writes
    }

    fn env(&self) -> &Env {
        &self.env
    }
}

impl Actor for Quotas {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.look_in(SETTLING_TIME, ctx);
    }
}

impl Handler<ClusterChanged> for Quotas {
    type Result = ();

    fn handle(&mut self, _: ClusterChanged, ctx: &mut Self::Context) {
        self.look_at_change(REST, ctx);
    }
}

impl Handler<Observe> for Quotas {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.state.clone().into())
    }
}

impl Quotas {
    /// Says of each quota what has been found; answers when to look again.
    fn report_quotas(&mut self, snapshot: &Snapshot, ctx: &mut Context<Self>) -> Duration {
        self.state.looks += 1;
        let all = snapshot.quotas.all();
        self.state.quotas.retain(|name, _| all.contains_key(name));
        self.reported.retain_quotas(|name| all.contains_key(name));
        self.written.retain_quotas(|name| all.contains_key(name));
        let held: BTreeSet<&str> = snapshot.quotas.held().map(|quota| quota.name.as_str()).collect();
        let (mut left, mut beyond) = (MOST_WRITES, Vec::new());
        for (name, written) in all {
            let is_held = held.contains(name.as_str());
            // The use of one beyond those that are held would cost as much to find as to hold it.
            let used = match &written.read {
                Ok(quota) if is_held => snapshot.quota_status(quota),
                _ => Resources::new(),
            };
            let verdict = judge_quota(written, is_held, used);
            self.keep_finding(name, written, &verdict);
            match written.read.is_ok() && !is_held {
                true => beyond.push(&*written.object),
                false => self.report_change(&written.object, &verdict),
            }
            if left > 0 && self.write_status_of(&written.object, &verdict, ctx) {
                left -= 1;
            }
        }
        self.report_beyond(&beyond);
        if left == 0 { RETRY_DELAY } else { POLL }
    }

    /// Keeps a finding for whoever asks, of the first quotas that there are.
    fn keep_finding(&mut self, name: &str, written: &WrittenQuota, verdict: &QuotaVerdict) {
        if self.state.quotas.len() >= MOST_QUOTAS && !self.state.quotas.contains_key(name) {
            return;
        }
        let limits = written.read.as_ref().map(|quota| in_units(&quota.limits)).unwrap_or_default();
        let used = verdict.used.as_ref().map(in_units).unwrap_or_default();
        self.state.quotas.insert(name.to_owned(), QuotaState { limits, used, says: verdict.message.clone() });
    }
}

/// Amounts in cores and whole units.
fn in_units(amounts: &Resources) -> BTreeMap<String, f64> {
    let unit = |name: &str| if name == CPU { 1000.0 } else { 1.0 };
    amounts.iter().map(|(name, amount)| (name.to_owned(), amount as f64 / unit(name))).collect()
}
