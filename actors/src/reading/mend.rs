//! Second reading of values that a type refuses though Kubernetes takes them with one meaning: times at the range's end, whole
//! numbers written with a point, nulls, `managedFields` of templates. It runs only on refused texts.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::text;

/// Maps whose keys and values are the user's own: nothing in them is a field of ours.
const FREE: [&str; 7] = ["annotations", "labels", "matchLabels", "nodeSelector", "data", "stringData", "parameters"];
/// Fields that are times.
const TIMES: [&str; 22] = [
    "acquireTime",
    "completionTime",
    "creationTimestamp",
    "deletionTimestamp",
    "eventTime",
    "finishedAt",
    "firstTimestamp",
    "lastAttemptTime",
    "lastHeartbeatTime",
    "lastPodEventTime",
    "lastProbeTime",
    "lastScheduleTime",
    "lastTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "renewTime",
    "startTime",
    "startedAt",
    "time",
    "timeAdded",
    "resizedAt",
    "observedTime",
];

/// Reads what was refused again, mended.
///
/// # Errors
/// The reason why it is still refused.
pub fn read_mended<K: DeserializeOwned>(text: &str, refused: &serde_json::Error) -> Result<K, String> {
    let cut = text::without_any_managed_fields(text);
    // A text that is nested too deeply is refused here as well.
    let Ok(mut value) = serde_json::from_str::<Value>(&cut) else { return Err(why(refused)) };
    mend(&mut value);
    serde_json::from_value(value).map_err(|error| why(&error))
}

/// One line, without a place in a text that nobody sees.
fn why(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let said = said.rfind(" at line ").map_or(said.as_str(), |at| &said[..at]);
    const MOST: usize = 300;
    said.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST).collect()
}

/// Never deeper than the parser goes.
fn mend(value: &mut Value) {
    match value {
        Value::Object(members) => mend_members(members),
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(mend);
        }
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
                *value = whole.into();
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

fn mend_members(members: &mut Map<String, Value>) {
    members.retain(|_, value| !value.is_null());
    for (key, value) in members {
        if FREE.contains(&key.as_str()) && value.is_object() {
            if let Value::Object(own) = value {
                own.retain(|_, value| !value.is_null());
            }
            continue;
        }
        match value {
            Value::String(text) if TIMES.contains(&key.as_str()) => {
                if let Some(mended) = saturated(text) {
                    *text = mended;
                }
            }
            other => mend(other),
        }
    }
}

fn whole(number: f64) -> Option<i64> {
    const MOST: f64 = 9_007_199_254_740_992.0;
    // Exact below 2^53.
    (number.fract() == 0.0 && number.abs() <= MOST).then_some(number as i64)
}

/// The latest time there is here, for a time of the year 9999 that lies beyond it. None for what is no such time.
pub fn saturated(text: &str) -> Option<String> {
    let beyond = text.parse::<Timestamp>().is_err() && text.starts_with("9999-") && is_time(text);
    beyond.then(|| LATEST.to_owned())
}

/// In whole seconds, as Kubernetes writes times.
const LATEST: &str = "9999-12-30T22:00:00Z";

/// True for a text in the form of RFC 3339.
fn is_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let zone = time.find(['Z', 'z', '+', '-']).unwrap_or(time.len());
    let clock = time[..zone].split('.').next().unwrap_or_default();
    let digits = |text: &str, count: &[usize], by: char| {
        let parts: Vec<&str> = text.split(by).collect();
        parts.len() == count.len()
            && parts
                .iter()
                .zip(count)
                .all(|(part, count)| part.len() == *count && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    zone < time.len() && digits(date, &[4, 2, 2], '-') && digits(clock, &[2, 2, 2], ':')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn time_beyond_range_becomes_latest_and_other_text_is_kept() {
        for text in ["9999-12-31T23:59:59Z", "9999-12-31T00:00:00.123456Z", "9999-12-30T23:00:00-01:00"] {
            assert_eq!(saturated(text).as_deref(), Some(LATEST), "{text}");
        }
        for text in
            ["9999-12-30T21:59:59Z", "2026-01-01T00:00:00Z", "9999-", "9999-12-31", "9999-12-31T23:59:59", "soon"]
        {
            assert_eq!(saturated(text), None, "{text}");
        }
        assert!(LATEST.parse::<Timestamp>().is_ok());
    }

    #[test]
    fn what_is_the_users_own_is_not_mended() {
        let mut value = json!({"metadata": {"annotations": {"time": "9999-12-31T23:59:59Z", "gone": null}},
            "status": {"startTime": "9999-12-31T23:59:59Z"}, "replicas": 5.0, "share": 0.5, "list": [null, 1e3], "none": null});
        mend(&mut value);
        assert_eq!(
            value,
            json!({"metadata": {"annotations": {"time": "9999-12-31T23:59:59Z"}},
            "status": {"startTime": LATEST}, "replicas": 5, "share": 0.5, "list": [1000]})
        );
    }
}
