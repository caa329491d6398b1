#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use serde_json::json;

use super::*;

const HOUR: SignedDuration = SignedDuration::from_hours(1);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn interrupted(claim: &str, second: i64) -> Interrupted {
    let (instance_type, zone) = ("m5.large".to_owned(), "a".to_owned());
    Interrupted { at: at(second), claim: claim.to_owned(), instance_type, zone }
}

fn of_claims(claims: &[(&str, i64)]) -> Interruptions {
    let mut all = Interruptions::default();
    claims.iter().for_each(|(claim, second)| all.add(interrupted(claim, *second)));
    all
}

/// The prices of a type on spot and on demand in two zones, after these interruptions.
fn prices(all: &Interruptions, now: i64) -> Vec<f64> {
    let offering = |zone: &str, kind: &str, price: f64| json!({"zone": zone, "capacityType": kind, "price": price, "available": true});
    let one = json!({"name": "m5.large", "capacity": {"cpu": "2"}, "requirements": [], "offerings": [
        offering("a", "spot", 1.0), offering("b", "spot", 1.0), offering("a", "on-demand", 3.0)]});
    let mut types = vec![Arc::new(serde_json::from_value::<InstanceType>(one).unwrap())];
    PriceMultiples::of_all([all], HOUR, at(now)).apply(&mut types);
    assert!(
        types[0].offerings.iter().all(|one| one.billed_price() == if one.capacity_type == "spot" { 1.0 } else { 3.0 })
    );
    types[0].offerings.iter().map(|one| (one.price * 1000.0).round() / 1000.0).collect()
}

#[test]
fn interruption_raises_its_own_offering_alone_and_decays() {
    let one = of_claims(&[("c1", 0)]);
    assert_eq!(prices(&one, 0), [1.2, 1.0, 3.0]);
    assert_eq!(prices(&one, 3600), [1.1, 1.0, 3.0]);
    assert_eq!(prices(&Interruptions::default(), 0), [1.0, 1.0, 3.0]);
}

#[test]
fn many_interruptions_raise_it_within_the_bound() {
    let many: Vec<(String, i64)> = (0..500).map(|one| (format!("c{one}"), one)).collect();
    let many: Vec<(&str, i64)> = many.iter().map(|(claim, at)| (claim.as_str(), *at)).collect();
    let all = of_claims(&many);
    assert_eq!((all.0.len(), prices(&all, 500)[0]), (MOST_KEPT, 1.5));
    assert!(all.0.iter().all(|one| one.at >= at(436)), "the latest are kept");
}

#[test]
fn annotation_is_read_back_and_a_claim_counts_once() {
    let mut all = of_claims(&[("c1", 0), ("c2", 10), ("c1", 20)]);
    let text = all.text().unwrap();
    assert_eq!(Interruptions::from_text(&text, at(30)), all);
    all.forget_old(HOUR, at(6 * 3600 + 5));
    assert_eq!(all.0.len(), 1);
    all.forget_old(HOUR, at(7 * 3600));
    assert_eq!(all.text(), None);
}

#[test]
fn absurd_annotation_counts_as_none_or_as_now() {
    for text in ["", "{}", "[1]", "[{\"at\": \"soon\"}]", &"[".repeat(100_000)] {
        assert_eq!(Interruptions::from_text(text, at(0)), Interruptions::default());
    }
    let text = of_claims(&[("c1", 1_000_000)]).text().unwrap();
    let read = Interruptions::from_text(&text, at(0));
    assert_eq!(prices(&read, 0), [1.2, 1.0, 3.0]);
    assert!(prices(&read, 4200)[0] < 1.11, "it decays from now on");
}

proptest! {
    #[test]
    fn price_is_never_below_the_list_nor_beyond_the_bound(
        claims in prop::collection::vec((0_u32..99, -99_999_i64..99_999), 0..99), now in -99_999_i64..99_999,
    ) {
        let mut all = Interruptions::default();
        claims.iter().for_each(|(claim, second)| all.add(interrupted(&claim.to_string(), *second)));
        let found = prices(&all, now);
        prop_assert!((1.0..=1.5).contains(&found[0]) && found[1..] == [1.0, 3.0], "{found:?}");
    }
}
