//! The cloud's offers, known on every replica: instance types, zones, prices, and what it refused lately; resolved for a node
//! class into what packing chooses from.
//!
//! At the mailbox's bound: refusals are few a launch; queries come one at a time from `packer` and a few from
//! `launcher`, which waits for the answer.

mod availability;
mod commitments;
mod doubt;
mod others;
mod read;
mod reserved;
mod resolved;
mod zonal_shift;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::*;
use dovetail_api::v1::EC2NodeClass;
use dovetail_cloud::CloudOfferings;
use dovetail_cloud::catalogue::RegionCatalogue as Offers;
use dovetail_cloud::resolve::{ReservationView, ResolvedClass};
use dovetail_cloud::unavailable::UnavailableOfferings;
use dovetail_core::InstanceType;
use kube::ResourceExt;

use crate::catalogue::availability::Keeping;
pub use crate::catalogue::availability::{KEY, Keep, UNAVAILABLE_OFFERINGS};
use crate::catalogue::commitments::Account;
use crate::catalogue::read::LatePrices;
pub use crate::catalogue::read::stand_in;
use crate::catalogue::reserved::Reserved;
pub use crate::catalogue::resolved::types_of_class;
use crate::catalogue::resolved::{Resolved, resolve_class};
use crate::catalogue::zonal_shift::{ZoneShifts, begin_shifts, count_shifts, note_zones};
use crate::context::env::Env;
use crate::messages::{
    CatalogueAttach, CatalogueState, Detach, FreedReserved, InstanceTypesFor, Observe, ReservationTakenBack,
    TookReserved, WorldChanged, ZonesShifted,
};
use crate::telemetry::log_event::{LogEvent, Names};

/// Types and prices are read again this often (aws spec 6).
const REFRESH: Duration = Duration::from_secs(12 * 3600);
/// Interval between two reads of the free capacity of reservations (aws spec 3.4).
const RESERVED_REFRESH: Duration = Duration::from_secs(60);
/// Time after the end of a reserved instance at which the free capacity is read once more: EC2's count may lag behind.
const FREED_AGAIN: Duration = Duration::from_secs(10);
/// Interval at which unavailable offerings are checked for expiry (aws spec 3.6).
const UNAVAILABLE_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Most instance types that a log line names.
const TYPES_NAMED: usize = 5;

type Types = Arc<Vec<Arc<InstanceType>>>;

/// Keeps the instance types of each class with prices and availability, read anew from the cloud now and then.
pub struct Catalogue {
    env: Env,
    cloud: Arc<dyn CloudOfferings>,
    offers: Option<Arc<Offers>>,
    reads: u64,
    /// Time of the last read of on-demand prices and, below, of spot prices. Monotonic.
    on_demand_read: Option<Duration>,
    spot_read: Option<Duration>,
    /// Everything is being read, or waits for prices that are late.
    reading: Option<SpawnHandle>,
    /// The last answer was not believed: when everything is read again.
    doubted: Option<SpawnHandle>,
    /// Answers in a row that were not believed.
    doubts: u32,
    /// Spot prices are being read.
    reading_spot: bool,
    unavailable: UnavailableOfferings,
    reserved: Reserved,
    /// Savings Plans and Reserved Instances.
    account: Account,
    /// Zones that the cluster is shifted away from.
    shifts: ZoneShifts,
    /// EC2 is being asked for what is left of reservations.
    asking: bool,
    /// Handling of the ConfigMap that keeps the unavailable offerings for a successor.
    keeping: Keeping,
    resolved: BTreeMap<String, Resolved>,
    /// The instance types of each class that no image is for, as was said.
    without_image: BTreeMap<String, Vec<String>>,
    leader: Option<Recipient<WorldChanged>>,
}

impl Catalogue {
    /// A catalogue that has not been read.
    pub fn new(env: &Env, cloud: Arc<dyn CloudOfferings>) -> Self {
        Self {
            env: env.for_actor("catalogue"),
            cloud,
            offers: None,
            reads: 0,
            on_demand_read: None,
            spot_read: None,
            reading: None,
            doubted: None,
            doubts: 0,
            reading_spot: false,
            unavailable: UnavailableOfferings::default(),
            reserved: Reserved::default(),
            account: Account::new(&env.settings.commitments),
            shifts: ZoneShifts::default(),
            asking: false,
            keeping: Keeping::default(),
            resolved: BTreeMap::new(),
            without_image: BTreeMap::new(),
            leader: None,
        }
    }

    /// The same, and an actor that is told which zones the cluster is shifted away from.
    #[must_use]
    pub fn with_listener(mut self, listener: Recipient<ZonesShifted>) -> Self {
        self.shifts.listener = Some(listener);
        self
    }
}

impl Actor for Catalogue {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.read_anew(ctx);
        self.begin_account(ctx);
        begin_shifts(self, ctx);
        ctx.run_interval(REFRESH, |catalogue, ctx| catalogue.read_anew(ctx));
        if let Some(interval) = self.env.settings.spot_price_refresh {
            ctx.run_interval(interval, |catalogue, ctx| catalogue.read_spot(ctx));
        }
        ctx.run_interval(RESERVED_REFRESH, |catalogue, ctx| catalogue.ask_for_reserved(ctx));
        ctx.run_interval(UNAVAILABLE_CHECK_INTERVAL, |catalogue, ctx| {
            count_shifts(catalogue);
            if catalogue.unavailable.expire(catalogue.env.now()) {
                catalogue.world_changed();
            }
            catalogue.keep_availability(ctx);
            catalogue.report_ended();
        });
    }
}

impl Handler<LatePrices> for Catalogue {
    type Result = ();

    fn handle(&mut self, late: LatePrices, _: &mut Self::Context) {
        let Some(offers) = &self.offers else { return };
        if late.is_empty() {
            return;
        }
        let mut offers = Offers::clone(offers);
        let spot = matches!(late, LatePrices::Spot(_));
        match late {
            LatePrices::OnDemand(prices) => offers.on_demand = prices,
            LatePrices::Spot(prices) => offers.spot = prices,
        }
        self.learn(offers, !spot, spot);
    }
}

impl Handler<InstanceTypesFor> for Catalogue {
    type Result = MessageResult<InstanceTypesFor>;

    fn handle(&mut self, query: InstanceTypesFor, ctx: &mut Self::Context) -> Self::Result {
        let Some(offers) = self.offers.clone().filter(|_| !self.shifts.is_awaited()) else {
            return MessageResult(None);
        };
        note_zones(self, &query.classes);
        let last_resort = query.last_resort && self.unavailable.has_last_resort(self.env.now());
        let types = |class: &Arc<EC2NodeClass>| Some((class.name_any(), self.types(&offers, class, last_resort)?));
        let types = query.classes.iter().map(types).collect();
        if self.reserved.lacks_any() {
            self.ask_for_reserved(ctx);
        }
        MessageResult(types)
    }
}

impl Handler<TookReserved> for Catalogue {
    type Result = ();

    fn handle(&mut self, took: TookReserved, _: &mut Self::Context) {
        self.reserved.count_launch(&took.id);
    }
}

impl Handler<FreedReserved> for Catalogue {
    type Result = ();

    fn handle(&mut self, freed: FreedReserved, ctx: &mut Self::Context) {
        if self.reserved.wants(&freed.id) {
            // EC2 may know of it only a moment later, or somebody else may have it by then: it is EC2's count that holds.
            self.ask_for_reserved(ctx);
            ctx.run_later(FREED_AGAIN, |catalogue, ctx| catalogue.ask_for_reserved(ctx));
        }
    }
}

impl Handler<ReservationTakenBack> for Catalogue {
    type Result = ();

    fn handle(&mut self, taken: ReservationTakenBack, _: &mut Self::Context) {
        if self.reserved.end(&taken.id) {
            self.world_changed();
        }
    }
}

impl Handler<CatalogueAttach> for Catalogue {
    type Result = ();

    fn handle(&mut self, leader: CatalogueAttach, _: &mut Self::Context) {
        self.leader = Some(leader.0);
    }
}

impl Handler<Detach> for Catalogue {
    type Result = ();

    fn handle(&mut self, _: Detach, _: &mut Self::Context) {
        self.leader = None;
        self.keeping.stop();
    }
}

impl Handler<Observe> for Catalogue {
    type Result = MessageResult<Observe>;

    fn handle(&mut self, _: Observe, _: &mut Self::Context) -> Self::Result {
        let instance_types = self.offers.as_ref().map_or(0, |offers| offers.types.len());
        let (reads, unavailable) = (self.reads, self.unavailable.len());
        let age = |read: Option<Duration>| read.map(|read| self.env.now().saturating_sub(read).as_secs());
        let (on_demand_age_seconds, spot_age_seconds) = (age(self.on_demand_read), age(self.spot_read));
        let state = CatalogueState { instance_types, reads, unavailable, on_demand_age_seconds, spot_age_seconds };
        MessageResult(state.into())
    }
}

impl Catalogue {
    fn world_changed(&self) {
        if let Some(leader) = &self.leader {
            self.env.post(leader, WorldChanged::Room);
        }
    }

    /// Takes these offers into use; the flags say which prices were read just now.
    fn learn(&mut self, offers: Offers, on_demand: bool, spot: bool) {
        let now = self.env.now();
        self.on_demand_read = Some(now).filter(|_| on_demand).or(self.on_demand_read);
        self.spot_read = Some(now).filter(|_| spot).or(self.spot_read);
        let offerings = offers.offered.values().map(BTreeSet::len).sum();
        self.env.emit(LogEvent::CatalogueRead { instance_types: offers.types.len(), offerings });
        self.reads += 1;
        self.offers = Some(Arc::new(offers));
        self.world_changed();
        if self.env.settings.commitments.account {
            // Instances of others count at these prices.
            self.count_commitments();
        }
    }

    /// Reads spot prices once more, unless that is being done; those known count until others have come.
    fn read_spot(&mut self, ctx: &mut Context<Self>) {
        if self.reading_spot || self.offers.is_none() {
            return;
        }
        self.reading_spot = true;
        let reading = read::read_spot(self.cloud.clone(), self.env.clone()).into_actor(self);
        ctx.spawn(reading.map(|prices, catalogue, _| {
            catalogue.reading_spot = false;
            catalogue.spot_read = Some(catalogue.env.now());
            let Some(offers) = &catalogue.offers else { return };
            let news = |(place, price): (&(String, String), &f64)| offers.spot.get(place) != Some(price);
            if !prices.iter().any(news) {
                return;
            }
            // A type that EC2's answer leaves out keeps its price.
            let mut offers = Offers::clone(offers);
            offers.spot.extend(prices);
            catalogue.offers = Some(Arc::new(offers));
            catalogue.reads += 1;
            catalogue.world_changed();
        }));
    }

    /// Asks EC2 what is left of the reservations that classes have; a call that fails leaves what was known.
    fn ask_for_reserved(&mut self, ctx: &mut Context<Self>) {
        let ids = if self.asking { vec![] } else { self.reserved.ask() };
        if ids.is_empty() {
            return;
        }
        self.asking = true;
        let cloud = self.cloud.clone();
        let call = async move { (cloud.reserved_left(&ids).await, ids) }.into_actor(self);
        ctx.spawn(call.map(|(answer, ids), catalogue, _| {
            catalogue.asking = false;
            let news = match answer {
                Ok(answer) => catalogue.reserved.learn(&ids, &answer),
                Err(_) => catalogue.reserved.give_up(&ids),
            };
            if news {
                catalogue.world_changed();
            }
        }));
    }

    /// A class's instance types, kept as long as nothing that they depend on changes; the last ones, if any, while it is
    /// not known what is left of its reservations.
    fn types(&mut self, offers: &Offers, class: &EC2NodeClass, last_resort: bool) -> Option<Types> {
        let Some(status) = &class.status else { return Some(Types::default()) };
        if let Some(whole) = self.cloud.whole_types() {
            return Some(whole);
        }
        self.unavailable.forget_expired(self.env.now());
        let name = class.name_any();
        let Some(reservations) = self.reserved.views(status, self.env.wall()) else {
            return Some(self.resolved.get(&name)?.types.get(&last_resort)?.1.clone());
        };
        let from = format!(
            "{}/{}/{}/{:?}/{:?}/{:?}/{reservations:?}/{:?}",
            class.metadata.uid.as_deref().unwrap_or_default(),
            self.reads,
            self.reserved.version(),
            class.metadata.generation,
            status.subnets,
            status.amis,
            status.placement_group
        );
        if self.resolved.get(&name).is_none_or(|known| known.from != from) {
            let class = self.resolve(offers, class, status, reservations);
            self.resolved.insert(name.clone(), Resolved { from, class, types: BTreeMap::new() });
        }
        let version = self.unavailable.version();
        let before = self.resolved.get(&name)?.types.get(&last_resort).cloned();
        if let Some((_, types)) = before.as_ref().filter(|(of, _)| *of == version) {
            return Some(types.clone());
        }
        let unavailable = self.unavailable_now(last_resort);
        let known = self.resolved.get_mut(&name)?;
        let before = before.as_ref().map(|(_, types)| types.as_slice()).unwrap_or_default();
        let types = known.class.as_ref().map(|class| class.without(&unavailable, before)).unwrap_or_default();
        let types = Arc::new(types);
        known.types.insert(last_resort, (version, types.clone()));
        Some(types)
    }

    /// Resolves a class; none if it makes no nodes, which is told.
    fn resolve(
        &mut self,
        offers: &Offers,
        class: &EC2NodeClass,
        status: &dovetail_api::v1::EC2NodeClassStatus,
        reservations: Vec<ReservationView>,
    ) -> Option<ResolvedClass> {
        match resolve_class(offers, class, status, reservations, &self.env.settings) {
            Ok(resolved) => {
                self.tell_without_image(class.name_any(), resolved.withheld().to_vec());
                Some(resolved)
            }
            Err(why) => {
                self.env.emit(LogEvent::NodeClass { node_class: class.name_any(), ready: false, why });
                None
            }
        }
    }

    /// Says once which types of a class no image is for.
    fn tell_without_image(&mut self, node_class: String, types: Vec<String>) {
        let said = self.without_image.entry(node_class.clone()).or_default();
        if *said != types {
            said.clone_from(&types);
            self.env.emit(LogEvent::WithoutImage { node_class, instance_types: Names::first(TYPES_NAMED, types) });
        }
    }
}
