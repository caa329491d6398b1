//! IAM: roles and instance profiles.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::region::actions::filters::Tags;
use crate::region::actions::paging::ResultPage;
use crate::region::config::{ACCOUNT, RegionConfig};
use crate::region::ids;
use crate::region::wire::error::AwsError;
use crate::region::wire::form::FormNode;
use crate::region::wire::xml::Xml;
use crate::region::{Cx, stamp};

#[derive(Clone, Debug)]
pub(crate) struct Role {
    name: String,
    path: String,
    id: String,
    service: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Profile {
    name: String,
    path: String,
    id: String,
    created: Option<jiff::Timestamp>,
    role: Option<String>,
    tags: Tags,
}

/// Roles and profiles by name.
#[derive(Clone, Debug)]
pub(crate) struct Iam {
    partition: &'static str,
    roles: BTreeMap<String, Role>,
    profiles: BTreeMap<String, Profile>,
}

impl Iam {
    /// The node role and the node instance profile that Karpenter's guides create.
    pub fn new(config: &RegionConfig) -> Self {
        let mut rng = Rng::with_seed(ids::fnv(&config.cluster_name));
        let role = Role {
            name: config.node_role(),
            path: "/".into(),
            id: unique("AROA", &mut rng),
            service: "ec2.amazonaws.com".into(),
        };
        let profile = Profile {
            name: config.node_instance_profile(),
            path: "/".into(),
            id: unique("AIPA", &mut rng),
            created: None,
            role: Some(role.name.clone()),
            tags: Tags::new(),
        };
        Self {
            partition: config.partition(),
            roles: BTreeMap::from([(role.name.clone(), role)]),
            profiles: BTreeMap::from([(profile.name.clone(), profile)]),
        }
    }

    /// True if EC2 can launch with this profile: it exists and has a role.
    pub fn can_launch_with(&self, profile: &str) -> bool {
        self.profiles.get(profile).is_some_and(|profile| profile.role.is_some())
    }

    pub fn profile_arn(&self, name: &str) -> Option<(String, &str)> {
        self.profiles.get(name).map(|p| (self.arn("instance-profile", &p.path, &p.name), p.id.as_str()))
    }

    fn arn(&self, kind: &str, path: &str, name: &str) -> String {
        format!("arn:{}:iam::{ACCOUNT}:{kind}{path}{name}", self.partition)
    }

    fn role_xml(&self, role: &Role, xml: &mut Xml) {
        let trust = format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":{{"Service":"{}"}},"Action":"sts:AssumeRole"}}]}}"#,
            role.service
        );
        xml.text("Path", &role.path)
            .text("RoleName", &role.name)
            .text("RoleId", &role.id)
            .text("Arn", self.arn("role", &role.path, &role.name))
            .text("CreateDate", "2025-12-01T09:00:00Z")
            .text("AssumeRolePolicyDocument", percent_encode(&trust))
            .text("MaxSessionDuration", 3600);
    }

    fn profile_xml(&self, profile: &Profile, xml: &mut Xml) {
        xml.text("Path", &profile.path)
            .text("InstanceProfileName", &profile.name)
            .text("InstanceProfileId", &profile.id)
            .text("Arn", self.arn("instance-profile", &profile.path, &profile.name))
            .text("CreateDate", profile.created.map_or_else(|| "2025-12-01T09:00:00Z".to_owned(), stamp));
        let role = profile.role.as_ref().and_then(|name| self.roles.get(name));
        xml.list_of("Roles", "member", role, |xml, role| self.role_xml(role, xml));
        xml.list_of("Tags", "member", &profile.tags, |xml, (key, value)| {
            xml.text("Key", key).text("Value", value);
        });
    }

    fn profile(&mut self, name: &str) -> Result<&mut Profile, AwsError> {
        self.profiles.get_mut(name).ok_or_else(|| no_entity(format!("Instance Profile {name} cannot be found.")))
    }
}

/// Carries out an action of IAM.
pub(crate) fn act(cx: &mut Cx<'_>, action: &str, form: &FormNode) -> Result<Xml, AwsError> {
    match action {
        "GetInstanceProfile" => get(cx, form),
        "CreateInstanceProfile" => create(cx, form),
        "DeleteInstanceProfile" => delete(cx, form),
        "TagInstanceProfile" => tag(cx, form),
        "ListInstanceProfiles" => list(cx, form),
        "AddRoleToInstanceProfile" => add_role(cx, form),
        "RemoveRoleFromInstanceProfile" => remove_role(cx, form),
        "GetRole" => get_role(cx, form),
        "CreateServiceLinkedRole" => create_service_linked_role(cx, form),
        _ => Err(AwsError::unknown_action(action)),
    }
}

fn get(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let profile = cx.state.iam.profile(form.required("InstanceProfileName")?)?.clone();
    Ok(one_profile(&cx.state.iam, &profile))
}

fn one_profile(iam: &Iam, profile: &Profile) -> Xml {
    let mut xml = Xml::new();
    xml.node("InstanceProfile", |xml| iam.profile_xml(profile, xml));
    xml
}

fn create(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let name = form.required("InstanceProfileName")?;
    if cx.state.iam.profiles.contains_key(name) {
        return Err(AwsError::new("EntityAlreadyExists", format_args!("Instance Profile {name} already exists."))
            .with_status(409));
    }
    let profile = Profile {
        name: name.to_owned(),
        path: form.text("Path").unwrap_or("/").to_owned(),
        id: unique("AIPA", &mut cx.state.ids),
        created: Some(cx.wall),
        role: None,
        tags: tags_of(form),
    };
    let answer = one_profile(&cx.state.iam, &profile);
    cx.state.iam.profiles.insert(name.to_owned(), profile);
    Ok(answer)
}

fn delete(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let name = form.required("InstanceProfileName")?;
    if cx.state.iam.profile(name)?.role.is_some() {
        let message = "Cannot delete entity, must remove roles from instance profile first.";
        return Err(AwsError::new("DeleteConflict", message).with_status(409));
    }
    cx.state.iam.profiles.remove(name);
    Ok(Xml::new())
}

fn tag(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let profile = cx.state.iam.profile(form.required("InstanceProfileName")?)?;
    profile.tags.extend(tags_of(form));
    Ok(Xml::new())
}

fn list(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let prefix = form.text("PathPrefix").unwrap_or("/");
    let page = ResultPage::new(form.number("MaxItems")?, form.text("Marker"), 100)?;
    let iam = &cx.state.iam;
    let all = iam.profiles.values().filter(|profile| profile.path.starts_with(prefix));
    let (profiles, marker) = page.cut(all.map(|profile| (profile.name.clone(), profile)));
    let mut xml = Xml::new();
    xml.text("IsTruncated", marker.is_some());
    xml.list_of("InstanceProfiles", "member", profiles, |xml, profile| iam.profile_xml(profile, xml));
    xml.opt("Marker", marker);
    Ok(xml)
}

fn add_role(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let role = form.required("RoleName")?;
    let profile = cx.state.iam.profile(form.required("InstanceProfileName")?)?;
    if profile.role.is_some() {
        let message = "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1";
        return Err(AwsError::new("LimitExceeded", message).with_status(409));
    }
    let iam = &mut cx.state.iam;
    if !iam.roles.contains_key(role) {
        return Err(no_role(role));
    }
    iam.profile(form.required("InstanceProfileName")?)?.role = Some(role.to_owned());
    Ok(Xml::new())
}

fn remove_role(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let role = form.required("RoleName")?;
    let profile = cx.state.iam.profile(form.required("InstanceProfileName")?)?;
    if profile.role.as_deref() != Some(role) {
        return Err(no_role(role));
    }
    profile.role = None;
    Ok(Xml::new())
}

fn get_role(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let name = form.required("RoleName")?;
    let iam = &cx.state.iam;
    let role = iam.roles.get(name).ok_or_else(|| no_role(name))?;
    let mut xml = Xml::new();
    xml.node("Role", |xml| iam.role_xml(role, xml));
    Ok(xml)
}

fn create_service_linked_role(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let service = form.required("AWSServiceName")?;
    let stem = service.split('.').next().unwrap_or(service);
    let name = match stem {
        "spot" => "AWSServiceRoleForEC2Spot".to_owned(),
        "spotfleet" => "AWSServiceRoleForEC2SpotFleet".to_owned(),
        other => format!("AWSServiceRoleFor{other}"),
    };
    if cx.state.iam.roles.contains_key(&name) {
        let message =
            format!("Service role name {name} has been taken in this account, please try a different suffix.");
        return Err(AwsError::new("InvalidInput", message));
    }
    let role = Role {
        path: format!("/aws-service-role/{service}/"),
        id: unique("AROA", &mut cx.state.ids),
        service: service.to_owned(),
        name: name.clone(),
    };
    let mut xml = Xml::new();
    xml.node("Role", |xml| cx.state.iam.role_xml(&role, xml));
    cx.state.iam.roles.insert(name, role);
    Ok(xml)
}

fn tags_of(form: &FormNode) -> Tags {
    form.list("Tags")
        .filter_map(|tag| Some((tag.text("Key")?.to_owned(), tag.get("Value").value().unwrap_or("").to_owned())))
        .collect()
}

fn no_role(name: &str) -> AwsError {
    no_entity(format!("The role with name {name} cannot be found."))
}

fn no_entity(message: String) -> AwsError {
    AwsError::new("NoSuchEntity", message).with_status(404)
}

/// IAM's unique ids: a prefix for the kind and 17 capitals and digits.
fn unique(prefix: &str, rng: &mut Rng) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let drawn = (0..17).map(|_| char::from(alphabet[rng.usize(0..alphabet.len())]));
    prefix.chars().chain(drawn).collect()
}

/// Percent-encoding of all but unreserved characters (RFC 3986), as IAM writes policy documents.
fn percent_encode(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|b| if keep(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}
