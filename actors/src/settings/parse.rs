//! From a setting's text to its value: what is wrong, and what is allowed.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use dovetail_api::names::provider::Provider;
use dovetail_api::v1::parse_go_duration;
use dovetail_cloud::ec2::{AccountLimits, NoLimits};
use dovetail_core::adoption::{self, AdoptAs};
use dovetail_core::daemons::DaemonShare;
use dovetail_core::expendable::ExpendableCutoff;
use dovetail_core::{MaxOptionPrice, MinValuesPolicy, Policy, PreferencePolicy};
use serde::Serialize;

use super::{Interruptions, LogFormat, SHORTEST_TOKEN, Secret};

/// Refusal of a value: the problem and the allowed values.
pub type ValueRefusal = (String, String);

pub fn refuse<T>(problem: &str, allowed: &str) -> Result<T, ValueRefusal> {
    Err((problem.into(), allowed.into()))
}

/// A priority below which pods are expendable.
pub fn cutoff(text: &str) -> Result<ExpendableCutoff, ValueRefusal> {
    number(text, "a pod's priority: an integer, such as -10").map(ExpendableCutoff::from_priority)
}

/// A Go duration above zero.
pub fn duration(text: &str) -> Result<Duration, ValueRefusal> {
    const ALLOWED: &str = "a Go duration above zero, such as 500ms, 1s or 1m30s";
    match parse_go_duration(text) {
        Ok(duration) if duration > Duration::ZERO => Ok(duration),
        Ok(_) => refuse("it must be above zero", ALLOWED),
        Err(error) => refuse(&error.to_string(), ALLOWED),
    }
}

/// A Go duration of whole seconds, as a Lease has it.
pub fn whole_seconds(text: &str) -> Result<Duration, ValueRefusal> {
    const ALLOWED: &str = "a Go duration of whole seconds, such as 15s";
    // `leaseDurationSeconds` is an int32.
    const MOST: Duration = Duration::from_secs(i32::MAX as u64);
    match parse_go_duration(text) {
        Ok(duration) if duration > MOST => refuse("no Lease can last so long", "a Go duration of 596523h at most"),
        Ok(duration) if duration >= Duration::from_secs(1) && duration.subsec_nanos() == 0 => Ok(duration),
        Ok(_) => refuse("a Lease lasts whole seconds", ALLOWED),
        Err(error) => refuse(&error.to_string(), ALLOWED),
    }
}

/// A Go duration of a minute or more.
pub fn minute_at_least(text: &str) -> Result<Duration, ValueRefusal> {
    const ALLOWED: &str = "a Go duration of 1m or more";
    match parse_go_duration(text) {
        Ok(duration) if duration >= Duration::from_secs(60) => Ok(duration),
        Ok(_) => refuse("it is shorter than a minute", ALLOWED),
        Err(error) => refuse(&error.to_string(), ALLOWED),
    }
}

/// A Go duration of a minute or more, or `never`.
pub fn minute_at_least_or_never(text: &str) -> Result<Option<Duration>, ValueRefusal> {
    if text == "never" {
        return Ok(None);
    }
    minute_at_least(text).map(Some).map_err(|(what, allowed)| (what, format!("{allowed}, or never")))
}

/// A Go duration of a tenth of a second or more.
pub fn tenth_at_least(text: &str) -> Result<Duration, ValueRefusal> {
    const ALLOWED: &str = "a Go duration of 100ms or more";
    match duration(text) {
        Ok(duration) if duration >= Duration::from_millis(100) => Ok(duration),
        Ok(_) => refuse("it is shorter than a tenth of a second", ALLOWED),
        Err((what, _)) => Err((what, ALLOWED.into())),
    }
}

/// The share of a node that DaemonSets take.
pub fn percent(text: &str) -> Result<DaemonShare, ValueRefusal> {
    const ALLOWED: &str = "a whole number from 1 to 100";
    let share = text.parse().ok().and_then(DaemonShare::from_percent);
    share.map_or_else(|| refuse("it is no share in percent", ALLOWED), Ok)
}

/// A version of Kubernetes, older ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct KubernetesVersion {
    /// The `1` of `1.33`.
    pub major: u32,
    /// The `33` of `1.33`.
    pub minor: u32,
}

impl Display for KubernetesVersion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A version of Kubernetes, as Karpenter's chart writes it: `1.19.0-0`.
pub fn kubernetes_version(text: &str) -> Result<KubernetesVersion, ValueRefusal> {
    let mut numbers = text.trim_start_matches('v').split(['.', '-']).map(|part| part.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => Ok(KubernetesVersion { major, minor }),
        _ => refuse("it is no version", "such as 1.29 or 1.29.0-0"),
    }
}

/// The name of an SQS queue, given as that, as the queue's URL or as its ARN; nothing for nothing.
pub fn queue(text: &str) -> Result<String, ValueRefusal> {
    const ALLOWED: &str = "a queue's name (80 letters, digits, - and _ at most), its URL or its ARN";
    let bare = text.trim_matches('"');
    let name = if bare.starts_with("https://") || bare.starts_with("http://") {
        let path = bare.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map(|(_, path)| path);
        path.and_then(|path| path.trim_end_matches('/').rsplit('/').next()).unwrap_or_default()
    } else if bare.starts_with("arn:") {
        let parts: Vec<&str> = bare.split(':').collect();
        if parts.len() == 6 && parts[2] == "sqs" { parts[5] } else { "" }
    } else {
        bare
    };
    let plain = name.strip_suffix(".fifo").unwrap_or(name);
    let fits = name.len() <= 80 && plain.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if fits && (!name.is_empty() || bare.is_empty()) { Ok(name.into()) } else { refuse("it names no queue", ALLOWED) }
}

/// The region of an SQS queue that is given as its URL or as its ARN; nothing where that does not say.
pub fn queue_region(text: &str) -> &str {
    let bare = text.trim_matches('"');
    if let Some(rest) = bare.strip_prefix("arn:") {
        return rest.split(':').nth(2).unwrap_or_default();
    }
    let host = bare.split_once("://").and_then(|(_, rest)| rest.split('/').next()).unwrap_or_default();
    let mut parts = host.split('.');
    // sqs.REGION.amazonaws.com, and as it was before: REGION.queue.amazonaws.com.
    match (parts.next(), parts.next(), parts.next()) {
        (Some("sqs"), Some(region), Some("amazonaws")) | (Some(region), Some("queue"), Some("amazonaws")) => region,
        _ => "",
    }
}

/// A port, or `none`.
pub fn port_or_none(text: &str) -> Result<Option<u16>, ValueRefusal> {
    const ALLOWED: &str = "a port from 0 to 65535, or none";
    if text == "none" { Ok(None) } else { number(text, ALLOWED).map(Some) }
}

/// A token that is not guessed, or nothing.
pub fn token(text: &str) -> Result<Secret, ValueRefusal> {
    if text.is_empty() || (text.len() >= SHORTEST_TOKEN && text.is_ascii()) {
        return Ok(Secret(text.to_owned()));
    }
    let allowed = format!("{SHORTEST_TOKEN} or more characters of ASCII, or nothing");
    refuse(&format!("it has {} characters, or some that are not ASCII", text.chars().count()), &allowed)
}

/// A duration, or `never`.
pub fn delay(text: &str) -> Result<Option<Duration>, ValueRefusal> {
    const ALLOWED: &str = "a Go duration above zero, such as 500ms, or never";
    if text == "never" {
        return Ok(None);
    }
    duration(text).map(Some).map_err(|(what, _)| (what, ALLOWED.into()))
}

/// `true` or `false`, nothing else.
pub fn boolean(text: &str) -> Result<bool, ValueRefusal> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => refuse("it is not a boolean", "true, false"),
    }
}

/// A text that is not empty.
pub fn filled(text: &str) -> Result<String, ValueRefusal> {
    if text.is_empty() { refuse("it is empty", "any text") } else { Ok(text.into()) }
}

/// Parses a name that a Kubernetes object or a namespace can have.
pub fn object_name(text: &str) -> Result<String, ValueRefusal> {
    const ALLOWED: &str = "lower case letters, digits, '-' and '.', beginning and ending with a letter or digit";
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    // Each part between dots is a name of its own.
    let is_part =
        |part: &str| part.starts_with(fits) && part.ends_with(fits) && part.chars().all(|c| fits(c) || c == '-');
    if text.len() <= 253 && text.split('.').all(is_part) {
        return Ok(text.into());
    }
    refuse("it cannot be a name", ALLOWED)
}

/// An absolute URL, also in the quotes that `--output json` leaves around it, or nothing.
pub fn url(text: &str) -> Result<String, ValueRefusal> {
    let bare = text.trim_matches('"');
    let host = bare.strip_prefix("https://").or_else(|| bare.strip_prefix("http://"));
    let host = host.filter(|host| !host.contains(|c: char| c.is_whitespace() || c.is_control()));
    if bare.is_empty() || host.is_some_and(|host| !host.is_empty() && !host.starts_with('/')) {
        return Ok(bare.into());
    }
    refuse("it is not an absolute URL", "https://HOST[:PORT]")
}

/// Parses a [`url`] of HTTPS, in the form that an API server takes for a webhook.
pub fn https_url(text: &str) -> Result<String, ValueRefusal> {
    let given = url(text)?;
    if given.is_empty() || (given.starts_with("https://") && !given.contains(['?', '#', '@'])) {
        return Ok(given);
    }
    refuse("an API server calls no webhook by it", "https://HOST[:PORT][/PATH]")
}

/// Base64 of a certificate in PEM, or nothing.
pub fn ca_bundle(text: &str) -> Result<String, ValueRefusal> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/');
    let data = text.trim_end_matches('=');
    // No more than two characters fill the last four up.
    if data.chars().all(fits) && text.len() - data.len() <= 2 && text.len().is_multiple_of(4) {
        return Ok(text.into());
    }
    refuse("it is not base64", "a certificate in PEM, encoded as base64 on one line")
}

pub fn number<T: FromStr>(text: &str, allowed: &str) -> Result<T, ValueRefusal> {
    text.parse().or_else(|_| refuse("it is not a number that fits", allowed))
}

pub fn above_zero(text: &str, allowed: &str) -> Result<f64, ValueRefusal> {
    let number: f64 = number(text, allowed)?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { refuse("it must be above zero", allowed) }
}

/// A ceiling on prices, in parts of the cheapest.
pub fn times(text: &str) -> Result<MaxOptionPrice, ValueRefusal> {
    const ALLOWED: &str = "a number from 1, such as 1.5";
    MaxOptionPrice::times(number(text, ALLOWED)?).map_or_else(|| refuse("it is out of range", ALLOWED), Ok)
}

/// Parses a fraction.
pub fn share(text: &str) -> Result<f64, ValueRefusal> {
    const ALLOWED: &str = "a fraction from 0 and below 1, such as 0.075";
    let share: f64 = number(text, ALLOWED)?;
    if (0.0..1.0).contains(&share) { Ok(share) } else { refuse("it is out of range", ALLOWED) }
}

/// One of a few words.
pub fn one_of(text: &str, allowed: &[&str]) -> Result<String, ValueRefusal> {
    if allowed.contains(&text) {
        Ok(text.into())
    } else {
        refuse("it is not one of those allowed", &allowed.join(", "))
    }
}

/// Parses `PROVIDER`.
pub fn provider(text: &str) -> Result<Provider, ValueRefusal> {
    let allowed = Provider::ALL.map(Provider::name).join(", ");
    Provider::named(text).ok_or_else(|| ("there is no such provider".into(), allowed))
}

/// Parses `PREFERENCE_POLICY`.
pub fn preferences(text: &str) -> Result<PreferencePolicy, ValueRefusal> {
    match one_of(text, &["Respect", "Ignore"])?.as_str() {
        "Ignore" => Ok(PreferencePolicy::Ignore),
        _ => Ok(PreferencePolicy::Respect),
    }
}

/// Parses `MIN_VALUES_POLICY`.
pub fn min_values(text: &str) -> Result<MinValuesPolicy, ValueRefusal> {
    match one_of(text, &["Strict", "BestEffort"])?.as_str() {
        "BestEffort" => Ok(MinValuesPolicy::BestEffort),
        _ => Ok(MinValuesPolicy::Strict),
    }
}

/// Parses `INTERRUPTION`.
pub fn interruptions(text: &str) -> Result<Interruptions, ValueRefusal> {
    match one_of(text, &["replace", "evict"])?.as_str() {
        "evict" => Ok(Interruptions::Evict),
        _ => Ok(Interruptions::Replace),
    }
}

/// Dollars an hour, from zero.
pub fn from_zero(text: &str) -> Result<f64, ValueRefusal> {
    const ALLOWED: &str = "$ an hour from zero, such as 0.05";
    let amount: f64 = number(text, ALLOWED)?;
    if amount.is_finite() && amount >= 0.0 { Ok(amount) } else { refuse("no such price", ALLOWED) }
}

/// `PACKING_POLICY`. `node-groups` is read, for comparisons; `run` refuses it.
pub fn policy(text: &str) -> Result<Policy, ValueRefusal> {
    let groups = (text == Policy::NodeGroups.name()).then_some(Policy::NodeGroups);
    let refusal = || ("there is no such policy".into(), "cost, fewest-nodes; in simulate also node-groups".into());
    Policy::named(text).or(groups).ok_or_else(refusal)
}

/// Parses `ADOPT_AS`.
pub fn adopt_as(text: &str) -> Result<AdoptAs, ValueRefusal> {
    AdoptAs::parse(text).ok_or_else(|| ("it names no way of taking pools over".into(), adoption::ALLOWED.into()))
}

/// Parses `LOG_FORMAT`.
pub fn log_format(text: &str) -> Result<LogFormat, ValueRefusal> {
    match one_of(text, &["auto", "text", "json"])?.as_str() {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Ok(LogFormat::Auto),
    }
}

/// `stdout`, `stderr` or absolute paths, comma separated.
pub fn outputs(text: &str) -> Result<Vec<String>, ValueRefusal> {
    const ALLOWED: &str = "stdout, stderr or absolute paths of files, comma separated";
    let paths: Vec<String> = text.split(',').map(|path| path.trim().to_owned()).collect();
    match paths.iter().find(|path| !matches!(path.as_str(), "stdout" | "stderr") && !path.starts_with('/')) {
        Some(wrong) => refuse(&format!("{wrong:?} is no place for a log"), ALLOWED),
        None => Ok(paths),
    }
}

/// An address of this machine, or nothing.
pub fn address(text: &str) -> Result<Option<IpAddr>, ValueRefusal> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).or_else(|_| refuse("it is no IP address", "an IP address, such as 127.0.0.1, 0.0.0.0 or ::"))
}

/// `NAME=SIZE/RATE,…`: EC2's token buckets of the account.
pub fn ec2_limits(text: &str) -> Result<AccountLimits, ValueRefusal> {
    let names = || AccountLimits::names().collect::<Vec<_>>().join(", ");
    let allowed = || format!("NAME=SIZE/RATE, comma separated, such as InstancesLaunched=5000/20; names: {}", names());
    text.parse().map_err(|why: NoLimits| (why.to_string(), allowed()))
}

/// `Name=true,Other=false`; unknown gates are Karpenter's business and pass.
pub fn gates(text: &str) -> Result<BTreeMap<String, bool>, ValueRefusal> {
    const ALLOWED: &str = "Name=true or Name=false, comma separated";
    let mut gates = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((name, value)) = part.split_once('=') else {
            return refuse(&format!("{part:?} has no value"), ALLOWED);
        };
        let on = boolean(value).or_else(|_| refuse(&format!("{value:?} is not a boolean"), ALLOWED))?;
        if gates.insert(name.to_owned(), on) == Some(!on) {
            return refuse(&format!("{name} is both true and false"), ALLOWED);
        }
    }
    Ok(gates)
}
