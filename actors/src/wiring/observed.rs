//! The actors that are asked for their state, by name.

use actix::prelude::*;

use super::{Leading, Warm};
use crate::messages::Observe;

impl Warm {
    /// Actors that answer [`Observe`], by name.
    pub fn observed(&self) -> Vec<(&'static str, Recipient<Observe>)> {
        let webhook = self.webhook.clone().map(|webhook| ("webhook", webhook.recipient()));
        let always = [
            ("pod_watcher", self.pod_watcher.clone().recipient()),
            ("cluster_watcher", self.cluster_watcher.clone().recipient()),
            ("catalogue", self.catalogue.clone().recipient()),
            ("recorder", self.recorder.clone().recipient()),
        ];
        always.into_iter().chain(webhook).collect()
    }
}

impl Leading {
    /// Actors that answer [`Observe`], by name.
    pub fn observed(&self) -> Vec<(&'static str, Recipient<Observe>)> {
        let static_pools = self.static_pools.clone().map(|actor| ("static_pools", actor.recipient()));
        let buffers = self.buffers.clone().map(|actor| ("buffers", actor.recipient()));
        let gangs = self.gangs.clone().map(|actor| ("gangs", actor.recipient()));
        let overlays = self.overlays.clone().map(|actor| ("overlays", actor.recipient()));
        let quotas = self.quotas.clone().map(|actor| ("quotas", actor.recipient()));
        let deletion_costs = self.deletion_costs.clone().map(|actor| ("deletion_costs", actor.recipient()));
        let always = vec![
            ("batcher", self.batcher.clone().recipient()),
            ("packer", self.packer.clone().recipient()),
            ("launcher", self.launcher.clone().recipient()),
            ("registrar", self.registrar.clone().recipient()),
            ("node_class", self.node_class.clone().recipient()),
            ("terminator", self.terminator.clone().recipient()),
            ("interruption", self.interruption.clone().recipient()),
            ("disruptor", self.disruptor.clone().recipient()),
            ("janitor", self.janitor.clone().recipient()),
            ("owner", self.owner.clone().recipient()),
            ("translator", self.translator.clone().recipient()),
        ];
        let gated = [static_pools, buffers, gangs, overlays, quotas, deletion_costs];
        always.into_iter().chain(gated.into_iter().flatten()).collect()
    }
}
