//! What of a configuration may change while requests are served.

use super::{Route, ServeLimits, ServeOptions};

impl ServeOptions {
    /// The options that differ in `wanted` and cannot change while requests are served.
    pub(crate) fn only_at_a_start(&self, wanted: &ServeOptions) -> Vec<String> {
        let mut different = Vec::new();
        macro_rules! compare {
            ($($field:ident $option:literal,)+) => {{
                // Names every field, so that none is forgotten.
                let ServeOptions { $($field: _,)+ limits: _, log: _, routes: _ } = self;
                $(if self.$field != wanted.$field {
                    different.push($option.to_owned());
                })+
            }};
        }
        compare! {
            listen "listen",
            admin_listen "admin_listen",
            upstream "upstream",
            upstream_ca "upstream_ca",
            upstream_identity "upstream_cert and upstream_key",
            sigv4 "upstream_auth, aws_region and aws_service",
            callers "callers",
            trust_network "trust_network",
            client_ca "client_ca",
            overrides "overrides",
            tls "tls_cert and tls_key",
            forest_memory "forest_memory",
            storage "data_dir and what says how it is used",
            forest_store "forest_store and what says how it is used",
            service_url "service_url",
            recover_at_start "recover_at_start",
            threads "threads",
            prefix "prefix",
            stamp "stamp",
            counts "counts",
            sweep "sweep",
            unstamped "unstamped",
            restricted_readers "restricted_readers",
            docid_endpoint "docid_endpoint",
            publish_address "publish_address",
            access_log "access_log",
            log_format "log_format",
        }
        different.extend(self.added_routes(wanted).err());
        different
    }

    /// The routes that `wanted` has behind those of now.
    ///
    /// # Errors
    /// What only a restart changes of the routes.
    pub(crate) fn added_routes<'w>(&self, wanted: &'w ServeOptions) -> Result<&'w [Route], String> {
        let Some(added) = wanted.routes.strip_prefix(self.routes.as_slice()) else {
            let is_kept = |(at, route): (usize, &Route)| wanted.routes.get(at) == Some(route);
            let first = self.routes.iter().enumerate().position(|one| !is_kept(one)).unwrap_or_default();
            let patterns = self.routes.get(first).map(|route| route.patterns().collect::<Vec<_>>().join(","));
            return Err(format!(
                "the routes that are there (route {}, {}, is not the same; others may be added behind them)",
                first + 1,
                patterns.unwrap_or_default()
            ));
        };
        let is_of_another = |new: &Route| self.routes.iter().any(|route| route.forest == new.forest);
        // Nothing runs in the background without a route.
        match () {
            () if added.is_empty() => Ok(added),
            () if self.routes.is_empty() => Err("the first route".into()),
            // That is done while nothing has the data directory.
            () if wanted.recover_at_start => Err("the routes with recover_at_start".into()),
            () if added.iter().any(is_of_another) => Err("which routes are of a forest that is there".into()),
            () => Ok(added),
        }
    }

    /// The options that differ in `wanted` and can change while requests are served.
    pub(crate) fn at_run_time(&self, wanted: &ServeOptions) -> Vec<&'static str> {
        let mut different = Vec::new();
        macro_rules! compare {
            ($($field:ident $option:literal,)+) => {{
                let ServeLimits { $($field: _,)+ } = self.limits;
                $(if self.limits.$field != wanted.limits.$field {
                    different.push($option);
                })+
            }};
        }
        compare! {
            budget "budget",
            client_share "client_share",
            body_timeout "body_timeout",
            upstream_timeout "upstream_timeout",
            connections "max_connections",
            idle_timeout "idle_timeout",
            grace "grace",
        }
        if self.log != wanted.log {
            different.push("log");
        }
        if self.routes.len() != wanted.routes.len() {
            different.push("routes");
        }
        different
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawServeOptions;

    #[test]
    fn routes_are_added_behind_those_that_are_there() {
        let options = |text: &str| toml::from_str::<RawServeOptions>(text).unwrap().validate().unwrap();
        let (a, b) = ("[[route]]\nindex = ['a']\n", "[[route]]\nindex = ['b']\n");
        let recovers = "recover_at_start = true\ndata_dir = 'data'\n";
        let of_its_forest = "[[route]]\nindex = ['b']\nforest = 'a'\n";
        let there = Err("the routes that are there (route 1, a, is not the same; others may be added behind them)");
        let second = Err("the routes that are there (route 2, b, is not the same; others may be added behind them)");
        for (before, after, expected) in [
            ("", "", Ok(0)),
            (a, a, Ok(0)),
            (a, &[a, b].concat(), Ok(1)),
            (a, &[a, b, "[[route]]\nindex = ['c']\n"].concat(), Ok(2)),
            (a, &[b, a].concat(), there),
            (a, "", there),
            (a, b, there),
            (a, &[a, "window = '1d'"].concat(), there),
            (&[a, b].concat(), a, second),
            (&[a, b].concat(), &[a, b, "window = '1d'"].concat(), second),
            (a, &[a, of_its_forest].concat(), Err("which routes are of a forest that is there")),
            ("", a, Err("the first route")),
            (&[recovers, a].concat(), &[recovers, a].concat(), Ok(0)),
            (&[recovers, a].concat(), &[recovers, a, b].concat(), Err("the routes with recover_at_start")),
        ] {
            let (before, after) = (options(before), options(after));
            let added = before.added_routes(&after).map(<[Route]>::len);
            assert_eq!(added, expected.map_err(str::to_owned));
            assert_eq!(before.only_at_a_start(&after).is_empty(), added.is_ok());
        }
    }
}
