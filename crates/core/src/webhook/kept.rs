//! The contents of the Secret, and their change by a step of [`super::rotation`].
//!
//! | entry | what it is |
//! |---|---|
//! | `tls.crt`, `tls.key`, `ca.crt` | what is served, and its authority: PEM |
//! | `begins`, `until` | from when and until when it counts: RFC 3339 |
//! | the same with `next.` before | what is served next |
//! | `former.ca.crt`, `former.until` | the authority of what was served before, and until when it is trusted |

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::rotation::{Certificate, OVERLAPS, RotationState, RotationStep};
use crate::clock::{later, signed};

const NEXT: &str = "next.";
const FORMER_AUTHORITY: &str = "former.ca.crt";
const FORMER_UNTIL: &str = "former.until";

/// A certificate with its key and its authority, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ServingIdentity {
    /// The certificate that the webhook shows to an API server.
    pub certificate: String,
    /// The private key of that certificate.
    pub key: String,
    /// The authority that has signed it.
    pub authority: String,
    /// Begin of its validity.
    pub begins: Timestamp,
    /// End of its validity.
    pub until: Timestamp,
}

impl std::fmt::Debug for ServingIdentity {
    /// Omits the private key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Identity({} to {})", self.begins, self.until)
    }
}

impl ServingIdentity {
    fn from_entries(entries: &BTreeMap<String, String>, prefix: &str) -> Option<Self> {
        let text = |name: &str| entries.get(&format!("{prefix}{name}")).filter(|text| !text.is_empty()).cloned();
        Some(Self {
            certificate: text("tls.crt")?,
            key: text("tls.key")?,
            authority: text("ca.crt")?,
            begins: text("begins")?.parse().ok()?,
            until: text("until")?.parse().ok()?,
        })
    }

    fn write(&self, prefix: &str, into: &mut BTreeMap<String, String>) {
        let entries = [
            ("tls.crt", self.certificate.clone()),
            ("tls.key", self.key.clone()),
            ("ca.crt", self.authority.clone()),
            ("begins", self.begins.to_string()),
            ("until", self.until.to_string()),
        ];
        into.extend(entries.map(|(name, text)| (format!("{prefix}{name}"), text)));
    }

    fn judged(&self, sound: bool) -> Certificate {
        Certificate { begins: self.begins, until: self.until, sound }
    }
}

/// An authority that is trusted until a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Former {
    /// The authority's certificate, in PEM.
    pub authority: String,
    /// End of the trust.
    pub until: Timestamp,
}

/// The contents of the Secret. An entry that cannot be read counts as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptIdentities {
    pub serving: Option<ServingIdentity>,
    pub next: Option<ServingIdentity>,
    /// The authority of the identity that was served before.
    pub former: Option<Former>,
}

impl KeptIdentities {
    /// Reads the Secret's entries.
    pub fn from_entries(entries: &BTreeMap<String, String>) -> Self {
        let former = entries.get(FORMER_AUTHORITY).zip(entries.get(FORMER_UNTIL));
        let former = former
            .and_then(|(authority, until)| Some(Former { authority: authority.clone(), until: until.parse().ok()? }));
        Self {
            serving: ServingIdentity::from_entries(entries, ""),
            next: ServingIdentity::from_entries(entries, NEXT),
            former,
        }
    }

    /// The entries as the Secret stores them.
    pub fn entries(&self) -> BTreeMap<String, String> {
        let mut entries = BTreeMap::new();
        self.serving.iter().for_each(|one| one.write("", &mut entries));
        self.next.iter().for_each(|one| one.write(NEXT, &mut entries));
        if let Some(former) = &self.former {
            entries.insert(FORMER_AUTHORITY.into(), former.authority.clone());
            entries.insert(FORMER_UNTIL.into(), former.until.to_string());
        }
        entries
    }

    /// The state by which the next step is decided; `sound` judges an identity.
    pub fn held(&self, sound: impl Fn(&ServingIdentity) -> bool) -> RotationState {
        let judged = |one: &ServingIdentity| one.judged(sound(one));
        RotationState {
            serving: self.serving.as_ref().map(judged),
            next: self.next.as_ref().map(judged),
            former: self.former.as_ref().map(|former| former.until),
        }
    }

    /// The authorities that clients are to trust, in PEM.
    pub fn bundle(&self) -> String {
        let own = [&self.serving, &self.next].into_iter().flatten().map(|one| one.authority.as_str());
        let all = own.chain(self.former.iter().map(|one| one.authority.as_str()));
        all.map(|text| format!("{}\n", text.trim())).collect()
    }

    /// The contents after a step. `made` is a new identity, for a step that takes one: without it nothing changes.
    #[must_use]
    pub fn after(self, step: RotationStep, made: Option<ServingIdentity>, now: Timestamp) -> Self {
        match step {
            RotationStep::Wait => self,
            RotationStep::Replace if made.is_some() => Self { serving: made, ..Self::default() },
            RotationStep::Prepare if made.is_some() => Self { next: made, ..self },
            RotationStep::Replace | RotationStep::Prepare => self,
            RotationStep::Promote => {
                let until = later(now, signed(OVERLAPS));
                let former = self.serving.map(|one| Former { authority: one.authority, until });
                Self { serving: self.next, next: None, former }
            }
            RotationStep::Forget => Self { former: None, ..self },
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::webhook::rotation::validity;

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap()
    }

    fn identity(name: &str) -> ServingIdentity {
        let (begins, until) = validity(now());
        let text = |what: &str| format!("{what} {name}\n");
        ServingIdentity { certificate: text("crt"), key: text("key"), authority: text("ca"), begins, until }
    }

    #[test]
    fn what_is_written_is_read_and_what_makes_no_sense_is_not_there() {
        let one = KeptIdentities::default().after(RotationStep::Replace, Some(identity("a")), now());
        let two = one.after(RotationStep::Prepare, Some(identity("b")), now());
        assert_eq!(KeptIdentities::from_entries(&two.entries()), two);
        assert_eq!(two.bundle(), "ca a\nca b\n");
        let three = two.after(RotationStep::Promote, None, now());
        assert_eq!(KeptIdentities::from_entries(&three.entries()), three);
        assert_eq!((three.bundle().as_str(), &three.next), ("ca b\nca a\n", &None));
        let four = three.after(RotationStep::Forget, None, now());
        assert_eq!(four.bundle(), "ca b\n");
        let mut entries = four.entries();
        entries.insert("until".into(), "soon".into());
        entries.insert("next.tls.crt".into(), "x".into());
        assert_eq!(KeptIdentities::from_entries(&entries), KeptIdentities::default());
    }

    #[test]
    fn keys_are_not_shown() {
        assert!(!format!("{:?}", identity("a")).contains("key"));
    }
}
