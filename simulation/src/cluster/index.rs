//! An index of one shard: documents with versions and sequence numbers, and what searches see of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::fault::Fault;
use super::mapping::Mapping;

/// How long the version of a deleted document counts.
const KEEPS_DELETES: i64 = 60_000;

/// A stored document.
#[derive(Debug)]
pub(super) struct Doc {
    pub(super) source: Value,
    pub(super) version: i64,
    pub(super) seq_no: u64,
    pub(super) routing: Option<String>,
}

/// Documents as searches see them.
pub(super) type View = Arc<BTreeMap<String, Arc<Doc>>>;

/// The last operation on an id.
struct Slot {
    /// `None`: deleted.
    doc: Option<Arc<Doc>>,
    version: i64,
    seq_no: u64,
    at: i64,
}

/// What must hold for a write.
#[derive(Debug, Clone, Default)]
pub(super) struct Condition {
    /// Sequence number and primary term.
    pub(super) if_seq_no: Option<(u64, u64)>,
    /// An external version, and whether the same version passes.
    pub(super) external: Option<(i64, bool)>,
    /// No document of this id exists.
    pub(super) create: bool,
}

/// The outcome of a write.
pub(super) struct Written {
    pub(super) result: &'static str,
    pub(super) status: u16,
    pub(super) version: i64,
    pub(super) seq_no: u64,
}

impl Written {
    /// As the servers answer.
    pub(super) fn to_json(&self, index: &str, id: &str) -> Value {
        let copies = u64::from(self.result != "noop");
        json!({
            "_index": index, "_id": id, "_version": self.version, "result": self.result,
            "_shards": {"total": copies, "successful": copies, "failed": 0},
            "_seq_no": self.seq_no, "_primary_term": 1,
        })
    }
}

/// An index.
pub(super) struct Index {
    /// Flat; has `index.uuid`.
    pub(super) settings: Map<String, Value>,
    pub(super) mapping: Mapping,
    slots: BTreeMap<String, Slot>,
    seen: View,
    /// Writes that searches do not see, in their order.
    unseen: VecDeque<(i64, String, Option<Arc<Doc>>)>,
    next_seq_no: u64,
}

impl Index {
    pub(super) fn new(uuid: &str) -> Index {
        Index {
            settings: Map::from_iter([("index.uuid".to_owned(), uuid.into())]),
            mapping: Mapping::default(),
            slots: BTreeMap::new(),
            seen: View::default(),
            unseen: VecDeque::new(),
            next_seq_no: 0,
        }
    }

    /// Whether a setting is `true`.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.settings.get(name).is_some_and(|value| *value == true || *value == "true")
    }

    /// The document of an id, searched or not.
    pub(super) fn get(&self, id: &str) -> Option<&Arc<Doc>> {
        self.slots.get(id)?.doc.as_ref()
    }

    /// All documents.
    pub(super) fn stored(&self) -> BTreeMap<String, (Value, u64)> {
        let stored = self.slots.iter().filter_map(|(id, slot)| Some((id, slot.doc.as_ref()?)));
        stored.map(|(id, doc)| (id.clone(), (doc.source.clone(), doc.seq_no))).collect()
    }

    /// What searches see now.
    pub(super) fn view(&self) -> View {
        self.seen.clone()
    }

    /// Shows searches all writes until this time.
    pub(super) fn refresh(&mut self, until: i64) {
        while self.unseen.front().is_some_and(|(at, _, _)| *at <= until)
            && let Some((_, id, doc)) = self.unseen.pop_front()
        {
            let seen = Arc::make_mut(&mut self.seen);
            match doc {
                Some(doc) => drop(seen.insert(id, doc)),
                None => drop(seen.remove(&id)),
            }
        }
    }

    /// The version that a write gets.
    ///
    /// # Errors
    /// If its condition does not hold.
    pub(super) fn check(&self, now: i64, id: &str, condition: &Condition) -> Result<i64, Fault> {
        let slot = self.slots.get(id).filter(|slot| slot.doc.is_some() || now - slot.at < KEEPS_DELETES);
        if condition.create
            && let Some(Slot { doc: Some(doc), .. }) = slot
        {
            let reason = format!("document already exists (current version [{}])", doc.version);
            return Err(Fault::conflict(id, &reason));
        }
        if let Some((seq_no, term)) = condition.if_seq_no {
            let required = format!("required seqNo [{seq_no}], primary term [{term}].");
            match slot {
                Some(Slot { doc: Some(_), seq_no: current, .. }) if (*current, 1) == (seq_no, term) => {}
                Some(Slot { doc: Some(_), seq_no: current, .. }) => {
                    let reason = format!("{required} current document has seqNo [{current}] and primary term [1]");
                    return Err(Fault::conflict(id, &reason));
                }
                _ => return Err(Fault::conflict(id, &format!("{required} but no document was found"))),
            }
        }
        let current = slot.map(|slot| slot.version);
        match (condition.external, current) {
            (Some((version, or_same)), Some(current)) if version < current || version == current && !or_same => {
                let than = if or_same { "higher than" } else { "higher or equal to" };
                let reason = format!("current version [{current}] is {than} the one provided [{version}]");
                Err(Fault::conflict(id, &reason))
            }
            (Some((version, _)), _) => Ok(version),
            (None, current) => Ok(current.unwrap_or(0) + 1),
        }
    }

    /// Stores a document.
    pub(super) fn index(
        &mut self,
        now: i64,
        (id, routing): (&str, Option<String>),
        source: Value,
        condition: &Condition,
    ) -> Result<Written, Fault> {
        if !source.is_object() {
            return Err(Fault::new(400, "mapper_parsing_exception", "failed to parse: a document is an object"));
        }
        // The servers parse a document before they look at its version.
        self.mapping.learn(&source)?;
        let version = self.check(now, id, condition)?;
        let is_new = self.get(id).is_none();
        let seq_no = self.next_seq_no;
        let doc = Arc::new(Doc { source, version, seq_no, routing });
        self.put(now, id, Some(doc), version);
        let (result, status) = if is_new { ("created", 201) } else { ("updated", 200) };
        Ok(Written { result, status, version, seq_no })
    }

    /// Deletes a document.
    pub(super) fn delete(&mut self, now: i64, id: &str, condition: &Condition) -> Result<Written, Fault> {
        let version = self.check(now, id, condition)?;
        let (result, status) = if self.get(id).is_some() { ("deleted", 200) } else { ("not_found", 404) };
        let seq_no = self.next_seq_no;
        self.put(now, id, None, version);
        Ok(Written { result, status, version, seq_no })
    }

    fn put(&mut self, at: i64, id: &str, doc: Option<Arc<Doc>>, version: i64) {
        let slot = Slot { doc: doc.clone(), version, seq_no: self.next_seq_no, at };
        self.next_seq_no += 1;
        self.slots.insert(id.to_owned(), slot);
        self.unseen.push_back((at, id.to_owned(), doc));
    }
}
