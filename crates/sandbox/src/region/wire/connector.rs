//! The region as the HTTP client of an AWS SDK, in process.

use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http_body_util::BodyExt as _;

use crate::log::Caller;
use crate::region::Region;
use crate::region::wire::answer::ConnectionLost;

#[derive(Clone, Debug)]
struct Connector {
    region: Region,
    who: Caller,
    read_timeout: Option<Duration>,
}

impl Region {
    /// An HTTP client for the configuration of an AWS SDK (`.http_client(…)`): every request that `who` makes goes to
    /// this region, whatever its host. The SDK's read time-out holds, on tokio's clock.
    pub fn http_client(&self, who: Caller) -> SharedHttpClient {
        let region = self.clone();
        http_client_fn(move |settings, _| {
            SharedHttpConnector::new(Connector {
                region: region.clone(),
                who: who.clone(),
                read_timeout: settings.read_timeout(),
            })
        })
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connector = self.clone();
        HttpConnectorFuture::new(async move {
            let answer = connector.exchange(request);
            match connector.read_timeout {
                None => answer.await,
                Some(limit) => tokio::time::timeout(limit, answer)
                    .await
                    .unwrap_or_else(|elapsed| Err(ConnectorError::timeout(Box::new(elapsed)))),
            }
        })
    }
}

impl Connector {
    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let other = |error| ConnectorError::other(error, None);
        let (parts, body) = request.try_into_http1x().map_err(|error| other(Box::new(error)))?.into_parts();
        let body = match body.bytes() {
            Some(bytes) => Bytes::copy_from_slice(bytes),
            None => body.collect().await.map_err(other)?.to_bytes(),
        };
        let response = self.region.handle(self.who.clone(), http::Request::from_parts(parts, body)).await;
        if response.extensions().get::<ConnectionLost>().is_some() {
            let reset = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "connection reset by peer");
            return Err(ConnectorError::io(Box::new(reset)));
        }
        HttpResponse::try_from(response.map(SdkBody::from)).map_err(|error| other(Box::new(error)))
    }
}
