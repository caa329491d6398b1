//! Volumes that a node still holds: its instance does not end before they are detached.

use std::collections::BTreeSet;

/// A VolumeAttachment, as far as a drain needs it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// Its name, unique in the cluster.
    pub name: String,
    /// The Node that it is on.
    pub node: String,
    /// Its PersistentVolume; none for an inline one, which is not waited for.
    pub volume: Option<String>,
}

/// The volumes among a node's attachments that are waited for; `kept` are those of pods that stay until the end.
#[must_use]
pub fn held<'a>(attachments: impl IntoIterator<Item = &'a Attachment>, kept: &BTreeSet<String>) -> BTreeSet<String> {
    let volumes = attachments.into_iter().filter_map(|one| one.volume.as_ref());
    volumes.filter(|volume| !kept.contains(*volume)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_volumes_and_those_of_staying_pods_are_not_awaited() {
        let attachment = |name: &str, volume: Option<&str>| Attachment {
            name: name.into(),
            node: "n".into(),
            volume: volume.map(str::to_owned),
        };
        let all = [attachment("a", Some("data")), attachment("b", None), attachment("c", Some("of-daemon"))];
        assert_eq!(held(&all, &["of-daemon".to_owned()].into()), ["data".to_owned()].into());
    }
}
