//! Fields to read from a document and names of its stamp, compiled once per route.

use std::str::FromStr;

/// The fields of a route, each as the server names it: `"title"`, or dotted `"article.body"`, which is reached by
/// nested objects, by a dotted key, or by a mixture of both.
#[derive(Debug, Clone, Copy, Default)]
pub struct FieldNames<'a> {
    /// The fields that make up the text, 64 at most.
    pub text: &'a [&'a str],
    /// The headline.
    pub title: Option<&'a str>,
    /// The address that it was published under.
    pub url: Option<&'a str>,
    /// The id, where no action line names one.
    pub id: Option<&'a str>,
    /// The document's own date.
    pub clock: Option<&'a str>,
    /// The field of a fingerprint that documents contain.
    pub own: Option<&'a str>,
}

/// Which of the selected fields a value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Selected {
    /// A text field, by its index in [`FieldNames::text`].
    Text(u8),
    /// [`FieldNames::title`].
    Title,
    /// [`FieldNames::url`].
    Url,
    /// [`FieldNames::id`].
    Id,
    /// [`FieldNames::clock`].
    Clock,
    /// [`FieldNames::own`].
    Own,
}

/// Why fields or a prefix can't be used: a mistake in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// More text fields than 64.
    #[error("{count} text fields are configured; configure at most {MAX_TEXT_FIELDS}")]
    TooManyTextFields {
        /// The number of fields.
        count: usize,
    },
    /// A field name with an empty part.
    #[error("the field name {path:?} is empty between its dots; write it as the index mapping names it")]
    EmptyName {
        /// The whole field name.
        path: String,
    },
    /// A prefix that [`StampNames::new`] refuses.
    #[error("the stamp prefix {prefix:?} cannot be used: begin with a letter, and use letters, digits, '_' and '-'")]
    Prefix {
        /// The prefix.
        prefix: String,
    },
}

/// The most text fields one route can have.
const MAX_TEXT_FIELDS: usize = 64;

/// The endings of the stamp's names, after the prefix.
const ENDINGS: [&str; 6] = ["root", "key", "hash", "arrival", "proof", "first"];

/// The names of the stamp's members in a document: `cluster_root` and so on. They have a prefix in common, which the
/// user may choose; this type is where it is checked, and parsing is [`StampNames::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StampNames {
    prefix: String,
    names: [String; ENDINGS.len()],
}

impl StampNames {
    /// The names that begin with `prefix`.
    ///
    /// # Errors
    /// The prefix has other characters than ASCII letters, digits, `_` and `-`: a dot would make the stamp reachable by
    /// nested objects as well, anything else might need escapes. It begins with a letter, as the servers keep `_` for
    /// themselves.
    pub fn new(prefix: &str) -> Result<Self, SelectionError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !prefix.starts_with(|first: char| first.is_ascii_alphabetic()) || !prefix.bytes().all(plain) {
            return Err(SelectionError::Prefix { prefix: prefix.to_owned() });
        }
        let names = ENDINGS.map(|ending| format!("{prefix}{ending}"));
        Ok(StampNames { prefix: prefix.to_owned(), names })
    }

    /// Names that no member has.
    fn of_none() -> StampNames {
        StampNames { prefix: "\0".into(), names: Default::default() }
    }

    /// Common prefix of the names.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The root fingerprint, 16 hex digits.
    pub fn root(&self) -> &str {
        let [root, ..] = &self.names;
        root
    }

    /// The root fingerprint as a signed number.
    pub fn key(&self) -> &str {
        let [_, key, ..] = &self.names;
        key
    }

    /// The document's own fingerprints.
    pub(super) fn hash(&self) -> &str {
        let [_, _, hash, ..] = &self.names;
        hash
    }

    /// When the document was stamped.
    pub fn arrival(&self) -> &str {
        let [_, _, _, arrival, ..] = &self.names;
        arrival
    }

    /// Name of the proof's member.
    pub(super) fn proof(&self) -> &str {
        let [.., proof, _] = &self.names;
        proof
    }

    /// Whether the document is the first one of its group.
    pub fn first(&self) -> &str {
        let [.., first] = &self.names;
        first
    }

    /// One bit per stamp member: the bit of the member with this name, if it is one.
    #[inline]
    pub(super) fn bit(&self, name: &[u8]) -> Option<u8> {
        let ending = name.strip_prefix(self.prefix.as_bytes())?;
        ENDINGS.iter().position(|known| known.as_bytes() == ending).map(|index| 1 << index)
    }
}

impl FromStr for StampNames {
    type Err = SelectionError;

    fn from_str(prefix: &str) -> Result<StampNames, SelectionError> {
        StampNames::new(prefix)
    }
}

/// The fields of a route as a trie of names, and the names of its stamp.
#[derive(Debug, Clone)]
pub struct Selection {
    nodes: Vec<FieldNode>,
    names: StampNames,
}

/// A node of the trie of field names.
#[derive(Debug, Clone, Default)]
struct FieldNode {
    children: Vec<(Box<[u8]>, FieldPath)>,
    selected: Vec<Selected>,
}

/// A path of keys that leads to a selected field or further: the number of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldPath(u16);

impl FieldPath {
    /// The document itself, before any key.
    pub(super) const TOP: FieldPath = FieldPath(0);
}

impl Selection {
    /// Compiles the fields of a route; `prefix` begins the names of the stamp.
    ///
    /// # Errors
    /// More text fields than 64, a field name with an empty part, or a prefix that [`StampNames::new`] refuses.
    pub fn new(fields: &FieldNames<'_>, prefix: &str) -> Result<Self, SelectionError> {
        Selection::of(fields, StampNames::new(prefix)?)
    }

    /// A selection for documents that are only read: members of their stamps are ordinary fields.
    ///
    /// # Errors
    /// As [`new`](Selection::new).
    pub fn of_stored(fields: &FieldNames<'_>) -> Result<Self, SelectionError> {
        Selection::of(fields, StampNames::of_none())
    }

    fn of(fields: &FieldNames<'_>, names: StampNames) -> Result<Self, SelectionError> {
        let mut selection = Selection { nodes: vec![FieldNode::default()], names };
        if fields.text.len() > MAX_TEXT_FIELDS {
            return Err(SelectionError::TooManyTextFields { count: fields.text.len() });
        }
        for (index, path) in (0u8..).zip(fields.text) {
            selection.add(path, Selected::Text(index))?;
        }
        let single = [
            (fields.title, Selected::Title),
            (fields.url, Selected::Url),
            (fields.id, Selected::Id),
            (fields.clock, Selected::Clock),
            (fields.own, Selected::Own),
        ];
        for (path, selected) in single {
            if let Some(path) = path {
                selection.add(path, selected)?;
            }
        }
        Ok(selection)
    }

    /// The names of the stamp's members.
    pub fn names(&self) -> &StampNames {
        &self.names
    }

    fn add(&mut self, path: &str, selected: Selected) -> Result<(), SelectionError> {
        let empty = || SelectionError::EmptyName { path: path.to_owned() };
        let mut at = 0;
        for name in path.split('.') {
            if name.is_empty() {
                return Err(empty());
            }
            let next = self.nodes.len();
            let node = self.nodes.get_mut(at).ok_or_else(empty)?;
            let known = node.children.iter().find(|(child, _)| **child == *name.as_bytes());
            at = match known {
                Some((_, path)) => usize::from(path.0),
                None => {
                    let path = FieldPath(u16::try_from(next).map_err(|_| empty())?);
                    node.children.push((name.as_bytes().into(), path));
                    self.nodes.push(FieldNode::default());
                    next
                }
            };
        }
        self.nodes.get_mut(at).ok_or_else(empty)?.selected.push(selected);
        Ok(())
    }

    /// The path of a key below `path`, if a selected field is at or below it. The key may be dotted.
    #[inline]
    pub(super) fn step(&self, path: FieldPath, key: &[u8]) -> Option<FieldPath> {
        let mut path = path;
        let mut rest = key;
        loop {
            let node = self.nodes.get(usize::from(path.0))?;
            let (after, next) = node.children.iter().find_map(|(name, next)| {
                let after = rest.strip_prefix(&**name)?;
                (after.is_empty() || after.starts_with(b".")).then_some((after, *next))
            })?;
            path = next;
            match after.split_first() {
                None => return Some(path),
                Some((_, after)) => rest = after,
            }
        }
    }

    /// The selected fields that end at `path`.
    #[inline]
    pub(super) fn selected(&self, path: FieldPath) -> &[Selected] {
        self.nodes.get(usize::from(path.0)).map_or(&[], |node| &node.selected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(selection: &Selection, keys: &[&str]) -> Vec<Selected> {
        let path = keys.iter().try_fold(FieldPath::TOP, |path, key| selection.step(path, key.as_bytes()));
        path.map(|path| selection.selected(path).to_vec()).unwrap_or_default()
    }

    #[test]
    fn dotted_and_nested_names_reach_the_same_field() {
        let fields = FieldNames { text: &["a.b.c", "a.b", "ab"], title: Some("a.b"), ..FieldNames::default() };
        let selection = Selection::new(&fields, "cluster_").unwrap();
        for keys in [&["a", "b", "c"][..], &["a.b", "c"], &["a", "b.c"], &["a.b.c"]] {
            assert_eq!(step(&selection, keys), [Selected::Text(0)], "{keys:?}");
        }
        assert_eq!(step(&selection, &["a.b"]), [Selected::Text(1), Selected::Title]);
        assert_eq!(step(&selection, &["ab"]), [Selected::Text(2)]);
        for keys in [&["a"][..], &["a", "c"], &["a.b."], &["a."], &[".a"], &["a..b"], &["abc"], &["b"], &[""]] {
            assert_eq!(step(&selection, keys), [], "{keys:?}");
        }
    }

    #[test]
    fn configuration_mistakes_are_named() {
        let empty =
            |path| Selection::new(&FieldNames { title: Some(path), ..FieldNames::default() }, "c_").unwrap_err();
        for path in ["", ".", "a.", ".a", "a..b"] {
            assert_eq!(empty(path), SelectionError::EmptyName { path: path.into() });
        }
        let many = vec!["a"; 65];
        let fields = FieldNames { text: &many, ..FieldNames::default() };
        assert_eq!(Selection::new(&fields, "c_").unwrap_err(), SelectionError::TooManyTextFields { count: 65 });
        for prefix in ["", "_c", "a.b", "a\"", "a\\", "a b", "é", "9a"] {
            assert_eq!(StampNames::new(prefix).unwrap_err(), SelectionError::Prefix { prefix: prefix.into() });
        }
    }

    #[test]
    fn stamp_names_carry_the_prefix() {
        let names: StampNames = "cluster_".parse().unwrap();
        assert_eq!(names.prefix(), "cluster_");
        let all = [names.root(), names.key(), names.hash(), names.arrival(), names.proof(), names.first()];
        assert_eq!(
            all,
            ["cluster_root", "cluster_key", "cluster_hash", "cluster_arrival", "cluster_proof", "cluster_first"]
        );
        let bits: Vec<_> = all.iter().map(|name| names.bit(name.as_bytes())).collect();
        assert_eq!(bits, [Some(1), Some(2), Some(4), Some(8), Some(16), Some(32)]);
        for name in ["cluster_", "cluster_roots", "cluster", "root", "cluster_roo", ""] {
            assert_eq!(names.bit(name.as_bytes()), None, "{name}");
        }
    }
}
