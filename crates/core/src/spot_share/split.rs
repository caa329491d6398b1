//! The count of one workload's replicas, and the room that its split leaves on spot.

use std::collections::BTreeMap;

use super::SpotShare;

/// Replicas that have a place or are about to get one, and those of them on spot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    all: usize,
    on_spot: usize,
}

impl Count {
    fn room(self, share: SpotShare) -> usize {
        share.most_on_spot(self.all).saturating_sub(self.on_spot)
    }
}

/// The replicas of one workload. During a rollout they are of several templates, and the split holds for each by itself too: the
/// replicas that stay at its end are of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas<'a> {
    share: SpotShare,
    all: Count,
    by_template: BTreeMap<&'a str, Count>,
}

impl<'a> Replicas<'a> {
    #[must_use]
    pub fn of_share(share: SpotShare) -> Self {
        Self { share, all: Count::default(), by_template: BTreeMap::new() }
    }

    /// Counts a replica that has a place.
    pub fn count_placed(&mut self, template: &'a str, on_spot: bool) {
        self.count_awaiting(template);
        if on_spot {
            self.put_on_spot(template);
        }
    }

    /// Counts a replica that gets a place now.
    pub fn count_awaiting(&mut self, template: &'a str) {
        self.all.all += 1;
        self.by_template.entry(template).or_default().all += 1;
    }

    /// Counts one of the replicas as on spot, whether there is room for it or not.
    pub fn put_on_spot(&mut self, template: &'a str) {
        self.all.on_spot += 1;
        self.by_template.entry(template).or_default().on_spot += 1;
    }

    /// Number of further replicas of a template that may be on spot.
    #[must_use]
    pub fn room(&self, template: &str) -> usize {
        let own = self.by_template.get(template).copied().unwrap_or_default();
        self.all.room(self.share).min(own.room(self.share))
    }

    /// Takes room on spot for one replica of a template; false if there is none.
    pub fn take_room(&mut self, template: &'a str) -> bool {
        let has_room = self.room(template) > 0;
        if has_room {
            self.put_on_spot(template);
        }
        has_room
    }

    /// Number of replicas on spot beyond what the split allows.
    #[must_use]
    pub fn surplus(&self) -> usize {
        self.all.on_spot.saturating_sub(self.share.most_on_spot(self.all.all))
    }

    /// The count as a sentence without its end: numbers of all, on spot, and allowed there.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Count { all, on_spot } = self.all;
        format!("{on_spot} of {all} are on spot and {} may be", self.share.most_on_spot(all))
    }
}
