//! IAM, whose protocol is forms that are answered by XML.

use aws_config::SdkConfig;
use aws_smithy_runtime::client::retries::RetryPartition;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use aws_smithy_types::error::metadata::{Builder, ErrorMetadata};
use aws_smithy_xml::decode::{Document, ScopedDecoder, XmlDecodeError, try_data};
use form_urlencoded::Serializer;

use super::endpoints::Host;
use super::xml::{each_member, read_error, text_of};
use super::{Call, Called, Service, ServiceClient};

const CONTENT_TYPE: &str = "application/x-www-form-urlencoded";
const VERSION: &str = "2010-05-08";
const NAME: &str = "InstanceProfileName";

static IAM: Service = Service { id: "IAM", signing_name: "iam", host: Host::Iam, error_of };

/// Instance profiles and roles of IAM.
#[derive(Clone, Debug)]
pub(in crate::ec2) struct Iam(ServiceClient);

/// Gives an instance its role.
#[derive(Debug, Default, PartialEq)]
pub(in crate::ec2) struct InstanceProfile {
    pub name: String,
    pub path: String,
    pub created: Option<DateTime>,
    /// Names of roles: at most one.
    pub roles: Vec<String>,
    /// Keys and values; a listing has none.
    pub tags: Vec<(String, String)>,
}

impl InstanceProfile {
    /// The value of a tag.
    pub fn tag(&self, key: &str) -> Option<&str> {
        self.tags.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
    }
}

/// A page of a listing.
#[derive(Debug, Default, PartialEq)]
pub(in crate::ec2) struct ProfilePage {
    pub profiles: Vec<InstanceProfile>,
    /// The next page's name; absent or empty on the last.
    pub marker: Option<String>,
}

impl Iam {
    pub fn new(config: &SdkConfig, partition: RetryPartition) -> Self {
        Self(ServiceClient::new(&IAM, config, partition))
    }

    /// A page of the profiles whose paths begin so.
    pub async fn list_instance_profiles(&self, path_prefix: &str, marker: Option<&str>) -> Called<ProfilePage> {
        let mut parameters = vec![("PathPrefix", path_prefix)];
        parameters.extend(marker.map(|marker| ("Marker", marker)));
        self.0.send(call("ListInstanceProfiles", &parameters), page_of).await
    }

    /// A profile by its name.
    pub async fn get_instance_profile(&self, name: &str) -> Called<Option<InstanceProfile>> {
        self.0.send(call("GetInstanceProfile", &[(NAME, name)]), found_of).await
    }

    /// Makes a profile without a role.
    pub async fn create_instance_profile(&self, name: &str, path: &str, tags: &[(String, String)]) -> Called<()> {
        let numbered = |member: &str, number: usize| format!("Tags.member.{number}.{member}");
        let keys: Vec<_> =
            (1..=tags.len()).map(|number| (numbered("Key", number), numbered("Value", number))).collect();
        let mut parameters = vec![(NAME, name), ("Path", path)];
        for ((key_name, value_name), (key, value)) in keys.iter().zip(tags) {
            parameters.extend([(key_name.as_str(), key.as_str()), (value_name.as_str(), value.as_str())]);
        }
        self.0.send(call("CreateInstanceProfile", &parameters), nothing_of).await
    }

    pub async fn add_role_to_instance_profile(&self, name: &str, role: &str) -> Called<()> {
        self.0.send(call("AddRoleToInstanceProfile", &[(NAME, name), ("RoleName", role)]), nothing_of).await
    }

    pub async fn remove_role_from_instance_profile(&self, name: &str, role: &str) -> Called<()> {
        self.0.send(call("RemoveRoleFromInstanceProfile", &[(NAME, name), ("RoleName", role)]), nothing_of).await
    }

    pub async fn delete_instance_profile(&self, name: &str) -> Called<()> {
        self.0.send(call("DeleteInstanceProfile", &[(NAME, name)]), nothing_of).await
    }

    /// Answers where there is a role of that name.
    pub async fn get_role(&self, name: &str) -> Called<()> {
        self.0.send(call("GetRole", &[("RoleName", name)]), nothing_of).await
    }
}

fn call(operation: &'static str, parameters: &[(&str, &str)]) -> Call {
    form_call(VERSION, operation, parameters)
}

/// A form that names its operation and the version of the service's interface.
pub(super) fn form_call(version: &str, operation: &'static str, parameters: &[(&str, &str)]) -> Call {
    let mut form = Serializer::new(String::new());
    form.append_pair("Action", operation).append_pair("Version", version).extend_pairs(parameters);
    let headers = vec![("content-type", CONTENT_TYPE.to_owned())];
    Call { operation, method: http::Method::POST, path: "/".into(), headers, body: form.finish() }
}

/// The status says that it was done; nothing of the body is needed.
fn nothing_of(_: &[u8]) -> Result<(), BoxError> {
    Ok(())
}

/// Code and message in `<ErrorResponse><Error>`.
fn error_of(_: &HttpResponse, body: &[u8]) -> Result<Builder, BoxError> {
    let mut document = Document::try_from(body)?;
    let mut root = document.root_element()?;
    let mut meta = ErrorMetadata::builder();
    each_member(&mut root, |name, error| if name == "Error" { read_error(error, &mut meta) } else { Ok(()) })?;
    Ok(meta)
}

/// Calls `read` for each member of `<OPERATIONResult>`.
fn each_of_result(
    body: &[u8],
    operation: &str,
    read: impl FnMut(&str, &mut ScopedDecoder<'_, '_>) -> Result<(), XmlDecodeError>,
) -> Result<(), BoxError> {
    let mut document = Document::try_from(body)?;
    let mut root = document.root_element()?;
    let (response, result) = (format!("{operation}Response"), format!("{operation}Result"));
    if !root.start_el().matches(&response) {
        return Err(format!("the answer is no {response}").into());
    }
    while let Some(mut tag) = root.next_tag() {
        if !tag.start_el().matches(&result) {
            continue;
        }
        each_member(&mut tag, read)?;
        return Ok(());
    }
    Err(format!("the answer has no {result}").into())
}

fn found_of(body: &[u8]) -> Result<Option<InstanceProfile>, BoxError> {
    let mut found = None;
    each_of_result(body, "GetInstanceProfile", |name, member| {
        if name == "InstanceProfile" {
            found = Some(profile_of(member)?);
        }
        Ok(())
    })?;
    Ok(found)
}

fn page_of(body: &[u8]) -> Result<ProfilePage, BoxError> {
    let mut page = ProfilePage::default();
    each_of_result(body, "ListInstanceProfiles", |name, member| {
        match name {
            "InstanceProfiles" => {
                while let Some(mut item) = member.next_tag() {
                    page.profiles.push(profile_of(&mut item)?);
                }
            }
            "Marker" => page.marker = Some(text_of(member)?),
            _ => {}
        }
        Ok(())
    })?;
    Ok(page)
}

fn profile_of(profile: &mut ScopedDecoder<'_, '_>) -> Result<InstanceProfile, XmlDecodeError> {
    let mut found = InstanceProfile::default();
    each_member(profile, |name, field| {
        match name {
            "InstanceProfileName" => found.name = text_of(field)?,
            "Path" => found.path = text_of(field)?,
            "CreateDate" => {
                let created = DateTime::from_str(&try_data(field)?, Format::DateTimeWithOffset);
                found.created = Some(created.map_err(XmlDecodeError::unhandled)?);
            }
            "Roles" => {
                while let Some(mut role) = field.next_tag() {
                    found.roles.extend(texts_of(&mut role, ["RoleName"])?);
                }
            }
            "Tags" => {
                while let Some(mut tag) = field.next_tag() {
                    found.tags.push(texts_of(&mut tag, ["Key", "Value"])?.into());
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(found)
}

/// The texts of an element's members by their names; empty where one is absent.
fn texts_of<const N: usize>(
    element: &mut ScopedDecoder<'_, '_>,
    names: [&str; N],
) -> Result<[String; N], XmlDecodeError> {
    let mut texts = [const { String::new() }; N];
    while let Some(mut field) = element.next_tag() {
        if let Some(at) = names.iter().position(|name| field.start_el().matches(name)) {
            texts[at] = try_data(&mut field)?.into_owned();
        }
    }
    Ok(texts)
}
