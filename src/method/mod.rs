//! Features -> fingerprints: simhash and the named methods.

mod family;
mod method;
mod proof;
mod query;
mod refusal;
mod short;
mod simhash;
mod similarity;
mod staged;
mod title;
mod verified;

pub use family::{Family, LearnedText, LeftOut, Lesson, Short, Staged, Strict, Verified};
pub use method::{
    Brought, Features, MOST_SENTENCES, Method, MethodError, StrictFeatures, Weights, Workspace,
};
pub use proof::{BadProof, TextProof};
pub use query::{Measure, Proof, Query};
pub use refusal::{Reason, Reasons, Refusal};
pub(crate) use short::TAKEN_SHORT;
pub use short::{SHORT, ShortFeatures, ShortText, WIDE};
pub use simhash::{Simhash, simhash};
pub use similarity::{NoSimilarity, Similarity};
pub use staged::{InTurn, Stage, StagedFeatures};
pub use title::TitleSketch;
pub use verified::{Founder, Offer, TAKEN, VerifiedFeatures};
