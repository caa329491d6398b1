//! The forms of single values of built-in kinds: times, and quantities as Kubernetes writes them.
use dovetail_api::quantity::{billionths, is_quantity, with_binary_suffix, with_decimal_suffix, without_factors};
use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde_json::{Value, json};

/// A time to seconds (`metav1.Time`): RFC 3339 as Go reads it, stored in UTC. The zero time is no time.
///
/// # Errors
/// Why it is none.
pub fn time(value: &mut Value) -> Result<(), String> {
    let Some(text) = value.as_str() else { return Ok(()) };
    let (time, _) = parse(text).ok_or_else(|| format!("parsing time {text:?}"))?;
    let zero = time.with().subsec_nanosecond(0).build().is_ok_and(|whole| whole == ZERO);
    *value = if zero { Value::Null } else { json!(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()) };
    Ok(())
}

/// A time to microseconds (`metav1.MicroTime`), which has six digits of them.
///
/// # Errors
/// Why it is none.
pub fn micro_time(value: &mut Value) -> Result<(), String> {
    let Some(text) = value.as_str() else { return Ok(()) };
    let parsed = parse(text).filter(|(_, digits)| *digits == 6);
    let (time, _) = parsed.ok_or_else(|| format!("parsing time {text:?}"))?;
    *value = if time == ZERO { Value::Null } else { json!(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()) };
    Ok(())
}

/// Go's zero time.
const ZERO: DateTime = DateTime::constant(1, 1, 1, 0, 0, 0, 0);

/// A moment in UTC, and how many digits of seconds' fractions it is written with.
fn parse(text: &str) -> Option<(DateTime, usize)> {
    let bytes = text.as_bytes();
    let form = b"0000-00-00T00:00:00";
    let head = bytes.get(..form.len())?;
    let fits = |(own, form): (&u8, &u8)| if *form == b'0' { own.is_ascii_digit() } else { own == form };
    if !head.iter().zip(form).all(fits) || head[17..] > b"59"[..] {
        return None;
    }
    let rest = &text[form.len()..];
    let (digits, zone) = match rest.strip_prefix(['.', ',']) {
        None => (0, rest),
        Some(fraction) => {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            (Some(digits).filter(|digits| *digits > 0)?, &fraction[digits..])
        }
    };
    // Go reads more digits than there are nanoseconds, and a comma.
    let fraction = &rest[..rest.len() - zone.len()].replace(',', ".");
    let written = format!("{}{}", &text[..form.len()], &fraction[..fraction.len().min(10)]);
    let local: DateTime = written.parse().ok()?;
    Some((local.checked_sub(offset(zone)?).ok()?, digits))
}

/// Offset from UTC of a zone (`Z`, `+02:00`).
fn offset(zone: &str) -> Option<SignedDuration> {
    let &[sign @ (b'+' | b'-'), a, b, b':', c, d] = zone.as_bytes() else {
        return (zone == "Z").then_some(SignedDuration::ZERO);
    };
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    let (hours, minutes) = (digit(a)? * 10 + digit(b)?, digit(c)? * 10 + digit(d)?);
    let ahead = SignedDuration::from_mins(hours * 60 + minutes);
    (hours < 24 && minutes < 60).then_some(if sign == b'-' { -ahead } else { ahead })
}

/// A quantity as Kubernetes writes it: without fractions, thousandths at the least, with the largest suffix.
///
/// # Errors
/// Where it is none.
pub fn quantity(value: &mut Value) -> Result<(), String> {
    let text = match &*value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return Ok(()),
    };
    if !is_quantity(&text) {
        return Err(format!("quantities must match the regular expression: {text:?}"));
    }
    *value = json!(canonical(&text).unwrap_or(text));
    Ok(())
}

/// The canonical form; none where it is kept as it is written, as Go does what it reads at once.
fn canonical(text: &str) -> Option<String> {
    let digits = text.trim_start_matches('-');
    if text.starts_with('+')
        || text.ends_with('.')
        || (digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit())
    {
        return None;
    }
    let number = |at: &usize| text[at + 1..].starts_with(|one: char| one.is_ascii_digit() || matches!(one, '+' | '-'));
    let exponent = text.find(['e', 'E']).filter(number);
    if let Some(at) = exponent
        && !text.contains('.')
        && text[at + 1..].parse::<i32>().is_ok_and(|power| power >= -3)
    {
        return None;
    }
    const THOUSANDTH: i128 = 1_000_000;
    let billionths = billionths(text)?;
    let thousandths = billionths.div_euclid(THOUSANDTH) + i128::from(billionths.rem_euclid(THOUSANDTH) != 0);
    let whole = thousandths / 1000;
    Some(match (thousandths % 1000, exponent.is_some(), text.ends_with('i')) {
        (0, true, _) => match without_factors(whole, 1000) {
            (number, 0) => number.to_string(),
            (number, power) => format!("{number}e{}", 3 * power),
        },
        (0, false, true) if whole > i128::from(i64::MAX) => i64::MAX.to_string(),
        (0, false, true) if whole.abs() >= 1024 => with_binary_suffix(whole),
        (0, false, _) => with_decimal_suffix(whole),
        (_, true, _) => format!("{thousandths}e-3"),
        _ => format!("{thousandths}m"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value after a reader has taken it; none where it is refused.
    fn read(reader: fn(&mut Value) -> Result<(), String>, text: &str) -> Option<Value> {
        let mut value = json!(text);
        reader(&mut value).ok().map(|()| value)
    }

    #[test]
    fn quantities_are_written_as_kubernetes_writes_them() {
        for (text, stored) in [
            ("1000m", "1"),
            ("1000", "1k"),
            ("1024Ki", "1Mi"),
            ("1024", "1024"),
            ("+1", "+1"),
            ("01", "01"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1E3", "1E3"),
            ("1.0e3", "1e3"),
            ("1.5e3", "1500"),
            ("1e-4", "1e-3"),
            ("2.5e-3", "3e-3"),
            ("0.5Gi", "512Mi"),
            ("1.5Ki", "1536"),
            ("0.0001Ki", "103m"),
            ("0.1Mi", "104857600m"),
            ("1.2345", "1235m"),
            ("100n", "1m"),
            ("-0", "0"),
            ("0Gi", "0"),
            ("9Ei", "9223372036854775807"),
            ("1.5E", "1500P"),
            ("1.0Ei", "1Ei"),
            ("123456789012345678.5", "123456789012345678500m"),
            ("99999999999999999999999999", "99999999999999999999999999"),
            ("5.", "5."),
            (" 1 ", "1"),
            ("-100m", "-100m"),
            ("1E", "1E"),
        ] {
            assert_eq!(read(quantity, text), Some(json!(stored)), "{text}");
        }
        for text in ["", "x", "1Kib", "1K", "1ki", "1e", "0x10", "1_000", "١"] {
            assert_eq!(read(quantity, text), None, "{text}");
        }
    }

    #[test]
    fn times_have_the_form_that_go_reads() {
        for (text, stored) in [
            ("2026-01-01T02:00:00.5+02:00", json!("2026-01-01T00:00:00Z")),
            ("9999-12-31T23:59:59Z", json!("9999-12-31T23:59:59Z")),
            ("2026-01-01T00:00:00,123456789123Z", json!("2026-01-01T00:00:00Z")),
            ("0001-01-01T00:00:00Z", Value::Null),
        ] {
            assert_eq!(read(time, text), Some(stored), "{text}");
        }
        for text in [
            "",
            "noon",
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-01-01t00:00:00z",
            "2026-01-01 00:00:00Z",
            "2026-02-30T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:60Z",
            "10000-01-01T00:00:00Z",
            "2026-1-1T00:00:00Z",
            "2026-01-01T00:00:00+25:00",
            "2026-01-01T00:00:00.Z",
        ] {
            assert_eq!(read(time, text), None, "{text}");
            assert_eq!(read(micro_time, text), None, "{text}");
        }
        assert_eq!(read(micro_time, "2026-01-01T00:00:00.000001+02:00"), Some(json!("2025-12-31T22:00:00.000001Z")));
        assert_eq!(read(micro_time, "2026-01-01T00:00:00Z"), None);
    }
}
