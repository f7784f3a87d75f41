//! Field usage of each route: a field that no document has is mostly a misspelt name.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::bulk::{ParsedDocument, Selected};
use crate::config::Route;

/// The fields of a route that were found in some document, by their place in [`fields`]: one bit each.
#[derive(Debug, Default)]
pub(super) struct FoundFields(AtomicU64);

/// The fields that the route's method compares: those of the text, or the one with the document's own fingerprint.
fn fields(route: &Route) -> Vec<&str> {
    match route.method.own_field() {
        Some(own) => vec![own],
        None => route.text_fields.iter().map(String::as_str).collect(),
    }
}

impl FoundFields {
    /// Takes down which fields this document has.
    pub(super) fn note(&self, route: &Route, document: &ParsedDocument<'_>) {
        let found = match route.method.own_field() {
            Some(_) => u64::from(document.value(Selected::Own).is_some()),
            None => (0u8..)
                .zip(&route.text_fields)
                .filter(|(place, _)| document.has_text_field(*place))
                .fold(0, |found, (place, _)| found | 1u64 << place),
        };
        // Most documents have the fields of the first one, so the shared word is rarely written.
        if found & !self.0.load(Relaxed) != 0 {
            self.0.fetch_or(found, Relaxed);
        }
    }

    /// The fields of a route that no document has had.
    pub(super) fn never_found<'r>(&self, route: &'r Route) -> impl Iterator<Item = &'r str> + use<'r> {
        let found = self.0.load(Relaxed);
        (0..).zip(fields(route)).filter(move |(place, _)| found >> place & 1 == 0).map(|(_, field)| field)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Clock, DEFAULT_PREFIX, RawRoute};
    use crate::engine::{Engine, RequestContext};
    use crate::hash::HashKey;
    use crate::time::Millis;
    use std::sync::Arc;

    #[test]
    fn a_field_is_found_when_any_document_has_it() {
        let never_found = |options: &str, documents: &str| -> Vec<String> {
            let route: RawRoute = toml::from_str(options).unwrap();
            let route = route.any_index().or_clock(Clock::None).validate("test").unwrap();
            let engine = Arc::new(Engine::new(&[route], DEFAULT_PREFIX, 1, HashKey::FIXED).unwrap());
            let context = RequestContext { now: Millis(0), latest: Millis(i64::MAX), unique: 0, caller: None };
            let stamped = engine.stamp_lines(documents.to_owned().into(), context);
            futures_executor::block_on(stamped).unwrap();
            let fields = engine.routes().fields_never_found().into_iter();
            fields.map(str::to_owned).collect()
        };
        let three = "text_field = ['lead', 'body.text', 'foot']\nmethod = 'full'";
        for (options, documents, expected) in [
            ("", "", &["content"][..]),
            ("", "{\"text\":\"x\"}\n[]\n", &["content"]),
            ("", "{\"text\":\"x\"}\n{\"content\":null}\n", &[]),
            (three, "{\"lead\":\"x\"}\n{\"foot\":\"y\"}\n", &["body.text"]),
            (three, "{\"lead\":\"x\",\"body\":{\"text\":\"y\"}}\n", &["foot"]),
            ("method = 'field:phash'", "{\"content\":\"x\"}\n", &["phash"]),
            ("method = 'field:phash'", "{\"phash\":7}\n", &[]),
        ] {
            assert_eq!(never_found(options, documents), expected, "{documents}");
        }
    }
}
