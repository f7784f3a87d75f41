//! What the process takes from its system by itself: the clock, chance, and connections to the cluster. With the
//! feature `simulation` a thread can have another one, whose time and chance follow from a seed.

#[cfg(feature = "simulation")]
pub(crate) use simulated::current;
#[cfg(feature = "simulation")]
pub use simulated::{Connecting, Entered, System, enter};

#[cfg(feature = "simulation")]
mod simulated {
    use std::cell::RefCell;
    use std::io;
    use std::pin::Pin;
    use std::sync::Arc;

    use hyper::Uri;
    use tokio::io::DuplexStream;

    use crate::time::Millis;

    /// A connection that is being made.
    pub type Connecting = Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>>;

    /// A system in place of the real one.
    pub trait System: Send + Sync {
        /// The time that this process believes.
        fn now(&self) -> Millis;

        /// A number by chance.
        fn nonce(&self) -> u64;

        /// Connects to a node of the cluster.
        fn connect(&self, node: Uri) -> Connecting;
    }

    thread_local! {
        static CURRENT: RefCell<Option<Arc<dyn System>>> = const { RefCell::new(None) };
    }

    /// The system that this thread has in place of the real one.
    pub(crate) fn current() -> Option<Arc<dyn System>> {
        CURRENT.with(|current| current.borrow().clone())
    }

    /// Gives this thread another system until the guard is dropped.
    pub fn enter(system: Arc<dyn System>) -> Entered {
        CURRENT.with(|current| current.replace(Some(system)));
        Entered(())
    }

    /// The thread has another system until this is dropped.
    #[derive(Debug)]
    #[must_use]
    pub struct Entered(());

    impl Drop for Entered {
        fn drop(&mut self) {
            CURRENT.with(|current| current.replace(None));
        }
    }
}
