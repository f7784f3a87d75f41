//! Text work on the engine's threads, where it blocks no connection.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;
use tracing::{Span, error};

use super::Proxy;
use super::answer::Refusal;

/// Runs `work` and waits for what it gives; `unwanted` gets that if nobody waits any more because the client has gone.
///
/// # Errors
/// What `work` refuses, or [`Refusal::Internal`] if it panics.
pub async fn run<T: Send + 'static>(
    proxy: &Proxy,
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    unwanted: impl FnOnce(T) + Send + 'static,
) -> Result<T, Refusal> {
    // What is told from another thread belongs to the request too.
    let span = Span::current();
    let (done, result) = oneshot::channel();
    proxy.engine.spawn(move || {
        let _in_request = span.enter();
        if let Err(Ok(Ok(given))) = done.send(catch_unwind(AssertUnwindSafe(work))) {
            unwanted(given);
        }
    });
    match result.await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) | Err(_) => {
            error!("the text work failed: please report this as a bug");
            Err(Refusal::Internal)
        }
    }
}
