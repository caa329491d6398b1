//! The standard variables of OpenTelemetry, as far as they are ours to read; endpoint, headers, certificates and the time
//! for a request are read by the exporter itself.

use std::fmt;
use std::time::Duration;

/// Protocols for sending spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// `grpc`.
    Grpc,
    /// `http/protobuf`.
    Http,
}

/// Settings of sending traces.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSettings {
    /// `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL`, else `OTEL_EXPORTER_OTLP_PROTOCOL`; gRPC unless given.
    pub protocol: OtlpProtocol,
    /// Share of traces that are kept whatever happens in them, from `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`.
    pub ratio: f64,
    /// `OTEL_BSP_MAX_QUEUE_SIZE`: spans that may wait; 8192 unless given.
    pub queue: usize,
    /// `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`: spans of one request; 512 unless given.
    pub batch: usize,
    /// `OTEL_BSP_SCHEDULE_DELAY`: how long a span waits for company; 1 s unless given.
    pub delay: Duration,
    /// `OTEL_BSP_EXPORT_TIMEOUT`: how long one request may take; 10 s unless given.
    pub timeout: Duration,
    /// Endpoint to use instead of the environment's.
    pub endpoint: Option<String>,
}

impl Default for TraceSettings {
    fn default() -> Self {
        Self {
            protocol: OtlpProtocol::Grpc,
            ratio: 1.0,
            queue: 8192,
            batch: 512,
            delay: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            endpoint: None,
        }
    }
}

/// A variable that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedVariable {
    /// Name of the environment variable.
    pub name: &'static str,
    /// Value of the variable.
    pub value: String,
    /// Allowed values.
    pub allowed: &'static str,
}

impl fmt::Display for RefusedVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} is not understood (allowed: {})", self.name, self.value, self.allowed)
    }
}

const PROTOCOLS: &str = "grpc, http/protobuf";
const EXPORTERS: &str = "otlp, none";
const SAMPLERS: &str =
    "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off, parentbased_traceidratio";
const RATIO: &str = "a number from 0 to 1";
const COUNT: &str = "an integer from 1";
const MILLISECONDS: &str = "milliseconds, an integer from 1";

impl TraceSettings {
    /// Settings of the environment; `None` when no traces are to be sent: no endpoint is named and no exporter asked for.
    ///
    /// # Errors
    /// The first variable that is not understood.
    pub fn of_environment(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, RefusedVariable> {
        let given = |name: &'static str| get(name).filter(|text| !text.trim().is_empty());
        if given("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let named = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
        match given("OTEL_TRACES_EXPORTER").as_deref() {
            Some("none") => return Ok(None),
            Some("otlp") => {}
            Some(other) => {
                return Err(RefusedVariable { name: "OTEL_TRACES_EXPORTER", value: other.into(), allowed: EXPORTERS });
            }
            None if named.into_iter().any(|name| given(name).is_some()) => {}
            None => return Ok(None),
        }
        let mut own = Self::default();
        for name in ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] {
            match given(name).as_deref() {
                Some("grpc") => own.protocol = OtlpProtocol::Grpc,
                Some("http/protobuf") => own.protocol = OtlpProtocol::Http,
                Some(other) => return Err(RefusedVariable { name, value: other.into(), allowed: PROTOCOLS }),
                None => {}
            }
        }
        own.ratio = ratio(&given)?;
        let count = |name, usual| number(&given, name, usual, COUNT);
        own.queue = count("OTEL_BSP_MAX_QUEUE_SIZE", own.queue)?;
        own.batch = count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", own.batch)?.min(own.queue);
        let time = |name, usual: Duration| {
            let usual = usize::try_from(usual.as_millis()).unwrap_or(usize::MAX);
            number(&given, name, usual, MILLISECONDS).map(|millis| Duration::from_millis(millis as u64))
        };
        own.delay = time("OTEL_BSP_SCHEDULE_DELAY", own.delay)?;
        own.timeout = time("OTEL_BSP_EXPORT_TIMEOUT", own.timeout)?;
        Ok(Some(own))
    }
}

fn ratio(given: &impl Fn(&'static str) -> Option<String>) -> Result<f64, RefusedVariable> {
    match given("OTEL_TRACES_SAMPLER").as_deref() {
        None | Some("always_on" | "parentbased_always_on") => Ok(1.0),
        Some("always_off" | "parentbased_always_off") => Ok(0.0),
        Some("traceidratio" | "parentbased_traceidratio") => {
            let Some(text) = given("OTEL_TRACES_SAMPLER_ARG") else { return Ok(1.0) };
            let refused = || RefusedVariable { name: "OTEL_TRACES_SAMPLER_ARG", value: text.clone(), allowed: RATIO };
            let ratio: f64 = text.trim().parse().map_err(|_| refused())?;
            if (0.0..=1.0).contains(&ratio) { Ok(ratio) } else { Err(refused()) }
        }
        Some(other) => Err(RefusedVariable { name: "OTEL_TRACES_SAMPLER", value: other.into(), allowed: SAMPLERS }),
    }
}

fn number(
    given: &impl Fn(&'static str) -> Option<String>,
    name: &'static str,
    usual: usize,
    allowed: &'static str,
) -> Result<usize, RefusedVariable> {
    let Some(text) = given(name) else { return Ok(usual) };
    let number = text.trim().parse().ok().filter(|number| *number > 0);
    number.ok_or(RefusedVariable { name, value: text, allowed })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<TraceSettings>, RefusedVariable> {
        TraceSettings::of_environment(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn traces_are_sent_only_with_a_named_collector_or_exporter() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), Ok(None));
        let named = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317")]).unwrap();
        assert_eq!(named, Some(TraceSettings::default()));
        assert!(read(&[("OTEL_TRACES_EXPORTER", "otlp")]).unwrap().is_some());
        let off = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"), ("OTEL_SDK_DISABLED", "true")];
        assert_eq!(read(&off), Ok(None));
    }

    #[test]
    fn the_protocol_for_traces_counts_before_the_one_for_all() {
        let all = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf");
        let read = read(&[("OTEL_TRACES_EXPORTER", "otlp"), all, own]).unwrap().unwrap();
        assert_eq!(read.protocol, OtlpProtocol::Http);
    }

    #[test]
    fn a_ratio_is_read_and_what_makes_no_sense_is_refused_by_name() {
        let on = ("OTEL_TRACES_EXPORTER", "otlp");
        let ratio = [on, ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.25")];
        assert_eq!(read(&ratio).unwrap().unwrap().ratio, 0.25);
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
            ("OTEL_BSP_SCHEDULE_DELAY", "soon"),
        ] {
            let refused = read(&[on, (name, value)]).unwrap_err();
            assert_eq!((refused.name, refused.value.as_str()), (name, value));
        }
        assert_eq!(read(&[("OTEL_TRACES_EXPORTER", "zipkin")]).unwrap_err().name, "OTEL_TRACES_EXPORTER");
    }
}
