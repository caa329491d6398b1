#![allow(clippy::unwrap_used)]
use futures::future::join_all;

use super::*;

struct TokioClock(tokio::time::Instant);

impl Clock for TokioClock {
    fn wall(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

pub fn limiter() -> (Limiter, tokio::time::Instant) {
    let begun = tokio::time::Instant::now();
    (Limiter::new(&AccountLimits::default(), Arc::new(TokioClock(begun))), begun)
}

pub fn needs(action: &str) -> Needs {
    Needs::from_body(format!("Action={action}&Version=2016-11-15").as_bytes())
}

/// Seconds at which each of `count` requests that come at once is sent.
pub async fn sent(limiter: &Limiter, begun: tokio::time::Instant, needs: &Needs, count: usize) -> Vec<f64> {
    let one = || async {
        limiter.admit(needs).await;
        begun.elapsed().as_secs_f64()
    };
    join_all((0..count).map(|_| one())).await
}

/// True if EC2's bucket, full at the beginning, has a token for each.
fn fits(times: &[f64], size: f64, rate: f64) -> bool {
    let (mut tokens, mut at) = (size, 0.0);
    times.iter().all(|time| {
        tokens = (tokens + (time - at) * rate).min(size) - 1.0;
        at = *time;
        tokens >= 0.0
    })
}

#[tokio::test(start_paused = true)]
async fn thousand_launches_fit_ec2_buckets_and_take_the_time_required() {
    let (limiter, begun) = limiter();
    let times = sent(&limiter, begun, &needs("CreateFleet"), 1000).await;
    assert!(fits(&times, 50.0, 5.0) && fits(&times, 1000.0, 2.0));
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "in their order");
    assert_eq!(times.iter().filter(|time| **time < 0.001).count(), 45);
    assert!((211.0..215.0).contains(times.last().unwrap()), "{:?}", times.last());
}

#[tokio::test(start_paused = true)]
async fn calls_for_many_instances_take_a_token_for_each() {
    let (limiter, begun) = limiter();
    let body = "Action=CreateFleet&TargetCapacitySpecification.TotalTargetCapacity=250";
    let times = sent(&limiter, begun, &Needs::from_body(body.as_bytes()), 5).await;
    assert!(times[..4].iter().all(|time| *time < 0.001), "EC2's bucket holds a thousand: {times:?}");
    assert!((125.0..140.0).contains(&times[4]), "then two a second, less our share: {times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_launch_goes_before_all_descriptions_that_wait() {
    let (limiter, begun) = limiter();
    let describe = needs("DescribeInstances");
    let many = sent(&limiter, begun, &describe, 500);
    let launch = async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        sent(&limiter, begun, &needs("CreateFleet"), 15).await
    };
    let (many, launched) = tokio::join!(many, launch);
    assert!(launched.iter().all(|time| *time < 6.01), "{launched:?}");
    assert!(fits(&many, 100.0, 20.0) && many.last().unwrap() > &20.0);
    let (mutate, templates) = (needs("DeleteLaunchTemplate"), needs("CreateFleet"));
    let (limiter, begun) = self::limiter();
    sent(&limiter, begun, &templates, 45).await;
    let (deleted, launched) = tokio::join!(sent(&limiter, begun, &mutate, 1), sent(&limiter, begun, &templates, 10));
    assert!(launched.last().unwrap() < &deleted[0], "{launched:?}, {deleted:?}");
}

#[tokio::test(start_paused = true)]
async fn throttled_call_waits_and_one_given_up_delays_nobody() {
    let (limiter, begun) = limiter();
    limiter.throttled(&needs("CreateFleet"));
    let one = sent(&limiter, begun, &needs("CreateFleet"), 1).await;
    assert!((0.4..0.5).contains(&one[0]), "a token at half the rate: {one:?}");
    limiter.throttled(&needs("CreateFleet"));
    let fleet = needs("CreateFleet");
    let impatient = tokio::time::timeout(Duration::from_millis(50), sent(&limiter, begun, &fleet, 40));
    assert!(impatient.await.is_err());
    let next = sent(&limiter, begun, &needs("CreateFleet"), 1).await;
    assert!(next[0] - one[0] < 0.6, "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn refused_launch_gives_its_tokens_for_instances_back() {
    let (limiter, begun) = limiter();
    let many = Needs::from_body(b"Action=CreateFleet&TargetCapacitySpecification.TotalTargetCapacity=450");
    for _ in 0..8 {
        sent(&limiter, begun, &many, 1).await;
        limiter.throttled(&many);
    }
    let last = sent(&limiter, begun, &many, 2).await;
    assert!(last[1] < 30.0, "a thousand instances are still to be had: {last:?}");
}

#[tokio::test(start_paused = true)]
async fn refusals_halve_the_pace_and_it_comes_back() {
    let (limiter, begun) = limiter();
    let fleet = needs("CreateFleet");
    // Each is refused, for an hour.
    let mut refused = 0;
    while begun.elapsed() < Duration::from_secs(3600) {
        sent(&limiter, begun, &fleet, 1).await;
        limiter.throttled(&fleet);
        refused += 1;
    }
    assert!((2000..2900).contains(&refused), "an eighth of 4.5 a second, and half as much again on trial: {refused}");
    let after = sent(&limiter, begun, &fleet, 1500).await;
    let within = |from: f64, to: f64| after.iter().filter(|at| (from..to).contains(&(**at - 3600.0))).count();
    assert!(within(0.0, 10.0) <= 12, "slow at first: {}", within(0.0, 10.0));
    assert!((44..=46).contains(&within(180.0, 190.0)), "then as ever: {}", within(180.0, 190.0));
    let describe = sent(&limiter, begun, &needs("DescribeInstances"), 20).await;
    assert!(describe.iter().all(|at| *at < begun.elapsed().as_secs_f64() + 0.01), "another bucket");
}

#[tokio::test(start_paused = true)]
async fn refusals_now_and_then_leave_most_of_the_pace() {
    let (limiter, begun) = limiter();
    let fleet = needs("CreateFleet");
    // One of thirty is refused: others call EC2 now and then. They are fewer than the thousand instances that EC2 lets out at once.
    for number in 0..900 {
        sent(&limiter, begun, &fleet, 1).await;
        if number % 30 == 0 {
            limiter.throttled(&fleet);
        }
    }
    let took = begun.elapsed().as_secs_f64();
    assert!((150.0..300.0).contains(&took), "two hundred seconds at 4.5 a second: {took}");
}

#[tokio::test(start_paused = true)]
async fn larger_account_launches_faster_and_the_wait_is_known_before() {
    let begun = tokio::time::Instant::now();
    let limits = "InstancesLaunched=3000/100".parse().unwrap();
    let limiter = Limiter::new(&limits, Arc::new(TokioClock(begun)));
    let many = Needs::from_body(b"Action=CreateFleet&TargetCapacitySpecification.TotalTargetCapacity=900");
    assert_eq!(limiter.launch_pace(900).wait, Duration::ZERO);
    let times = sent(&limiter, begun, &many, 3).await;
    assert!(times.iter().all(|at| *at < 0.001), "{times:?}");
    let pace = limiter.launch_pace(900);
    assert_eq!((pace.at_once, pace.per_second), (3000.0, 100.0));
    let last = sent(&limiter, begun, &many, 1).await;
    assert!((last[0] - pace.wait.as_secs_f64()).abs() < 0.1, "{last:?}, {pace:?}");
    assert!((6.0..7.0).contains(&last[0]), "600 tokens at nine tenths of a hundred a second: {last:?}");
}

#[tokio::test(start_paused = true)]
async fn deferrable_call_has_its_turn_after_half_a_minute_of_launches() {
    let (limiter, begun) = limiter();
    let (fleet, delete) = (needs("CreateFleet"), needs("DeleteLaunchTemplate"));
    let launches = sent(&limiter, begun, &fleet, 1000);
    let deleted = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        sent(&limiter, begun, &delete, 3).await
    };
    let (launched, deleted) = tokio::join!(launches, deleted);
    assert!(deleted.iter().all(|time| *time >= 31.0 - 0.01), "launches go first: {deleted:?}");
    // Those that came before it have theirs: 955 at four and a half a second.
    assert!(deleted.iter().all(|time| *time < 215.0), "{deleted:?}");
    assert!(launched.last().unwrap() < &215.0, "{:?}", launched.last());
    let (limiter, begun) = self::limiter();
    sent(&limiter, begun, &fleet, 45).await;
    let stream = join_all((0..20).map(|_| async {
        for _ in 0..40 {
            sent(&limiter, begun, &fleet, 1).await;
        }
    }));
    let (_, deleted) = tokio::join!(stream, sent(&limiter, begun, &delete, 1));
    assert!((29.9..40.0).contains(&deleted[0]), "a stream of launches that goes on for minutes: {deleted:?}");
}

#[tokio::test(start_paused = true)]
async fn termination_of_many_is_not_overtaken_forever_by_single_ones() {
    let (limiter, begun) = limiter();
    let end = |count: usize| {
        let ids: Vec<String> = (1..=count).map(|n| format!("InstanceId.{n}=i-{n}")).collect();
        Needs::from_body(format!("Action=TerminateInstances&{}", ids.join("&")).as_bytes())
    };
    sent(&limiter, begun, &end(500), 1).await;
    sent(&limiter, begun, &end(390), 1).await;
    let (many, one) = (end(400), end(4));
    let ones = join_all((0..4).map(|_| async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        for _ in 0..60 {
            sent(&limiter, begun, &one, 1).await;
        }
    }));
    let (many, _) = tokio::join!(sent(&limiter, begun, &many, 1), ones);
    assert!((21.0..24.0).contains(&many[0]), "as long as its bucket needs: {many:?}");
}

#[test]
fn requests_are_told_apart_by_their_action() {
    let read = |body: &str| {
        let Needs { api, priority, resources, .. } = Needs::from_body(body.as_bytes());
        (api, priority == Priority::First, resources)
    };
    assert_eq!(read("Action=CreateFleet&X=1"), (RequestBucket::Mutate, true, Some((RequestBucket::Launched, 1.0))));
    let many = "Action=CreateFleet&TargetCapacitySpecification.TotalTargetCapacity=250&X=1";
    assert_eq!(read(many), (RequestBucket::Mutate, true, Some((RequestBucket::Launched, 250.0))));
    let dry = "Action=CreateFleet&DryRun=true&X=1";
    assert_eq!(read(dry), (RequestBucket::Mutate, false, None), "it launches nothing");
    assert_eq!(read("Action=DescribeInstances"), (RequestBucket::Describe, false, None));
    assert_eq!(read("Action=DescribeLaunchTemplates"), (RequestBucket::Describe, true, None));
    let ended = "Action=TerminateInstances&InstanceId.1=i-1&InstanceId.2=i-2";
    assert_eq!(read(ended), (RequestBucket::TerminateInstances, true, Some((RequestBucket::Ended, 2.0))));
    assert_eq!(read("Action=CreateTags"), (RequestBucket::Tags, false, None));
    assert_eq!(read("Action=Whatever"), (RequestBucket::Mutate, false, None));
    assert_eq!(read("\u{fffd}"), (RequestBucket::Mutate, false, None));
    assert_eq!((fleet("a", 2).launch.as_deref(), needs("CreateTags").launch), (Some("a"), None));
}

/// A call for so many instances, by its token.
fn fleet(token: &str, count: u32) -> Needs {
    let target = format!("TargetCapacitySpecification.TotalTargetCapacity={count}");
    Needs::from_body(format!("Action=CreateFleet&ClientToken={token}&{target}&Version=2016-11-15").as_bytes())
}

#[tokio::test(start_paused = true)]
async fn reserved_launches_go_out_at_the_times_that_they_are_told() {
    let (limiter, begun) = limiter();
    let rooms: Vec<_> = ["a", "b", "c", "d"].iter().map(|token| limiter.reserve_launch(token, 450)).collect();
    let waits: Vec<f64> = rooms.iter().map(|room| room.wait.as_secs_f64()).collect();
    // A thousand at once, then 1.8 a second: those of c lack 350 tokens, those of d 800.
    for (wait, told) in waits.iter().zip([0.0, 0.0, 194.4, 444.4]) {
        assert!((wait - told).abs() < 0.1, "{waits:?}");
    }
    let pace = limiter.launch_pace(18).wait.as_secs_f64();
    assert!((pace - 454.4).abs() < 0.1, "{pace}");
    for (token, room) in ["a", "b", "c", "d"].iter().zip(&rooms) {
        tokio::time::sleep_until(begun + room.wait).await;
        let sent = sent(&limiter, begun, &fleet(token, 450), 1).await;
        assert!(sent[0] - room.wait.as_secs_f64() < 0.01, "{token} waits no longer: {sent:?}");
    }
    // Sent once more, it takes tokens of its own.
    let again = sent(&limiter, begun, &fleet("a", 90), 1).await;
    assert!((again[0] - 444.4 - 50.0).abs() < 0.1, "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn reserved_room_is_given_back_unless_the_launch_used_it() {
    let (limiter, begun) = limiter();
    let free = |limiter: &Limiter| limiter.launch_pace(1000).wait.is_zero();
    let room = limiter.reserve_launch("a", 1000);
    assert!(room.wait.is_zero() && !free(&limiter));
    drop(room);
    assert!(free(&limiter), "it was given up");
    let room = limiter.reserve_launch("a", 1000);
    sent(&limiter, begun, &fleet("a", 1000), 1).await;
    // EC2 refuses it for the rate of requests: nothing is launched, and it is sent again with what it has.
    limiter.throttled(&fleet("a", 1000));
    let later = limiter.reserve_launch("b", 1);
    assert!(later.wait > Duration::ZERO);
    let again = sent(&limiter, begun, &fleet("a", 1000), 1).await;
    assert!(again[0] < 1.0, "{again:?}");
    drop((room, later));
    let pace = limiter.launch_pace(1).wait.as_secs_f64();
    assert!((0.0..0.6).contains(&pace) && !free(&limiter), "what was launched with is gone: {pace}");
    assert!(limiter.with(|state, _| state.reserved.is_empty()));
}
