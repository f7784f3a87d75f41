//! The URL of a process for probes from its own machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{ConfigError, DEFAULT_LISTEN, RawServeOptions};

impl RawServeOptions {
    /// The URL of the admin listener if there is one, which answers when all connections are in use too, or of the
    /// main listener.
    ///
    /// # Errors
    /// When the options do not tell it: a free port is taken, or a certificate names a host.
    pub fn probe_url(&self) -> Result<String, ConfigError> {
        let (option, address) = match (self.admin_listen, self.listen) {
            (Some(address), _) => ("admin_listen", address.0),
            (None, Some(address)) => ("listen", address.0),
            (None, None) => ("listen", DEFAULT_LISTEN),
        };
        if address.port() == 0 {
            return Err(ConfigError::option(option, "port 0 takes a free port: name it with --url"));
        }
        if self.tls_cert.is_some() {
            return Err(ConfigError::option(
                "tls_cert",
                "name the host of the certificate with --url https://HOST:PORT, and its authority with --upstream-ca",
            ));
        }
        let host = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        Ok(format!("http://{}", std::net::SocketAddr::new(host, address.port())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_that_of_the_listener_for_probes() {
        let url = |file: &str| toml::from_str::<RawServeOptions>(file).unwrap().probe_url().map_err(|e| e.to_string());
        for (file, wanted) in [
            ("", "http://127.0.0.1:9201"),
            ("listen = '0.0.0.0:9202'", "http://127.0.0.1:9202"),
            ("listen = '[::]:9202'", "http://[::1]:9202"),
            ("listen = '10.0.0.5:9202'", "http://10.0.0.5:9202"),
            ("listen = '0.0.0.0:9202'\nadmin_listen = '127.0.0.1:9301'", "http://127.0.0.1:9301"),
        ] {
            assert_eq!(url(file).unwrap(), wanted, "{file}");
        }
        for (file, option) in [
            ("listen = '127.0.0.1:0'", "listen: "),
            ("admin_listen = '127.0.0.1:0'", "admin_listen: "),
            ("tls_cert = 'a.pem'\ntls_key = 'a.key'", "tls_cert: "),
        ] {
            let error = url(file).unwrap_err();
            assert!(error.starts_with(option) && error.contains("--url"), "{error}");
        }
    }
}
