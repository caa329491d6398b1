//! The HTTP client whose answers are bounded: one that is longer than any of AWS's is not kept, however long it goes on.

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;

/// Longest body of an answer, bytes. A page of 500 instances with 50 tags each has 10 MiB.
const MOST_BYTES: usize = 16 << 20;

/// A client whose answers are bounded.
#[derive(Debug)]
struct Bounded(SharedHttpClient);

/// The same client, with answers of [`MOST_BYTES`] at most, read to the end.
pub(super) fn bounded(inner: SharedHttpClient) -> SharedHttpClient {
    SharedHttpClient::new(Bounded(inner))
}

impl HttpClient for Bounded {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(BoundedConnector(self.0.http_connector(settings, components)))
    }
}

#[derive(Clone, Debug)]
struct BoundedConnector(SharedHttpConnector);

impl HttpConnector for BoundedConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let asked = self.0.call(request);
        HttpConnectorFuture::new(async move { whole(asked.await?, MOST_BYTES).await })
    }
}

/// An answer with all of its body, unless that is longer than allowed.
async fn whole(mut answer: HttpResponse, most: usize) -> Result<HttpResponse, ConnectorError> {
    // A body in memory is no stream: it is there already.
    if answer.body().bytes().is_some_and(|body| body.len() <= most) {
        return Ok(answer);
    }
    let said = answer.headers().get("content-length").and_then(|length| length.parse::<usize>().ok());
    if said.is_some_and(|length| length > most) {
        return Err(too_long(most));
    }
    let mut stream = ByteStream::new(answer.take_body());
    let mut body = Vec::new();
    while let Some(part) = stream.next().await {
        let part = part.map_err(|why| ConnectorError::io(why.into()))?;
        if part.len() > most - body.len() {
            return Err(too_long(most));
        }
        body.extend_from_slice(&part);
    }
    *answer.body_mut() = SdkBody::from(body);
    Ok(answer)
}

fn too_long(most: usize) -> ConnectorError {
    ConnectorError::io(format!("the answer is longer than {} MiB", most >> 20).into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn answer(length: usize) -> HttpResponse {
        HttpResponse::new(200_u16.try_into().unwrap(), SdkBody::from(" ".repeat(length)))
    }

    #[tokio::test]
    async fn answer_longer_than_any_of_aws_is_refused() {
        let read = whole(answer(1000), 1000).await.unwrap();
        assert_eq!(read.body().bytes().map(<[u8]>::len), Some(1000));
        let why = format!("{:?}", whole(answer(1001), 1000).await.unwrap_err());
        assert!(why.contains("the answer is longer than"), "{why}");
        let mut said = answer(10);
        said.headers_mut().insert("content-length", "104857600");
        assert!(whole(said, MOST_BYTES).await.is_ok(), "what is there counts, not what is said of it");
    }
}
