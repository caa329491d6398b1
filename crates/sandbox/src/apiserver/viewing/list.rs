//! Lists: pages, consistent at one version, and selectors.
use crate::apiserver::error::{ApiError, Result, StatusCause};
use crate::apiserver::gvr::Key;
use crate::apiserver::http::request::{Query, VersionMatch};
use crate::apiserver::registry::FoundResource;
use crate::apiserver::store::{StoreState, StoredObject};
use crate::apiserver::viewing::view::ResourceView;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;

/// Start of a list's next page: the version of the first page, and the last key seen.
struct Token {
    version: u64,
    after: Key,
}

impl Token {
    fn parse(text: &str) -> Result<Self> {
        let refuse = || ApiError::bad_request("continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| refuse())?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| refuse())?;
        let part = |name: &str| value[name].as_str().ok_or_else(refuse);
        let version = value["rv"].as_u64().ok_or_else(refuse)?;
        Ok(Token { version, after: Key::new(part("ns")?, part("name")?) })
    }

    fn write(&self) -> String {
        URL_SAFE_NO_PAD
            .encode(json!({"rv": self.version, "ns": self.after.namespace, "name": self.after.name}).to_string())
    }
}

/// The list that a query asks for, as JSON.
///
/// # Errors
/// 400 for a bad token, 422 for options that contradict each other, 410 when the version asked for is no longer known, 504 when it is in the future.
pub fn list(
    state: &StoreState,
    found: &FoundResource,
    namespace: Option<&str>,
    query: &Query,
    view: &ResourceView,
) -> Result<Bytes> {
    let token = query.token.as_deref().map(Token::parse).transpose()?;
    let unfit = |why| ApiError::bad_options("ListOptions", StatusCause::forbidden("resourceVersionMatch", why));
    if query.version_match.is_some() && query.version.is_none() {
        return Err(unfit("resourceVersionMatch is forbidden unless resourceVersion is provided"));
    }
    if token.is_some() && query.version.is_some_and(|version| version > 0) {
        return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
    }
    let exact = match (&token, query.version_match) {
        (Some(token), _) => Some(token.version),
        (None, Some(VersionMatch::Exact)) => Some(
            query
                .version
                .filter(|v| *v > 0)
                .ok_or_else(|| unfit("resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\""))?,
        ),
        _ => None,
    };
    if let Some(wanted) = query.version.filter(|v| *v > state.rv) {
        return Err(ApiError::too_large_version(wanted, state.rv));
    }
    let version = exact.unwrap_or(state.rv);
    let objects = objects(state, found, namespace, exact, query)?;
    let after = token.map(|token| token.after);
    let mut rest = objects.into_iter().filter(|o| after.as_ref().is_none_or(|after| o.key > *after)).peekable();
    let page: Vec<Arc<StoredObject>> = rest.by_ref().take(query.limit.unwrap_or(usize::MAX)).collect();
    let more = rest.peek().is_some();
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let Some(last) = page.last().filter(|_| more) {
        metadata["continue"] = json!(Token { version, after: last.key.clone() }.write());
        if query.selector.is_empty() {
            metadata["remainingItemCount"] = json!(rest.count());
        }
    } else if found.def.custom && view.columns().is_none() {
        // The lists of custom kinds say so, as kube-apiserver's do.
        metadata["continue"] = json!("");
    }
    Ok(write(view, &metadata, &page))
}

/// The objects selected, in order of their keys, at a version or now.
fn objects(
    state: &StoreState,
    found: &FoundResource,
    namespace: Option<&str>,
    exact: Option<u64>,
    query: &Query,
) -> Result<Vec<Arc<StoredObject>>> {
    let selected = |o: &&Arc<StoredObject>| query.selector.is_empty() || query.selector.matches(&o.value);
    if let Some(version) = exact.filter(|v| *v != state.rv) {
        let too_old = || {
            ApiError::expired(format!(
                "The provided continue parameter is too old: the version {version} is no longer known. Start a new list without the continue parameter."
            ))
        };
        let then = state.table(found.rid).as_of(version).ok_or_else(too_old)?;
        let within = then.values().filter(|o| namespace.is_none_or(|ns| o.key.namespace == ns));
        return Ok(within.filter(selected).cloned().collect());
    }
    Ok(current(state, found, namespace, query))
}

/// The objects selected as they are now.
pub fn current(
    state: &StoreState,
    found: &FoundResource,
    namespace: Option<&str>,
    query: &Query,
) -> Vec<Arc<StoredObject>> {
    let selected = |o: &&Arc<StoredObject>| query.selector.is_empty() || query.selector.matches(&o.value);
    let node = query.selector.wanted("/spec/nodeName").filter(|node| !node.is_empty() && found.def.kind == "Pod");
    match node {
        Some(node) => {
            let within = state.pods_on(node).filter(|o| namespace.is_none_or(|ns| o.key.namespace == ns));
            within.filter(selected).cloned().collect()
        }
        None => state.table(found.rid).within(namespace).filter(selected).cloned().collect(),
    }
}

fn write(view: &ResourceView, metadata: &Value, page: &[Arc<StoredObject>]) -> Bytes {
    let (version, kind) = view.list_meta();
    let items: Vec<Bytes> = page.iter().map(|o| view.item(o)).collect();
    let size = items.iter().map(|i| i.len() + 1).sum::<usize>() + 4096;
    let mut body = Vec::with_capacity(size);
    let contents = match view.columns() {
        Some(columns) => format!("\"columnDefinitions\":{columns},\"rows\":["),
        None => "\"items\":[".to_owned(),
    };
    body.extend_from_slice(
        format!("{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},{contents}", json!(kind), json!(version))
            .as_bytes(),
    );
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(item);
    }
    body.extend_from_slice(b"]}");
    Bytes::from(body)
}
