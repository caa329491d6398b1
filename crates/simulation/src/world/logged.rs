//! Steps as the event log has them: JSON that the invariants read back, and that `tests/simulation/audit.py` reads too.

use std::time::Duration;

use dovetail_sandbox::log::ActionEntry;
use serde::Deserialize as _;

use super::actions::Action;

/// The step that an entry of the event log tells of; none where it tells of something else.
pub fn step(entry: &ActionEntry) -> Option<Action> {
    if entry.kind != "step" {
        return None;
    }
    Action::deserialize(entry.field("action")?).ok()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
pub fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A time in seconds.
pub mod seconds {
    use super::Duration;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(time.as_secs_f64())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A time in seconds, or null for ever.
pub mod perhaps_seconds {
    use super::Duration;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    pub fn serialize<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        time.map(|time| time.as_secs_f64()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<f64>::deserialize(deserializer)?;
        seconds.map(Duration::try_from_secs_f64).transpose().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_sandbox::faults::{Direction, Service};

    use super::super::{Odd, ReplicaRef};
    use super::*;

    /// Every kind of step as it stands in event logs; one a line.
    const GOLDEN: &str = include_str!("logged.golden.jsonl");

    fn all() -> Vec<Action> {
        let (minute, moment) = (Duration::from_secs(60), Duration::from_millis(1500));
        let name = |text: &str| text.to_owned();
        vec![
            Action::Scale { kind: name("Deployment"), namespace: name("default"), name: name("web"), replicas: 3 },
            Action::Delete { kind: name("NodeClaim"), namespace: String::new(), name: name("default-1") },
            Action::DeleteSome { kind: name("Pod"), count: None },
            Action::Apply { files: vec![name("a.yaml"), name("b \"c\".yaml")] },
            Action::InterruptSpot { share: 0.25 },
            Action::InterruptNode { node: name("ip-192-168-0-1.ec2.internal") },
            Action::InterruptPool { pool: name("m5.large/us-east-1a"), duration: minute },
            Action::Message { body: name("{\"source\":\"aws.ec2\"}") },
            Action::Kill { replica: ReplicaRef::Leader, duration: Some(minute) },
            Action::Pause { replica: ReplicaRef::Number(1), duration: None },
            Action::Partition {
                replica: ReplicaRef::Number(0),
                from: vec![Service::ApiServer, Service::Ec2, Service::Sqs],
                direction: Direction::Out,
                duration: Some(moment),
            },
            Action::Lose { kind: name("Node"), count: Some(2) },
            Action::Spoil {
                kind: name("Pod"),
                names: name("web-*"),
                count: Some(1),
                odd: Odd::ManagedFields,
                duration: None,
            },
            Action::Unwell {
                condition: name("StorageReady"),
                count: Some(1),
                skip: 0,
                duration: Some(minute),
                reason: None,
                until_reboot: false,
            },
            Action::Unwell {
                condition: name("AcceleratedHardwareReady"),
                count: Some(1),
                skip: 0,
                duration: None,
                reason: None,
                until_reboot: true,
            },
            Action::EmptyLists { duration: Some(minute) },
            Action::ForeignInstances { count: 2 },
            Action::AllowCollection { duration: minute },
            Action::LookAfterCollection { duration: minute },
            Action::Restart { duration: moment },
            Action::SlowWatches { by: moment, duration: Some(minute) },
            Action::HoldWrites { replica: ReplicaRef::Leader, by: moment, duration: None },
            Action::Snapshot,
            Action::Restore { of: minute, duration: moment },
            Action::TakeReserved { id: name("cr-1"), count: 2 },
            Action::ResizeReserved { id: name("cr-1"), count: 1 },
            Action::Others { instance_type: name("m5.large"), zone: name("us-east-1a"), count: 3 },
            Action::Resize { names: name("web-*"), requests: [(name("cpu"), name("200m"))].into() },
            Action::ZoneDown { zone: name("us-east-1a"), duration: None },
            Action::ZonalShift { zone: name("us-east-1b"), duration: Some(minute) },
        ]
    }

    #[test]
    fn each_kind_of_step_is_logged_as_before_and_read_back() {
        let lines: Vec<&str> = GOLDEN.lines().collect();
        let actions = all();
        let written: Vec<String> = actions.iter().map(|action| serde_json::to_string(action).unwrap()).collect();
        assert_eq!(written, lines, "{}", written.join("\n"));
        for (line, action) in lines.iter().zip(&actions) {
            assert_eq!(serde_json::from_str::<Action>(line).unwrap(), *action, "{line}");
        }
    }

    #[test]
    fn each_odd_thing_is_logged_by_its_word() {
        for (word, odd) in Odd::WORDS {
            assert_eq!(serde_json::to_value(odd).unwrap(), word);
            assert_eq!(Odd::try_from(word.to_owned()), Ok(odd));
        }
        assert!(Odd::try_from("even".to_owned()).is_err());
    }
}
