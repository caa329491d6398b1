//! Prometheus's HTTP API, asked once, within bounds of time and size. Whatever speaks it will do: Thanos, Mimir, VictoriaMetrics.

use std::time::Duration;

use dovetail_core::clock::Clock as _;
use dovetail_input::{Failure, Mistake};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use kube::{Client, Config};
use tokio::time::timeout;

use super::series::{MOST_BYTES, NAMES, Series, read_answer, shortly};
use crate::cli::MetricsArgs;
use crate::run::clock::SystemClock;
use crate::run::connect::plainly;

/// Distance of two samples, at least: as Prometheus scrapes.
const LEAST_STEP: Duration = Duration::from_secs(15);
/// Samples of a series, about, where no distance is given.
const USUAL_POINTS: u32 = 1000;
/// Most samples of a series that Prometheus gives.
const MOST_POINTS: u64 = 11_000;

/// Asks for the series of the last hours.
///
/// # Errors
/// No address, no answer, or one that is not query_range's.
pub(super) fn ask(url: &str, args: &MetricsArgs) -> Result<Vec<Series>, Failure> {
    let (server, step) = (server(url)?, step(args)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| Failure::System(why.to_string()))?;
    let asked = async {
        let late = |_| format!("no whole answer within {} s (--timeout)", args.timeout.as_secs());
        timeout(args.timeout, answer(server, args, step)).await.map_err(late)?
    };
    let bytes = runtime.block_on(asked);
    // A look-up of a name may hang for a while: nobody waits for it.
    runtime.shutdown_background();
    let place = shortly(url);
    let bytes = bytes.map_err(|why| Failure::System(format!("{place}: {why}")))?;
    read_answer(&bytes).map_err(|what| Failure::System(format!("{place}: what it answers {what}")))
}

/// The address, without what belongs in no address.
fn server(url: &str) -> Result<http::Uri, Mistake> {
    let allowed = "an address such as http://prometheus.monitoring:9090; a token goes into PROMETHEUS_TOKEN";
    let bad = |what: &str| Mistake::of_file("--prometheus", what).allowing(allowed);
    let uri: http::Uri = url.trim_end_matches('/').parse().map_err(|_| bad("is no address"))?;
    let authority = uri.authority().ok_or_else(|| bad("is no address with a scheme and a host"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(bad("is neither http nor https"));
    }
    if authority.as_str().contains('@') {
        return Err(bad("has a password in it, which others see among the processes"));
    }
    if uri.query().is_some() {
        return Err(bad("has a query; what is asked is added here"));
    }
    Ok(uri)
}

/// The distance of two samples.
fn step(args: &MetricsArgs) -> Result<Duration, Mistake> {
    let step = args.step.unwrap_or_else(|| Duration::from_secs((args.since / USUAL_POINTS).as_secs()).max(LEAST_STEP));
    let points = args.since.as_secs() / step.as_secs().max(1);
    if points > MOST_POINTS {
        let what = format!("makes {points} samples of each series");
        return Err(Mistake::of_file("--step", what).allowing(format!("{MOST_POINTS} at most, Prometheus's own bound")));
    }
    Ok(step)
}

async fn answer(server: http::Uri, args: &MetricsArgs, step: Duration) -> Result<Vec<u8>, String> {
    let mut config = Config::new(server);
    config.proxy_url = None;
    config.default_retry = false;
    let client = Client::try_from(config).map_err(|why| plainly(&why))?;
    let mut request = http::Request::get(path(args, step)).header("accept", "application/json");
    if let Some(token) = args.token.as_deref().filter(|token| !token.is_empty()) {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Body::empty()).map_err(|_| "the token is no text of a header".to_owned())?;
    let response = client.send(request).await.map_err(|why| plainly(&why))?;
    let status = response.status();
    let most = usize::try_from(MOST_BYTES).unwrap_or(usize::MAX);
    let body =
        Limited::new(response.into_body(), most).collect().await.map_err(|why| match why
            .is::<http_body_util::LengthLimitError>(
        ) {
            true => {
                format!("more than {} MiB: a larger --step, a shorter --since, or --cluster NAME", MOST_BYTES >> 20)
            }
            false => shortly(&why.to_string()),
        })?;
    let bytes = body.to_bytes().to_vec();
    if status.is_success() {
        return Ok(bytes);
    }
    // Prometheus says why in its own form; what stands before it may say anything.
    let why = read_answer(&bytes).err().filter(|why| why.starts_with("is a refusal")).unwrap_or_default();
    Err(format!("status {} {why}", status.as_u16()).trim_end().to_owned())
}

/// The path with the question: one for all metrics, so that their samples have the same times.
fn path(args: &MetricsArgs, step: Duration) -> String {
    let cluster = args.cluster.as_deref().map(|name| format!(",cluster=\"{}\"", quoted(name))).unwrap_or_default();
    let query = format!("{{__name__=~\"{}\"{cluster}}}", NAMES.join("|"));
    let end = SystemClock.wall().as_second();
    let start = end.saturating_sub_unsigned(args.since.as_secs());
    let text = form_urlencoded::Serializer::new(String::new())
        .append_pair("query", &query)
        .append_pair("start", &start.to_string())
        .append_pair("end", &end.to_string())
        .append_pair("step", &step.as_secs().to_string())
        .append_pair("timeout", &format!("{}s", args.timeout.as_secs()))
        .finish();
    format!("/api/v1/query_range?{text}")
}

/// A label's value between PromQL's quotes.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_without_a_host_or_with_a_password_are_refused() {
        for wrong in
            ["", "prometheus", "prometheus:9090", "ftp://a/", "http://u:p@a:9090", "http://a/?x=1", "http://", "/x"]
        {
            assert!(server(wrong).is_err(), "{wrong}");
        }
        for right in ["http://a:9090", "https://a/prometheus/", "http://[::1]:9090/"] {
            assert!(server(right).is_ok(), "{right}");
        }
    }

    #[test]
    fn name_of_a_cluster_stays_between_its_quotes() {
        assert_eq!(quoted("a\"} or {b=\"\\"), "a\\\"} or {b=\\\"\\\\");
    }
}
