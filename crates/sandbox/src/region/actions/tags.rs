//! CreateTags and DeleteTags.

use crate::region::Cx;
use crate::region::actions::filters::Tags;
use crate::region::state::Due;
use crate::region::wire::error::AwsError;
use crate::region::wire::form::FormNode;
use crate::region::wire::xml::Xml;

/// EC2's limit of tags of one resource.
const MOST: usize = 50;

/// The tags that a request's `TagSpecification` gives to resources of a kind.
pub(crate) fn specified(form: &FormNode, kind: &str) -> Tags {
    form.list("TagSpecification")
        .filter(|specification| specification.text("ResourceType") == Some(kind))
        .flat_map(|specification| pairs(specification, "Tag"))
        .map(|(key, value)| (key, value.unwrap_or_default()))
        .collect()
}

fn pairs(form: &FormNode, list: &str) -> Vec<(String, Option<String>)> {
    let pair = |tag: &FormNode| Some((tag.text("Key")?.to_owned(), tag.get("Value").value().map(str::to_owned)));
    form.list(list).filter_map(pair).collect()
}

/// CreateTags.
pub(crate) fn create(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let tags = pairs(form, "Tag");
    if tags.is_empty() {
        return Err(AwsError::missing("Tag"));
    }
    if let Some((key, _)) = tags.iter().find(|(key, _)| key.to_ascii_lowercase().starts_with("aws:")) {
        let message = format!("Tag keys starting with 'aws:' are reserved for internal use ({key})");
        return Err(AwsError::invalid(message));
    }
    let resources = resources(cx, form)?;
    for resource in &resources {
        let has = cx.tags_of(resource);
        let new = tags.iter().filter(|(key, _)| has.is_none_or(|has| !has.contains_key(key))).count();
        if has.map_or(0, |has| has.keys().filter(|key| !key.starts_with("aws:")).count()) + new > MOST {
            return Err(AwsError::new(
                "TagLimitExceeded",
                "The maximum number of Tags for a resource has been reached.",
            ));
        }
    }
    if form.flag("DryRun") {
        return Err(AwsError::dry_run());
    }
    let changes = tags.into_iter().map(|(key, value)| (key, Some(value.unwrap_or_default())));
    change(cx, &resources, &changes.collect::<Vec<_>>());
    Ok(done())
}

/// DeleteTags: of a key, and if a value is given only when the tag has it. Without any key, all user tags.
pub(crate) fn delete(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let resources = resources(cx, form)?;
    if form.flag("DryRun") {
        return Err(AwsError::dry_run());
    }
    let asked = pairs(form, "Tag");
    for resource in &resources {
        let Some(has) = cx.tags_of(resource) else { continue };
        let goes = |key: &String, value: &String| {
            let named = asked.iter().any(|(k, v)| k == key && v.as_ref().is_none_or(|v| v == value));
            (asked.is_empty() || named) && !key.starts_with("aws:")
        };
        let gone: Vec<_> = has.iter().filter(|(k, v)| goes(k, v)).map(|(k, _)| (k.clone(), None)).collect();
        change(cx, std::slice::from_ref(resource), &gone);
    }
    Ok(done())
}

fn done() -> Xml {
    let mut xml = Xml::new();
    xml.text("return", true);
    xml
}

fn resources(cx: &Cx<'_>, form: &FormNode) -> Result<Vec<String>, AwsError> {
    let resources = form.strings("ResourceId");
    if resources.is_empty() {
        return Err(AwsError::missing("ResourceId"));
    }
    for id in &resources {
        if id.starts_with("i-") {
            cx.visible(id)?;
        } else if cx.tags_of(id).is_none() {
            return Err(AwsError::new("InvalidID", format_args!("The ID '{id}' is not valid")));
        }
    }
    Ok(resources)
}

fn change(cx: &mut Cx<'_>, resources: &[String], changes: &[(String, Option<String>)]) {
    for resource in resources {
        for (key, value) in changes {
            let lag = cx.faults.consistency_lag();
            if lag.is_zero() {
                cx.apply_tag(resource, key, value.clone());
            } else {
                cx.state.plan(cx.now + lag, Due::Tagged(resource.clone(), key.clone(), value.clone()));
            }
        }
    }
}

impl Cx<'_> {
    /// The tags of a resource that can have tags; a published image's are empty until somebody sets one.
    fn tags_of(&self, id: &str) -> Option<&Tags> {
        static NONE: Tags = Tags::new();
        let image = || self.state.images.get(id).map(|_| &NONE);
        let instance = self.state.instances.get(id).map(|instance| &instance.tags);
        instance.or_else(|| self.state.tags.get(id)).or_else(image)
    }

    /// Makes a tag visible, or with no value makes it go.
    pub fn apply_tag(&mut self, resource: &str, key: &str, value: Option<String>) {
        let tags = match self.state.instances.get_mut(resource) {
            Some(instance) => &mut instance.tags,
            None => self.state.tags.entry(resource.to_owned()).or_default(),
        };
        match value {
            Some(value) => tags.insert(key.to_owned(), value),
            None => tags.remove(key),
        };
    }
}
