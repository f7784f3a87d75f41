//! Results for readers as plain values, rendered as JSON and as pages.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::forest::Root;
use crate::time::{Millis, format_date};

/// One page of groups, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct GroupsPage {
    /// The groups of this page.
    pub groups: Vec<GroupSummary>,
    /// Number of all groups, if requested.
    pub total: Option<Total>,
    /// Asks for the next page; `None` on the last one.
    pub next: Option<String>,
    /// Duration in milliseconds.
    pub took: u64,
    /// Notes for the reader, besides that on documents without a stamp.
    pub notes: Vec<String>,
    /// Documents under the query without a stamp, if they were counted: on a first page.
    pub unstamped: u64,
    /// The requested facets: on a first page.
    pub facets: Vec<Facet>,
}

/// How many groups of a query have the values of a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facet {
    /// Its name in the request.
    pub name: String,
    /// Values with most groups first, or intervals of time in their order; none is empty.
    pub buckets: Vec<FacetBucket>,
    /// [`Relation::Equal`]: the values are those with most groups, and the numbers are exact.
    pub relation: Relation,
}

/// A value, or an interval of time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FacetBucket {
    /// The value, or the beginning of the interval as a date.
    pub key: Value,
    /// Groups with a document that has it.
    pub groups: u64,
    /// Those documents.
    pub documents: u64,
}

/// A number of groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Total {
    /// The exact number.
    pub value: u64,
    /// Exactly, or at least.
    pub relation: Relation,
}

/// Whether a number is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Relation {
    /// Exact.
    Equal,
    /// A lower bound.
    AtLeast,
    /// Approximate: documents that are not counted yet may change it either way.
    About,
}

/// One group: the documents that share a root.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupSummary {
    /// Its root.
    pub root: Root,
    /// Representative of the group among the documents of the query.
    pub representative: Representative,
    /// Documents of the group that the caller may see, the representative among them: 1 or more.
    pub similar_count: u64,
    /// Those of them under the query: 1 or more.
    pub matching_count: u64,
    /// How many media they are of; `None` where the route names no field for it.
    pub media: Option<u64>,
    /// The earliest time of a document of the group; `None` if none has a time.
    pub first: Option<Millis>,
    /// The latest.
    pub last: Option<Millis>,
}

/// A document that represents its group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Representative {
    /// The concrete index that it is in.
    pub index: String,
    /// Its id.
    pub id: String,
    /// The requested part of its source, or null.
    pub source: Value,
    /// Its score under the query, where it was chosen by relevance.
    pub score: Option<f64>,
    /// Its time as the cluster reads it; `None` if it has none, or its time field is mapped as no date.
    pub time: Option<Millis>,
}

/// One page of the documents of a group, earliest first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SimilarPage {
    /// The group.
    pub root: Root,
    /// Documents of the group that the caller may see.
    pub total: u64,
    /// Those of this page.
    pub hits: Vec<SimilarHit>,
    /// Asks for the next page; `None` on the last one.
    pub next: Option<String>,
    /// The forest's view of the root; `None` if no forest of the index has it.
    pub forest: Option<RootView>,
    /// Duration in milliseconds.
    pub took: u64,
}

/// A document of a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SimilarHit {
    /// The concrete index that it is in.
    pub index: String,
    /// Its id.
    pub id: String,
    /// The requested part of its source, or null.
    pub source: Value,
    /// Its time, by the route's time field.
    pub time: Option<Millis>,
    /// Publisher, by the route's medium field.
    pub medium: Option<String>,
    /// How similar its text is to the representative's, 0 to 1; `None` where one of them has no text.
    pub similarity: Option<f32>,
    /// Whether it is the representative: the earliest of the group.
    pub is_representative: bool,
}

/// The forest's view of a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RootView {
    /// The forest's name.
    pub forest: String,
    /// Leaves of the tree.
    pub children: u64,
    /// Documents placed in it, as far as counted.
    pub documents: u64,
    /// When the root was added.
    pub added: Millis,
    /// When the last document was placed in the tree.
    pub arrival: Millis,
}

/// The signed form of a root, as `cluster_key` has it.
pub(crate) fn key(root: Root) -> i64 {
    root.0.0.cast_signed()
}

impl GroupsPage {
    /// The JSON of the endpoint's response.
    pub(crate) fn to_json(&self) -> Value {
        let mut value = json!({
            "took": self.took,
            "groups": self.groups.iter().map(GroupSummary::to_json).collect::<Vec<_>>(),
            "next": self.next,
        });
        let total = self.total.map(Total::to_json);
        set(&mut value, "total", total);
        let facets: Map<String, Value> =
            self.facets.iter().map(|facet| (facet.name.clone(), facet.to_json())).collect();
        set(&mut value, "facets", (!facets.is_empty()).then(|| facets.into()));
        let unstamped = (self.unstamped > 0).then(|| {
            format!(
                "{} documents under the query have no stamp and belong to no group: they are not shown; spinney \
                 backfill stamps them, or says why it cannot",
                self.unstamped
            )
        });
        let notes: Vec<String> = self.notes.iter().cloned().chain(unstamped).collect();
        set(&mut value, "notes", (!notes.is_empty()).then(|| notes.into()));
        value
    }
}

impl Relation {
    /// As `hits.total` has it, with the additional `approx`.
    fn name(self) -> &'static str {
        match self {
            Relation::Equal => "eq",
            Relation::AtLeast => "gte",
            Relation::About => "approx",
        }
    }
}

impl Total {
    /// JSON as `hits.total`.
    pub(crate) fn to_json(self) -> Value {
        json!({"value": self.value, "relation": self.relation.name()})
    }
}

impl Facet {
    fn to_json(&self) -> Value {
        let buckets = self.buckets.iter();
        let buckets = buckets.map(|b| json!({"key": b.key, "groups": b.groups, "documents": b.documents}));
        json!({"buckets": buckets.collect::<Vec<_>>(), "relation": self.relation.name()})
    }
}

impl GroupSummary {
    fn to_json(&self) -> Value {
        json!({
            "root": self.root.to_string(),
            "key": key(self.root),
            "similar_count": self.similar_count,
            "matching_count": self.matching_count,
            "media": self.media,
            "first": self.first.map(format_date),
            "last": self.last.map(format_date),
            "representative": self.representative.to_json(),
        })
    }
}

impl Representative {
    fn to_json(&self) -> Value {
        json!({
            "_index": self.index,
            "_id": self.id,
            "_score": self.score,
            "_source": self.source,
        })
    }
}

impl SimilarPage {
    /// The JSON of the endpoints' responses.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "took": self.took,
            "root": self.root.to_string(),
            "key": key(self.root),
            "total": self.total,
            "hits": self.hits.iter().map(SimilarHit::to_json).collect::<Vec<_>>(),
            "next": self.next,
            "forest": self.forest.as_ref().map(RootView::to_json),
        })
    }
}

impl SimilarHit {
    fn to_json(&self) -> Value {
        let hundredths = |ratio: f32| (f64::from(ratio) * 100.0).round() / 100.0;
        json!({
            "_index": self.index,
            "_id": self.id,
            "_source": self.source,
            "time": self.time.map(format_date),
            "medium": self.medium,
            "similarity": self.similarity.map(hundredths),
            "is_representative": self.is_representative,
        })
    }
}

impl RootView {
    fn to_json(&self) -> Value {
        json!({
            "name": self.forest,
            "children": self.children,
            "documents": self.documents,
            "added": format_date(self.added),
            "arrival": format_date(self.arrival),
        })
    }
}

/// Sets a member of an object, if there is a value.
fn set(object: &mut Value, name: &str, value: Option<Value>) {
    if let (Some(object), Some(value)) = (object.as_object_mut(), value) {
        let object: &mut Map<String, Value> = object;
        object.insert(name.to_owned(), value);
    }
}
