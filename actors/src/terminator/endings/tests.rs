//! Tests of the times at which an instance is asked about again.

use super::*;

/// In tenths of a second when an ending instance is asked about, where the answer takes a tenth and ticks come every second.
fn asked(seconds: u64) -> Vec<u64> {
    let mut endings = Endings::new(fastrand::Rng::with_seed(1));
    let handle = Handle::Id("i-1".to_owned());
    let mut tenths = Vec::new();
    for tick in 0..seconds {
        let now = Duration::from_secs(tick);
        endings.add_query(InstanceQuery { handle: handle.clone(), end: None });
        if endings.take_due(now, Timestamp::UNIX_EPOCH).is_empty() {
            continue;
        }
        tenths.push(tick * 10);
        let answer = InstanceAnswer {
            handle: handle.clone(),
            seen: Some(InstanceObservation::Ending),
            ended: vec![],
            unsure: false,
            refused: None,
        };
        let mut answered = InstanceAnswers { answers: vec![answer], ..InstanceAnswers::default() };
        endings.take_answers(&mut answered, now + Duration::from_millis(150));
    }
    tenths
}

#[test]
fn ending_instance_is_asked_after_1_2_4_then_every_5_seconds() {
    assert_eq!(asked(20), [0, 10, 30, 70, 120, 170]);
}
