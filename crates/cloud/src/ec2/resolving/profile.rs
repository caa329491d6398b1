//! The instance profile of a node class that names a role (karpenter-aws 4.9).

use dovetail_api::names::{conditions, labels, tags};
use dovetail_api::v1::EC2NodeClass;
use kube::ResourceExt;

use crate::ec2::Ec2Cloud;
use crate::ec2::classify::{Effect, classify};
use crate::ec2::services::InstanceProfile;
use crate::error::CloudError;
use crate::hash::fnv_parts;
use crate::node_class::Finding;

const ADD_ROLE: &str = "AddRoleToInstanceProfile";
const CONDITION: &str = conditions::INSTANCE_PROFILE_READY;

/// Instance profile of a class, and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ec2) enum ProfileState {
    /// The class names neither a profile nor a role.
    NotNamed,
    /// This one is there, with a role.
    Usable(String),
    /// This one may be there: why it could not be looked up.
    NotSeen(String, String),
    /// No instance can be launched with this one: the reason of the condition, and its message.
    Unusable(String, &'static str, String),
}

fn not_usable(name: &str, reason: &'static str, what: &str) -> ProfileState {
    ProfileState::Unusable(name.to_owned(), reason, format!("spec.instanceProfile {name:?}: {what}"))
}

impl ProfileState {
    /// Its name; empty where there is none.
    pub fn name(&self) -> &str {
        match self {
            Self::NotNamed => "",
            Self::Usable(name) | Self::NotSeen(name, _) | Self::Unusable(name, ..) => name,
        }
    }
}

pub(in crate::ec2) fn finding(profile: &Result<ProfileState, CloudError>) -> Finding {
    match profile {
        // A class that was stored before the API server asked for one of them; no launch could succeed.
        Ok(ProfileState::NotNamed) => {
            let why = "spec.role and spec.instanceProfile are absent (allowed: exactly one of them)";
            Finding::not_ready(CONDITION, "InstanceProfileMissing", why)
        }
        Ok(ProfileState::Usable(_)) => Finding::ready(CONDITION),
        Ok(ProfileState::NotSeen(name, why)) => {
            let message = format!("spec.instanceProfile {name:?} was not looked up: {why}");
            Finding { message, ..Finding::ready(CONDITION) }
        }
        Ok(ProfileState::Unusable(_, reason, why)) => Finding::not_ready(CONDITION, reason, why.as_str()),
        Err(error) => Finding::unknown(CONDITION, error.code(), error.to_string()),
    }
}

impl Ec2Cloud {
    /// The class's own profile, or one that is made for its role.
    pub(in crate::ec2) async fn profile_of(&self, class: &EC2NodeClass) -> Result<ProfileState, CloudError> {
        if let Some(own) = &class.spec.instance_profile {
            return Ok(self.look_up(own).await);
        }
        let Some(role) = &class.spec.role else { return Ok(ProfileState::NotNamed) };
        let role = role.rsplit('/').next().unwrap_or(role);
        let name = self.profile_name(class, role);
        let key = (name.clone(), role.to_owned());
        let made = || {
            let (this, class, (name, role)) = (self.clone(), class.clone(), key.clone());
            async move { this.ensure_profile(&class, &name, &role).await }
        };
        match self.memory.profiles.get_or_ask(|| self.now(), key.clone(), made).await {
            Ok(()) => Ok(ProfileState::Usable(name)),
            Err(error) if error.is_not_found() && error.call() == ADD_ROLE => Ok(ProfileState::Unusable(
                name,
                "RoleNotFound",
                format!("spec.role {role:?}: there is no such IAM role"),
            )),
            Err(error) => Err(error),
        }
    }

    /// The state of a profile that a class names. Where IAM does not say (no permission, no way to it) the class is used as it
    /// stands, and IAM is asked again a quarter of an hour later.
    async fn look_up(&self, name: &str) -> ProfileState {
        if self.settings.isolated_vpc {
            return ProfileState::Usable(name.to_owned());
        }
        let key = name.to_owned();
        let known = match self.memory.named_profiles.get(self.now(), &key) {
            Some(known) => known,
            None => {
                let known = match self.find_profile(name).await {
                    Ok(None) => {
                        return not_usable(name, "InstanceProfileNotFound", "there is no such instance profile");
                    }
                    Ok(Some(profile)) if profile.roles.is_empty() => {
                        return not_usable(name, "InstanceProfileWithoutRole", "the instance profile has no role");
                    }
                    Ok(Some(_)) => None,
                    Err(error) => Some(error.to_string()),
                };
                self.memory.named_profiles.put(self.now(), key, known.clone());
                known
            }
        };
        match known {
            None => ProfileState::Usable(name.to_owned()),
            Some(why) => ProfileState::NotSeen(name.to_owned(), why),
        }
    }

    /// A name of class and role: another role is another profile, and asking again finds the same one.
    fn profile_name(&self, class: &EC2NodeClass, role: &str) -> String {
        let uid = class.uid().unwrap_or_default();
        let hash = fnv_parts(&[&self.region, &class.name_any(), &uid, role]);
        format!("{}_{hash}", self.settings.cluster_name)
    }

    async fn ensure_profile(&self, class: &EC2NodeClass, name: &str, role: &str) -> Result<(), CloudError> {
        let has_role = match self.find_profile(name).await? {
            Some(profile) => !profile.roles.is_empty(),
            None => {
                self.create_profile(class, name).await?;
                false
            }
        };
        if has_role {
            return Ok(());
        }
        let added = self.clients.iam.add_role_to_instance_profile(name, role).await;
        match added.map_err(|e| classify(ADD_ROLE, Effect::Repeatable, e)) {
            // One role at most: someone was quicker.
            Err(error) if error.code() == "LimitExceeded" || error.code() == "EntityAlreadyExists" => Ok(()),
            other => other,
        }
    }

    pub(in crate::ec2) async fn find_profile(&self, name: &str) -> Result<Option<InstanceProfile>, CloudError> {
        match self.clients.iam.get_instance_profile(name).await {
            Ok(found) => Ok(found),
            Err(error) => match classify("GetInstanceProfile", Effect::Repeatable, error) {
                error if error.is_not_found() => Ok(None),
                error => Err(error),
            },
        }
    }

    async fn create_profile(&self, class: &EC2NodeClass, name: &str) -> Result<(), CloudError> {
        const CALL: &str = "CreateInstanceProfile";
        let cluster = &self.settings.cluster_name;
        let path = format!("/karpenter/{}/{cluster}/{}/", self.region, class.uid().unwrap_or_default());
        let mut all = self.class_tags(class);
        all.insert(labels::REGION.to_owned(), self.region.clone());
        let all: Vec<(String, String)> = all.into_iter().collect();
        let created = self.clients.iam.create_instance_profile(name, &path, &all).await;
        match created.map_err(|e| classify(CALL, Effect::Repeatable, e)) {
            Err(error) if error.code() == "EntityAlreadyExists" => Ok(()),
            other => other,
        }
    }

    /// Removes the profile that we made for the class, if we did. What Karpenter made does not carry the cluster's UID: it stays, as
    /// instances that Karpenter launched may run with it.
    pub(in crate::ec2) async fn remove_profile(&self, class: &EC2NodeClass) -> Result<(), CloudError> {
        let Some(name) = class.status.as_ref().map(|s| s.instance_profile.as_str()) else { return Ok(()) };
        if class.spec.instance_profile.is_some() || name.is_empty() {
            return Ok(());
        }
        let Some(profile) = self.find_profile(name).await? else { return Ok(()) };
        let uid = profile.tag(tags::CLUSTER_UID);
        if self.settings.cluster_uid.is_empty() || uid != Some(&self.settings.cluster_uid) {
            return Ok(());
        }
        self.delete_profile(&profile).await
    }

    /// Deletes a profile that was found, its role taken off first.
    pub(in crate::ec2) async fn delete_profile(&self, profile: &InstanceProfile) -> Result<(), CloudError> {
        let name = &profile.name;
        for role in &profile.roles {
            let removed = self.clients.iam.remove_role_from_instance_profile(name, role).await;
            removed.map_err(|e| classify("RemoveRoleFromInstanceProfile", Effect::Repeatable, e))?;
            self.memory.profiles.forget(&(name.clone(), role.clone()));
        }
        match self.clients.iam.delete_instance_profile(name).await {
            Ok(()) => Ok(()),
            Err(error) => match classify("DeleteInstanceProfile", Effect::Repeatable, error) {
                error if error.is_not_found() => Ok(()),
                error => Err(error),
            },
        }
    }
}
