//! Older versions of custom kinds: what is written in one is held against its schema and stored in the newer, and told in the
//! older again. The conversion is that of the webhook (`dovetail_api::convert::webhook`), called in process.
use crate::apiserver::error::{ApiError, Result};
use crate::apiserver::registry::{FoundResource, api_version};
use crate::apiserver::{custom::schema, meta};
use dovetail_api::convert::webhook::{WebhookVersion, converted};
use serde_json::{Value, json};

/// True if requests are in another version than the stored one.
pub fn is_older(found: &FoundResource) -> bool {
    found.def.custom && found.version.name != found.def.stored().name
}

/// An object written in an older version, as it is stored, and the fields that the older version does not know. A part of an
/// object is neither complete nor given defaults.
///
/// # Errors
/// 422 with what the older version's schema and rules refuse.
pub fn up(found: &FoundResource, mut written: Value, whole: bool) -> Result<(Value, Vec<String>)> {
    let def = &found.def;
    written["apiVersion"] = json!(api_version(&def.group, &found.version.name));
    written["kind"] = json!(def.kind);
    let unknown = schema::prune(found, &mut written)?;
    schema::decode(found, &mut written)?;
    if whole {
        if let Some(schema) = &found.version.schema {
            schema.default(&mut written);
        }
        let causes = schema::check(found, &written, None);
        if !causes.is_empty() {
            return Err(ApiError::invalid(&def.group, &def.kind, meta::text(&written, "name"), causes));
        }
    }
    // Objects of kinds that are not ours have no other form: their versions differ by name alone.
    let mut stored = converted(&written, WebhookVersion::V1).unwrap_or(written);
    stored["apiVersion"] = json!(def.api_version());
    Ok((stored, unknown))
}

/// A stored object in the older version.
pub fn down(found: &FoundResource, stored: &Value) -> Value {
    let mut seen = converted(stored, WebhookVersion::V1Beta1).unwrap_or_else(|_| stored.clone());
    seen["apiVersion"] = json!(api_version(&found.group, &found.version.name));
    // The status is pruned too: the older version has the fields of it that it knows.
    let _ = schema::prune(found, &mut seen);
    seen
}
