//! The file of a forest's [`FieldRecord`], between a first line and a checksum.
//!
//! It says which fields the texts of the forest were read from.
//!
//! ```text
//! spinney fields
//! format = 1
//! forum-* text_field=body
//! news-* text_field=content,lead title_field=title
//! checksum = 3c0a5d3c8f0b7c11
//! ```
//!
//! Each index pattern has a line: `text_field`, sorted; `title_field`; `url_field` for `staged`. Routes of the method
//! `field:NAME`, and patterns that an earlier one covers, have none. A forest that `spinney transfer` has not
//! completely filled has the line `unfinished`.

use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::error::StoreError;
use super::identity::checked_body;
use crate::text_fields::{FieldRecord, FieldRecordError};

const FIRST_LINE: &str = "spinney fields\n";

/// Encodes the whole file.
pub(super) fn encode(record: &FieldRecord) -> String {
    let text = format!("{FIRST_LINE}{}", record.encode());
    format!("{text}checksum = {:016x}\n", xxh3_64(text.as_bytes()))
}

/// Decodes a whole file; `file` is its path for errors.
pub(super) fn decode(file: &Path, bytes: &[u8]) -> Result<FieldRecord, StoreError> {
    let broken = |why| StoreError::BrokenFields { file: file.to_owned(), why };
    let text = std::str::from_utf8(bytes).map_err(|_| broken("it is no text"))?;
    let rest = text.strip_prefix(FIRST_LINE).ok_or_else(|| broken("it does not begin with \"spinney fields\""))?;
    // A newer format may have its checksum elsewhere.
    if let Err(FieldRecordError::Newer(found)) = FieldRecord::decode(rest) {
        return Err(StoreError::NewerFormat { file: file.to_owned(), found });
    }
    let body = checked_body(text).ok_or_else(|| broken("its checksum is another"))?;
    let record = body.strip_prefix(FIRST_LINE).map(FieldRecord::decode);
    record.and_then(Result::ok).ok_or_else(|| broken("a line is no pattern with its fields"))
}
