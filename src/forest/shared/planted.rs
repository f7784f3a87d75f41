//! Faults that tests plant in the protocol, one at a time. The state search has to refute each, which shows that it
//! looks at all; outside of tests `planted!` is `false`.

#[cfg(not(test))]
macro_rules! planted {
    ($fault:ident) => {
        false
    };
}

#[cfg(test)]
macro_rules! planted {
    ($fault:ident) => {
        $crate::forest::shared::planted::is_planted($crate::forest::shared::planted::Fault::$fault)
    };
}

pub(super) use planted;

/// What is left out, or done in another order.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A founder confirms without a recheck.
    NoRecheck,
    /// It leaves the provisional trees of others alone.
    NoKill,
    /// Leaves are claimed before their root.
    LeavesBeforeRoot,
    /// A founder that has removed others confirms in the same round trip.
    ConfirmsWithKill,
    /// All attempts to found have one token.
    SameToken,
    /// A joiner reads the root and does not pin it.
    NoPin,
    /// A joiner does not check for its own text.
    JoinerIsDone,
    /// A joiner claims the hash of its text with the other leaves.
    TextWithLeaves,
    /// A joiner that loses a leaf stays.
    LoserStays,
    /// A refused document takes its leaves away from a tree that stays.
    DropsLeaves,
    /// A confirmation expects the bytes that were claimed.
    ConfirmsByValue,
    /// An accepted document leaves its leaves as they are.
    NoTouch,
    /// New nodes are not named in their buckets.
    NotEntered,
    /// A root is named in its buckets with its confirmation.
    EnteredLast,
    /// The root of a leaf that was read before is not read again.
    RootsNotReadAgain,
    /// A root that has become a leaf is not followed.
    OneHop,
    /// A confirmed tree is taken although a provisional one is of the very text.
    ConfirmedFirst,
    /// The claim of a root is sent again when its reply is lost.
    RepeatsClaim,
    /// A document sets the arrival of its tree, also back.
    GoesBack,
    /// A sweep removes what had expired when it was read, whatever it is by then.
    SweepsByKey,
    /// A leaf that was removed before its document was accepted is not put back.
    NoPutBack,
    /// New nodes are not named in one of their buckets.
    NotEnteredInOne,
    /// The overrides are read with the first documents only.
    OverridesReadOnce,
    /// A process acknowledges the overrides that it has read, not those that its documents follow.
    AcknowledgesRead,
    /// A process reads overrides before it is registered.
    NotAnnounced,
    /// A change replaces the overrides, whatever they are by then.
    ReplacesOverrides,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(super) fn is_planted(fault: Fault) -> bool {
    PLANTED.get() == Some(fault)
}

/// Plants a fault on this thread while a job runs.
#[cfg(test)]
pub(super) fn with_fault<R>(fault: Fault, job: impl FnOnce() -> R) -> R {
    planting(Some(fault), job)
}

/// Runs a job on this thread as if no fault were planted.
#[cfg(test)]
pub(super) fn without_fault<R>(job: impl FnOnce() -> R) -> R {
    planting(None, job)
}

#[cfg(test)]
fn planting<R>(fault: Option<Fault>, job: impl FnOnce() -> R) -> R {
    let before = PLANTED.replace(fault);
    let done = job();
    PLANTED.set(before);
    done
}
