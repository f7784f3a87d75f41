//! The endpoints of readers in front of real servers.

mod corpus;
mod errors;
mod facets;
mod groups;
mod members;
mod missing;
mod notes;
mod odd;
mod times;
mod vectors;
