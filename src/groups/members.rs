//! The documents of one group, earliest first.

use std::time::Instant;

use bytes::Bytes;
use hyper::{Method, Response, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::debug;
use xxhash_rust::xxh3::xxh3_64;

use super::answer::{RootView, SimilarHit, SimilarPage, key};
use super::cursor;
use super::error::ReadError;
use super::group_counts::root;
use super::request::{MembersRequest, RequestError, match_all};
use super::search::{SearchHit, SearchSource};
use super::similarity::{ShingleSet, TextReader, jaccard};
use super::sort_part::SortPart;
use super::{IndexReader, key_mapping};
use crate::access::IndexName;
use crate::bulk::stored_value;
use crate::config::RestrictedReaders;
use crate::fingerprint::Fingerprint;
use crate::forest::Root;
use crate::time::Millis;

/// Where a page of documents ended. Times are those of many documents, and the number that a write had is only unique
/// in its shard: so the few that share both are named.
#[derive(Debug, Serialize, Deserialize)]
struct MembersCursor {
    /// Milliseconds, or [`WITHOUT_TIME`].
    time: i64,
    seq_no: i64,
    /// Index and id of the documents at this place that were shown, [`MOST_SHOWN`] at most.
    shown: Vec<(String, String)>,
}

/// The time of documents without one, which are behind all others.
const WITHOUT_TIME: i64 = i64::MAX;

/// Most documents at one position, each in another shard, that a cursor may name. They are requested again with the
/// next page, so a forged cursor cannot ask for more.
const MOST_SHOWN: usize = 512;

impl MembersCursor {
    /// Reads a cursor of this question.
    fn read(text: &str, question: u64) -> Result<MembersCursor, RequestError> {
        let cursor: MembersCursor = cursor::decode(text, question)?;
        if cursor.shown.len() > MOST_SHOWN {
            return Err(RequestError::Cursor("names more documents of one time than there can be"));
        }
        Ok(cursor)
    }
}

impl IndexReader<'_> {
    /// Returns the group of a document. `raw_id`: its id as in the caller's path; `routing` as given by the caller.
    ///
    /// # Errors
    /// As [`IndexReader::members_of`]; the cluster's own response if there is no such document.
    pub(crate) async fn similar(
        &self,
        raw_id: &str,
        id: &str,
        routing: Option<&str>,
        request: &MembersRequest,
    ) -> Result<SimilarPage, ReadError> {
        let key = if self.index.contains(['*', ',']) {
            self.searched_key(id).await?
        } else {
            match self.key_of(raw_id, routing).await {
                Err(ReadError::Refused(refused)) if is_not_one_index(&refused) => self.searched_key(id).await?,
                key => key?,
            }
        };
        let key = key.ok_or_else(|| {
            ReadError::NotFound(format!(
                "the document [{id}] has no stamp and belongs to no group: spinney backfill stamps it, or says why it \
                 cannot"
            ))
        })?;
        self.members_of(root(key), request).await
    }

    /// [`IndexReader::key_by_search`], or why there can be no key.
    async fn searched_key(&self, id: &str) -> Result<Option<i64>, ReadError> {
        match self.key_by_search(id).await {
            Err(error) => Err(key_mapping::explained(&self.source, error).await),
            key => key,
        }
    }

    /// The key of the latest version of a document, refreshed or not.
    async fn key_of(&self, raw_id: &str, routing: Option<&str>) -> Result<Option<i64>, ReadError> {
        let field = &self.source.fields.key;
        let mut path = format!("/{}/_doc/{raw_id}?_source_includes={field}", self.source.raw_index);
        if let Some(routing) = routing {
            path += &format!("&routing={}", utf8_percent_encode(routing, NON_ALPHANUMERIC));
        }
        let answer = self.source.ask(Method::GET, &path, None).await?;
        let document = stored_value(answer.body()).map_err(|_| ReadError::NotTheCluster)?;
        Ok(document.get("_source").and_then(|source| source.get(field)?.as_i64()))
    }

    /// As [`key_of`](Self::key_of), by a search, for names that may resolve to several indices.
    async fn key_by_search(&self, id: &str) -> Result<Option<i64>, ReadError> {
        let answer = self.source.search::<Value>(json!({
            "size": 1,
            "track_total_hits": false,
            "_source": false,
            "docvalue_fields": [self.source.fields.key],
            "query": {"ids": {"values": [id]}},
        }));
        let hits = answer.await?.hits;
        let hit = hits
            .first()
            .ok_or_else(|| ReadError::NotFound(format!("there is no document [{id}] in [{}]", self.index)))?;
        Ok(hit.number(&self.source.fields.key))
    }

    /// The documents of a group by its root, as 16 hex digits.
    ///
    /// # Errors
    /// As [`IndexReader::members_of`], and when it is no root.
    pub(crate) async fn root(&self, hex: &str, request: &MembersRequest) -> Result<SimilarPage, ReadError> {
        let is_hex = hex.len() == 16 && hex.bytes().all(|c| c.is_ascii_hexdigit());
        let root = u64::from_str_radix(hex, 16).ok().filter(|_| is_hex);
        let root = root.ok_or_else(|| RequestError::Member {
            member: "root",
            reason: format!("takes 16 hex digits, not {hex}"),
        })?;
        self.members_of(Root(Fingerprint(root)), request).await
    }

    /// One page of the documents of a group.
    ///
    /// # Errors
    /// [`ReadError::NotFound`] when the caller sees none of them, unless there are filters; when the cursor is wrong,
    /// or the cluster refuses a search or gives no whole answer.
    async fn members_of(&self, root: Root, request: &MembersRequest) -> Result<SimilarPage, ReadError> {
        let began = Instant::now();
        let filters = &request.filters;
        let narrowed = if filters.is_empty() { String::new() } else { json!(filters).to_string() };
        let question = xxh3_64(format!("{} {root}{narrowed}", self.index).as_bytes());
        let cursor = request.cursor.as_deref();
        let cursor = cursor.map(|text| MembersCursor::read(text, question)).transpose()?;
        let members = MembersQuery { source: &self.source, key: key(root) };
        let text_fields = self.text_fields();
        let page = members.search(&request.source, filters, cursor.as_ref(), request.size + 1);
        let texts = members.search(&text_fields, filters, cursor.as_ref(), request.size + 1);
        let first = members.search(&text_fields, &[], None, 1);
        let (page, texts, first) = tokio::try_join!(page, texts, first)?;
        let total = page.total;
        if total == 0 && filters.is_empty() {
            return Err(ReadError::NotFound(format!("there is no document of the group [{root}] in [{}]", self.index)));
        }
        let mut hits = page.hits;
        let is_last = hits.len() <= request.size;
        hits.truncate(request.size);
        let next = (!is_last).then(|| {
            let earlier = cursor.as_ref();
            next_cursor(&hits, earlier).map(|next| cursor::encode(&next, question))
        });
        let representative = first.hits.first().map(|hit| (hit.index.clone(), hit.id.clone()));
        let forest = match &representative {
            Some((index, _)) => self.forest_view(index, root).await,
            None => None,
        };
        let similarities = self.similarities(first.hits, texts.hits).await?;
        let shown = hits.into_iter().map(|hit| {
            let name = (hit.index.clone(), hit.id.clone());
            let similarity = similarities.iter().find(|(of, _)| *of == name);
            let is_representative = representative.as_ref() == Some(&name);
            self.shown(hit, similarity.and_then(|(_, s)| *s), is_representative)
        });
        Ok(SimilarPage {
            root,
            total,
            hits: shown.collect(),
            next: next.flatten(),
            forest,
            took: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// Source fields needed to compare texts.
    fn text_fields(&self) -> Value {
        let fields = self.source.fields;
        let names: Vec<&String> = fields.text.iter().chain(&fields.title).collect();
        if names.is_empty() { Value::Bool(false) } else { json!(names) }
    }

    /// How similar the texts of documents are to the first one's, by index and id.
    async fn similarities(&self, first: Vec<SearchHit>, texts: Vec<SearchHit>) -> Result<Vec<Similarity>, ReadError> {
        let fields = self.source.fields.clone();
        let compared = self.engine.run_for_readers(move || {
            let mut reader = TextReader::default();
            let mut read = |hit: &SearchHit| reader.shingles(&hit.source, &fields.text, fields.title.as_deref());
            let first: ShingleSet = first.first().and_then(&mut read);
            let compare = |hit: SearchHit| {
                let own = read(&hit);
                let both = own.as_deref().zip(first.as_deref());
                ((hit.index, hit.id), both.map(|(a, b)| jaccard(a, b)))
            };
            texts.into_iter().map(compare).collect()
        });
        Ok(compared.await?)
    }

    fn shown(&self, hit: SearchHit, similarity: Option<f32>, is_representative: bool) -> SimilarHit {
        let medium = self.source.fields.medium.as_ref();
        let medium = medium.and_then(|medium| hit.fields.get(medium)?.as_array()?.first());
        let medium = medium.map(|medium| {
            let text = medium.as_str().map(str::to_owned);
            text.unwrap_or_else(|| medium.to_string())
        });
        SimilarHit {
            time: place(&hit).map(|(time, _)| Millis(time)).filter(|t| t.0 != WITHOUT_TIME),
            medium,
            similarity,
            is_representative,
            index: hit.index,
            id: hit.id,
            source: hit.source,
        }
    }

    /// Returns the forest's view for an index in which the caller has found a document of the group. A forest knows
    /// all documents, so nothing is shown where readers are restricted; nor while the forest does not answer: the
    /// documents are the cluster's.
    async fn forest_view(&self, index: &str, root: Root) -> Option<RootView> {
        if self.restricted != RestrictedReaders::None {
            return None;
        }
        let asked = IndexName::parse(self.source.raw_index).ok();
        let name = self.access.route_name(index, asked.as_ref()).await?;
        let tree = self.engine.tree(&name, root).await;
        let (forest, view) = tree.inspect_err(|reason| debug!(%reason, "a forest shows no root")).ok()??;
        Some(RootView {
            forest,
            children: view.children.into(),
            documents: view.documents.into(),
            added: view.added,
            arrival: view.arrival,
        })
    }
}

/// Whether a document cannot be read by its id under this name: an alias over several indices, or a data stream. A
/// missing document is no error to the servers.
fn is_not_one_index(refused: &Response<Bytes>) -> bool {
    let parsed: Value = serde_json::from_slice(refused.body()).unwrap_or_default();
    let is_error = parsed.get("error").is_some();
    matches!(refused.status(), StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND) && is_error
}

/// Index and id of a document, and how similar its text is to the representative's.
type Similarity = ((String, String), Option<f32>);

/// The order of the documents of a group: by time, those without one last, ties by order of writing. For a search that
/// is sorted within an aggregation; others take its parts.
pub(crate) fn members_order(time: &str) -> Value {
    with_time(time).sort
}

/// The documents of a group that have a time. As `date`, the times of `date_nanos` are milliseconds, too.
fn with_time(time: &str) -> SortPart {
    let options = json!({"order": "asc", "unmapped_type": "date", "numeric_type": "date"});
    SortPart::valued(time, options, vec![by_writing()])
}

fn by_writing() -> Value {
    json!({"_seq_no": {"order": "asc", "unmapped_type": "long"}})
}

/// The documents of one group.
struct MembersQuery<'s, 'a> {
    source: &'s SearchSource<'a>,
    key: i64,
}

/// Some documents of a group.
struct FoundMembers {
    hits: Vec<SearchHit>,
    /// All that pass the filters.
    total: u64,
}

impl MembersQuery<'_, '_> {
    /// The documents after a position, in their order: those with a time, and if these are not enough, the others.
    async fn search(
        &self,
        shown: &Value,
        filters: &[Value],
        after: Option<&MembersCursor>,
        size: usize,
    ) -> Result<FoundMembers, ReadError> {
        let time = &self.source.fields.time;
        let among_others = after.filter(|after| after.time == WITHOUT_TIME);
        let mut hits = Vec::new();
        if among_others.is_none() {
            let body = self.body(shown, filters, with_time(time));
            let place = after.map(|after| vec![after.time, after.seq_no.saturating_sub(1)]);
            let found = self.part(body, place, after, size).await?;
            if found.hits.len() >= size {
                return Ok(found);
            }
            hits = found.hits;
        }
        let body = self.body(shown, filters, SortPart::missing(time, vec![by_writing()]));
        let place = among_others.map(|after| vec![after.seq_no.saturating_sub(1)]);
        let mut others = self.part(body, place, among_others, size - hits.len()).await?;
        for hit in &mut others.hits {
            hit.sort.insert(0, WITHOUT_TIME.into());
        }
        hits.append(&mut others.hits);
        Ok(FoundMembers { hits, total: others.total })
    }

    /// The body of a search in one part, which counts the documents of both.
    fn body(&self, shown: &Value, filters: &[Value], SortPart { filter, sort }: SortPart) -> Value {
        let wanted: Vec<Value> =
            [self.source.of_groups(&[self.key])].into_iter().chain(filters.iter().cloned()).collect();
        json!({
            "track_total_hits": false,
            "_source": shown,
            "docvalue_fields": self.source.fields.medium.iter().collect::<Vec<_>>(),
            "query": {"bool": {"filter": wanted}},
            "post_filter": filter,
            "aggs": {"all": {"filter": match_all()}},
            "sort": sort,
        })
    }

    /// The documents of one part after a place, without those that the cursor names.
    async fn part(
        &self,
        mut body: Value,
        place: Option<Vec<i64>>,
        after: Option<&MembersCursor>,
        size: usize,
    ) -> Result<FoundMembers, ReadError> {
        let shown = after.map_or(&[][..], |after| &after.shown);
        body["size"] = (size + shown.len()).into();
        if let Some(place) = place {
            body["search_after"] = json!(place);
        }
        let mut answer = self.source.search::<Value>(body).await?;
        let total = answer.aggregations.as_ref().and_then(|counted| counted.pointer("/all/doc_count")?.as_u64());
        let was_shown = |hit: &SearchHit| shown.iter().any(|(index, id)| *index == hit.index && *id == hit.id);
        answer.hits.retain(|hit| !was_shown(hit));
        answer.hits.truncate(size);
        Ok(FoundMembers { hits: answer.hits, total: total.unwrap_or_default() })
    }
}

/// Time and number of a document, as [`MembersCursor`] has them.
fn place(hit: &SearchHit) -> Option<(i64, i64)> {
    let number = |at: usize| hit.sort.get(at).and_then(Value::as_i64);
    Some((number(0)?, number(1)?))
}

/// The cursor after the last of these documents.
fn next_cursor(hits: &[SearchHit], earlier: Option<&MembersCursor>) -> Option<MembersCursor> {
    let (time, seq_no) = place(hits.last()?)?;
    let here = hits.iter().filter(|hit| place(hit) == Some((time, seq_no)));
    let mut shown: Vec<(String, String)> = here.map(|hit| (hit.index.clone(), hit.id.clone())).collect();
    if let Some(earlier) = earlier.filter(|e| (e.time, e.seq_no) == (time, seq_no)) {
        shown.extend(earlier.shown.iter().cloned());
    }
    Some(MembersCursor { time, seq_no, shown })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cursor is no secret: whoever knows how can make one up.
    #[test]
    fn a_cursor_names_no_more_than_one_place_can_have() {
        let made_up = |documents: usize| {
            let cursor = MembersCursor { time: i64::MIN, seq_no: i64::MIN, shown: vec![Default::default(); documents] };
            MembersCursor::read(&cursor::encode(&cursor, 7), 7)
        };
        assert_eq!(made_up(MOST_SHOWN).unwrap().shown.len(), MOST_SHOWN);
        for more in [MOST_SHOWN + 1, 5_902] {
            let error = made_up(more).unwrap_err().to_string();
            assert!(error.contains("more documents of one time"), "{error}");
        }
    }
}
