//! Faults, and their rates.
//!
//! One set of faults for the whole sandbox, shared by the API server and the region and changed at run time by the
//! steps of a scenario. Each service draws from a generator of its own, so that one more call to EC2 does not
//! change what happens to the API server.

mod account;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

pub use crate::globs::glob_matches;
use crate::globs::offering_matches;
pub use crate::node_faults::{
    JoinsLate, KubeletRefuses, LabelOfNodes, LessAllocatable, NodeFaults, OnTypes, TaintOnJoin, TypeGlobs,
};

pub use account::{InjectedError, error_of_offering};
use settings::Rates;
pub use settings::{
    ApiServerFaults, Ec2Faults, FaultSettings, QueueLoss, QueueLost, SchedulerFaults, SpotPool, SpotRise, SqsFaults,
};

/// The service that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Service {
    /// The Kubernetes API server.
    ApiServer,
    /// EC2 and what stands beside it: SSM, IAM, EKS, Pricing, STS.
    Ec2,
    /// The interruption queue.
    Sqs,
}

/// Direction that a partition cuts, seen from the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Answers do not arrive; what was asked for is done.
    In,
    /// Requests do not get out; nothing is done.
    Out,
    /// Neither requests nor answers get through.
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    Serve,
    /// It fails inside the service, with nothing done.
    Fail,
    /// It is refused for its rate, with nothing done.
    Throttle,
    /// It is carried out, and the connection breaks before the answer.
    LoseAnswer,
    /// It is carried out, and the answer never comes: the caller waits until its own time-out.
    SwallowAnswer,
    /// It is carried out long after its sender has given up: it was held somewhere on its way. By EC2 at once.
    Late,
    /// The same, so late.
    Held(Duration),
    /// It never arrives: the caller waits until its own time-out.
    Unreachable,
    /// Nobody listens, or somebody who is not ready yet.
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFate {
    /// Time added to what the request takes.
    pub latency: Duration,
    pub outcome: RequestOutcome,
}

/// Parts of the time that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// On its way to the server: it ends with its sender.
    pub there: Duration,
    /// In the server, which carries it out whatever becomes of its sender.
    pub inside: Duration,
    /// The answer on its way back.
    pub back: Duration,
}

impl Way {
    /// A way with these shares of the time there and inside; the rest is the way back.
    pub fn from_shares(total: Duration, there: f64, inside: f64) -> Self {
        let (there, inside) = (total.mul_f64(there), total.mul_f64(inside));
        Self { there, inside, back: total.saturating_sub(there + inside) }
    }
}

/// The faults in force. Clones share them.
#[derive(Clone, Debug)]
pub struct FaultsInForce {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    settings: FaultSettings,
    draws: BTreeMap<Service, fastrand::Rng>,
    lag: fastrand::Rng,
    duplicate: fastrand::Rng,
    ways: fastrand::Rng,
    /// Time until which the API server is down.
    down: Option<Instant>,
    /// Delay with which changes reach watches.
    watches_late: Duration,
    /// True if marked objects come to replicas as nothing can read them.
    spoils: bool,
    /// Replicas whose writes are held on their way: how long, and until when those that are sent.
    held: BTreeMap<u32, (Duration, Option<Instant>)>,
    partitions: BTreeMap<u32, BTreeMap<Service, Direction>>,
    zones_down: BTreeSet<String>,
    /// Time at which faults were put in force.
    begun: Option<Instant>,
}

impl FaultsInForce {
    /// Nothing goes wrong until settings say so; draws follow from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut seeds = fastrand::Rng::with_seed(seed ^ 0x6661_756c_7473); // "faults"
        let mut generator = || fastrand::Rng::with_seed(seeds.u64(..));
        let draws = [Service::ApiServer, Service::Ec2, Service::Sqs].map(|service| (service, generator()));
        let state = State {
            settings: FaultSettings::default(),
            draws: draws.into_iter().collect(),
            lag: generator(),
            duplicate: generator(),
            ways: generator(),
            down: None,
            watches_late: Duration::ZERO,
            spoils: false,
            held: BTreeMap::new(),
            partitions: BTreeMap::new(),
            zones_down: BTreeSet::new(),
            begun: None,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    pub fn settings(&self) -> FaultSettings {
        self.lock().settings.clone()
    }

    /// Puts other settings in force.
    pub fn set(&self, settings: FaultSettings) {
        let mut state = self.lock();
        state.begun = Some(Instant::now());
        state.settings = settings;
    }

    pub fn nodes(&self) -> NodeFaults {
        let state = self.lock();
        let nodes = &state.settings.nodes;
        let over = nodes.lasts.zip(state.begun).is_some_and(|(lasts, begun)| begun.elapsed() >= lasts);
        if over { NodeFaults::default() } else { nodes.clone() }
    }

    /// The way in which the interruption queue is lost now, if it is.
    pub fn queue_lost(&self) -> Option<QueueLoss> {
        let state = self.lock();
        let lost = state.settings.sqs.lost?;
        let since = state.begun?.elapsed().checked_sub(lost.after)?;
        lost.lasts.is_none_or(|lasts| since < lasts).then_some(lost.how)
    }

    pub fn change(&self, change: impl FnOnce(&mut FaultSettings)) {
        change(&mut self.lock().settings);
    }

    /// Cuts a replica off from services, until [`FaultsInForce::heal`].
    pub fn partition(&self, replica: u32, from: &[Service], direction: Direction) {
        let mut state = self.lock();
        let cut = state.partitions.entry(replica).or_default();
        cut.extend(from.iter().map(|service| (*service, direction)));
    }

    /// Ends a replica's partition from these services.
    pub fn heal(&self, replica: u32, from: &[Service]) {
        let mut state = self.lock();
        if let Some(cut) = state.partitions.get_mut(&replica) {
            cut.retain(|service, _| !from.contains(service));
        }
    }

    /// The direction in which a replica is cut off from a service, if it is.
    pub fn partitioned(&self, replica: Option<u32>, service: Service) -> Option<Direction> {
        self.lock().partitions.get(&replica?)?.get(&service).copied()
    }

    /// Holds the replica's writes by `by` on their way to the API server, from now on for `duration` or until the next change.
    pub fn hold_writes(&self, replica: u32, by: Duration, duration: Option<Duration>) {
        let until = duration.map(|duration| Instant::now() + duration);
        self.lock().held.insert(replica, (by, until));
    }

    /// Ends the holding of the replica's later writes; writes that are held stay held.
    pub fn hold_no_longer(&self, replica: u32) {
        self.lock().held.remove(&replica);
    }

    /// Time for which the replica's writes are held now, if they are.
    pub fn writes_held(&self, replica: Option<u32>) -> Option<Duration> {
        let (by, until) = *self.lock().held.get(&replica?)?;
        until.is_none_or(|until| Instant::now() < until).then_some(by)
    }

    /// Takes a zone down or brings it back: nothing can be launched there, and kubelets there fall silent.
    pub fn set_zone_down(&self, zone: &str, down: bool) {
        let mut state = self.lock();
        if down {
            state.zones_down.insert(zone.to_owned());
        } else {
            state.zones_down.remove(zone);
        }
    }

    pub fn zone_is_down(&self, zone: &str) -> bool {
        self.lock().zones_down.contains(zone)
    }

    /// The API server is down until then: it refuses everybody, and the cluster's own parts wait for it.
    pub fn take_down(&self, until: Instant) {
        let mut state = self.lock();
        state.down = Some(state.down.map_or(until, |other| other.max(until)));
    }

    /// Time until which the API server is down, if it is.
    pub fn down(&self) -> Option<Instant> {
        self.lock().down.filter(|until| Instant::now() < *until)
    }

    /// From now on changes reach watches so late, in their order; zero for at once.
    pub fn set_watches_late(&self, by: Duration) {
        self.lock().watches_late = by;
    }

    /// Delay with which changes reach watches.
    pub fn watches_late(&self) -> Duration {
        self.lock().watches_late
    }

    /// From now on marked objects come to replicas as nothing can read them ([`crate::spoilt`]).
    pub fn spoil(&self) {
        self.lock().spoils = true;
    }

    /// True if marked objects come to replicas as nothing can read them.
    pub fn spoils(&self) -> bool {
        self.lock().spoils
    }

    /// Draws how the time that a request to the API server takes falls on its way: most of it there, inside or back.
    pub fn way(&self, total: Duration) -> Way {
        let (there, inside) = match self.lock().ways.u8(..4) {
            0 | 1 => (0.8, 0.1),
            2 => (0.1, 0.8),
            _ => (0.1, 0.1),
        };
        Way::from_shares(total, there, inside)
    }

    pub fn verdict(&self, service: Service, replica: Option<u32>) -> RequestFate {
        let cut = self.partitioned(replica, service);
        let mut state = self.lock();
        let since = state.begun.map(|begun| begun.elapsed()).unwrap_or_default();
        let (latency, rates) = state.settings.rates(service, since);
        let down = service == Service::ApiServer && state.down.is_some_and(|until| Instant::now() < until);
        let outcome = match cut {
            None if down => RequestOutcome::Refused,
            Some(Direction::In) => RequestOutcome::SwallowAnswer,
            Some(Direction::Out | Direction::Both) => RequestOutcome::Unreachable,
            None => state.draw(service, rates),
        };
        RequestFate { latency, outcome }
    }

    /// True if EC2 is out of a type in a zone at a capacity type (`spot` or `on-demand`).
    pub fn sold_out(&self, instance_type: &str, zone: &str, capacity_type: &str) -> bool {
        let state = self.lock();
        let globs = &state.settings.ec2.insufficient_capacity;
        state.zones_down.contains(zone)
            || globs.iter().any(|glob| offering_matches(glob, instance_type, zone, capacity_type))
    }

    /// Globs of the nodes that kube-scheduler refuses for a pod.
    pub fn nodes_refused(&self, namespace: &str, pod: &str) -> Vec<String> {
        let state = self.lock();
        let parts = |glob: &String| {
            let mut parts = glob.splitn(3, '/').map(str::to_owned);
            Some((parts.next()?, parts.next()?, parts.next()?))
        };
        let all = state.settings.scheduler.refuses.iter().filter_map(parts);
        let ours = all.filter(|(_, of, name)| glob_matches(of, namespace) && glob_matches(name, pod));
        ours.map(|(node, _, _)| node).collect()
    }

    /// Spot price of a type in a zone at `after` since the beginning, as a multiple of the model's.
    pub fn spot_factor(&self, instance_type: &str, zone: &str, after: Duration) -> f64 {
        let state = self.lock();
        let ec2 = &state.settings.ec2;
        let rise = ec2.spot_rise.as_ref().map_or(1.0, |rise| rise.factor(instance_type, after));
        rise * ec2.spot_pool(instance_type, zone).map_or(1.0, |pool| pool.times)
    }

    /// Instances that the account may have of a type in a zone as spot at once, where that is bounded.
    pub fn spot_depth(&self, instance_type: &str, zone: &str) -> Option<u32> {
        self.lock().settings.ec2.spot_pool(instance_type, zone)?.depth
    }

    /// Depth of the deepest spot pool whose depth is bounded.
    pub fn deepest_spot_pool(&self) -> Option<u32> {
        self.lock().settings.ec2.spot_pools.values().filter_map(|pool| pool.depth).max()
    }

    /// Time that a call to EC2 takes beyond the usual.
    pub fn slowness_of(&self, action: &str) -> Duration {
        if action == "DescribeSpotPriceHistory" { self.lock().settings.ec2.slow_spot_history } else { Duration::ZERO }
    }

    /// Draws how long a change stays unseen by describes.
    pub fn consistency_lag(&self) -> Duration {
        let mut state = self.lock();
        let most = state.settings.ec2.consistency_lag;
        if most.is_zero() { Duration::ZERO } else { most.mul_f64(state.lag.f64()) }
    }

    /// Draws whether a message is delivered twice.
    pub fn duplicates_message(&self) -> bool {
        let mut state = self.lock();
        let rate = state.settings.sqs.duplicate_rate;
        rate > 0.0 && state.duplicate.f64() < rate
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn draw(&mut self, service: Service, [fail, throttle, lose]: Rates) -> RequestOutcome {
        let Some(generator) = self.draws.get_mut(&service) else { return RequestOutcome::Serve };
        // Drawn whether or not a rate is set, so that switching one fault on leaves the rest of a run's draws alone.
        let drawn = generator.f64();
        if drawn < fail {
            RequestOutcome::Fail
        } else if drawn < fail + throttle {
            RequestOutcome::Throttle
        } else if drawn < fail + throttle + lose {
            // The same draw says which way.
            match (drawn - fail - throttle) / lose {
                share if share < 0.5 => RequestOutcome::LoseAnswer,
                share if share < 0.625 => RequestOutcome::SwallowAnswer,
                share if share < 0.75 => RequestOutcome::Late,
                _ => RequestOutcome::Unreachable,
            }
        } else {
            RequestOutcome::Serve
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn spot_prices_rise_evenly_and_stay() {
        let faults = FaultsInForce::new(1);
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        assert_eq!(faults.spot_factor("m5.large", "a", hours(9)).to_bits(), 1.0_f64.to_bits());
        let rise = SpotRise { types: vec!["m5.*".into()], times: 2.0, within: hours(24) };
        faults.change(|s| s.ec2.spot_rise = Some(rise));
        let factors = [0, 6, 24, 48].map(|after| faults.spot_factor("m5.large", "a", hours(after)));
        assert_eq!(factors.map(f64::to_bits), [1.0, 1.25, 2.0, 2.0].map(f64::to_bits));
        assert_eq!(faults.spot_factor("c5.large", "a", hours(24)).to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn a_spot_pool_has_its_own_price_and_depth() {
        let faults = FaultsInForce::new(1);
        let pool = SpotPool { times: 1.5, depth: Some(4) };
        faults.change(|s| _ = s.ec2.spot_pools.insert("m5.large/us-east-1a".to_owned(), pool));
        let of =
            |name: &str, zone: &str| (faults.spot_factor(name, zone, Duration::ZERO), faults.spot_depth(name, zone));
        assert_eq!(of("m5.large", "us-east-1a"), (1.5, Some(4)));
        assert_eq!(of("m5.large", "us-east-1b"), (1.0, None));
        assert_eq!(of("m5.xlarge", "us-east-1a"), (1.0, None));
    }

    #[test]
    fn an_offering_is_sold_out_by_glob_or_with_its_zone() {
        let faults = FaultsInForce::new(1);
        faults.change(|s| s.ec2.insufficient_capacity = vec!["m5.*/us-east-1a/spot".into(), "c5.large".into()]);
        assert!(faults.sold_out("m5.large", "us-east-1a", "spot"));
        assert!(!faults.sold_out("m5.large", "us-east-1a", "on-demand"));
        assert!(faults.sold_out("c5.large", "us-east-1c", "on-demand"));
        faults.set_zone_down("us-east-1b", true);
        assert!(faults.sold_out("m5.large", "us-east-1b", "on-demand"));
        faults.set_zone_down("us-east-1b", false);
        assert!(!faults.sold_out("m5.large", "us-east-1b", "on-demand"));
    }

    #[test]
    fn the_scheduler_refuses_nodes_for_pods_by_glob() {
        let faults = FaultsInForce::new(1);
        faults.change(|s| s.scheduler.refuses = vec!["ip-1*/default/web-*".into(), "*/other/*".into()]);
        assert_eq!(faults.nodes_refused("default", "web-1"), ["ip-1*"]);
        assert_eq!(faults.nodes_refused("other", "x"), ["*"]);
        assert!(faults.nodes_refused("default", "db").is_empty());
    }

    #[test]
    fn a_partition_cuts_one_replica_from_one_service_until_it_heals() {
        let faults = FaultsInForce::new(1);
        faults.partition(0, &[Service::Ec2], Direction::In);
        assert_eq!(faults.verdict(Service::Ec2, Some(0)).outcome, RequestOutcome::SwallowAnswer);
        assert_eq!(faults.verdict(Service::Ec2, Some(1)).outcome, RequestOutcome::Serve);
        assert_eq!(faults.verdict(Service::ApiServer, Some(0)).outcome, RequestOutcome::Serve);
        faults.heal(0, &[Service::Ec2]);
        assert_eq!(faults.verdict(Service::Ec2, Some(0)).outcome, RequestOutcome::Serve);
    }

    #[test]
    fn rates_are_kept_over_many_requests_and_follow_the_seed() {
        let outcomes = |seed| {
            let faults = FaultsInForce::new(seed);
            faults.change(|s| (s.ec2.error_rate, s.ec2.throttle_rate, s.ec2.timeout_rate) = (0.1, 0.2, 0.05));
            (0..10_000).map(|_| faults.verdict(Service::Ec2, None).outcome).collect::<Vec<_>>()
        };
        let drawn = outcomes(7);
        let share = |outcome| drawn.iter().filter(|o| **o == outcome).count() as f64 / 10_000.0;
        assert!((share(RequestOutcome::Fail) - 0.1).abs() < 0.02);
        assert!((share(RequestOutcome::Throttle) - 0.2).abs() < 0.02);
        let unanswered = [
            RequestOutcome::LoseAnswer,
            RequestOutcome::SwallowAnswer,
            RequestOutcome::Late,
            RequestOutcome::Unreachable,
        ]
        .map(share);
        assert!((unanswered.iter().sum::<f64>() - 0.05).abs() < 0.02, "{unanswered:?}");
        assert!(unanswered.iter().all(|share| *share > 0.003), "carried out and not: {unanswered:?}");
        assert_eq!(drawn, outcomes(7));
        assert_ne!(drawn, outcomes(8));
    }

    #[test]
    fn fault_settings_read_durations_and_refuse_unknown_keys() {
        let read = |text: &str| serde_json::from_str::<FaultSettings>(text);
        let settings = read(r#"{"apiServer":{"latency":"50ms"},"ec2":{"errorRate":0.5}}"#).unwrap();
        assert_eq!(settings.api_server.latency, Duration::from_millis(50));
        assert!((settings.ec2.error_rate - 0.5).abs() < 1e-9);
        assert!(read(r#"{"ec3":{}}"#).is_err());
    }
}
