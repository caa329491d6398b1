//! Messages that `catalogue` receives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::{Message, Recipient};
use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::launch::OfferingRefusal;
use dovetail_cloud::unavailable::OfferingKey;
use dovetail_core::InstanceType;
use dovetail_core::commitments::Commitments;
use dovetail_core::zonal_shift::ShiftedZones;

use super::{TraceContext, WorldChanged};

/// Asks for the instance types of classes, by class name; a class that is not resolved has none. No answer until the
/// catalogue has been read once. Query.
#[derive(Clone, Debug)]
pub struct InstanceTypesFor {
    /// Classes as the API server has them now; each is answered under its name.
    pub classes: Vec<Arc<EC2NodeClass>>,
    /// True if no other choice is left: offerings refused more than three minutes ago then count as available.
    pub last_resort: bool,
}

impl InstanceTypesFor {
    /// Query for the offerings that may be requested now.
    pub fn new(classes: Vec<Arc<EC2NodeClass>>) -> Self {
        Self { classes, last_resort: false }
    }
}

impl Message for InstanceTypesFor {
    type Result = Option<BTreeMap<String, Arc<Vec<Arc<InstanceType>>>>>;
}

/// Asks for the Savings Plans and Reserved Instances that count, those of the account among them. No answer while the account's
/// first answers are awaited, a moment at most. Query, sent only where COMMITMENTS has `account`.
#[derive(Clone, Copy, Debug)]
pub struct CommitmentsKnown;

impl Message for CommitmentsKnown {
    type Result = Option<CountedCommitments>;
}

/// Commitments that count.
#[derive(Clone, Debug)]
pub struct CountedCommitments {
    pub all: Arc<Commitments>,
    /// False while there may be others, of a kind that the account has neither answered nor refused: nothing is moved to save money.
    pub are_certain: bool,
}

/// The cloud refused offerings. Fact, from `launcher`; from `interruption` for an offering that EC2 takes back, with the code
/// `SpotInterrupted`.
#[derive(Clone, Debug, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Refused {
    /// Offerings that it refused.
    pub refusals: Vec<OfferingRefusal>,
    /// Trace of the launch, or of the interruption.
    pub trace: TraceContext,
}

/// The subnets that EC2 lately had no address in. Query.
#[derive(Clone, Copy, Debug)]
pub struct FullSubnets {
    /// True for subnets of the last three minutes only.
    pub last_resort: bool,
}

impl Message for FullSubnets {
    type Result = BTreeSet<String>;
}

/// The cloud gave an instance of this offering. Fact, from `launcher`.
#[derive(Clone, Debug, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct LaunchedOffering {
    /// Its capacity type, type and zone.
    pub offering: OfferingKey,
    /// The subnet that it is in.
    pub subnet: String,
}

/// An instance of a capacity reservation was launched: it has one less. Fact, from `launcher`.
#[derive(Clone, Debug, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct TookReserved {
    pub id: String,
}

/// An instance of a capacity reservation is gone: the reservation may have one more. Fact, from `terminator`.
#[derive(Clone, Debug, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct FreedReserved {
    pub id: String,
}

/// EC2 takes a capacity reservation back: nothing is left of it until EC2 says otherwise. Fact, from `interruption`.
#[derive(Clone, Debug, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct ReservationTakenBack {
    pub id: String,
}

/// The cluster is shifted away from these zones, and from no others. Fact, from `catalogue`, when that changes.
#[derive(Clone, Debug, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct ZonesShifted(pub ShiftedZones);

/// Subscribes the leader's actor that is told when packing may come out differently. Order.
#[derive(Clone, Message)]
#[rtype(result = "()")]
pub struct CatalogueAttach(pub Recipient<WorldChanged>);
