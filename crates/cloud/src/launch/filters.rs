//! Choice of a claim's offerings that CreateFleet is asked for (karpenter-aws 4.1). Pure.
//!
//! Each step may only leave out; one that leaves nothing ends the launch for lack of capacity.

use std::collections::BTreeSet;
use std::sync::Arc;

use dovetail_api::names::labels::{CAPACITY_TYPE, ON_DEMAND, RESERVED, SPOT};
use dovetail_core::{InstanceType, MaxOptionPrice, NodeSelectorRequirement, Offering, Requirements};

use super::placement::{Placing, partition_of, wants_dedicated};
use super::reserved::{ReservationKind, keep_cheapest_alone, keep_one_kind};
use super::{LaunchError, LaunchRequest};

/// CreateFleet takes no more types than this, so as not to be too long.
pub const MAX_TYPES: usize = 60;
/// With fewer types than this, an on-demand launch that could have been spot is worth a word in the log.
const FLEXIBLE: usize = 5;

/// A type and those of its offerings that are asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchCandidate {
    /// As packing sees it, with capacity and requirements.
    pub instance_type: Arc<InstanceType>,
    /// Its offerings, all of the selection's capacity type.
    pub offerings: Vec<Offering>,
}

impl LaunchCandidate {
    fn price(&self) -> f64 {
        self.offerings.iter().map(|o| o.price).fold(f64::INFINITY, f64::min)
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Offering) -> bool) -> bool {
        self.offerings.retain(keep);
        !self.offerings.is_empty()
    }
}

/// Offerings that CreateFleet is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchSelection {
    /// `reserved`, `spot` or `on-demand`.
    pub capacity_type: &'static str,
    /// Cheapest first.
    pub candidates: Vec<LaunchCandidate>,
    /// On-demand although spot was allowed, with hardly any types to choose from.
    pub inflexible: bool,
    /// Kind of its reservations, where they are such.
    pub reservation: ReservationKind,
    /// Placement group, partition and tenancy.
    pub placing: Placing,
}

impl LaunchSelection {
    /// Leaves out what is not to be kept, and types that have nothing left.
    pub(super) fn retain(&mut self, keep: impl Fn(&Offering) -> bool) {
        self.candidates.retain_mut(|one| one.retain(&keep));
    }
}

/// Chooses capacity type, types and offerings; of a class in a placement group that is bound to a zone see [`select_in`].
///
/// # Errors
/// As [`select_in`].
pub fn select(request: &LaunchRequest) -> Result<LaunchSelection, LaunchError> {
    select_in(request, None)
}

/// Chooses capacity type, types and offerings, in one zone if one is given.
///
/// # Errors
/// [`super::LaunchErrorKind::InsufficientCapacity`] when a step leaves nothing; Final for requirements that make no sense.
pub fn select_in(request: &LaunchRequest, zone: Option<&str>) -> Result<LaunchSelection, LaunchError> {
    let wanted = Requirements::from_written(&request.requirements)
        .map_err(|e| LaunchError::invalid("LaunchFailed", e.to_string()))?;
    let has_min_values = request.requirements.iter().any(|r| r.min_values.is_some());
    let mut candidates = compatible_available(request, &wanted);
    if let Some(zone) = zone {
        candidates.retain_mut(|one| one.retain(|offering| offering.zone == zone));
    }
    if candidates.is_empty() {
        return Err(match zone {
            Some(zone) => {
                nothing(&format!("no compatible offering is available in {zone}, where the placement group is"))
            }
            None => nothing("no compatible offering is available"),
        });
    }
    let reservation = keep_one_kind(&mut candidates);
    if !has_min_values {
        candidates = without_exotic(candidates);
        candidates = without_dear_spot(candidates);
    }
    let spot_allowed = wanted.get(CAPACITY_TYPE).is_none_or(|r| r.has(SPOT));
    let capacity_type = [RESERVED, SPOT, ON_DEMAND]
        .into_iter()
        .find(|ct| candidates.iter().any(|c| c.offerings.iter().any(|o| o.capacity_type == *ct)))
        .ok_or_else(|| nothing("neither reserved capacity nor spot nor on-demand is available"))?;
    candidates.retain_mut(|c| c.retain(|o| o.capacity_type == capacity_type));
    if capacity_type == RESERVED {
        candidates.iter_mut().for_each(fullest_reservations);
    }
    candidates
        .sort_by(|a, b| a.price().total_cmp(&b.price()).then_with(|| a.instance_type.name.cmp(&b.instance_type.name)));
    if capacity_type != RESERVED && !has_min_values {
        without_dear_zones(&mut candidates, request.max_option_price);
    }
    candidates.truncate(MAX_TYPES);
    if capacity_type == RESERVED && reservation == ReservationKind::CapacityBlock {
        keep_cheapest_alone(&mut candidates);
    }
    keeps_min_values(&request.requirements, &candidates)?;
    let inflexible = capacity_type == ON_DEMAND && spot_allowed && candidates.len() < FLEXIBLE;
    let placing = Placing { dedicated: wants_dedicated(&wanted), ..Placing::default() };
    Ok(LaunchSelection { capacity_type, candidates, inflexible, reservation, placing })
}

fn nothing(why: &str) -> LaunchError {
    LaunchError::insufficient_capacity(why, Vec::new())
}

/// Types that agree with the claim and hold its requests, with their available offerings that agree too.
fn compatible_available(request: &LaunchRequest, wanted: &Requirements) -> Vec<LaunchCandidate> {
    let fits = |t: &&Arc<InstanceType>| request.requests.fits_in(&t.allocatable()) && agrees(&t.requirements, wanted);
    request
        .candidates
        .iter()
        .filter(fits)
        .filter_map(|t| {
            let agreeing = t.offerings.iter().filter(|o| o.available && agrees(&o.requirements, wanted));
            let offerings: Vec<Offering> = agreeing.cloned().collect();
            (!offerings.is_empty()).then(|| LaunchCandidate { instance_type: Arc::clone(t), offerings })
        })
        .collect()
}

fn agrees(offered: &[NodeSelectorRequirement], wanted: &Requirements) -> bool {
    Requirements::from_written(offered).is_ok_and(|offered| offered.intersects(wanted).is_ok())
}

/// Keeps the reservation with the most instances left in each zone (and partition, in a placement group that has such).
fn fullest_reservations(candidate: &mut LaunchCandidate) {
    let left = |one: &Offering| one.reservation_capacity.unwrap_or(u32::MAX);
    let place = |one: &Offering| (one.zone.clone(), partition_of(one));
    candidate.offerings.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| left(b).cmp(&left(a))));
    candidate.offerings.dedup_by(|next, first| place(next) == place(first));
}

/// Without devices and bare metal, unless nothing else is left.
fn without_exotic(candidates: Vec<LaunchCandidate>) -> Vec<LaunchCandidate> {
    if candidates.iter().all(|c| is_exotic(&c.instance_type)) {
        return candidates;
    }
    candidates.into_iter().filter(|c| !is_exotic(&c.instance_type)).collect()
}

fn is_exotic(t: &InstanceType) -> bool {
    t.is_bare_metal() || t.has_devices()
}

/// Without spot that costs more than the cheapest on-demand offering, where there is such a one.
fn without_dear_spot(mut candidates: Vec<LaunchCandidate>) -> Vec<LaunchCandidate> {
    let all = || candidates.iter().flat_map(|c| &c.offerings);
    let cheapest = all().filter(|o| o.capacity_type == ON_DEMAND).map(|o| o.price).fold(f64::INFINITY, f64::min);
    if cheapest.is_finite() && all().any(|o| o.capacity_type == SPOT) {
        candidates.retain_mut(|c| c.retain(|o| o.capacity_type != SPOT || o.price <= cheapest));
    }
    candidates
}

/// Without offerings above the ceiling of what the cheapest costs, but for each type's own cheapest: a type that is cheap in
/// one zone may be dear in another. Which types there are the claim has decided.
fn without_dear_zones(candidates: &mut [LaunchCandidate], ceiling: MaxOptionPrice) {
    let Some(first) = candidates.first() else { return };
    let most = first.price() * ceiling.factor_for(&first.instance_type) * (1.0 + 1e-12);
    for candidate in candidates {
        let most = most.max(candidate.price());
        candidate.offerings.retain(|offering| offering.price <= most);
    }
}

/// Truncation may not leave fewer values than `minValues` asks for.
fn keeps_min_values(
    requirements: &[NodeSelectorRequirement],
    candidates: &[LaunchCandidate],
) -> Result<(), LaunchError> {
    for wanted in requirements {
        let Some(least) = wanted.min_values else { continue };
        let of_key = |c: &LaunchCandidate| {
            let own = c.instance_type.requirements.iter().filter(|r| r.key == wanted.key);
            own.flat_map(|r| r.values.clone()).collect::<Vec<_>>()
        };
        let values: BTreeSet<String> = candidates.iter().flat_map(of_key).collect();
        if values.len() < least as usize {
            let have = values.len();
            return Err(nothing(&format!("minValues: {} has {have} of {least} values left", wanted.key)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::family::AmiFamily;
    use crate::launch::LaunchErrorKind;
    use crate::resolve::{NodeClassView, ReservationView, ResolveSettings, instance_types};
    use crate::shipped;
    use dovetail_api::names::labels::CAPACITY_RESERVATION_ID;
    use dovetail_api::v1::{EC2NodeClass, EC2NodeClassSpec};
    use dovetail_core::{Operator, Resources};

    fn catalogue() -> Vec<Arc<InstanceType>> {
        let shipped = shipped::catalogue("us-east-1");
        let class = NodeClassView::in_zones(AmiFamily::Al2023, shipped.first_zones(3));
        instance_types(&shipped, &class, &ResolveSettings::default()).into_iter().map(Arc::new).collect()
    }

    fn asking(requirements: Vec<NodeSelectorRequirement>, requests: &[(&str, &str)]) -> LaunchRequest {
        let requests = Resources::parse(requests.iter().copied()).unwrap();
        let class = Arc::new(EC2NodeClass::new("default", EC2NodeClassSpec::default()));
        LaunchRequest { requirements, requests, candidates: catalogue(), ..LaunchRequest::new("t", "default", class) }
    }

    fn one_of(key: &str, values: &[&str]) -> NodeSelectorRequirement {
        NodeSelectorRequirement::one_of(key, values.iter().copied())
    }

    #[test]
    fn sixty_types_at_most_are_taken_cheapest_first() {
        let selection = select(&asking(vec![one_of(CAPACITY_TYPE, &[SPOT])], &[("cpu", "1")])).unwrap();
        assert_eq!((selection.capacity_type, selection.candidates.len()), (SPOT, MAX_TYPES));
        let prices: Vec<f64> = selection.candidates.iter().map(LaunchCandidate::price).collect();
        assert!(prices.is_sorted());
    }

    #[test]
    fn devices_and_metal_are_left_alone_unless_asked_for() {
        let selection = select(&asking(vec![], &[("cpu", "90")])).unwrap();
        assert!(selection.candidates.iter().all(|c| !is_exotic(&c.instance_type)));
        let gpu = select(&asking(vec![], &[("nvidia.com/gpu", "1")])).unwrap();
        assert!(gpu.candidates.iter().all(|c| c.instance_type.capacity.get("nvidia.com/gpu") > 0));
    }

    #[test]
    fn spot_dearer_than_on_demand_is_left_out() {
        let mut request = asking(vec![one_of("node.kubernetes.io/instance-type", &["m5.large"])], &[]);
        let mut m5 = request.candidates.iter().find(|t| t.name == "m5.large").unwrap().as_ref().clone();
        for offering in &mut m5.offerings {
            if offering.capacity_type == SPOT {
                offering.price = if offering.zone == "us-east-1a" { 0.2 } else { 0.05 };
            }
        }
        request.candidates = vec![Arc::new(m5)];
        let selection = select(&request).unwrap();
        let zones: Vec<_> = selection.candidates[0].offerings.iter().map(|o| o.zone.as_str()).collect();
        assert_eq!((selection.capacity_type, zones), (SPOT, vec!["us-east-1b", "us-east-1c"]));
    }

    #[test]
    fn zone_where_spot_exceeds_the_price_ceiling_is_not_asked_for() {
        let mut request = asking(vec![one_of("node.kubernetes.io/instance-type", &["m5.large"])], &[]);
        let mut m5 = request.candidates.iter().find(|t| t.name == "m5.large").unwrap().as_ref().clone();
        for offering in m5.offerings.iter_mut().filter(|one| one.capacity_type == SPOT) {
            let of_zone = [("us-east-1a", 0.04), ("us-east-1b", 0.059), ("us-east-1c", 0.061)];
            offering.price = of_zone.into_iter().find(|(zone, _)| *zone == offering.zone).unwrap().1;
        }
        request.candidates = vec![Arc::new(m5)];
        let zones = |request: &LaunchRequest| {
            let selection = select(request).unwrap();
            selection.candidates[0].offerings.iter().map(|one| one.zone.clone()).collect::<Vec<_>>()
        };
        assert_eq!(zones(&request), ["us-east-1a", "us-east-1b"]);
        request.max_option_price = MaxOptionPrice::times(2.0).unwrap();
        assert_eq!(zones(&request), ["us-east-1a", "us-east-1b", "us-east-1c"]);
    }

    #[test]
    fn on_demand_is_taken_without_spot_and_few_types_are_noted() {
        let mut request = asking(vec![one_of("node.kubernetes.io/instance-type", &["m5.large"])], &[]);
        for t in &mut request.candidates {
            Arc::make_mut(t).offerings.iter_mut().for_each(|o| o.available = o.capacity_type == ON_DEMAND);
        }
        let selection = select(&request).unwrap();
        assert_eq!((selection.capacity_type, selection.inflexible), (ON_DEMAND, true));
    }

    #[test]
    fn reserved_is_taken_before_spot_from_fullest_zone_reservation() {
        let shipped = shipped::catalogue("us-east-1");
        let view = |id: &str, zone: &str, left: u32| ReservationView {
            id: id.into(),
            instance_type: "m5.large".into(),
            zone: zone.into(),
            kind: ReservationKind::Default,
            active: true,
            left,
        };
        let mut class = NodeClassView::in_zones(AmiFamily::Al2023, shipped.first_zones(3));
        class.reservations =
            vec![view("cr-1", "us-east-1a", 1), view("cr-2", "us-east-1a", 4), view("cr-3", "us-east-1b", 0)];
        let types = instance_types(&shipped, &class, &ResolveSettings::default());
        let m5 = types.iter().find(|t| t.name == "m5.large").unwrap();
        let ids = m5.requirements.iter().find(|one| one.key == CAPACITY_RESERVATION_ID).unwrap();
        assert_eq!(ids.values, ["cr-1", "cr-2", "cr-3"]);
        let c5 = types.iter().find(|t| t.name == "c5.large").unwrap();
        let none = c5.requirements.iter().find(|one| one.key == CAPACITY_RESERVATION_ID).unwrap();
        assert_eq!(none.operator, Operator::DoesNotExist, "no reservation is of that type");
        let mut request = asking(vec![], &[]);
        request.candidates = types.into_iter().map(Arc::new).collect();
        let selection = select(&request).unwrap();
        assert_eq!((selection.capacity_type, selection.candidates.len()), (RESERVED, 1));
        let held: Vec<_> = selection.candidates[0].offerings.iter().map(|one| one.reservation().unwrap()).collect();
        assert_eq!(held, ["cr-2"]);
        request.requirements = vec![one_of(CAPACITY_TYPE, &[ON_DEMAND])];
        assert_eq!(select(&request).unwrap().capacity_type, ON_DEMAND);
    }

    #[test]
    fn nothing_left_is_a_want_of_capacity() {
        let nowhere = asking(vec![one_of("topology.kubernetes.io/zone", &["us-east-1f"])], &[]);
        assert_eq!(select(&nowhere).unwrap_err().kind, LaunchErrorKind::InsufficientCapacity);
    }

    #[test]
    fn min_values_keep_exotic_types_and_are_checked_at_the_end() {
        let mut families = NodeSelectorRequirement::new(
            "karpenter.k8s.aws/instance-family",
            Operator::In,
            ["m5", "c5"].map(String::from),
        );
        families.min_values = Some(2);
        let mut request = asking(vec![families], &[("cpu", "90")]);
        assert!(select(&request).unwrap().candidates.iter().any(|c| c.instance_type.name == "m5.metal"));
        request.requirements[0].min_values = Some(3);
        assert!(select(&request).unwrap_err().message.contains("minValues"));
    }
}
