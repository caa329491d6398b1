//! Refusals by kube-scheduler that are counted together: those of one place (`refused_places`), or of all the places that were
//! tried for pods that are alike (`verdicts`). Two of them count for a time, which doubles whenever it begins anew.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::pause::DoublingPause;
use crate::pod::Pod;
use crate::resources::Resources;

/// Time for which refusals count.
const TIME_OUT: DoublingPause =
    DoublingPause { first: Duration::from_secs(600), longest: Duration::from_secs(6 * 3600) };
/// Points of a refusal: `HEARD` if kube-scheduler was heard of meanwhile, `SILENT` if not.
const HEARD: u32 = 3;
const SILENT: u32 = 1;
/// Points that are enough: two refusals.
const OUT: u32 = 2 * HEARD;

/// Properties that similar pods have in common: pods that differ in these need no closer comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Like {
    namespace: String,
    requests: Resources,
}

/// Refusals that are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusals {
    points: u32,
    /// Number of times that there were enough.
    times: u32,
    /// Time of the last one. Monotonic.
    last: Duration,
    /// End of the time for which they count. Monotonic.
    until: Duration,
    /// Properties common to the pods that cost little to compare.
    pods_are: Like,
    /// The pods, by uid, that were refused.
    pods: BTreeSet<String>,
    /// kube-scheduler's message.
    words: String,
}

impl Refusals {
    /// None yet, for pods like this one.
    pub fn of_pods_like(pod: &Pod) -> Self {
        Self {
            points: 0,
            times: 0,
            last: Duration::ZERO,
            until: Duration::ZERO,
            pods_are: Like { namespace: pod.namespace.clone(), requests: pod.requests.clone() },
            pods: BTreeSet::new(),
            words: String::new(),
        }
    }

    /// Notes one of a pod, in kube-scheduler's words.
    pub fn note(&mut self, uid: &str, words: &str, now: Duration) {
        self.pods.insert(uid.to_owned());
        words.clone_into(&mut self.words);
        self.last = now;
    }

    /// Adds what one counts for; true if they are enough now.
    pub fn add(&mut self, heard: bool) -> bool {
        self.points += if heard { HEARD } else { SILENT };
        self.points >= OUT
    }

    /// Begins the time for which they count.
    pub fn begin(&mut self, now: Duration) {
        self.points = 0;
        self.times = self.times.saturating_add(1);
        self.until = now + self.length();
    }

    /// Forgets the points: the next one is the first again.
    pub fn clear_points(&mut self) {
        self.points = 0;
    }

    /// True if they count now.
    pub fn hold(&self, now: Duration) -> bool {
        now < self.until
    }

    /// True if they have counted at some time.
    pub fn have_held(&self) -> bool {
        self.times > 0
    }

    /// True if they are old enough to be forgotten.
    pub fn are_over(&self, now: Duration) -> bool {
        now >= self.until.max(self.last) + self.length()
    }

    /// Time of the last one.
    pub fn last(&self) -> Duration {
        self.last
    }

    /// True if they may be about such a pod, by what costs little to compare.
    pub fn may_concern(&self, pod: &Pod) -> bool {
        self.pods_are.namespace == pod.namespace && self.pods_are.requests == pod.requests
    }

    /// True if this pod was refused.
    pub fn has_pod(&self, uid: &str) -> bool {
        self.pods.contains(uid)
    }

    /// Forgets a pod; true if it was the only one.
    pub fn forget_pod(&mut self, uid: &str) -> bool {
        self.pods.remove(uid) && self.pods.is_empty()
    }

    /// kube-scheduler's words as a part of a sentence; empty if it has said nothing.
    pub fn quoted(&self) -> String {
        if self.words.is_empty() { String::new() } else { format!(", last with {:?}", self.words) }
    }

    /// Time for which they count, in whole minutes.
    pub fn minutes(&self) -> u64 {
        self.length().as_secs() / 60
    }

    fn length(&self) -> Duration {
        TIME_OUT.length_of_nth(self.times)
    }
}
