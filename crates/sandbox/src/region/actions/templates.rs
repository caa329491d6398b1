//! Launch templates. Each has one version: nobody here makes a second.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::region::actions::filters::{Filterable, Filters, one};
use crate::region::actions::paging::ResultPage;
use crate::region::config::ACCOUNT;
use crate::region::state::{IdempotentAnswer, RegionState};
use crate::region::wire::error::AwsError;
use crate::region::wire::form::{FormNode, FormStep};
use crate::region::wire::xml::Xml;
use crate::region::{Cx, actions::tags, ids, stamp};

/// EC2's limit of user data, before base64.
const USER_DATA_LIMIT: usize = 16_384;

#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub id: String,
    pub name: String,
    pub created: Timestamp,
    pub description: Option<String>,
    /// `LaunchTemplateData` as it came.
    pub data: FormNode,
}

impl Filterable for Template {
    fn values(&self, filter: &str) -> Option<Vec<String>> {
        match filter {
            "launch-template-name" => one(&self.name),
            "create-time" => one(stamp(self.created)),
            _ => None,
        }
    }
}

impl RegionState {
    /// The template that a specification names, by id or name.
    pub fn template(&self, specification: &FormNode) -> Result<&Template, AwsError> {
        let version = specification.text("Version").unwrap_or("$Default");
        let template = match (specification.text("LaunchTemplateId"), specification.text("LaunchTemplateName")) {
            (Some(_), Some(_)) => {
                let message = "Only one of launch template ID and launch template name may be specified";
                return Err(AwsError::new("InvalidParameterCombination", message));
            }
            (Some(id), None) => self.templates.get(id).ok_or_else(|| no_such_id(id))?,
            (None, Some(name)) => self.template_named(name).ok_or_else(|| no_such_name(name))?,
            (None, None) => return Err(AwsError::missing("LaunchTemplateId or LaunchTemplateName")),
        };
        match version {
            "1" | "$Latest" | "$Default" => Ok(template),
            other => Err(AwsError::new(
                "InvalidLaunchTemplateId.VersionNotFound",
                format_args!(
                    "Could not find the specified version {other} for the launch template with ID {}",
                    template.id
                ),
            )),
        }
    }

    fn template_named(&self, name: &str) -> Option<&Template> {
        self.templates.values().find(|template| template.name == name)
    }
}

fn no_such_id(id: &str) -> AwsError {
    let message = format!("The specified launch template, with template ID {id}, does not exist.");
    AwsError::new("InvalidLaunchTemplateId.NotFound", message)
}

fn no_such_name(name: &str) -> AwsError {
    let message = format!("The specified launch template, with template name {name}, does not exist.");
    AwsError::new("InvalidLaunchTemplateName.NotFoundException", message)
}

/// CreateLaunchTemplate.
pub(crate) fn create(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let name = form.required("LaunchTemplateName")?;
    check_name(name)?;
    let data = form.get("LaunchTemplateData");
    if data.is_absent() {
        return Err(AwsError::missing("LaunchTemplateData"));
    }
    check_user_data(data)?;
    if let Some(answer) = cx.answered("CreateLaunchTemplate", form)? {
        return Ok(answer);
    }
    if cx.state.template_named(name).is_some() {
        let message = "Launch template name already in use.";
        return Err(AwsError::new("InvalidLaunchTemplateName.AlreadyExistsException", message));
    }
    if form.flag("DryRun") {
        return Err(AwsError::dry_run());
    }
    let template = Template {
        id: ids::resource(&mut cx.state.ids, "lt"),
        name: name.to_owned(),
        created: cx.wall,
        description: form.text("VersionDescription").map(str::to_owned),
        data: data.clone(),
    };
    cx.notes.push(("templateId", template.id.clone().into()));
    cx.state.tags.insert(template.id.clone(), tags::specified(form, "launch-template"));
    let mut xml = Xml::new();
    xml.node("launchTemplate", |xml| template_xml(cx, &template, xml));
    cx.state.templates.insert(template.id.clone(), template);
    cx.remember("CreateLaunchTemplate", form, &xml);
    Ok(xml)
}

/// Letters, digits and `-_/().` , 3 to 125 of them (the API reference's pattern has 128; EC2 refuses above 125).
fn check_name(name: &str) -> Result<(), AwsError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "().-/_".contains(c);
    if (3..=128).contains(&name.len()) && name.chars().all(allowed) {
        return Ok(());
    }
    let message = "The launch template name must be between 3 and 128 characters, and may contain letters, numbers, and the following characters: ( ) . / _ -";
    Err(AwsError::new("InvalidLaunchTemplateName.MalformedException", message))
}

/// User data is base64 of at most 16 KiB.
pub(crate) fn check_user_data(data: &FormNode) -> Result<(), AwsError> {
    let Some(encoded) = data.text("UserData") else { return Ok(()) };
    match STANDARD.decode(encoded) {
        Err(_) => Err(AwsError::new("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")),
        Ok(raw) if raw.len() > USER_DATA_LIMIT => {
            Err(AwsError::invalid(format_args!("User data is limited to {USER_DATA_LIMIT} bytes")))
        }
        Ok(_) => Ok(()),
    }
}

fn template_xml(cx: &Cx<'_>, template: &Template, xml: &mut Xml) {
    xml.text("launchTemplateId", &template.id)
        .text("launchTemplateName", &template.name)
        .text("createTime", stamp(template.created))
        .text("createdBy", creator(cx))
        .text("defaultVersionNumber", 1)
        .text("latestVersionNumber", 1)
        .tags(cx.state.tags.get(&template.id).into_iter().flatten());
}

fn creator(cx: &Cx<'_>) -> String {
    format!("arn:{}:iam::{ACCOUNT}:user/dovetail", cx.config.partition())
}

/// DescribeLaunchTemplates.
pub(crate) fn describe(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let (ids, names) = (form.strings("LaunchTemplateId"), form.strings("LaunchTemplateName"));
    for id in &ids {
        cx.state.templates.get(id).ok_or_else(|| no_such_id(id))?;
    }
    if let Some(name) = names.iter().find(|name| cx.state.template_named(name).is_none()) {
        let message = format!("At least one of the launch templates specified in the request does not exist: {name}");
        return Err(AwsError::new("InvalidLaunchTemplateName.NotFoundException", message));
    }
    let filters = Filters::from_form(form)?;
    let mut chosen = Vec::new();
    for (id, template) in &cx.state.templates {
        let asked = (ids.is_empty() || ids.contains(id)) && (names.is_empty() || names.contains(&template.name));
        if asked && filters.pass(template, cx.state.tags.get(id))? {
            chosen.push((id.clone(), template));
        }
    }
    let (page, next) = ResultPage::from_form(form, 200)?.cut(chosen);
    let mut xml = Xml::new();
    xml.list("launchTemplates", page, |xml, template| template_xml(cx, template, xml));
    xml.opt("nextToken", next);
    Ok(xml)
}

/// DescribeLaunchTemplateVersions.
pub(crate) fn describe_versions(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let mut wanted = form.without("Version");
    if let Some(version) = form.strings("LaunchTemplateVersion").first() {
        wanted.insert("Version", version.clone());
    }
    let template = cx.state.template(&wanted)?;
    let mut xml = Xml::new();
    xml.list("launchTemplateVersionSet", [template], |xml, template| {
        xml.text("launchTemplateId", &template.id)
            .text("launchTemplateName", &template.name)
            .text("versionNumber", 1)
            .opt("versionDescription", template.description.as_ref())
            .text("createTime", stamp(template.created))
            .text("createdBy", creator(cx))
            .text("defaultVersion", true)
            .node("launchTemplateData", |xml| data_xml(&template.data, xml));
    });
    Ok(xml)
}

/// DeleteLaunchTemplate.
pub(crate) fn delete(cx: &mut Cx<'_>, form: &FormNode) -> Result<Xml, AwsError> {
    let template = cx.state.template(&form.without("Version"))?.clone();
    if form.flag("DryRun") {
        return Err(AwsError::dry_run());
    }
    let mut xml = Xml::new();
    xml.node("launchTemplate", |xml| template_xml(cx, &template, xml));
    cx.state.templates.remove(&template.id);
    cx.state.tags.remove(&template.id);
    Ok(xml)
}

/// Request data as an answer: names start small, lists get `Set` behind their name and an `item` a member.
fn data_xml(data: &FormNode, xml: &mut Xml) {
    for (step, child) in data.children() {
        let FormStep::Name(name) = step else { continue };
        let items: Vec<&FormNode> =
            child.children().filter(|(s, _)| matches!(s, FormStep::Index(_))).map(|(_, f)| f).collect();
        let small: String = name.chars().take(1).map(|c| c.to_ascii_lowercase()).chain(name.chars().skip(1)).collect();
        match (child.value(), name.as_str(), items.is_empty()) {
            (Some(value), ..) => drop(xml.text(&small, value)),
            (None, "NetworkInterface", false) => drop(xml.list("networkInterfaceSet", items, |xml, interface| {
                data_xml(&interface.without("SecurityGroupId"), xml);
                // The one list whose items have a name of their own.
                let groups = interface.strings("SecurityGroupId");
                xml.list_of("groupSet", "groupId", groups, |xml, group| xml.raw_value(&group));
            })),
            (None, "LicenseSpecification", false) => drop(xml.list("licenseSet", items, item_xml)),
            (None, _, false) => drop(xml.list(&format!("{small}Set"), items, item_xml)),
            (None, _, true) => drop(xml.node(&small, |xml| data_xml(child, xml))),
        }
    }
}

fn item_xml(xml: &mut Xml, item: &FormNode) {
    match item.value() {
        Some(value) => xml.raw_value(value),
        None => data_xml(item, xml),
    }
}

impl Cx<'_> {
    /// The earlier answer to this client token.
    ///
    /// # Errors
    /// When the parameters were others then.
    pub fn answered(&self, action: &'static str, form: &FormNode) -> Result<Option<Xml>, AwsError> {
        let Some(token) = form.text("ClientToken") else { return Ok(None) };
        match self.state.tokens.get(&(action, token.to_owned())) {
            None => Ok(None),
            Some(before) if before.parameters == fingerprint(form) => Ok(Some(before.answer.clone())),
            Some(_) => {
                let message = "The request uses the same client token as a previous, but non-identical request.";
                Err(AwsError::new("IdempotentParameterMismatch", message))
            }
        }
    }

    /// Keeps the answer for whoever repeats the request with the same token.
    pub fn remember(&mut self, action: &'static str, form: &FormNode, answer: &Xml) {
        if let Some(token) = form.text("ClientToken") {
            let answered = IdempotentAnswer { parameters: fingerprint(form), answer: answer.clone() };
            self.state.tokens.insert((action, token.to_owned()), answered);
        }
    }
}

fn fingerprint(form: &FormNode) -> u64 {
    ids::fnv(&form.without("ClientToken").without("DryRun").canonical())
}
