//! Reads the written texts again, as v1: a text that is refused is never given out.

use super::paths::{ManifestPart, Mapping, PartField, PlacedValue};
use super::{InputError, ReadOptions, Rewritten};
use crate::manifest::read;

/// An object of the text that was written, and where its fields come from.
pub(super) struct Origin {
    /// Its first line in that text.
    first: usize,
    /// The line of the object in the original.
    line: usize,
    /// Fields of the new object, each with the line of the original that it stood on.
    fields: Vec<(String, usize)>,
}

impl Origin {
    pub(super) fn new(
        first: usize,
        line: usize,
        part: ManifestPart,
        places: &[PlacedValue],
        mapping: &Mapping,
    ) -> Self {
        let target = |place: &PlacedValue| {
            let PartField { path, .. } = mapping.target(&place.path).filter(|target| target.part == part)?;
            Some((path.to_string(), place.line))
        };
        Self { first, line, fields: places.iter().filter_map(target).collect() }
    }

    /// The line of the original that a field of the new object comes from: of the field itself, or of what holds it.
    fn line_of(&self, field: &str) -> usize {
        let holds = |own: &str| {
            let rest = field.strip_prefix(own);
            !own.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let nearest = self.fields.iter().filter(|(own, _)| holds(own)).max_by_key(|(own, _)| own.len());
        nearest.map_or(self.line, |(_, line)| *line)
    }
}

/// Errors of reading the written texts as v1, each at its place in the original. Objects that were left as they are have been
/// read before.
pub(super) fn read_back(made: &[Rewritten], origins: &[Vec<Origin>], options: &ReadOptions) -> Vec<InputError> {
    if origins.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let files: Vec<(&str, &str)> = made.iter().map(|one| (one.name.as_str(), one.text.as_str())).collect();
    let Err(errors) = read::read_manifests(&files, options) else { return Vec::new() };
    let at_origin = |error: InputError| {
        let at = made.iter().position(|one| one.name == error.file);
        let of_file = at.and_then(|at| origins.get(at)).map(Vec::as_slice).unwrap_or_default();
        let origin = of_file.iter().rev().find(|origin| origin.first <= error.line);
        let line = origin.map_or(1, |origin| origin.line_of(&error.field));
        InputError { line, what: format!("cannot be written as v1: {}", error.what), ..error }
    };
    errors.into_iter().map(at_origin).collect()
}
