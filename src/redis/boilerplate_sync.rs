//! Boilerplate sync between processes: a stream per forest, whose entries have one field.

use redis::{Pipeline, Value};

use super::connections::{Connections, PAUSE, TRIES};
use super::error_hints::away;
use super::pipeline::{self, CommandReply};
use super::sleep;
use crate::forest::shared::keys::{StoreUnavailable, SyncEntries, SyncEntry, SyncPosition};

/// Lessons that are read at once.
const AT_ONCE: usize = 256;

fn key_of(forest: u8) -> String {
    format!("spinney:lessons:{forest}")
}

impl Connections {
    /// Removes all sync entries of a forest, while no process adds any. Not retried at a node that has just taken
    /// over.
    pub(super) async fn forget_lessons(&self, forest: u8) -> Result<(), StoreUnavailable> {
        let (key, nodes) = (key_of(forest), self.nodes().await?);
        let mut remove = redis::cmd("DEL");
        remove.arg(&key);
        if let Some(node) = nodes.each.get(nodes.node_of(key.as_bytes())) {
            node.ask(&remove).await.map_err(away)?;
        }
        Ok(())
    }

    /// Adds a lesson to those of a forest, if there is one, and reads those after one. A lesson that was sent is not
    /// sent again: it would count twice.
    pub(super) async fn lessons(
        &self,
        forest: u8,
        lesson: Option<&SyncEntry>,
        after: SyncPosition,
    ) -> Result<SyncEntries, StoreUnavailable> {
        let key = key_of(forest);
        let mut commands = Pipeline::with_capacity(3);
        if let Some(lesson) = lesson {
            let add = commands.cmd("XADD").arg(&key);
            add.arg("MAXLEN").arg("~").arg(lesson.most).arg("*");
            add.arg("l").arg(lesson.bytes.as_slice());
            if let Some(life) = lesson.life {
                commands.cmd("PEXPIRE").arg(&key).arg(life.0.max(1));
            }
        }
        let from = format!("({}-{}", after.0, after.1);
        let read = commands.cmd("XRANGE").arg(&key).arg(from).arg("+");
        read.arg("COUNT").arg(AT_ONCE);
        let mut last = StoreUnavailable::of("the engine does not say which node has the lessons");
        for _ in 0..TRIES {
            let nodes = self.nodes().await?;
            let Some(node) = nodes.each.get(nodes.node_of(key.as_bytes())) else {
                break;
            };
            let mut values = match node.send(&commands).await {
                Ok(values) => values,
                Err(error) => {
                    self.forget_nodes().await;
                    return Err(away(error));
                }
            };
            let read = values.pop().unwrap_or(Value::Nil);
            // Nothing was done where the first of them was not.
            let first = match values.is_empty() {
                true => &read,
                false => values.first().unwrap_or(&read),
            };
            if let Value::ServerError(_) = first {
                match pipeline::read(first.clone()) {
                    CommandReply::Failed(reason) => return Err(StoreUnavailable::of(reason)),
                    CommandReply::Full(reason) => return Err(StoreUnavailable::full(reason)),
                    _ => {
                        last = StoreUnavailable::of("the lessons are on their way to another node");
                    }
                }
                self.forget_nodes().await;
                sleep(PAUSE).await;
                continue;
            }
            return read_lessons(read)
                .ok_or_else(|| StoreUnavailable::of("the engine gave no lessons where it was asked for them"));
        }
        Err(last)
    }
}

/// `[[id, [field, value]], …]`
fn read_lessons(value: Value) -> Option<SyncEntries> {
    let entries = match value {
        Value::Array(entries) => entries,
        Value::Nil => Vec::new(),
        _ => return None,
    };
    let is_all = entries.len() < AT_ONCE;
    let entry = |entry: Value| {
        let Value::Array(entry) = entry else {
            return None;
        };
        let mut entry = entry.into_iter();
        let (Some(Value::BulkString(id)), Some(Value::Array(pair))) = (entry.next(), entry.next()) else {
            return None;
        };
        let (millis, number) = std::str::from_utf8(&id).ok()?.split_once('-')?;
        let place = SyncPosition(millis.parse().ok()?, number.parse().ok()?);
        match pair.into_iter().nth(1) {
            Some(Value::BulkString(bytes)) => Some((place, bytes)),
            _ => None,
        }
    };
    let lessons: Option<Vec<_>> = entries.into_iter().map(entry).collect();
    Some((lessons?, is_all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lessons_are_read_with_their_places() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let entry = |id, lesson| Value::Array(vec![text(id), Value::Array(vec![text("l"), text(lesson)])]);
        let two = Value::Array(vec![entry("7-0", "a"), entry("7-12", "b")]);
        let read = vec![(SyncPosition(7, 0), b"a".to_vec()), (SyncPosition(7, 12), b"b".to_vec())];
        assert_eq!(read_lessons(two), Some((read, true)));
        assert_eq!(read_lessons(Value::Array(vec![])), Some((vec![], true)));
        let many = Value::Array(vec![entry("1-1", "x"); AT_ONCE]);
        assert!(read_lessons(many).is_some_and(|(_, is_all)| !is_all));
        assert_eq!(read_lessons(Value::Int(7)), None);
    }
}
