//! Messages of EventBridge about instances. The fields version, source and detail-type decide the kind of a message; a message of
//! an unknown kind is ignored for a reason that can be counted.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::InterruptionKind;

/// An event about instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The event's own id; the same when it is delivered twice.
    pub id: String,
    pub kind: InterruptionKind,
    /// Ids of the instances, `i-…`, in order and each once.
    pub instances: Vec<String>,
    /// Time at which the event happened.
    pub time: Option<Timestamp>,
    /// Time at which a scheduled change begins.
    pub begins: Option<Timestamp>,
}

/// The reason that a message is not acted on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    #[error("it is empty")]
    Empty,
    /// It cannot be read.
    #[error("it is not JSON: {0}")]
    NotJson(String),
    /// It is JSON, but no event, or an event without a required field.
    #[error("it is no event of EventBridge: {0}")]
    Malformed(String),
    /// An event of a version, source or type that is not known here.
    #[error("version {version:?} of {detail_type:?} from {source_name:?} is not known")]
    UnknownKind {
        /// The event's `version`.
        version: String,
        /// The event's `source`.
        source_name: String,
        /// The event's `detail-type`.
        detail_type: String,
    },
    /// A known event that asks for nothing: an instance that runs, a health event of another service.
    #[error("nothing follows from it: {0}")]
    NoAction(String),
}

impl Ignored {
    /// Its name, as a label of metrics.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::NotJson(_) => "not_json",
            Self::Malformed(_) => "malformed",
            Self::UnknownKind { .. } => "unknown_kind",
            Self::NoAction(_) => "no_action",
        }
    }

    /// True if it is worth a report: the others are in every queue.
    #[must_use]
    pub fn is_odd(&self) -> bool {
        !matches!(self, Self::NoAction(_))
    }
}

/// The envelope of an event, each field of any type.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    version: Value,
    #[serde(default)]
    source: Value,
    #[serde(default, rename = "detail-type")]
    detail_type: Value,
    #[serde(default)]
    id: Value,
    #[serde(default)]
    time: Value,
    #[serde(default)]
    detail: Value,
}

/// Most characters of foreign text that are quoted.
const REPEATED: usize = 100;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn short(value: &Value) -> String {
    let whole = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    whole.chars().take(REPEATED).collect()
}

impl Announcement {
    /// Reads a message's body.
    ///
    /// # Errors
    /// [`Ignored`] for every message that is not acted on.
    pub fn parse(body: &str) -> Result<Self, Ignored> {
        if body.trim().is_empty() {
            return Err(Ignored::Empty);
        }
        let value: Value = serde_json::from_str(body).map_err(|error| Ignored::NotJson(error.to_string()))?;
        if !value.is_object() {
            return Err(Ignored::Malformed("it is not an object".into()));
        }
        let event: Envelope = serde_json::from_value(value).map_err(|error| Ignored::Malformed(error.to_string()))?;
        let (kind, instances) = event.meaning()?;
        let begins = event.detail.get("startTime").and_then(Value::as_str).and_then(health_time);
        Ok(Self {
            id: text(&event.id).chars().take(REPEATED).collect(),
            kind,
            instances,
            time: text(&event.time).parse().ok(),
            begins: begins.filter(|_| kind == InterruptionKind::ScheduledChange),
        })
    }
}

impl Envelope {
    fn meaning(&self) -> Result<(InterruptionKind, Vec<String>), Ignored> {
        match (text(&self.version), text(&self.source), text(&self.detail_type)) {
            ("0", "aws.ec2", "EC2 Spot Instance Interruption Warning") => {
                self.of_one(InterruptionKind::SpotInterruption)
            }
            ("0", "aws.ec2", "EC2 Instance Rebalance Recommendation") => {
                self.of_one(InterruptionKind::RebalanceRecommendation)
            }
            ("0", "aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
                self.of_one(InterruptionKind::CapacityReservationInterrupted)
            }
            ("0", "aws.ec2", "EC2 Instance State-change Notification") => match text(&self.detail["state"]) {
                "stopping" | "stopped" => self.of_one(InterruptionKind::InstanceStopping),
                "shutting-down" | "terminated" => self.of_one(InterruptionKind::InstanceTerminating),
                _ => Err(Ignored::NoAction(format!("state {}", short(&self.detail["state"])))),
            },
            ("0", "aws.health", "AWS Health Event") => self.of_health(),
            _ => Err(Ignored::UnknownKind {
                version: short(&self.version),
                source_name: short(&self.source),
                detail_type: short(&self.detail_type),
            }),
        }
    }

    fn of_one(&self, kind: InterruptionKind) -> Result<(InterruptionKind, Vec<String>), Ignored> {
        let id = &self.detail["instance-id"];
        match id.as_str().filter(|id| is_instance(id)) {
            Some(id) => Ok((kind, vec![id.to_owned()])),
            None => Err(Ignored::Malformed(format!("detail.instance-id is {}", short(id)))),
        }
    }

    fn of_health(&self) -> Result<(InterruptionKind, Vec<String>), Ignored> {
        let (service, category) = (&self.detail["service"], &self.detail["eventTypeCategory"]);
        if (text(service), text(category)) != ("EC2", "scheduledChange") {
            return Err(Ignored::NoAction(format!("{} of {}", short(category), short(service))));
        }
        let entities = self.detail["affectedEntities"].as_array().into_iter().flatten();
        let mut ids: Vec<String> =
            entities.map(|one| text(&one["entityValue"])).filter(|id| is_instance(id)).map(str::to_owned).collect();
        ids.sort();
        ids.dedup();
        if ids.is_empty() {
            return Err(Ignored::NoAction("a scheduled change of no instance".into()));
        }
        Ok((InterruptionKind::ScheduledChange, ids))
    }
}

/// Times inside a health event are written as in mail, not as RFC 3339.
fn health_time(written: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(written).ok()
}

fn is_instance(id: &str) -> bool {
    id.strip_prefix("i-").is_some_and(|rest| {
        (1..=32).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn event(source: &str, detail_type: &str, detail: Value) -> Value {
        json!({"version": "0", "id": "e-1", "detail-type": detail_type, "source": source, "account": "111122223333",
            "time": "2026-03-02T10:15:00Z", "region": "eu-west-1", "resources": [], "detail": detail})
    }

    fn read(event: &Value) -> Result<Announcement, Ignored> {
        Announcement::parse(&event.to_string())
    }

    fn of(detail_type: &str, more: Value) -> Value {
        let mut detail = json!({"instance-id": "i-0aa11bb22cc33dd44"});
        detail.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event("aws.ec2", detail_type, detail)
    }

    fn health() -> Value {
        event(
            "aws.health",
            "AWS Health Event",
            json!({"service": "EC2", "eventTypeCategory": "scheduledChange", "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
                "startTime": "Mon, 16 Mar 2026 06:00:00 GMT", "endTime": "Mon, 16 Mar 2026 07:00:00 GMT",
                "affectedEntities": [{"entityValue": "i-2"}, {"entityValue": "i-1"}, {"entityValue": "i-2"}, {"entityValue": "vol-1"}]}),
        )
    }

    #[test]
    fn every_kind_is_known_by_source_and_type_and_state() {
        let cases = [
            (
                of("EC2 Spot Instance Interruption Warning", json!({"instance-action": "terminate"})),
                InterruptionKind::SpotInterruption,
            ),
            (of("EC2 Instance Rebalance Recommendation", json!({})), InterruptionKind::RebalanceRecommendation),
            (
                of("EC2 Instance State-change Notification", json!({"state": "stopping"})),
                InterruptionKind::InstanceStopping,
            ),
            (
                of("EC2 Instance State-change Notification", json!({"state": "stopped"})),
                InterruptionKind::InstanceStopping,
            ),
            (
                of("EC2 Instance State-change Notification", json!({"state": "shutting-down"})),
                InterruptionKind::InstanceTerminating,
            ),
            (
                of("EC2 Instance State-change Notification", json!({"state": "terminated"})),
                InterruptionKind::InstanceTerminating,
            ),
            (
                of("EC2 Capacity Reservation Instance Interruption Warning", json!({"instance-action": "terminate"})),
                InterruptionKind::CapacityReservationInterrupted,
            ),
        ];
        for (event, kind) in cases {
            let read = read(&event).unwrap();
            assert_eq!((read.kind, read.instances.as_slice()), (kind, &["i-0aa11bb22cc33dd44".to_owned()][..]));
            assert_eq!((read.id.as_str(), read.time), ("e-1", Some("2026-03-02T10:15:00Z".parse().unwrap())));
            assert_eq!(InterruptionKind::named(kind.label()), Some(kind));
        }
    }

    #[test]
    fn health_event_names_its_instances_once_and_reads_mail_time() {
        let read = read(&health()).unwrap();
        assert_eq!(read.instances, ["i-1", "i-2"]);
        assert_eq!(read.begins, Some("2026-03-16T06:00:00Z".parse().unwrap()));
    }

    #[test]
    fn message_asking_nothing_is_told_apart_from_not_understood() {
        let label = |event: &Value| read(event).unwrap_err().label();
        assert_eq!(label(&of("EC2 Instance State-change Notification", json!({"state": "running"}))), "no_action");
        let mut issue = health();
        issue["detail"]["eventTypeCategory"] = json!("issue");
        assert_eq!(label(&issue), "no_action");
        let mut version = of("EC2 Spot Instance Interruption Warning", json!({}));
        version["version"] = json!("1");
        assert_eq!(label(&version), "unknown_kind");
        version["version"] = json!(0);
        assert_eq!(label(&version), "unknown_kind");
        assert_eq!(label(&of("EC2 Spot Instance Celebration", json!({}))), "unknown_kind");
        assert_eq!(label(&event("aws.ec2", "EC2 Spot Instance Interruption Warning", json!("gone"))), "malformed");
        let mut foreign = of("EC2 Spot Instance Interruption Warning", json!({}));
        foreign["detail"]["instance-id"] = json!("i-0aa/../../x");
        assert_eq!(label(&foreign), "malformed");
        for (body, label) in
            [("", "empty"), (" \n", "empty"), ("spot!", "not_json"), ("[1]", "malformed"), ("{}", "unknown_kind")]
        {
            assert_eq!(Announcement::parse(body).unwrap_err().label(), label, "{body:?}");
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ -~]{0,12}".prop_map(Value::from),
            Just(json!("i-0aa11bb22cc33dd44")),
            Just(json!("EC2")),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z-]{1,8}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_fall_over(body in "\\PC{0,200}") {
            let _ = Announcement::parse(&body);
        }

        #[test]
        fn whatever_stands_in_an_event_only_well_formed_ids_come_out(
            field in prop::sample::select(vec!["version", "source", "detail-type", "id", "time", "detail"]),
            inner in prop::sample::select(vec!["instance-id", "state", "service", "eventTypeCategory", "startTime", "affectedEntities"]),
            value in any_json(),
            envelope in any::<bool>(),
            of_health in any::<bool>(),
        ) {
            let mut event =
                if of_health { health() } else { of("EC2 Instance State-change Notification", json!({"state": "stopping"})) };
            if envelope { event[field] = value } else { event["detail"][inner] = value }
            if let Ok(read) = read(&event) {
                prop_assert!(!read.instances.is_empty());
                prop_assert!(read.instances.iter().all(|id| is_instance(id)));
                prop_assert!(read.instances.is_sorted());
            }
        }
    }
}
