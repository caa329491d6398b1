//! Offerings that EC2 lately could not give, and the time until when that is believed (karpenter-aws 3.6). Pure: time is handed
//! in.
//!
//! A refusal is believed for [`TTL`] at first. What is refused again after that time is believed refused for twice as long
//! as before, up to [`LONGEST`]; a launch that succeeds takes one doubling off. Pods that nothing else is left for may ask
//! again [`TTL`] after the last refusal, however long it is believed ([`UnavailableOfferings::as_last_resort`]): what is
//! there again is found within minutes by those who have to have it, and not asked for by those who have a choice.

mod kept;
mod quota;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dovetail_core::pause::DoublingPause;
use dovetail_core::zonal_shift::ShiftedZones;
use jiff::SignedDuration;
pub use quota::QuotaGroup;

use crate::launch::refusal::NO_CAPACITY;

/// The reason for which nothing in a zone can be had that the cluster is shifted away from.
pub const SHIFTED_AWAY: &str = "the cluster is shifted away from the zone (zonal shift)";

/// Time for which the first refusal is believed.
pub const TTL: Duration = Duration::from_secs(180);
/// The longest that a refusal is believed: [`TTL`] doubled four times.
pub const LONGEST: Duration = Duration::from_secs(48 * 60);
/// Time after which a refusal that has run out, without another, is forgotten: the next refusal of it is a first one.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// Most refusals that are remembered: more than a region has offerings.
const MOST: usize = 20_000;

/// One offering that EC2 refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfferingKey {
    /// `spot`, `on-demand`, `reserved`.
    pub capacity_type: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone name.
    pub zone: String,
}

/// Scope that a refusal covers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalScope {
    /// One offering.
    Offering(OfferingKey),
    /// All types of a family group at a capacity type, in the whole region: a quota is used up.
    Quota {
        /// `spot` or `on-demand`.
        capacity_type: String,
        /// The families that share the quota.
        group: QuotaGroup,
    },
    /// A capacity type in the whole region.
    CapacityType(String),
    /// A subnet without free addresses, by its id.
    Subnet(String),
}

/// A moment on the monotonic clock: before its beginning, too, as a predecessor's refusals may be older than the process.
type ClockMoment = SignedDuration;

/// Number of refusals in a row, time of the last, and the time until when it is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    refusals: u32,
    last: ClockMoment,
    until: ClockMoment,
}

impl Mark {
    /// Time until which it counts as lately refused: not even a last resort asks for it.
    fn fresh_until(&self) -> ClockMoment {
        self.last.saturating_add(moment(TTL))
    }

    fn is_fresh(&self, now: ClockMoment) -> bool {
        now < self.fresh_until()
    }

    fn is_believed(&self, now: ClockMoment) -> bool {
        now < self.until
    }

    /// Time until which another refusal is one more of a row.
    fn remembered_until(&self) -> ClockMoment {
        self.until.max(self.fresh_until()).saturating_add(moment(REMEMBERED))
    }
}

/// A reading of the monotonic clock as a moment.
fn moment(since: Duration) -> ClockMoment {
    SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX)
}

/// Time for which the refusal of this number in a row is believed.
fn believed_for(refusals: u32) -> Duration {
    DoublingPause { first: TTL, longest: LONGEST }.length_of_nth(refusals)
}

/// Refusals by what they cover.
#[derive(Debug, Clone, Default)]
pub struct UnavailableOfferings {
    marks: BTreeMap<RefusalScope, Mark>,
    /// Causes for which nothing of a capacity type could be had when that was last marked.
    causes: BTreeMap<String, &'static str>,
    version: u64,
    /// Number of times that a refusal or a launch has changed what is remembered.
    changes: u64,
    /// Number of refusals that were believed at the last look.
    believed: usize,
    /// Time of the last look.
    looked: Duration,
    /// Something may be asked for again, and nobody has been told.
    freed: bool,
    shifted: ShiftedZones,
}

/// Unavailable offerings at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unavailable {
    /// By instance type: capacity type and zone.
    offerings: BTreeMap<String, Vec<(String, String)>>,
    quotas: BTreeSet<(String, QuotaGroup)>,
    /// With the cause.
    capacity_types: BTreeMap<String, &'static str>,
    subnets: BTreeSet<String>,
    shifted: ShiftedZones,
}

impl UnavailableOfferings {
    /// The cluster is shifted away from these zones, and from no others: nothing in them can be had, not as a last resort either.
    pub fn shift_zones(&mut self, zones: ShiftedZones) {
        self.freed |= self.shifted.iter().any(|(id, _)| zones.of_zone(id).is_none());
        self.version += 1;
        self.shifted = zones;
    }

    /// EC2 refused this type in this zone at this capacity type.
    pub fn mark(&mut self, now: Duration, key: OfferingKey) {
        self.mark_scope(now, RefusalScope::Offering(key));
    }

    /// Nothing of this capacity type can be had (spot's service-linked role may not be made), for this cause.
    pub fn mark_capacity_type(&mut self, now: Duration, capacity_type: &str, cause: &'static str) {
        self.causes.insert(capacity_type.to_owned(), cause);
        self.mark_scope(now, RefusalScope::CapacityType(capacity_type.to_owned()));
    }

    /// The quota of a family group at a capacity type is used up.
    pub fn mark_quota(&mut self, now: Duration, capacity_type: &str, group: QuotaGroup) {
        self.mark_scope(now, RefusalScope::Quota { capacity_type: capacity_type.to_owned(), group });
    }

    /// The subnet has no free address left.
    pub fn mark_subnet(&mut self, now: Duration, subnet: &str) {
        self.mark_scope(now, RefusalScope::Subnet(subnet.to_owned()));
    }

    /// Refusals within [`TTL`] of the last one are of launches that were under way: they start its time again. A later one
    /// is another, and doubles it.
    fn mark_scope(&mut self, now: Duration, scope: RefusalScope) {
        let now = moment(now);
        self.version += 1;
        self.changes += 1;
        let before = self.marks.get(&scope).copied();
        let refusals = match before {
            Some(mark) if mark.is_fresh(now) => mark.refusals,
            Some(mark) => mark.refusals.saturating_add(1),
            None => 1,
        };
        let until = now.saturating_add(moment(believed_for(refusals)));
        self.marks.insert(scope, Mark { refusals, last: now, until });
        self.forget_beyond_most();
    }

    /// Forgets the oldest refusals beyond the most that are remembered.
    fn forget_beyond_most(&mut self) {
        while self.marks.len() > MOST {
            let oldest = self.marks.iter().min_by_key(|(_, mark)| mark.last).map(|(scope, _)| scope.clone());
            let Some(oldest) = oldest else { return };
            self.marks.remove(&oldest);
        }
    }

    /// An instance of this offering was launched: what was believed of it, of its quota, capacity type and subnet is over, and
    /// the next refusal is believed for half as long. A launch that was under way when EC2 refused another says nothing.
    /// Answers whether anything changed.
    pub fn launched(&mut self, now: Duration, key: &OfferingKey, subnet: &str) -> bool {
        let quota = RefusalScope::Quota {
            capacity_type: key.capacity_type.clone(),
            group: QuotaGroup::from_instance_type(&key.instance_type),
        };
        let capacity_type = RefusalScope::CapacityType(key.capacity_type.clone());
        let scopes =
            [RefusalScope::Offering(key.clone()), quota, capacity_type, RefusalScope::Subnet(subnet.to_owned())];
        let (mut changed, now) = (false, moment(now));
        for scope in scopes {
            let Some(mark) = self.marks.get_mut(&scope).filter(|mark| !mark.is_fresh(now)) else { continue };
            changed = true;
            mark.refusals -= 1;
            mark.until = mark.until.min(now);
            if mark.refusals == 0 {
                self.marks.remove(&scope);
            }
        }
        self.version += u64::from(changed);
        self.changes += u64::from(changed);
        changed
    }

    /// Looks what has run out, and forgets what has long ago.
    pub fn forget_expired(&mut self, now: Duration) {
        let (since, now) = (moment(std::mem::replace(&mut self.looked, now)), moment(now));
        let ran_out = |end: ClockMoment| since < end && end <= now;
        if self.marks.values().any(|mark| ran_out(mark.until) || ran_out(mark.fresh_until())) {
            self.freed = true;
            self.version += 1;
        }
        self.marks.retain(|_, mark| now < mark.remembered_until());
        self.believed = self.marks.values().filter(|mark| mark.is_believed(now)).count();
    }

    /// The same; says whether anything may be asked for again that could not be when this was called last. To be called every
    /// ten seconds or so.
    pub fn expire(&mut self, now: Duration) -> bool {
        self.forget_expired(now);
        std::mem::take(&mut self.freed)
    }

    /// Raised by every change: what was derived under another version is stale.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Number of times that a refusal or a launch has changed what is remembered; not raised by time.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// True if anything may be asked for as a last resort that may not be asked for otherwise.
    pub fn has_last_resort(&self, now: Duration) -> bool {
        let now = moment(now);
        self.marks.values().any(|mark| mark.is_believed(now) && !mark.is_fresh(now))
    }

    /// Number of refusals that were believed at the last look.
    pub fn len(&self) -> usize {
        self.believed
    }

    /// None was believed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The refusals that still count at `now`.
    pub fn as_of(&self, now: Duration) -> Unavailable {
        self.those(|mark| mark.is_believed(moment(now)))
    }

    /// Those of the last [`TTL`] alone, for pods that nothing else is left for.
    pub fn as_last_resort(&self, now: Duration) -> Unavailable {
        self.those(|mark| mark.is_fresh(moment(now)))
    }

    /// The cause of a refusal that another process was told.
    pub(crate) const CAUSE_OF_ANOTHER: &str = "EC2 refuses all of this capacity type";

    fn those(&self, counts: impl Fn(&Mark) -> bool) -> Unavailable {
        let mut found = Unavailable { shifted: self.shifted.clone(), ..Unavailable::default() };
        for (scope, _) in self.marks.iter().filter(|(_, mark)| counts(mark)) {
            match scope.clone() {
                RefusalScope::Offering(OfferingKey { capacity_type, instance_type, zone }) => {
                    found.offerings.entry(instance_type).or_default().push((capacity_type, zone));
                }
                RefusalScope::Quota { capacity_type, group } => drop(found.quotas.insert((capacity_type, group))),
                RefusalScope::CapacityType(name) => {
                    let cause = self.causes.get(&name).copied().unwrap_or(Self::CAUSE_OF_ANOTHER);
                    found.capacity_types.insert(name, cause);
                }
                RefusalScope::Subnet(id) => drop(found.subnets.insert(id)),
            }
        }
        found
    }
}

impl Unavailable {
    /// True if the offering itself, its quota or its capacity type was refused.
    pub fn refused(&self, instance_type: &str, zone: &str, capacity_type: &str) -> bool {
        self.why(instance_type, zone, capacity_type).is_some()
    }

    /// The reason for which the offering cannot be had: its zone is shifted away from, or it itself, its quota or its capacity type
    /// was refused.
    pub fn why(&self, instance_type: &str, zone: &str, capacity_type: &str) -> Option<&'static str> {
        if self.shifted.of_zone(zone).is_some() {
            return Some(SHIFTED_AWAY);
        }
        if let Some(cause) = self.capacity_types.get(capacity_type) {
            return Some(cause);
        }
        if !self.quotas.is_empty() {
            let group = QuotaGroup::from_instance_type(instance_type);
            if self.quotas.contains(&(capacity_type.to_owned(), group)) {
                return Some(group.used_up(capacity_type));
            }
        }
        let offerings = self.offerings.get(instance_type).map(Vec::as_slice).unwrap_or_default();
        let refused = offerings.iter().any(|(bought, there)| bought == capacity_type && there == zone);
        refused.then_some(NO_CAPACITY)
    }

    /// False if nothing is refused that could be an offering of this type.
    pub fn may_concern(&self, instance_type: &str) -> bool {
        let wide = !self.quotas.is_empty() || !self.capacity_types.is_empty() || !self.subnets.is_empty();
        let wide = wide || !self.shifted.is_empty();
        wide || self.offerings.contains_key(instance_type)
    }

    /// True if all of these subnets are full: only then is their zone blocked.
    pub fn all_full<'a>(&self, mut subnets: impl Iterator<Item = &'a str>) -> bool {
        let mut any = false;
        let full = subnets.all(|s| {
            any = true;
            self.subnets.contains(s)
        });
        any && full
    }

    /// The subnets without a free address.
    pub fn full_subnets(&self) -> &BTreeSet<String> {
        &self.subnets
    }
}
