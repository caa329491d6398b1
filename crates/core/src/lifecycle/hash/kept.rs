//! Hashes as they last stood on pools and classes, for as long as one leads. An object that is replaced by its manifest comes
//! without the annotations that the leader wrote, and with its edit: by itself it would not say what its claims were made by.

use std::collections::BTreeMap;

use dovetail_api::names::annotations::COMPUTED_HASH;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::record::Record;
use super::written::HashKeys;

/// The annotations of each object's hash, by a key of the caller's.
#[derive(Clone, Debug, Default)]
pub struct KeptHashes(BTreeMap<String, KeptHash>);

#[derive(Clone, Debug)]
struct KeptHash {
    uid: Option<String>,
    annotations: Vec<(String, String)>,
}

impl KeptHashes {
    /// Keeps the annotations of an object's hash, if they are there with their record; puts back what has been taken off since.
    pub fn see(&mut self, key: &str, keys: HashKeys, metadata: &mut ObjectMeta) {
        let uid = metadata.uid.clone();
        let own = metadata.annotations.get_or_insert_default();
        if Record::is_on(own) {
            let names = [keys.hash, keys.version, COMPUTED_HASH];
            let there = names.iter().filter_map(|name| Some(((*name).to_owned(), own.get(*name)?.clone())));
            self.0.insert(key.to_owned(), KeptHash { uid, annotations: there.collect() });
            return;
        }
        let kept = self.0.get(key).filter(|kept| kept.uid == uid);
        for (name, value) in kept.into_iter().flat_map(|kept| &kept.annotations) {
            own.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    /// Forgets an object that is gone.
    pub fn forget(&mut self, key: &str) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Agreement, Computed, Generations, OF_POOL};
    use super::*;

    fn computed(hash: &str) -> Computed {
        Computed { same: hash.into(), fresh: hash.into(), of: "a1".into() }
    }

    fn bare(uid: &str) -> ObjectMeta {
        ObjectMeta { uid: Some(uid.into()), ..ObjectMeta::default() }
    }

    /// Agreement of a claim of the first template with the second, which came by a replacement of the object.
    fn after_replacement(kept: &mut KeptHashes, by: &ObjectMeta) -> Agreement {
        let at = |now, judged| Generations { now: Some(now), judged };
        let mut first = bare("uid-1");
        OF_POOL.settle(first.annotations.get_or_insert_default(), &computed("1"), at(1, None));
        kept.see("pool/a", OF_POOL, &mut first);
        let mut edited = by.clone();
        kept.see("pool/a", OF_POOL, &mut edited);
        OF_POOL.settle(edited.annotations.get_or_insert_default(), &computed("2"), at(2, Some(1)));
        OF_POOL.settled(&edited, &computed("2")).unwrap().agrees("1")
    }

    #[test]
    fn a_replaced_object_is_judged_by_what_stood_on_it() {
        assert_eq!(after_replacement(&mut KeptHashes::default(), &bare("uid-1")), Agreement::Differs);
        let mut labelled = bare("uid-1");
        labelled.annotations = Some([("other".to_owned(), "x".to_owned())].into());
        assert_eq!(after_replacement(&mut KeptHashes::default(), &labelled), Agreement::Differs);
        assert_eq!(after_replacement(&mut KeptHashes::default(), &bare("uid-2")), Agreement::Unsure, "another object");
    }

    #[test]
    fn what_stands_on_an_object_is_not_overwritten() {
        let mut kept = KeptHashes::default();
        let mut first = bare("uid-1");
        OF_POOL.settle(first.annotations.get_or_insert_default(), &computed("1"), Generations::default());
        kept.see("pool/a", OF_POOL, &mut first);
        let mut foreign = bare("uid-1");
        foreign.annotations = Some(OF_POOL.stamp("9").into());
        kept.see("pool/a", OF_POOL, &mut foreign);
        let own = foreign.annotations.unwrap();
        assert_eq!((own[OF_POOL.hash].as_str(), own.contains_key(COMPUTED_HASH)), ("9", true));
        kept.forget("pool/a");
        let mut later = bare("uid-1");
        kept.see("pool/a", OF_POOL, &mut later);
        assert_eq!(later.annotations, Some(BTreeMap::new()));
    }
}
