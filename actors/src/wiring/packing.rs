//! Links of the packer.

use actix::prelude::*;

use super::TermParts;
use crate::launcher::Launcher;
use crate::packer::PackerLinks;
use crate::registrar::Registrar;
use crate::terminator::Terminator;

impl TermParts<'_> {
    /// The actors of the term that the packer speaks to, and those of every replica.
    pub(super) fn packer(
        &self,
        launcher: &Addr<Launcher>,
        registrar: &Addr<Registrar>,
        terminator: &Addr<Terminator>,
    ) -> PackerLinks {
        PackerLinks {
            terminator: terminator.clone().into(),
            cluster: self.warm.cluster_watcher.clone().into(),
            catalogue: self.warm.catalogue.clone().into(),
            launcher: launcher.clone().into(),
            registrar: registrar.clone().into(),
            recorder: self.warm.recorder.clone().into(),
        }
    }
}
