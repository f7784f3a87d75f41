//! Reports changes of groups to counting: settled writes, and relayed requests that change groups.

use std::collections::BTreeMap;

use hyper::{Method, StatusCode};

use crate::bulk::Changes;
use crate::clock;
use crate::counts::IndexWrites;
use crate::engine::{HeldDocuments, Resolution, resolve_date};
use crate::http::ProxyError;
use crate::http::query::decode_segment;
use crate::state::AppState;

/// Changes of one index.
#[derive(Default)]
struct IndexPart {
    roots: Vec<u64>,
    whole: bool,
}

/// Reports the documents of a write. `index`: the index in the path, for items whose answer does not name one.
pub(super) fn note(state: &AppState, index: Option<&str>, placed: &HeldDocuments, resolution: &Resolution) {
    if !state.counts.is_on() || changed_nothing(resolution) {
        return;
    }
    let unknown = Changes::unknown();
    let changes = match resolution {
        Resolution::Items(outcome) if placed.is_answered_by(outcome) => &*outcome.changes,
        Resolution::Document(_, outcome) if outcome.well_formed => &*outcome.changes,
        _ => &unknown,
    };
    let name_of = |item: usize| changes.index_of(item).or(index);
    let is_kept = |name: &str| state.engine.routes().has(name) || state.counts.knows(name);
    let mut parts: BTreeMap<&str, IndexPart> = BTreeMap::new();
    let mut is_lost = false;
    for (item, root) in placed.joined(resolution) {
        match name_of(item) {
            Some(name) => parts.entry(name).or_default().roots.push(root),
            None => is_lost = true,
        }
    }
    for item in placed.moved(&changes.replaced) {
        match name_of(item) {
            Some(name) if is_kept(name) => drop(parts.entry(name).or_default()),
            Some(_) => {}
            None => is_lost = true,
        }
    }
    if changes.is_vague && (placed.has_stamped() || index.is_some_and(is_kept)) {
        match index {
            Some(name) => parts.entry(name).or_default().whole = true,
            None => is_lost = true,
        }
    }
    if is_lost {
        state.counts.note_everything();
    }
    state.counts.note(parts.iter().map(|(&index, part)| IndexWrites { index, roots: &part.roots, whole: part.whole }));
}

fn changed_nothing(resolution: &Resolution) -> bool {
    match resolution {
        Resolution::NotSent | Resolution::Unchanged => true,
        Resolution::Status(status) | Resolution::Document(status, _) => is_refusal(*status),
        Resolution::Unknown | Resolution::Items(_) => false,
    }
}

/// Whether this status means that nothing was written.
fn is_refusal(status: u16) -> bool {
    (400..500).contains(&status) && status != 408
}

/// A relayed request that changes groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PassingChange {
    /// One document of this index is deleted.
    Delete(String),
    /// Documents of these indices are changed by a query. There may be patterns among them.
    ByQuery(Vec<String>),
    /// Documents of any index.
    Anywhere,
    /// The indices that names mean.
    Names,
}

/// The longest name or pattern that is parsed: the servers' limit of a path.
const LONGEST: usize = 4096;

/// Whether the servers accept this as an index, alias or pattern. Names that begin otherwise are refused.
fn may_be_index(name: &str) -> bool {
    let is_refused = |c: char| c.is_control() || matches!(c, '/' | '\\' | '"' | '|' | ' ' | '#' | ':');
    !name.is_empty()
        && name.len() <= LONGEST
        && !name.starts_with(['_', '-', '+'])
        && (name.starts_with('<') || !name.contains(is_refused))
}

impl PassingChange {
    /// Reads method and raw path of a request that is relayed.
    pub(super) fn of(method: &Method, path: &str) -> Option<PassingChange> {
        let path = path.trim_start_matches('/').trim_end_matches('/');
        let segments: Vec<&str> = path.splitn(5, '/').collect();
        let name = |segment: &str| decode_segment(segment).into_owned();
        match &*segments {
            [_, "_alias" | "_aliases", _] if method != Method::GET && method != Method::HEAD => {
                Some(PassingChange::Names)
            }
            [index, kind, _] if method == Method::DELETE => {
                // Before version 8 there are types, of any name.
                let (index, is_type) = (name(index), !kind.is_empty() && !kind.starts_with('_'));
                let is_document = may_be_index(&index) && (*kind == "_doc" || is_type);
                is_document.then_some(PassingChange::Delete(index))
            }
            ["_reindex"] if method == Method::POST => Some(PassingChange::Anywhere),
            ["_aliases"] | [_, "_rollover", ..] | ["_snapshot", _, _, "_restore"] if method == Method::POST => {
                Some(PassingChange::Names)
            }
            [index] if method == Method::DELETE && may_be_index(&name(index)) => Some(PassingChange::Names),
            [index, .., "_delete_by_query" | "_update_by_query"] if method == Method::POST => {
                let names = name(index);
                let all = |name: &str| name == "_all" || name.chars().all(|c| c == '*');
                if names.split(',').any(|name| !name.is_empty() && all(name)) {
                    return Some(PassingChange::Anywhere);
                }
                // Names that a list excludes again are counted for nothing, which is harmless.
                let names = names.split(',').filter(|name| may_be_index(name));
                let names: Vec<String> = names.map(str::to_owned).collect();
                (!names.is_empty()).then_some(PassingChange::ByQuery(names))
            }
            _ => None,
        }
    }

    /// Reports the change once its response has begun or failed.
    pub(super) fn note(&self, state: &AppState, answer: Result<StatusCode, &ProxyError>) {
        let is_done = match answer {
            Ok(status) => !is_refusal(status.as_u16()),
            Err(error) => may_be_done(error),
        };
        if !is_done {
            return;
        }
        match self {
            PassingChange::Anywhere => state.counts.note_everything(),
            PassingChange::Names => state.counts.note_names(),
            PassingChange::Delete(index) => {
                let is_kept = state.engine.routes().has(index) || state.counts.knows(index);
                let deleted = IndexWrites { index, ..IndexWrites::default() };
                state.counts.note(is_kept.then_some(deleted).into_iter());
            }
            // Counting resolves patterns later, and only those that may match a counted index.
            PassingChange::ByQuery(names) => {
                for name in names {
                    let resolved = name.starts_with('<').then(|| resolve_date(name, clock::now()));
                    let name = match &resolved {
                        Some(Some(resolved)) => resolved,
                        Some(None) => continue,
                        None => name,
                    };
                    let is_kept = match name.contains('*') {
                        true => state.engine.routes().may_have(name) || state.counts.knows_any(name),
                        false => state.engine.routes().has(name) || state.counts.knows(name),
                    };
                    let whole = IndexWrites { index: name, whole: true, ..IndexWrites::default() };
                    state.counts.note(is_kept.then_some(whole).into_iter());
                }
            }
        }
    }
}

/// Whether a request without a response may have been executed: the cluster received all of it.
fn may_be_done(error: &ProxyError) -> bool {
    matches!(error, ProxyError::Broken(_) | ProxyError::UpstreamTimeout(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_came_whole_has_changed_nothing() {
        for (error, may_be_done_) in [
            (ProxyError::Unreachable("x".into()), false),
            (ProxyError::BadBody("x".into()), false),
            (ProxyError::BodyTimeout(1), false),
            (ProxyError::Stopping, false),
            (ProxyError::Broken("x".into()), true),
            (ProxyError::UpstreamTimeout(1), true),
        ] {
            assert_eq!(may_be_done(&error), may_be_done_, "{error}");
        }
    }

    #[test]
    fn names_as_long_as_paths_may_be() {
        assert!(may_be_index(&"a".repeat(LONGEST)));
        assert!(!may_be_index(&"a".repeat(LONGEST + 1)));
    }

    #[test]
    fn what_changes_groups_in_passing() {
        let passing = |method: Method, path: &str| PassingChange::of(&method, path);
        let delete = |index: &str| Some(PassingChange::Delete(index.into()));
        let by_query = |names: &[&str]| {
            let names = names.iter().map(|&name| name.to_owned());
            Some(PassingChange::ByQuery(names.collect()))
        };
        for (method, path, expected) in [
            (Method::DELETE, "/news-1/_doc/a%2Fb", delete("news-1")),
            (Method::DELETE, "/news-1/article/7/", delete("news-1")),
            (Method::DELETE, "/news-1", Some(PassingChange::Names)),
            (Method::DELETE, "/news-*,a", Some(PassingChange::Names)),
            (Method::DELETE, "/news-1/_alias/a", Some(PassingChange::Names)),
            (Method::PUT, "/news-1/_alias/a", Some(PassingChange::Names)),
            (Method::POST, "/news-1/_aliases/a/", Some(PassingChange::Names)),
            (Method::GET, "/news-1/_alias/a", None),
            (Method::POST, "/_aliases", Some(PassingChange::Names)),
            (Method::GET, "/_aliases", None),
            (Method::POST, "/news/_rollover", Some(PassingChange::Names)),
            (Method::POST, "/news/_rollover/news-2", Some(PassingChange::Names)),
            (Method::POST, "/_snapshot/a/b/_restore", Some(PassingChange::Names)),
            (Method::DELETE, "/_snapshot/a/b", None),
            (Method::DELETE, "/_pit", None),
            (Method::DELETE, "/_template/x/y", None),
            (Method::GET, "/news-1/_doc/7", None),
            (Method::POST, "/news-*,b/_delete_by_query", by_query(&["news-*", "b"])),
            (Method::POST, "/news-1/article/_update_by_query", by_query(&["news-1"])),
            (Method::POST, "/_all/_delete_by_query", Some(PassingChange::Anywhere)),
            (Method::POST, "/a,%2A/_delete_by_query", Some(PassingChange::Anywhere)),
            // No server has an index of such a name, however it is written.
            (Method::POST, "/%5Fx/_delete_by_query", None),
            (Method::POST, "/_x/_delete_by_query", None),
            (Method::POST, "//_delete_by_query", None),
            (Method::POST, "/a%2Fb/_update_by_query", None),
            (Method::POST, "/far%3Anews/_delete_by_query", None),
            (Method::DELETE, "/%5Fx/_doc/1", None),
            (Method::POST, "/%5Fx,a%2C-b,%3Ca-%7Bnow%2Fd%7D%3E/_delete_by_query", by_query(&["a", "<a-{now/d}>"])),
            (Method::POST, "/_reindex", Some(PassingChange::Anywhere)),
            (Method::POST, "/_reindex/7/_rethrottle", None),
            (Method::POST, "/_delete_by_query/7/_rethrottle", None),
            (Method::POST, "/news-1/_search", None),
        ] {
            assert_eq!(passing(method, path), expected, "{path}");
        }
    }
}
