//! Instance types of a class without the offerings that EC2 refuses just now. EC2 refuses a few offerings at a time and a type is
//! long to resolve: types that a refusal says nothing of are those of before.

use std::sync::Arc;

use dovetail_api::names::labels::RESERVED;
use dovetail_api::v1::Ami;
use dovetail_core::{InstanceType, Offering};

use super::{NodeClassView, ResolveSettings, instance_types};
use crate::catalogue::RegionCatalogue;
use crate::launch::images::withhold_without_image;
use crate::launch::refusal::NO_ADDRESSES;
use crate::unavailable::Unavailable;

/// A class's instance types as they are while EC2 refuses nothing.
pub struct ResolvedClass {
    class: NodeClassView,
    types: Vec<ResolvedType>,
    withheld: Vec<String>,
}

struct ResolvedType {
    /// With all offerings that the class allows.
    whole: Arc<InstanceType>,
    /// The same, or without an available offering where no image is for it.
    usable: Arc<InstanceType>,
}

/// Availability of an offering, and the cause where EC2 refuses it.
type OfferingState = (bool, Option<&'static str>);

impl ResolvedClass {
    /// Resolves all types. Those that none of `amis` is for have no available offering; while there are no images, all have theirs.
    #[must_use]
    pub fn new(catalogue: &RegionCatalogue, class: NodeClassView, settings: &ResolveSettings, amis: &[Ami]) -> Self {
        let types = instance_types(catalogue, &class, settings);
        let whole: Vec<Arc<InstanceType>> = types.into_iter().map(Arc::new).collect();
        let mut usable = whole.clone();
        let withheld = withhold_without_image(amis, &mut usable);
        let types = whole.into_iter().zip(usable).map(|(whole, usable)| ResolvedType { whole, usable });
        Self { types: types.collect(), class, withheld }
    }

    /// Names of the types that no image is for.
    #[must_use]
    pub fn withheld(&self) -> &[String] {
        &self.withheld
    }

    /// The types, by name; offerings that are refused are not available. `before` is an earlier answer of this class: what says
    /// the same in it is shared.
    #[must_use]
    pub fn without(&self, refused: &Unavailable, before: &[Arc<InstanceType>]) -> Vec<Arc<InstanceType>> {
        let before = (before.len() == self.types.len()).then_some(before);
        let before = |index: usize| before.map(|all| &all[index]);
        self.types.iter().enumerate().map(|(index, kind)| self.one_without(kind, refused, before(index))).collect()
    }

    fn one_without(
        &self,
        kind: &ResolvedType,
        refused: &Unavailable,
        before: Option<&Arc<InstanceType>>,
    ) -> Arc<InstanceType> {
        let ResolvedType { whole, usable } = kind;
        if !refused.may_concern(&whole.name) {
            return usable.clone();
        }
        let states: Vec<OfferingState> =
            whole.offerings.iter().map(|one| self.state(&whole.name, one, refused)).collect();
        let withheld = !Arc::ptr_eq(whole, usable);
        let says = |known: &InstanceType| {
            let same = |(one, (available, cause)): (&Offering, &OfferingState)| {
                one.available == (*available && !withheld) && one.refused == *cause
            };
            known.offerings.iter().zip(&states).all(same)
        };
        if let Some(known) = [Some(usable), before].into_iter().flatten().find(|known| says(known)) {
            return known.clone();
        }
        let mut kind = InstanceType::clone(whole);
        for (one, (available, cause)) in kind.offerings.iter_mut().zip(states) {
            (one.available, one.refused) = (available && !withheld, cause);
        }
        Arc::new(kind)
    }

    /// An offering that could be had otherwise is refused by itself, with its quota or capacity type, or as its zone has no free
    /// address. Offerings that are bought say the cause: a reservation has its own words.
    fn state(&self, kind: &str, one: &Offering, refused: &Unavailable) -> OfferingState {
        if !one.available {
            return (false, None);
        }
        let full = || refused.all_full(self.class.subnets_in(&one.zone)).then_some(NO_ADDRESSES);
        let cause = refused.why(kind, &one.zone, &one.capacity_type).or_else(full);
        (cause.is_none(), cause.filter(|_| one.capacity_type != RESERVED))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;
    use crate::family::AmiFamily;
    use crate::shipped;
    use crate::unavailable::{OfferingKey, QuotaGroup, UnavailableOfferings};

    fn resolved(amis: &[Ami]) -> ResolvedClass {
        let class = NodeClassView::in_zones(AmiFamily::Al2023, shipped::catalogue("us-east-1").first_zones(2));
        ResolvedClass::new(&shipped::catalogue("us-east-1"), class, &ResolveSettings::default(), amis)
    }

    fn key(capacity_type: &str, instance_type: &str, zone: &str) -> OfferingKey {
        OfferingKey { capacity_type: capacity_type.into(), instance_type: instance_type.into(), zone: zone.into() }
    }

    #[test]
    fn refused_offering_stays_listed_and_other_types_are_shared() {
        let (class, mut refused) = (resolved(&[]), UnavailableOfferings::default());
        let whole = class.without(&refused.as_of(Duration::ZERO), &[]);
        refused.mark(Duration::ZERO, key("spot", "m5.large", "us-east-1a"));
        let first = class.without(&refused.as_of(Duration::ZERO), &whole);
        refused.mark(Duration::ZERO, key("spot", "c5.large", "us-east-1b"));
        let second = class.without(&refused.as_of(Duration::ZERO), &first);
        let anew = |one: &[Arc<InstanceType>], other: &[Arc<InstanceType>]| -> Vec<String> {
            let changed = one.iter().zip(other).filter(|(one, other)| !Arc::ptr_eq(one, other));
            changed.map(|(one, _)| one.name.clone()).collect()
        };
        assert_eq!(anew(&whole, &first), ["m5.large"]);
        assert_eq!(anew(&first, &second), ["c5.large"], "the other refused one is that of before");
        let m5 = second.iter().find(|one| one.name == "m5.large").unwrap();
        let gone: Vec<_> = m5.offerings.iter().filter(|one| !one.available).collect();
        assert_eq!(gone.len(), 1);
        assert_eq!((gone[0].zone.as_str(), gone[0].capacity_type.as_str()), ("us-east-1a", "spot"));
        assert!(gone[0].refused.is_some());
        let back = class.without(&Unavailable::default(), &second);
        assert_eq!(anew(&whole, &back), [""; 0], "refusals that are over leave nothing behind");
    }

    #[test]
    fn types_without_an_image_stay_withheld_whatever_is_refused() {
        let ami = Ami {
            id: "ami-1".into(),
            requirements: serde_json::from_value(serde_json::json!([
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]}
            ]))
            .unwrap(),
            ..Ami::default()
        };
        let (class, mut refused) = (resolved(&[ami]), UnavailableOfferings::default());
        assert!(class.withheld().iter().any(|name| name == "m5.large"));
        refused.mark(Duration::ZERO, key("spot", "m5.large", "us-east-1a"));
        let types = class.without(&refused.as_of(Duration::ZERO), &[]);
        let available = |name: &str| {
            types.iter().find(|one| one.name == name).unwrap().offerings.iter().filter(|one| one.available).count()
        };
        assert_eq!((available("m5.large"), available("m6g.large")), (0, 4));
    }

    #[test]
    fn any_row_of_refusals_gives_what_a_fresh_look_gives() {
        let names = ["m5.large", "c5.large", "g5.xlarge", "t3.micro", "m6g.large"];
        let class = resolved(&[]);
        for seed in 0..24 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut refused, mut before) = (UnavailableOfferings::default(), Vec::new());
            for step in 0..10 {
                let now = Duration::from_secs(step * 60);
                let bought = if rng.bool() { "spot" } else { "on-demand" };
                let (name, zone) = (names[rng.usize(..names.len())], ["us-east-1a", "us-east-1b"][rng.usize(..2)]);
                match rng.u8(..6) {
                    0 => refused.mark_quota(now, bought, QuotaGroup::from_instance_type(name)),
                    1 => refused.mark_capacity_type(now, bought, "no role"),
                    _ => refused.mark(now, key(bought, name, zone)),
                }
                refused.forget_expired(now);
                let told = refused.as_of(now);
                before = class.without(&told, &before);
                let fresh = class.without(&told, &[]);
                assert!(before.iter().zip(&fresh).all(|(one, other)| one == other), "seed {seed}, step {step}");
                for (one, offering) in
                    fresh.iter().flat_map(|one| one.offerings.iter().map(move |offering| (one, offering)))
                {
                    let no = told.refused(&one.name, &offering.zone, &offering.capacity_type);
                    assert!(!(no && offering.available), "{} {offering:?}", one.name);
                }
            }
        }
    }
}
