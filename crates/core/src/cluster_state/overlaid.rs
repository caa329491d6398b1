//! NodeOverlays in the cluster state, and the types that pools have by them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dovetail_api::v1::{EC2NodeClass, NodePool};

use super::{ClusterState, Snapshot, is_older};
use crate::labels::{NODE_POOL, stable};
use crate::overlays::{ClassTypes, Overlaid, OverlaidPool, WrittenOverlay};

impl ClusterState {
    /// An overlay is there or has changed. Answers true if it means something else than before.
    pub fn apply_overlay(&mut self, overlay: WrittenOverlay) -> bool {
        self.now.overlays.insert(overlay)
    }

    /// Our own write of an overlay was answered. Answers false if the overlay is gone, or a later state of it is known.
    pub fn overlay_written(&mut self, overlay: WrittenOverlay) -> bool {
        let name = overlay.object.metadata.name.as_deref().unwrap_or_default();
        let Some(known) = self.now.overlays.all().get(name) else { return false };
        let (there, new) = (&known.object.metadata, &overlay.object.metadata);
        if there.uid != new.uid || is_older(new, there) {
            return false;
        }
        self.now.overlays.insert(overlay);
        true
    }

    /// An overlay is gone. Answers true if it was known.
    pub fn delete_overlay(&mut self, name: &str) -> bool {
        self.now.overlays.remove(name)
    }

    /// A list of overlays is complete: those for whose name `seen` is false are gone. Answers true if there are any.
    pub fn overlays_listed(&mut self, seen: impl Fn(&str) -> bool) -> bool {
        self.now.overlays.retain(seen)
    }
}

impl Snapshot {
    /// Names of the node classes that pools refer to.
    #[must_use]
    pub fn classes_in_use(&self) -> BTreeSet<String> {
        let of = |pool: &NodePool| pool.spec.template.spec.node_class_ref.name_for(self.provider).map(str::to_owned);
        self.pools.values().filter_map(|pool| of(pool)).collect()
    }

    /// The classes that NodePools name and that are there, by name.
    #[must_use]
    pub fn used_classes(&self) -> Vec<Arc<EC2NodeClass>> {
        self.classes_in_use().iter().filter_map(|name| self.classes.get(name)).cloned().collect()
    }

    /// The effect of the overlays on the types of classes, by the class's name. A pool whose class has none is left out.
    #[must_use]
    pub fn overlaid(&self, types: &BTreeMap<String, ClassTypes>) -> Arc<Overlaid> {
        if self.overlays.is_empty() {
            return Arc::default();
        }
        let pools = self.pools.iter().filter_map(|(name, pool)| {
            let template = &pool.spec.template;
            let class = template.spec.node_class_ref.name_for(self.provider)?;
            let types = types.get(class).filter(|types| !types.is_empty())?;
            let own = template.metadata.labels.iter().map(|(key, value)| (stable(key).to_owned(), value.clone()));
            let labels = own.chain([(NODE_POOL.to_owned(), name.clone())]).collect();
            Some(OverlaidPool { name: name.clone(), labels, types: types.clone() })
        });
        self.overlays.outcome(pools.collect())
    }

    /// Classes whose types are asked for where those of one are wanted: where there are overlays first all in use, by whose types
    /// they are judged, and then the one alone.
    #[must_use]
    pub fn classes_with(&self, class: &Arc<EC2NodeClass>) -> Vec<Vec<Arc<EC2NodeClass>>> {
        let own = vec![class.clone()];
        if self.overlays.is_empty() {
            return vec![own];
        }
        let in_use = self.classes_in_use();
        let is_other = |name: &String| Some(name) != class.metadata.name.as_ref() && in_use.contains(name);
        let others = self.classes.iter().filter(|(name, _)| is_other(name)).map(|(_, one)| one.clone());
        vec![own.iter().cloned().chain(others).collect(), own]
    }

    /// The types of a pool, whose class has these, with what overlays say of them.
    #[must_use]
    pub fn types_of_pool(&self, pool: &str, class: &str, types: &BTreeMap<String, ClassTypes>) -> Option<ClassTypes> {
        let overlaid = self.overlaid(types);
        overlaid.types.get(pool).or_else(|| types.get(class)).cloned()
    }
}
