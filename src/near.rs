//! "Did you mean": the known name that is likely meant by one that is not known.

/// Likeness from which a name is taken for a slip of another (Jaro-Winkler; clap uses 0.7 of Jaro for its flags).
const LIKE: f64 = 0.85;

/// The known name that is nearest, if it is near enough.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    let likeness = |name: &str| strsim::jaro_winkler(&written, &name.to_lowercase());
    let all = known.into_iter().map(|name| (likeness(name), name)).filter(|(likeness, _)| *likeness >= LIKE);
    let best = all.reduce(|best, one| if one.0 > best.0 { one } else { best });
    best.map(|(_, name)| name)
}

/// The end of a sentence about a name that is not known: `; did you mean X?`, or nothing.
pub fn did_you_mean<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(written, known).map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slip_is_told_from_another_name() {
        let known = ["m5.large", "m5.xlarge", "c7g.large"];
        assert_eq!(nearest("m5.larg", known), Some("m5.large"));
        assert_eq!(nearest("M5.XLARGE", known), Some("m5.xlarge"));
        assert_eq!(nearest("potato", known), None);
        assert_eq!(did_you_mean("c7g.lrage", known), "; did you mean c7g.large?");
        assert_eq!(did_you_mean("potato", known), "");
    }
}
