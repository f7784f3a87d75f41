//! Authorisation to see the content of a forest.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use hyper::{HeaderMap, Method, Response};
use serde::Deserialize;
use serde_json::json;

use super::{Access, AccessError, IndexName};
use crate::cluster::IndicesBehind;
use crate::cluster::search::missing_shards;
use crate::http::ProxyError;

/// Most bytes of the cluster's response.
const ANSWER_BYTES: usize = 1 << 20;

/// Most indices of a name; each is checked by its own request.
const MOST_INDICES: usize = 256;

/// A caller who may search an index of a forest, and may so see the forest's content.
///
/// The requested name is one name, the cluster has searched all indices behind it in the caller's name, and all of
/// them belong to one forest.
#[derive(Debug)]
pub(crate) struct ForestReader {
    name: IndexName,
    /// For each index of the name, the name by which a route matches it.
    route_names: BTreeMap<String, String>,
    /// A name that has the route of the forest.
    route_name: String,
}

#[derive(Deserialize)]
struct ProfileAnswer {
    #[serde(default)]
    timed_out: bool,
    #[serde(rename = "_shards")]
    shards: Shards,
    #[serde(default)]
    profile: Profile,
}

#[derive(Deserialize)]
struct Shards {
    total: u64,
    successful: Option<u64>,
    #[serde(default)]
    failed: u64,
}

#[derive(Default, Deserialize)]
struct Profile {
    #[serde(default)]
    shards: Vec<Shard>,
}

#[derive(Deserialize)]
struct Shard {
    id: String,
}

impl ForestReader {
    /// Asks the cluster. `raw_index`: a segment of the caller's path.
    ///
    /// # Errors
    /// When it is not one name, the caller may not search it, the index does not exist, or the indices belong to
    /// several forests.
    pub(crate) async fn admit(
        access: Access<'_>,
        caller: &HeaderMap,
        raw_index: &str,
    ) -> Result<ForestReader, AccessError> {
        let (reader, _) = ForestReader::admit_behind(access, caller, raw_index).await?;
        Ok(reader)
    }

    /// As [`admit`](Self::admit), with the indices that the service user sees behind an alias or pattern.
    pub(super) async fn admit_behind(
        access: Access<'_>,
        caller: &HeaderMap,
        raw_index: &str,
    ) -> Result<(ForestReader, IndicesBehind), AccessError> {
        let name = IndexName::parse(raw_index)?;
        let indices = searched(access, caller, &name).await?;
        let is_index = indices.iter().eq([name.as_str()]);
        let behind = match is_index {
            true => IndicesBehind::default(),
            false => access.behind(&name).await,
        };
        let reader = ForestReader::of(access, name, indices, &behind)?;
        Ok((reader, behind))
    }

    fn of(
        access: Access<'_>,
        name: IndexName,
        indices: BTreeSet<String>,
        behind: &IndicesBehind,
    ) -> Result<ForestReader, AccessError> {
        if indices.len() > MOST_INDICES {
            let reason = format!("more than {MOST_INDICES} indices stand behind [{}]: name one of them", name.as_str());
            return Err(ProxyError::BadRequest(reason).into());
        }
        let asked_has_route = access.engine.routes().has(name.as_str());
        let mut route_names = BTreeMap::new();
        for index in indices {
            let route_name = match () {
                () if access.engine.routes().has(&index) => index.clone(),
                () if asked_has_route && access.belongs_as(behind, &name, &index) => name.as_str().to_owned(),
                () => return Err(no_route(&name, &index).into()),
            };
            route_names.insert(index, route_name);
        }
        let mut forests = route_names.values();
        let route_name = forests.next().cloned().ok_or(ProxyError::Internal)?;
        let forest = access.engine.routes().forest_of(&route_name);
        // Documents written under the name are placed by the route of the name, if it has one.
        let own = asked_has_route.then(|| name.as_str());
        let mut others = forests.map(String::as_str).chain(own);
        if others.any(|other| access.engine.routes().forest_of(other) != forest) {
            let reason = format!("what stands behind [{}] belongs to several forests: name one index", name.as_str());
            return Err(ProxyError::BadRequest(reason).into());
        }
        Ok(ForestReader { route_name: own.map_or(route_name, str::to_owned), name, route_names })
    }

    /// The requested name.
    pub(crate) fn name(&self) -> &IndexName {
        &self.name
    }

    /// A name with a route of the forest: the requested one, if it has a route.
    pub(crate) fn route_name(&self) -> &str {
        &self.route_name
    }

    /// The name by which a route matches an index; `None`: it did not exist when access was granted.
    pub(crate) fn route_name_of(&self, index: &str) -> Option<&str> {
        self.route_names.get(index).map(String::as_str)
    }

    /// The indices of the name.
    pub(super) fn indices(&self) -> impl Iterator<Item = &str> {
        self.route_names.keys().map(String::as_str)
    }

    /// The names by which routes match them.
    pub(crate) fn route_names(&self) -> impl Iterator<Item = &str> {
        self.route_names.values().map(String::as_str)
    }
}

fn no_route(name: &IndexName, index: &str) -> ProxyError {
    let name = name.as_str();
    ProxyError::NoRoute(match name == index {
        true => format!(
            "no route stamps the index {index}: its documents pass as they come; ask for an index that --index or a \
             [[route]] names"
        ),
        false => format!(
            "no route stamps the index {index}, which stands behind {name}: ask for an index that --index or a \
             [[route]] names; an alias counts where one of them names it as it is, without *, and the user of \
             --service-url may resolve it"
        ),
    })
}

/// The indices of a name, from the profile of a search with the caller's credentials, which only needs the search
/// privilege. `ignore_unavailable` must not be added: with it security plugins skip indices that the caller may not see
/// and answer 200.
async fn searched(access: Access<'_>, caller: &HeaderMap, name: &IndexName) -> Result<BTreeSet<String>, AccessError> {
    let path = format!(
        "/{}/_search?allow_partial_search_results=false&filter_path=error,status,timed_out,_shards.total,\
         _shards.successful,_shards.failed,profile.shards.id",
        name.in_path()
    );
    // A query that no shard can be left out for.
    let body = json!({
        "size": 0,
        "track_total_hits": false,
        "terminate_after": 1,
        "profile": true,
        "query": {"match_all": {}},
    });
    let asked = access.cluster.ask_as(caller, Method::POST, &path, Some(&body), ANSWER_BYTES);
    let answer = asked.await.map_err(ProxyError::from)?;
    if names_document_level_security(&answer) {
        return Err(ProxyError::NotForReaders(format!(
            "a role shows these credentials only some documents of {} (document-level security), and what a forest \
             knows is of all of them: use credentials that may search the whole index",
            name.as_str()
        ))
        .into());
    }
    if !answer.status().is_success() {
        return Err(AccessError::Refused(Box::new(answer)));
    }
    Ok(indices_of(name, &answer)?)
}

/// Whether the security plugin of OpenSearch refuses the profile of a search, and not the search: it answers 500,
/// `Profiling is not supported when DLS is activated`.
fn names_document_level_security(answer: &Response<Bytes>) -> bool {
    const REFUSED: &[u8] = b"when DLS is activated";
    answer.status().is_server_error() && memchr::memmem::find(answer.body(), REFUSED).is_some()
}

fn indices_of(name: &IndexName, answer: &Response<Bytes>) -> Result<BTreeSet<String>, ProxyError> {
    // A load balancer has pages of its own for every status, and they are no consent.
    let not_understood = || ProxyError::NotTheCluster("POST /INDEX/_search");
    let answer: ProfileAnswer = serde_json::from_slice(answer.body()).map_err(|_| not_understood())?;
    let Shards { total, successful, failed } = answer.shards;
    if answer.timed_out || missing_shards(total, successful, failed) > 0 {
        let reason = "the cluster searched only a part of the index: retry later";
        return Err(ProxyError::PartialSearch(reason.into()));
    }
    // OpenSearch can be configured to search nothing instead of refusing; any index has a shard.
    if total == 0 {
        return Err(ProxyError::NotShown(name.as_str().to_owned()));
    }
    let shards = answer.profile.shards.iter();
    let indices: Option<BTreeSet<String>> = shards.map(|shard| index_of(&shard.id)).collect();
    indices.filter(|indices| !indices.is_empty()).ok_or_else(not_understood)
}

/// The index of `[node][index][shard]`.
fn index_of(shard: &str) -> Option<String> {
    let (_, rest) = shard.strip_prefix('[')?.split_once("][")?;
    let (index, _) = rest.rsplit_once("][")?;
    Some(index.to_owned())
}

#[cfg(test)]
mod tests {
    use hyper::Uri;
    use serde_json::Value;

    use super::*;
    use crate::chance::secret_key;
    use crate::cluster::Client;
    use crate::config::RawServeOptions;
    use crate::engine::Engine;

    fn engine() -> Engine {
        let options: RawServeOptions = toml::from_str(
            "threads = 1\n\
             [[route]]\nindex = ['news-*', 'archive', 'daily']\nmethod = 'longest'\n\
             [[route]]\nindex = ['logs-*']\nmethod = 'longest'",
        )
        .unwrap();
        let routes = options.validate().unwrap().routes;
        Engine::stored(&routes, "cluster_", 1, secret_key(), None).unwrap()
    }

    fn reader(name: &str, indices: &[&str], behind: &IndicesBehind) -> Result<ForestReader, AccessError> {
        let (engine, service) = (engine(), HeaderMap::new());
        let node = Uri::from_static("http://127.0.0.1:1");
        let access = Access {
            engine: &engine,
            cluster: &Client::new(&[node], None, None, None, None).unwrap(),
            service: &service,
            overrides: true,
        };
        let indices = indices.iter().map(|&index| index.to_owned()).collect();
        ForestReader::of(access, IndexName::parse(name).unwrap(), indices, behind)
    }

    #[test]
    fn what_belongs_to_the_forest() {
        let none = IndicesBehind::default();
        let alias = |indices: &[&str]| IndicesBehind {
            alias: indices.iter().map(|&index| index.to_owned()).collect(),
            ..IndicesBehind::default()
        };
        let stream = IndicesBehind { data_stream: vec!["x-1".into(), ".ds-1".into()], ..IndicesBehind::default() };
        for (name, indices, behind, expected) in [
            ("news-1", &["news-1"][..], &none, Some("news-1")),
            // An alias that no route has: what is behind it counts.
            ("latest", &["news-1", "news-2"], &none, Some("news-1")),
            ("latest", &["news-1", "archive"], &none, Some("archive")),
            ("daily", &["news-1"], &none, Some("daily")),
            ("daily", &["x-1", "news-1"], &alias(&["x-1", "news-1"]), Some("daily")),
            ("news-stream", &["x-1", ".ds-1"], &stream, Some("news-stream")),
            // Nothing of this says that it belongs there.
            ("other", &["other"], &none, None),
            ("daily", &["x-1"], &none, None),
            ("daily", &["x-1", "x-2"], &alias(&["x-1"]), None),
            ("news-x", &["x-1"], &alias(&["x-1"]), None),
            ("news-x", &["news-1", "x-1"], &alias(&["x-1", "news-1"]), None),
            ("latest", &["x-1"], &alias(&["x-1"]), None),
            // Two forests.
            ("latest", &["news-1", "logs-1"], &none, None),
            ("logs-now", &["news-1"], &none, None),
            ("daily", &["logs-1"], &alias(&["logs-1"]), None),
        ] {
            let found = reader(name, indices, behind);
            let route_name = found.as_ref().map(ForestReader::route_name).ok();
            assert_eq!(route_name, expected, "{name} {indices:?}: {found:?}");
        }
    }

    #[test]
    fn as_many_indices_as_are_asked_about() {
        let all: Vec<String> = (0..=MOST_INDICES).map(|n| format!("news-{n}")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let none = IndicesBehind::default();
        assert!(reader("latest", &all[1..], &none).is_ok());
        let refused = reader("latest", &all, &none).unwrap_err().to_string();
        assert!(refused.contains("more than 256"), "{refused}");
    }

    #[test]
    fn indices_of_an_answer() {
        let of = |answer: Value| {
            let answer = Response::new(Bytes::from(answer.to_string()));
            let indices = indices_of(&IndexName::parse("a").unwrap(), &answer);
            indices.map(|indices| indices.into_iter().collect::<Vec<_>>())
        };
        let shards = json!({"total": 3, "failed": 0});
        let profile = json!({"shards": [{"id": "[n-_][a[x]][0]"}, {"id": "[m][b][11]"}, {"id": "[m][b][2]"}]});
        let whole = json!({"timed_out": false, "_shards": shards, "profile": profile});
        assert_eq!(of(whole).unwrap(), ["a[x]", "b"]);
        for (answer, expected) in [
            (json!([]), "none"),
            (json!({}), "none"),
            (json!({"_shards": shards}), "none"),
            (json!({"_shards": shards, "profile": {"shards": [{"id": "a"}]}}), "none"),
            (json!({"_shards": {"total": 0}}), "shows"),
            (json!({"_shards": {"total": 3, "failed": 1}, "profile": profile}), "part"),
            (json!({"timed_out": true, "_shards": shards, "profile": profile}), "part"),
        ] {
            let refused = of(answer.clone()).unwrap_err().to_string();
            assert!(refused.contains(expected), "{answer}: {refused}");
        }
    }
}
