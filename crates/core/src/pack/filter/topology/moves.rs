//! Pods that are on nodes already, moved from one to another: they leave the domains of the one and join those of the other.
//!
//! A trial of consolidation leaves first and joins then, or a pod would stand in its own way: with maxSkew 1 and zones a and b at
//! 1 and 1, it may move from a to b only once a is at 0. Undone is the other way round. What `join` adds `leave` takes, exactly:
//! a trial that is undone leaves no trace.

use super::bins::DomainOfKeys;
use super::counted::Counted;
use super::domains::{Domains, counts_on};
use crate::pack::model::ids::{ClassId, TierId};
use crate::problem::ExistingNode;

impl Domains<'_, '_> {
    pub fn of_node(&self, node: &ExistingNode) -> DomainOfKeys {
        self.context.bins.of_node(&self.context.topology, node)
    }

    /// True if an alternative's rules allow a pod of a class in these domains.
    pub fn may_join(&self, class: ClassId, tier: TierId, domain: &DomainOfKeys) -> bool {
        self.context.work(1) && self.allows(class, tier, domain, false)
    }

    /// Counts a pod of a class on a node. Only hard rules bind others, and the last alternative has given up all soft ones.
    pub fn join(&mut self, class: ClassId, node: &ExistingNode, domain: &DomainOfKeys) {
        let topology = &self.context.topology;
        let part = &topology.of_class[class];
        for at in part.meant.iter().filter(|at| counts_on(&topology.groups[**at], node)) {
            if let Some(domain) = domain[topology.key_of(*at)] {
                self.counts[*at][domain].add(Counted::Surely, 1);
            }
        }
        for at in &part.hard().states {
            if let Some(domain) = domain[topology.key_of(*at)] {
                self.stating[*at][domain] += 1;
            }
        }
    }

    /// Takes a pod of a class on a node out of the counts.
    pub fn leave(&mut self, class: ClassId, node: &ExistingNode, domain: &DomainOfKeys) {
        let topology = &self.context.topology;
        let part = &topology.of_class[class];
        for at in part.meant.iter().filter(|at| counts_on(&topology.groups[**at], node)) {
            if let Some(domain) = domain[topology.key_of(*at)] {
                self.counts[*at][domain].subtract(Counted::Surely, 1);
            }
        }
        for at in &part.hard().states {
            if let Some(domain) = domain[topology.key_of(*at)] {
                let stating = &mut self.stating[*at][domain];
                *stating = stating.saturating_sub(1);
            }
        }
    }
}
