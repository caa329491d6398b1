//! The catalogue and answers that it does not believe: another is asked for in a while, by one alarm, and said once.

use super::catalogue::start;
use crate::alone::{Fails, alone};

const DAY: f64 = 24.0 * 3600.0;

#[test]
fn ec2_showing_nothing_is_asked_just_every_ten_minutes() {
    alone(|bench| async move {
        let _catalogue = start(&bench);
        bench.pass(1.0).await;
        bench.sky.types(Some(Vec::new()));
        for _ in 0..5 {
            // A call that is repeated puts the next one off: what is asked twice a day comes at another time.
            bench.sky.next("instance_types", [Fails::Throttled; 3]);
            bench.pass(0.5 * DAY).await;
        }
        let before = bench.sky.count("instance_types");
        bench.pass(DAY).await;
        let asked = bench.sky.count("instance_types") - before;
        assert!((140..=150).contains(&asked), "{asked} in a day");
        let doubts = || bench.told.lines().iter().filter(|line| line.contains("that is not believed")).count();
        assert_eq!(doubts(), 1, "it is said once");
        // It is believed again, and doubted again.
        bench.sky.types(None);
        bench.pass(900.0).await;
        bench.sky.types(Some(Vec::new()));
        bench.pass(DAY).await;
        assert_eq!(doubts(), 2);
    });
}
