//! Progress of work that reads or writes whole forests.

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The name of the forest.
    pub forest: &'a str,
    /// Documents, or nodes, that are done.
    pub done: u64,
    /// All of them.
    pub total: u64,
}

/// Is called with the progress, from any thread.
pub type ReportProgress<'a> = dyn Fn(Progress<'_>) + Send + Sync + 'a;
