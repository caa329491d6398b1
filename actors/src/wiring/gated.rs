//! Links of the actors that feature gates start.

use actix::prelude::*;

use super::{Leading, TermParts, begin};
use crate::buffers::BuffersLinks;
use crate::deletion_costs::{DeletionCosts, DeletionCostsLinks};
use crate::gangs::{Gangs, GangsLinks};
use crate::launcher::Launcher;
use crate::messages::ClusterChanged;
use crate::overlays::OverlaysLinks;
use crate::quotas::QuotasLinks;
use crate::static_pools::StaticPoolsLinks;
use crate::terminator::Terminator;

impl Leading {
    /// Actors behind feature gates that hear of changes of the cluster.
    pub(super) fn gated_listeners(&self) -> impl Iterator<Item = Recipient<ClusterChanged>> {
        let all = [
            self.static_pools.clone().map(Addr::recipient),
            self.buffers.clone().map(Addr::recipient),
            self.gangs.clone().map(Addr::recipient),
            self.overlays.clone().map(Addr::recipient),
            self.quotas.clone().map(Addr::recipient),
            self.deletion_costs.clone().map(Addr::recipient),
        ];
        all.into_iter().flatten()
    }
}

impl TermParts<'_> {
    pub(super) fn static_pools(&self, launcher: &Addr<Launcher>, terminator: &Addr<Terminator>) -> StaticPoolsLinks {
        StaticPoolsLinks {
            cluster: self.warm.cluster_watcher.clone().into(),
            catalogue: self.warm.catalogue.clone().into(),
            launcher: launcher.clone().into(),
            terminator: terminator.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            calls: self.calls("static_pools"),
        }
    }

    pub(super) fn buffers(&self, launcher: &Addr<Launcher>) -> BuffersLinks {
        BuffersLinks {
            cluster: self.warm.cluster_watcher.clone().into(),
            catalogue: self.warm.catalogue.clone().into(),
            launcher: launcher.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            calls: self.calls("buffers"),
        }
    }

    /// Starts the actor where its gate is open.
    pub(super) fn begin_gangs(&self, launcher: &Addr<Launcher>, terminator: &Addr<Terminator>) -> Option<Addr<Gangs>> {
        let links = GangsLinks {
            cluster: self.warm.cluster_watcher.clone().into(),
            catalogue: self.warm.catalogue.clone().into(),
            launcher: launcher.clone().into(),
            terminator: terminator.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            calls: self.calls("gangs"),
        };
        let is_open = self.env.settings.provisioning_requests();
        is_open.then(|| begin(|_| Gangs::new(self.env, links, self.means.solver.clone())))
    }

    pub(super) fn quotas(&self) -> QuotasLinks {
        QuotasLinks {
            cluster: self.warm.cluster_watcher.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            calls: self.calls("quotas"),
        }
    }

    /// Starts the actor. Where its gate is closed nobody has its address: it takes off what is left of values, and ends.
    pub(super) fn begin_deletion_costs(&self) -> Option<Addr<DeletionCosts>> {
        let links = DeletionCostsLinks {
            cluster: self.warm.cluster_watcher.clone().into(),
            catalogue: self.warm.catalogue.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            calls: self.calls("deletion_costs"),
        };
        let actor = begin(|_| DeletionCosts::new(self.env, links));
        self.env.settings.pod_deletion_costs().then_some(actor)
    }

    pub(super) fn overlays(&self) -> OverlaysLinks {
        OverlaysLinks {
            cluster: self.warm.cluster_watcher.clone().into(),
            catalogue: self.warm.catalogue.clone().into(),
            recorder: self.warm.recorder.clone().into(),
            calls: self.calls("overlays"),
        }
    }
}
