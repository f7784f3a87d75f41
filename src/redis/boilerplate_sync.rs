//! Boilerplate sync between processes: a stream per forest, whose entries have one field.

use redis::{Pipeline, Value};

use super::connections::Connections;
use crate::forest::shared::keys::{LATEST, RedisUnavailable, SyncEntries, SyncEntry, SyncPosition};

/// Lessons that are read at once.
const AT_ONCE: usize = 256;

fn key_of(forest: u8) -> String {
    format!("spinney:lessons:{forest}")
}

impl Connections {
    /// Removes all sync entries of a forest, while no process adds any.
    pub(super) async fn forget_lessons(&self, forest: u8) -> Result<(), RedisUnavailable> {
        self.check_registered(|known| known.number == forest).await?;
        let key = key_of(forest);
        let mut remove = Pipeline::with_capacity(1);
        remove.cmd("DEL").arg(&key);
        self.on_key(key.as_bytes(), &remove, true).await.map(drop)
    }

    /// Adds a lesson to those of a forest, if there is one, and reads those from a position on. A lesson that was sent
    /// is not sent again: it would count twice.
    pub(super) async fn lessons(
        &self,
        forest: u8,
        lesson: Option<&SyncEntry>,
        from: SyncPosition,
    ) -> Result<SyncEntries, RedisUnavailable> {
        // One that is added would be one of whatever forest has this number.
        let asked = self.lessons_unchecked(forest, lesson, from);
        self.if_registered(|known| known.number == forest, lesson.is_some(), asked).await
    }

    async fn lessons_unchecked(
        &self,
        forest: u8,
        lesson: Option<&SyncEntry>,
        from: SyncPosition,
    ) -> Result<SyncEntries, RedisUnavailable> {
        let key = key_of(forest);
        let read = |commands: &mut Pipeline| {
            let lessons = commands.cmd("FCALL").arg("spinney1_lessons").arg(1).arg(&key);
            lessons.arg(format!("{}-{}", from.0, from.1)).arg(AT_ONCE);
        };
        let mut commands = Pipeline::with_capacity(3);
        if let Some(lesson) = lesson {
            let add = commands.cmd("XADD").arg(&key);
            add.arg("MAXLEN").arg("~").arg(lesson.most).arg("*");
            add.arg("l").arg(lesson.bytes.as_slice());
            if let Some(life) = lesson.life {
                commands.cmd("PEXPIRE").arg(&key).arg(life.0.clamp(1, LATEST));
            }
        }
        read(&mut commands);
        let mut reply = self.on_key(key.as_bytes(), &commands, lesson.is_none()).await?.pop();
        if let Some(Value::ServerError(_)) = reply {
            // The log has moved since the lesson was added.
            let mut commands = Pipeline::with_capacity(1);
            read(&mut commands);
            reply = self.on_key(key.as_bytes(), &commands, true).await?.pop();
        }
        reply
            .and_then(read_lessons)
            .ok_or_else(|| RedisUnavailable::of("Redis gave no lessons where it was asked for them"))
    }
}

/// Parses `[[id, [field, value]], …]`; the first entry may be its id only.
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
            None => Some((place, Vec::new())),
            Some(_) => None,
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
        let known = Value::Array(vec![text("6-1"), Value::Array(vec![])]);
        let three = Value::Array(vec![known, entry("7-0", "a"), entry("7-12", "b")]);
        let read = vec![(6, 1, ""), (7, 0, "a"), (7, 12, "b")];
        let read = read.into_iter().map(|(millis, n, text)| (SyncPosition(millis, n), text.as_bytes().to_vec()));
        assert_eq!(read_lessons(three), Some((read.collect(), true)));
        assert_eq!(read_lessons(Value::Array(vec![])), Some((vec![], true)));
        let many = Value::Array(vec![entry("1-1", "x"); AT_ONCE]);
        assert!(read_lessons(many).is_some_and(|(_, is_all)| !is_all));
        assert_eq!(read_lessons(Value::Int(7)), None);
    }
}
