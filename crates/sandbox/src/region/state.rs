//! State of a region, and the agenda of what will happen in it.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::mpsc::UnboundedSender;

use super::account::RequestLimits;
use super::actions::filters::Tags;
use super::actions::templates::Template;
use super::config::RegionConfig;
use super::images::RegionImages;
use super::instance::{InstanceEvent, RegionInstance};
use super::network::VpcNetwork;
use super::services::iam::Iam;
use super::services::queue::Queues;

/// Something that happens by itself at its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A pending instance comes up.
    Runs(String),
    /// An instance that shuts down is gone.
    Terminates(String),
    /// A terminated instance is no longer described.
    Forgotten(String),
    /// EC2 takes a spot instance back.
    Reclaimed(String),
    /// The capacity block that an instance runs in is about to end.
    BlockEnds(String),
    /// Tags that were created or deleted (`None`) become visible.
    Tagged(String, String, Option<String>),
}

/// An answer to a client token, and a hash of the parameters then.
#[derive(Clone, Debug)]
pub(crate) struct IdempotentAnswer {
    pub parameters: u64,
    pub answer: super::wire::xml::Xml,
}

/// All that changes, behind one mutex.
pub(crate) struct RegionState {
    /// The region's beginning, on both clocks.
    pub started: (Duration, jiff::Timestamp),
    /// True while nodes are launched that are to be there beforehand.
    pub placing: bool,
    /// Instances that describes no longer know.
    pub forgotten: std::collections::BTreeMap<String, super::instance::RegionInstance>,
    /// Random numbers for ids.
    pub ids: Rng,
    /// For request ids, apart so that a refused request does not change the next instance's id.
    pub request_ids: Rng,
    /// Random numbers for delays.
    pub delays: Rng,
    pub network: VpcNetwork,
    pub images: RegionImages,
    pub iam: Iam,
    pub queues: Queues,
    /// Launch templates by id.
    pub templates: BTreeMap<String, Template>,
    /// By id, the terminated of the last hour among them.
    pub instances: BTreeMap<String, RegionInstance>,
    /// Tags of whatever is not an instance, by resource id.
    pub tags: BTreeMap<String, Tags>,
    /// Times since which zones are down.
    pub zones_down_since: BTreeMap<String, jiff::Timestamp>,
    /// Ends of the shifts away from zones, by the zone's id; none for an autoshift.
    pub shifts: BTreeMap<String, Option<jiff::Timestamp>>,
    /// Instances that others of the account want of capacity reservations, by id: they get each that is free.
    pub reserved_by_others: BTreeMap<String, u32>,
    /// Numbers of instances of capacity reservations, by id, that are another than at the start; 0 where it was cancelled.
    pub resized_reservations: BTreeMap<String, u32>,
    /// By action and client token.
    pub tokens: BTreeMap<(&'static str, String), IdempotentAnswer>,
    /// The account's token buckets, where they are in force.
    pub limits: RequestLimits,
    /// Offerings that the current fleet does not get: glob of offerings, code, message.
    pub refused_now: Vec<(String, String, String)>,
    pub subscribers: Vec<UnboundedSender<InstanceEvent>>,
    agenda: BTreeMap<(Duration, u64), Due>,
    planned: u64,
}

impl RegionState {
    pub fn new(config: &RegionConfig, zones: &[dovetail_cloud::catalogue::Zone]) -> Self {
        let mut seeds = Rng::with_seed(config.seed ^ 0x7265_6769_6f6e); // "region"
        let mut generator = || Rng::with_seed(seeds.u64(..));
        let mut tags = BTreeMap::new();
        let network = VpcNetwork::new(config, zones, &mut tags);
        Self {
            started: (Duration::ZERO, jiff::Timestamp::UNIX_EPOCH),
            placing: false,
            forgotten: std::collections::BTreeMap::new(),
            ids: generator(),
            request_ids: generator(),
            delays: generator(),
            network,
            images: RegionImages::new(config),
            iam: Iam::new(config),
            queues: Queues::new(config, generator()),
            templates: BTreeMap::new(),
            instances: BTreeMap::new(),
            tags,
            zones_down_since: BTreeMap::new(),
            shifts: BTreeMap::new(),
            reserved_by_others: BTreeMap::new(),
            resized_reservations: BTreeMap::new(),
            tokens: BTreeMap::new(),
            limits: RequestLimits::default(),
            refused_now: Vec::new(),
            subscribers: Vec::new(),
            agenda: BTreeMap::new(),
            planned: 0,
        }
    }

    /// Puts something on the agenda. What is due at the same time happens in the order in which it was planned.
    pub fn plan(&mut self, at: Duration, due: Due) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), due);
    }

    /// Takes the first thing that is due.
    pub fn next_due(&mut self, now: Duration) -> Option<(Duration, Due)> {
        let first = self.agenda.first_entry()?;
        (first.key().0 <= now).then(|| {
            let ((at, _), due) = first.remove_entry();
            (at, due)
        })
    }

    /// Time at which the next entry is due.
    pub fn next_time(&self) -> Option<Duration> {
        self.agenda.keys().next().map(|(at, _)| *at)
    }

    /// A time between the two, drawn.
    pub fn delay(&mut self, least: Duration, most: Duration) -> Duration {
        least + (most - least).mul_f64(self.delays.f64())
    }

    /// Tells those who listen of an instance's state, and forgets those who no longer do.
    pub fn publish(&mut self, event: &InstanceEvent) {
        self.subscribers.retain(|subscriber| subscriber.send(event.clone()).is_ok());
    }
}
