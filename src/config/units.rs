//! Sizes and durations as people write them: `256MiB`, `30d`.

use crate::time::Millis;

/// Parses a number of bytes: `1048576`, `512KiB`, `256MiB`, `1GiB`; `kb`, `mb`, `gb` are powers of 1024 as in the
/// search servers' own settings.
pub(super) fn bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = split(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => {
            return Err(format!("unknown unit '{unit}' in '{text}': use KiB, MiB or GiB"));
        }
    };
    usize::try_from(number).ok().and_then(|n| n.checked_mul(factor)).ok_or_else(|| format!("'{text}' is too large"))
}

/// Parses a duration: `500ms`, `30s`, `15m`, `12h`, `30d`.
pub(super) fn duration(text: &str) -> Result<Millis, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => {
            return Err(format!("unknown unit in '{text}': use ms, s, m, h or d, for example 30d"));
        }
    };
    i64::try_from(number)
        .ok()
        .and_then(|n| n.checked_mul(factor))
        .map(Millis)
        .ok_or_else(|| format!("'{text}' is too long"))
}

fn split(text: &str) -> Result<(u64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().map_err(|_| format!("'{text}' does not begin with a whole number"))?;
    Ok((number, text[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(bytes("256MiB"), Ok(256 << 20));
        assert_eq!(bytes("100mb"), Ok(100 << 20));
        assert_eq!(bytes("17"), Ok(17));
        assert_eq!(bytes("1 GiB"), Ok(1 << 30));
        assert!(bytes("MiB").is_err());
        assert!(bytes("5 parsecs").is_err());
        assert!(bytes("99999999999999GiB").is_err());
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("30d"), Ok(Millis(30 * 86_400_000)));
        assert_eq!(duration("250ms"), Ok(Millis(250)));
        assert!(duration("30").is_err());
        assert!(duration("9999999999999999d").is_err());
    }
}
