//! Requests whose answers are read as everything is read here: kube's own methods, by the same names.

use std::fmt::Debug;

use dovetail_core::cluster_state::Unreadable;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};

use super::{ReadObject, text};

#[derive(Clone, Debug)]
pub struct ObjectPage<K> {
    /// Objects that could be read.
    pub items: Vec<K>,
    /// Objects that exist and could not be read.
    pub unreadable: Vec<Unreadable>,
    /// Token of the next page, if there is more.
    pub continues: Option<String>,
}

/// A kind's objects at the API server.
#[derive(Clone)]
pub struct LenientApi<K>(kube::Api<ReadObject<K>>);

impl<K> LenientApi<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    /// Access to the objects of the whole cluster.
    pub fn all(client: Client) -> Self {
        Self(kube::Api::all(client))
    }

    /// Access to the objects of one namespace.
    pub fn namespaced(client: Client, namespace: &str) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        Self(kube::Api::namespaced(client, namespace))
    }

    /// The inner API, for watches.
    pub fn into_inner(self) -> kube::Api<ReadObject<K>> {
        self.0
    }

    /// As `kube::Api::get`; an object that cannot be read is an error.
    ///
    /// # Errors
    /// As kube's.
    pub async fn get(&self, name: &str) -> kube::Result<K> {
        object(self.0.get(name).await?)
    }

    /// As `kube::Api::get_opt`.
    ///
    /// # Errors
    /// As kube's, and for an object that is there and cannot be read.
    pub async fn get_opt(&self, name: &str) -> kube::Result<Option<K>> {
        self.0.get_opt(name).await?.map(object).transpose()
    }

    /// A page: what cannot be read in it costs nothing of the rest.
    ///
    /// # Errors
    /// As kube's.
    pub async fn list(&self, params: &ListParams) -> kube::Result<ObjectPage<K>> {
        let page = self.0.list(params).await?;
        let continues = page.metadata.continue_.filter(|token| !token.is_empty());
        let mut listed = ObjectPage { items: Vec::with_capacity(page.items.len()), unreadable: Vec::new(), continues };
        for one in page.items {
            match one {
                ReadObject::Object(object) => listed.items.push(object),
                ReadObject::Unreadable(unreadable) => listed.unreadable.push(*unreadable),
            }
        }
        Ok(listed)
    }

    /// As `kube::Api::create`.
    ///
    /// # Errors
    /// As kube's.
    pub async fn create(&self, params: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Serialize,
    {
        self::object(self.0.create(params, &ReadObject::Object(object.clone())).await?)
    }

    /// As `kube::Api::replace`.
    ///
    /// # Errors
    /// As kube's.
    pub async fn replace(&self, name: &str, params: &PostParams, object: &K) -> kube::Result<K>
    where
        K: Serialize,
    {
        self::object(self.0.replace(name, params, &ReadObject::Object(object.clone())).await?)
    }

    /// As `kube::Api::patch`.
    ///
    /// # Errors
    /// As kube's.
    pub async fn patch<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube::Result<K> {
        object(self.0.patch(name, params, patch).await?)
    }

    /// As `kube::Api::patch_status`.
    ///
    /// # Errors
    /// As kube's.
    pub async fn patch_status<P: Serialize + Debug>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> kube::Result<K> {
        object(self.0.patch_status(name, params, patch).await?)
    }

    /// Deletes an object: as it is while something holds it, none when it is gone.
    ///
    /// # Errors
    /// As kube's.
    pub async fn delete(&self, name: &str, params: &DeleteParams) -> kube::Result<Option<K>> {
        let url = self.0.resource_url();
        let request = Request::new(url).delete(name, params).map_err(kube::Error::BuildRequest)?;
        // kube reads the answer as a `Value` first, which is not for every object.
        let answer = self.0.clone().into_client().request_text(request).await?;
        match text::member_at(&answer, &["kind"]) {
            Some("\"Status\"") => Ok(None),
            _ => object(super::read_object(&answer)).map(Some),
        }
    }
}

fn object<K>(read: ReadObject<K>) -> kube::Result<K> {
    read.object().map_err(|unreadable| {
        let what = format!("{} {} cannot be read: {}", unreadable.kind, unreadable.full_name(), unreadable.why);
        kube::Error::SerdeError(serde_json::Error::custom(what))
    })
}
