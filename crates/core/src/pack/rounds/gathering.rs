//! Pods that have to be in one zone with others go where all of them can be.
//!
//! Say web has to be with itself or with the database, whose volume is in zone c. The first pod of web may be anywhere; in the
//! cheapest zone the database could not join it. The domains in which each of those can be that belong together are found
//! before any is placed, and the first goes where all of them meet.

use std::collections::BTreeSet;

use super::solve::RoundPlan;
use crate::pack::filter::topology::groups::RuleKind;
use crate::pack::filter::topology::opened::Gathering;
use crate::pack::model::ids::{ClassId, DomainId, GroupId, KeyId};

/// Classes that pod affinity over one key ties together, by the rules that do.
type TiedClasses = (BTreeSet<GroupId>, Vec<ClassId>);

/// Number of groups of tied classes that are compared in one step of work.
const TIED_A_STEP: usize = 8;

impl RoundPlan<'_, '_> {
    /// The domains in which all pods that have to be together can be, by class, where these are fewer than the class's own.
    pub(super) fn gathering(&self, zonal: &[ClassId]) -> Gathering {
        let mut found = Gathering::default();
        let stated = zonal.iter().flat_map(|at| self.affinities(*at));
        let keys: BTreeSet<KeyId> = stated.map(|group| self.context.topology.key_of(group)).collect();
        for key in keys {
            for (_, classes) in self.tied_classes(zonal, key).into_iter().filter(|(_, classes)| classes.len() > 1) {
                let own: Vec<BTreeSet<DomainId>> = classes.iter().map(|at| self.reachable(*at, key)).collect();
                let all = own.iter().cloned().reduce(|all, own| &all & &own).unwrap_or_default();
                // They cannot all be together: each goes where it can, and the reason names the rule.
                if all.is_empty() {
                    continue;
                }
                for (at, own) in classes.into_iter().zip(own) {
                    if own != all && self.affinities(at).any(|group| self.context.topology.key_of(group) == key) {
                        found.entry(at).or_default().push((key, all.clone()));
                    }
                }
            }
        }
        found
    }

    /// The pod affinity that a class requires over zones and other labels.
    fn affinities(&self, at: ClassId) -> impl Iterator<Item = GroupId> + '_ {
        let topology = &self.context.topology;
        let stated = topology.of_class[at].hard().states.iter().copied();
        stated.filter(|group| topology.groups[*group].kind == RuleKind::PodAffinity)
    }

    fn tied_classes(&self, zonal: &[ClassId], key: KeyId) -> Vec<TiedClasses> {
        let topology = &self.context.topology;
        let mut all: Vec<TiedClasses> = Vec::new();
        for at in zonal.iter().copied().filter(|at| self.left[*at] > 0) {
            let meant = topology.of_class[at].meant.iter().copied();
            let meant = meant.filter(|group| topology.groups[*group].kind == RuleKind::PodAffinity);
            let own: BTreeSet<GroupId> =
                self.affinities(at).chain(meant).filter(|group| topology.key_of(*group) == key).collect();
            if own.is_empty() || !self.context.work(1 + all.len() / TIED_A_STEP) {
                continue;
            }
            let (tied, mut rest): (Vec<TiedClasses>, Vec<TiedClasses>) =
                all.into_iter().partition(|(groups, _)| !groups.is_disjoint(&own));
            let mut merged: TiedClasses = (own, vec![at]);
            for (groups, classes) in tied {
                merged.0.extend(groups);
                merged.1.extend(classes);
            }
            rest.push(merged);
            all = rest;
        }
        all
    }

    /// The domains of a key in which a class could get a new node by what it requires.
    fn reachable(&self, at: ClassId, key: KeyId) -> BTreeSet<DomainId> {
        let context = self.context;
        let bins = context.bins.for_keys(context.topology.of_class[at].keys);
        let class = &context.classes[at];
        let hard = class.alternatives.ids().filter(|tier| class.hard.is_empty() || class.hard.contains(tier));
        let places = hard.flat_map(|tier| self.feasible_places(at, tier));
        places.filter_map(|chance| bins[chance.bin].domain[key]).collect()
    }
}
