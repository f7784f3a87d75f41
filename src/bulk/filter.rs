//! The servers' `filter_path`: which parts of an answer a caller wants to see. spinney needs status and result of every item, and
//! which document it is, whatever the caller asked for; it asks for that too, and then gives the caller what the caller asked for.
//!
//! A filter is a list of paths. In a path, `*` stands for any characters of a name and `**` for any number of names; arrays
//! are looked through. A container is there if anything in it is. Paths that begin with `-` exclude; filters with such
//! paths are left to the server.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::op::Op;

/// What makes the server tell what became of every item: to be added to the value of the parameter, percent-encoded where it
/// must be.
pub const OUTCOME_OF_ITEMS: &str =
    "%2Citems.*.status%2Citems.*.result%2Citems.*._index%2Citems.*._id%2Citems.*._seq_no";

/// The paths of one `filter_path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterPath(Vec<Vec<String>>);

/// The rest of a path behind the names that have been matched.
type Rest<'f> = &'f [String];

/// What filters say of a member.
enum Kept<'f> {
    Whole,
    /// What these say of what is in it; nothing if there are none.
    Part(Vec<Rest<'f>>),
}

impl FilterPath {
    /// Reads the decoded value of the parameter. `None` if it excludes, or has a name that is escaped: then the server alone
    /// knows what it means.
    pub fn parse(value: &str) -> Option<FilterPath> {
        if value.contains('\\') {
            return None;
        }
        let mut paths = Vec::new();
        for path in value.split(',').map(str::trim) {
            if path.starts_with('-') {
                return None;
            }
            if !path.is_empty() {
                paths.push(path.split('.').map(str::to_owned).collect());
            }
        }
        (!paths.is_empty()).then_some(FilterPath(paths))
    }

    /// Whether the answer to a bulk has in spite of this filter what [`OUTCOME_OF_ITEMS`] asks for.
    pub fn keeps_outcome(&self) -> bool {
        let fields = ["status", "result", "_index", "_id", "_seq_no"];
        let mut paths = Op::ALL
            .iter()
            .flat_map(|op| fields.map(|field| ["items", op.name(), field]));
        paths.all(|path| {
            let mut filters = self.paths();
            for name in path {
                match step(&filters, name) {
                    Kept::Whole => return true,
                    Kept::Part(rest) => filters = rest,
                }
            }
            false
        })
    }

    /// What the filter leaves of a JSON object that has no white space between its tokens, byte for byte as it stood there.
    /// `None` if it is no JSON object.
    pub fn apply(&self, json: &[u8]) -> Option<Vec<u8>> {
        let whole: &RawValue = serde_json::from_slice(json).ok()?;
        if !whole.get().starts_with('{') {
            return None;
        }
        let mut out = Vec::new();
        if !filter(whole, &self.paths(), &mut out)? {
            out.extend_from_slice(b"{}");
        }
        Some(out)
    }

    fn paths(&self) -> Vec<Rest<'_>> {
        self.0.iter().map(Vec::as_slice).collect()
    }
}

/// Follows all paths by one name.
fn step<'f>(filters: &[Rest<'f>], name: &str) -> Kept<'f> {
    let mut rest: Vec<Rest<'f>> = Vec::new();
    for &path in filters {
        let mut path = path;
        // `**` stands for this name and may stand for more, or for none.
        while let Some((first, behind)) = path.split_first() {
            if first != "**" {
                break;
            }
            if behind.is_empty() {
                return Kept::Whole;
            }
            rest.push(path);
            path = behind;
        }
        if let Some((first, behind)) = path.split_first()
            && matches(first, name)
        {
            if behind.is_empty() {
                return Kept::Whole;
            }
            rest.push(behind);
        }
    }
    rest.dedup();
    Kept::Part(rest)
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

/// Writes what filters leave of a value; false, and nothing written, if that is nothing. `None`: the value is broken.
fn filter(value: &RawValue, filters: &[Rest<'_>], out: &mut Vec<u8>) -> Option<bool> {
    let start = out.len();
    let mut any = false;
    match value.get().as_bytes().first()? {
        b'{' => {
            let members: Members<'_> = serde_json::from_str(value.get()).ok()?;
            for (name, value) in members.0 {
                let before = out.len();
                out.push(if any { b',' } else { b'{' });
                serde_json::to_writer(&mut *out, &name).ok()?;
                out.push(b':');
                let kept = match step(filters, &name) {
                    Kept::Whole => {
                        out.extend_from_slice(value.get().as_bytes());
                        true
                    }
                    Kept::Part(rest) if rest.is_empty() => false,
                    Kept::Part(rest) => filter(value, &rest, out)?,
                };
                any |= kept;
                if !kept {
                    out.truncate(before);
                }
            }
            if any {
                out.push(b'}');
            }
        }
        b'[' => {
            let values: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
            for value in values {
                let before = out.len();
                out.push(if any { b',' } else { b'[' });
                let kept = filter(value, filters, out)?;
                any |= kept;
                if !kept {
                    out.truncate(before);
                }
            }
            if any {
                out.push(b']');
            }
        }
        _ => {}
    }
    if !any {
        out.truncate(start);
    }
    Some(any)
}

/// The members of an object in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members<'de>, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    members.push((member.0.0, member.1));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// A name that is borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

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
            (
                "items.*.status",
                r#"{"items":[{"index":{"status":201}},{"create":{"status":409}}]}"#,
            ),
            ("items.create._id", r#"{"items":[{"create":{"_id":"2"}}]}"#),
            (
                "items.*.error",
                r#"{"items":[{"create":{"error":{"type":"x","reason":"\u001F é","caused_by":{"type":"y"}}}}]}"#,
            ),
            (
                "**.type",
                r#"{"items":[{"create":{"error":{"type":"x","caused_by":{"type":"y"}}}}]}"#,
            ),
            (
                "items.**.t*l",
                r#"{"items":[{"index":{"_shards":{"total":2}}}]}"#,
            ),
            ("*", ANSWER),
            ("**", ANSWER),
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
            (
                "items.*.error,items.*.s*,items.*.*t,items.*._i*,items.*._seq_no",
                true,
            ),
            ("items.index.status", false),
            ("items.*.error", false),
            ("**.status,**.result,**._id,**._index,**._seq_no", true),
            ("*", true),
        ] {
            let filter = FilterPath::parse(filter).unwrap();
            assert_eq!(filter.keeps_outcome(), keeps, "{filter:?}");
        }
    }

    /// Every path of a value on which filters were decided one name at a time, by looking at whole paths.
    fn naive(value: &Value, filters: &[Vec<String>], at: &mut Vec<String>) -> Option<Value> {
        fn fits(filter: &[String], path: &[String]) -> bool {
            match filter.split_first() {
                None => true,
                Some((first, rest)) if first == "**" => (0..=path.len())
                    .any(|skip| fits(rest, &path[skip..]) && (skip > 0 || !rest.is_empty())),
                Some((first, rest)) => path
                    .split_first()
                    .is_some_and(|(name, path)| matches(first, name) && fits(rest, path)),
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
