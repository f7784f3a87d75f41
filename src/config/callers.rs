//! The file of those who may send requests, and on which addresses spinney may listen without one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{ConfigError, ServeOptions};

/// Those who may send requests, by name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Callers {
    /// Hashes of passwords, in the form of bcrypt.
    pub passwords: BTreeMap<String, String>,
    /// SHA-256 of bearer tokens.
    pub tokens: BTreeMap<[u8; 32], String>,
}

/// A line that names no caller. Nothing of it is repeated: it may be a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct CallersError {
    /// From 1 on.
    line: usize,
    reason: &'static str,
}

impl Callers {
    /// Reads lines of `name:$2y$…` (bcrypt, as `htpasswd -nB` writes them) and `name:sha256:HEX` (a bearer token's
    /// hash). Empty lines and those that begin with `#` are left out.
    ///
    /// # Errors
    /// A line is neither, a name stands twice, or there is no line.
    pub fn parse(text: &str) -> Result<Callers, CallersError> {
        let mut callers = Callers::default();
        let mut lines = 0;
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            lines = line;
            if !content.is_empty() && !content.starts_with('#') {
                callers.add(content).map_err(|reason| CallersError { line, reason })?;
            }
        }
        match callers.passwords.is_empty() && callers.tokens.is_empty() {
            true => Err(CallersError { line: lines, reason: "the file names nobody" }),
            false => Ok(callers),
        }
    }

    fn add(&mut self, line: &str) -> Result<(), &'static str> {
        const FORMS: &str = "use name:$2y$… as htpasswd -nB NAME writes it, or name:sha256:HEX for a bearer token";
        let (name, secret) = line.split_once(':').ok_or(FORMS)?;
        if name.is_empty() {
            return Err(FORMS);
        }
        if self.passwords.contains_key(name) || self.tokens.values().any(|other| other == name) {
            return Err("the name stands in an earlier line already");
        }
        if let Some(hex) = secret.strip_prefix("sha256:") {
            let hash = from_hex(hex).ok_or("a hash of SHA-256 has 64 digits of 0 to 9 and a to f")?;
            return match self.tokens.insert(hash, name.to_owned()) {
                Some(_) => Err("the token stands in an earlier line already"),
                None => Ok(()),
            };
        }
        is_bcrypt(secret).then_some(()).ok_or(FORMS)?;
        self.passwords.insert(name.to_owned(), secret.to_owned());
        Ok(())
    }
}

/// Whether it has the form of a hash by bcrypt: version, cost from 4 to 12 (each more doubles the time; 12 takes
/// a quarter of a second), 22 characters of salt and 31 of hash.
fn is_bcrypt(secret: &str) -> bool {
    let parts: Vec<&str> = secret.split('$').collect();
    let is_hash = |text: &str| {
        text.len() == 53 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'/'))
    };
    match parts.as_slice() {
        ["", "2a" | "2b" | "2y", cost, hash] => {
            cost.len() == 2 && cost.parse().is_ok_and(|cost: u32| (4..=12).contains(&cost)) && is_hash(hash)
        }
        _ => false,
    }
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() != 64 || !is_hex {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

impl ServeOptions {
    /// Whether those who can reach the listener may act as spinney, or have to show something.
    ///
    /// # Errors
    /// Requests are signed, anybody in the network could send them, and nobody said that this is meant; or an option
    /// is of no use without another.
    pub(super) fn check_door(&self) -> Result<(), ConfigError> {
        if self.client_ca.is_some() && self.tls.is_none() {
            return Err(ConfigError::option(
                "client_ca",
                "clients show certificates over TLS: give tls_cert and tls_key",
            ));
        }
        if self.sigv4.is_none() {
            const CLUSTER_DECIDES: &str =
                "is for upstream_auth = \"sigv4\": without it the cluster decides by what callers show";
            return match (&self.callers, self.trust_network) {
                (Some(_), _) => Err(ConfigError::option("callers", CLUSTER_DECIDES)),
                (None, true) => Err(ConfigError::option("trust_network", CLUSTER_DECIDES)),
                (None, false) => Ok(()),
            };
        }
        if self.service_url.credentials.is_some() {
            return Err(ConfigError::option(
                "service_url",
                "has a user, and all requests are signed with the AWS credentials: leave it out",
            ));
        }
        let is_plain = |node: &hyper::Uri| {
            let host = node.host().unwrap_or_default().trim_matches(['[', ']']);
            let is_local = host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback());
            node.scheme_str() != Some("https") && !is_local
        };
        let (upstream, own) = (self.upstream.iter(), self.service_url.nodes.iter());
        let nodes = upstream.map(|node| ("upstream", node)).chain(own.map(|node| ("service_url", node)));
        if let Some((option, node)) = nodes.into_iter().find(|(_, node)| is_plain(node)) {
            return Err(ConfigError::option(
                option,
                format!("{node}: signatures and documents could be read on the way: begin the URL with https://"),
            ));
        }
        let open_admin = self.admin_listen.filter(|address| !address.ip().is_loopback());
        if let Some(address) = open_admin.filter(|_| self.callers.is_none() && !self.trust_network) {
            return Err(ConfigError::option(
                "admin_listen",
                format!(
                    "anyone who reaches {address} would read statistics and metrics, which the cluster shows spinney: \
                     listen on 127.0.0.1, say who may with callers, or that all may with trust_network"
                ),
            ));
        }
        let shows_something = self.callers.is_some() || self.client_ca.is_some();
        if !self.listen.ip().is_loopback() && !shows_something && !self.trust_network {
            return Err(ConfigError::option(
                "listen",
                format!(
                    "anyone who reaches {} would act on the cluster as spinney: listen on 127.0.0.1, say who may with \
                     callers or client_ca, or that all may with trust_network",
                    self.listen
                ),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawServeOptions;

    const BCRYPT: &str = "$2y$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234";

    #[test]
    fn lines_of_callers() {
        let token = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let callers = Callers::parse(&format!("# writers\n\nann:{BCRYPT}\r\n crawler:sha256:{token}\n")).unwrap();
        assert_eq!(callers.passwords["ann"], BCRYPT);
        assert_eq!(callers.tokens.values().collect::<Vec<_>>(), ["crawler"]);
        assert_eq!(callers.tokens.keys().next().unwrap()[..3], [0xba, 0x78, 0x16]);
        let said = |text: &str| Callers::parse(text).unwrap_err().to_string();
        assert_eq!(said(""), "line 0: the file names nobody");
        assert_eq!(said("# nobody\n"), "line 1: the file names nobody");
        for line in [
            "ann",
            ":x",
            "ann:Pa55word",
            &format!("ann:{}", &BCRYPT[..59]),
            &format!("ann:{BCRYPT}a"),
            &format!("ann:{}", BCRYPT.replace("$10$", "$03$")),
            &format!("ann:{}", BCRYPT.replace("$10$", "$13$")),
            "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
        ] {
            let said = said(&format!("#\n{line}"));
            assert!(said.starts_with("line 2: use name:"), "{said}");
            assert!(!said.contains("Pa55"), "{said}");
        }
        for cost in ["$04$", "$12$"] {
            assert!(Callers::parse(&format!("ann:{}", BCRYPT.replace("$10$", cost))).is_ok());
        }
        for wrong in [&token[1..], &token.to_uppercase(), &format!("{token}0")] {
            assert!(said(&format!("a:sha256:{wrong}")).contains("64 digits"), "{wrong}");
        }
        assert!(said(&format!("ann:{BCRYPT}\nann:sha256:{token}")).contains("earlier line"));
        assert!(said(&format!("a:sha256:{token}\nb:sha256:{token}")).contains("earlier line"));
    }

    #[test]
    fn who_may_act_as_spinney_is_said() {
        let of = |options: &str| {
            let file = format!("{options}\n[[route]]\nindex = ['a']");
            let raw: RawServeOptions = toml::from_str(&file).unwrap();
            raw.validate().map(|_| ()).map_err(|error| error.to_string())
        };
        for option in ["callers = 'file'", "trust_network = true"] {
            assert!(of(option).unwrap_err().contains("the cluster decides"), "{option}");
        }
        assert!(of("client_ca = 'ca.pem'").unwrap_err().starts_with("client_ca: "));
        let tls = "client_ca = 'ca.pem'\ntls_cert = 'c'\ntls_key = 'k'\nlisten = '0.0.0.0:1'";
        assert_eq!(of(tls), Ok(()));
        if !cfg!(feature = "aws") {
            return;
        }
        let signed = |options: &str| of(&format!("upstream_auth = 'sigv4'\n{options}"));
        for local in ["", "listen = '127.0.0.2:1'", "listen = '[::1]:1'"] {
            assert_eq!(signed(local), Ok(()), "{local}");
        }
        for open in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[::ffff:127.0.0.1]:1"] {
            let open = format!("listen = '{open}'");
            assert!(signed(&open).unwrap_err().starts_with("listen: anyone who reaches"), "{open}");
            for shown in ["callers = 'file'", "trust_network = true", "client_ca = 'a'\ntls_cert = 'c'\ntls_key = 'k'"]
            {
                assert_eq!(signed(&format!("{open}\n{shown}")), Ok(()), "{open} {shown}");
            }
        }
        let admin = "listen = '0.0.0.0:1'\nadmin_listen = '0.0.0.0:2'";
        let shown = signed(&format!("{admin}\nclient_ca = 'a'\ntls_cert = 'c'\ntls_key = 'k'"));
        assert!(shown.unwrap_err().starts_with("admin_listen: anyone who reaches"));
        assert_eq!(signed(&format!("{admin}\ncallers = 'file'")), Ok(()));
        for plain in ["http://es", "http://10.0.0.1:9200"] {
            assert!(signed(&format!("upstream = ['{plain}']")).unwrap_err().contains("https://"), "{plain}");
        }
        for safe in ["https://es", "http://[::1]:9200", "http://localhost:1"] {
            assert_eq!(signed(&format!("upstream = ['{safe}']")), Ok(()), "{safe}");
        }
        let two = signed("upstream = ['https://es']\nservice_url = 'https://me:secret@es'");
        assert!(two.unwrap_err().starts_with("service_url: has a user"));
    }
}
