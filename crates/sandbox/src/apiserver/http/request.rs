//! Target of a request: its path and its query.
use crate::apiserver::error::{ApiError, Result, StatusCause};
use crate::apiserver::viewing::podlog::LogQuery;
use crate::apiserver::viewing::select::ListSelector;
use crate::apiserver::viewing::view::Include;
use crate::apiserver::writing::write::FieldValidation;
use crate::percent::{decode_form, decode_path};
use std::borrow::Cow;

/// A path below `/api/v1` or `/apis/GROUP/VERSION`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// API group, empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural name; empty for the discovery of the group's version.
    pub resource: String,
    /// Namespace, when one is named.
    pub namespace: Option<String>,
    /// Object, when one is named.
    pub name: Option<String>,
    /// Subresource, or empty.
    pub subresource: String,
}

impl ResourcePath {
    /// Reads a path; none when it is no path of a resource.
    pub fn parse(path: &str) -> Option<Self> {
        let parts: Vec<Cow<'_, str>> = path.split('/').filter(|p| !p.is_empty()).map(decode_path).collect();
        let mut rest: Vec<&str> = parts.iter().map(|part| &**part).collect();
        let (group, version) = match *rest.first()? {
            "api" if rest.len() >= 2 => ("", rest.drain(..2).nth(1)?),
            "apis" if rest.len() >= 3 => {
                let head: Vec<&str> = rest.drain(..3).collect();
                (head[1], head[2])
            }
            _ => return None,
        };
        let owned = |s: &str| s.to_owned();
        let base = ResourcePath { group: owned(group), version: owned(version), ..ResourcePath::default() };
        let namespace = match rest[..] {
            // A namespace's own subresources are not resources within it.
            ["namespaces", space, resource, ..] if !matches!(resource, "status" | "finalize") || rest.len() > 3 => {
                rest.drain(..2);
                Some(owned(space))
            }
            _ => None,
        };
        let base = ResourcePath { namespace, ..base };
        Some(match rest[..] {
            [] => base,
            [resource] => ResourcePath { resource: owned(resource), ..base },
            [resource, name] => ResourcePath { resource: owned(resource), name: Some(owned(name)), ..base },
            [resource, name, sub] => {
                ResourcePath { resource: owned(resource), name: Some(owned(name)), subresource: owned(sub), ..base }
            }
            _ => return None,
        })
    }
}

/// Version that a list may have (`resourceVersionMatch`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// At least as new as the one given.
    NotOlderThan,
    /// The one given.
    Exact,
}

/// The parameters that the API knows.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Label and field selectors.
    pub selector: ListSelector,
    /// `limit`.
    pub limit: Option<usize>,
    /// `continue`.
    pub token: Option<String>,
    /// `resourceVersion`; none when unset or empty.
    pub version: Option<u64>,
    /// `resourceVersionMatch`.
    pub version_match: Option<VersionMatch>,
    /// `watch`.
    pub watch: bool,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
    /// `sendInitialEvents`.
    pub initial_events: bool,
    /// `timeoutSeconds`.
    pub timeout_seconds: Option<u64>,
    /// `dryRun=All`.
    pub dry_run: bool,
    /// `fieldManager`.
    pub manager: Option<String>,
    /// `force`.
    pub force: bool,
    /// `fieldValidation`.
    pub validation: FieldValidation,
    /// True to look for fields that stand twice.
    pub twice: bool,
    /// `gracePeriodSeconds`, `propagationPolicy`, as in `DeleteOptions`.
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`.
    pub propagation: Option<String>,
    /// `includeObject`, of tables.
    pub include: Include,
    /// The parameters of logs.
    pub log: LogQuery,
}

impl Query {
    /// Reads a query string. Parameters that the API does not know are ignored, as kube-apiserver does.
    ///
    /// # Errors
    /// 400 with the parameter that cannot be read.
    pub fn parse(query: &str) -> Result<Self> {
        let mut read = Query::default();
        let (mut labels, mut fields) = (None, None);
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (decode_form(key), decode_form(value).into_owned());
            match &*key {
                "labelSelector" => labels = Some(value),
                "fieldSelector" => fields = Some(value),
                _ => read.set(&key, value)?,
            }
        }
        read.selector = ListSelector::parse(labels.as_deref(), fields.as_deref())?;
        Ok(read)
    }

    fn set(&mut self, key: &str, value: String) -> Result<()> {
        let yes = matches!(value.as_str(), "true" | "1");
        match key {
            "limit" => self.limit = number(key, &value)?.filter(|n| *n > 0),
            "continue" => self.token = (!value.is_empty()).then_some(value),
            "resourceVersion" => self.version = number(key, &value)?,
            "resourceVersionMatch" => self.version_match = version_match(&value)?,
            "watch" => self.watch = yes,
            "allowWatchBookmarks" => self.bookmarks = yes,
            "sendInitialEvents" => self.initial_events = yes,
            "timeoutSeconds" => self.timeout_seconds = number(key, &value)?,
            "dryRun" if value == "All" => self.dry_run = true,
            "dryRun" => {
                let message = format!("Unsupported value: {value:?}: supported values: \"All\"");
                return Err(ApiError::bad_options(
                    "CreateOptions",
                    StatusCause::new("FieldValueNotSupported", "dryRun", message),
                ));
            }
            "fieldManager" => self.manager = (!value.is_empty()).then_some(value),
            "force" => self.force = yes,
            "fieldValidation" => {
                self.validation = validation(&value)?;
                self.twice = !value.is_empty() && self.validation != FieldValidation::Ignore;
            }
            "includeObject" => self.include = include(&value)?,
            "follow" => self.log.follow = yes,
            "timestamps" => self.log.timestamps = yes,
            "previous" => self.log.previous = yes,
            "container" => self.log.container = (!value.is_empty()).then_some(value),
            "tailLines" => self.log.tail = number(key, &value)?,
            "limitBytes" => self.log.limit = number(key, &value)?,
            "sinceSeconds" => self.log.since_seconds = number(key, &value)?,
            "sinceTime" => {
                let bad =
                    |_| ApiError::bad_request(format!("sinceTime: Invalid value: {value:?}: must be an RFC 3339 time"));
                self.log.since = (!value.is_empty()).then(|| value.parse().map_err(bad)).transpose()?;
            }
            "gracePeriodSeconds" => self.grace_period_seconds = number(key, &value)?,
            "propagationPolicy" => self.propagation = Some(value),
            _ => {}
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<Option<T>> {
    if value.is_empty() {
        return Ok(None);
    }
    value
        .parse()
        .map(Some)
        .map_err(|_| ApiError::bad_request(format!("{key}: Invalid value: {value:?}: must be a number")))
}

fn version_match(value: &str) -> Result<Option<VersionMatch>> {
    match value {
        "" => Ok(None),
        "NotOlderThan" => Ok(Some(VersionMatch::NotOlderThan)),
        "Exact" => Ok(Some(VersionMatch::Exact)),
        _ => {
            let message = format!("Unsupported value: {value:?}: supported values: \"Exact\", \"NotOlderThan\"");
            Err(ApiError::bad_options(
                "ListOptions",
                StatusCause::new("FieldValueNotSupported", "resourceVersionMatch", message),
            ))
        }
    }
}

fn include(value: &str) -> Result<Include> {
    match value {
        "" | "Metadata" => Ok(Include::Metadata),
        "None" => Ok(Include::None),
        "Object" => Ok(Include::Object),
        _ => Err(ApiError::bad_request(format!(
            "includeObject: Unsupported value: {value:?}: supported values: \"Metadata\", \"None\", \"Object\""
        ))),
    }
}

fn validation(value: &str) -> Result<FieldValidation> {
    match value {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Strict" => Ok(FieldValidation::Strict),
        "Ignore" => Ok(FieldValidation::Ignore),
        _ => {
            let message = format!("Unsupported value: {value:?}: supported values: \"Ignore\", \"Strict\", \"Warn\"");
            let cause = StatusCause::new("FieldValueNotSupported", "fieldValidation", message);
            Err(ApiError::bad_options("CreateOptions", cause))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parts(path: &str) -> (String, String, String, String) {
        let p = ResourcePath::parse(path).unwrap();
        (p.resource, p.namespace.unwrap_or_default(), p.name.unwrap_or_default(), p.subresource)
    }

    #[test]
    fn paths_of_namespaced_and_cluster_wide_objects_are_told_apart() {
        let s = |a: &str, b: &str, c: &str, d: &str| (a.to_owned(), b.to_owned(), c.to_owned(), d.to_owned());
        assert_eq!(parts("/api/v1/pods"), s("pods", "", "", ""));
        assert_eq!(parts("/api/v1/namespaces/a/pods/p/status"), s("pods", "a", "p", "status"));
        assert_eq!(parts("/api/v1/namespaces/a"), s("namespaces", "", "a", ""));
        assert_eq!(parts("/api/v1/namespaces/a/status"), s("namespaces", "", "a", "status"));
        assert_eq!(parts("/apis/karpenter.sh/v1/nodepools/default/scale"), s("nodepools", "", "default", "scale"));
        assert_eq!(ResourcePath::parse("/apis/apps/v1").unwrap().resource, "");
        assert_eq!(ResourcePath::parse("/version"), None);
    }

    #[test]
    fn a_query_is_decoded_and_unknown_parameters_are_ignored() {
        let query =
            Query::parse("&limit=5&labelSelector=a%3Db%2Cc+in+%28d%29&pretty=1&resourceVersion=7&watch=true").unwrap();
        assert_eq!((query.limit, query.version, query.watch), (Some(5), Some(7), true));
        assert_eq!(query.selector, ListSelector::parse(Some("a=b,c in (d)"), None).unwrap());
        assert_eq!(Query::parse("limit=many").unwrap_err().code(), 400);
    }
}
