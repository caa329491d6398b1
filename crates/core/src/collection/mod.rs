//! Orphaned objects, and their careful collection (core spec 4, "Garbage collection").
//!
//! A pass looks at everything: the cloud first, then the claims, so that an instance whose claim was made meanwhile is never
//! taken for an orphan. The findings of a pass are judged here; `janitor` lists, ends and reports.
//!
//! ```text
//! instance without a claim ──seen again, 2 min apart, older than its grace──► due ──within the bound──► ended
//! claim without its instance, Node not ready ──────seen again────────────────► due ──within the bound──► removed
//!                                  └─ the cloud says that the instance has ended: a fact ──────────────► removed
//! ```
//!
//! Invariants: GC-1 nothing is collected on one sighting, nor younger than its grace; GC-2 never more than
//! max(5, 5 %) of the cluster in any ten minutes; a pass that would need more collects nothing, and neither do later
//! ones until an operator releases the brake or nothing is left to be collected; what a term's first two looks show to
//! have ended counts from when it ended, whoever ended it, as an earlier leader may have collected it; GC-3 what another
//! cluster made, or nobody knows who, is never collected; GC-4 an empty answer after a full one is suspect, and what was
//! seen as an orphan in a suspect listing is held.

mod bound;
mod class_orphans;
mod release;
mod survey;
mod suspicion;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bound::RecentCollections;
pub use bound::{WINDOW, bound};
pub use class_orphans::{ClassOrphans, MadeThing};
pub use release::is_released;
pub use survey::{InstanceOwner, SeenClaim, SeenInstance, SeenNode, Survey};
use suspicion::Suspicion;

use crate::clock::CLOCKS_APART;

/// Minimum age of an instance that is collected.
pub const GRACE: Duration = Duration::from_secs(120);
/// Minimum time between the first and the last sighting.
pub const APART: Duration = Duration::from_secs(120);
/// Number of a term's first listings that also show ended instances: the last calls of an earlier leader may be done, or be
/// shown, only after the first. Nothing is collected before the second.
const LOOKS_BACK: u8 = 2;

/// The result of a pass: removals and notices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectionVerdict {
    /// Instances to be ended, by id.
    pub terminate: Vec<String>,
    /// Claims to be removed, by name and uid.
    pub remove: Vec<(String, String)>,
    /// Notices that are due, as long as they hold.
    pub notices: Vec<CollectionNotice>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectionNotice {
    /// More is to be collected at once than the bound allows: nothing is collected.
    Braked {
        due: usize,
        /// Number of subjects that may be collected at once.
        bound: usize,
    },
    /// The cloud knows no instance any more, though claims have some.
    CloudSuspect {
        /// Claims that have an instance.
        claims: usize,
    },
    /// The API server has lost claims: instances, or registered Nodes, are there without them.
    ClaimsSuspect {
        /// Instances without a claim.
        instances: usize,
    },
    /// Orphans of a suspect listing, which are not collected though the listing is whole again.
    Held {
        /// Orphans that are kept.
        instances: usize,
    },
    /// Instances under this cluster's name that another cluster made.
    Foreign {
        /// Instances with another cluster's UID.
        instances: usize,
    },
    /// Instances without a claim that do not say which cluster made them.
    Unmarked {
        /// Instances without a cluster's UID.
        instances: usize,
    },
    /// An operator has released the brakes.
    Released,
}

/// An object that may be collected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Subject {
    Instance(String),
    /// A claim, by name and uid.
    Claim(String, String),
}

/// Memory of earlier passes. One for each term: a new leader starts anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Collector {
    /// Time since which each subject has been an orphan in every listing that is believed.
    sightings: BTreeMap<Subject, Duration>,
    window: RecentCollections,
    suspicion: Suspicion,
    braked: bool,
    /// Number of believed listings that show something, up to `LOOKS_BACK`.
    believed: u8,
}

impl Collector {
    /// A collector that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A claim is on its way out: that it is gone at the next listing is no surprise.
    pub fn leaves(&mut self, uid: &str) {
        self.suspicion.leaves(uid);
    }

    /// The cloud has accepted the end of an instance, maybe long after the decision: the bound counts from this time.
    pub fn ended(&mut self, id: &str, at: Duration) {
        self.window.put_off(Subject::Instance(id.to_owned()), at);
    }

    /// True if nothing is collected until an operator says so.
    #[must_use]
    pub fn braked(&self) -> bool {
        self.braked
    }

    /// True if the next listing has to show instances that ended of late too: an earlier leader may have collected them.
    #[must_use]
    pub fn looks_back(&self) -> bool {
        self.believed < LOOKS_BACK
    }

    /// Number of collections in the last ten minutes.
    #[must_use]
    pub fn recent(&self) -> usize {
        self.window.len()
    }

    /// Judges the findings of a pass.
    pub fn pass(&mut self, survey: &Survey) -> CollectionVerdict {
        let mut verdict = CollectionVerdict::default();
        let orphans = survey.orphans();
        say_strangers(survey, &mut verdict.notices);
        if survey.released {
            verdict.notices.push(CollectionNotice::Released);
        }
        let doubts = self.suspicion.doubts(survey, &orphans);
        if !doubts.is_empty() {
            verdict.notices.extend(doubts);
            self.sightings.clear();
            return verdict;
        }
        // A listing that shows nothing at all may be wrong though no claim speaks against it, and there is nothing to collect.
        if self.looks_back() && !survey.instances.is_empty() {
            self.believed += 1;
            self.take_over(survey);
        }
        let subjects = self.subjects(survey, &orphans, &mut verdict.notices);
        self.sightings.retain(|subject, _| subjects.contains(subject));
        for subject in subjects {
            self.sightings.entry(subject).or_insert(survey.at);
        }
        verdict.remove = survey.ended_claims();
        self.collect(survey, &mut verdict);
        verdict
    }

    /// Counts the collections of an earlier leader, which nobody remembers: the cloud still lists for an hour the instances
    /// that have ended. Each counts as collected when it ended, so that a change of leaders never widens the bound. Those
    /// with a claim count too: a backup of the API server brings back the claims of instances that were collected since. The
    /// time since the end is as exact as our clock and the cloud's agree.
    fn take_over(&mut self, survey: &Survey) {
        let at_least = survey.ended.iter().map(|(id, ago)| (id, ago.saturating_sub(CLOCKS_APART)));
        for (id, ago) in at_least.filter(|(_, ago)| *ago < WINDOW) {
            self.window.add(Subject::Instance(id.clone()), survey.at.saturating_sub(ago));
        }
    }

    /// Subjects to collect once they have been seen for long enough.
    fn subjects(
        &self,
        survey: &Survey,
        orphans: &[&SeenInstance],
        notices: &mut Vec<CollectionNotice>,
    ) -> BTreeSet<Subject> {
        let held = orphans.iter().filter(|one| self.suspicion.holds(&one.id)).count();
        if held > 0 {
            notices.push(CollectionNotice::Held { instances: held });
        }
        let instances = orphans.iter().filter(|one| !self.suspicion.holds(&one.id));
        let instances = instances.map(|one| Subject::Instance(one.id.clone()));
        let claims = survey.bereft_claims().map(|one| Subject::Claim(one.name.clone(), one.uid.clone()));
        instances.chain(claims).collect()
    }

    fn collect(&mut self, survey: &Survey, verdict: &mut CollectionVerdict) {
        self.window.forget(survey.at);
        let seen_long = |since: &Duration| survey.at.saturating_sub(*since) >= APART;
        let ripe = |subject: &Subject| match subject {
            Subject::Instance(id) => survey.age(id).is_some_and(|age| age >= GRACE),
            Subject::Claim(..) => true,
        };
        let due: Vec<Subject> = self
            .sightings
            .iter()
            .filter(|(subject, since)| seen_long(since) && ripe(subject))
            .map(|(subject, _)| subject.clone())
            .collect();
        let bound = bound(survey.size());
        // Subjects that were collected before and are still there are ended again, and count once.
        let fresh = due.iter().filter(|subject| !self.window.has(subject)).count();
        self.braked = !survey.released && fresh > 0 && (self.braked || fresh > bound);
        if self.braked {
            verdict.notices.push(CollectionNotice::Braked { due: fresh, bound });
            return;
        }
        for subject in due {
            let room = survey.released || self.window.has(&subject) || self.window.len() < bound;
            if !room {
                continue;
            }
            self.window.add(subject.clone(), survey.at);
            match subject {
                Subject::Instance(id) => verdict.terminate.push(id),
                Subject::Claim(name, uid) => verdict.remove.push((name, uid)),
            }
        }
    }
}

fn say_strangers(survey: &Survey, notices: &mut Vec<CollectionNotice>) {
    let foreign = survey.instances.iter().filter(|one| one.owner == InstanceOwner::Foreign).count();
    if foreign > 0 {
        notices.push(CollectionNotice::Foreign { instances: foreign });
    }
    let unmarked = survey.without_claim().filter(|one| one.owner == InstanceOwner::Unmarked).count();
    if unmarked > 0 {
        notices.push(CollectionNotice::Unmarked { instances: unmarked });
    }
}
