//! Checks of a scenario: every mistake in it is found before anything starts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dovetail_actors::Settings;
use dovetail_api::names::provider::Provider;
use dovetail_cloud::catalogue::RegionCatalogue;
use dovetail_cloud::shipped;
use dovetail_input::Mistake;
use dovetail_sandbox::cluster::NodesBeforehand;
use dovetail_sandbox::faults::{ApiServerFaults, Ec2Faults, FaultSettings, SchedulerFaults, glob_matches};
use dovetail_sandbox::region::{AccountCapacityReservation, AccountCommitments, AccountPlacementGroup};
use serde_saphyr::Spanned;

use super::account;
use super::beforehand::ZONES;
use super::steps::Timed;
use crate::scenario::{self, Scenario, duration, line};
use crate::world::{ClaimsDeleted, Skew};

/// Largest offset of a clock, and the largest drift in microseconds a second (a tenth).
const MOST_OFFSET: jiff::SignedDuration = jiff::SignedDuration::from_hours(1);
const MOST_DRIFT: i64 = 100_000;
/// The longest run: a year, and a day.
const MOST_UNTIL: Duration = Duration::from_secs(366 * 86_400);
/// Nodes beforehand, and instances of others, at most: twice what Kubernetes' largest clusters have.
pub(super) const MOST_NODES: u32 = 10_000;

/// A scenario that makes sense.
#[derive(Debug)]
pub struct Checked {
    /// Instance types, zones and prices of the region.
    pub catalogue: Option<Arc<RegionCatalogue>>,
    /// End of the run, since time 0.
    pub until: Duration,
    /// The end comes earlier when everything has been settled for so long.
    pub settled: Option<Duration>,
    /// Error of each replica's clock.
    pub clocks: Vec<Skew>,
    pub replicas: u32,
    /// Manifest files at time 0.
    pub apply: Vec<String>,
    /// Steps in order of time.
    pub steps: Vec<Timed>,
    /// Faults from the start.
    pub faults: FaultSettings,
    /// Globs of the names of pods for which packing panics.
    pub panics_for: Vec<String>,
    /// NodeClaims are deleted by somebody.
    pub claims_deleted: Option<ClaimsDeleted>,
    /// Settings by name, feature gates folded in.
    pub settings: BTreeMap<String, String>,
    pub reservations: Vec<AccountCapacityReservation>,
    pub placement_groups: Vec<AccountPlacementGroup>,
    pub commitments: AccountCommitments,
    /// Nodes beforehand, zones filled in.
    pub nodes: Vec<NodesBeforehand>,
}

/// Looks at everything; all mistakes come together.
pub fn check(path: &str, scenario: &Scenario) -> Result<Checked, Vec<Mistake>> {
    let cluster = scenario.cluster_name.value.as_str();
    // As its stack names it, unless the settings say otherwise.
    let queue = scenario.settings.get("INTERRUPTION_QUEUE").map_or(cluster, |name| name.value.as_str());
    let reservation_ids = scenario.capacity_reservations.iter().map(|one| one.id.value.clone()).collect();
    let mut checker = Checker { path, cluster, queue, replicas: 1, reservation_ids, mistakes: Vec::new() };
    checker.replicas = checker.count_replicas(scenario.replicas.as_ref());
    let catalogue = checker.catalogue(&scenario.region, &scenario.instance_types);
    let until = checker.until(scenario);
    let checked = Checked {
        catalogue: catalogue.clone(),
        until,
        settled: scenario.settled.as_ref().and_then(|text| checker.collect(duration(path, "settled", text))),
        clocks: scenario.clocks.iter().enumerate().filter_map(|(n, clock)| checker.clock(n, clock)).collect(),
        replicas: checker.replicas,
        apply: scenario.apply.iter().filter_map(|file| checker.file("apply", file)).collect(),
        steps: checker.steps(&scenario.steps, until, catalogue.as_deref()),
        faults: checker.faults(&scenario.faults, until, catalogue.as_deref()),
        panics_for: checker.pod_globs(&scenario.faults.packing.panics_for),
        claims_deleted: checker.claims_deleted(&scenario.faults.node_claims),
        settings: settings(scenario),
        reservations: scenario.capacity_reservations.iter().map(|one| account::reservation(path, one)).collect(),
        placement_groups: scenario.placement_groups.iter().map(account::placement_group).collect(),
        commitments: super::commitments::of_account(path, scenario),
        nodes: scenario.nodes.iter().map(super::beforehand::group).collect(),
    };
    if let Some(catalogue) = &catalogue {
        checker.reservations(&scenario.capacity_reservations, catalogue);
        checker.placement_groups(&scenario.placement_groups);
        checker.commitments(scenario, catalogue);
        checker.nodes(&scenario.nodes, catalogue);
    }
    checker.settings(scenario);
    checker.clocks(scenario);
    if checker.mistakes.is_empty() { Ok(checked) } else { Err(checker.mistakes) }
}

/// Settings by name; gates become Karpenter's `Name=true,…`.
fn settings(scenario: &Scenario) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> =
        scenario.settings.iter().map(|(name, value)| (name.clone(), value.value.clone())).collect();
    if !scenario.feature_gates.is_empty() {
        let gates = scenario.feature_gates.iter().map(|(name, on)| format!("{name}={}", on.value)).collect::<Vec<_>>();
        all.insert("FEATURE_GATES".to_owned(), gates.join(","));
    }
    all
}

/// Collects mistakes on its way through a scenario.
pub(super) struct Checker<'a> {
    pub(super) path: &'a str,
    /// The cluster's name, which its queue has too.
    pub(super) cluster: &'a str,
    /// Name of the queue that replicas read; empty where they read none.
    pub(super) queue: &'a str,
    pub(super) replicas: u32,
    /// Ids of the account's capacity reservations.
    pub(super) reservation_ids: Vec<String>,
    pub(super) mistakes: Vec<Mistake>,
}

impl Checker<'_> {
    pub(super) fn collect<T>(&mut self, result: Result<T, Mistake>) -> Option<T> {
        result.map_err(|mistake| self.mistakes.push(mistake)).ok()
    }

    pub(super) fn mistake<T>(
        &mut self,
        field: impl Into<String>,
        at: &Spanned<T>,
        what: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.mistakes.push(Mistake {
            file: self.path.to_owned(),
            line: line(at),
            field: field.into(),
            what: what.into(),
            allowed: allowed.into(),
        });
    }

    /// The end: later than the beginning, and not beyond a year.
    fn until(&mut self, scenario: &Scenario) -> Duration {
        let Some(until) = self.collect(scenario.until(self.path)) else { return Duration::MAX };
        if let Some(text) = scenario.until.as_ref().filter(|_| until.is_zero() || until > MOST_UNTIL) {
            let what = format!("{:?} is no length of a run", text.value);
            self.mistake("until", text, what, "more than 0, 8784h at most (a year)");
        }
        until
    }

    /// A clock is a replica's.
    fn clocks(&mut self, scenario: &Scenario) {
        let replicas = usize::try_from(self.replicas).unwrap_or(usize::MAX);
        if scenario.clocks.len() > replicas {
            let what = format!("{} clocks for {replicas} replica(s)", scenario.clocks.len());
            let mistake = Mistake { field: "clocks".to_owned(), ..Mistake::of_file(self.path, what) };
            self.mistakes.push(mistake.allowing("one a replica at most"));
        }
    }

    fn clock(&mut self, number: usize, clock: &scenario::WrongClock) -> Option<Skew> {
        let field = format!("clocks[{number}]");
        let offset = match &clock.offset {
            None => jiff::SignedDuration::ZERO,
            Some(text) => match text.value.parse::<jiff::SignedDuration>() {
                Ok(offset) if offset.abs() <= MOST_OFFSET => offset,
                _ => {
                    let what = format!("{:?} is no offset", text.value);
                    self.mistake(format!("{field}.offset"), text, what, "a duration from -1h to 1h, as -3s");
                    return None;
                }
            },
        };
        let drift_ppm = match &clock.drift {
            Some(drift) if drift.value.abs() > MOST_DRIFT => {
                let what = format!("{} microseconds a second", drift.value);
                self.mistake(format!("{field}.drift"), drift, what, format!("-{MOST_DRIFT} to {MOST_DRIFT}"));
                return None;
            }
            drift => drift.as_ref().map_or(0, |drift| drift.value),
        };
        let jumps =
            clock.jumps.iter().enumerate().filter_map(|(at, jump)| self.jump(&format!("{field}.jumps[{at}]"), jump));
        Some(Skew { offset, drift_ppm, jumps: jumps.collect() })
    }

    /// The time at which a clock is set anew, and by how much.
    fn jump(&mut self, field: &str, jump: &scenario::ClockJump) -> Option<(Duration, jiff::SignedDuration)> {
        let at = self.collect(duration(self.path, &format!("{field}.at"), &jump.at))?;
        match jump.by.value.parse::<jiff::SignedDuration>() {
            Ok(by) if by.abs() <= MOST_OFFSET => Some((at, by)),
            _ => {
                let what = format!("{:?} is no offset", jump.by.value);
                self.mistake(format!("{field}.by"), &jump.by, what, "a duration from -1h to 1h, as -3s");
                None
            }
        }
    }

    fn claims_deleted(&mut self, written: &scenario::faults::ScenarioClaimFaults) -> Option<ClaimsDeleted> {
        let lasts = written.lasts.as_ref();
        let lasts = lasts.and_then(|text| self.collect(duration(self.path, "faults.nodeClaims.for", text)));
        let after = written.deleted_after.as_ref()?;
        let after = self.collect(duration(self.path, "faults.nodeClaims.deletedAfter", after))?;
        Some(ClaimsDeleted { after, lasts })
    }

    fn catalogue(&mut self, region: &Spanned<String>, offers: &[Spanned<String>]) -> Option<Arc<RegionCatalogue>> {
        if !shipped::regions().any(|known| known == region.value) {
            self.mistake(
                "region",
                region,
                format!("unknown region {:?}", region.value),
                shipped::regions().collect::<Vec<_>>().join(", "),
            );
            return None;
        }
        let catalogue = shipped::catalogue_once(&region.value);
        for (number, glob) in offers.iter().enumerate() {
            if !catalogue.types.iter().any(|known| glob_matches(&glob.value, &known.name)) {
                let what = format!("{:?} is none of {}'s", glob.value, region.value);
                self.mistake(format!("instanceTypes[{number}]"), glob, what, nearest(&glob.value, &catalogue));
            }
        }
        if offers.is_empty() {
            return Some(catalogue);
        }
        Some(Arc::new(catalogue.narrowed(|name| offers.iter().any(|glob| glob_matches(&glob.value, name)))))
    }

    fn count_replicas(&mut self, replicas: Option<&Spanned<u32>>) -> u32 {
        match replicas {
            Some(number) if !(1..=5).contains(&number.value) => {
                self.mistake("replicas", number, format!("{} replicas", number.value), "1 to 5");
                1
            }
            Some(number) => number.value,
            None => 1,
        }
    }

    /// A manifest file's path as the process sees it; it has to be there now.
    pub(super) fn file(&mut self, field: &str, file: &Spanned<String>) -> Option<String> {
        let path = Scenario::resolve(self.path, &file.value);
        if path.is_file() || path.is_dir() {
            return path.to_str().map(str::to_owned);
        }
        let what = format!("no such file: {}", path.display());
        self.mistake(field, file, what, "a manifest file or a folder of them, its path relative to the scenario's");
        None
    }

    pub(super) fn zone(&mut self, field: &str, zone: &Spanned<String>, catalogue: &RegionCatalogue) {
        if catalogue.zones.iter().any(|known| known.name == zone.value) {
            return;
        }
        let names: Vec<&str> = catalogue.zones.iter().map(|known| known.name.as_str()).collect();
        self.mistake(field, zone, format!("unknown zone {:?}", zone.value), names.join(", "));
    }

    /// A zone of the region in which the cluster has a subnet.
    pub(super) fn zone_of_cluster(&mut self, field: &str, zone: &Spanned<String>, catalogue: &RegionCatalogue) {
        let known: Vec<String> = catalogue.first_zones(ZONES).into_iter().map(|zone| zone.name).collect();
        if known.contains(&zone.value) {
            return;
        }
        let there = catalogue.zones.iter().any(|known| known.name == zone.value);
        let what = if there { "has no subnet of the cluster" } else { "is no zone of the region" };
        self.mistake(field, zone, format!("{:?} {what}", zone.value), known.join(", "));
    }

    fn settings(&mut self, scenario: &Scenario) {
        self.names_of_settings(scenario);
        for (name, value) in &scenario.settings {
            let one = BTreeMap::from([(name.clone(), value.value.clone())]);
            for error in Settings::from_map(&one).err().into_iter().flatten() {
                self.mistake(format!("settings.{name}"), value, error.what, error.allowed);
            }
            if name == "PROVIDER" && value.value == Provider::Kwok.name() {
                let what = "\"kwok\" has no region, which a simulation is of".to_owned();
                self.mistake("settings.PROVIDER", value, what, Provider::Ec2.name());
            }
        }
    }

    fn faults(
        &mut self,
        faults: &scenario::Faults,
        until: Duration,
        catalogue: Option<&RegionCatalogue>,
    ) -> FaultSettings {
        let (api, ec2) = (&faults.api_server, &faults.ec2);
        FaultSettings {
            api_server: ApiServerFaults {
                error_rate: self.rate("faults.apiServer.errorRate", api.error_rate.as_ref()),
                throttle_rate: self.rate("faults.apiServer.throttleRate", api.throttle_rate.as_ref()),
                timeout_rate: self.rate("faults.apiServer.timeoutRate", api.timeout_rate.as_ref()),
                latency: self.span("faults.apiServer.latency", api.latency.as_ref()),
            },
            ec2: Ec2Faults {
                error_rate: self.rate("faults.ec2.errorRate", ec2.error_rate.as_ref()),
                throttle_rate: self.rate("faults.ec2.throttleRate", ec2.throttle_rate.as_ref()),
                throttle_for: self.throttle_for(ec2),
                timeout_rate: self.rate("faults.ec2.timeoutRate", ec2.timeout_rate.as_ref()),
                consistency_lag: self.span("faults.ec2.consistencyLag", ec2.consistency_lag.as_ref()),
                insufficient_capacity: self.offerings(&ec2.insufficient_capacity, catalogue),
                slow_spot_history: self.span("faults.ec2.slowSpotHistory", ec2.slow_spot_history.as_ref()),
                spot_rise: ec2.spot_rise.as_ref().map(|rise| self.spot_rise(rise, catalogue)),
                spot_pools: self.spot_pools(&ec2.spot_pools, catalogue),
                ..self.account_faults(ec2, catalogue)
            },
            sqs: self.queue_faults(&faults.sqs, until),
            scheduler: SchedulerFaults { refuses: self.places(&faults.scheduler.refuses) },
            nodes: self.node_faults(&faults.nodes, catalogue),
        }
    }

    /// A time that is none where it is not said.
    pub(super) fn span(&mut self, field: &str, text: Option<&Spanned<String>>) -> Duration {
        text.and_then(|text| self.collect(duration(self.path, field, text))).unwrap_or_default()
    }

    pub(super) fn rate(&mut self, field: &str, rate: Option<&Spanned<f64>>) -> f64 {
        let Some(rate) = rate else { return 0.0 };
        if (0.0..=1.0).contains(&rate.value) {
            return rate.value;
        }
        self.mistake(field, rate, format!("{} is no share", rate.value), "0 to 1");
        0.0
    }

    fn pod_globs(&mut self, globs: &[Spanned<String>]) -> Vec<String> {
        for glob in globs.iter().filter(|glob| glob.value.trim().is_empty()) {
            self.mistake("faults.packing.panicsFor", glob, "is empty", "globs of pods' names, such as broken-*");
        }
        globs.iter().map(|glob| glob.value.clone()).collect()
    }

    fn places(&mut self, globs: &[Spanned<String>]) -> Vec<String> {
        for glob in globs.iter().filter(|glob| glob.value.split('/').count() != 3) {
            let what = format!("{:?} is no node/namespace/pod", glob.value);
            self.mistake("faults.scheduler.refuses", glob, what, "three globs, such as ip-10-0-*/default/web-*");
        }
        globs.iter().map(|glob| glob.value.clone()).collect()
    }
}

/// A few types that share a family or a beginning with what was written.
pub(super) fn nearest(name: &str, catalogue: &RegionCatalogue) -> String {
    let family = name.split('.').next().unwrap_or(name);
    let names = catalogue.types.iter().map(|known| known.name.as_str());
    let all = names.clone();
    let mut near: Vec<&str> = names.clone().filter(|known| known.split('.').next() == Some(family)).take(8).collect();
    if near.is_empty() {
        near = names.filter(|known| known.starts_with(family.get(..1).unwrap_or("m"))).take(8).collect();
    }
    if near.is_empty() {
        near = all.take(8).collect();
    }
    format!("an EC2 type of the region, such as {}", near.join(", "))
}
