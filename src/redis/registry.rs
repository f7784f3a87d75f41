//! Registry of forests in Redis, and their keys.
//!
//! A server that is restarted without persistence, emptied (`FLUSHALL`), or replaced by an empty one, loses the numbers
//! of forests. The first process to use it again must register its forests, or another forest might get their numbers,
//! or one with other settings their names. No connection need end by that, so every round trip asks for the
//! registration as well: an answer counts only if the forest was this process's after everything that it rests on had
//! been read. Where it is gone the process registers it again, even if Redis is full. Setting the clock, replacing
//! overrides and publishing boilerplate check first; an idle process checks every 30 seconds. If another forest has the
//! number by then, Redis is away for this process until its restart.
//!
//! Before its first document and after each new connection a process compares and records its text fields
//! (`spinney1_fields`, a compare-and-swap). The record stays when all texts have expired.

use redis::{Cmd, Pipeline, Value};

use super::connections::{Connections, RegisteredFields, RegisteredForest};
use super::error_hints::away;
use crate::forest::shared::keys::{
    Agreement, Extent, FORESTS as MOST, Key, KeySample, RedisUnavailable, ScanPosition, agreement, proposed_number,
};
use crate::hash::splitmix64;
use crate::text_fields::{FieldRecord, FieldsRefused, RoutedFields};

/// Where the registry of forests is.
const FORESTS: &[u8] = b"spinney:forests";
/// The `COUNT` of a `SCAN`.
const SCAN_COUNT: usize = 4_096;
/// Keys sampled per node.
const DRAWN: usize = 1_024;

impl Connections {
    /// Registers a forest; returns its number and identity, or `None` at the limit of forests.
    pub(super) async fn enroll(&self, name: &str, identity: &str) -> Result<Option<(u8, String)>, RedisUnavailable> {
        let enrolled = self.register(name, identity, proposed_number(name)).await?;
        if let Some((number, known)) = &enrolled
            && agreement(known, identity) != Agreement::Other
        {
            let (name, wanted, identity) = (name.to_owned(), identity.to_owned(), known.clone());
            let forest = RegisteredForest { name, wanted, identity, number: *number };
            let mut forests = self.registered.lock();
            if !forests.contains(&forest) {
                forests.push(forest);
            }
        }
        Ok(enrolled)
    }

    /// Checks the registrations of this process' forests, and repeats lost ones.
    ///
    /// # Errors
    /// If one of them is another one there by now: with its number, or with other settings. Nothing may be placed there
    /// any more.
    pub(super) async fn check_registered(
        &self,
        is_asked: impl Fn(&RegisteredForest) -> bool,
    ) -> Result<(), RedisUnavailable> {
        let forests: Vec<RegisteredForest> =
            self.registered.lock().iter().filter(|forest| is_asked(forest)).cloned().collect();
        if forests.is_empty() {
            return Ok(());
        }
        let mut read = Pipeline::with_capacity(1);
        let fields = read.cmd("HMGET").arg(FORESTS);
        for RegisteredForest { name, .. } in &forests {
            fields.arg(format!("number:{name}")).arg(format!("identity:{name}")).arg(format!("fields:{name}"));
        }
        let known = match self.on_registry(&read).await?.pop() {
            Some(Value::Array(known)) => known,
            _ => Vec::new(),
        };
        let mut known = known.as_chunks::<3>().0.iter().map(|known| known.each_ref().map(text));
        for forest in &forests {
            let [number, identity, recorded] = known.next().unwrap_or_default();
            let known = number.parse().ok().map(|number| (number, identity));
            if !known.is_some_and(|known| forest.is_known_as(&known)) {
                self.register_again(forest).await?;
            }
            let mine = self.fields.lock().get(&forest.name).filter(|mine| mine.recorded != recorded).cloned();
            if let Some(mine) = mine {
                self.record_again(&forest.name, &mine.fields).await?;
            }
        }
        Ok(())
    }

    /// The replies to commands, if the forests that they concern are still this process'. That is asked in the same
    /// round trip; `first`: in one before, because nothing in the commands tells the forest from another one.
    ///
    /// # Errors
    /// As [`check_registered`](Connections::check_registered), and those of the answer.
    pub(super) async fn if_registered<T>(
        &self,
        is_asked: impl Fn(&RegisteredForest) -> bool,
        first: bool,
        answer: impl Future<Output = Result<T, RedisUnavailable>>,
    ) -> Result<T, RedisUnavailable> {
        let check = self.check_registered(is_asked);
        if first {
            check.await?;
            return answer.await;
        }
        let (answer, checked) = tokio::join!(answer, check);
        checked?;
        answer
    }

    /// Registers a forest again.
    async fn register_again(&self, forest: &RegisteredForest) -> Result<(), RedisUnavailable> {
        let RegisteredForest { name, identity, number, .. } = forest;
        // As it was kept, so that processes of the version that began it go on too.
        let known = self.register(name, identity, *number).await?;
        let what = match &known {
            Some(known) if forest.is_known_as(known) => return Ok(()),
            Some((other, _)) if other != number => format!("has given the number of {name} to another one since"),
            Some((_, other)) => format!("knows {name} as another one since ({other})"),
            None => format!("has no room for {name} any more"),
        };
        Err(RedisUnavailable::of(format!(
            "Redis has forgotten its forests, and {what}: start this process again, with the same settings \
             everywhere"
        )))
    }

    /// Records the fields of a forest again after they were lost.
    async fn record_again(&self, name: &str, fields: &RoutedFields) -> Result<(), RedisUnavailable> {
        self.agree_on_fields(name, fields).await?.map_err(|differ| {
            RedisUnavailable::of(match differ {
                FieldsRefused::Unfinished => format!("{name} {differ}"),
                FieldsRefused::Other(_) => format!(
                    "Redis has forgotten its forests, and {name} {differ}: start this process again, with the \
                     same fields everywhere"
                ),
            })
        })
    }

    /// Records the fields that this process reads for a registered forest; an error if its texts were read from others.
    pub(super) async fn agree_on_fields(
        &self,
        name: &str,
        fields: &RoutedFields,
    ) -> Result<Result<(), FieldsRefused>, RedisUnavailable> {
        let mut known = FieldRecord::default();
        loop {
            let wanted = match fields.recorded_in(&known) {
                Ok(wanted) => wanted,
                Err(differ) => return Ok(Err(differ)),
            };
            let found = self.replace_fields(name, &known, &wanted).await?;
            if found == wanted {
                let mine = RegisteredFields { fields: fields.clone(), recorded: found.encode() };
                self.fields.lock().insert(name.to_owned(), mine);
                return Ok(Ok(()));
            }
            // Another process was faster, and has added to it: so this ends.
            known = found;
        }
    }

    /// The record of the fields of a forest, after it was replaced if it was the known one.
    pub(super) async fn replace_fields(
        &self,
        name: &str,
        known: &FieldRecord,
        wanted: &FieldRecord,
    ) -> Result<FieldRecord, RedisUnavailable> {
        let mut call = Pipeline::with_capacity(1);
        let fields = call.cmd("FCALL").arg("spinney1_fields").arg(1).arg(FORESTS);
        fields.arg(name).arg(known.encode()).arg(wanted.encode());
        match self.on_registry(&call).await?.as_slice() {
            [Value::BulkString(text)] => {
                let record = FieldRecord::decode(&String::from_utf8_lossy(text));
                record.map_err(|error| RedisUnavailable::of(format!("the record of the fields of {name}: {error}")))
            }
            _ => Err(RedisUnavailable::of("Redis does not say which fields a forest is read from")),
        }
    }

    /// Replaces identity and field record of a registered forest.
    pub(super) async fn declare(
        &self,
        name: &str,
        identity: &str,
        fields: &FieldRecord,
    ) -> Result<(), RedisUnavailable> {
        let mut call = Pipeline::with_capacity(1);
        let set = call.cmd("HSET").arg(FORESTS).arg(format!("identity:{name}")).arg(identity);
        set.arg(format!("fields:{name}")).arg(fields.encode());
        self.on_registry(&call).await?;
        for forest in self.registered.lock().iter_mut().filter(|forest| forest.name == name) {
            identity.clone_into(&mut forest.identity);
        }
        Ok(())
    }

    /// Requests the number and identity of a forest. `None`: there are as many as can be.
    async fn register(
        &self,
        name: &str,
        identity: &str,
        proposed: u8,
    ) -> Result<Option<(u8, String)>, RedisUnavailable> {
        let mut call = Pipeline::with_capacity(1);
        let enroll = call.cmd("FCALL").arg("spinney1_enroll").arg(1).arg(FORESTS);
        enroll.arg(name).arg(identity).arg(proposed).arg(MOST);
        let answer = self.on_registry(&call).await?;
        match answer.as_slice() {
            [Value::Nil] => Ok(None),
            [Value::Array(parts)] if let [Value::Int(number), Value::BulkString(identity)] = parts.as_slice() => {
                Ok(Some((*number as u8, String::from_utf8_lossy(identity).into_owned())))
            }
            _ => Err(RedisUnavailable::of("Redis does not say which number a forest has")),
        }
    }

    /// Sends commands to the node that has the registry. Without it no forest can be used, so what is wrong with its
    /// key is wrong with Redis.
    async fn on_registry(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisUnavailable> {
        let replies = self.on_key(FORESTS, commands, true).await;
        replies.map_err(|error| match error.extent {
            Extent::Key => RedisUnavailable::of(format!(
                "the key {} holds what spinney has not written ({error}): delete it, and forests are registered there \
                 again",
                FORESTS.escape_ascii()
            )),
            Extent::All | Extent::Memory { .. } => error,
        })
    }

    /// Name, number and identity of all forests.
    pub(super) async fn forests(&self) -> Result<Vec<(String, u8, String)>, RedisUnavailable> {
        let mut all = Pipeline::with_capacity(1);
        all.cmd("HGETALL").arg(FORESTS);
        let pairs = match self.on_registry(&all).await?.pop() {
            Some(Value::Array(values)) => values.as_chunks::<2>().0.iter().map(texts).collect(),
            Some(Value::Map(pairs)) => pairs.into_iter().map(|(a, b)| texts(&[a, b])).collect(),
            _ => Vec::new(),
        };
        let value_of = |field: String| {
            let found = pairs.iter().find(|(name, _)| *name == field);
            found.map(|(_, value)| value.clone())
        };
        let forests = pairs.iter().filter_map(|(field, number)| {
            let name = field.strip_prefix("number:")?;
            let identity = value_of(format!("identity:{name}"))?;
            Some((name.to_owned(), number.parse().ok()?, identity))
        });
        let mut forests: Vec<_> = forests.collect();
        forests.sort_unstable();
        Ok(forests)
    }

    /// Some keys of a forest.
    pub(super) async fn keys(
        &self,
        forest: u8,
        place: ScanPosition,
    ) -> Result<(Vec<Key>, Option<ScanPosition>), RedisUnavailable> {
        let nodes = self.nodes().await?;
        let Some(node) = nodes.each.get(place.node) else {
            return Ok((Vec::new(), None));
        };
        let answer = node.ask(&scan(forest, place.cursor)).await.map_err(away)?;
        let (cursor, keys) =
            read_scan(&answer).ok_or_else(|| RedisUnavailable::of("Redis gave no keys where it was asked for them"))?;
        let keys = keys.iter().filter_map(|key| match key {
            Value::BulkString(bytes) => Key::from_bytes(bytes),
            _ => None,
        });
        let keys = keys.filter(|key| key.forest == forest).collect();
        let next = match cursor {
            0 => ScanPosition { node: place.node + 1, cursor: 0 },
            _ => ScanPosition { cursor, ..place },
        };
        Ok((keys, (next.node < nodes.each.len()).then_some(next)))
    }
}

impl RegisteredForest {
    /// Whether a number and an identity are those of this forest.
    fn is_known_as(&self, (number, identity): &(u8, String)) -> bool {
        *number == self.number && agreement(identity, &self.wanted) != Agreement::Other
    }
}

impl Connections {
    /// Samples keys of a forest: all keys of a small node, those at a random position of a large one.
    pub(super) async fn sample(&self, forest: u8, seed: u64) -> Result<KeySample, RedisUnavailable> {
        let nodes = self.nodes().await?;
        let mut sample = KeySample::default();
        for (node, at) in nodes.each.iter().zip(0_u64..) {
            let size = node.ask(&redis::cmd("DBSIZE")).await.map_err(away)?;
            let Value::Int(size) = size else { continue };
            let size = usize::try_from(size).unwrap_or_default();
            let mut scan = redis::cmd("SCAN");
            match size <= SCAN_COUNT {
                true => scan.arg(0).arg("COUNT").arg(2 * SCAN_COUNT),
                false => scan.arg(splitmix64(seed ^ at)).arg("COUNT").arg(DRAWN),
            };
            let answer = node.ask(&scan).await.map_err(away)?;
            let (_, drawn) = read_scan(&answer).unwrap_or_default();
            let keys = drawn.iter().filter_map(|key| match key {
                Value::BulkString(bytes) => Some((bytes, Key::from_bytes(bytes)?)),
                _ => None,
            });
            let keys: Vec<_> = keys.filter(|(_, key)| key.forest == forest).collect();
            let mut lengths = Pipeline::with_capacity(keys.len());
            for (bytes, _) in &keys {
                lengths.cmd("STRLEN").arg(bytes.as_slice());
            }
            sample.keys += size;
            sample.of += drawn.len();
            if keys.is_empty() {
                continue;
            }
            // Keys of a slot that is on its way are at either node.
            let lengths = match nodes.is_cluster() {
                true => node.send_asking(&lengths).await,
                false => node.send(&lengths).await,
            };
            let lengths = lengths.map_err(away)?;
            let of = keys.iter().zip(lengths);
            sample.drawn.extend(of.filter_map(|((_, key), length)| match length {
                Value::Int(length) => Some((*key, usize::try_from(length).ok()?)),
                _ => None,
            }));
        }
        Ok(sample)
    }
}

fn scan(forest: u8, cursor: u64) -> Cmd {
    let mut pattern = Vec::with_capacity(3);
    if b"*?[]\\^-".contains(&forest) {
        pattern.push(b'\\');
    }
    pattern.extend([forest, b'*']);
    let mut scan = redis::cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern);
    scan.arg("COUNT").arg(SCAN_COUNT);
    scan
}

fn read_scan(answer: &Value) -> Option<(u64, &[Value])> {
    let Value::Array(parts) = answer else {
        return None;
    };
    let [cursor, Value::Array(keys)] = parts.as_slice() else {
        return None;
    };
    let cursor = match cursor {
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok()?,
        Value::Int(cursor) => u64::try_from(*cursor).ok()?,
        _ => return None,
    };
    Some((cursor, keys))
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

fn texts(pair: &[Value; 2]) -> (String, String) {
    let [field, value] = pair;
    (text(field), text(value))
}
