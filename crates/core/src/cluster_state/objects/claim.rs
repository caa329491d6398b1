//! A NodeClaim as the cluster state keeps it, with the facts that are often needed read once.

use std::sync::Arc;

use dovetail_api::names::annotations::{DO_NOT_REPAIR, LAUNCHED_FOR, TERM};
use dovetail_api::names::{conditions, labels};
use dovetail_api::v1::{NodeClaim, condition, is_true};
use jiff::{SignedDuration, Timestamp};

use crate::budgets::RemovalReason;
use crate::clock::at_the_latest;
use crate::cluster_state::objects::reboot::RebootState;
use crate::cluster_state::read_launched_for;
use crate::interruption::InterruptionNotice;
use crate::lifecycle::{self, ClaimStage, deadline};
use crate::ownership::has_foreign_token;
use crate::resources::Resources;

/// A claim, planned or known to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimEntry {
    /// The claim; without a uid while it is only planned.
    pub claim: Arc<NodeClaim>,
    /// The most resources that its instance will have, until the cloud has reported its real ones.
    pub expected_capacity: Resources,
    /// Facts read from its conditions and times.
    pub facts: ClaimFacts,
}

/// Facts read from a claim's metadata, conditions and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimFacts {
    /// `metadata.name`.
    pub name: String,
    /// Its uid, empty while it is only planned.
    pub uid: String,
    /// Its pool's name, empty when it has none.
    pub pool: String,
    /// Its Node's name, empty until it has one.
    pub node: String,
    /// The last stage that it has reached.
    pub stage: Option<ClaimStage>,
    /// Time at which it became Initialized.
    pub initialized: Option<Timestamp>,
    /// True if it says itself that it goes: it is being deleted, or the cloud has announced that it takes the instance.
    pub deleting: bool,
    /// Time by which its instance ends whatever is on it, where that is known of a claim that leaves: its own grace is over,
    /// or EC2 takes it back.
    pub ends: Option<Timestamp>,
    /// True if the cloud has begun to end its instance.
    pub terminating: bool,
    /// Time at which the API server created it.
    pub created: Option<Timestamp>,
    /// Time at which its age is over: not before its full age, though the API dates its creation in whole seconds.
    pub expires: Option<Timestamp>,
    pub consolidatable: bool,
    /// Time since which its condition Drifted is True.
    pub drifted: Option<Timestamp>,
    /// True if a command says that it holds the claim.
    pub disruption_reason: bool,
    /// True if it says that its node is being repaired: its pods get places, or it goes already.
    pub repaired: bool,
    /// State of the last reboot for its repair.
    pub reboot: Option<RebootState>,
    /// True if that one was begun within a day of another.
    pub rebooted_again: bool,
    /// True if its annotation `karpenter.sh/do-not-repair` says so.
    pub do_not_repair: bool,
    /// `status.lastPodEventTime`.
    pub last_pod_event: Option<Timestamp>,
    /// The workloads that it was launched for, each with the number of nodes that it had not used before.
    pub launched_for: Vec<(String, u32)>,
}

impl ClaimEntry {
    #[must_use]
    pub fn new(claim: Arc<NodeClaim>, expected_capacity: Resources) -> Self {
        let facts = ClaimFacts::from_claim(&claim);
        Self { claim, expected_capacity, facts }
    }

    /// True if the API server does not know it yet.
    #[must_use]
    pub fn is_planned(&self) -> bool {
        self.claim.metadata.uid.is_none()
    }

    /// True if its instance's resources are unknown: the cloud has not answered, and an earlier leader has planned it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let answered = self.claim.status.as_ref().is_some_and(|status| !status.allocatable.is_empty());
        !answered && self.expected_capacity.is_empty()
    }

    /// True if pods may be planned on it: its instance is launched, or it was planned with, here or by an earlier leader. A
    /// claim that somebody else has made counts from its launch on, as nobody knows before whether an instance comes of it.
    #[must_use]
    pub fn is_promised(&self) -> bool {
        let by_leader = || {
            let annotations = self.claim.metadata.annotations.as_ref();
            annotations.is_some_and(|own| own.contains_key(TERM)) && !has_foreign_token(&self.claim)
        };
        self.facts.stage.is_some() || self.is_planned() || !self.expected_capacity.is_empty() || by_leader()
    }

    /// Provider id of its machine, empty until the cloud has made one.
    #[must_use]
    pub fn provider_id(&self) -> &str {
        self.claim.status.as_ref().map_or("", |status| status.provider_id.as_str())
    }

    /// True if it says itself that it goes: it is being deleted, or the cloud has announced that it takes the instance.
    #[must_use]
    pub fn says_it_leaves(&self) -> bool {
        self.facts.deleting
    }
}

impl ClaimFacts {
    /// True if the Node of that name has registered for it, or no Node has. Another Node that merely copies the provider ID is not
    /// its own.
    #[must_use]
    pub fn may_be_on(&self, node: &str) -> bool {
        self.node.is_empty() || self.node == node
    }

    /// Reads the facts off a claim.
    #[must_use]
    pub fn from_claim(claim: &NodeClaim) -> Self {
        let meta = &claim.metadata;
        let status = claim.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let stage = lifecycle::stage(claim);
        let initialized = condition(conditions, conditions::INITIALIZED).map(|one| one.last_transition_time.0);
        let created = meta.creation_timestamp.as_ref().map(|time| time.0);
        let reboot = RebootState::from_conditions(conditions);
        let reboots = reboot.is_some_and(RebootState::is_running);
        let age = claim.spec.expire_after.get().and_then(|age| SignedDuration::try_from(age).ok());
        Self {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            pool: meta.labels.as_ref().and_then(|own| own.get(labels::NODE_POOL)).cloned().unwrap_or_default(),
            node: status.map(|status| status.node_name.clone()).unwrap_or_default(),
            initialized: initialized.filter(|_| stage == Some(ClaimStage::Initialized)),
            stage,
            deleting: lifecycle::is_deleting(claim) || InterruptionNotice::on(claim).is_some(),
            ends: deadline::of_machine(claim),
            terminating: is_true(conditions, conditions::INSTANCE_TERMINATING),
            created,
            expires: created.zip(age).and_then(|(created, age)| at_the_latest(created).checked_add(age).ok()),
            consolidatable: is_true(conditions, conditions::CONSOLIDATABLE),
            drifted: condition(conditions, conditions::DRIFTED)
                .filter(|one| one.status == conditions::TRUE)
                .map(|one| one.last_transition_time.0),
            // While its instance is rebooted the reason is that, and its node stays.
            disruption_reason: !reboots && is_true(conditions, conditions::DISRUPTION_REASON),
            repaired: !reboots
                && condition(conditions, conditions::DISRUPTION_REASON).is_some_and(|one| {
                    one.status == conditions::TRUE && Some(one.reason.as_str()) == RemovalReason::Unhealthy.budget_key()
                }),
            reboot,
            rebooted_again: is_true(conditions, conditions::REBOOTED_AGAIN),
            do_not_repair: meta
                .annotations
                .as_ref()
                .and_then(|own| own.get(DO_NOT_REPAIR))
                .is_some_and(|one| one == "true"),
            last_pod_event: status.and_then(|status| status.last_pod_event_time.as_ref()).map(|time| time.0),
            launched_for: meta
                .annotations
                .as_ref()
                .and_then(|own| own.get(LAUNCHED_FOR))
                .map(|written| read_launched_for(written))
                .unwrap_or_default(),
        }
    }
}
