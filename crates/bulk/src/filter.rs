//! The servers' `filter_path`: the parts of a response that a client wants to see. spinney needs status, result and
//! index of every item, so it requests those as well and filters the response for the client.
//!
//! A filter is a list of paths. In a path, `*` matches any characters of a name and `**` any number of names; arrays
//! are transparent. A container is kept if anything in it is. Paths that begin with `-` exclude; filters with such
//! paths are left to the server.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::op::Op;

/// Paths that select the outcome of every item, to be appended to the parameter's value, percent-encoded where
/// necessary.
pub const OUTCOME_OF_ITEMS: &str = "%2Citems.*.status%2Citems.*.result%2Citems.*._index";

/// Bytes that the value of a parameter may have: the servers take 4 KiB for a whole request line.
const LONGEST_FILTER: usize = 4 << 10;

/// Names that all paths together may have: as many as a [`Positions`] has bits.
const MOST_NAMES: usize = u128::BITS as usize;

/// Deepest nesting of a response that is filtered. No answer of the servers has more than ten.
const DEEPEST: usize = 32;

/// The paths of one `filter_path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterPath {
    /// Names of all paths, one path after the other. Adjacent `**` of a path are collapsed: one means the same.
    names: Vec<Name>,
    /// Where paths begin.
    begin: Positions,
}

/// One name of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    pattern: String,
    is_any_number: bool,
    is_last: bool,
}

/// A set of positions in the paths of a filter, each of the next name to match. However the paths are made, there are
/// no more than names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Positions(u128);

impl Positions {
    fn insert(&mut self, at: usize) {
        self.0 |= 1_u128.checked_shl(at as u32).unwrap_or_default();
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Takes the first one out.
    fn take(&mut self) -> Option<usize> {
        let at = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (at < u128::BITS).then_some(at as usize)
    }
}

/// Decision of the filters on a member.
enum MemberKept {
    Whole,
    /// These positions apply to its content; the empty set drops it.
    Part(Positions),
}

impl FilterPath {
    /// Whether this filter is supported: short enough, without exclusions and escaped names. Allocates nothing.
    pub fn is_understood(value: &str) -> bool {
        let names = |path: &str| path.split('.').count();
        value.len() <= LONGEST_FILTER
            && !value.contains('\\')
            && paths(value).all(|path| !path.starts_with('-'))
            && (1..=MOST_NAMES).contains(&paths(value).map(names).sum())
    }

    /// Parses the decoded value of the parameter. `None` if it is not [understood](Self::is_understood): then only
    /// the server can apply it.
    pub fn parse(value: &str) -> Option<FilterPath> {
        if !Self::is_understood(value) {
            return None;
        }
        let mut filter = FilterPath { names: Vec::new(), begin: Positions::default() };
        for path in paths(value) {
            filter.begin.insert(filter.names.len());
            let mut names = path.split('.').peekable();
            while let Some(name) = names.next() {
                let is_any_number = name == "**";
                if is_any_number && names.peek() == Some(&"**") {
                    continue;
                }
                filter.names.push(Name { pattern: name.to_owned(), is_any_number, is_last: names.peek().is_none() });
            }
        }
        Some(filter)
    }

    /// Whether a response filtered in this way still contains [`OUTCOME_OF_ITEMS`].
    pub fn keeps_outcome(&self) -> bool {
        let fields = ["status", "result", "_index"];
        let mut paths = Op::ALL.iter().flat_map(|op| fields.map(|field| ["items", op.name(), field]));
        paths.all(|path| {
            let mut at = self.begin;
            for name in path {
                match self.step(at, name) {
                    MemberKept::Whole => return true,
                    MemberKept::Part(behind) => at = behind,
                }
            }
            false
        })
    }

    /// Applies the filter to a JSON object without white space between tokens, byte for byte. `None` if it is not an
    /// object, or is nested too deeply.
    pub fn apply(&self, json: &[u8]) -> Option<Vec<u8>> {
        let whole: &RawValue = serde_json::from_slice(json).ok()?;
        if !whole.get().starts_with('{') {
            return None;
        }
        let mut out = Vec::new();
        let filter = Filter { paths: self, at: self.begin, room: DEEPEST };
        if !filter.value(whole, &mut out).ok()? {
            out.extend_from_slice(b"{}");
        }
        Some(out)
    }

    /// Follows all paths by one name.
    fn step(&self, mut at: Positions, name: &str) -> MemberKept {
        let mut behind = Positions::default();
        while let Some(position) = at.take() {
            let Some(next) = self.names.get(position) else {
                continue;
            };
            if next.is_any_number {
                // The pattern matches this name and may match more names, or none.
                if next.is_last {
                    return MemberKept::Whole;
                }
                behind.insert(position);
                at.insert(position + 1);
            } else if matches(&next.pattern, name) {
                if next.is_last {
                    return MemberKept::Whole;
                }
                behind.insert(position + 1);
            }
        }
        MemberKept::Part(behind)
    }
}

/// The paths of a value.
fn paths(value: &str) -> impl Iterator<Item = &str> {
    let paths = value.split(',').map(str::trim);
    paths.filter(|path| !path.is_empty())
}

/// Whether a name fits a pattern with `*`s.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// A value with the positions of all paths.
#[derive(Clone, Copy)]
struct Filter<'f> {
    paths: &'f FilterPath,
    at: Positions,
    /// Objects and arrays that may still be entered.
    room: usize,
}

impl Filter<'_> {
    /// Writes the kept part of a value; false if nothing is kept and so nothing written.
    fn value(self, value: &RawValue, out: &mut Vec<u8>) -> serde_json::Result<bool> {
        let json = value.get();
        if !json.starts_with(['{', '[']) {
            return Ok(false);
        }
        let room = self.room.checked_sub(1);
        let room = room.ok_or_else(|| serde_json::Error::custom("the answer is too deep"))?;
        let parts = Parts { filter: Filter { room, ..self }, out };
        parts.deserialize(&mut serde_json::Deserializer::from_str(json))
    }
}

/// Filters the members of an object, or the values of an array, as they are read.
struct Parts<'f, 'o> {
    filter: Filter<'f>,
    out: &'o mut Vec<u8>,
}

impl Parts<'_, '_> {
    /// Appends one part, if it is kept.
    fn add<E: Error>(
        &mut self,
        open: u8,
        any: &mut bool,
        write: impl FnOnce(Filter<'_>, &mut Vec<u8>) -> serde_json::Result<bool>,
    ) -> Result<(), E> {
        let before = self.out.len();
        self.out.push(if *any { b',' } else { open });
        match write(self.filter, self.out).map_err(E::custom)? {
            true => *any = true,
            false => self.out.truncate(before),
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Parts<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Parts<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<M: MapAccess<'de>>(mut self, mut map: M) -> Result<bool, M::Error> {
        let mut any = false;
        while let Some(MemberName(name)) = map.next_key()? {
            let kept = self.filter.paths.step(self.filter.at, &name);
            if matches!(kept, MemberKept::Part(behind) if behind.is_empty()) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: &RawValue = map.next_value()?;
            self.add(b'{', &mut any, |filter, out| {
                serde_json::to_writer(&mut *out, &name)?;
                out.push(b':');
                match kept {
                    MemberKept::Whole => out.extend_from_slice(value.get().as_bytes()),
                    MemberKept::Part(at) => return Filter { at, ..filter }.value(value, out),
                }
                Ok(true)
            })?;
        }
        if any {
            self.out.push(b'}');
        }
        Ok(any)
    }

    fn visit_seq<S: SeqAccess<'de>>(mut self, mut values: S) -> Result<bool, S::Error> {
        let mut any = false;
        while let Some(value) = values.next_element::<&RawValue>()? {
            self.add(b'[', &mut any, |filter, out| filter.value(value, out))?;
        }
        if any {
            self.out.push(b']');
        }
        Ok(any)
    }
}

/// A name that is borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const ANSWER: &str = concat!(
        r#"{"took":3,"errors":true,"items":[{"index":{"_index":"a","_id":"1","status":201,"_shards":{"total":2}}},"#,
        r#"{"create":{"_index":"a","_id":"2","status":409,"error":{"type":"x","reason":"\u001F é","caused_by":{"type":"y"}}}}]}"#
    );

    fn filtered(filter: &str) -> String {
        let filter = FilterPath::parse(filter).unwrap();
        String::from_utf8(filter.apply(ANSWER.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn parts_of_an_answer() {
        for (filter, left) in [
            ("took", r#"{"took":3}"#),
            ("took,errors", r#"{"took":3,"errors":true}"#),
            ("errors, took", r#"{"took":3,"errors":true}"#),
            ("nothing", "{}"),
            ("took.x", "{}"),
            ("items.*.status", r#"{"items":[{"index":{"status":201}},{"create":{"status":409}}]}"#),
            ("items.create._id", r#"{"items":[{"create":{"_id":"2"}}]}"#),
            (
                "items.*.error",
                r#"{"items":[{"create":{"error":{"type":"x","reason":"\u001F é","caused_by":{"type":"y"}}}}]}"#,
            ),
            ("**.type", r#"{"items":[{"create":{"error":{"type":"x","caused_by":{"type":"y"}}}}]}"#),
            ("items.**.t*l", r#"{"items":[{"index":{"_shards":{"total":2}}}]}"#),
            ("*", ANSWER),
            ("**", ANSWER),
            ("**.**", ANSWER),
            ("**.**.type,took.**.**", r#"{"items":[{"create":{"error":{"type":"x","caused_by":{"type":"y"}}}}]}"#),
            ("t*k,e*", r#"{"took":3,"errors":true}"#),
        ] {
            assert_eq!(filtered(filter), left, "{filter}");
        }
        assert_eq!(FilterPath::parse("took,-items"), None);
        assert_eq!(FilterPath::parse("a\\.b"), None);
        assert_eq!(FilterPath::parse(" ,"), None);
        let filter = FilterPath::parse("took").unwrap();
        for broken in ["", "[]", "{", r#"{"took":}"#, "3"] {
            assert_eq!(filter.apply(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn filters_that_keep_every_outcome() {
        for (filter, keeps) in [
            ("took", false),
            ("items", true),
            ("items.*", true),
            ("items.*.status", false),
            ("items.*.result,items.*.status", false),
            ("items.*.result,items.*.status,items.*._*", true),
            ("items.*.error,items.*.s*,items.*.*t,items.*._i*", true),
            ("items.index.status", false),
            ("items.*.error", false),
            ("**.status,**.result,**._index", true),
            ("*", true),
        ] {
            let filter = FilterPath::parse(filter).unwrap();
            assert_eq!(filter.keeps_outcome(), keeps, "{filter:?}");
        }
    }

    /// However a filter is made, it takes as many places as it has names, and a step looks at each of them once.
    #[test]
    fn filters_have_an_end() {
        let of = |name: &str, count: usize| [vec![name; count - 1], vec!["x"]].concat().join(".");
        for name in ["**", "*", "a", "**.*", "*.**"] {
            let names = name.split('.').count();
            let most = of(name, MOST_NAMES / names);
            assert!(FilterPath::parse(&most).is_some(), "{most}");
            assert_eq!(FilterPath::parse(&of(name, MOST_NAMES + 1)), None, "{name}");
            let filter = FilterPath::parse(&most).unwrap();
            assert!(filter.apply(ANSWER.as_bytes()).is_some());
            assert!(!filter.keeps_outcome());
        }
        let many = FilterPath::parse(&vec!["**.x"; MOST_NAMES / 2].join(",")).unwrap();
        assert_eq!(many.names.len(), MOST_NAMES);
        assert_eq!(FilterPath::parse(&vec!["**.x"; MOST_NAMES / 2 + 1].join(",")), None);
        let collapsed = FilterPath::parse(&of("**", MOST_NAMES)).unwrap();
        assert_eq!(collapsed.names.len(), 2);
        let long = |bytes: usize| FilterPath::is_understood(&"a".repeat(bytes));
        assert!(long(LONGEST_FILTER) && !long(LONGEST_FILTER + 1));
        // The servers' line has room for 1,300 of them.
        assert!(!FilterPath::is_understood(&vec!["**"; 1300].join(".")));
    }

    #[test]
    fn answers_that_are_too_deep_are_left_alone() {
        let filter = FilterPath::parse("**.x").unwrap();
        let nested = |depth: usize| {
            let inner = format!("{}1{}", "[".repeat(depth - 1), "]".repeat(depth - 1));
            format!(r#"{{"a":{inner}}}"#)
        };
        assert_eq!(filter.apply(nested(DEEPEST).as_bytes()), Some(b"{}".to_vec()));
        assert_eq!(filter.apply(nested(DEEPEST + 1).as_bytes()), None);
        assert_eq!(filter.apply(nested(100_000).as_bytes()), None);
    }

    /// Every path of a value on which filters were decided one name at a time, by looking at whole paths.
    fn naive(value: &Value, filters: &[Vec<String>], at: &mut Vec<String>) -> Option<Value> {
        fn fits(filter: &[String], path: &[String]) -> bool {
            match filter.split_first() {
                None => true,
                Some((first, rest)) if first == "**" => {
                    (0..=path.len()).any(|skip| fits(rest, &path[skip..]) && (skip > 0 || !rest.is_empty()))
                }
                Some((first, rest)) => {
                    path.split_first().is_some_and(|(name, path)| matches(first, name) && fits(rest, path))
                }
            }
        }
        if !at.is_empty() && filters.iter().any(|filter| fits(filter, at)) {
            return Some(value.clone());
        }
        match value {
            Value::Object(members) => {
                let mut left = serde_json::Map::new();
                for (name, value) in members {
                    at.push(name.clone());
                    if let Some(value) = naive(value, filters, at) {
                        left.insert(name.clone(), value);
                    }
                    at.pop();
                }
                (!left.is_empty()).then_some(Value::Object(left))
            }
            Value::Array(values) => {
                let left: Vec<Value> = values
                    .iter()
                    .filter(|value| value.is_object() || value.is_array())
                    .filter_map(|value| naive(value, filters, at))
                    .collect();
                (!left.is_empty()).then_some(Value::Array(left))
            }
            _ => None,
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(1)), Just(json!("x"))];
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
                prop::collection::btree_map("[abc]{1,2}", inner, 0..3)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn filters_as_the_naive_model_does(
            members in prop::collection::btree_map("[abc]{1,2}", value(), 0..4),
            filters in prop::collection::vec(prop::collection::vec("[abc*]|\\*\\*|[abc]\\*", 1..4), 1..4),
        ) {
            let whole = Value::Object(members.into_iter().collect());
            let text = filters.iter().map(|path| path.join(".")).collect::<Vec<_>>().join(",");
            let left = FilterPath::parse(&text).unwrap().apply(whole.to_string().as_bytes()).unwrap();
            let expected = naive(&whole, &filters, &mut Vec::new()).unwrap_or_else(|| json!({}));
            prop_assert_eq!(String::from_utf8(left).unwrap(), expected.to_string(), "{}", text);
        }
    }
}
