//! Requests to AWS, written down while tests run, so that the policies can be held to them (tests/deploy/union.py).
//!
//! Off unless the test runner sets [`DIRECTORY`]: then a request costs nothing. On, each kind of request is written once a
//! process, as a line of JSON, with what IAM's conditions would see beside it: the launch templates of a fleet, the tags
//! of instances, the instance profiles. It learns those from the requests and answers that go by.

mod answers;
mod asked;
mod known;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;
use serde_json::json;

use asked::RecordedRequest;
use known::KnownResources;

/// The environment variable of the directory into which each process writes a file of its own.
pub const DIRECTORY: &str = "DOVETAIL_RECORD_AWS";

/// The file of this process, and the kinds of requests that are in it.
struct RecordFile {
    file: File,
    kinds: BTreeSet<u64>,
}

/// The file that all clouds of this process write; none where nothing is to be written.
static WRITTEN: OnceLock<Option<Mutex<RecordFile>>> = OnceLock::new();

fn written() -> Option<&'static Mutex<RecordFile>> {
    let open = || {
        let name = format!("aws-{}.jsonl", std::process::id());
        let path = Path::new(&std::env::var_os(DIRECTORY)?).join(name);
        let file = OpenOptions::new().create(true).append(true).open(path).ok()?;
        Some(Mutex::new(RecordFile { file, kinds: BTreeSet::new() }))
    };
    WRITTEN.get_or_init(open).as_ref()
}

/// The same client; one that writes down what goes through it where the test runner says so. Nothing is written of a
/// cluster without name or UID: no control plane runs without.
pub(crate) fn recorded(inner: SharedHttpClient, cluster: &str, uid: &str, region: &str) -> SharedHttpClient {
    match written() {
        Some(into) if !cluster.is_empty() && !uid.is_empty() => {
            let recorder = RequestRecorder::new([cluster, uid, region], into);
            SharedHttpClient::new(RecordedClient { inner, recorder: Arc::new(recorder) })
        }
        _ => inner,
    }
}

/// Recorder of one cluster's requests, and of the resources that they are about.
struct RequestRecorder {
    /// The cluster's name and UID, and its region.
    of: [String; 3],
    known: Mutex<KnownResources>,
    into: &'static Mutex<RecordFile>,
}

impl RequestRecorder {
    fn new(of: [&str; 3], into: &'static Mutex<RecordFile>) -> Self {
        Self { of: of.map(str::to_owned), known: Mutex::default(), into }
    }

    /// Writes a request down unless one of its kind is, and learns what it and its answer say.
    fn note(&self, asked: &RecordedRequest, answer: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.learn_before(asked, answer);
        let about = known.about(asked);
        known.learn_after(asked, answer);
        drop(known);
        // A request without the facts that conditions look at cannot be judged; another of its kind will have them.
        let Some(about) = about else { return };
        let mut written = self.into.lock().unwrap_or_else(PoisonError::into_inner);
        if !written.kinds.insert(asked.kind(&about)) {
            return;
        }
        let [cluster, uid, region] = &self.of;
        let line = json!({
            "cluster": cluster, "uid": uid, "clusterRegion": region,
            "service": asked.service, "region": asked.region, "operation": asked.operation, "body": asked.body,
            "templates": about.templates, "before": about.before,
        });
        // In one piece: a process may be killed at any time.
        if let Err(why) = written.file.write_all(format!("{line}\n").as_bytes()) {
            tracing::warn!(%why, "a request to AWS is not written down");
        }
    }
}

struct RecordedClient {
    inner: SharedHttpClient,
    recorder: Arc<RequestRecorder>,
}

impl std::fmt::Debug for RecordedClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecordedClient")
    }
}

impl HttpClient for RecordedClient {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(RecordedConnector { inner, recorder: self.recorder.clone() })
    }
}

#[derive(Clone)]
struct RecordedConnector {
    inner: SharedHttpConnector,
    recorder: Arc<RequestRecorder>,
}

impl std::fmt::Debug for RecordedConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RecordedConnector")
    }
}

impl HttpConnector for RecordedConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (asked, recorder, inner) =
            (RecordedRequest::from_request(&request), self.recorder.clone(), self.inner.clone());
        HttpConnectorFuture::new(async move {
            let answer = inner.call(request).await;
            let Some(asked) = asked else { return answer };
            match answer {
                Ok(answer) if asked.teaches() => {
                    let (answer, text) = with_text(answer).await?;
                    recorder.note(&asked, &text);
                    Ok(answer)
                }
                other => {
                    recorder.note(&asked, "");
                    other
                }
            }
        })
    }
}

/// An answer, and its body as text.
async fn with_text(mut answer: HttpResponse) -> Result<(HttpResponse, String), ConnectorError> {
    let body = ByteStream::new(answer.take_body()).collect().await;
    let body = body.map_err(|why| ConnectorError::io(why.into()))?.into_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    *answer.body_mut() = SdkBody::from(body);
    Ok((answer, text))
}
