//! The configuration in effect, as a file that `--config` takes.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use toml::{Table, Value};

use super::route::{Clock, LateMergesValue};
use super::storage::{DurabilityValue, Storage};
use super::values::{ByteSize, TimeSpan};
use super::{Identity, RepresentativeBy, Route, ServeOptions, UpstreamAuth};
use crate::method::Method;

impl ServeOptions {
    /// All options in effect as TOML, also those that were not given; without passwords.
    ///
    /// # Errors
    /// A path is no text.
    pub fn effective(&self) -> anyhow::Result<String> {
        let span = |span: Duration| TimeSpan::from(span).to_string();
        let mut options = Options::default();
        options.text("listen", self.listen);
        options.some("admin_listen", self.admin_listen);
        options.list("upstream", self.upstream.iter().map(without_slash));
        options.path("upstream_ca", self.upstream_ca.as_deref())?;
        options.identity(["upstream_cert", "upstream_key"], self.upstream_identity.as_ref())?;
        if let Some(sigv4) = &self.sigv4 {
            options.choice("upstream_auth", &UpstreamAuth::Sigv4);
            options.some("aws_region", sigv4.region.as_deref());
            options.choice("aws_service", &sigv4.service);
            options.set("trust_network", self.trust_network);
        }
        options.path("callers", self.callers.as_deref())?;
        options.path("client_ca", self.client_ca.as_deref())?;
        options.text("overrides", if self.overrides { "on" } else { "off" });
        options.identity(["tls_cert", "tls_key"], self.tls.as_ref())?;
        options.text("budget", ByteSize(self.limits.budget));
        options.text("forest_memory", ByteSize(self.forest_memory));
        options.storage(self.storage.as_ref())?;
        if let Some(store) = &self.forest_store {
            options.text("forest_store", &store.address);
            options.path("forest_store_ca", store.ca.as_deref())?;
            options.choice("on_redis_failure", &store.on_loss);
        }
        let service = &self.service_url;
        if service.credentials.is_some() || service.nodes != self.upstream || !service.path.is_empty() {
            let node = service.nodes.first().map(without_slash).unwrap_or_default();
            options.text("service_url", node + &service.path);
        }
        options.set("recover_at_start", self.recover_at_start);
        options.text("client_share", format!("{}%", self.limits.client_share));
        options.text("body_timeout", TimeSpan::from(self.limits.body_timeout));
        options.text("upstream_timeout", self.limits.upstream_timeout.map_or("none".into(), span));
        options.set("max_connections", i64::try_from(self.limits.connections)?);
        options.text("idle_timeout", TimeSpan::from(self.limits.idle_timeout));
        options.text("grace", TimeSpan::from(self.limits.grace));
        if self.threads > 0 {
            options.set("threads", i64::try_from(self.threads)?);
        }
        options.text("prefix", &self.prefix);
        options.choice("stamp", &self.stamp);
        options.text("counts", if self.counts { "on" } else { "off" });
        options.text("sweep", self.sweep.map_or("off".into(), span));
        options.choice("unstamped", &self.unstamped);
        options.choice("restricted_readers", &self.restricted_readers);
        options.some("docid_endpoint", self.docid_endpoint.as_deref());
        options.some("publish_address", self.publish_address.as_deref());
        options.path("access_log", self.access_log.as_deref())?;
        options.choice("log_format", &self.log_format);
        options.text("log", &self.log);
        let routes = self.routes.iter().map(|route| Ok(Value::Table(of_route(route)?)));
        options.set("route", routes.collect::<anyhow::Result<Vec<Value>>>()?);
        Ok(toml::to_string(&options.0)?)
    }
}

fn of_route(route: &Route) -> anyhow::Result<Table> {
    let mut options = Options::default();
    options.list("index", route.patterns());
    options.list("text_field", &route.text_fields);
    options.some("title_field", route.title_field.as_deref());
    options.some("url_field", route.url_field.as_deref());
    options.text("method", &route.method);
    options.set("k", i64::from(route.k.0));
    if route.method == Method::Verified {
        options.text("similarity", route.similarity);
    }
    if route.clock != Clock::None {
        options.text("window", route.window.map_or("none".into(), |window| TimeSpan(window).to_string()));
    }
    options.text("clock", &route.clock);
    options.text("forest", &route.forest);
    options.path("boilerplate", route.boilerplate_file.as_deref())?;
    options.text("max_tree", route.max_tree.map_or("none".to_owned(), |most| most.to_string()));
    options.text("late_merges", LateMergesValue(route.late_merges));
    options.text("founder_tokens_memory", ByteSize(route.founder_tokens_memory));
    options.some("time_field", route.time_field.as_deref());
    options.some("medium_field", route.medium_field.as_deref());
    options.some("language_field", route.language_field.as_deref());
    options.some("representative", route.representative.as_ref().map(RepresentativeBy::to_string));
    Ok(options.0)
}

/// Options in the making.
#[derive(Default)]
struct Options(Table);

impl Options {
    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn text(&mut self, name: &str, value: impl Display) {
        self.set(name, value.to_string());
    }

    fn some(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    fn list(&mut self, name: &str, values: impl IntoIterator<Item = impl Display>) {
        self.set(name, values.into_iter().map(|value| Value::from(value.to_string())).collect::<Vec<Value>>());
    }

    /// A value among several that have names.
    fn choice(&mut self, name: &str, value: &impl ValueEnum) {
        self.some(name, value.to_possible_value().map(|value| value.get_name().to_owned()));
    }

    fn path(&mut self, name: &str, path: Option<&Path>) -> anyhow::Result<()> {
        if let Some(path) = path {
            let text = path.to_str();
            self.text(name, text.ok_or_else(|| anyhow::anyhow!("{name}: {} is no text", path.display()))?);
        }
        Ok(())
    }

    fn identity(&mut self, [cert, key]: [&str; 2], identity: Option<&Identity>) -> anyhow::Result<()> {
        self.path(cert, identity.map(|identity| identity.cert.as_path()))?;
        self.path(key, identity.map(|identity| identity.key.as_path()))
    }

    fn storage(&mut self, storage: Option<&Storage>) -> anyhow::Result<()> {
        let Some(storage) = storage else {
            return Ok(());
        };
        self.path("data_dir", Some(&storage.data_dir))?;
        self.text("durability", DurabilityValue(storage.durability));
        self.choice("on_store_failure", &storage.on_failure);
        self.choice("on_unreadable", &storage.on_unreadable);
        Ok(())
    }
}

fn without_slash(node: &hyper::Uri) -> String {
    node.to_string().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawServeOptions;

    fn options(text: &str) -> ServeOptions {
        toml::from_str::<RawServeOptions>(text).unwrap().validate().unwrap()
    }

    #[test]
    fn what_is_shown_is_read_back_as_the_same() {
        let folder = std::env::temp_dir().join(format!("spinney-effective-{}", std::process::id()));
        std::fs::write(&folder, "Read more.\n").unwrap();
        let boilerplate = format!("[[route]]\nindex = ['a']\nboilerplate = '{}'\nsimilarity = 0.7", folder.display());
        for text in [
            "",
            "[[route]]\nindex = ['news-*', 'b']\n[[route]]\nindex = ['c']\nmethod = 'short'\nclock = 'none'",
            "budget = '300000000B'\nforest_memory = '3KiB'\ngrace = '0s'\nsweep = '90s'\nupstream_timeout = 'none'\n\
             max_connections = 7\nthreads = 3\ncounts = 'off'\nlog = 'spinney=debug'\nlog_format = 'json'",
            "data_dir = 'x y'\ndurability = 'interval:1500ms'\non_unreadable = 'recover'\nrecover_at_start = true",
            "listen = '[::1]:0'\nadmin_listen = '0.0.0.0:1'\nupstream = ['http://a:1', 'https://b:2']\n\
             service_url = 'https://c:3/path'\nupstream_ca = 'ca.pem'\ntls_cert = 'c.pem'\ntls_key = 'k.pem'\n\
             publish_address = 'x.example:9201'\nprefix = 'dup_'\nstamp = 'full'\nunstamped = 'refuse'",
            "forest_store = 'redis://h:1'\non_redis_failure = 'local'\nrestricted_readers = 'exact'",
            "[[route]]\nindex = ['a']\ntext_field = ['x.y', 'z']\ntitle_field = 't'\nurl_field = 'u'\nk = 2\n\
             window = 'none'\nclock = 'field:at'\nforest = 'f'\nmax_tree = 9\nlate_merges = 'apply'\n\
             founder_tokens_memory = '0'\nmedium_field = 'm'\nlanguage_field = 'l'\n\
             representative = '{\"rank\": {\"field\": \"m\", \"order\": [\"a\\\"b\", \"c\"]}}'",
            "[[route]]\nindex = ['a']\nmethod = 'field:hash'\nrepresentative = 'first'\nwindow = '36h'",
            "[[route]]\nindex = ['a']\nmethod = 'sentences:3'\nrepresentative = '{\"field\": \"reads\"}'",
            &boilerplate,
        ] {
            let given = options(text);
            let shown = given.effective().unwrap();
            assert_eq!(given.only_at_a_start(&options(&shown)), [""; 0], "{text}\n\n{shown}");
            assert_eq!(given.routes.len(), options(&shown).routes.len(), "{text}\n\n{shown}");
            assert_eq!(options(&shown).log, given.log);
            assert_eq!(options(&shown).effective().unwrap(), shown);
        }
        std::fs::remove_file(folder).unwrap();
    }

    #[test]
    fn passwords_are_not_shown() {
        for text in [
            "service_url = 'https://user:s%65cret@c:3'",
            "forest_store = 'redis://user:secret@h:1'",
            "forest_store = 'redis://:secret@h:1'",
        ] {
            let shown = options(text).effective().unwrap();
            assert!(!shown.contains("secret") && !shown.contains("s%65cret"), "{shown}");
        }
    }
}
