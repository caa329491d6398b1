//! Amounts and counts as a person says them.

use crate::resources::format_amount;

/// An amount as a person says it: `400 CPU`, `3Gi of memory`.
pub(in crate::pack) fn person(name: &str, amount: i64) -> String {
    match name {
        crate::resources::CPU => {
            let text = format!("{}.{:03}", amount / 1000, amount % 1000);
            format!("{} CPU", text.trim_end_matches('0').trim_end_matches('.'))
        }
        crate::resources::MEMORY | crate::resources::EPHEMERAL_STORAGE => {
            format!("{} of {name}", rounded_binary(amount))
        }
        _ => format!("{} {name}", format_amount(name, amount)),
    }
}

/// Bytes in the largest unit that leaves at least ten, rounded down.
fn rounded_binary(bytes: i64) -> String {
    let mut shown = (bytes, "");
    for suffix in ["Ki", "Mi", "Gi", "Ti", "Pi"] {
        let exact = shown.0 % 1024 == 0 && shown.0 > 0;
        if shown.0 < 10 * 1024 && !exact {
            break;
        }
        shown = (shown.0 / 1024, suffix);
    }
    format!("{}{}", shown.0, shown.1)
}

/// Formats a count with thousands separators: `1,190`.
pub(in crate::pack) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
