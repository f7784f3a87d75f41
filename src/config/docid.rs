//! The service of docIds: which route it places articles by.

use super::{ConfigError, Route};
use crate::method::Method;

/// The fields of an article, as named by callers of that service.
const URL: &str = "url";
const TITLE: &str = "title";
const CONTENT: &str = "content";

/// Checks that articles can be placed by the route of `index`.
///
/// # Errors
/// When no route is for that index, or the route reads documents otherwise than the service's articles are.
pub(super) fn endpoint(index: &str, routes: &[Route]) -> Result<(), ConfigError> {
    let wrong = |reason: String| ConfigError::option("docid_endpoint", reason);
    if index.starts_with(['_', '-', '+']) || index.contains(['*', '?', ',', ':', '<', '/']) {
        return Err(wrong(format!(
            "'{index}' is not the name of one index: it says who may ask, since that is whoever may search it"
        )));
    }
    let Some(route) = routes.iter().find(|route| route.matches(index)) else {
        return Err(wrong(format!(
            "no route is for the index '{index}': name an index that --index or a [[route]] matches, such as articles"
        )));
    };
    if route.method != Method::Staged {
        return Err(wrong(format!(
            "the route of '{index}' has the method {}: a docId is found by url, title and content in turn, which is \
             --method staged",
            route.method
        )));
    }
    let text: Vec<&str> = route.text_fields.iter().map(String::as_str).collect();
    let (title, url) = (route.title_field.as_deref(), route.url_field.as_deref());
    if (text.as_slice(), title, url) != (&[CONTENT], Some(TITLE), Some(URL)) {
        return Err(wrong(format!(
            "the route of '{index}' reads other fields than an article has: give it --url-field {URL}, --title-field \
             {TITLE} and --text-field {CONTENT}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::config::RawServeOptions;

    fn read(route: &str) -> Result<Option<String>, String> {
        let text = format!("docid_endpoint = 'articles'\n{route}");
        let raw: RawServeOptions = toml::from_str(&text).unwrap();
        let options = raw.validate().map_err(|error| error.to_string())?;
        Ok(options.docid_endpoint)
    }

    #[test]
    fn the_route_has_to_read_articles() {
        const ROUTE: &str = "[[route]]\nindex = ['articles']\n";
        const FIELDS: &str = "url_field = 'url'\ntitle_field = 'title'\n";
        const STAGED: &str = "method = 'staged'\n";
        let right = read(&format!("{ROUTE}{STAGED}{FIELDS}"));
        assert_eq!(right, Ok(Some("articles".into())));
        for (route, expected) in [
            (
                format!("[[route]]\nindex = ['news-*']\n{STAGED}{FIELDS}"),
                "docid_endpoint: no route is for the index 'articles': name an index that --index or a [[route]] \
                 matches, such as articles",
            ),
            (
                format!("{ROUTE}{FIELDS}"),
                "docid_endpoint: the route of 'articles' has the method verified: a docId is found by url, title and \
                 content in turn, which is --method staged",
            ),
            (
                format!("{ROUTE}{STAGED}title_field = 'title'\n"),
                "docid_endpoint: the route of 'articles' reads other fields than an article has: give it --url-field \
                 url, --title-field title and --text-field content",
            ),
            (
                format!("{ROUTE}{STAGED}{FIELDS}text_field = ['content', 'body']\n"),
                "docid_endpoint: the route of 'articles' reads other fields than an article has: give it --url-field \
                 url, --title-field title and --text-field content",
            ),
        ] {
            assert_eq!(read(&route), Err(expected.to_owned()));
        }
    }

    #[test]
    fn one_index_is_named() {
        for index in ["news-*", "a,b", "_all", "far:news"] {
            let text = format!("docid_endpoint = '{index}'\n[[route]]\nindex = ['*']");
            let raw: RawServeOptions = toml::from_str(&text).unwrap();
            let error = raw.validate().unwrap_err().to_string();
            assert!(error.contains("is not the name of one index"), "{error}");
        }
    }

    #[test]
    fn without_the_option_there_is_no_service() {
        let options = RawServeOptions::default().validate().unwrap();
        assert_eq!(options.docid_endpoint, None);
    }
}
