//! All overlays, all pools, all types: what is said of each.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::index::TypeIndex;
use super::overlay::{KnownOverlay, Overlay, in_order};
use super::writers::Group;
use super::{Overlaid, OverlaidPool, OverlayConflict, OverlayEffect, OverlayReach};

/// Evaluates overlays, by their names, for pools. An overlay is first compared with those before it in all pools, and then counts
/// in all of them or in none.
#[must_use]
pub fn evaluate<'a>(
    overlays: impl IntoIterator<Item = (&'a String, &'a KnownOverlay)>,
    pools: &'a [OverlaidPool],
) -> Overlaid {
    let (ordered, faults) = in_order(overlays);
    let mut groups = groups(&ordered, pools);
    let mut effects: BTreeMap<String, OverlayEffect> =
        faults.into_iter().map(|(name, fault)| (name, OverlayEffect::Invalid(fault.0.clone()))).collect();
    for (nth, overlay) in ordered.iter().enumerate() {
        let next_to = [nth.checked_sub(1), nth.checked_add(1)].into_iter().flatten().filter_map(|at| ordered.get(at));
        let shares = next_to.into_iter().any(|other| other.weight == overlay.weight);
        let effect = match apply((nth, overlay), &ordered, &mut groups, shares) {
            Ok(reach) => OverlayEffect::Applied(reach),
            Err(conflict) => OverlayEffect::Conflict(conflict),
        };
        effects.insert(overlay.name.clone(), effect);
    }
    let mut types = BTreeMap::new();
    for group in &groups {
        if let Some(own) = group.overlaid(&ordered) {
            types.extend(group.pools.iter().map(|pool| ((*pool).to_owned(), own.clone())));
        }
    }
    Overlaid { types, effects }
}

/// Pools whose types are the same list, and whose labels are the same as far as overlays name them.
fn groups<'a>(ordered: &[&'a Overlay], pools: &'a [OverlaidPool]) -> Vec<Group<'a>> {
    let named: BTreeSet<&str> = ordered.iter().flat_map(|one| one.requirements.iter().map(|(key, _)| key)).collect();
    let mut indices: BTreeMap<*const u8, Rc<TypeIndex<'a>>> = BTreeMap::new();
    let mut known: BTreeMap<(*const u8, Vec<(&str, &str)>), usize> = BTreeMap::new();
    let mut groups: Vec<Group<'a>> = Vec::new();
    for pool in pools {
        // The list itself tells whose types they are, as it is kept as long as nothing changes.
        let list = std::sync::Arc::as_ptr(&pool.types).cast::<u8>();
        let own = pool.labels.iter().filter(|(key, _)| named.contains(key.as_str()));
        let labels: Vec<(&str, &str)> = own.map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let at = *known.entry((list, labels)).or_insert_with(|| {
            let index = indices.entry(list).or_insert_with(|| Rc::new(TypeIndex::new(&pool.types, ordered)));
            groups.push(Group::new(&pool.types, index.clone(), &pool.labels));
            groups.len() - 1
        });
        groups[at].pools.insert(&pool.name);
    }
    groups
}

/// Applies an overlay in all groups, or in none. `shares`: others have its weight.
fn apply<'a>(
    (nth, overlay): (usize, &'a Overlay),
    all: &[&'a Overlay],
    groups: &mut [Group<'a>],
    shares: bool,
) -> Result<OverlayReach, OverlayConflict> {
    let selections: Vec<_> = groups.iter().map(|group| group.select(overlay)).collect();
    let mut each = groups.iter().zip(&selections).filter(|_| shares);
    if let Some(conflict) = each.find_map(|(group, own)| group.conflict(overlay, own, all)) {
        return Err(conflict);
    }
    let mut reach = OverlayReach::default();
    for (group, selection) in groups.iter_mut().zip(&selections).filter(|(_, own)| !own.types.is_empty()) {
        let offerings = group.note(nth, overlay, selection, shares);
        reach.pools.extend(group.pools.iter().map(|pool| (*pool).to_owned()));
        // Pools may have the same types: those of the pools that have most count.
        reach.types = reach.types.max(selection.types.len());
        reach.offerings = reach.offerings.max(offerings);
    }
    Ok(reach)
}
