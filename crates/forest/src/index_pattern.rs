//! Index patterns, in which `*` stands for any run of characters.

/// Whether all of `name` fits a pattern in which `*` stands for any run of characters. Linear in `name` for each `*`.
pub fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    true
}

/// Whether there is a name that fits both patterns. Takes as many steps as the two have bytes, multiplied.
pub fn meets(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    // Whether the rest of the other pattern, from each position on, meets the rest of this one.
    let ends = |place: usize| other[place..].iter().all(|&byte| byte == b'*');
    let mut behind: Vec<bool> = (0..=other.len()).map(ends).collect();
    for &byte in one.iter().rev() {
        let mut here = vec![byte == b'*' && behind[other.len()]; other.len() + 1];
        for place in (0..other.len()).rev() {
            here[place] = match other[place] {
                _ if byte == b'*' => behind[place] || here[place + 1],
                b'*' => here[place + 1] || behind[place],
                of => byte == of && behind[place + 1],
            };
        }
        behind = here;
    }
    behind[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_run() {
        let matches = fits;
        assert!(matches("news-*", "news-2026"));
        assert!(matches("news-*", "news-"));
        assert!(!matches("news-*", "old-news-1"));
        assert!(matches("*", ""));
        assert!(matches("a*b*c", "a-b-b-c"));
        assert!(!matches("a*b*c", "a-c-b"));
        assert!(matches("*-news", "old-news"));
        assert!(!matches("news", "news-1"));
        assert!(!matches("a*a", "a"));
    }

    proptest::proptest! {
        #[test]
        fn patterns_meet_where_a_name_fits_both(one in "[ab*]{0,4}", other in "[ab*]{0,4}") {
            let mut names = vec![String::new()];
            let mut longer = names.clone();
            for _ in 0..8 {
                longer = longer.iter().flat_map(|name| ["a", "b"].map(|c| format!("{name}{c}"))).collect();
                names.extend(longer.clone());
            }
            let is_in_both = |name: &String| fits(&one, name) && fits(&other, name);
            proptest::prop_assert_eq!(meets(&one, &other), names.iter().any(is_in_both));
        }
    }
}
