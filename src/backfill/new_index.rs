//! The index that a copy is made into: the mapping and the settings of the old one, the fields of the stamp, and a mark
//! in its mapping that says how far the copy is.

use std::collections::BTreeMap;

use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{BackfillError, mapping};
use crate::bulk::StampNames;
use crate::cluster::operator::{Operator, OperatorError, in_path};

/// The member of `_meta` that the mark is.
const MARK: &str = "spinney_copy";

/// Settings that belong to one index, and what keeps it from being written.
const OF_ONE_INDEX: &[&str] = &[
    "index.uuid",
    "index.creation_date",
    "index.provided_name",
    "index.version.",
    "index.resize.",
    "index.shrink.",
    "index.blocks.",
    "index.history.",
    "index.verified_before_close",
    "index.routing.allocation.initial_recovery.",
    "index.routing.allocation.require._id",
];

/// How far a copy is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CopyMark {
    /// The index that is copied.
    pub(super) from: String,
    uuid: String,
    /// Whether all its documents were gone through once.
    pub(super) is_whole: bool,
    /// The last operation of each shard of which it is known, once it is whole, that it and all before it are copied.
    pub(super) until: Vec<i64>,
}

/// A new index and its mark.
pub(super) struct NewIndex<'a> {
    operator: &'a Operator,
    name: &'a str,
    /// What `_meta` has beside the mark.
    meta: Map<String, Value>,
    pub(super) mark: CopyMark,
    /// It was there before.
    pub(super) is_resumed: bool,
}

impl<'a> NewIndex<'a> {
    /// Makes the index, or finds the one that an earlier copy has made.
    ///
    /// # Errors
    /// If there is an index of that name that was made otherwise, the mapping cannot have the stamp, or the cluster
    /// cannot be reached or refuses.
    pub(super) async fn of(
        operator: &'a Operator,
        from: &str,
        name: &'a str,
        names: &StampNames,
    ) -> Result<NewIndex<'a>, BackfillError> {
        let old = described(operator, from).await?.unwrap_or_default();
        let uuid = old["settings"]["index.uuid"].as_str().unwrap_or_default().to_owned();
        if let Some(new) = described(operator, name).await? {
            let mut meta = new["mappings"]["_meta"].as_object().cloned().unwrap_or_default();
            let mark = meta.shift_remove(MARK).and_then(|mark| serde_json::from_value::<CopyMark>(mark).ok());
            let mark = mark.filter(|mark| mark.uuid == uuid);
            let mark =
                mark.ok_or_else(|| BackfillError::IndexExists { into: name.to_owned(), from: from.to_owned() })?;
            return Ok(NewIndex { operator, name, meta, mark, is_resumed: true });
        }
        // Before anything is read: what is written from now on is copied in a later pass.
        let until = checkpoints(operator, from).await?;
        let mark = CopyMark { from: from.to_owned(), uuid, is_whole: false, until };
        let meta = old["mappings"]["_meta"].as_object().cloned().unwrap_or_default();
        let index = NewIndex { operator, name, meta, mark, is_resumed: false };
        let body = body_of(&old, names, index.marked());
        let body = body.map_err(|fault| BackfillError::Mapping { index: from.to_owned(), fault })?;
        operator.ask(Method::PUT, &format!("/{}", in_path(name)), Some(&body)).await?;
        Ok(index)
    }

    fn marked(&self) -> Value {
        let mut meta = self.meta.clone();
        meta.insert(MARK.to_owned(), serde_json::to_value(&self.mark).unwrap_or_default());
        meta.into()
    }

    /// Stores that all operations up to these are copied.
    ///
    /// # Errors
    /// If the cluster cannot be reached or refuses.
    pub(super) async fn copied_until(&mut self, until: Vec<i64>) -> Result<(), OperatorError> {
        self.mark.is_whole = true;
        self.mark.until = until;
        self.put_meta(self.marked()).await
    }

    /// Takes the mark away: the copy is complete.
    ///
    /// # Errors
    /// If the cluster cannot be reached or refuses.
    pub(super) async fn complete(self) -> Result<(), OperatorError> {
        let meta = self.meta.clone().into();
        self.put_meta(meta).await
    }

    async fn put_meta(&self, meta: Value) -> Result<(), OperatorError> {
        let path = format!("/{}/_mapping", in_path(self.name));
        self.operator.ask(Method::PUT, &path, Some(&json!({"_meta": meta}))).await.map(drop)
    }
}

/// Mapping and settings of an index, if it is there.
async fn described(operator: &Operator, index: &str) -> Result<Option<Value>, OperatorError> {
    match operator.ask(Method::GET, &format!("/{}?flat_settings=true", in_path(index)), None).await {
        Ok(mut answer) => Ok(answer.get_mut(index).map(Value::take)),
        Err(OperatorError::Refused { status: 404, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// What a new index is made with.
fn body_of(old: &Value, names: &StampNames, meta: Value) -> Result<Value, mapping::MappingFault> {
    let of_one = |name: &str| OF_ONE_INDEX.iter().any(|setting| name.starts_with(setting));
    let settings = old["settings"].as_object().into_iter().flatten();
    let settings: Map<String, Value> =
        settings.filter(|(name, _)| !of_one(name)).map(|(name, value)| (name.clone(), value.clone())).collect();
    let mut mappings = old["mappings"].as_object().cloned().unwrap_or_default();
    let missing = mapping::missing(&old["mappings"], names)?;
    let properties = mappings.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.extend(missing);
    }
    mappings.insert("_meta".to_owned(), meta);
    Ok(json!({"settings": settings, "mappings": mappings}))
}

#[derive(Deserialize)]
struct ShardStats {
    routing: ShardRouting,
    seq_no: SequenceNumbers,
}

#[derive(Deserialize)]
struct ShardRouting {
    primary: bool,
}

#[derive(Deserialize)]
struct SequenceNumbers {
    global_checkpoint: i64,
}

/// Of each shard the last operation that it and all before it are on all its copies; -1 if it has had none.
///
/// # Errors
/// If the cluster cannot be reached, refuses, or a shard is away.
pub(super) async fn checkpoints(operator: &Operator, index: &str) -> Result<Vec<i64>, BackfillError> {
    let wanted = "indices.*.shards.*.routing.primary,indices.*.shards.*.seq_no.global_checkpoint";
    let path = format!("/{}/_stats?level=shards&filter_path={wanted}", in_path(index));
    let mut answer = operator.ask(Method::GET, &path, None).await?;
    let unclear = |what: String| BackfillError::Answer(format!("{index}/_stats: {what}"));
    let shards = answer["indices"][index]["shards"].take();
    let shards: BTreeMap<String, Vec<ShardStats>> =
        serde_json::from_value(shards).map_err(|error| unclear(error.to_string()))?;
    (0..shards.len())
        .map(|shard| {
            let copies = shards.get(&shard.to_string()).into_iter().flatten();
            let mut primary = copies.filter(|copy| copy.routing.primary);
            let primary = primary.next().ok_or_else(|| unclear(format!("shard {shard} has no primary")))?;
            Ok(primary.seq_no.global_checkpoint)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_index_has_the_settings_and_the_mapping_of_the_old_one_and_the_stamp() {
        let old = json!({
            "settings": {
                "index.uuid": "u", "index.creation_date": "1", "index.provided_name": "old", "index.version.created": "2",
                "index.blocks.write": "true", "index.number_of_shards": "3", "index.analysis.analyzer.a.type": "custom",
                "index.history.uuid": "h", "index.routing.allocation.initial_recovery._id": "x",
            },
            "mappings": {
                "_meta": {"owner": "us"}, "dynamic": "strict",
                "properties": {"content": {"type": "text"}, "cluster_root": {"type": "keyword", "index": false}},
            },
        });
        let body = body_of(&old, &StampNames::new("cluster_").unwrap(), json!({"owner": "us", MARK: {}})).unwrap();
        let settings = body["settings"].as_object().unwrap();
        assert_eq!(settings.keys().collect::<Vec<_>>(), ["index.number_of_shards", "index.analysis.analyzer.a.type"]);
        assert_eq!(body["mappings"]["dynamic"], "strict");
        assert_eq!(body["mappings"]["properties"]["cluster_root"]["index"], false);
        assert_eq!(body["mappings"]["properties"]["cluster_key"]["type"], "long");
        assert_eq!(body["mappings"]["_meta"]["owner"], "us");
        let text = json!({"mappings": {"properties": {"cluster_root": {"type": "text"}}}});
        assert!(body_of(&text, &StampNames::new("cluster_").unwrap(), json!({})).is_err());
        // An index without any mapping.
        let none = body_of(&json!({"mappings": {}}), &StampNames::new("x_").unwrap(), json!({})).unwrap();
        assert_eq!(none["mappings"]["properties"]["x_root"]["type"], "keyword");
    }
}
