//! Facts read off answers: no more of the XML than conditions look at.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The texts of an element, in order.
fn texts<'a>(xml: &'a str, element: &str) -> impl Iterator<Item = String> + use<'a> {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let mut rest = xml;
    std::iter::from_fn(move || {
        let (_, behind) = rest.split_once(open.as_str())?;
        let (text, behind) = behind.split_once(close.as_str())?;
        rest = behind;
        Some(unescaped(text))
    })
}

fn unescaped(text: &str) -> String {
    let all = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    all.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn tags(xml: &str, key: &str, value: &str) -> BTreeMap<String, String> {
    texts(xml, key).zip(texts(xml, value)).collect()
}

/// The instances that a fleet has launched.
pub(super) fn instance_ids(answer: &str) -> Vec<String> {
    let launched = texts(answer, "instanceIds");
    launched.flat_map(|ids| texts(&ids, "item").collect::<Vec<_>>()).collect()
}

/// Tags of the instances that DescribeInstances tells of.
pub(super) fn tags_by_instance(answer: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let instances = answer.split("<instanceId>").skip(1);
    let one = |part: &str| {
        let (id, rest) = part.split_once('<')?;
        let (_, set) = rest.split_once("<tagSet>")?;
        let (set, _) = set.split_once("</tagSet>")?;
        Some((id.to_owned(), tags(set, "key", "value")))
    };
    instances.filter_map(one).collect()
}

/// The instance profile that GetInstanceProfile tells of: path, tags, and the paths and names of its roles.
pub(super) fn profile_in(answer: &str) -> Option<(String, Value)> {
    let name = texts(answer, "InstanceProfileName").next()?;
    let roles = texts(answer, "Roles").next().unwrap_or_default();
    let of_profile = answer.replace(&roles, "");
    let path = texts(&of_profile, "Path").next().unwrap_or_else(|| "/".to_owned());
    let own = texts(&of_profile, "Tags").next().unwrap_or_default();
    let roles: Vec<String> =
        texts(&roles, "Path").zip(texts(&roles, "RoleName")).map(|(path, name)| format!("{path}{name}")).collect();
    Some((name, json!({"path": path, "tags": tags(&own, "Key", "Value"), "roles": roles})))
}
