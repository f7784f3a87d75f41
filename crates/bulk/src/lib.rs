//! The bulk protocol over borrowed bytes: lines, actions, splices, items of the response.
//!
//! The server decides what is valid. This module only locates things in a body, plans which bytes to insert and
//! remove, and reads the statuses of the response; it never re-serialises, repairs or refuses. Input that it does not
//! understand is an error to the caller, who then forwards the original bytes unstamped.
//!
//! A bulk request passes the files in this order: [`parse`] splits it into items, [`scan_update`] finds the documents
//! inside an update, [`scan`] reads the selected fields of one document and plans its [`Cut`], [`Splice`] holds the
//! stamps of all documents and yields the stamped body in chunks, [`ResponseScanner`] reads the outcome of each item,
//! and [`FilterPath`] reduces the response to the parts that its client asked for.

mod action;
mod cursor;
mod cut;
mod document;
mod document_changes;
mod filter;
mod lines;
mod op;
mod response;
mod selection;
mod splice;
mod stamp;
mod stored;
mod update;

pub use cursor::JsonError;
pub use cut::Cut;
pub use document::{FieldValue, ParsedDocument, scan};
pub use document_changes::Changes;
pub use filter::{FilterPath, OUTCOME_OF_ITEMS};
pub use lines::{BulkError, BulkErrorKind, Item, parse};
pub use op::Op;
pub use response::{ItemStatuses, ResponseScanner};
pub use selection::{FieldNames, Selected, Selection, SelectionError, StampNames};
pub use splice::{Chunks, Splice, SpliceError};
pub use stamp::{Stamp, write_stamp};
pub use stored::stored_value;
pub use update::{UpdatePart, UpdateSource, scan_update};
