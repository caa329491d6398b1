//! The election, case by case; random histories and the model are in `crates/core/tests`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use super::*;

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn lease(holder: &str, term: u64, version: &str) -> LeaseView {
    let origin = if term == 0 { TermOrigin::Vacant } else { TermOrigin::Led };
    LeaseView { holder: holder.into(), term, duration: at(15), resource_version: version.into(), origin, stale: false }
}

fn foreign(holder: &str, term: u64, version: &str) -> LeaseView {
    LeaseView { origin: TermOrigin::Foreign, ..lease(holder, term, version) }
}

fn elected(identity: &str, term: u64, asked: u64) -> Election {
    let mut election = Election::new(identity, LeaseSettings::default());
    let output = election.step(LeaseInput::Wrote { lease: lease(identity, term, "1"), asked: at(asked) }, at(asked));
    assert_eq!(output, LeaseOutput::Elected { term });
    election
}

/// Looks again and again, as a standby does, at what does not let it lead yet.
fn watch(standby: &mut Election, read: &LeaseInput, seconds: std::ops::RangeInclusive<u64>) {
    for second in seconds {
        assert_eq!(standby.step(read.clone(), at(second)), LeaseOutput::Wait, "at {second} s");
    }
}

const VACANT: LeaseWrite = LeaseWrite { resource_version: None, term: 0, acquires: false };

fn taken(version: &str, term: u64) -> LeaseOutput {
    LeaseOutput::Write(LeaseWrite { resource_version: Some(version.into()), term, acquires: true })
}

#[test]
fn a_standby_is_there_when_the_lease_that_it_saw_runs_out() {
    let retry = LeaseSettings::default().retry;
    let mut standby = Election::new("b", LeaseSettings::default());
    assert_eq!(standby.pause(retry, at(0)), retry, "it has seen nothing");
    let fresh = LeaseInput::Read(Some(lease("a", 3, "7")));
    assert_eq!(standby.step(fresh.clone(), at(100)), LeaseOutput::Wait);
    assert_eq!(standby.pause(retry, at(100)), retry);
    watch(&mut standby, &fresh, 101..=114);
    assert_eq!(standby.pause(retry, at(114)), at(1), "fifteen seconds after it was seen");
    assert_eq!(standby.step(fresh, at(115)), taken("7", 4));
    assert_eq!(standby.pause(retry, at(115)), retry, "somebody else was faster: not at once again");
    assert_eq!(elected("a", 3, 0).pause(retry, at(9)), retry, "a leader renews in time");
}

#[test]
fn le_2_missing_lease_is_created_vacant_first_term_above_others() {
    for (version, remembered, first) in [("900", 7, 900), ("900", 2000, 2001), ("what", 7, 8), ("4294967296", 7, 8)] {
        let mut election = Election::new("a", LeaseSettings::default());
        election.saw_term(remembered);
        assert_eq!(election.step(LeaseInput::Read(None), at(0)), LeaseOutput::Write(VACANT));
        let vacant = lease("a", 0, version);
        let wrote = LeaseInput::Wrote { lease: vacant.clone(), asked: at(0) };
        assert_eq!((election.step(wrote, at(1)), election.leads()), (LeaseOutput::Wait, None));
        let read = LeaseInput::Read(Some(vacant));
        watch(&mut election, &read, 1..=15);
        assert_eq!(election.step(read, at(16)), taken(version, first));
    }
}

#[test]
fn first_lease_of_a_cluster_is_taken_at_once_with_unused_term() {
    let mut election = Election::new("a", LeaseSettings::default());
    assert_eq!(election.step(LeaseInput::Read(None), at(0)), LeaseOutput::Write(VACANT));
    let own = lease("a", 0, "246");
    let wrote = LeaseInput::Wrote { lease: own.clone(), asked: at(0) };
    assert_eq!(election.clone().step(wrote, at(1)), taken("246", 246));
    let read = LeaseInput::Read(Some(own.clone()));
    assert_eq!(election.clone().step(read, at(1)), LeaseOutput::Wait, "nobody knows when it was created");
    let others = LeaseInput::Read(Some(lease("b", 0, "246")));
    assert_eq!(election.clone().step(others, at(1)), LeaseOutput::Wait, "another was faster");
    election.saw_term(7);
    assert_eq!(election.step(LeaseInput::Read(Some(own)), at(1)), LeaseOutput::Wait, "somebody has led after all");
}

#[test]
fn le_1_deleted_lease_is_taken_after_its_duration_by_holder_too() {
    let (mut leader, mut standby) = (elected("a", 3, 0), Election::new("b", LeaseSettings::default()));
    standby.step(LeaseInput::Read(Some(lease("a", 3, "1"))), at(0));
    assert_eq!(standby.step(LeaseInput::Read(None), at(1)), LeaseOutput::Write(VACANT));
    let vacant = LeaseInput::Read(Some(lease("b", 0, "60")));
    watch(&mut standby, &vacant, 1..=15);
    let deposed = LeaseOutput::Deposed { term: 3, why: Deposition::Missing };
    assert_eq!(leader.step(vacant.clone(), at(2)), deposed);
    // Its own deadline says nothing of who has led since.
    watch(&mut leader, &vacant, 3..=17);
    assert_eq!(standby.step(vacant.clone(), at(16)), taken("60", 60));
    assert_eq!(leader.step(vacant, at(18)), taken("60", 60));
}

#[test]
fn le_1_lease_held_by_other_software_from_0_is_not_vacant() {
    let mut leader = elected("a", 3, 0);
    let karpenter = LeaseInput::Read(Some(foreign("karpenter", 0, "60")));
    let deposed = LeaseOutput::Deposed { term: 3, why: Deposition::Taken };
    assert_eq!(leader.step(karpenter.clone(), at(2)), deposed);
    for second in 2..17 {
        let renewed = LeaseInput::Read(Some(foreign("karpenter", 0, &second.to_string())));
        assert_eq!(leader.step(renewed, at(second)), LeaseOutput::Wait, "it renews");
    }
    watch(&mut leader, &karpenter, 17..=31);
    assert_eq!(leader.step(karpenter, at(32)), taken("60", 60), "above the term that was before it");
    // It gives back what it has counted anew: that says nothing of who led before.
    let mut standby = Election::new("b", LeaseSettings::default());
    standby.saw_term(900);
    let released = LeaseInput::Read(Some(LeaseView { duration: at(1), ..foreign("", 1, "80") }));
    watch(&mut standby, &released, 0..=14);
    assert_eq!(standby.step(released, at(15)), taken("80", 901));
}

#[test]
fn a_term_that_no_leader_can_have_had_does_not_stop_the_next() {
    let mut election = Election::new("a", LeaseSettings::default());
    election.saw_term(u64::from(u32::MAX >> 1));
    election.saw_term(u64::MAX);
    assert_eq!(election.step(LeaseInput::Read(None), at(0)), LeaseOutput::Write(VACANT));
    let own = LeaseInput::Wrote { lease: lease("a", 0, "246"), asked: at(0) };
    assert_eq!(election.step(own, at(1)), taken("246", 246));
}

#[test]
fn who_resigns_stands_by_and_comes_back_with_a_higher_term() {
    let mut election = elected("a", 3, 0);
    assert_eq!((election.resign(), election.leads(), election.resign()), (Some(3), None, None));
    assert_eq!(election.step(LeaseInput::Read(Some(lease("a", 3, "5"))), at(1)), taken("5", 4));
}

/// As a Lease is read out of a backup, or long after it was renewed.
fn stale(holder: &str, term: u64, version: &str) -> LeaseInput {
    LeaseInput::Read(Some(LeaseView { stale: true, ..lease(holder, term, version) }))
}

#[test]
fn le_1_restored_lease_naming_us_is_vacated_and_taken_later() {
    let mut earlier = elected("a", 3, 0);
    for (version, second) in [("20", 2), ("30", 4)] {
        earlier.step(LeaseInput::Wrote { lease: lease("a", 3, version), asked: at(second) }, at(second));
    }
    earlier.step(LeaseInput::Time, at(90));
    // Others have led, by versions that nobody here has seen.
    assert_eq!(earlier.step(stale("a", 3, "20"), at(90)), vacate(Some("20".into())));
    let fresh = LeaseInput::Read(Some(lease("a", 3, "20")));
    assert_eq!(earlier.step(fresh, at(91)), vacate(Some("20".into())), "a backup of just now");
    let vacant = lease("a", 0, "900");
    earlier.step(LeaseInput::Wrote { lease: vacant.clone(), asked: at(91) }, at(91));
    let read = LeaseInput::Read(Some(vacant));
    watch(&mut earlier, &read, 93..=107);
    assert_eq!(earlier.step(read, at(108)), taken("900", 900));
    let wrote = LeaseInput::Wrote { lease: lease("a", 900, "10"), asked: at(108) };
    assert_eq!(earlier.step(wrote, at(108)), LeaseOutput::Elected { term: 900 }, "versions may begin anew");
    earlier.step(LeaseInput::Time, at(118));
    let own = LeaseInput::Read(Some(lease("a", 900, "11")));
    assert_eq!(earlier.clone().step(own.clone(), at(123)), taken("11", 901), "nobody can have followed");
    assert_eq!(earlier.step(own, at(124)), vacate(Some("11".into())), "somebody may have");
}

#[test]
fn le_1_lease_of_earlier_life_is_taken_at_once_only_unfollowed() {
    for holder in ["a", ""] {
        let mut election = Election::new("a", LeaseSettings::default());
        assert_eq!(election.clone().step(LeaseInput::Read(Some(lease(holder, 3, "9"))), at(0)), taken("9", 4));
        assert_eq!(election.step(stale(holder, 3, "9"), at(0)), vacate(Some("9".into())));
    }
    // Somebody else's is made vacant when it is seen not to be renewed.
    let mut election = Election::new("a", LeaseSettings::default());
    assert_eq!(election.step(stale("b", 3, "9"), at(0)), LeaseOutput::Wait);
    assert_eq!(election.step(stale("b", 3, "9"), at(4)), LeaseOutput::Wait);
    assert_eq!(election.step(stale("b", 3, "9"), at(5)), vacate(Some("9".into())));
}

#[test]
fn wrong_clock_keeps_no_standby_from_free_or_expired_lease() {
    let mut standby = Election::new("b", LeaseSettings::default());
    for (version, second) in [("20", 0), ("30", 2)] {
        assert_eq!(standby.step(stale("a", 3, version), at(second)), LeaseOutput::Wait);
    }
    assert_eq!(standby.clone().step(stale("", 3, "40"), at(3)), taken("40", 4));
    watch(&mut standby, &stale("a", 3, "30"), 3..=16);
    assert_eq!(standby.step(stale("a", 3, "30"), at(17)), taken("30", 4));
}

#[test]
fn le_1_what_stood_while_a_standby_slept_may_be_out_of_a_backup() {
    let unwatched = LeaseSettings::default().unwatched().as_secs();
    for awake in [unwatched + 1, 16] {
        let mut standby = Election::new("b", LeaseSettings::default());
        let read = LeaseInput::Read(Some(lease("a", 3, "20")));
        assert_eq!(standby.step(read.clone(), at(0)), LeaseOutput::Wait);
        watch(&mut standby, &read, awake..=awake + 4);
        assert_eq!(standby.step(read, at(awake + 5)), vacate(Some("20".into())), "it has slept for {awake} s");
    }
    let mut standby = Election::new("b", LeaseSettings::default());
    let read = LeaseInput::Read(Some(lease("a", 3, "20")));
    for second in [0, unwatched, 2 * unwatched] {
        assert_eq!(standby.step(read.clone(), at(second)), LeaseOutput::Wait);
    }
    assert_eq!(standby.step(read, at(15)), taken("20", 4), "one look that is not answered is not a sleep");
}

#[test]
fn le_1_each_lease_that_is_deleted_makes_all_wait_anew() {
    let mut standby = Election::new("b", LeaseSettings::default());
    standby.step(LeaseInput::Read(Some(lease("a", 3, "1"))), at(0));
    for (version, from) in [("60", 10), ("61", 25), ("62", 40)] {
        watch(&mut standby, &LeaseInput::Read(Some(lease("c", 0, version))), from..=from + 14);
    }
}

#[test]
fn le_1_lease_is_taken_only_when_unchanged_for_its_duration() {
    let mut election = Election::new("b", LeaseSettings::default());
    watch(&mut election, &LeaseInput::Read(Some(lease("a", 3, "1"))), 0..=13);
    watch(&mut election, &LeaseInput::Read(Some(lease("a", 3, "2"))), 14..=28);
    let write = LeaseWrite { resource_version: Some("2".into()), term: 4, acquires: true };
    assert_eq!(election.step(LeaseInput::Read(Some(lease("a", 3, "2"))), at(29)), LeaseOutput::Write(write));
}

#[test]
fn le_1_leader_that_cannot_renew_ends_before_another_begins() {
    let settings = LeaseSettings::default();
    let mut leader = elected("a", 1, 0);
    let mut standby = Election::new("b", settings);
    // The standby can see the write no earlier than it was sent.
    standby.step(LeaseInput::Read(Some(lease("a", 1, "1"))), at(0));
    let mut ended = None;
    for second in 0..40 {
        if let LeaseOutput::Deposed { why, .. } = leader.step(LeaseInput::Failed, at(second)) {
            assert_eq!(why, Deposition::NotRenewed);
            ended.get_or_insert(second);
        }
        let step = standby.step(LeaseInput::Read(Some(lease("a", 1, "1"))), at(second));
        assert!(ended.is_some() || !matches!(step, LeaseOutput::Write(_)), "two leaders at {second}");
    }
    assert_eq!(ended, Some(10));
}

#[test]
fn le_2_the_same_identity_raises_the_term_when_it_comes_back() {
    let mut election = Election::new("a", LeaseSettings::default());
    let write = LeaseWrite { resource_version: Some("9".into()), term: 6, acquires: true };
    assert_eq!(election.step(LeaseInput::Read(Some(lease("a", 5, "9"))), at(0)), LeaseOutput::Write(write));
}

#[test]
fn le_3_a_renewal_rests_on_the_version_read_and_keeps_the_term() {
    let mut election = elected("a", 2, 0);
    let write = LeaseWrite { resource_version: Some("5".into()), term: 2, acquires: false };
    assert_eq!(election.step(LeaseInput::Read(Some(lease("a", 2, "5"))), at(2)), LeaseOutput::Write(write));
    election.step(LeaseInput::Wrote { lease: lease("a", 2, "6"), asked: at(2) }, at(5));
    assert_eq!(election.leads(), Some((2, at(12))));
}

#[test]
fn leader_reading_another_holder_term_or_nothing_is_deposed() {
    for (read, why) in [
        (Some(lease("b", 3, "2")), Deposition::Taken),
        (Some(lease("a", 3, "2")), Deposition::Taken),
        (None, Deposition::Missing),
    ] {
        let mut election = elected("a", 2, 0);
        assert_eq!(election.step(LeaseInput::Read(read), at(1)), LeaseOutput::Deposed { term: 2, why });
        assert_eq!(election.leads(), None);
    }
}

#[test]
fn a_pause_past_the_deadline_deposes_whatever_is_heard_first() {
    let mut election = elected("a", 2, 0);
    let output = election.step(LeaseInput::Wrote { lease: lease("a", 2, "3"), asked: at(2) }, at(60));
    assert_eq!(output, LeaseOutput::Deposed { term: 2, why: Deposition::NotRenewed });
}

#[test]
fn le_2_renewal_answered_after_the_end_revives_no_term() {
    let mut election = elected("a", 2, 0);
    election.step(LeaseInput::Time, at(10));
    let output = election.step(LeaseInput::Wrote { lease: lease("a", 2, "3"), asked: at(9) }, at(11));
    assert_eq!((output, election.leads()), (LeaseOutput::Wait, None));
}

#[test]
fn an_acquisition_whose_answer_comes_too_late_does_not_elect() {
    let mut election = Election::new("a", LeaseSettings::default());
    let output = election.step(LeaseInput::Wrote { lease: lease("a", 1, "1"), asked: at(0) }, at(10));
    assert_eq!(output, LeaseOutput::Wait);
    assert_eq!(election.leads(), None);
}

#[test]
fn impossible_term_is_seen_once_and_somebody_leads_again() {
    for absurd in [i32::MAX as u64, i32::MAX as u64 - 1, MOST_TERM + 1, MOST_TERM, 2_000_000_000, 1_100_000, u64::MAX] {
        for holder in ["a", "b", "", "nobody"] {
            let mut election = elected("a", 3, 0);
            let forged = LeaseInput::Read(Some(lease(holder, absurd, "50")));
            let deposed = LeaseOutput::Deposed { term: 3, why: Deposition::Taken };
            assert_eq!(election.step(forged.clone(), at(2)), deposed);
            let mut second = 2;
            while election.step(forged.clone(), at(second)) == LeaseOutput::Wait {
                second += 1;
            }
            assert!(second <= 7, "{holder}: made vacant after {second} s");
            assert_eq!(election.distrust(), Some(&Distrust::Term { term: absurd }));
            assert_eq!(election.clone().step(forged, at(second)), vacate(Some("50".into())));
            let vacant = lease("a", 0, "51");
            election.step(LeaseInput::Wrote { lease: vacant.clone(), asked: at(second) }, at(second));
            let read = LeaseInput::Read(Some(vacant));
            watch(&mut election, &read, second..=second + 14);
            assert_eq!(election.distrust(), None);
            assert_eq!(election.step(read, at(second + 15)), taken("51", 51), "above every term that was led");
        }
    }
}

#[test]
fn foreign_lease_of_impossible_term_is_awaited_and_recounted() {
    let mut standby = Election::new("b", LeaseSettings::default());
    let read = LeaseInput::Read(Some(foreign("karpenter", i32::MAX as u64, "60")));
    watch(&mut standby, &read, 0..=14);
    assert_eq!(standby.distrust(), Some(&Distrust::Term { term: i32::MAX as u64 }));
    assert_eq!(standby.step(read, at(15)), taken("60", 60));
}

#[test]
fn term_far_above_version_is_a_leaders_where_claims_have_it() {
    let mut standby = Election::new("b", LeaseSettings::default());
    standby.saw_term(5_000_000);
    let read = LeaseInput::Read(Some(lease("a", 5_000_001, "300")));
    watch(&mut standby, &read, 0..=14);
    assert_eq!(standby.distrust(), None);
    assert_eq!(standby.step(read, at(15)), taken("300", 5_000_002));
    // Versions that are no numbers, or too high, prove nothing: only the field's end bounds the term.
    for version in ["what", "4294967296"] {
        let mut standby = Election::new("b", LeaseSettings::default());
        assert_eq!(
            standby.step(LeaseInput::Read(Some(lease("", 5_000_001, version))), at(0)),
            taken(version, 5_000_002)
        );
    }
}

#[test]
fn terms_that_are_used_up_are_told_of_and_not_written() {
    let mut election = Election::new("a", LeaseSettings::default());
    election.saw_term(MOST_TERM);
    let read = LeaseInput::Read(Some(lease("", 3, "9")));
    assert_eq!(election.step(read, at(0)), LeaseOutput::Wait);
    assert_eq!(election.distrust(), Some(&Distrust::TermsUsedUp { term: MOST_TERM + 1 }));
}

#[test]
fn unrenewed_lease_of_68_years_is_taken_after_a_minute() {
    for holder in ["karpenter", ""] {
        let mut standby = Election::new("b", LeaseSettings::default());
        let years = |version: &str| {
            let duration = at(i32::MAX as u64);
            LeaseInput::Read(Some(LeaseView { duration, ..foreign(holder, 1, version) }))
        };
        // While it is renewed it is respected, for hours.
        for renewal in 0..1000 {
            assert_eq!(standby.step(years(&renewal.to_string()), at(10 * renewal)), LeaseOutput::Wait);
            assert_eq!(standby.distrust(), None);
        }
        let (last, from) = (years("999"), 9990);
        watch(&mut standby, &last, from..=from + 14);
        assert_eq!(standby.distrust(), None);
        watch(&mut standby, &last, from + 15..=from + 59);
        let duration = at(i32::MAX as u64);
        let told = Distrust::Duration { holder: holder.into(), duration, wait: at(60), until: at(from + 60) };
        assert_eq!(standby.distrust(), Some(&told));
        assert_eq!(standby.pause(at(2), at(from + 59)), at(1), "it is there when the minute is over");
        assert_eq!(standby.step(last, at(from + 60)), taken("999", 999));
    }
}

#[test]
fn stranger_costs_a_minute_and_a_dovetail_what_it_may_have_set() {
    let waits = |lease: LeaseView, until: u64| {
        let mut standby = Election::new("b", LeaseSettings::default());
        let read = LeaseInput::Read(Some(lease));
        for second in 0..until {
            let output = standby.step(read.clone(), at(second));
            assert_eq!(output, LeaseOutput::Wait, "at {second} s of {until}");
        }
        assert!(matches!(standby.step(read, at(until)), LeaseOutput::Write(_)), "after {until} s");
    };
    let lasting = |lease: LeaseView, seconds: u64| LeaseView { duration: at(seconds), ..lease };
    for seconds in [61, 599, 86_400, i32::MAX as u64] {
        waits(lasting(foreign("a", 1, "9"), seconds), 60);
    }
    waits(lasting(foreign("a", 1, "9"), 40), 40);
    // The mark of a Dovetail, whose own setting may be longer than ours while replicas are replaced.
    waits(lasting(lease("a", 1, "9"), 120), 120);
    waits(lasting(lease("a", 1, "9"), 600), 600);
    waits(lasting(lease("a", 1, "9"), i32::MAX as u64), 60);
}

#[test]
fn lease_of_one_second_is_respected_as_long_as_leader_may_act() {
    let mut standby = Election::new("b", LeaseSettings::default());
    let short = LeaseInput::Read(Some(LeaseView { duration: at(1), ..lease("a", 3, "9") }));
    watch(&mut standby, &short, 0..=14);
    assert_eq!(standby.step(short, at(15)), taken("9", 4));
}

#[test]
fn a_replica_whose_own_lease_lasts_an_hour_waits_for_an_hour() {
    let settings = LeaseSettings { duration: at(3600), renew_deadline: at(3000), retry: at(2) };
    let mut standby = Election::new("b", settings);
    let hour = LeaseInput::Read(Some(LeaseView { duration: at(3600), ..lease("a", 3, "9") }));
    for second in (0..3600).step_by(2) {
        assert_eq!(standby.step(hour.clone(), at(second)), LeaseOutput::Wait);
    }
    assert_eq!(standby.step(hour, at(3600)), taken("9", 4));
}

#[test]
fn le_1_creator_of_no_lease_waits_for_what_it_makes_vacant() {
    // It found none, another was faster and leads, and somebody has written a term that is not counted.
    let mut standby = Election::new("b", LeaseSettings::default());
    assert_eq!(standby.step(LeaseInput::Read(None), at(0)), LeaseOutput::Write(VACANT));
    assert_eq!(standby.step(LeaseInput::Failed, at(0)), LeaseOutput::Wait);
    let forged = LeaseInput::Read(Some(lease("b", i32::MAX as u64, "50")));
    assert_eq!(standby.step(forged, at(1)), vacate(Some("50".into())));
    let vacant = lease("b", 0, "51");
    let wrote = LeaseInput::Wrote { lease: vacant.clone(), asked: at(1) };
    assert_eq!(standby.step(wrote, at(1)), LeaseOutput::Wait);
    let read = LeaseInput::Read(Some(vacant));
    watch(&mut standby, &read, 1..=15);
    assert_eq!(standby.step(read, at(16)), taken("51", 51));
}
