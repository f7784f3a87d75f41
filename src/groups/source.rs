//! The source of a document in the cluster's response.

use serde_json::Value;

/// The values of a field, each of a list; it is reached by nested objects, by a dotted name, or by a mixture of both.
pub(crate) fn values<'v>(source: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut found = Vec::new();
    collect(source, path, &mut found);
    found
}

fn collect<'v>(value: &'v Value, path: &str, found: &mut Vec<&'v Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, path, found)),
        Value::Object(members) => {
            for (name, member) in members {
                let Some(rest) = path.strip_prefix(name.as_str()) else {
                    continue;
                };
                match rest.strip_prefix('.') {
                    Some(rest) => collect(member, rest, found),
                    None if rest.is_empty() => collect(member, rest, found),
                    None => {}
                }
            }
        }
        value if path.is_empty() => found.push(value),
        _ => {}
    }
}
