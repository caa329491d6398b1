//! Zones that the cluster is shifted away from (Amazon Application Recovery Controller, ARC): no node is launched there, and no node
//! there is disrupted by our own decision, until the shift ends. Which zones those are is told from outside, so it is believed
//! within bounds: an answer counts for a while and no longer than it says, and never for all zones that there are.
//! Source: karpenter-aws 5.2.

use std::collections::BTreeMap;
use std::sync::Arc;

use dovetail_api::names::labels::{ZONE, ZONE_ID};
use jiff::{SignedDuration, Timestamp};

/// Time for which an answer counts while no other comes.
pub const TRUSTED: SignedDuration = SignedDuration::from_mins(15);
/// Most shifts of an answer that count: more than a region has zones.
const MOST: usize = 64;

/// A shift that is in effect, as ARC has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneShift {
    /// Id of the zone, `use1-az1`.
    pub zone: String,
    /// Its end; none for an autoshift, which AWS ends.
    pub until: Option<Timestamp>,
}

/// The last answer about shifts.
#[derive(Clone, Debug, Default)]
pub struct ShiftAnswer(Option<(Vec<ZoneShift>, Timestamp)>);

impl ShiftAnswer {
    /// Takes an answer in place of the one before.
    pub fn learn(&mut self, mut shifts: Vec<ZoneShift>, now: Timestamp) {
        shifts.truncate(MOST);
        self.0 = Some((shifts, now));
    }

    /// True once there was an answer.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.0.is_some()
    }

    /// The zones that count as shifted away from at `now`, out of `zones`, names by id.
    ///
    /// # Errors
    /// All zones would be: with none left to go to, the answer helps nobody.
    pub fn counted(&self, zones: &BTreeMap<String, String>, now: Timestamp) -> Result<ShiftedZones, AllShifted> {
        let Some((shifts, answered)) = &self.0 else { return Ok(ShiftedZones::default()) };
        let trusted = answered.checked_add(TRUSTED).unwrap_or(Timestamp::MAX);
        if now >= trusted {
            return Ok(ShiftedZones::default());
        }
        let mut found: BTreeMap<String, Shifted> = BTreeMap::new();
        for shift in shifts.iter().filter(|shift| shift.until.is_none_or(|until| now < until)) {
            let known = zones.iter().find(|(id, name)| **id == shift.zone || **name == shift.zone);
            let (id, name) = known.map_or((&shift.zone, &shift.zone), |(id, name)| (id, name));
            let one = found.entry(id.clone()).or_insert_with(|| Shifted { name: name.clone(), until: shift.until });
            // The later end of two shifts counts, and one that AWS ends is the last.
            one.until = one.until.zip(shift.until).map(|(own, other)| own.max(other));
        }
        if !zones.is_empty() && zones.keys().all(|id| found.contains_key(id)) {
            return Err(AllShifted);
        }
        Ok(ShiftedZones(Arc::new(found)))
    }
}

/// An answer by which every zone is shifted away from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllShifted;

/// A zone that the cluster is shifted away from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shifted {
    /// Name of the zone, its id where that is not known.
    pub name: String,
    /// End of the shift, where it has one.
    pub until: Option<Timestamp>,
}

/// Zones that the cluster is shifted away from, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShiftedZones(Arc<BTreeMap<String, Shifted>>);

impl ShiftedZones {
    /// The zones, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Shifted)> {
        self.0.iter().map(|(id, one)| (id.as_str(), one))
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The shift of a zone, given by its id or its name.
    #[must_use]
    pub fn of_zone(&self, zone: &str) -> Option<&Shifted> {
        self.0.get(zone).or_else(|| self.0.values().find(|one| one.name == zone))
    }

    /// The shift of the zone that labels name.
    #[must_use]
    pub fn of_labels(&self, labels: &BTreeMap<String, String>) -> Option<&Shifted> {
        if self.0.is_empty() {
            return None;
        }
        [ZONE_ID, ZONE].into_iter().find_map(|key| self.of_zone(labels.get(key)?))
    }
}

impl std::fmt::Display for Shifted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.until {
            Some(until) => write!(f, "the cluster is shifted away from zone {} until {until}", self.name),
            None => write!(f, "the cluster is shifted away from zone {} until AWS ends that", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(60 * minutes).unwrap()
    }

    fn zones() -> BTreeMap<String, String> {
        ["a", "b", "c"].map(|zone| (format!("use1-az-{zone}"), format!("us-east-1{zone}"))).into()
    }

    fn shift(zone: &str, until: Option<i64>) -> ZoneShift {
        ZoneShift { zone: zone.to_owned(), until: until.map(at) }
    }

    fn counted(shifts: Vec<ZoneShift>, minutes: i64) -> Result<Vec<String>, AllShifted> {
        let mut answer = ShiftAnswer::default();
        answer.learn(shifts, at(0));
        Ok(answer.counted(&zones(), at(minutes))?.iter().map(|(_, one)| one.to_string()).collect())
    }

    #[test]
    fn a_shift_counts_until_its_end_while_it_is_confirmed() {
        let said = ["the cluster is shifted away from zone us-east-1b until 1970-01-01T00:10:00Z"];
        assert_eq!(counted(vec![shift("use1-az-b", Some(10))], 9).unwrap(), said);
        assert_eq!(counted(vec![shift("use1-az-b", Some(10))], 10).unwrap(), [""; 0]);
        assert_eq!(counted(vec![shift("use1-az-b", Some(100))], 14).unwrap().len(), 1);
        assert_eq!(counted(vec![shift("use1-az-b", Some(100))], 15).unwrap(), [""; 0], "nobody has confirmed it");
        assert_eq!(counted(vec![shift("use1-az-b", None)], 14).unwrap().len(), 1);
        assert_eq!(counted(vec![], 0).unwrap(), [""; 0]);
        assert!(ShiftAnswer::default().counted(&zones(), at(0)).unwrap().is_empty());
    }

    #[test]
    fn an_answer_never_takes_all_zones_away() {
        let all = || ["a", "b", "c"].map(|zone| shift(&format!("use1-az-{zone}"), Some(10))).to_vec();
        assert_eq!(counted(all(), 0), Err(AllShifted));
        assert_eq!(counted(all()[1..].to_vec(), 0).unwrap().len(), 2);
        assert_eq!(counted(all(), 10).unwrap(), [""; 0], "they are over");
        let many = (0..10_000).map(|number| shift(&format!("z{number}"), None)).collect();
        assert_eq!(counted(many, 0).unwrap().len(), MOST);
        let mut answer = ShiftAnswer::default();
        answer.learn(all(), at(0));
        assert_eq!(answer.counted(&BTreeMap::new(), at(0)).unwrap().iter().count(), 3, "no zone is known yet");
    }

    #[test]
    fn of_two_shifts_of_a_zone_the_later_end_counts() {
        let until = |shifts: Vec<ZoneShift>| counted(shifts, 0).unwrap()[0].split(" until ").last().unwrap().to_owned();
        let (early, late) = (shift("use1-az-a", Some(1)), shift("us-east-1a", Some(5)));
        assert_eq!(until(vec![early.clone(), late.clone()]), "1970-01-01T00:05:00Z", "one by its id, one by its name");
        assert_eq!(until(vec![late, early.clone()]), "1970-01-01T00:05:00Z");
        assert_eq!(until(vec![early, shift("use1-az-a", None)]), "AWS ends that");
    }

    #[test]
    fn a_node_is_found_by_the_id_or_the_name_of_its_zone() {
        let mut answer = ShiftAnswer::default();
        answer.learn(vec![shift("use1-az-b", None)], at(0));
        let zones = answer.counted(&zones(), at(0)).unwrap();
        let has = |key: &str, value: &str| zones.of_labels(&[(key.to_owned(), value.to_owned())].into()).is_some();
        assert!(has(ZONE, "us-east-1b") && has(ZONE_ID, "use1-az-b"));
        assert!(!has(ZONE, "us-east-1a") && !has(ZONE_ID, "use1-az-a") && !has("zone", "us-east-1b"));
        assert!(ShiftedZones::default().of_labels(&BTreeMap::new()).is_none());
    }
}
