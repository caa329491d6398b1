//! The form of Kubernetes quantities. Their arithmetic is the core's.

use std::sync::LazyLock;

use regex_lite::Regex;

use crate::crds::patterns;

static QUANTITY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(patterns::QUANTITY).ok());

/// Whether the text is a quantity: `500m`, `1.5Gi`, `1e3`.
pub fn is_quantity(text: &str) -> bool {
    QUANTITY.as_ref().is_some_and(|form| form.is_match(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_the_suffixes_of_kubernetes() {
        for text in ["1", "0.5", ".5", "1.", "500m", "1.5Gi", "10G", "1e3", "1E-2", "-1", "+2k", "7u", "7n"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", "Gi", "1GB", "1 Gi", "1K", "ten", "1.2.3", "1e", "0x10"] {
            assert!(!is_quantity(text), "{text}");
        }
    }
}
