//! What browsers say of the page that sends a request.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderValue, ORIGIN, REFERER};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Uri};

use super::ProxyError;

/// Whether a browser marks the request as cross-origin. It says so by `Sec-Fetch-Site` where the connection is safe,
/// and over plain HTTP by no more than `Origin` and `Referer`.
pub(crate) fn is_of_another_page(headers: &HeaderMap) -> bool {
    let of_own = |site: &HeaderValue| site == "same-origin" || site == "none";
    let host = headers.get(HOST).and_then(authority);
    let is_own = |page: &HeaderValue| {
        let page = page.to_str().ok().and_then(|page| page.parse::<Uri>().ok());
        page.zip(host.as_ref()).is_some_and(|(page, host)| {
            let default = match page.scheme_str() {
                Some("https") => 443,
                _ => 80,
            };
            let is_host = page.host().is_some_and(|p| p.eq_ignore_ascii_case(host.host()));
            is_host && page.port_u16().unwrap_or(default) == host.port_u16().unwrap_or(default)
        })
    };
    !headers.get_all("sec-fetch-site").iter().all(of_own)
        || ![ORIGIN, REFERER].iter().all(|name| headers.get_all(name).iter().all(is_own))
}

/// Lets a request pass that no page of another site has sent.
///
/// # Errors
/// [`ProxyError::OtherSite`].
pub(crate) fn is_of_own_page(headers: &HeaderMap) -> Result<(), ProxyError> {
    match is_of_another_page(headers) {
        true => Err(ProxyError::OtherSite("its Origin, Referer or Sec-Fetch-Site is another one")),
        false => Ok(()),
    }
}

fn authority(host: &HeaderValue) -> Option<Authority> {
    host.to_str().ok()?.parse().ok()
}

/// Whether `Host` names this machine. A page that has a name of its own lead to this machine sends that name.
pub(crate) fn names_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    authority(host).is_some_and(|host| {
        let host = host.host();
        let address: Result<IpAddr, _> = host.trim_start_matches('[').trim_end_matches(']').parse();
        host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.to_canonical().is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    #[test]
    fn pages_of_others_are_told_by_what_browsers_send() {
        let is_of_another = |host: &'static str, told: &[(&'static str, &'static str)]| {
            let host = (HOST, HeaderValue::from_static(host));
            let told =
                told.iter().map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
            is_of_another_page(&told.chain([host]).collect())
        };
        for (host, name, own) in [
            ("a:9201", "origin", "http://a:9201"),
            ("A:9201", "referer", "http://a:9201/_spinney/ui/x?y"),
            ("a", "origin", "https://a"),
            ("a:443", "referer", "https://a/"),
            ("a", "origin", "http://a:80"),
            ("[::1]:9201", "origin", "http://[::1]:9201"),
            ("a", "sec-fetch-site", "same-origin"),
            ("a", "sec-fetch-site", "none"),
        ] {
            assert!(!is_of_another(host, &[(name, own)]), "{host} {name} {own}");
        }
        assert!(!is_of_another("a", &[]));
        for (host, name, other) in [
            ("a:9201", "origin", "http://a:9202"),
            ("a:9201", "origin", "http://a"),
            ("a:9201", "origin", "null"),
            ("a:9201", "origin", ""),
            ("a:9201", "referer", "http://evil.example/?http://a:9201"),
            ("a:9201", "referer", "http://a:9201@evil.example/"),
            ("a:9201", "referer", "/x"),
            ("a", "sec-fetch-site", "same-site"),
            ("a", "sec-fetch-site", "cross-site"),
            ("a", "sec-fetch-site", "anything"),
        ] {
            assert!(is_of_another(host, &[(name, other)]), "{host} {name} {other}");
        }
        let both = [("sec-fetch-site", "same-origin"), ("origin", "http://b")];
        assert!(is_of_another("a", &both));
    }

    #[test]
    fn names_of_this_machine() {
        let names = |hosts: &[&'static str]| {
            let hosts = hosts.iter().map(|host| (HOST, HeaderValue::from_static(host)));
            names_this_machine(&hosts.collect())
        };
        for own in ["localhost", "LocalHost:9201", "127.0.0.1:9201", "127.1.2.3", "[::1]:9201"] {
            assert!(names(&[own]), "{own}");
        }
        for other in ["", "evil.example:9201", "localhost.evil.example", "10.0.0.1", "0.0.0.0", "127.0.0.1.nip.io"] {
            assert!(!names(&[other]), "{other}");
        }
        assert!(!names(&[]));
    }
}
