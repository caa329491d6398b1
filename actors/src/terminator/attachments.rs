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
    known: BTreeMap<Key, Listed>,
    /// True once all have been listed.
    complete: bool,
}

struct Listed {
    attachment: Attachment,
    /// True if the current list has shown it, or it came since.
    seen: bool,
}

impl Attachments {
    /// Takes an event of the watch. Returns the Nodes that it concerns.
    pub fn apply_event(&mut self, event: Event<VolumeAttachment>) -> BTreeSet<String> {
        match event {
            Event::Init => {
                // The known attachments stay until the list is complete: one that it has not shown yet is not detached.
                self.known.values_mut().for_each(|listed| listed.seen = false);
                BTreeSet::new()
            }
            Event::InitApply(attachment) | Event::Apply(attachment) => {
                let (node, name) = key_of(&attachment);
                let volume = attachment.spec.source.persistent_volume_name;
                let attachment = Attachment { name: name.clone(), node: node.clone(), volume };
                self.known.insert((node.clone(), name), Listed { attachment, seen: true });
                [node].into()
            }
            Event::Delete(attachment) => {
                let key = key_of(&attachment);
                self.known.remove(&key);
                [key.0].into()
            }
            // An attachment that a new list does not show went while the watch was away.
            Event::InitDone => {
                self.complete = true;
                let gone = self.known.extract_if(.., |_, listed| !listed.seen);
                gone.map(|((node, _), _)| node).collect()
            }
        }
    }

    /// A Node's; unknown until all have been listed once.
    pub fn attached_to(&self, node: &str) -> Option<Vec<&Attachment>> {
        let from = (node.to_owned(), String::new());
        let of_node = self.known.range(from..).take_while(|((name, _), _)| name == node);
        // Before the first list an empty answer would say that nothing is attached.
        self.complete.then(|| of_node.map(|(_, listed)| &listed.attachment).collect())
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

fn key_of(attachment: &VolumeAttachment) -> Key {
    (attachment.spec.node_name.clone(), attachment.name_any())
}
