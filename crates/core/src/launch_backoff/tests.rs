#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use proptest::prelude::*;

use super::*;
use crate::resources::Resources;

const fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn demand(pool: &str) -> Demand {
    Demand {
        pool: pool.into(),
        generation: Some(1),
        zones: ["a".to_owned()].into(),
        capacity_type: "on-demand".into(),
        requests: Resources::parse([("cpu", "2")]).unwrap(),
        ..Demand::default()
    }
}

fn with_shape(pool: &str, shape: &str) -> Demand {
    Demand { shape: shape.into(), ..demand(pool) }
}

fn refusal() -> LaunchOutcome {
    LaunchOutcome::Refused(BackoffCause::ClaimRefused, "422 no".into())
}

/// A pool of which so many claims are always wanted; each is answered so long after it began. When they began.
struct Wanting {
    backoff: LaunchBackoff,
    running: Vec<(u64, String)>,
    begun: Vec<u64>,
}

impl Wanting {
    fn play(demand: &Demand, millis: u64, step: u64, latency: u64, jitter: f64, outcome: &LaunchOutcome) -> Self {
        let mut all = Self { backoff: LaunchBackoff::default(), running: vec![], begun: vec![] };
        for now in (0..millis).step_by(usize::try_from(step).unwrap()) {
            let due: Vec<_> = all.running.iter().filter(|(end, _)| *end <= now).map(|(_, name)| name.clone()).collect();
            all.running.retain(|(end, _)| *end > now);
            for name in due {
                all.backoff.ended(&name, outcome, at(now), jitter);
            }
            while all.running.len() < 20 && all.backoff.ask(demand, at(now)) == LaunchVerdict::Go {
                let name = format!("{}", all.begun.len());
                all.backoff.begin(&name, demand, at(now));
                all.running.push((now + latency, name));
                all.begun.push(now);
            }
        }
        all
    }

    fn between(&self, from: u64, to: u64) -> usize {
        self.begun.iter().filter(|t| (from..to).contains(*t)).count()
    }
}

#[test]
fn pool_with_refused_claims_makes_five_then_one_a_minute() {
    let played = Wanting::play(&demand("bad"), 15 * 60_000, 100, 50, 0.5, &refusal());
    let first = played.begun[0];
    assert!((3..=5).contains(&played.between(first, first + 60_000)), "{:?}", played.begun);
    assert!(played.begun[2] - first <= 5000, "the first retry comes soon: {:?}", played.begun);
    for minute in 1..14 {
        let begun = played.between(first + minute * 60_000, first + (minute + 1) * 60_000);
        assert!(begun <= 1, "minute {minute}: {:?}", played.begun);
    }
    assert!(played.begun.last().unwrap() > &(13 * 60_000), "it is tried for ever");
}

#[test]
fn pool_left_out_of_packing_says_why_until_claim_is_created() {
    let mut backoff = LaunchBackoff::default();
    backoff.begin("a", &demand("bad"), at(0));
    backoff.ended("a", &refusal(), at(10), 0.0);
    let closed = backoff.closed(at(20));
    assert_eq!(closed["bad"].until, at(2010));
    assert_eq!(closed["bad"].why, "the API server refuses its NodeClaims: 422 no");
    assert!(backoff.closed(at(2010)).is_empty(), "a trial may be planned");
    backoff.begin("b", &demand("bad"), at(2010));
    assert!(!backoff.closed(at(2020)).is_empty(), "while it is under way the others go elsewhere");
    assert_eq!(backoff.ask(&demand("bad"), at(2020)), LaunchVerdict::AfterOthers);
    assert!(backoff.created("b", at(2030)));
    assert!(backoff.closed(at(2030)).is_empty());
    assert_eq!(backoff.ask(&demand("bad"), at(2031)), LaunchVerdict::Go);
}

#[test]
fn refused_pool_says_nothing_of_another_or_of_its_changed_self() {
    let mut backoff = LaunchBackoff::default();
    backoff.begin("a", &demand("bad"), at(0));
    backoff.ended("a", &refusal(), at(10), 0.0);
    assert_eq!(backoff.ask(&demand("good"), at(20)), LaunchVerdict::Go);
    let changed = Demand { generation: Some(2), shape: "another".into(), ..demand("bad") };
    assert_eq!(backoff.ask(&changed, at(20)), LaunchVerdict::Go);
}

/// A refusal of one user's pods must not close the pool to others.
#[test]
fn refused_shape_is_held_alone_while_others_are_created() {
    let (good, bad) = (with_shape("p", "plain"), with_shape("p", "odd"));
    let mut backoff = LaunchBackoff::default();
    backoff.begin("a", &good, at(0));
    backoff.created("a", at(5));
    backoff.ended("a", &LaunchOutcome::Launched, at(10), 0.0);
    backoff.begin("b", &bad, at(20));
    backoff.ended("b", &refusal(), at(30), 0.0);
    assert!(backoff.closed(at(31)).is_empty());
    assert_eq!(backoff.ask(&bad, at(31)), LaunchVerdict::Wait { until: at(2030), cause: BackoffCause::ClaimRefused });
    assert_eq!(backoff.ask(&good, at(31)), LaunchVerdict::Go);
}

#[test]
fn a_pool_that_was_closed_by_one_shape_is_tried_with_another() {
    let (good, bad) = (with_shape("p", "plain"), with_shape("p", "odd"));
    let mut backoff = LaunchBackoff::default();
    backoff.begin("a", &bad, at(0));
    backoff.ended("a", &refusal(), at(10), 0.0);
    assert!(backoff.refusals_of_shape(&bad) > backoff.refusals_of_shape(&good));
    backoff.begin("b", &good, at(2010));
    backoff.created("b", at(2020));
    backoff.ended("b", &LaunchOutcome::Launched, at(2030), 0.0);
    backoff.begin("c", &bad, at(2040));
    backoff.ended("c", &refusal(), at(2050), 0.0);
    assert!(backoff.closed(at(2051)).is_empty());
}

#[test]
fn what_ec2_has_nothing_for_is_asked_for_by_one_claim_at_a_time() {
    let mut backoff = LaunchBackoff::default();
    backoff.begin("a", &demand("p"), at(0));
    backoff.created("a", at(1));
    backoff.ended("a", &LaunchOutcome::SoldOut, at(700), 0.0);
    let larger = Demand { requests: Resources::parse([("cpu", "4")]).unwrap(), ..demand("p") };
    assert_eq!(backoff.ask(&larger, at(700)), LaunchVerdict::Go, "types are tried one after the other");
    backoff.begin("b", &larger, at(700));
    assert_eq!(backoff.ask(&demand("p"), at(701)), LaunchVerdict::AfterOthers);
    assert_eq!(backoff.ask(&larger, at(701)), LaunchVerdict::AfterOthers);
    let smaller = Demand { requests: Resources::parse([("cpu", "1")]).unwrap(), ..demand("p") };
    let elsewhere = Demand { zones: ["b".to_owned()].into(), ..demand("p") };
    let spot = Demand { capacity_type: "spot".into(), ..demand("p") };
    for free in [smaller, elsewhere, spot] {
        assert_eq!(backoff.ask(&free, at(701)), LaunchVerdict::Go, "{free:?}");
    }
    backoff.ended("b", &LaunchOutcome::Launched, at(1400), 0.0);
    assert_eq!(backoff.ask(&demand("p"), at(1400)), LaunchVerdict::Go);
    assert_eq!(backoff.ask(&demand("p"), at(1400)), LaunchVerdict::Go, "what the probe has found is there for all");
}

#[test]
fn a_probe_without_an_answer_makes_way_for_the_next() {
    let mut backoff = LaunchBackoff::default();
    backoff.begin("a", &demand("p"), at(0));
    backoff.ended("a", &LaunchOutcome::SoldOut, at(700), 0.0);
    backoff.begin("b", &demand("p"), at(700));
    assert_eq!(backoff.ask(&demand("p"), at(15_699)), LaunchVerdict::AfterOthers);
    assert_eq!(backoff.ask(&demand("p"), at(15_700)), LaunchVerdict::Go);
}

#[test]
fn after_a_refusal_at_most_three_launches_are_under_way() {
    let mut backoff = LaunchBackoff::default();
    let of = |shape: &str| with_shape("p", shape);
    for (name, outcome) in [("a", LaunchOutcome::Launched), ("b", LaunchOutcome::SoldOut)] {
        backoff.begin(name, &of(name), at(0));
        backoff.created(name, at(1));
        backoff.ended(name, &outcome, at(10), 0.0);
    }
    for name in ["c", "d", "e"] {
        assert_eq!(backoff.ask(&of(name), at(20)), LaunchVerdict::Go);
        backoff.begin(name, &of(name), at(20));
    }
    assert_eq!(backoff.ask(&of("f"), at(20)), LaunchVerdict::AfterOthers);
    assert_eq!(backoff.ask(&Demand { zones: ["z".to_owned()].into(), ..of("f") }, at(20)), LaunchVerdict::Go);
    assert_eq!(backoff.ask(&of("f"), at(5020)), LaunchVerdict::Go, "a call without an answer holds nobody up for long");
}

/// Offerings known to be unavailable normally keep a demand from being asked for again; here none is known.
#[test]
fn repeatedly_refused_demand_is_asked_for_one_call_at_a_time() {
    let played = Wanting::play(&demand("p"), 60_000, 100, 700, 1.0, &LaunchOutcome::SoldOut);
    assert!(played.begun.len() <= 2 + 60_000 / 700, "{:?}", played.begun);
    assert!(played.begun[2..].windows(2).all(|pair| pair[1] - pair[0] >= 700), "{:?}", played.begun);
}

#[test]
fn three_are_launched_until_one_succeeds_and_then_all_wanted() {
    let mut backoff = LaunchBackoff::default();
    let begin = |backoff: &mut LaunchBackoff, now: u64| {
        let mut begun = 0;
        while begun < 50 && backoff.ask(&demand("p"), at(now)) == LaunchVerdict::Go {
            backoff.begin(&format!("{now}-{begun}"), &demand("p"), at(now));
            begun += 1;
        }
        begun
    };
    assert_eq!(begin(&mut backoff, 0), 2);
    backoff.created("0-0", at(10));
    assert_eq!(begin(&mut backoff, 10), 1);
    backoff.ended("0-0", &LaunchOutcome::Launched, at(900), 0.0);
    assert_eq!(begin(&mut backoff, 900), 50);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut backoff = LaunchBackoff::default();
    for nth in 0..3 * u64::try_from(MOST).unwrap() {
        let one = with_shape("p", &nth.to_string());
        backoff.begin(&nth.to_string(), &one, at(nth));
        let outcome = if nth % 2 == 0 { refusal() } else { LaunchOutcome::SoldOut };
        backoff.ended(&nth.to_string(), &outcome, at(nth), 0.0);
    }
    assert!(backoff.shapes.len() <= MOST + 1 && backoff.running.is_empty());
    backoff.begin("last", &demand("q"), at(10_000_000));
    assert!(backoff.shapes.is_empty() && backoff.pools.len() == 1, "what is long ago is forgotten");
}

proptest! {
    /// However fast the answers are, and whatever the jitter.
    #[test]
    fn refused_pools_keep_their_bound(step in 20_u64..400, latency in 1_u64..3000, jitter in 0.0..1.0, ec2: bool) {
        let cause = if ec2 { BackoffCause::Call("Unauthorized") } else { BackoffCause::ClaimRefused };
        let played = Wanting::play(&demand("p"), 600_000, step, latency, jitter, &LaunchOutcome::Refused(cause, "no".into()));
        prop_assert!(played.between(0, 60_000) <= 5, "{:?}", played.begun);
        for minute in 1..10 {
            prop_assert!(played.between(minute * 60_000, (minute + 1) * 60_000) <= 1, "{:?}", played.begun);
        }
    }

    /// No trial is waited for that nobody makes.
    #[test]
    fn everything_that_has_ended_lets_others_begin(steps in prop::collection::vec((0_u8..5, 0_u8..3, 0_u64..90_000), 1..60)) {
        let (mut backoff, mut now) = (LaunchBackoff::default(), 0);
        for (nth, (what, shape, pause)) in steps.into_iter().enumerate() {
            now += pause;
            let one = with_shape("p", &shape.to_string());
            if backoff.ask(&one, at(now)) != LaunchVerdict::Go {
                continue;
            }
            let name = nth.to_string();
            backoff.begin(&name, &one, at(now));
            match what {
                0 => backoff.withdrawn(&name),
                1 => drop(backoff.ended(&name, &LaunchOutcome::Other, at(now + 10), 0.5)),
                2 => drop(backoff.ended(&name, &refusal(), at(now + 10), 0.5)),
                3 => drop(backoff.ended(&name, &LaunchOutcome::SoldOut, at(now + 10), 0.5)),
                _ => drop(backoff.ended(&name, &LaunchOutcome::Launched, at(now + 10), 0.5)),
            }
        }
        for shape in 0..3_u8 {
            prop_assert_eq!(backoff.ask(&with_shape("p", &shape.to_string()), at(now + 80_000)), LaunchVerdict::Go);
        }
    }
}

#[test]
fn turn_goes_to_the_oldest_that_nothing_speaks_against() {
    let mut backoff = LaunchBackoff::default();
    let (refused, fine) = (with_shape("a", "refused"), with_shape("b", "fine"));
    backoff.begin("one", &refused, at(0));
    backoff.ended("one", &refusal(), at(1), 0.0);
    let turn = |orders: &[Option<&Demand>], millis| backoff.turn(orders.iter().copied().enumerate(), at(millis));
    let turns = turn(&[Some(&refused), Some(&fine), None], 2);
    assert_eq!((turns.next, turns.after_others), (Some(1), false));
    assert!(matches!(turns.held[..], [(0, until, BackoffCause::ClaimRefused)] if until > at(2)), "{turns:?}");
    assert_eq!(turn(&[None, Some(&fine)], 2).next, Some(0), "one that is there waits for nothing");
    let opened = turns.held[0].1.as_millis().try_into().unwrap();
    let later = turn(&[Some(&refused), Some(&fine)], opened);
    assert_eq!((later.next, later.held), (Some(1), vec![]), "of two that may begin the one that was refused less");
    assert_eq!(turn(&[Some(&refused)], opened).next, Some(0));
    assert_eq!(turn(&[], 2), LaunchTurn::default());
}
