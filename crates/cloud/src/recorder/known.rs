//! Facts that conditions look at and that are not in a request itself, as far as requests and answers have said them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::answers::{instance_ids, profile_in, tags_by_instance};
use super::asked::RecordedRequest;

/// Most instances that are remembered: more than a test has.
const MOST: usize = 20_000;

/// Resources that a request is about.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RequestContext {
    /// The requests that made its launch templates, by name.
    pub templates: BTreeMap<String, String>,
    /// Tags of its instances by id, and its instance profiles by name: path, tags, roles.
    pub before: Map<String, Value>,
}

/// Known resources of a cluster.
#[derive(Default)]
pub(super) struct KnownResources {
    templates: BTreeMap<String, String>,
    profiles: BTreeMap<String, Value>,
    instances: BTreeMap<String, BTreeMap<String, String>>,
}

fn value_of(form: &[(String, String)], name: &str) -> Option<String> {
    form.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

/// The pairs of a list of tags, `Tags.member.1.Key`.
fn pairs(form: &[(String, String)], list: &str) -> BTreeMap<String, String> {
    let keys = form.iter().filter_map(|(name, key)| {
        let name = name.strip_suffix(".Key").filter(|name| name.starts_with(list))?;
        Some((key.clone(), value_of(form, &format!("{name}.Value")).unwrap_or_default()))
    });
    keys.collect()
}

impl KnownResources {
    /// Remembers facts that hold before a request is carried out, from the request or its answer.
    pub fn learn_before(&mut self, asked: &RecordedRequest, answer: &str) {
        match asked.operation.as_str() {
            "CreateLaunchTemplate" => {
                let name = value_of(&asked.form(), "LaunchTemplateName").unwrap_or_default();
                self.templates.insert(name, asked.body.clone());
            }
            "GetInstanceProfile" => self.profiles.extend(profile_in(answer)),
            _ => {}
        }
    }

    /// Remembers facts that hold once it is carried out.
    pub fn learn_after(&mut self, asked: &RecordedRequest, answer: &str) {
        let form = || asked.form();
        match asked.operation.as_str() {
            "CreateInstanceProfile" => {
                let (form, text) = (form(), |name: &str| value_of(&form(), name).unwrap_or_default());
                let made = json!({"path": text("Path"), "tags": pairs(&form, "Tags."), "roles": []});
                self.profiles.insert(text("InstanceProfileName"), made);
            }
            "AddRoleToInstanceProfile" => {
                let form = form();
                let name = value_of(&form, "InstanceProfileName").unwrap_or_default();
                if let Some(profile) = self.profiles.get_mut(&name) {
                    profile["roles"] = json!([format!("/{}", value_of(&form, "RoleName").unwrap_or_default())]);
                }
            }
            "CreateFleet" => {
                let form = form();
                let of_instances = form.iter().find_map(|(name, value)| {
                    name.strip_suffix(".ResourceType").filter(|_| value == "instance").map(str::to_owned)
                });
                let tags = of_instances.map(|list| pairs(&form, &format!("{list}."))).unwrap_or_default();
                self.instances.extend(instance_ids(answer).into_iter().map(|id| (id, tags.clone())));
            }
            "DescribeInstances" => self.instances.extend(tags_by_instance(answer)),
            _ => {}
        }
        if self.instances.len() > MOST {
            self.instances.clear();
        }
    }

    /// The resources that a request is about; none where not all of them are known.
    pub fn about(&self, asked: &RecordedRequest) -> Option<RequestContext> {
        let mut about = RequestContext::default();
        for id in match asked.operation.as_str() {
            "TerminateInstances" | "RebootInstances" => asked.numbered("InstanceId"),
            "CreateTags" => asked.numbered("ResourceId"),
            _ => Vec::new(),
        } {
            about.before.insert(id.clone(), json!(self.instances.get(&id)?));
        }
        if matches!(asked.operation.as_str(), "CreateFleet" | "RunInstances") {
            for (_, name) in asked.form().iter().filter(|(key, _)| key.ends_with("LaunchTemplateName")) {
                let template = self.templates.get(name)?;
                let of_profile = format!("{template}&");
                let profile = form_urlencoded::parse(of_profile.as_bytes())
                    .find(|(key, _)| key == "LaunchTemplateData.IamInstanceProfile.Name")
                    .map(|(_, name)| name.into_owned());
                about.before.extend(profile.and_then(|name| Some((name.clone(), self.profiles.get(&name)?.clone()))));
                about.templates.insert(name.clone(), template.clone());
            }
        }
        if asked.service == "iam" {
            let name = value_of(&asked.form(), "InstanceProfileName").unwrap_or_default();
            let known = self.profiles.get(&name);
            if matches!(
                asked.operation.as_str(),
                "AddRoleToInstanceProfile" | "RemoveRoleFromInstanceProfile" | "DeleteInstanceProfile"
            ) && known.is_none()
            {
                return None;
            }
            about.before.extend(known.map(|known| (name, known.clone())));
        }
        Some(about)
    }
}
