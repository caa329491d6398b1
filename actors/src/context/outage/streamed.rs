//! Lists as streams of events (`sendInitialEvents`), where the API server makes them: it need not have a list whole in memory, nor
//! read it from etcd (docs/decisions/067).

use http::Uri;
use http::uri::PathAndQuery;

/// A request for a stream as kube makes it asks for whatever the server has in its cache, however old. Without a version the server
/// waits until its cache is as new as etcd was when it was asked, as for a list: what is decided by lists is not decided by an old one.
pub(super) fn most_recent(uri: Uri) -> Uri {
    let Some(query) = uri.query().filter(|query| query.split('&').any(|one| one == "sendInitialEvents=true")) else {
        return uri;
    };
    let kept: Vec<&str> = query.split('&').filter(|one| *one != "resourceVersion=0").collect();
    let Ok(query) = format!("{}?{}", uri.path(), kept.join("&")).parse::<PathAndQuery>() else { return uri };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(query);
    Uri::from_parts(parts).unwrap_or(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_is_asked_for_as_of_now_and_all_else_as_it_was() {
        let asked = |uri: &'static str| most_recent(Uri::from_static(uri)).to_string();
        assert_eq!(
            asked(
                "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0&x=1"
            ),
            "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&x=1"
        );
        for other in ["/api/v1/pods?watch=true&resourceVersion=0", "/api/v1/pods", "/?sendInitialEvents=true"] {
            assert_eq!(asked(other), other);
        }
    }
}
