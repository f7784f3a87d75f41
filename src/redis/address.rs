//! The address of a Redis: `redis://user:password@host:6379,host:6380`.

use std::fmt;

/// Default ports of Redis and of Sentinel.
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26_379;

/// Address and credentials of Redis.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Some nodes of Redis, or its Sentinels; any reachable node lists the others.
    pub hosts: Vec<(String, u16)>,
    /// The name of a master, if the hosts are Sentinels.
    pub master: Option<String>,
    /// Whether connections use TLS.
    pub is_tls: bool,
    /// ACL user; `None` is the default user.
    pub user: Option<String>,
    /// Password of that user, or of the default user.
    pub password: Option<String>,
}

/// Error in the URL of Redis. Messages do not repeat the URL: a secret may be anywhere in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The URL has another scheme.
    #[error("it begins with none of redis://, rediss:// (TLS), redis+sentinel://, rediss+sentinel://")]
    Scheme,
    /// There is no host.
    #[error("it names no host")]
    NoHost,
    /// A port is not a number.
    #[error("what follows the colon of a host is not a port")]
    Port,
    /// The part before the hosts is invalid.
    #[error(
        "user and password must be percent-encoded in a URL: write %2F for /, %2C for a comma, %40 for @, %25 for %"
    )]
    Login,
    /// The URL of Sentinels has no master name.
    #[error("the name of the master is missing: redis+sentinel://host:26379/mymaster")]
    NoMaster,
    /// Something follows the hosts.
    #[error("nothing but hosts is expected, and a path follows them: a forest has no database of its own")]
    Path,
}

impl Address {
    /// Parses a URL.
    ///
    /// # Errors
    /// [`AddressError`] for an invalid URL.
    pub fn parse(url: &str) -> Result<Address, AddressError> {
        let (scheme, rest) = url.split_once("://").ok_or(AddressError::Scheme)?;
        let (is_tls, is_sentinel) = match scheme {
            "redis" => (false, false),
            "rediss" => (true, false),
            "redis+sentinel" => (false, true),
            "rediss+sentinel" => (true, true),
            _ => return Err(AddressError::Scheme),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A slash in the secret: its rest would be taken for a path, and the user for a host.
        if path.contains('@') {
            return Err(AddressError::Login);
        }
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(login), hosts),
            None => (None, authority),
        };
        let decoded = |text: &str| {
            let text = percent_encoding::percent_decode_str(text);
            Some(text.decode_utf8_lossy().into_owned()).filter(|text| !text.is_empty())
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (decoded(user), decoded(password)),
            None => (None, None),
        };
        let default = if is_sentinel { SENTINEL_PORT } else { PORT };
        let hosts = hosts.split(',').filter(|host| !host.is_empty());
        let hosts: Vec<_> = hosts.map(|host| host_and_port(host, default)).collect::<Result<_, _>>()?;
        if hosts.is_empty() {
            return Err(AddressError::NoHost);
        }
        let path = path.trim_end_matches('/');
        let master = match (is_sentinel, path) {
            (true, "") => return Err(AddressError::NoMaster),
            (true, master) => Some(master.to_owned()),
            (false, "" | "0") => None,
            (false, _) => return Err(AddressError::Path),
        };
        Ok(Address { hosts, master, is_tls, user, password })
    }
}

fn host_and_port(text: &str, default: u16) -> Result<(String, u16), AddressError> {
    // An IPv6 address has its own colons: `[::1]:6379`.
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(AddressError::NoHost);
    }
    let port = port.map_or(Ok(default), str::parse);
    let port = port.map_err(|_| AddressError::Port)?;
    Ok((host.to_owned(), port))
}

/// Shows the address without user and password, for logs.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.is_tls { "s" } else { "" };
        let sentinel = if self.master.is_some() { "+sentinel" } else { "" };
        write!(f, "redis{tls}{sentinel}://")?;
        for (nth, (host, port)) in self.hosts.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            match host.contains(':') {
                true => write!(f, "{comma}[{host}]:{port}")?,
                false => write!(f, "{comma}{host}:{port}")?,
            }
        }
        match &self.master {
            Some(master) => write!(f, "/{master}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_their_secrets() {
        let one = Address::parse("redis://localhost").unwrap();
        assert_eq!(one.hosts, [("localhost".to_owned(), 6379)]);
        assert_eq!((one.user, one.password, one.is_tls), (None, None, false));
        let several = Address::parse("rediss://me:p%40ss@a:7001,b,[::1]:7003/").unwrap();
        assert_eq!(several.hosts, [("a".into(), 7001), ("b".into(), 6379), ("::1".into(), 7003)]);
        assert_eq!(several.user.as_deref(), Some("me"));
        assert_eq!(several.password.as_deref(), Some("p@ss"));
        assert_eq!(several.to_string(), "rediss://a:7001,b:6379,[::1]:7003");
        let default_user = Address::parse("redis://:secret@a").unwrap();
        assert_eq!((default_user.user, default_user.password.as_deref()), (None, Some("secret")));
        let sentinel = Address::parse("redis+sentinel://s1,s2:5/news").unwrap();
        assert_eq!(sentinel.hosts, [("s1".into(), 26_379), ("s2".into(), 5)]);
        assert_eq!(format!("{sentinel:?}"), "redis+sentinel://s1:26379,s2:5/news");
    }

    #[test]
    fn what_is_no_address_is_refused_in_words() {
        let refused = |url: &str| Address::parse(url).unwrap_err();
        assert_eq!(refused("localhost:6379"), AddressError::Scheme);
        assert_eq!(refused("http://localhost"), AddressError::Scheme);
        assert_eq!(refused("redis://"), AddressError::NoHost);
        assert_eq!(refused("redis://:6379"), AddressError::NoHost);
        assert_eq!(refused("redis://a:b"), AddressError::Port);
        assert_eq!(refused("redis://a/3"), AddressError::Path);
        assert_eq!(refused("redis+sentinel://a"), AddressError::NoMaster);
        for secret in ["redis://me:Pa/55@a", "redis://:Pa/55@a,b", "redis://me:Pa/55"] {
            let error = refused(secret).to_string();
            assert!(!error.contains("Pa") && !error.contains("55"), "{error}");
        }
    }
}
