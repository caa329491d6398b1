//! Instances of the account that are not this cluster's: they take of its commitments too. They are asked for every ten minutes
//! while there are commitments, and unless a share says which part of these is this cluster's.

use std::collections::BTreeMap;

use dovetail_cloud::CloudError;
use dovetail_core::commitments::{Commitments, OtherUses, OthersSeen, Uses};
use jiff::Timestamp;

use crate::telemetry::log_event::LogEvent;

const WHAT: &str = "instances of others";
const ACTION: &str = "ec2:DescribeInstances";

/// Knowledge of the instances of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Knowledge {
    #[default]
    Nothing,
    /// A call has ended without an answer.
    Asked,
    /// There was an answer, or a refusal for good.
    Certain,
}

/// Answers about the instances of others, and the state of asking for them.
#[derive(Default)]
pub(super) struct Others {
    seen: OthersSeen,
    /// True if they count.
    wanted: bool,
    /// True once they have been asked for: they are asked for again and again from then on.
    begun: bool,
    knowledge: Knowledge,
    /// Code of the failure that was reported last; `None` after an answer.
    unread: Option<String>,
    /// Failures in a row.
    failures: u32,
}

impl Others {
    pub(super) fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// False while the first answer is awaited: only what there is can be used.
    pub(super) fn are_asked(&self, commitments: &Commitments) -> bool {
        self.knowledge >= Knowledge::Asked || !self.wanted || commitments.is_empty()
    }

    /// False while nothing is known of them.
    pub(super) fn are_certain(&self, commitments: &Commitments) -> bool {
        self.knowledge == Knowledge::Certain || !self.wanted || commitments.is_empty()
    }

    /// Those that count, at the prices of now.
    pub(super) fn counted(&self, prices: Option<&BTreeMap<String, f64>>, now: Timestamp) -> OtherUses {
        let OtherUses { now, lately } = self.seen.counted(now);
        let price = |instance_type: &str| prices?.get(instance_type).copied();
        OtherUses { now: now.priced(price), lately: lately.priced(price) }
    }

    /// Begins to ask for them, once there are commitments of which they may take; returns true if it has just begun.
    pub(super) fn begin(&mut self, commitments: &Commitments) -> bool {
        let begins = self.wanted && !self.begun && !commitments.is_empty();
        self.begun |= begins;
        begins
    }

    /// Asks no more, until there are commitments again.
    pub(super) fn stop(&mut self) {
        self.begun = false;
    }

    /// Takes an answer; returns the number of failures in a row, and what is to be reported.
    pub(super) fn take_answer(&mut self, answer: Result<Uses, CloudError>, now: Timestamp) -> (u32, Option<LogEvent>) {
        let knowledge = match &answer {
            Err(error) if !error.is_denied() && !error.is_isolated() => Knowledge::Asked,
            _ => Knowledge::Certain,
        };
        self.knowledge = self.knowledge.max(knowledge);
        match answer {
            Ok(uses) => {
                (self.failures, self.unread) = (0, None);
                self.seen.learn(uses, now);
                (0, None)
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                let news = self.unread.as_deref() != Some(error.code());
                self.unread = Some(error.code().to_owned());
                let event = Self::unread(format!("what was known of them counts for a day: {error}"));
                (self.failures, Some(event).filter(|_| news))
            }
        }
    }

    /// The report that they are not known.
    pub(super) fn unread(why: String) -> LogEvent {
        LogEvent::CommitmentsUnread { what: WHAT.to_owned(), action: ACTION.to_owned(), why }
    }
}
