//! Addresses that all readers of a signature read alike. Some decode path and query before they encode them, some sign
//! what they see, some collapse slashes and dots: an address in this form is the same to each.

use hyper::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters that stay as they are in a query: the unreserved ones of RFC 3986.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Characters besides them that stand for themselves in a path.
const IN_PATH: &[u8] = b"*,$&=:@!'()";

/// The address in the form in which it is signed and sent; the servers read the same in it. Parameters of a signature
/// in the query are left out.
///
/// # Errors
/// There is no such form; the text says why.
pub(crate) fn canonical(uri: &Uri) -> Result<Uri, &'static str> {
    let path = canonical_path(uri.path())?;
    let query = uri.query().map(canonical_query).transpose()?.filter(|query| !query.is_empty());
    let path_and_query = match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path_and_query.parse().map_err(|_| "the path is none of a URL")?);
    Uri::from_parts(parts).map_err(|_| "the path is none of a URL")
}

fn canonical_path(path: &str) -> Result<String, &'static str> {
    let segments = path.strip_prefix('/').ok_or("the path does not begin with a slash")?;
    let mut canonical = String::with_capacity(path.len());
    let mut segments = segments.split('/').peekable();
    while let Some(segment) = segments.next() {
        canonical.push('/');
        if segment.is_empty() && segments.peek().is_some() {
            return Err("two slashes follow each other in the path");
        }
        if segment.as_bytes().first_chunk().is_some_and(|begin: &[u8; 3]| begin.eq_ignore_ascii_case(b"%5F")) {
            return Err("a segment of the path begins with %5F, which some read as an API and some as a name");
        }
        let begin = canonical.len();
        append_segment(&mut canonical, segment)?;
        if canonical.get(begin..).is_some_and(|segment| segment == "." || segment == "..") {
            return Err("a segment of the path is . or ..");
        }
    }
    Ok(canonical)
}

fn append_segment(canonical: &mut String, segment: &str) -> Result<(), &'static str> {
    let stands_for_itself =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || IN_PATH.contains(&byte);
    let mut rest = segment.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let (decoded, is_encoded) = match byte {
            b'%' => {
                let (digits, after) = rest.split_at_checked(2).ok_or(BAD_ENCODING)?;
                rest = after;
                (decode(digits).ok_or(BAD_ENCODING)?, true)
            }
            byte => (byte, false),
        };
        // A plus is one in a path, and some take it for a blank: it stays in the form that it came in.
        if stands_for_itself(decoded) || decoded == b'+' && !is_encoded {
            canonical.push(char::from(decoded));
        } else {
            canonical.push_str(percent_encoding::percent_encode_byte(decoded));
        }
    }
    Ok(())
}

const BAD_ENCODING: &str = "a % of the address is not followed by two hexadecimal digits";

fn decode(digits: &[u8]) -> Option<u8> {
    let digits = std::str::from_utf8(digits).ok()?;
    let are_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    are_digits.then(|| u8::from_str_radix(digits, 16).ok())?
}

fn canonical_query(query: &str) -> Result<String, &'static str> {
    if query.contains(';') {
        return Err("there is a semicolon in the query, which some read as a separator: send %3B");
    }
    let strict = |text: &str| {
        let percents = text.match_indices('%').map(|(at, _)| text.as_bytes().get(at + 1..at + 3));
        if percents.map(|digits| digits.and_then(decode)).any(|byte| byte.is_none()) {
            return Err(BAD_ENCODING);
        }
        let text = text.replace('+', " ");
        let decoded = percent_decode_str(&text).decode_utf8().map_err(|_| "the query is not UTF-8")?;
        Ok(utf8_percent_encode(&decoded, UNRESERVED).to_string())
    };
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = strict(name)?;
        if !name.to_ascii_lowercase().starts_with("x-amz-") {
            pairs.push(format!("{name}={}", strict(value)?));
        }
    }
    Ok(pairs.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Result<String, &'static str> {
        canonical(&path.parse().unwrap()).map(|uri| uri.to_string())
    }

    #[test]
    fn an_address_has_one_form() {
        for (came, goes) in [
            ("/", "/"),
            ("/news-1/_bulk/", "/news-1/_bulk/"),
            ("/news%2D1/_doc/a%2fb", "/news-1/_doc/a%2Fb"),
            ("/a,b*/_search?q=a+b&size=1", "/a,b*/_search?q=a%20b&size=1"),
            ("/a%2Cb%2a/_search", "/a,b*/_search"),
            ("/%3Cnews-%7Bnow%2Fd%7D%3E/_doc", "/%3Cnews-%7Bnow%2Fd%7D%3E/_doc"),
            ("/i/_doc/1+1", "/i/_doc/1+1"),
            ("/i/_doc/1%2B1", "/i/_doc/1%2B1"),
            ("/i/_doc/%C3%A9", "/i/_doc/%C3%A9"),
            ("/i/_doc/%FF", "/i/_doc/%FF"),
            ("/i/_doc/...", "/i/_doc/..."),
            ("/i/_doc/a;b", "/i/_doc/a%3Bb"),
            ("/_search?pretty", "/_search?pretty="),
            ("/_search?", "/_search"),
            ("/_search?&&", "/_search"),
            ("/_bulk?filter_path=items.*.status,took&a=%3b", "/_bulk?filter_path=items.%2A.status%2Ctook&a=%3B"),
            ("/_bulk?b=2&a=1&a=0", "/_bulk?b=2&a=1&a=0"),
            ("/_search?q=%E4%B8%AD%2B", "/_search?q=%E4%B8%AD%2B"),
            ("/_search?X-Amz-Signature=0&x%2Damz-date=1&q=x", "/_search?q=x"),
            ("http://a:1/x?y=/", "http://a:1/x?y=%2F"),
        ] {
            assert_eq!(of(came).as_deref(), Ok(goes), "{came}");
            assert_eq!(of(goes).as_deref(), Ok(goes), "it is the same again");
        }
    }

    #[test]
    fn what_has_two_readings_has_none() {
        for path in [
            "//_bulk",
            "/news//_bulk",
            "/x/../news/_bulk",
            "/./_bulk",
            "/x/%2e%2E/news/_bulk",
            "/x/.%2e",
            "/i/_doc/%5Fsearch",
            "/%5fbulk",
            "/i/_doc/%",
            "/i/_doc/%1",
            "/i/_doc/%+1",
            "/i/_doc/%zz",
            "/i?q=%",
            "/i?q=%g0",
            "/i?q=%FF",
            "/i?a=1;b=2",
        ] {
            assert!(of(path).is_err(), "{path}: {:?}", of(path));
        }
    }
}
