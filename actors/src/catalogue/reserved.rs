//! Free capacity of reservations: EC2's last answer less the launches since.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_api::v1::{CapacityReservation, EC2NodeClassStatus};
use dovetail_cloud::launch::reserved::ReservationKind;
use dovetail_cloud::resolve::ReservationView;
use dovetail_core::disruption::expiring_from;
use jiff::Timestamp;

/// True for a capacity block that is about to end.
fn ends(one: &CapacityReservation, now: Timestamp) -> bool {
    let block =
        ReservationKind::from_status(&one.reservation_type, one.interruptible) == ReservationKind::CapacityBlock;
    one.end_time.as_ref().is_some_and(|end| block && expiring_from(end.0) <= now)
}

/// Free capacity of each reservation: EC2's last answer less the launches since.
#[derive(Debug, Default)]
pub struct Reserved {
    left: BTreeMap<String, u32>,
    /// Ids that classes have asked for.
    wanted: BTreeSet<String>,
    /// Taken while EC2 is being asked: its answer may not know of them.
    taken: BTreeMap<String, u32>,
    version: u64,
}

impl Reserved {
    /// Raised by every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A class's reservations with what is left of each; `None` while that is not known of all, which are wanted then.
    /// A capacity block that is about to end by now counts as left, whenever the class was looked up.
    pub fn views(&mut self, status: &EC2NodeClassStatus, now: Timestamp) -> Option<Vec<ReservationView>> {
        let all = status.capacity_reservations.iter();
        self.wanted.extend(all.clone().map(|one| one.id.clone()));
        let view = |one: &CapacityReservation| {
            Some(ReservationView {
                id: one.id.clone(),
                instance_type: one.instance_type.clone(),
                zone: one.availability_zone.clone(),
                kind: ReservationKind::from_status(&one.reservation_type, one.interruptible),
                active: one.state == "active" && !ends(one, now),
                left: *self.left.get(&one.id)?,
            })
        };
        all.map(view).collect()
    }

    /// EC2 did not answer: what is not known counts as nothing until it does. Says whether that is news.
    pub fn give_up(&mut self, asked: &[String]) -> bool {
        let before = self.left.len();
        asked.iter().for_each(|id| {
            self.left.entry(id.clone()).or_insert(0);
        });
        let news = self.left.len() > before;
        self.version += u64::from(news);
        news
    }

    /// True if a class wants a reservation that EC2 has not been asked about.
    pub fn lacks_any(&self) -> bool {
        self.wanted.iter().any(|id| !self.left.contains_key(id))
    }

    /// True if a class has that reservation.
    pub fn wants(&self, id: &str) -> bool {
        self.wanted.contains(id)
    }

    /// The ids to ask EC2 for, now.
    pub fn ask(&mut self) -> Vec<String> {
        self.taken.clear();
        self.wanted.iter().cloned().collect()
    }

    /// Takes EC2's answer for the ids asked for; an id that it leaves out has nothing free. Returns true if anything changed.
    pub fn learn(&mut self, asked: &[String], answer: &BTreeMap<String, u32>) -> bool {
        let mut news = false;
        for id in asked {
            let said = answer.get(id).copied().unwrap_or(0);
            let left = said.saturating_sub(self.taken.get(id).copied().unwrap_or(0));
            news |= self.left.insert(id.clone(), left) != Some(left);
        }
        self.version += u64::from(news);
        news
    }

    /// EC2 takes it back: nothing is left of it, also by an answer that is on its way. Says whether that is news.
    pub fn end(&mut self, id: &str) -> bool {
        self.taken.insert(id.to_owned(), u32::MAX);
        let news = self.left.insert(id.to_owned(), 0) != Some(0);
        self.version += u64::from(news);
        news
    }

    pub fn count_launch(&mut self, id: &str) {
        let taken = self.taken.entry(id.to_owned()).or_default();
        *taken = taken.saturating_add(1);
        if let Some(left) = self.left.get_mut(id) {
            *left = left.saturating_sub(1);
            self.version += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_unknown_until_first_answer_or_failed_call() {
        let one = serde_json::json!({"availabilityZone": "a", "id": "cr-1", "instanceMatchCriteria": "targeted",
            "instanceType": "m5.large", "ownerID": "1"});
        let status = serde_json::from_value::<EC2NodeClassStatus>(serde_json::json!({"capacityReservations": [one]}));
        let status = status.unwrap_or_default();
        let mut reserved = Reserved::default();
        assert_eq!(reserved.views(&status, Timestamp::UNIX_EPOCH), None);
        assert!(reserved.lacks_any());
        let asked = reserved.ask();
        assert!(reserved.give_up(&asked), "a call that fails holds nothing up");
        assert_eq!(reserved.views(&status, Timestamp::UNIX_EPOCH).map(|all| all[0].left), Some(0));
        reserved.learn(&asked, &BTreeMap::from([("cr-1".to_owned(), 2)]));
        assert_eq!(reserved.views(&status, Timestamp::UNIX_EPOCH).map(|all| all[0].left), Some(2));
    }

    #[test]
    fn capacity_block_is_inactive_forty_minutes_before_its_end() {
        let one = serde_json::json!({"availabilityZone": "a", "id": "cr-1", "instanceMatchCriteria": "targeted",
            "instanceType": "m5.large", "ownerID": "1", "reservationType": "capacity-block",
            "endTime": "1970-01-01T02:00:00Z"});
        let status = serde_json::from_value::<EC2NodeClassStatus>(serde_json::json!({"capacityReservations": [one]}));
        let (status, mut reserved) = (status.unwrap_or_default(), Reserved::default());
        reserved.learn(&["cr-1".to_owned()], &BTreeMap::from([("cr-1".to_owned(), 1)]));
        let mut active = |seconds: i64| {
            let now = Timestamp::from_second(seconds).unwrap_or_default();
            reserved.views(&status, now).is_some_and(|all| all[0].active)
        };
        assert_eq!((active(80 * 60 - 1), active(80 * 60)), (true, false));
    }

    #[test]
    fn ended_reservation_has_none_left_until_ec2_is_asked_again() {
        let mut reserved = Reserved::default();
        let (asked, answer) = (vec!["cr-1".to_owned()], BTreeMap::from([("cr-1".to_owned(), 5)]));
        reserved.learn(&asked, &answer);
        reserved.ask();
        assert!(reserved.end("cr-1") && !reserved.end("cr-1"));
        reserved.learn(&asked, &answer);
        assert_eq!(reserved.left["cr-1"], 0, "the answer was on its way");
        reserved.ask();
        reserved.learn(&asked, &answer);
        assert_eq!(reserved.left["cr-1"], 5);
    }

    #[test]
    fn what_is_launched_while_ec2_is_asked_is_taken_off_its_answer() {
        let mut reserved = Reserved::default();
        let answer = BTreeMap::from([("cr-1".to_owned(), 5)]);
        let asked = vec!["cr-1".to_owned(), "cr-gone".to_owned()];
        assert!(reserved.learn(&asked, &answer));
        assert!(!reserved.learn(&asked, &answer), "the same is no news");
        reserved.count_launch("cr-1");
        assert_eq!((reserved.left["cr-1"], reserved.left["cr-gone"]), (4, 0));
        reserved.ask();
        reserved.count_launch("cr-1");
        reserved.learn(&asked, &answer);
        assert_eq!(reserved.left["cr-1"], 4, "the first launch is in the answer, the second may not be");
    }
}
