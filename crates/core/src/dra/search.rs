//! Search of devices for claims at one place: depth-first over claims, requests, their alternatives and devices, the first
//! complete solution. Devices that are alike are tried once, and the steps are bounded: a search that meets its bound is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claim::{Alternative, ClassSelectors, MOST_DEVICES, Wish};
use super::device::{CounterName, Device, DeviceId};
use super::selector::{Answer, Selectors};
use super::slice::Pool;
use super::walk::{Prepared, Walk, spend};

/// Steps of the search for one pod at one place at most, those of its selectors included: some tenths of a second, and no clock
/// decides.
pub const MOST_STEPS: u64 = 1_000_000;
/// Most bytes of a selector that a reason repeats.
const SELECTOR_SHOWN: usize = 200;

/// A device at a place.
#[derive(Debug)]
pub(super) struct Candidate {
    pub id: DeviceId,
    pub pool: usize,
    pub device: Arc<Device>,
    /// The same for devices of one pool that are alike.
    pub kind: (usize, u32),
}

/// All devices that can be used from a place, whoever has them.
#[derive(Debug, Default)]
pub struct Devices {
    pub(super) candidates: Vec<Candidate>,
    pools: Vec<Pool>,
}

impl Devices {
    /// The devices of pools, in their order.
    #[must_use]
    pub fn new(pools: Vec<Pool>, selectors: &mut Selectors) -> Self {
        let mut candidates = Vec::new();
        for (at, pool) in pools.iter().enumerate() {
            candidates.extend(pool.devices.iter().map(|device| Candidate {
                id: pool.id_of(device),
                pool: at,
                device: device.clone(),
                kind: (at, selectors.number_of(&device.traits)),
            }));
        }
        Self { candidates, pools }
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }
}

/// The devices of a place, and those of them that are taken.
#[derive(Clone, Debug, Default)]
pub struct Place {
    pub(super) devices: Arc<Devices>,
    pub(super) taken: Vec<bool>,
    /// Amounts that are left of the counters of each pool.
    left: Vec<BTreeMap<CounterName, i64>>,
}

impl Place {
    /// A place with the devices `taken` in use. One that takes more of a counter than there is leaves less than nothing.
    #[must_use]
    pub fn new(devices: Arc<Devices>, taken: &BTreeSet<DeviceId>) -> Self {
        let mut place = Self {
            taken: vec![false; devices.candidates.len()],
            left: devices.pools.iter().map(|pool| pool.counters.clone()).collect(),
            devices,
        };
        for at in 0..place.taken.len() {
            if taken.contains(&place.devices.candidates[at].id) {
                place.set(at, true);
            }
        }
        place
    }

    /// The drivers of the devices that are taken.
    pub fn drivers_in_use(&self) -> BTreeSet<&str> {
        let candidates = self.devices.candidates.iter().zip(&self.taken);
        candidates.filter(|(_, taken)| **taken).map(|(one, _)| one.id.driver.as_str()).collect()
    }

    /// True if there are no devices at all.
    #[must_use]
    pub fn has_none(&self) -> bool {
        self.devices.is_empty()
    }

    /// Takes a device or gives it back.
    pub(super) fn set(&mut self, at: usize, taken: bool) {
        if std::mem::replace(&mut self.taken[at], taken) == taken {
            return;
        }
        let candidate = &self.devices.candidates[at];
        for (name, amount) in &candidate.device.traits.consumes {
            let Some(left) = self.left[candidate.pool].get_mut(name) else { continue };
            *left = if taken { left.saturating_sub(*amount) } else { left.saturating_add(*amount) };
        }
    }

    /// True if its pool's counters have enough left for a device.
    pub(super) fn has_counters(&self, at: usize) -> bool {
        let candidate = &self.devices.candidates[at];
        let left = &self.left[candidate.pool];
        candidate.device.traits.consumes.iter().all(|(name, amount)| left.get(name).is_some_and(|left| left >= amount))
    }
}

/// A claim that is searched for, by the name under which it is reported.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// `namespace/name` of the claim.
    pub claim: &'a str,
    pub wish: &'a Wish,
}

/// A search for claims at a place.
pub struct Search<'a> {
    /// Selectors of DeviceClasses by name.
    pub classes: &'a BTreeMap<String, Arc<ClassSelectors>>,
    pub selectors: &'a mut Selectors,
    /// Steps that are left.
    pub steps: u64,
}

impl Search<'_> {
    /// Takes devices for all claims; where there are not enough, nothing is taken. Answers the devices of each claim.
    ///
    /// # Errors
    /// The reason that there are none.
    pub fn take_devices<'a>(
        &mut self,
        wishes: &'a [Wanted<'a>],
        place: &mut Place,
    ) -> Result<Vec<Vec<DeviceId>>, String> {
        let requests = self.prepare(wishes, place)?;
        let mut walk = Walk {
            chosen: vec![Vec::new(); wishes.len()],
            held: wishes.iter().map(|one| vec![None; one.wish.matches.len()]).collect(),
            requests,
            wishes,
            place: &mut *place,
            steps: &mut self.steps,
        };
        let found = walk.place_request(0, 0);
        if found.is_err() {
            let chosen: Vec<usize> = walk.chosen.iter().flatten().copied().collect();
            chosen.into_iter().for_each(|at| walk.place.set(at, false));
        }
        if found? {
            let candidates = &walk.place.devices.candidates;
            let ids = |all: &Vec<usize>| all.iter().map(|at| candidates[*at].id.clone()).collect();
            return Ok(walk.chosen.iter().map(ids).collect());
        }
        let Walk { requests, .. } = walk;
        Err(self.why_not(&requests, place))
    }

    fn prepare<'a>(&mut self, wishes: &[Wanted<'a>], place: &Place) -> Result<Vec<Vec<Vec<Prepared<'a>>>>, String> {
        let mut all = Vec::new();
        for one in wishes {
            let (mut requests, mut least) = (Vec::new(), 0_usize);
            for request in &one.wish.requests {
                let mut ways = Vec::new();
                for alternative in &request.alternatives {
                    ways.push(self.prepare_one(one.claim, &request.name, alternative, place)?);
                }
                least = least.saturating_add(ways.iter().map(|way| way.wanted).min().unwrap_or(0));
                requests.push(ways);
            }
            if least > MOST_DEVICES {
                let claim = one.claim;
                return Err(format!(
                    "ResourceClaim {claim} asks for {least} devices, and a claim has at most {MOST_DEVICES}"
                ));
            }
            all.push(requests);
        }
        Ok(all)
    }

    fn prepare_one<'a>(
        &mut self,
        claim: &'a str,
        request: &'a str,
        alternative: &'a Alternative,
        place: &Place,
    ) -> Result<Prepared<'a>, String> {
        let texts = self.texts_of(claim, alternative)?;
        for text in &texts {
            let named = |why| format!("selector {:?} of ResourceClaim {claim} cannot be used: {why}", shown(text));
            self.selectors.check(text).map_err(named)?;
        }
        if alternative.count.is_none() {
            all_are_usable(claim, request, &place.devices.pools)?;
        }
        let mut candidates = Vec::new();
        for (at, candidate) in place.devices.candidates.iter().enumerate() {
            let counts = place.devices.pools[candidate.pool].is_usable() && candidate.device.traits.set_aside.is_none();
            if !counts && alternative.count.is_some() {
                continue;
            }
            let answer = self.meets(&texts, claim, candidate)?;
            if alternative.count.is_none() {
                answer.clone()?;
            }
            if answer != Ok(false) {
                candidates.push((at, answer));
            }
        }
        let wanted = alternative.count.unwrap_or(candidates.len());
        Ok(Prepared { claim, request, alternative, candidates, wanted })
    }

    /// The selectors of the class, then those of the request.
    fn texts_of(&self, claim: &str, alternative: &Alternative) -> Result<Vec<String>, String> {
        let class = &alternative.class;
        let own = match self.classes.get(class).map(AsRef::as_ref) {
            Some(Ok(own)) => own,
            Some(Err(why)) => return Err(format!("DeviceClass {class} of ResourceClaim {claim}: {why}")),
            None => return Err(format!("DeviceClass {class} of ResourceClaim {claim} is not there")),
        };
        Ok(own.iter().chain(&alternative.selectors).cloned().collect())
    }

    /// The answer of all selectors for a device; the first that gives none ends it.
    fn meets(&mut self, texts: &[String], claim: &str, candidate: &Candidate) -> Result<Answer, String> {
        for text in texts {
            let traits = &candidate.device.traits;
            let (answer, steps) = self.selectors.matches(text, &candidate.id.driver, candidate.kind.1, traits);
            spend(&mut self.steps, steps.saturating_add(1))?;
            match answer {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(false)),
                Err(why) => {
                    let DeviceId { driver, pool, device } = &candidate.id;
                    let text = shown(text);
                    return Ok(Err(format!(
                        "selector {text:?} of ResourceClaim {claim} fails at device {device} of pool {pool} of {driver}: {why}"
                    )));
                }
            }
        }
        Ok(Ok(true))
    }

    /// The reason that devices are not enough: the first request that has too few, by the selector that leaves them.
    fn why_not(&mut self, requests: &[Vec<Vec<Prepared<'_>>>], place: &Place) -> String {
        if place.has_none() {
            return "it has no devices".into();
        }
        for request in requests.iter().flatten() {
            let too_few = |way: &Prepared<'_>| way.candidates.len() < way.wanted.max(1);
            if let Some(way) = request.first().filter(|_| request.iter().all(too_few)) {
                return self.too_few(way, place);
            }
        }
        for request in requests.iter().flatten() {
            let is_free = |at: usize| !place.taken[at] && place.has_counters(at);
            let free = |way: &Prepared<'_>| way.candidates.iter().filter(|(at, _)| is_free(*at)).count();
            if let Some(way) = request.first().filter(|_| request.iter().all(|way| free(way) < way.wanted)) {
                let Prepared { claim, request, wanted, .. } = way;
                let (free, all, needed) = (free(way), way.candidates.len(), devices(*wanted));
                return format!(
                    "request {request} of ResourceClaim {claim} needs {needed}: {free} of the {all} that match are free"
                );
            }
        }
        "its devices are not enough for all requests together with their constraints".into()
    }

    fn too_few(&mut self, way: &Prepared<'_>, place: &Place) -> String {
        let Prepared { claim, request, alternative, wanted, .. } = way;
        let needed = devices((*wanted).max(1));
        let mut rest: Vec<&Candidate> = place.devices.candidates.iter().collect();
        for text in self.texts_of(claim, alternative).unwrap_or_default() {
            let before = rest.len();
            rest.retain(|one| {
                self.selectors.matches(&text, &one.id.driver, one.kind.1, &one.device.traits).0 == Ok(true)
            });
            if rest.len() < (*wanted).max(1) {
                let (left, text) = (rest.len(), shown(&text));
                return format!(
                    "request {request} of ResourceClaim {claim} needs {needed}: selector {text:?} is met by {left} of {before}"
                );
            }
        }
        let aside = rest.iter().find_map(|one| one.device.traits.set_aside);
        match (aside, place.devices.pools.iter().find_map(|pool| pool.fault.as_ref())) {
            (Some(field), _) => {
                format!("request {request} of ResourceClaim {claim}: devices with {field} are not planned on")
            }
            (None, Some(fault)) => format!("request {request} of ResourceClaim {claim}: {fault}"),
            (None, None) => {
                format!("request {request} of ResourceClaim {claim} needs {needed}: there are too few")
            }
        }
    }
}

/// A number of devices in words.
fn devices(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} device{plural}")
}

/// A request for all devices needs to know them all.
fn all_are_usable(claim: &str, request: &str, pools: &[Pool]) -> Result<(), String> {
    let Some(Pool { driver, name, fault, .. }) = pools.iter().find(|pool| !pool.is_usable()) else { return Ok(()) };
    let why = fault.as_deref().unwrap_or("it is not complete yet");
    Err(format!(
        "request {request} of ResourceClaim {claim} is for all devices, and pool {name} of {driver} cannot be used: {why}"
    ))
}

/// The beginning of a selector.
fn shown(text: &str) -> &str {
    let end = (0..=SELECTOR_SHOWN.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}
