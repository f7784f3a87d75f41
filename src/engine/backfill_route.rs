//! The routes as backfill and sweep see them: their fields and clocks.

use serde::{Deserialize, Serialize};

use super::field_sample::RouteField;
use super::recover::add_new;
use super::routes::Routes;
use crate::config::{Clock, Route};

/// The routes of a spinney, here and in the answer of `/_spinney/_routes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteTable {
    /// The prefix of the stamp's field names.
    pub prefix: String,
    /// The first one that fits an index counts.
    pub routes: Vec<BackfillRoute>,
}

impl RouteTable {
    /// What adopters need to know of routes.
    pub(crate) fn of<'r>(prefix: &str, routes: impl IntoIterator<Item = &'r Route>) -> RouteTable {
        RouteTable { prefix: prefix.to_owned(), routes: routes.into_iter().map(BackfillRoute::of).collect() }
    }
}

/// A route as adopters see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackfillRoute {
    /// The patterns of its indices.
    pub index: Vec<String>,
    /// The name of its forest.
    pub forest: String,
    /// The configured method.
    pub method: String,
    /// All that it reads of a document, dotted when nested, each once.
    pub fields: Vec<String>,
    /// Every field that it names, with its use; those that readers see, too.
    #[serde(default)]
    pub named: Vec<RouteField>,
    /// `arrival`, `none`, or `field:NAME`.
    pub clock: String,
    /// The date field that gives documents their order, if the route has one.
    pub order: Option<String>,
}

impl BackfillRoute {
    fn of(route: &Route) -> BackfillRoute {
        let clock = match &route.clock {
            Clock::Arrival => "arrival".to_owned(),
            Clock::None => "none".to_owned(),
            Clock::Field(name) => format!("field:{name}"),
        };
        let order = match &route.clock {
            Clock::Field(name) => Some(name.clone()),
            Clock::Arrival | Clock::None => route.time_field.clone(),
        };
        let mut fields = Vec::new();
        add_new(&mut fields, route.content_fields().chain(clock.strip_prefix("field:")));
        BackfillRoute {
            index: route.patterns().map(str::to_owned).collect(),
            forest: route.forest.clone(),
            method: route.method.to_string(),
            fields,
            named: RouteField::all_of(route),
            clock,
            order,
        }
    }
}

impl Routes {
    /// The routes in their order.
    pub fn table(&self) -> RouteTable {
        RouteTable::of(self.prefix(), self.bound.iter().map(|bound| &bound.route))
    }

    /// All fields that the route of an index reads; empty without a route.
    pub fn fields_of(&self, index: &str) -> Vec<String> {
        let bound = self.bound_of(index);
        bound.map_or_else(Vec::new, |bound| BackfillRoute::of(&bound.route).fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RawRoute;

    #[test]
    fn every_field_that_is_read_once() {
        let route = |options: &str| {
            let raw: RawRoute = toml::from_str(options).unwrap();
            BackfillRoute::of(&raw.validate("route").unwrap())
        };
        let plain = route("index = ['a', 'b-*']");
        assert_eq!(plain.index, ["a", "b-*"]);
        assert_eq!(plain.fields, ["content"]);
        assert_eq!((plain.clock.as_str(), plain.order), ("arrival", None));
        let all = route(
            "index = ['a']\ntext_field = ['lead', 'body.text', 'title']\ntitle_field = 'title'\nurl_field = 'url'\n\
             method = 'staged'\nclock = 'field:at'\ntime_field = 'shown'\nforest = 'f'",
        );
        assert_eq!(all.fields, ["lead", "body.text", "title", "url", "at"]);
        assert_eq!((all.clock.as_str(), all.order.as_deref(), all.forest.as_str()), ("field:at", Some("at"), "f"));
        let own = route("index = ['a']\nmethod = 'field:phash'\ntime_field = 'shown'");
        assert_eq!(own.fields, ["content", "phash"]);
        let named: Vec<_> = own.named.iter().map(|field| (field.name.as_str(), field.used_for.option())).collect();
        assert_eq!(named, [("phash", "--method field:NAME"), ("shown", "--time-field")]);
        assert_eq!(own.order.as_deref(), Some("shown"));
    }
}
