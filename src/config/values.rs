//! Values of options: parsed alike from a flag, an environment variable and a file.
//!
//! Every type parses by `FromStr`, which clap uses for flags and variables; `from_text` has serde use it, too. Errors
//! name valid values and do not repeat the given one: clap shows it, and a value in a file may be a password.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use hyper::http::uri::Authority;
use serde::Deserializer;
use serde::de::{Error, Visitor};

use crate::bulk::StampNames;
use crate::time::Millis;

/// Implements `Deserialize` by `FromStr`. A number may be written without quotes.
macro_rules! from_text {
    ($($value:ty),+) => {$(
        impl<'de> serde::Deserialize<'de> for $value {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$value, D::Error> {
                $crate::config::values::parsed(deserializer)
            }
        }
    )+};
}
pub(super) use from_text;

from_text!(ListenAddress, PublishAddress, ByteSize, Percent, ThreadCount, TimeSpan, Timeout, SweepInterval, FieldName);
from_text!(IndexPattern, FieldPrefix);

/// Deserializes a value from its text or number.
///
/// # Errors
/// If the value does not parse.
pub(super) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(deserializer: D) -> Result<T, D::Error> {
    struct Text<T>(PhantomData<T>);
    impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text or a number")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
    }
    deserializer.deserialize_any(Text(PhantomData))
}

/// As [`parsed`], for an optional value.
///
/// # Errors
/// If the value does not parse.
pub(super) fn some_parsed<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    parsed(deserializer).map(Some)
}

/// An address with a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(pub SocketAddr);

impl FromStr for ListenAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ListenAddress, &'static str> {
        text.parse().map(ListenAddress).map_err(|_| "use an address with a port, such as 127.0.0.1:9201")
    }
}

/// A host and a port, as clients reach it: `spinney.example.org:9201`, `[::1]:9201`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishAddress(pub String);

impl FromStr for PublishAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<PublishAddress, &'static str> {
        let authority = text.parse::<Authority>().ok().filter(|authority| !authority.host().is_empty());
        match authority.and_then(|authority| authority.port_u16()) {
            Some(1..) if !text.contains('@') => Ok(PublishAddress(text.to_owned())),
            _ => Err("use a host and a port, such as spinney.example.org:9201"),
        }
    }
}

/// A number of threads, from 1 to 1,024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadCount(pub NonZeroUsize);

/// More than any machine has cores for; an engine that starts many more would be busy with that alone.
const MAX_THREADS: usize = 1024;

impl FromStr for ThreadCount {
    type Err = String;

    fn from_str(text: &str) -> Result<ThreadCount, String> {
        let count = text.parse().ok().filter(|count: &NonZeroUsize| count.get() <= MAX_THREADS);
        count.map(ThreadCount).ok_or(format!("use a number from 1 to {MAX_THREADS}"))
    }
}

/// A number of bytes: `1048576`, `512KiB`, `256MiB`, `1GiB`; `kb`, `mb` and `gb` are powers of 1024, as in the settings
/// of the search servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub usize);

/// The least number without a unit: a smaller one was hardly meant in bytes.
const LEAST_PLAIN: u64 = 16 << 10;

impl FromStr for ByteSize {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ByteSize, &'static str> {
        const USE: &str = "use a whole number with KiB, MiB or GiB, such as 256MiB";
        let (number, unit) = number_and_unit(text).ok_or(USE)?;
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" | "kib" => 1 << 10,
            "m" | "mb" | "mib" => 1 << 20,
            "g" | "gb" | "gib" => 1 << 30,
            _ => return Err(USE),
        };
        if unit.is_empty() && (1..LEAST_PLAIN).contains(&number) {
            return Err("that is a number of bytes: name the unit, such as 256MiB");
        }
        let bytes = usize::try_from(number).ok().and_then(|number| number.checked_mul(factor));
        bytes.map(ByteSize).ok_or("it is too large")
    }
}

/// In the largest unit of which it is a multiple.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift) {
            Some((shift, unit)) => write!(f, "{}{unit}", bytes >> shift),
            None => write!(f, "{bytes}B"),
        }
    }
}

/// A percentage from 1 to 100: `50%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percent(pub u8);

impl FromStr for Percent {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Percent, &'static str> {
        let number = text.trim().strip_suffix('%').map(str::trim_end);
        match number.and_then(|number| number.parse().ok()) {
            Some(percent @ 1..=100) => Ok(Percent(percent)),
            _ => Err("use a percentage from 1% to 100%"),
        }
    }
}

/// A duration: `500ms`, `30s`, `15m`, `12h`, `30d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan(pub Millis);

impl TimeSpan {
    /// As the standard library has it.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0.0.unsigned_abs())
    }
}

impl FromStr for TimeSpan {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<TimeSpan, &'static str> {
        const USE: &str = "use a whole number with ms, s, m, h or d, such as 30d";
        let (number, unit) = number_and_unit(text).ok_or(USE)?;
        let factor = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(USE),
        };
        let millis = i64::try_from(number).ok().and_then(|number| number.checked_mul(factor));
        millis.map(|millis| TimeSpan(Millis(millis))).ok_or("it is too long")
    }
}

/// To the millisecond, which every duration of an option is a multiple of.
impl From<Duration> for TimeSpan {
    fn from(duration: Duration) -> TimeSpan {
        TimeSpan(Millis(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}

/// In the largest unit of which it is a multiple.
impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.0;
        let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
        match units.into_iter().find(|(length, _)| millis > 0 && millis % length == 0) {
            Some((length, unit)) => write!(f, "{}{unit}", millis / length),
            None => write!(f, "{millis}ms"),
        }
    }
}

/// A duration longer than zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout(pub Duration);

impl FromStr for Timeout {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Timeout, &'static str> {
        let span = text.parse::<TimeSpan>()?.duration();
        if span.is_zero() { Err("it must be longer than zero, such as 10m") } else { Ok(Timeout(span)) }
    }
}

/// A value, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrNone<T>(pub Option<T>);

impl<T: FromStr<Err: fmt::Display>> FromStr for OrNone<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<OrNone<T>, String> {
        match text {
            "none" => Ok(OrNone(None)),
            text => text.parse().map(|value| OrNone(Some(value))).map_err(|error| format!("{error}, or none")),
        }
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> serde::Deserialize<'de> for OrNone<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OrNone<T>, D::Error> {
        parsed(deserializer)
    }
}

/// The pause between two sweeps; `off`: no sweeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepInterval(pub Option<Duration>);

impl FromStr for SweepInterval {
    type Err = String;

    fn from_str(text: &str) -> Result<SweepInterval, String> {
        match text {
            "off" => Ok(SweepInterval(None)),
            text => text.parse().map(|Timeout(pause)| SweepInterval(Some(pause))).map_err(|e| format!("{e}, or off")),
        }
    }
}

/// The name of a field, dotted when nested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldName(pub String);

impl FromStr for FieldName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<FieldName, &'static str> {
        if text.split('.').any(str::is_empty) {
            return Err("use the name of a field, dotted when nested, such as article.body");
        }
        Ok(FieldName(text.to_owned()))
    }
}

/// An index pattern in which `*` matches any run of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexPattern(pub String);

impl FromStr for IndexPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<IndexPattern, &'static str> {
        if text.is_empty() { Err("use an index pattern, such as news-*") } else { Ok(IndexPattern(text.to_owned())) }
    }
}

/// The prefix of the names of the stamp's fields; [`StampNames::new`] takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPrefix(pub String);

impl FromStr for FieldPrefix {
    type Err = String;

    fn from_str(text: &str) -> Result<FieldPrefix, String> {
        StampNames::new(text).map(|_| FieldPrefix(text.to_owned())).map_err(|error| error.to_string())
    }
}

/// A whole number and the unit after it.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, text[end..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        let bytes = |text: &str| text.parse().map(|ByteSize(bytes)| bytes);
        assert_eq!(bytes("256MiB"), Ok(256 << 20));
        assert_eq!(bytes("100mb"), Ok(100 << 20));
        assert_eq!(bytes("17B"), Ok(17));
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("16384"), Ok(16 << 10));
        for unclear in ["1", "256", "16383"] {
            assert!(bytes(unclear).unwrap_err().contains("name the unit"), "{unclear}");
        }
        assert_eq!(bytes("1 GiB"), Ok(1 << 30));
        for wrong in ["MiB", "5 parsecs", "-1", "99999999999999GiB", "17179869184GiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(bytes("17179869183GiB"), Ok(17_179_869_183 << 30));
    }

    #[test]
    fn values_are_shown_in_the_largest_unit() {
        let mebi = 1 << 20;
        assert_eq!(
            [0, 1, 1023, 1024, 256 * mebi, 1024 * mebi, mebi + 1].map(|bytes| ByteSize(bytes).to_string()),
            ["0B", "1B", "1023B", "1KiB", "256MiB", "1GiB", "1048577B"]
        );
        let spans = [0, 999, 1_000, 90_000, 60_000, 3_600_000, 86_400_000, 90_000_000];
        assert_eq!(
            spans.map(|millis| TimeSpan(Millis(millis)).to_string()),
            ["0ms", "999ms", "1s", "90s", "1m", "1h", "1d", "25h"]
        );
    }

    #[test]
    fn durations_need_a_unit() {
        let millis = |text: &str| text.parse().map(|TimeSpan(millis)| millis);
        assert_eq!(millis("30d"), Ok(Millis(30 * 86_400_000)));
        assert_eq!(millis("250ms"), Ok(Millis(250)));
        assert_eq!(millis("0s"), Ok(Millis(0)));
        for wrong in ["30", "often", "1 week", "9999999999999999d"] {
            assert!(millis(wrong).is_err(), "{wrong}");
        }
        assert_eq!("1ms".parse(), Ok(Timeout(Duration::from_millis(1))));
        assert!("0s".parse::<Timeout>().is_err());
        assert_eq!("off".parse(), Ok(SweepInterval(None)));
        assert_eq!("10m".parse(), Ok(SweepInterval(Some(Duration::from_secs(600)))));
        assert_eq!(
            "none".parse::<SweepInterval>().unwrap_err(),
            "use a whole number with ms, s, m, h or d, such as 30d, or off"
        );
        assert_eq!("none".parse(), Ok(OrNone::<Timeout>(None)));
    }

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for address in ["h:1", "spinney.example.org:65535", "10.0.0.1:9201", "[::1]:9201"] {
            assert_eq!(address.parse(), Ok(PublishAddress(address.to_owned())));
        }
        for wrong in
            ["", "x", "h:", ":9201", "h:0", "h:65536", "http://h:9201", "u:p@h:9201", "h:9201/", "a\"b:9201", "a b:1"]
        {
            assert!(wrong.parse::<PublishAddress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn threads_are_1_to_1024() {
        let count = |text: &str| text.parse().map(|ThreadCount(count)| count.get());
        assert_eq!((count("1"), count("1024")), (Ok(1), Ok(1024)));
        for wrong in ["0", "1025", "100000", "-1", "two"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_percentage_is_from_1_to_100() {
        assert_eq!("1%".parse(), Ok(Percent(1)));
        assert_eq!("100 %".parse(), Ok(Percent(100)));
        for wrong in ["0%", "101%", "0.5", "50", "%"] {
            assert!(wrong.parse::<Percent>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_not_empty() {
        assert!("a.b".parse::<FieldName>().is_ok());
        for wrong in ["", "a..b", ".a", "a."] {
            assert!(wrong.parse::<FieldName>().is_err(), "{wrong}");
        }
        assert!("".parse::<IndexPattern>().is_err());
        assert!("1_".parse::<FieldPrefix>().is_err());
    }

    /// Every kind of value reads the same in a file as on the command line, and a number needs no quotes.
    #[test]
    fn a_file_has_the_same_values() {
        #[derive(serde::Deserialize)]
        struct File {
            size: ByteSize,
            window: OrNone<TimeSpan>,
        }
        let read = |text: &str| toml::from_str::<File>(text).map(|file| (file.size.0, file.window.0));
        assert_eq!(read("size = 65536\nwindow = 'none'").unwrap(), (65536, None));
        assert_eq!(read("size = '4KiB'\nwindow = '1s'").unwrap(), (4096, Some(TimeSpan(Millis(1000)))));
        assert!(read("size = true\nwindow = 'none'").is_err());
        let error = read("size = 65536\nwindow = 'Pa55'").unwrap_err().message().to_owned();
        assert_eq!(error, "use a whole number with ms, s, m, h or d, such as 30d, or none");
    }
}
