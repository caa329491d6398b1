//! Commitments as the account itself names them: believed within bounds, and an answer that all are gone only the second time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{Commitments, MOST, WrittenCommitment};

/// Time for which an answer counts where no other follows.
const ANSWER_COUNTS: SignedDuration = SignedDuration::from_hours(24);
/// No service has a longer id.
const LONGEST_ID: usize = 128;
/// Most ids whose reasons are kept.
const MOST_LEFT_OUT: usize = 100;

/// An answer of the account about one kind of its commitments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountAnswer {
    pub found: Vec<WrittenCommitment>,
    /// Reasons for which others are left out, by id.
    pub left_out: BTreeMap<String, String>,
    /// The reason that rates of Savings Plans are not known, if they are not: their usual discounts count.
    pub without_rates: Option<String>,
}

/// The meaning of an answer beside what was known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// It says what was known.
    Same,
    /// It says something else; with the ids of those that are gone before their ends.
    News { gone: Vec<String> },
    /// All that count are gone from it: it is not believed unless the next one says so too.
    Doubted,
}

/// One kind of the account's commitments, as they are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccountList {
    known: Vec<WrittenCommitment>,
    left_out: BTreeMap<String, String>,
    /// True if the last answer was not believed.
    doubted: bool,
    answered: Option<Timestamp>,
}

impl AccountList {
    /// Takes an answer; what makes no sense in it is left out.
    pub fn learn(&mut self, answer: AccountAnswer, now: Timestamp) -> Learned {
        let (found, left_out) = sift(answer, now);
        let counts = |one: &&WrittenCommitment| one.ends.is_none_or(|end| end > now);
        if found.is_empty() && !self.doubted && self.known.iter().any(|one| counts(&one)) {
            self.doubted = true;
            return Learned::Doubted;
        }
        let ids: BTreeSet<&str> = found.iter().map(|one| one.id.as_str()).collect();
        let known = self.known.iter().filter(counts).map(|one| &one.id);
        let gone = known.filter(|id| !ids.contains(id.as_str())).cloned().collect();
        let is_news = self.answered.is_none() || self.known != found || self.left_out != left_out;
        *self = Self { known: found, left_out, doubted: false, answered: Some(now) };
        if is_news { Learned::News { gone } } else { Learned::Same }
    }

    /// Those that are known; none once the last answer is a day old.
    #[must_use]
    pub fn counted(&self, now: Timestamp) -> &[WrittenCommitment] {
        let lasts = self.answered.is_some_and(|answered| now.duration_since(answered) < ANSWER_COUNTS);
        if lasts { &self.known } else { &[] }
    }

    /// Reasons for which commitments of the account do not count, by id.
    #[must_use]
    pub fn left_out(&self) -> &BTreeMap<String, String> {
        &self.left_out
    }
}

/// Parts an answer into what makes sense, in the order of the ids, and the reasons for which the rest does not. What has ended is
/// neither.
fn sift(answer: AccountAnswer, now: Timestamp) -> (Vec<WrittenCommitment>, BTreeMap<String, String>) {
    let AccountAnswer { found: mut all, mut left_out, .. } = answer;
    all.retain(|one| one.ends.is_none_or(|end| end > now));
    // In whatever order AWS names them, the same ones count.
    all.sort_by(|a, b| a.id.cmp(&b.id));
    let mut found: Vec<WrittenCommitment> = Vec::new();
    for one in all {
        let mistake = match one.read_checked(1.0) {
            _ if !is_id(&one.id) => "its id makes no sense".to_owned(),
            Err(what) => what,
            Ok(_) if found.last().is_some_and(|last| last.id == one.id) => continue,
            Ok(_) if found.len() >= MOST => format!("there are more than {MOST}"),
            Ok(_) => {
                found.push(one);
                continue;
            }
        };
        left_out.insert(one.id.chars().take(LONGEST_ID).collect(), mistake);
    }
    (found, left_out.into_iter().take(MOST_LEFT_OUT).collect())
}

fn is_id(id: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    (1..=LONGEST_ID).contains(&id.len()) && id.chars().all(allowed)
}

impl Commitments {
    /// Declared commitments, which have been checked, and those of the account whose ids are not declared. Each kind has its own
    /// bound, where it is read.
    #[must_use]
    pub fn with_account<'w>(
        declared: &'w [WrittenCommitment],
        account: impl IntoIterator<Item = &'w WrittenCommitment>,
        share: f64,
    ) -> Self {
        let ids: BTreeSet<&str> = declared.iter().map(|one| one.id.as_str()).collect();
        let others = account.into_iter().filter(|one| !ids.contains(one.id.as_str()));
        let all = declared.iter().chain(others).filter_map(|one| one.read_checked(share).ok());
        Self::new(all.collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::float_cmp)]
    use serde_json::{Value, json};

    use super::*;
    use crate::commitments::{Usage, Uses};

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(hour * 3600).unwrap()
    }

    fn instances(id: &str, count: u32) -> Value {
        json!({"id": id, "type": "reservedInstances", "instanceType": "m5.large", "count": count, "price": 0.06})
    }

    fn answer(all: Value) -> AccountAnswer {
        AccountAnswer { found: serde_json::from_value(all).unwrap(), ..AccountAnswer::default() }
    }

    fn ids(list: &AccountList, hour: i64) -> Vec<&str> {
        list.counted(at(hour)).iter().map(|one| one.id.as_str()).collect()
    }

    #[test]
    fn absurd_entries_are_left_out_with_reasons() {
        let mut far = instances("ended", 1);
        far["ends"] = json!("1970-01-01T01:00:00Z");
        let plan = |id: &str, dollars: f64| json!({"id": id, "type": "computeSavingsPlan", "dollarsPerHour": dollars});
        let mut rate = plan("rate", 1.0);
        rate["rates"] = json!({"m5.large": -1.0});
        let mut backwards = instances("backwards", 1);
        backwards["begins"] = json!("1970-01-03T00:00:00Z");
        backwards["ends"] = json!("1970-01-02T00:00:00Z");
        let all = [
            instances("ok", 1),
            instances("ok", 7),
            instances("none", 0),
            instances("many", 1_000_000),
            plan("negative", -1.0),
            plan("dear", 1e9),
            rate,
            backwards,
            instances("odd id\n", 1),
            far,
        ];
        let mut list = AccountList::default();
        assert_eq!(list.learn(answer(json!(all)), at(1)), Learned::News { gone: vec![] });
        assert_eq!(ids(&list, 1), ["ok"]);
        assert_eq!(list.counted(at(1))[0].count, Some(1), "the first of an id counts");
        let left_out: Vec<&str> = list.left_out().keys().map(String::as_str).collect();
        assert_eq!(left_out, ["backwards", "dear", "many", "negative", "none", "odd id\n", "rate"]);
    }

    #[test]
    fn thousands_count_no_further_than_the_bound() {
        let all: Vec<Value> = (0..3_000).map(|at| instances(&format!("r-{at}"), 1)).collect();
        let mut list = AccountList::default();
        list.learn(answer(json!(all)), at(0));
        assert_eq!((list.counted(at(0)).len(), list.left_out().len()), (MOST, MOST_LEFT_OUT));
    }

    #[test]
    fn the_same_ones_count_in_whatever_order_they_are_named() {
        let mut all: Vec<Value> = (0..MOST + 2).map(|at| instances(&format!("r-{at:03}"), 1)).collect();
        let mut list = AccountList::default();
        list.learn(answer(json!(all)), at(0));
        let left_out: Vec<&str> = list.left_out().keys().map(String::as_str).collect();
        assert_eq!(left_out, ["r-500", "r-501"]);
        all.reverse();
        assert_eq!(list.learn(answer(json!(all)), at(1)), Learned::Same);
    }

    #[test]
    fn no_kind_takes_the_place_of_another() {
        let some = |kind: &str| -> Vec<WrittenCommitment> {
            let all: Vec<Value> = (0..400).map(|at| instances(&format!("{kind}-{at}"), 1)).collect();
            answer(json!(all)).found
        };
        let (declared, first, second) = (some("a"), some("b"), some("c"));
        let all = Commitments::with_account(&declared, first.iter().chain(&second), 1.0);
        assert_eq!(all.iter().count(), 1_200);
    }

    #[test]
    fn sudden_emptiness_is_believed_the_second_time() {
        let mut list = AccountList::default();
        assert_eq!(list.learn(answer(json!([])), at(0)), Learned::News { gone: vec![] }, "nothing was known");
        list.learn(answer(json!([instances("a", 1), instances("b", 2)])), at(1));
        assert_eq!(list.learn(answer(json!([])), at(2)), Learned::Doubted);
        assert_eq!(ids(&list, 2), ["a", "b"]);
        let gone = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(list.learn(answer(json!([])), at(3)), Learned::News { gone });
        assert!(ids(&list, 3).is_empty());
        // Once they are there again, the next emptiness is doubted anew.
        list.learn(answer(json!([instances("a", 1)])), at(4));
        assert_eq!(list.learn(answer(json!([])), at(5)), Learned::Doubted);
        assert_eq!(list.learn(answer(json!([instances("a", 1)])), at(6)), Learned::Same);
    }

    #[test]
    fn emptiness_after_the_end_of_all_is_no_surprise() {
        let mut ends = instances("a", 1);
        ends["ends"] = json!("1970-01-01T02:00:00Z");
        let mut list = AccountList::default();
        list.learn(answer(json!([ends])), at(1));
        assert_eq!(list.learn(answer(json!([])), at(2)), Learned::News { gone: vec![] });
    }

    #[test]
    fn answers_count_for_a_day() {
        let mut list = AccountList::default();
        list.learn(answer(json!([instances("a", 1)])), at(1));
        assert_eq!((ids(&list, 24).len(), ids(&list, 25).len()), (1, 0));
    }

    #[test]
    fn declared_commitments_go_before_those_of_their_ids() {
        let declared: Vec<WrittenCommitment> = serde_json::from_value(json!([instances("a", 1)])).unwrap();
        let found = answer(json!([instances("a", 9), instances("b", 4)])).found;
        let all = Commitments::with_account(&declared, &found, 0.5);
        let costs: Vec<(&str, f64)> = all.iter().map(|one| (one.id.as_str(), one.cost)).collect();
        assert_eq!(costs, [("a", 0.03), ("b", 0.12)], "the share holds for both");
    }

    #[test]
    fn rates_go_before_discounts_and_are_bounded_by_prices() {
        let plan = json!([{"id": "s", "type": "computeSavingsPlan", "dollarsPerHour": 10.0, "discount": 0.5,
            "rates": {"m5.large": 0.08, "m5.xlarge": 7.0, "m5.2xlarge": 0.0}}]);
        let all = Commitments::with_account(&[], &answer(plan).found, 1.0);
        let left = |instance_type: &str, linux: bool| {
            let usage = Usage { instance_type: instance_type.into(), zone: "a".into(), price: 0.1, linux };
            let uses: Uses = [usage].into_iter().collect();
            let left = all.allocate(&uses).left[0];
            ((10.0 - left) * 1e6_f64).round() / 1e6
        };
        assert_eq!(left("m5.large", true), 0.08, "its rate");
        assert_eq!(left("m5.large", false), 0.05, "rates are for Linux");
        assert_eq!(left("c5.large", true), 0.05, "no rate");
        assert_eq!(left("m5.xlarge", true), 0.1, "no more than the price");
        assert_eq!(left("m5.2xlarge", true), 0.01, "no less than a tenth of it");
    }
}
