//! MIME multipart, as cloud-init reads it.

use super::UserDataError;

const BOUNDARY: &str = "//";

/// One part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MimePart {
    /// Its Content-Type.
    pub kind: String,
    /// Text of the part.
    pub body: String,
}

impl MimePart {
    /// A script of a shell.
    pub(super) fn shell(body: impl Into<String>) -> Self {
        Self { kind: "text/x-shellscript; charset=\"us-ascii\"".into(), body: body.into() }
    }
}

/// True if the user already wrote MIME.
pub(super) fn is_mime(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("MIME-Version:") || text.starts_with("Content-Type:")
}

/// All parts in one archive.
pub(super) fn archive(parts: &[MimePart]) -> String {
    let mut text = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n");
    for part in parts {
        text += &format!("--{BOUNDARY}\nContent-Type: {}\n\n{}\n", part.kind, part.body.trim_end_matches('\n'));
    }
    text + &format!("--{BOUNDARY}--\n")
}

/// The parts of an archive that the user wrote.
///
/// # Errors
/// It has no boundary, or no part within.
pub(super) fn parts_of(text: &str) -> Result<Vec<MimePart>, UserDataError> {
    let text = text.replace("\r\n", "\n");
    let (head, body) = text.trim_start().split_once("\n\n").ok_or_else(|| broken("it has no header"))?;
    let boundary = boundary_of(head).ok_or_else(|| broken("its header names no boundary"))?;
    let opening = format!("--{boundary}");
    let closed = body.split(&format!("\n{opening}--")).next().unwrap_or(body);
    let parts: Vec<MimePart> =
        format!("\n{closed}").split(&format!("\n{opening}\n")).skip(1).filter_map(part_of).collect();
    if parts.is_empty() { Err(broken("it has no part")) } else { Ok(parts) }
}

fn broken(why: &str) -> UserDataError {
    UserDataError::Custom(format!("reads like MIME, but {why}"))
}

fn boundary_of(head: &str) -> Option<&str> {
    let (_, rest) = head.split_once("boundary=")?;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split([';', '\n']).next().map(str::trim),
    }
}

fn part_of(text: &str) -> Option<MimePart> {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let kind = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-type").then(|| value.trim().to_owned())
    });
    (!text.trim().is_empty()).then(|| MimePart { kind: kind.unwrap_or_else(|| "text/plain".into()), body: body.into() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_was_archived_comes_out_again() {
        let parts = vec![
            MimePart::shell("#!/bin/sh\necho a\n\necho b"),
            MimePart { kind: "text/plain".into(), body: "x".into() },
        ];
        assert_eq!(parts_of(&archive(&parts)).unwrap(), parts);
    }

    #[test]
    fn another_boundary_and_carriage_returns_are_read() {
        let text = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=BOUND\r\n\r\n--BOUND\r\nContent-Type: text/x-shellscript\r\n\r\necho\r\n--BOUND--\r\n";
        let parts = parts_of(text).unwrap();
        assert_eq!(parts, vec![MimePart { kind: "text/x-shellscript".into(), body: "echo".into() }]);
    }

    #[test]
    fn mime_without_boundary_or_parts_is_an_error() {
        assert!(parts_of("MIME-Version: 1.0\n\nhello").is_err());
        assert!(parts_of("Content-Type: multipart/mixed; boundary=\"x\"\n\nnothing").is_err());
    }
}
