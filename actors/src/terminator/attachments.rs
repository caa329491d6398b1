//! VolumeAttachments by Node, as a watch shows them.

use std::collections::{BTreeMap, BTreeSet};

use dovetail_core::cluster_state::Unreadable;
use dovetail_core::termination::Attachment;
use k8s_openapi::api::storage::v1::{VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec};
use kube::ResourceExt;
use kube_runtime::watcher::Event;

use crate::context::env::Env;
use crate::messages::{Came, Record};
use crate::reading::report::{self, Reports};

/// Node and name.
type Key = (String, String);

/// VolumeAttachments by node, of the nodes that are about to go.
#[derive(Default)]
pub struct Attachments {
    all: BTreeMap<Key, Attachment>,
    /// While a list starts over: what it has shown.
    listing: Option<BTreeSet<Key>>,
    listed: bool,
}

impl Attachments {
    /// The watch has said something. Answers the Nodes that it concerns.
    pub fn apply(&mut self, event: Event<VolumeAttachment>) -> BTreeSet<String> {
        match event {
            Event::Init => {
                // The known attachments stay until the list is complete: one that it has not shown yet is not detached.
                self.listing = Some(BTreeSet::new());
                BTreeSet::new()
            }
            Event::InitApply(attachment) | Event::Apply(attachment) => {
                let key = key(&attachment);
                if let Some(listing) = &mut self.listing {
                    listing.insert(key.clone());
                }
                let (node, name) = key.clone();
                let volume = attachment.spec.source.persistent_volume_name;
                self.all.insert(key, Attachment { name, node: node.clone(), volume });
                [node].into()
            }
            Event::Delete(attachment) => {
                let key = key(&attachment);
                self.all.remove(&key);
                [key.0].into()
            }
            // An attachment that a new list does not show went while the watch was away.
            Event::InitDone => {
                self.listed = true;
                let listed = self.listing.take().unwrap_or_default();
                let gone: Vec<_> = self.all.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                gone.iter().for_each(|key| drop(self.all.remove(key)));
                gone.into_iter().map(|(node, _)| node).collect()
            }
        }
    }

    /// A Node's; unknown until all have been listed once.
    pub fn on(&self, node: &str) -> Option<Vec<&Attachment>> {
        let from = (node.to_owned(), String::new());
        let of_node = self.all.range(from..).take_while(|((name, _), _)| name == node);
        // Before the first list an empty answer would say that nothing is attached.
        self.listed.then(|| of_node.map(|(_, one)| one).collect())
    }
}

/// Takes an attachment that cannot be read: it counts as attached to the Node that it names, with an unknown volume that goes by
/// the attachment's own name. Its Node waits for it. Returns an event if it is to be reported.
pub fn not_read(
    env: &Env,
    reports: &mut Reports,
    object: &Unreadable,
    came: Came,
) -> (Event<VolumeAttachment>, Option<Record>) {
    let name = object.metadata.name.clone();
    let source = VolumeAttachmentSource { persistent_volume_name: name, ..VolumeAttachmentSource::default() };
    let node_name = object.facts.node_name.clone();
    let spec = VolumeAttachmentSpec { node_name, source, ..VolumeAttachmentSpec::default() };
    let attachment = VolumeAttachment { metadata: object.metadata.clone(), spec, status: None };
    match came {
        Came::Gone => (Event::Delete(attachment), None),
        Came::Listed | Came::Changed => {
            let record = reports.note(env, object).then(|| report::event(object));
            (Event::Apply(attachment), record)
        }
    }
}

fn key(attachment: &VolumeAttachment) -> Key {
    (attachment.spec.node_name.clone(), attachment.name_any())
}
