//! The gangs of a problem: those that have pods without a node in it.

use crate::pack::Packing;

/// A gang with pods that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitingGang {
    /// Namespace and name of its PodGroup.
    pub key: String,
    /// Number of members that have to have a place together.
    pub min_count: usize,
    /// Number of members that are there.
    pub members: usize,
    /// Number of members that are on a node, or expected on one.
    pub held: usize,
    /// Its pods without a node, by their indices among the problem's.
    pub waiting: Vec<usize>,
    /// The highest priority among these.
    pub priority: i32,
    /// Time at which the first of these was created.
    pub created: Option<jiff::Timestamp>,
}

/// Gangs of a problem, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GangTable {
    pub gangs: Vec<WaitingGang>,
}

impl GangTable {
    /// True if no gang waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gangs.is_empty()
    }

    /// Gangs that would get places for fewer members than they need by a packing: index, and number of members with a place.
    #[must_use]
    pub fn short_in(&self, packing: &Packing, pods: usize) -> Vec<(usize, usize)> {
        let mut placed = vec![false; pods];
        let on_new = packing.claims.iter().flat_map(|claim| &claim.pods);
        for pod in on_new.chain(packing.on_existing.iter().flat_map(|(_, pods)| pods)) {
            placed[*pod] = true;
        }
        let counted = self.gangs.iter().enumerate().map(|(at, gang)| {
            let new = gang.waiting.iter().filter(|pod| placed[**pod]).count();
            (at, gang.held + new)
        });
        counted.filter(|(at, has)| *has < self.gangs[*at].min_count).collect()
    }

    /// True if a packing has a place for a pod of a gang that waits.
    #[must_use]
    pub fn has_places(&self, at: usize, packing: &Packing) -> bool {
        let on_new = packing.claims.iter().flat_map(|claim| &claim.pods);
        let mut all = on_new.chain(packing.on_existing.iter().flat_map(|(_, pods)| pods));
        all.any(|pod| self.gangs[at].waiting.binary_search(pod).is_ok())
    }
}

impl WaitingGang {
    /// True if enough members are on a node or expected on one: its other pods are as those of no gang.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.held >= self.min_count
    }

    /// Says that so few members have a place.
    #[must_use]
    pub fn too_few(&self, placed: usize, why: Option<&str>) -> String {
        let Self { key, members, min_count, .. } = self;
        let least = if members == min_count { String::new() } else { format!(", minCount is {min_count}") };
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        format!("PodGroup {key}: {placed} of {members} members have a place{least}{why}")
    }
}
