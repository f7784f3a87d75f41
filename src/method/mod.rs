//! Features -> fingerprints: simhash and the named methods.

mod alignment;
mod durable;
mod family;
mod founder_tokens;
mod named;
mod proof;
mod query;
mod refusal;
mod second;
mod short;
mod simhash;
mod similarity;
mod staged;
mod strict;
mod title;
mod verified;

pub use alignment::Differences;
pub use durable::Durable;
pub(crate) use durable::take;
pub use family::{Family, LearnedText, LeftOut, Lesson, Short, Staged, Strict, Verified};
pub use founder_tokens::FounderTokens;
pub use named::{Attributes, Features, Method, MethodError, Workspace};
pub use proof::{InvalidProof, TextProof};
pub use query::{Count, Measure, Proof, Query, Tallies, Tally};
pub use refusal::{Reason, Reasons, Refusal};
#[cfg(test)]
pub(crate) use short::COMPARED;
pub(crate) use short::TAKEN_SHORT;
pub use short::{CANDIDATES, ShortFeatures, ShortText, WIDE};
pub use similarity::{InvalidSimilarity, Similarity};
pub use staged::{InTurn, Stage, StagedFeatures};
pub use strict::{StrictFeatures, Weights};
pub use verified::{Founder, Offer, VerifiedFeatures};
