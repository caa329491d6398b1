//! The HTTP client whose requests wait for their tokens.

use std::time::Duration;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;

use super::{Limiter, Needs};

/// A server that refuses for the rate of requests.
const TOO_MANY: [u16; 2] = [503, 429];

/// A client whose requests to EC2 wait for their tokens.
#[derive(Debug)]
struct Limited {
    inner: SharedHttpClient,
    limiter: Limiter,
    attempt: Duration,
}

/// The same client, within the limiter's buckets. `attempt` is how long an attempt may take once it is sent, its answer
/// read to the end.
pub fn limited(inner: SharedHttpClient, limiter: &Limiter, attempt: Duration) -> SharedHttpClient {
    SharedHttpClient::new(Limited { inner, limiter: limiter.clone(), attempt })
}

impl HttpClient for Limited {
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(LimitedConnector { inner, limiter: self.limiter.clone(), attempt: self.attempt })
    }
}

#[derive(Clone, Debug)]
struct LimitedConnector {
    inner: SharedHttpConnector,
    limiter: Limiter,
    attempt: Duration,
}

impl HttpConnector for LimitedConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (this, inner) = (self.clone(), self.inner.clone());
        HttpConnectorFuture::new(async move {
            let needs = Needs::from_body(request.body().bytes().unwrap_or_default());
            this.limiter.admit(&needs).await;
            let answer = tokio::time::timeout(this.attempt, whole(inner.call(request))).await;
            let answer = answer.unwrap_or_else(|late| Err(ConnectorError::timeout(late.into())));
            if answer.as_ref().is_ok_and(|answer| TOO_MANY.contains(&answer.status().as_u16())) {
                this.limiter.throttled(&needs);
            }
            answer
        })
    }
}

/// An answer with all of its body.
async fn whole(asked: HttpConnectorFuture) -> Result<HttpResponse, ConnectorError> {
    let mut answer = asked.await?;
    let body = ByteStream::new(answer.take_body()).collect().await;
    let body = body.map_err(|why| ConnectorError::io(why.into()))?;
    *answer.body_mut() = SdkBody::from(body.into_bytes());
    Ok(answer)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::{limiter, needs, sent};
    use super::*;

    /// A server that answers after so long, or never.
    #[derive(Debug)]
    struct Slow(Option<Duration>);

    impl HttpConnector for Slow {
        fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
            let after = self.0;
            HttpConnectorFuture::new(async move {
                match after {
                    Some(after) => tokio::time::sleep(after).await,
                    None => std::future::pending().await,
                }
                Ok(HttpResponse::new(200_u16.try_into().unwrap(), SdkBody::from("answer")))
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_an_attempt_begins_when_it_is_sent() {
        let (limiter, begun) = limiter();
        let connector = |after| {
            let inner = SharedHttpConnector::new(Slow(after));
            LimitedConnector { inner, limiter: limiter.clone(), attempt: Duration::from_secs(20) }
        };
        let request = || HttpRequest::new(SdkBody::from("Action=DeleteLaunchTemplate&X=1"));
        let fleet = needs("CreateFleet");
        sent(&limiter, begun, &fleet, 45 + 90).await;
        let (one, never) = (connector(Some(Duration::from_secs(19))), connector(None));
        let waiting = sent(&limiter, begun, &fleet, 90);
        let (_, answered) = tokio::join!(waiting, one.call(request()));
        assert_eq!(answered.unwrap().body().bytes(), Some(&b"answer"[..]));
        assert!(begun.elapsed() > Duration::from_secs(20 + 20 + 19), "{:?}", begun.elapsed());
        let sent_at = begun.elapsed();
        let late = never.call(request()).await.unwrap_err();
        assert!(late.is_timeout(), "{late:?}");
        assert!((19.9..21.0).contains(&(begun.elapsed() - sent_at).as_secs_f64()));
    }
}
