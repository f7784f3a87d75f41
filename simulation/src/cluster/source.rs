//! JSON as the servers read and filter it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, json};
use spinney::forest::index_pattern::fits;

/// A value in which no object has a key twice: the servers refuse such ones.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Strict, D::Error> {
        from.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Strict, A::Error> {
        let mut array = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Strict(array.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Strict, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let Strict(value) = members.next_value()?;
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("Duplicate field '{key}'")));
            }
            object.insert(key, value);
        }
        Ok(Strict(object.into()))
    }
}

/// Parses JSON; an error names a key that an object has twice.
pub(super) fn parse(text: &[u8]) -> Result<Value, String> {
    let parsed: Result<Strict, _> = serde_json::from_slice(text);
    parsed.map(|Strict(value)| value).map_err(|error| error.to_string())
}

/// The values of a field, by its dotted name; arrays are transparent.
pub(super) fn values<'v>(source: &'v Value, path: &str, into: &mut Vec<&'v Value>) {
    match source {
        Value::Array(items) => items.iter().for_each(|item| values(item, path, into)),
        Value::Object(members) => {
            for (key, value) in members {
                if key == path {
                    leaves_of(value, into);
                } else if let Some(rest) = path.strip_prefix(&**key).and_then(|rest| rest.strip_prefix('.')) {
                    values(value, rest, into);
                }
            }
        }
        _ => {}
    }
}

fn leaves_of<'v>(value: &'v Value, into: &mut Vec<&'v Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| leaves_of(item, into)),
        Value::Null | Value::Object(_) => {}
        leaf => into.push(leaf),
    }
}

/// The dotted names of all fields with a value, each with its values one by one.
pub(super) fn fields<'v>(source: &'v Value, prefix: &str, into: &mut Vec<(String, &'v Value)>) {
    match source {
        Value::Object(members) => {
            for (key, value) in members {
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                fields(value, &name, into);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fields(item, prefix, into)),
        Value::Null => {}
        leaf => into.push((prefix.to_owned(), leaf)),
    }
}

/// Puts the members of an object over those of another, object by object.
pub(super) fn merge(over: &mut Value, with: &Value) {
    match (over, with) {
        (Value::Object(over), Value::Object(with)) => {
            for (key, value) in with {
                match over.get_mut(key) {
                    Some(under) => merge(under, value),
                    None => drop(over.insert(key.clone(), value.clone())),
                }
            }
        }
        (over, with) => *over = with.clone(),
    }
}

/// The parts of a response that a `filter_path` names.
pub(super) fn filtered(value: &Value, filter: &str) -> Value {
    let paths = filter.split(',').filter(|path| !path.is_empty());
    let (excluded, included): (Vec<&str>, Vec<&str>) = paths.partition(|path| path.starts_with('-'));
    let excluded: Vec<&str> = excluded.into_iter().map(|path| &path[1..]).collect();
    Names::Whole.select(value, &included, &excluded)
}

/// Of a source the fields that are included, all if there are none, without those that are excluded.
pub(super) fn shown(source: &Value, included: &[&str], excluded: &[&str]) -> Value {
    Names::Dotted.select(source, included, excluded)
}

/// What a dot in a key is.
#[derive(Clone, Copy, PartialEq)]
enum Names {
    /// A part of the name.
    Whole,
    /// What is between an object and its member.
    Dotted,
}

fn borrowed(paths: &[Vec<String>]) -> Vec<&[String]> {
    paths.iter().map(Vec::as_slice).collect()
}

impl Names {
    fn select(self, value: &Value, included: &[&str], excluded: &[&str]) -> Value {
        let paths = |of: &[&str]| -> Vec<Vec<String>> {
            of.iter().map(|path| path.split('.').map(str::to_owned).collect()).collect()
        };
        let (included, excluded) = (paths(included), paths(excluded));
        let mut kept = match included.is_empty() {
            true => value.clone(),
            false => self.keep(value, &borrowed(&included)).unwrap_or_else(|| json!({})),
        };
        if !excluded.is_empty() {
            self.remove(&mut kept, &borrowed(&excluded));
        }
        kept
    }

    /// What comes of paths behind a name; `None`: one of them ends there.
    fn behind<'p>(self, paths: &[&'p [String]], name: &str) -> Option<Vec<&'p [String]>> {
        let mut paths = paths.to_vec();
        let parts = if self == Names::Dotted { name.split('.').collect() } else { vec![name] };
        for part in parts {
            let mut next = Vec::new();
            for path in paths {
                if ends(path, part, &mut next) {
                    return None;
                }
            }
            paths = next;
        }
        Some(paths)
    }

    fn keep(self, value: &Value, paths: &[&[String]]) -> Option<Value> {
        match value {
            Value::Array(items) => {
                let kept: Vec<Value> = items.iter().filter_map(|item| self.keep(item, paths)).collect();
                (!kept.is_empty()).then(|| kept.into())
            }
            Value::Object(members) => {
                let kept = members.iter().filter_map(|(key, value)| match self.behind(paths, key) {
                    None => Some((key.clone(), value.clone())),
                    Some(next) => Some((key.clone(), self.keep(value, &next)?)),
                });
                let kept: Map<String, Value> = kept.collect();
                (!kept.is_empty()).then(|| kept.into())
            }
            _ => None,
        }
    }

    fn remove(self, value: &mut Value, paths: &[&[String]]) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.remove(item, paths)),
            Value::Object(members) => {
                let before = std::mem::take(members);
                for (key, mut value) in before {
                    if let Some(next) = self.behind(paths, &key) {
                        self.remove(&mut value, &next);
                        members.insert(key, value);
                    }
                }
            }
            _ => {}
        }
    }
}

fn ends<'p>(path: &'p [String], name: &str, next: &mut Vec<&'p [String]>) -> bool {
    match path {
        [] => false,
        [any, rest @ ..] if any == "**" => {
            next.push(path);
            rest.is_empty() || ends(rest, name, next)
        }
        [first, rest @ ..] if fits(first, name) => {
            next.push(rest);
            rest.is_empty()
        }
        _ => false,
    }
}
