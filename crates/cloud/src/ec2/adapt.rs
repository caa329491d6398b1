//! Serves the AWS SDK in process: a function from request to response takes the place of the network.

use std::fmt;
use std::sync::Arc;

use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::BodyExt;

/// The connection broke before an answer came; the request may have been carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection broke before an answer came")]
pub struct BrokenConnection;

/// Function that answers a request.
pub type Handler =
    dyn Fn(http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, BrokenConnection>> + Send + Sync;

/// An HTTP client for the SDK whose every request is answered by `handler`, without a socket.
pub fn http_client<F>(handler: F) -> SharedHttpClient
where
    F: Fn(http::Request<Bytes>) -> BoxFuture<'static, Result<http::Response<Bytes>, BrokenConnection>>
        + Send
        + Sync
        + 'static,
{
    let connector = SharedHttpConnector::new(InProcess(Arc::new(handler)));
    http_client_fn(move |_, _| connector.clone())
}

#[derive(Clone)]
struct InProcess(Arc<Handler>);

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcess")
    }
}

impl HttpConnector for InProcess {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let handler = Arc::clone(&self.0);
        HttpConnectorFuture::new(async move {
            let request = to_http(request).await?;
            let response = handler(request).await.map_err(|e| ConnectorError::io(e.into()))?;
            from_http(response)
        })
    }
}

async fn to_http(request: HttpRequest) -> Result<http::Request<Bytes>, ConnectorError> {
    let request = request.try_into_http1x().map_err(|e| ConnectorError::user(e.into()))?;
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(ConnectorError::user)?.to_bytes();
    Ok(http::Request::from_parts(head, body))
}

fn from_http(response: http::Response<Bytes>) -> Result<HttpResponse, ConnectorError> {
    let response = response.map(SdkBody::from);
    HttpResponse::try_from(response).map_err(|e| ConnectorError::other(e.into(), None))
}
