//! Node classes at the API server, by the kind that the provider brings. Inside, each is the record of an EC2NodeClass.

use dovetail_api::kwok::KWOKNodeClass;
use dovetail_api::names::provider::Provider;
use dovetail_api::v1::EC2NodeClass;
use kube::Client;
use serde_json::Value;

use crate::kube::calls::{CallError, Calls};
use crate::reading::LenientApi;

/// Access to the node classes of the provider that this replica runs with.
pub struct NodeClassApi<'a> {
    calls: &'a Calls,
    kind: ClassApi,
}

enum ClassApi {
    Ec2(LenientApi<EC2NodeClass>),
    Kwok(LenientApi<KWOKNodeClass>),
}

impl ClassApi {
    fn new(client: Client, provider: Provider) -> Self {
        match provider {
            Provider::Ec2 => Self::Ec2(LenientApi::all(client)),
            Provider::Kwok => Self::Kwok(LenientApi::all(client)),
        }
    }
}

impl<'a> NodeClassApi<'a> {
    /// Access by these calls.
    pub fn new(calls: &'a Calls) -> Self {
        Self { calls, kind: ClassApi::new(calls.client.clone(), calls.env.settings.provider) }
    }

    /// The class as the API server has it.
    ///
    /// # Errors
    /// As [`Calls::run`].
    pub async fn get(&self, name: &str) -> Result<EC2NodeClass, CallError> {
        let what = format!("get {} {name}", self.calls.env.settings.provider.class().plural);
        match &self.kind {
            ClassApi::Ec2(api) => self.calls.run(&what, || api.get(name)).await,
            ClassApi::Kwok(api) => self.calls.run(&what, || api.get(name)).await.map(KWOKNodeClass::into_record),
        }
    }

    /// A merge patch of a class.
    ///
    /// # Errors
    /// As [`Calls::run`].
    pub async fn merge(&self, name: &str, patch: Value) -> Result<EC2NodeClass, CallError> {
        match &self.kind {
            ClassApi::Ec2(api) => self.calls.merge(api, name, patch).await,
            ClassApi::Kwok(api) => self.calls.merge(api, name, patch).await.map(KWOKNodeClass::into_record),
        }
    }

    /// A merge patch of a class's status.
    ///
    /// # Errors
    /// As [`Calls::run`].
    pub async fn merge_status(&self, name: &str, patch: Value) -> Result<EC2NodeClass, CallError> {
        match &self.kind {
            ClassApi::Ec2(api) => self.calls.merge_status(api, name, patch).await,
            ClassApi::Kwok(api) => self.calls.merge_status(api, name, patch).await.map(KWOKNodeClass::into_record),
        }
    }
}
