//! The endpoints of readers in front of real servers.

mod corpus;
mod errors;
mod groups;
mod members;
mod odd;
