//! What of a configuration may change while requests are served.

use super::{ServeLimits, ServeOptions};

impl ServeOptions {
    /// The options that differ in `wanted` and cannot change while requests are served.
    pub(crate) fn only_at_a_start(&self, wanted: &ServeOptions) -> Vec<&'static str> {
        let mut different = Vec::new();
        macro_rules! compare {
            ($($field:ident $option:literal,)+) => {{
                // Names every field, so that none is forgotten.
                let ServeOptions { $($field: _,)+ limits: _, log: _ } = self;
                $(if self.$field != wanted.$field {
                    different.push($option);
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
            routes "routes",
        }
        different
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
        different
    }
}
