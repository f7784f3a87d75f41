//! Where a made-up server waits until the test lets it go on: what happens first is then decided, whatever the machine
//! is busy with.

use std::sync::{Arc, Condvar, Mutex};

use super::PATIENCE;

/// Closed at first; open for good once it was opened.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// How many have come to the gate so far.
    arrived: usize,
    open: bool,
}

impl Gate {
    pub fn closed() -> Arc<Gate> {
        Arc::default()
    }

    /// Waits until the gate is open.
    pub fn pass(&self) {
        self.state.lock().unwrap().arrived += 1;
        self.changed.notify_all();
        self.wait_while("opens a gate", |state| !state.open);
    }

    /// Waits until so many have come to the gate.
    pub fn wait_for(&self, arrived: usize) {
        self.wait_while("comes to a gate", |state| state.arrived < arrived);
    }

    pub fn open(&self) {
        self.state.lock().unwrap().open = true;
        self.changed.notify_all();
    }

    fn wait_while(&self, what: &str, waits: impl Fn(&State) -> bool) {
        let state = self.state.lock().unwrap();
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| waits(state));
        let timed_out = waited.unwrap().1.timed_out();
        assert!(!timed_out, "nobody {what} within {PATIENCE:?}");
    }
}
