//! Pages of an answer: `MaxResults` and `NextToken`.
//!
//! A token names the key after which the next page starts, so that what comes and goes between two pages neither
//! repeats nor skips the rest.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::region::wire::error::AwsError;

/// The page of a list that a request wants.
#[derive(Debug)]
pub(crate) struct ResultPage {
    after: Option<String>,
    size: usize,
}

impl ResultPage {
    /// A page of `asked` items, at most `most` and as many as that unless asked for.
    pub fn new(asked: Option<i64>, token: Option<&str>, most: usize) -> Result<Self, AwsError> {
        let after = token.map(read_token).transpose()?;
        let size = match asked {
            None => most,
            Some(number) => usize::try_from(number).ok().filter(|size| *size > 0).ok_or_else(|| {
                AwsError::invalid(format_args!("Value ( {number} ) for parameter maxResults is invalid"))
            })?,
        };
        Ok(Self { after, size: size.min(most) })
    }

    /// Reads `MaxResults` and `NextToken` of a query request.
    pub fn from_form(form: &crate::region::wire::form::FormNode, most: usize) -> Result<Self, AwsError> {
        Self::new(form.number("MaxResults")?, form.text("NextToken"), most)
    }

    /// True if an item of this key stands on an earlier page: it need not be looked at.
    pub fn is_past(&self, key: &str) -> bool {
        self.after.as_deref().is_some_and(|after| key <= after)
    }

    /// True if so many items in the order of their keys are more than the page takes: none need follow.
    pub fn is_full(&self, count: usize) -> bool {
        count > self.size
    }

    /// The items of this page, of items sorted by key, and the token of the next if there is one.
    pub fn cut<T>(&self, items: impl IntoIterator<Item = (String, T)>) -> (Vec<T>, Option<String>) {
        let mut rest = items.into_iter().filter(|(key, _)| !self.is_past(key));
        let mut page = Vec::new();
        let mut last = None;
        for (key, item) in rest.by_ref().take(self.size) {
            page.push(item);
            last = Some(key);
        }
        let more = rest.next().is_some();
        (page, last.filter(|_| more).map(|key| URL_SAFE_NO_PAD.encode(key)))
    }
}

fn read_token(token: &str) -> Result<String, AwsError> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| AwsError::new("InvalidNextToken", "The token is not valid"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pages_cover_a_list_once_even_when_it_changes_in_between() {
        let keyed = |keys: &[&str]| keys.iter().map(|k| ((*k).to_owned(), (*k).to_owned())).collect::<Vec<_>>();
        let (first, token) = ResultPage::new(Some(2), None, 100).unwrap().cut(keyed(&["a", "b", "d"]));
        assert_eq!(first, ["a", "b"]);
        let (second, token) = ResultPage::new(Some(2), token.as_deref(), 100).unwrap().cut(keyed(&["b", "c", "d"]));
        assert_eq!((second, token), (vec!["c".to_owned(), "d".to_owned()], None));
    }

    #[test]
    fn what_is_past_or_beyond_a_page_changes_nothing_of_it() {
        let keys = ["a", "b", "c", "d", "e"];
        let keyed = |keys: Vec<&str>| keys.into_iter().map(|key| (key.to_owned(), key.to_owned())).collect::<Vec<_>>();
        let mut token: Option<String> = None;
        for page in [["a", "b"].as_slice(), &["c", "d"], &["e"]] {
            let asked = ResultPage::new(Some(2), token.as_deref(), 100).unwrap();
            let mut needed = Vec::new();
            for key in keys {
                if !asked.is_past(key) && !asked.is_full(needed.len()) {
                    needed.push(key);
                }
            }
            let (items, next) = asked.cut(keyed(keys.to_vec()));
            assert_eq!((items, next.clone()), asked.cut(keyed(needed)));
            assert_eq!(asked.cut(keyed(keys.to_vec())).0, page);
            token = next;
        }
    }

    #[test]
    fn a_broken_token_is_refused() {
        assert_eq!(ResultPage::new(None, Some("%%"), 5).unwrap_err().code, "InvalidNextToken");
    }
}
