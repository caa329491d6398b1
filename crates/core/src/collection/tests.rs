#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::bound::WINDOW;
use super::*;

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn instance(id: &str) -> SeenInstance {
    SeenInstance { id: id.into(), owner: InstanceOwner::Ours, age: Some(at(3600)), token: None }
}

fn claim(name: &str, id: &str) -> SeenClaim {
    let instance = (!id.is_empty()).then(|| id.to_owned());
    SeenClaim { name: name.into(), uid: format!("uid-{name}"), instance, token: None, deleting: false }
}

fn node(id: &str, ready: bool) -> SeenNode {
    SeenNode { instance: id.into(), ready, registered: true, deleting: false }
}

/// A cluster of so many instances, each with its claim and its Node.
fn cluster(count: usize) -> Survey {
    let ids: Vec<String> = (0..count).map(|n| format!("i-{n:03}")).collect();
    Survey {
        instances: ids.iter().map(|id| instance(id)).collect(),
        claims: ids.iter().map(|id| claim(&format!("c{id}"), id)).collect(),
        nodes: ids.iter().map(|id| node(id, true)).collect(),
        ..Survey::default()
    }
}

fn with_orphans(count: usize, orphans: usize) -> Survey {
    let mut survey = cluster(count);
    survey.instances.extend((0..orphans).map(|n| instance(&format!("i-orphan{n}"))));
    survey
}

fn later(survey: &Survey, seconds: u64) -> Survey {
    Survey { at: at(seconds), ..survey.clone() }
}

#[test]
fn gc_1_orphan_goes_at_second_sighting_after_two_minutes() {
    let (mut collector, survey) = (Collector::new(), with_orphans(3, 1));
    assert_eq!(collector.pass(&later(&survey, 0)), CollectionVerdict::default());
    assert_eq!(collector.pass(&later(&survey, 119)), CollectionVerdict::default());
    assert_eq!(collector.pass(&later(&survey, 120)).terminate, ["i-orphan0"]);
}

#[test]
fn gc_1_an_orphan_that_was_owned_in_between_starts_anew() {
    let (mut collector, survey) = (Collector::new(), with_orphans(3, 1));
    collector.pass(&later(&survey, 0));
    let mut owned = later(&survey, 100);
    owned.claims.push(claim("late", "i-orphan0"));
    collector.pass(&owned);
    assert_eq!(collector.pass(&later(&survey, 200)).terminate, Vec::<String>::new());
    assert_eq!(collector.pass(&later(&survey, 320)).terminate, ["i-orphan0"]);
}

#[test]
fn gc_1_an_instance_younger_than_its_grace_stays() {
    let (mut collector, mut survey) = (Collector::new(), with_orphans(3, 1));
    for (time, age) in [(0, Some(0)), (120, None), (130, Some(119))] {
        survey.instances[3].age = age.map(at);
        assert_eq!(collector.pass(&later(&survey, time)).terminate, Vec::<String>::new(), "{age:?}");
    }
    survey.instances[3].age = Some(GRACE);
    assert_eq!(collector.pass(&later(&survey, 140)).terminate, ["i-orphan0"]);
}

#[test]
fn an_instance_whose_token_a_claim_waits_for_is_none() {
    let (mut collector, mut survey) = (Collector::new(), with_orphans(3, 1));
    survey.instances[3].token = Some("dt-1".into());
    survey.claims.push(SeenClaim { token: Some("dt-1".into()), ..claim("launching", "") });
    for time in [0, 120, 240] {
        assert_eq!(collector.pass(&later(&survey, time)), CollectionVerdict::default());
    }
    // Its claim has got another instance: this one is waited for no longer.
    survey.claims[3].instance = Some("i-000".into());
    collector.pass(&later(&survey, 360));
    assert_eq!(collector.pass(&later(&survey, 480)).terminate, ["i-orphan0"]);
}

#[test]
fn gc_2_more_than_the_bound_is_not_collected_until_released() {
    let (mut collector, survey) = (Collector::new(), with_orphans(10, 6));
    collector.pass(&later(&survey, 0));
    for time in [120, 240, 10_000] {
        let verdict = collector.pass(&later(&survey, time));
        assert_eq!(
            (verdict.terminate.len(), verdict.notices),
            (0, vec![CollectionNotice::Braked { due: 6, bound: 5 }])
        );
    }
    let fewer = with_orphans(10, 2);
    assert!(collector.pass(&later(&fewer, 10_120)).terminate.is_empty(), "it does not release itself");
    let released = Survey { released: true, ..later(&survey, 10_240) };
    collector.pass(&released);
    let verdict = collector.pass(&Survey { at: at(10_360), ..released });
    assert_eq!((verdict.terminate.len(), verdict.notices), (6, vec![CollectionNotice::Released]));
}

#[test]
fn gc_2_the_brake_ends_with_what_it_was_for() {
    let mut collector = Collector::new();
    collector.pass(&with_orphans(10, 6));
    collector.pass(&later(&with_orphans(10, 6), 120));
    assert!(collector.braked());
    collector.pass(&later(&cluster(10), 240));
    assert!(!collector.braked());
}

#[test]
fn gc_2_a_new_leader_counts_what_ended_before_its_term() {
    let mut collector = Collector::new();
    let mut survey = with_orphans(10, 3);
    survey.ended = ["i-gone1", "i-gone2", "i-gone3"].map(|id| (id.to_owned(), Duration::ZERO)).into();
    collector.pass(&later(&survey, 0));
    assert_eq!(collector.recent(), 3);
    assert_eq!(collector.pass(&later(&survey, 120)).terminate.len(), 2, "five of ten minutes");
    survey.instances.drain(10..12);
    assert!(collector.pass(&later(&survey, 480)).terminate.is_empty());
    assert_eq!(collector.pass(&later(&survey, 600)).terminate.len(), 1, "ten minutes of its own are over");
}

#[test]
fn gc_2_claim_restored_by_backup_still_counts_as_collected() {
    let mut collector = Collector::new();
    let mut survey = with_orphans(10, 3);
    survey.ended = ["i-gone1", "i-gone2", "i-gone3", "i-gone4"].map(|id| (id.to_owned(), Duration::ZERO)).into();
    survey.claims.push(claim("back", "i-gone3"));
    survey.claims.push(SeenClaim { deleting: true, ..claim("back-and-leaving", "i-gone4") });
    collector.pass(&later(&survey, 0));
    assert_eq!(collector.recent(), 4);
    assert_eq!(collector.pass(&later(&survey, 120)).terminate.len(), 1, "five of ten minutes");
}

#[test]
fn gc_2_endings_of_earlier_leader_after_first_look_count() {
    let mut collector = Collector::new();
    let mut survey = with_orphans(10, 6);
    collector.pass(&survey);
    survey.ended = survey.instances.drain(10..13).map(|one| (one.id, at(110))).collect();
    assert_eq!(collector.pass(&later(&survey, 120)).terminate.len(), 2, "three and two are five");
    let apart = CLOCKS_APART.as_secs();
    assert_eq!(collector.pass(&later(&survey, 609 + apart)).terminate.len(), 2);
    let over = collector.pass(&later(&survey, 610 + apart)).terminate.len();
    assert_eq!(over, 3, "ten minutes from the 10th second on, whatever the clocks");
}

#[test]
fn gc_2_endings_before_a_term_count_for_ten_minutes() {
    let mut collector = Collector::new();
    let mut survey = with_orphans(10, 3);
    survey.ended = (0..9).map(|n| (format!("i-gone{n}"), at(if n < 4 { 300 } else { 700 }))).collect();
    collector.pass(&later(&survey, 1000));
    assert_eq!(collector.recent(), 4, "the others are longer ago");
    assert_eq!(collector.pass(&later(&survey, 1120)).terminate.len(), 1);
    survey.instances.remove(10);
    let over = 1300 + CLOCKS_APART.as_secs();
    assert!(collector.pass(&later(&survey, over - 1)).terminate.is_empty());
    assert_eq!(collector.pass(&later(&survey, over)).terminate.len(), 2);
}

#[test]
fn gc_2_endings_within_ten_minutes_by_a_skewed_clock_count() {
    let mut survey = with_orphans(10, 3);
    let ended = |ago| (0..4).map(|n| (format!("i-gone{n}"), ago)).collect();
    survey.ended = ended(WINDOW + CLOCKS_APART - at(1));
    let mut collector = Collector::new();
    collector.pass(&later(&survey, 1000));
    assert_eq!(collector.recent(), 4);
    survey.ended = ended(WINDOW + CLOCKS_APART);
    let mut collector = Collector::new();
    collector.pass(&later(&survey, 1000));
    assert_eq!(collector.recent(), 0);
}

#[test]
fn a_listing_that_is_not_believed_is_no_beginning() {
    let mut collector = Collector::new();
    let mut survey = with_orphans(10, 3);
    let empty = Survey { instances: vec![], ..later(&survey, 0) };
    assert_eq!(collector.pass(&empty).notices, vec![CollectionNotice::CloudSuspect { claims: 10 }]);
    assert!(collector.looks_back());
    // Nor is one that shows nothing where no claim speaks against it.
    let nothing = Survey { instances: vec![], claims: vec![], ..later(&survey, 60) };
    assert_eq!(collector.pass(&nothing).notices, vec![]);
    assert!(collector.looks_back());
    survey.ended = (0..4).map(|n| (format!("i-gone{n}"), at(60))).collect();
    collector.pass(&later(&survey, 120));
    assert_eq!(collector.recent(), 4);
    assert!(collector.looks_back());
    collector.pass(&later(&survey, 240));
    assert!(!collector.looks_back());
}

#[test]
fn gc_2_what_comes_one_after_the_other_waits_for_its_time() {
    let mut collector = Collector::new();
    collector.pass(&with_orphans(10, 4));
    assert_eq!(collector.pass(&later(&with_orphans(10, 4), 120)).terminate.len(), 4);
    let mut more = with_orphans(10, 8);
    more.instances.drain(10..14);
    collector.pass(&later(&more, 240));
    assert_eq!(collector.pass(&later(&more, 360)).terminate, ["i-orphan4"], "the fifth of ten minutes");
    more.instances.remove(10);
    assert!(collector.pass(&later(&more, 480)).terminate.is_empty());
    assert_eq!(collector.pass(&later(&more, 720)).terminate.len(), 3, "the first four are ten minutes ago");
}

/// They were decided on in time, and EC2 could not be asked for a minute.
#[test]
fn gc_2_what_ends_late_counts_from_its_end() {
    let (mut collector, survey) = (Collector::new(), with_orphans(3, 5));
    collector.pass(&later(&survey, 0));
    let due = collector.pass(&later(&survey, 120)).terminate;
    assert_eq!(due.len(), 5);
    due.iter().for_each(|id| collector.ended(id, at(180)));
    let mut others = cluster(3);
    others.instances.extend((0..5).map(|n| instance(&format!("i-other{n}"))));
    for seconds in [500, 620, 740, 779] {
        assert_eq!(collector.pass(&later(&others, seconds)).terminate, [""; 0], "at {seconds}");
    }
    assert_eq!(collector.pass(&later(&others, 780)).terminate.len(), 5);
}

#[test]
fn the_bound_is_five_or_five_percent() {
    assert_eq!([0, 6, 100, 119, 120, 5000].map(bound), [5, 5, 5, 5, 6, 250]);
}

#[test]
fn gc_3_foreign_is_said_and_never_collected_even_if_released() {
    let (mut collector, mut survey) = (Collector::new(), cluster(1));
    survey.instances.push(SeenInstance { owner: InstanceOwner::Foreign, ..instance("i-theirs") });
    survey.instances.push(SeenInstance { owner: InstanceOwner::Unmarked, ..instance("i-whose") });
    survey.released = true;
    for time in [0, 120, 240] {
        let verdict = collector.pass(&later(&survey, time));
        assert_eq!(verdict.terminate, Vec::<String>::new());
        let said = [
            CollectionNotice::Foreign { instances: 1 },
            CollectionNotice::Unmarked { instances: 1 },
            CollectionNotice::Released,
        ];
        assert_eq!(verdict.notices, said);
    }
}

#[test]
fn gc_4_no_claims_after_some_is_suspect_and_orphans_are_held() {
    let (mut collector, full) = (Collector::new(), cluster(3));
    collector.pass(&full);
    let lost = Survey { claims: Vec::new(), nodes: Vec::new(), ..full.clone() };
    for time in [120, 240, 360] {
        let verdict = collector.pass(&later(&lost, time));
        let said = vec![CollectionNotice::ClaimsSuspect { instances: 3 }];
        assert_eq!((verdict.terminate.len(), verdict.notices), (0, said));
    }
    // A claim is made for other pods: the listing is no longer empty, yet what it says of the rest is not believed.
    let mut partly = lost.clone();
    partly.instances.push(instance("i-new"));
    partly.claims.push(claim("new", "i-new"));
    for time in [480, 600, 720] {
        let verdict = collector.pass(&later(&partly, time));
        assert_eq!((verdict.terminate.len(), verdict.notices), (0, vec![CollectionNotice::Held { instances: 3 }]));
    }
    partly.released = true;
    collector.pass(&later(&partly, 840));
    assert_eq!(collector.pass(&later(&partly, 960)).terminate.len(), 3);
}

#[test]
fn gc_4_a_new_leader_tells_lost_claims_by_the_nodes() {
    let mut lost = cluster(5);
    lost.claims.truncate(2);
    let mut collector = Collector::new();
    for time in [0, 120, 240] {
        assert_eq!(collector.pass(&later(&lost, time)).notices, [CollectionNotice::ClaimsSuspect { instances: 3 }]);
    }
    let mut one = cluster(5);
    one.claims.truncate(4);
    let mut collector = Collector::new();
    collector.pass(&one);
    assert_eq!(collector.pass(&later(&one, 120)).terminate, ["i-004"], "one of five is an orphan like any other");
}

#[test]
fn the_last_claim_may_go_the_usual_way() {
    let (mut collector, mut survey) = (Collector::new(), with_orphans(1, 1));
    collector.pass(&survey);
    collector.leaves("uid-ci-000");
    survey.claims.clear();
    survey.nodes.clear();
    survey.instances.remove(0);
    assert_eq!(collector.pass(&later(&survey, 120)).terminate, ["i-orphan0"]);
}

#[test]
fn gc_4_cloud_without_instances_is_doubted_whatever_nodes_say() {
    let (mut collector, full) = (Collector::new(), cluster(3));
    collector.pass(&full);
    let mut empty = Survey { instances: Vec::new(), ..full.clone() };
    empty.nodes = full.nodes.iter().map(|one| node(&one.instance, false)).collect();
    for time in [120, 240, 360] {
        let verdict = collector.pass(&later(&empty, time));
        assert_eq!((verdict.remove.len(), verdict.notices), (0, vec![CollectionNotice::CloudSuspect { claims: 3 }]));
    }
    // The cloud's word about each instance, by id, is a fact.
    empty.ended = full.instances.iter().map(|one| (one.id.clone(), Duration::ZERO)).collect();
    assert_eq!(collector.pass(&later(&empty, 480)).remove.len(), 3);
}

#[test]
fn claim_goes_with_instance_unless_node_ready_or_already_going() {
    let (mut collector, mut survey) = (Collector::new(), cluster(6));
    survey.instances.truncate(3);
    survey.nodes[3].ready = false;
    survey.nodes.remove(4);
    survey.claims[5].deleting = true;
    assert_eq!(collector.pass(&survey).remove, []);
    let removed = collector.pass(&later(&survey, 120)).remove;
    let names: Vec<_> = removed.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["ci-003", "ci-004"]);
    let mut ready = cluster(6);
    ready.instances.truncate(3);
    ready.ended.insert("i-004".into(), Duration::ZERO);
    assert!(collector.pass(&later(&ready, 240)).remove.is_empty(), "their kubelets are at work");
}

/// One pass of a random life: which of twelve instances, claims and Nodes the two sides list, and when.
fn passes() -> impl Strategy<Value = Vec<(u64, u16, u16, u16, bool, bool)>> {
    let pass =
        (1..400_u64, any::<u16>(), any::<u16>(), any::<u16>(), prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    prop::collection::vec(pass, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// GC-1 to GC-4 over random lives, judged from the passes alone.
    #[test]
    fn whatever_is_listed_the_brakes_hold(passes in passes()) {
        let mut collector = Collector::new();
        let mut now = 0;
        let mut launched: BTreeMap<String, u64> = BTreeMap::new();
        let mut orphan_since: BTreeMap<String, u64> = BTreeMap::new();
        let mut collected: BTreeMap<String, u64> = BTreeMap::new();
        // A collection under a release does not count within the bound, nor does its end when it is asked for again.
        let mut freed: BTreeMap<String, u64> = BTreeMap::new();
        for (pause, instances, claims, nodes, none, released) in passes {
            now += pause;
            let bit = |bits: u16, n: usize| bits >> n & 1 == 1;
            let mut survey = Survey { at: at(now), released, ..Survey::default() };
            for n in 0..12 {
                let id = format!("i-{n}");
                if bit(instances, n) && !none {
                    let since = *launched.entry(id.clone()).or_insert(now);
                    let owner = [InstanceOwner::Ours, InstanceOwner::Ours, InstanceOwner::Ours, InstanceOwner::Foreign][n % 4];
                    survey.instances.push(SeenInstance { owner, age: Some(at(now - since)), ..instance(&id) });
                }
                if bit(claims, n) {
                    survey.claims.push(claim(&format!("c{n}"), &id));
                }
                if bit(nodes, n) {
                    survey.nodes.push(node(&id, bit(nodes, (n + 1) % 12)));
                }
            }
            let verdict = collector.pass(&survey);
            let orphans: BTreeSet<String> = survey.orphans().iter().map(|one| one.id.clone()).collect();
            orphan_since.retain(|id, _| orphans.contains(id));
            for id in &orphans {
                orphan_since.entry(id.clone()).or_insert(now);
            }
            for id in &verdict.terminate {
                prop_assert!(now - orphan_since[id] >= APART.as_secs(), "{id} after one sighting");
                prop_assert!(now - launched[id] >= GRACE.as_secs(), "{id} is young");
                let foreign = survey.instances.iter().any(|one| one.id == *id && one.owner != InstanceOwner::Ours);
                prop_assert!(!foreign, "{id} is not ours");
            }
            let doubted = verdict.notices.iter().any(|one| {
                matches!(one, CollectionNotice::Braked { .. } | CollectionNotice::CloudSuspect { .. } | CollectionNotice::ClaimsSuspect { .. })
            });
            prop_assert!(!doubted || verdict.terminate.is_empty(), "{verdict:?}");
            // Collections of ten minutes ago are forgotten first: a subject collected again counts from now on.
            collected.retain(|_, when| now - *when < WINDOW.as_secs());
            freed.retain(|_, first| now - *first < WINDOW.as_secs());
            let all = verdict.terminate.iter().cloned().chain(verdict.remove.iter().map(|(name, _)| name.clone()));
            for subject in all {
                if released {
                    let first = collected.remove(&subject).unwrap_or(now);
                    freed.entry(subject).or_insert(first);
                } else if !freed.contains_key(&subject) {
                    collected.entry(subject).or_insert(now);
                }
            }
            prop_assert!(collected.len() <= bound(12), "{} in ten minutes", collected.len());
        }
    }
}
