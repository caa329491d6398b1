//! Offerings as offering bits: every distinct (zone, capacity type, further labels) is one bit of a mask.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::bits::Bits;
use super::ids::{IndexVec, InstanceTypeId, OfferingId};
use super::numbers::len_of;
use crate::instance_type::is_marked;
use crate::labels;
use crate::problem::Problem;
use crate::requirements::{NodeSelectorRequirement, Requirement, Requirements};

/// A set of offering bits.
pub(crate) type Mask = u128;

/// Largest number of distinct offering bits; AWS has no region with half as many.
pub(crate) const MOST_OFFERING_BITS: usize = 128;

impl OfferingId {
    #[inline]
    pub fn bit(self) -> Mask {
        1 << self.index()
    }

    #[inline]
    pub fn is_in(self, mask: Mask) -> bool {
        mask & self.bit() != 0
    }
}

/// One way of buying, with the labels that it gives a node.
#[derive(Debug)]
pub(crate) struct OfferingBit {
    pub zone: String,
    pub capacity_type: String,
    extra: Vec<NodeSelectorRequirement>,
    labels: Requirements,
}

/// All ways of buying, with the price of each type in each.
#[derive(Debug)]
pub(crate) struct Offers {
    pub offering_bits: IndexVec<OfferingId, OfferingBit>,
    /// Label keys that depend on the offering bit.
    pub keys: BTreeSet<String>,
    available: IndexVec<InstanceTypeId, Mask>,
    /// Dollars an hour by type, then by offering bit.
    price: Vec<f64>,
    /// The offering bits of reserved capacity.
    pub reserved: Mask,
    /// The capacity reservations, in the order of their first offering bit.
    pub reservations: Vec<Reservation>,
    /// Spot offering bits in which nothing costs less than on demand, with the offering bit that is as cheap.
    pointless: Vec<(OfferingId, OfferingId)>,
    by_mask: RefCell<FxHashMap<Mask, Rc<Bought>>>,
}

/// A capacity reservation: instances that are paid for whether they run or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// Its id; empty if it has none.
    pub id: String,
    /// The offering bits that are of it.
    pub offering_bits: Mask,
    /// Number of its instances that are left; no bound if `None`.
    pub left: Option<u32>,
}

/// Types and prices that a set of offering bits makes available.
#[derive(Debug)]
pub(crate) struct Bought {
    /// Types that are available in any of the offering bits.
    pub types: Bits,
    /// Lowest price of each type in them, in dollars an hour.
    pub price: IndexVec<InstanceTypeId, f64>,
    /// The types by price, then by name.
    pub order: Vec<InstanceTypeId>,
}

impl OfferingBit {
    /// The zone or the capacity type, whichever a key names.
    pub fn label(&self, key: &str) -> &str {
        if key == labels::ZONE { &self.zone } else { &self.capacity_type }
    }

    /// The id of the capacity reservation that it is of.
    pub fn reservation(&self) -> Option<&str> {
        let id = self.extra.iter().find(|one| one.key == labels::CAPACITY_RESERVATION_ID);
        id.and_then(|id| id.values.first()).map(String::as_str)
    }
}

/// True if an offering can be bought now, at a valid price.
fn is_there(offering: &crate::Offering) -> bool {
    let priced = offering.price.is_finite() && offering.price >= 0.0;
    offering.available && priced && offering.reservation_capacity != Some(0)
}

impl Offers {
    /// Reads the offerings of the types in `universe`.
    pub fn from_problem(problem: &Problem, universe: &Bits) -> Self {
        let mut offers = Self {
            offering_bits: IndexVec::new(),
            keys: BTreeSet::from([labels::ZONE.to_owned(), labels::CAPACITY_TYPE.to_owned()]),
            available: IndexVec::from_elem(0, problem.instance_types.len()),
            price: vec![],
            reserved: 0,
            reservations: vec![],
            pointless: vec![],
            by_mask: RefCell::default(),
        };
        let mut found = Vec::new();
        let mut last = OfferingId::FIRST;
        let mut read = |at: InstanceTypeId, offering: &crate::Offering| {
            let offering_bit = offers.offering_bit(offering, last)?;
            last = offering_bit;
            found.push((at, offering_bit, offering.price));
            offers.available[at] |= offering_bit.bit();
            Some(offering_bit)
        };
        // Reserved capacity last: however many reservations there are, they leave the others their offering bits.
        let mut reserved = Vec::new();
        for at in universe.iter() {
            for offering in problem.instance_types[at].offerings.iter().filter(|one| is_there(one)) {
                match offering.capacity_type == labels::RESERVED || offering.reservation().is_some_and(is_marked) {
                    true => reserved.push((at, offering)),
                    false => _ = read(at, offering),
                }
            }
        }
        // Offerings of commitments come after all reservations: they are the first that may find no offering bit.
        reserved.sort_by_key(|(_, one)| one.reservation().is_some_and(is_marked));
        let offering_bits =
            reserved.into_iter().filter_map(|(at, one)| Some((read(at, one)?, one.reservation_capacity)));
        let offering_bits: Vec<(OfferingId, Option<u32>)> = offering_bits.collect();
        offering_bits.into_iter().for_each(|(offering_bit, left)| offers.reserve(offering_bit, left));
        let width = offers.offering_bits.len();
        offers.price = vec![f64::INFINITY; width * problem.instance_types.len()];
        for (at, offering_bit, price) in found {
            let slot = &mut offers.price[at.index() * width + offering_bit.index()];
            *slot = slot.min(price);
        }
        offers.pointless = offers.find_pointless();
        offers
    }

    /// Notes that an offering bit is of a reservation that has `left` instances.
    fn reserve(&mut self, offering_bit: OfferingId, left: Option<u32>) {
        self.reserved |= offering_bit.bit();
        let id = self.offering_bits[offering_bit].reservation().unwrap_or_default();
        let same = |one: &&mut Reservation| one.id == id && (!id.is_empty() || offering_bit.is_in(one.offering_bits));
        match self.reservations.iter_mut().find(same) {
            Some(known) => {
                known.offering_bits |= offering_bit.bit();
                known.left = known.left.into_iter().chain(left).min();
            }
            None => self.reservations.push(Reservation { id: id.to_owned(), offering_bits: offering_bit.bit(), left }),
        }
    }

    fn find_pointless(&self) -> Vec<(OfferingId, OfferingId)> {
        let width = self.offering_bits.len();
        let alike = |a: &OfferingBit, b: &OfferingBit| a.zone == b.zone && a.extra == b.extra;
        let mut found = Vec::new();
        for (spot, offering_bit) in
            self.offering_bits.enumerate().filter(|(_, offering_bit)| offering_bit.capacity_type == labels::SPOT)
        {
            let on_demand =
                |other: &&OfferingBit| other.capacity_type == labels::ON_DEMAND && alike(offering_bit, other);
            // On demand in the same zone, with the same further labels.
            let Some(other) = self.offering_bits.position(|other| on_demand(&other)) else { continue };
            let mut rows = self.price.chunks(width);
            if rows.all(|price| price[other.index()] <= price[spot.index()]) {
                found.push((spot, other));
            }
        }
        found
    }

    /// The offering bits without those of spot capacity that saves nothing: it can be taken back, and costs as much.
    pub fn worthwhile(&self, mask: Mask) -> Mask {
        let pointless = self.pointless.iter().filter(|(_, other)| other.is_in(mask));
        pointless.fold(mask, |mask, (spot, _)| mask & !spot.bit())
    }

    /// The offering bit of an offering, starting the search after the one found last.
    fn offering_bit(&mut self, offering: &crate::Offering, last: OfferingId) -> Option<OfferingId> {
        let extra = || offering.requirements.iter().filter(|written| !offering.repeats(written));
        let plain = extra().next().is_none();
        let same = |offering_bit: &OfferingBit| {
            offering_bit.capacity_type == offering.capacity_type
                && offering_bit.zone == offering.zone
                && offering_bit.extra.is_empty() == plain
                && (plain || offering_bit.extra.iter().eq(extra()))
        };
        let count = self.offering_bits.len();
        // Types list their offerings in the same order, so the next one is nearly always the one after the last.
        let mut all = (0..count).map(|step| OfferingId::from((last.index() + 1 + step) % count));
        if let Some(known) = all.find(|at| same(&self.offering_bits[*at])) {
            return Some(known);
        }
        if count == MOST_OFFERING_BITS {
            return None;
        }
        let mut read = Requirements::new();
        read.add(labels::ZONE, Requirement::one_of([offering.zone.as_str()]));
        read.add(labels::CAPACITY_TYPE, Requirement::one_of([offering.capacity_type.as_str()]));
        for written in extra() {
            let requirement = Requirement::from_written(written).unwrap_or_else(|_| Requirement::does_not_exist());
            read.add(&written.key, requirement);
            self.keys.insert(labels::stable(&written.key).to_owned());
        }
        Some(self.offering_bits.push(OfferingBit {
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type.clone(),
            extra: extra().cloned().collect(),
            labels: read,
        }))
    }

    /// Every offering bit.
    pub fn all(&self) -> Mask {
        if self.offering_bits.len() == MOST_OFFERING_BITS { !0 } else { (1 << self.offering_bits.len()) - 1 }
    }

    /// The offering bits that satisfy requirements, as far as these speak of what depends on the offering bit.
    pub fn select(&self, wanted: &Requirements) -> Mask {
        let mut mask = self.all();
        for key in &self.keys {
            let Some(requirement) = wanted.get(key) else { continue };
            for (at, offering_bit) in self.offering_bits.enumerate() {
                // Nodes that commitments cover are bought on demand, and get no label of a reservation.
                let is_covered = || offering_bit.reservation().is_some_and(is_marked);
                let good = match offering_bit.labels.get(key) {
                    Some(_) if key == labels::CAPACITY_RESERVATION_ID && is_covered() => requirement.allows_absence(),
                    Some(own) => own.intersects(requirement),
                    None => requirement.allows_absence(),
                };
                if !good {
                    mask &= !at.bit();
                }
            }
        }
        mask
    }

    pub fn with(&self, test: impl Fn(&OfferingBit) -> bool) -> Mask {
        let all = self.offering_bits.enumerate().filter(|(_, offering_bit)| test(offering_bit));
        all.fold(0, |mask, (at, _)| mask | at.bit())
    }

    /// The offering bits of a set, in order.
    pub fn within(&self, mask: Mask) -> impl Iterator<Item = (OfferingId, &OfferingBit)> + Clone {
        self.offering_bits.enumerate().filter(move |(at, _)| at.is_in(mask))
    }

    pub fn available(&self, at: InstanceTypeId) -> Mask {
        self.available[at]
    }

    /// A type's lowest price within a mask and its offering bit, the first of equals.
    pub fn cheapest(&self, at: InstanceTypeId, mask: Mask) -> (f64, OfferingId) {
        let width = self.offering_bits.len();
        let mut left = self.available[at] & mask;
        let mut best = (f64::INFINITY, OfferingId::FIRST);
        let prices = &self.price[at.index() * width..(at.index() + 1) * width];
        while left != 0 {
            let offering_bit = len_of(left.trailing_zeros());
            left &= left - 1;
            // Strictly less, so that of equal prices the first counts.
            if prices[offering_bit] < best.0 {
                best = (prices[offering_bit], OfferingId::from(offering_bit));
            }
        }
        best
    }

    /// Types and prices that a set of offering bits makes available; computed once for each set.
    pub fn bought(&self, mask: Mask, problem: &Problem) -> Rc<Bought> {
        if let Some(known) = self.by_mask.borrow().get(&mask) {
            return Rc::clone(known);
        }
        let count = self.available.len();
        let price: IndexVec<InstanceTypeId, f64> = self.available.ids().map(|at| self.cheapest(at, mask).0).collect();
        let mut order: Vec<InstanceTypeId> =
            self.available.ids().filter(|at| self.available[*at] & mask != 0).collect();
        let name = |at: InstanceTypeId| problem.instance_types[at].name.as_str();
        order.sort_unstable_by(|a, b| price[*a].total_cmp(&price[*b]).then_with(|| name(*a).cmp(name(*b))));
        let mut types = Bits::empty(count);
        order.iter().for_each(|at| types.insert(*at));
        let bought = Rc::new(Bought { types, price, order });
        self.by_mask.borrow_mut().insert(mask, Rc::clone(&bought));
        bought
    }
}
