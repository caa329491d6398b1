//! The walk of a search: depth-first, devices that are alike tried once, within a bound of steps.

use super::claim::{Alternative, MOST_DEVICES};
use super::device::AttributeValue;
use super::search::{Candidate, Place, Wanted};
use super::selector::Answer;

/// Steps of a trial of one device.
const STEPS_A_DEVICE: u64 = 10;

/// An alternative with the devices that it is about.
pub(super) struct Prepared<'a> {
    pub claim: &'a str,
    pub request: &'a str,
    pub alternative: &'a Alternative,
    /// Devices that are meant or of which it is not known, in the order of the place.
    pub candidates: Vec<(usize, Answer)>,
    /// Number of devices.
    pub wanted: usize,
}

/// Value that the devices of a rule have so far, and their number.
pub(super) type Held = Option<(AttributeValue, usize)>;

/// A search under way.
pub(super) struct Walk<'a, 'p> {
    pub requests: Vec<Vec<Vec<Prepared<'a>>>>,
    pub wishes: &'a [Wanted<'a>],
    pub place: &'p mut Place,
    pub chosen: Vec<Vec<usize>>,
    pub held: Vec<Vec<Held>>,
    pub steps: &'p mut u64,
}

/// Takes steps off those that are left.
///
/// # Errors
/// Says that there are too few.
pub(super) fn spend(left: &mut u64, steps: u64) -> Result<(), String> {
    match left.checked_sub(steps) {
        Some(rest) => {
            *left = rest;
            Ok(())
        }
        None => {
            *left = 0;
            Err("the search for devices takes too many steps".into())
        }
    }
}

impl Walk<'_, '_> {
    /// Finds devices for a request and all that follow.
    pub fn place_request(&mut self, claim: usize, request: usize) -> Result<bool, String> {
        let Some(requests) = self.requests.get(claim) else { return Ok(true) };
        let Some(ways) = requests.get(request) else { return self.place_request(claim + 1, 0) };
        for way in 0..ways.len() {
            let way_wanted = self.requests[claim][request][way].wanted;
            // "All" of nothing is not met.
            if way_wanted == 0 || self.chosen[claim].len() + way_wanted > MOST_DEVICES {
                continue;
            }
            if self.fill([claim, request, way], 0, 0)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds the `nth` device of a request and all that follow, among its candidates from `from` on.
    fn fill(&mut self, at: [usize; 3], nth: usize, from: usize) -> Result<bool, String> {
        let [claim, request, way] = at;
        let (count, wanted, is_all) = {
            let one = &self.requests[claim][request][way];
            (one.candidates.len(), one.wanted, one.alternative.count.is_none())
        };
        if nth == wanted {
            return self.place_request(claim, request + 1);
        }
        let mut failed: Vec<(usize, u32)> = Vec::new();
        for next in from..count {
            spend(self.steps, STEPS_A_DEVICE)?;
            let (device, answer) = self.requests[claim][request][way].candidates[next].clone();
            let Candidate { kind, device: own, .. } = &self.place.devices.candidates[device];
            let (kind, stays) = (*kind, own.traits.set_aside.is_none());
            if !self.place.taken[device] && !failed.contains(&kind) {
                answer?;
                if stays && self.place.has_counters(device) && self.holds(at, device) {
                    self.choose(at, device);
                    if self.fill(at, nth + 1, next + 1)? {
                        return Ok(true);
                    }
                    self.give_back(at, device);
                }
                failed.push(kind);
            }
            if is_all {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Rules of a claim that are about an alternative.
    fn rules(&self, [claim, request, way]: [usize; 3]) -> impl Iterator<Item = usize> + use<> {
        let one = &self.requests[claim][request][way];
        let rules = self.wishes[claim].wish.matches.iter().enumerate();
        let about = rules.filter(|(_, rule)| {
            rule.requests.is_empty()
                || rule.requests.contains(one.request)
                || rule.requests.contains(&one.alternative.name)
        });
        about.map(|(at, _)| at).collect::<Vec<_>>().into_iter()
    }

    fn value_of(&self, claim: usize, rule: usize, device: usize) -> Option<&AttributeValue> {
        let attribute = &self.wishes[claim].wish.matches[rule].attribute;
        self.place.devices.candidates[device].device.traits.attributes.get(attribute)
    }

    /// True if a device has the values that the rules ask for.
    fn holds(&self, at: [usize; 3], device: usize) -> bool {
        self.rules(at).all(|rule| match (self.value_of(at[0], rule, device), &self.held[at[0]][rule]) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(own), Some((value, _))) => own == value,
        })
    }

    fn choose(&mut self, at: [usize; 3], device: usize) {
        for rule in self.rules(at) {
            let Some(value) = self.value_of(at[0], rule, device).cloned() else { continue };
            self.held[at[0]][rule].get_or_insert((value, 0)).1 += 1;
        }
        self.chosen[at[0]].push(device);
        self.place.set(device, true);
    }

    fn give_back(&mut self, at: [usize; 3], device: usize) {
        for rule in self.rules(at) {
            let held = &mut self.held[at[0]][rule];
            if let Some((_, count)) = held {
                *count -= 1;
                if *count == 0 {
                    *held = None;
                }
            }
        }
        self.chosen[at[0]].pop();
        self.place.set(device, false);
    }
}
