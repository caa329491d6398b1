//! Commitments that count: those that are declared, and those of the account where COMMITMENTS has `account`. The account is asked
//! at the start and once an hour, for each kind by itself. Packing waits for the first answers, a moment at most; consolidation
//! waits longer for a kind of which nothing is known.

use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_cloud::cloud::CloudFuture;
use dovetail_cloud::{CloudError, CloudOfferings};
use dovetail_core::commitments::{AccountAnswer, AccountList, Commitments, Learned};
use dovetail_core::pause::DoublingPause;
use jiff::{SignedDuration, Timestamp};

use super::Catalogue;
use super::others::Others;
use crate::messages::{CommitmentsKnown, CountedCommitments};
use crate::settings::CommitmentSettings;
use crate::telemetry::log_event::{LogEvent, Names};

/// Interval between two questions, where the last was answered or refused for good.
const REFRESH: Duration = Duration::from_secs(3600);
/// Interval between two questions for the instances of others.
const OTHERS_REFRESH: Duration = Duration::from_secs(600);
/// Pause after an answer that is not believed.
const DOUBTED_AGAIN: Duration = Duration::from_secs(600);
/// Pauses after failures.
const FAILED_AGAIN: DoublingPause = DoublingPause { first: Duration::from_secs(60), longest: REFRESH };
/// Time that packing waits for the first answers.
const LONGEST_AWAITED: Duration = Duration::from_secs(20);
/// Time that consolidation waits for a kind that was neither answered nor refused for good.
const LONGEST_HELD: Duration = Duration::from_secs(15 * 60);
/// Age of a commitment's end up to which a new leader reports it: the one before may not have.
const REPORTED_LATE: SignedDuration = SignedDuration::from_mins(2);
/// Most ids that a log line names.
const IDS_NAMED: usize = 5;
/// Stands for the code of an answer that is not believed.
const EMPTY: &str = "Empty";
const RATES: &str = "savingsplans:DescribeSavingsPlanRates";
/// Effect of an answer that is missing at the start.
const HELD: &str =
    "packing goes on without them, and consolidation waits for an answer until 15 minutes after the start";

/// A kind of the account's commitments, as AWS has it.
struct Kind {
    name: &'static str,
    /// Action of IAM that asking for them takes.
    action: &'static str,
    ask: for<'a> fn(&'a dyn CloudOfferings) -> CloudFuture<'a, AccountAnswer>,
    list: fn(&mut Account) -> &mut List,
}

static KINDS: [Kind; 2] = [
    Kind {
        name: "Reserved Instances",
        action: "ec2:DescribeReservedInstances",
        ask: |cloud| cloud.reserved_instances(),
        list: |account| &mut account.instances,
    },
    Kind {
        name: "Savings Plans",
        action: "savingsplans:DescribeSavingsPlans",
        ask: |cloud| cloud.savings_plans(),
        list: |account| &mut account.plans,
    },
];

/// Answers about one kind.
#[derive(Default)]
struct List {
    known: AccountList,
    /// Code of the failure that was reported last; `None` after an answer.
    unread: Option<String>,
    /// True if it was reported that rates are not known.
    without_rates: bool,
    /// True once a call has ended, however it did.
    asked: bool,
    /// True once there was an answer, or a refusal for good.
    certain: bool,
    /// Failures in a row.
    failures: u32,
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
        self.asked = true;
        match answer {
            Ok(answer) => {
                (self.certain, self.failures) = (true, 0);
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
            Err(error) if error.is_denied() || error.is_isolated() => {
                (self.certain, self.failures) = (true, 0);
                let whose =
                    if error.is_denied() { "Dovetail's role may not ask, and everything" } else { "everything" };
                self.note_unread(kind, error.code(), format!("{whose} goes on without them: {error}"), events);
                Taken::Same
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                let meanwhile = if self.certain { "what was known counts for a day" } else { HELD };
                self.note_unread(kind, error.code(), format!("{meanwhile}: {error}"), events);
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
    /// Instances of others, which take of them.
    others: Others,
    /// Those that count, the declared ones too.
    all: Arc<Commitments>,
    /// True while packing would wait for the first answers.
    awaited: bool,
    /// True while consolidation would wait for a kind of which nothing is known.
    held: bool,
    /// Ids that are gone, where there is news that has not been reported.
    news: Option<Vec<String>>,
    /// Time up to which ends have been reported.
    reported_until: Option<Timestamp>,
}

impl Account {
    pub(super) fn new(settings: &CommitmentSettings) -> Self {
        Self {
            instances: List::default(),
            plans: List::default(),
            others: Others::new(settings.counts_others()),
            all: settings.declared(),
            awaited: settings.account,
            held: settings.account,
            news: None,
            reported_until: None,
        }
    }

    fn is_awaited(&self) -> bool {
        self.awaited && !(self.instances.asked && self.plans.asked && self.others.are_asked(&self.all))
    }

    fn is_certain(&self) -> bool {
        !self.held || (self.instances.certain && self.plans.certain && self.others.are_certain(&self.all))
    }
}

impl Handler<CommitmentsKnown> for Catalogue {
    type Result = Option<CountedCommitments>;

    fn handle(&mut self, _: CommitmentsKnown, _: &mut Self::Context) -> Self::Result {
        let account = &self.account;
        let counted = CountedCommitments { all: account.all.clone(), are_certain: account.is_certain() };
        (!account.is_awaited()).then_some(counted)
    }
}

impl Catalogue {
    /// Begins to ask the account, where the settings say so.
    pub(super) fn begin_account(&mut self, ctx: &mut Context<Self>) {
        if !self.env.settings.commitments.account {
            return;
        }
        KINDS.iter().for_each(|kind| self.ask_account(kind, ctx));
        ctx.run_later(LONGEST_AWAITED, |catalogue, _| {
            catalogue.account.awaited = false;
            let others = catalogue.account.others.are_asked(&catalogue.account.all);
            catalogue.report_late(|list| list.asked, others, &format!("there is no answer yet; {HELD}"));
            catalogue.report_read();
        });
        ctx.run_later(LONGEST_HELD, |catalogue, _| {
            catalogue.account.held = false;
            let why = "there was no answer in 15 minutes, and consolidation goes on without them";
            let others = catalogue.account.others.are_certain(&catalogue.account.all);
            catalogue.report_late(|list| list.certain, others, why);
        });
    }

    /// Reports the kinds whose first answers are late, and the instances of others if those are not known (`others`).
    fn report_late(&mut self, is_there: impl Fn(&List) -> bool, others: bool, why: &str) {
        for kind in KINDS.iter().filter(|kind| !is_there((kind.list)(&mut self.account))) {
            let (what, action) = (kind.name.to_owned(), kind.action.to_owned());
            self.env.emit(LogEvent::CommitmentsUnread { what, action, why: why.to_owned() });
        }
        if !others {
            self.env.emit(Others::unread(why.to_owned()));
        }
    }

    /// Begins to ask for the instances of others, once there are commitments of which they may take.
    fn begin_others(&mut self, ctx: &mut Context<Self>) {
        if self.account.others.begin(&self.account.all) {
            self.ask_for_others(ctx);
        }
    }

    fn ask_for_others(&mut self, ctx: &mut Context<Self>) {
        if self.account.all.is_empty() {
            self.account.others.stop();
            return;
        }
        let cloud = self.cloud.clone();
        let call = async move { cloud.others_on_demand().await }.into_actor(self);
        ctx.spawn(call.map(|answer, catalogue, ctx| {
            let (failures, event) = catalogue.account.others.take_answer(answer, catalogue.env.wall());
            event.into_iter().for_each(|event| catalogue.env.emit(event));
            catalogue.count_commitments();
            catalogue.report_read();
            let pause = if failures == 0 { OTHERS_REFRESH } else { FAILED_AGAIN.length_of_nth(failures) };
            ctx.run_later(pause, Self::ask_for_others);
        }));
    }

    /// Asks for a kind: the other does not wait for it.
    fn ask_account(&mut self, kind: &'static Kind, ctx: &mut Context<Self>) {
        let cloud = self.cloud.clone();
        let call = async move { (kind.ask)(&*cloud).await }.into_actor(self);
        ctx.spawn(call.map(move |answer, catalogue, ctx| {
            // An end that the answer no longer names is reported before it counts.
            catalogue.report_ended();
            let pause = catalogue.learn_account(kind, answer);
            catalogue.begin_others(ctx);
            ctx.run_later(pause, move |catalogue, ctx| catalogue.ask_account(kind, ctx));
        }));
    }

    /// Takes an answer; returns the pause before the next question.
    fn learn_account(&mut self, kind: &Kind, answer: Result<AccountAnswer, CloudError>) -> Duration {
        let (now, mut events) = (self.env.wall(), Vec::new());
        let list = (kind.list)(&mut self.account);
        let taken = list.take_answer(kind, answer, now, &mut events);
        let pause = match &taken {
            Taken::Failed => FAILED_AGAIN.length_of_nth(list.failures),
            Taken::Doubted => DOUBTED_AGAIN,
            Taken::Same | Taken::News(_) => REFRESH,
        };
        events.into_iter().for_each(|log_event| self.env.emit(log_event));
        if let Taken::News(gone) = taken {
            self.account.news.get_or_insert_default().extend(gone);
        }
        self.count_commitments();
        self.report_read();
        pause
    }

    /// Counts the commitments anew.
    pub(super) fn count_commitments(&mut self) {
        let (now, settings) = (self.env.wall(), &self.env.settings.commitments);
        let Account { instances, plans, others, all, .. } = &mut self.account;
        let of_account = instances.known.counted(now).iter().chain(plans.known.counted(now));
        let counted = Commitments::with_account(&settings.written, of_account, settings.share);
        let prices = self.offers.as_ref().map(|offers| &offers.on_demand);
        let counted = counted.beside(others.counted(prices, now));
        if **all != counted {
            *all = Arc::new(counted);
            self.world_changed();
        }
    }

    /// Reports what there is news of, the first answers together.
    fn report_read(&mut self) {
        if self.account.is_awaited() {
            return;
        }
        let Some(gone) = self.account.news.take() else { return };
        let (now, Account { instances, plans, .. }) = (self.env.wall(), &self.account);
        let left_out = instances.known.left_out().iter().chain(plans.known.left_out());
        let log_event = LogEvent::CommitmentsRead {
            reserved_instances: instances.known.counted(now).len(),
            savings_plans: plans.known.counted(now).len(),
            gone: Names::first(IDS_NAMED, gone),
            left_out: Names::first(IDS_NAMED, left_out.map(|(id, why)| format!("{id}: {why}"))),
        };
        self.env.emit(log_event);
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
