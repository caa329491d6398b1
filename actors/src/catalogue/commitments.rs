//! Commitments that count: those that are declared, and those of the account where COMMITMENTS has `account`. The account is asked
//! at the start and once an hour; packing waits for its first answers, a moment at most.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_cloud::CloudError;
use dovetail_core::commitments::{AccountAnswer, AccountList, Commitments, Learned};
use dovetail_core::pause::DoublingPause;
use futures::join;
use jiff::{SignedDuration, Timestamp};

use super::Catalogue;
use crate::messages::CommitmentsKnown;
use crate::settings::CommitmentSettings;
use crate::telemetry::log_event::{LogEvent, Names};

/// Interval between two questions, where the last was answered or refused for good.
const REFRESH: Duration = Duration::from_secs(3600);
/// Pause after an answer that is not believed.
const DOUBTED_AGAIN: Duration = Duration::from_secs(600);
/// Pauses after failures.
const FAILED_AGAIN: DoublingPause = DoublingPause { first: Duration::from_secs(60), longest: REFRESH };
/// Time that packing waits for the first answers.
const LONGEST_AWAITED: Duration = Duration::from_secs(20);
/// Age of a commitment's end up to which a new leader reports it: the one before may not have.
const REPORTED_LATE: SignedDuration = SignedDuration::from_mins(2);
/// Most ids that a log line names.
const IDS_NAMED: usize = 5;
/// Stands for the code of an answer that is not believed.
const EMPTY: &str = "Empty";
const RATES: &str = "savingsplans:DescribeSavingsPlanRates";

/// A kind of the account's commitments, as AWS has it.
struct Kind {
    name: &'static str,
    /// Action of IAM that asking for them takes.
    action: &'static str,
}

const RESERVED_INSTANCES: Kind = Kind { name: "Reserved Instances", action: "ec2:DescribeReservedInstances" };
const SAVINGS_PLANS: Kind = Kind { name: "Savings Plans", action: "savingsplans:DescribeSavingsPlans" };

/// Answers about one kind.
#[derive(Default)]
struct List {
    known: AccountList,
    /// Code of the failure that was reported last; `None` after an answer.
    unread: Option<String>,
    /// True if it was reported that rates are not known.
    without_rates: bool,
}

impl List {
    /// Takes an answer; what is to be reported joins the events.
    fn take_answer(
        &mut self,
        kind: &Kind,
        answer: Result<AccountAnswer, CloudError>,
        now: Timestamp,
        events: &mut Vec<LogEvent>,
    ) -> Taken {
        match answer {
            Ok(answer) => {
                self.note_rates(kind, answer.without_rates.as_deref(), events);
                match self.known.learn(answer, now) {
                    Learned::Doubted => {
                        let why = "it names none any more, which counts if the next answer says so too".to_owned();
                        self.note_unread(kind, EMPTY, why, events);
                        return Taken::Doubted;
                    }
                    Learned::Same => self.unread = None,
                    Learned::News { gone } => {
                        self.unread = None;
                        return Taken::News(gone);
                    }
                }
                Taken::Same
            }
            Err(error) if error.is_denied() => {
                let why = format!("Dovetail's role may not ask, and everything goes on without them: {error}");
                self.note_unread(kind, error.code(), why, events);
                Taken::Same
            }
            Err(error) => {
                self.note_unread(kind, error.code(), format!("what was known counts for a day: {error}"), events);
                Taken::Failed
            }
        }
    }

    /// Reports a failure unless the last report was of the same code.
    fn note_unread(&mut self, kind: &Kind, code: &str, why: String, events: &mut Vec<LogEvent>) {
        if self.unread.as_deref() != Some(code) {
            self.unread = Some(code.to_owned());
            events.push(LogEvent::CommitmentsUnread { what: kind.name.into(), action: kind.action.into(), why });
        }
    }

    fn note_rates(&mut self, kind: &Kind, without: Option<&str>, events: &mut Vec<LogEvent>) {
        if let Some(why) = without.filter(|_| !self.without_rates) {
            let why = format!("usual discounts count instead of their rates: {why}");
            events.push(LogEvent::CommitmentsUnread { what: kind.name.into(), action: RATES.into(), why });
        }
        self.without_rates = without.is_some();
    }
}

/// The commitments, and the state of asking for the account's.
pub(super) struct Account {
    instances: List,
    plans: List,
    /// Those that count, the declared ones too.
    all: Arc<Commitments>,
    /// True until the first answers have come, or have been waited for.
    awaited: bool,
    /// Failures in a row.
    failures: u32,
    /// Time up to which ends have been reported.
    reported_until: Option<Timestamp>,
}

impl Account {
    pub(super) fn new(settings: &CommitmentSettings) -> Self {
        Self {
            instances: List::default(),
            plans: List::default(),
            all: settings.declared(),
            awaited: settings.account,
            failures: 0,
            reported_until: None,
        }
    }
}

impl Handler<CommitmentsKnown> for Catalogue {
    type Result = Option<Arc<Commitments>>;

    fn handle(&mut self, _: CommitmentsKnown, _: &mut Self::Context) -> Self::Result {
        (!self.account.awaited).then(|| self.account.all.clone())
    }
}

impl Catalogue {
    /// Begins to ask the account, where the settings say so.
    pub(super) fn begin_account(&mut self, ctx: &mut Context<Self>) {
        if self.env.settings.commitments.account {
            self.ask_account(ctx);
            ctx.run_later(LONGEST_AWAITED, |catalogue, _| catalogue.account.awaited = false);
        }
    }

    fn ask_account(&mut self, ctx: &mut Context<Self>) {
        let cloud = self.cloud.clone();
        let call = async move { join!(cloud.reserved_instances(), cloud.savings_plans()) }.into_actor(self);
        ctx.spawn(call.map(|(instances, plans), catalogue, ctx| {
            // An end that the answers no longer name is reported before they count.
            catalogue.report_ended();
            let pause = catalogue.learn_account(instances, plans);
            ctx.run_later(pause, |catalogue, ctx| catalogue.ask_account(ctx));
        }));
    }

    /// Takes the answers; returns the pause before the next question.
    fn learn_account(
        &mut self,
        instances: Result<AccountAnswer, CloudError>,
        plans: Result<AccountAnswer, CloudError>,
    ) -> Duration {
        self.account.awaited = false;
        let (now, mut events) = (self.env.wall(), Vec::new());
        let first = self.account.instances.take_answer(&RESERVED_INSTANCES, instances, now, &mut events);
        let second = self.account.plans.take_answer(&SAVINGS_PLANS, plans, now, &mut events);
        events.into_iter().for_each(|log_event| self.env.emit(log_event));
        let failed = matches!(first, Taken::Failed) || matches!(second, Taken::Failed);
        let doubted = matches!(first, Taken::Doubted) || matches!(second, Taken::Doubted);
        self.account.failures = if failed { self.account.failures.saturating_add(1) } else { 0 };
        let gone: Vec<Vec<String>> = [first, second].into_iter().filter_map(Taken::news).collect();
        self.count_commitments(gone);
        match (doubted, failed) {
            (_, true) => FAILED_AGAIN.length_of_nth(self.account.failures),
            (true, false) => DOUBTED_AGAIN,
            (false, false) => REFRESH,
        }
    }

    /// Counts the commitments anew; `gone` has an entry for each kind with news.
    fn count_commitments(&mut self, gone: Vec<Vec<String>>) {
        let (now, settings) = (self.env.wall(), &self.env.settings.commitments);
        let Account { instances, plans, all, .. } = &mut self.account;
        let of_account = instances.known.counted(now).iter().chain(plans.known.counted(now));
        let counted = Commitments::with_account(&settings.written, of_account, settings.share);
        let is_news = **all != counted;
        *all = Arc::new(counted);
        if !gone.is_empty() {
            let left_out = instances.known.left_out().iter().chain(plans.known.left_out());
            let log_event = LogEvent::CommitmentsRead {
                reserved_instances: instances.known.counted(now).len(),
                savings_plans: plans.known.counted(now).len(),
                gone: Names::first(IDS_NAMED, gone.into_iter().flatten()),
                left_out: Names::first(IDS_NAMED, left_out.map(|(id, why)| format!("{id}: {why}"))),
            };
            self.env.emit(log_event);
        }
        if is_news {
            self.world_changed();
        }
    }

    /// Reports each end of a commitment once: the leader does. A new one begins with those of the last minutes.
    pub(super) fn report_ended(&mut self) {
        let now = self.env.wall();
        if self.account.all.is_empty() && self.account.reported_until.is_none() {
            return;
        }
        let until = self.account.reported_until.unwrap_or(now);
        if self.leader.is_none() {
            self.account.reported_until = Some(until.max(now.saturating_sub(REPORTED_LATE).unwrap_or(until)));
            return;
        }
        let all = self.account.all.clone();
        for one in all.ended_between(until, now) {
            let ended = one.ends.map(|end| end.to_string()).unwrap_or_default();
            self.env.emit(LogEvent::CommitmentEnded { commitment: one.id.clone(), ended });
        }
        self.account.reported_until = Some(until.max(now));
    }
}

/// An answer's effect.
enum Taken {
    Same,
    /// With the ids of those that are gone.
    News(Vec<String>),
    Doubted,
    Failed,
}

impl Taken {
    fn news(self) -> Option<Vec<String>> {
        match self {
            Self::News(gone) => Some(gone),
            Self::Same | Self::Doubted | Self::Failed => None,
        }
    }
}
