//! Size of a workload file, counted before anything is made of it: a megabyte of `{"name":"a"}` makes pods by the hundred
//! thousand, and a value of a few bytes may take a hundred in memory.

use std::fmt;

use dovetail_api::manifest::MAX_PODS;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Most values of a file: 200,000 pods of two dozen each.
const MOST_VALUES: usize = 5_000_000;

/// Refuses a file with more pods than are planned in one run, or with more values than make sense.
///
/// # Errors
/// The bound that is passed, and the place; or the place where the text is no JSON.
pub fn check(text: &[u8]) -> Result<(), serde_json::Error> {
    // Every pod is an object, and every value but the first follows one of these.
    let objects = text.iter().filter(|byte| **byte == b'{').count();
    let values = text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
    if objects as u64 <= MAX_PODS && values <= MOST_VALUES {
        return Ok(());
    }
    let mut counts = Counts::default();
    let mut reader = serde_json::Deserializer::from_slice(text);
    Count { counts: &mut counts, depth: 0, pods: false }.deserialize(&mut reader)
}

#[derive(Default)]
struct Counts {
    values: usize,
    pods: u64,
}

/// Counts a value and what is in it.
struct Count<'a> {
    counts: &'a mut Counts,
    /// Depth of the value, the file itself being 0.
    depth: usize,
    /// True for the file's list of pods, and for its items.
    pods: bool,
}

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        self.counts.values += 1;
        if self.counts.values > MOST_VALUES {
            return Err(D::Error::custom(format!("the file holds more than {MOST_VALUES} values")));
        }
        if self.pods && self.depth == 2 {
            self.counts.pods += 1;
            if self.counts.pods > MAX_PODS {
                return Err(D::Error::custom(format!("the file holds more than {MAX_PODS} pods")));
            }
        }
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        if self.depth > 0 {
            while map.next_key::<IgnoredAny>()?.is_some() {
                map.next_value_seed(Count { counts: self.counts, depth: self.depth + 1, pods: false })?;
            }
            return Ok(());
        }
        while let Some(key) = map.next_key::<String>()? {
            let pods = matches!(key.as_str(), "pods" | "daemonPods");
            map.next_value_seed(Count { counts: self.counts, depth: 1, pods })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let (depth, pods) = (self.depth + 1, self.pods && self.depth == 1);
        while items.next_element_seed(Count { counts: self.counts, depth, pods })?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn file(pods: usize, more: &str) -> String {
        let pods: Vec<String> = (0..pods).map(|n| format!("{{\"name\":\"p{n}\"}}")).collect();
        format!("{{\"name\": \"a\",\n\"pods\": [{}]{more}}}", pods.join(","))
    }

    #[test]
    fn as_many_pods_as_are_planned_in_one_run_and_no_more() {
        let most = MAX_PODS as usize;
        check(file(most, "").as_bytes()).unwrap();
        // Objects that are no pods do not count as ones.
        check(file(most, ", \"x\": {\"pods\": [{}, {}]}, \"y\": [[{}]]").as_bytes()).unwrap();
        let refused = check(file(most + 1, "").as_bytes()).unwrap_err();
        assert!(refused.to_string().contains("more than 200000 pods"), "{refused}");
        assert_eq!(refused.line(), 2);
        let values = format!("{{\"a\": [{}0]}}", "0,".repeat(MOST_VALUES));
        assert!(check(values.as_bytes()).unwrap_err().to_string().contains("values"));
    }
}
