//! Features -> fingerprints: simhash and the named methods.

mod aligned_tokens;
mod alignment;
mod alignment_check;
mod differences;
mod durable;
mod founder_tokens;
mod kind;
mod learned;
mod named;
mod own_tokens;
mod proof;
mod query;
mod refusal;
mod short;
mod simhash;
mod similarity;
mod staged;
mod strict;
mod title;
mod verified;

pub use aligned_tokens::LearnedView;
pub use alignment_check::DifferenceKind;
pub use differences::Differences;
pub use durable::Durable;
pub use durable::take;
pub use founder_tokens::FounderTokens;
pub use kind::{ExcludedFeatures, MethodKind, Short, Staged, Strict, Verified};
pub use learned::{LearnedText, Lesson};
pub use named::{Attributes, Features, Method, MethodError, Workspace};
pub use own_tokens::{OwnText, OwnTokens};
pub use proof::{InvalidProof, TextProof};
pub use query::{FeatureQuery, Measure, Proof, Tallies, TallyEntry, TreeTally};
pub use refusal::{Reason, Reasons, Refusal};
#[cfg(any(test, feature = "count-work"))]
pub use short::COMPARED;
pub use short::{CANDIDATES, SHORT_TEXT_DISTANCE, ShortFeatures, ShortText, TAKEN_SHORT};
pub use similarity::{InvalidSimilarity, Similarity};
pub use staged::{Stage, StagedFeatures, StagedProof};
pub use strict::{StrictFeatures, Weights};
pub use verified::{Founder, Offer, VerifiedFeatures};
