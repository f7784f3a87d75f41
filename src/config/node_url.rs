//! The URL of a node and its credentials. No message repeats any of its text.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use percent_encoding::percent_decode_str;

/// The URL of a node: `https://user:password@host:9200/path`. It is shown without the credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct NodeUrl {
    uri: Uri,
    /// In front of every path; empty, or with a slash at its beginning and none at its end.
    path: String,
    credentials: Option<HeaderValue>,
}

/// A URL that is not a node's. The message repeats none of it: it may hold a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NodeUrlError {
    /// It begins with something else.
    #[error("it must begin with http:// or https://")]
    Scheme,
    /// Something before the host is not a login.
    #[error(
        "user and password must be percent-encoded in a URL: write %23 for #, %2F for /, %3F for ?, %25 for %, %5C for \
         \\"
    )]
    Credentials,
    /// There is no host, or its port is none.
    #[error("it is not a URL such as http://127.0.0.1:9200")]
    Host,
    /// Something follows the path.
    #[error("it must end with the host or a path, without ? and #")]
    Query,
}

impl NodeUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// The fault, without any of the text.
    pub fn parse(text: &str) -> Result<NodeUrl, NodeUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(NodeUrlError::Scheme)?;
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") {
            return Err(NodeUrlError::Scheme);
        }
        // The text before the last `@` is meant as credentials, not as a host to send them to.
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(login), rest),
            None => (None, rest),
        };
        if rest.contains(['?', '#']) {
            return Err(NodeUrlError::Query);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let uri: Uri = format!("{scheme}://{authority}/").parse().map_err(|_| NodeUrlError::Host)?;
        let parsed = uri.authority().ok_or(NodeUrlError::Host)?;
        let has_port = parsed.as_str().len() > parsed.host().len();
        if parsed.host().is_empty() || has_port && parsed.port_u16().is_none() {
            return Err(NodeUrlError::Host);
        }
        let path = path.trim_end_matches('/');
        if path.parse::<Uri>().is_err() && !path.is_empty() {
            return Err(NodeUrlError::Host);
        }
        Ok(NodeUrl { uri, path: path.to_owned(), credentials: login.map(basic).transpose()?.flatten() })
    }

    /// Scheme and authority, without credentials.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Prefix of every path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The credentials, as a header has them.
    pub fn credentials(&self) -> Option<&HeaderValue> {
        self.credentials.as_ref()
    }

    /// Whether it is one of TLS.
    pub fn is_tls(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uri = self.uri.to_string();
        write!(f, "{}{}", uri.trim_end_matches('/'), self.path)
    }
}

impl fmt::Debug for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The header of a login, percent-encoded as in the URL.
fn basic(login: &str) -> Result<Option<HeaderValue>, NodeUrlError> {
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '?' | '#' | '\\');
    let is_code = |rest: &str| {
        let code = rest.as_bytes().get(..2);
        code.is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit))
    };
    if !login.chars().all(is_plain) || !login.split('%').skip(1).all(is_code) {
        return Err(NodeUrlError::Credentials);
    }
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    if user.is_empty() && password.is_empty() {
        return Ok(None);
    }
    let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
    let both = [&decoded(user)[..], b":", &decoded(password)[..]].concat();
    let header = format!("Basic {}", STANDARD.encode(both));
    let mut header = HeaderValue::from_str(&header).map_err(|_| NodeUrlError::Credentials)?;
    header.set_sensitive(true);
    Ok(Some(header))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_of_nodes() {
        let read = |text: &str| {
            let url = NodeUrl::parse(text).unwrap();
            let credentials = url.credentials().cloned();
            (url.to_string(), credentials.map(|c| c.to_str().unwrap().to_owned()))
        };
        let basic = |login: &str| Some(format!("Basic {}", STANDARD.encode(login)));
        for (text, shown, login) in [
            ("http://es1", "http://es1", None),
            ("HTTPS://es1:9200/", "https://es1:9200", None),
            ("http://[::1]:9200/es/", "http://[::1]:9200/es", None),
            ("https://me:secret@es:9200", "https://es:9200", basic("me:secret")),
            ("http://me@es", "http://es", basic("me:")),
            ("http://@es", "http://es", None),
            ("http://a%40b:c%3Ad%23@es:9200", "http://es:9200", basic("a@b:c:d#")),
            // A login that is not encoded ends at the last `@`.
            ("http://me:p@ss@es", "http://es", basic("me:p@ss")),
            ("http://me:%E5%AF%86@es", "http://es", basic("me:\u{5bc6}")),
        ] {
            assert_eq!(read(text), (shown.to_owned(), login), "{text}");
        }
        let url = NodeUrl::parse("https://me:secret@es:9200").unwrap();
        assert!(url.is_tls() && !format!("{url:?} {:?}", url.credentials()).contains("c2Vj"));
    }

    #[test]
    fn what_is_no_url_of_a_node() {
        for (text, error) in [
            ("", NodeUrlError::Scheme),
            ("es:9200", NodeUrlError::Scheme),
            ("ftp://es", NodeUrlError::Scheme),
            ("http://", NodeUrlError::Host),
            ("http://:9200", NodeUrlError::Host),
            ("http://es:70000", NodeUrlError::Host),
            ("http://svc:Pa55", NodeUrlError::Host),
            ("http://svc:Pa55#word@host:9200", NodeUrlError::Credentials),
            ("http://svc:Pa/ss@host", NodeUrlError::Credentials),
            ("http://svc:Pa?ss@host", NodeUrlError::Credentials),
            ("http://svc:100%@host", NodeUrlError::Credentials),
            ("http://svc:a b@host", NodeUrlError::Credentials),
            ("http://host?x", NodeUrlError::Query),
            ("http://host/x#y", NodeUrlError::Query),
        ] {
            assert_eq!(NodeUrl::parse(text).unwrap_err(), error, "{text}");
        }
    }

    proptest! {
        /// The text before a host is never shown, understood or not.
        #[test]
        fn nothing_shows_what_stands_before_the_host(secret in "[!-~]{6,20}") {
            let shown = match NodeUrl::parse(&format!("https://svc:{secret}@es-host:9200")) {
                Ok(url) => format!("{url} {url:?} {:?}", url.credentials()),
                Err(error) => format!("{error} {error:?}"),
            };
            prop_assert!(!shown.contains(&secret), "{}", shown);
        }
    }
}
