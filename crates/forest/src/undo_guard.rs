//! A result that is undone if it is dropped.

/// A result that is undone if it is dropped before its receiver takes it.
pub(super) struct UndoGuard<T> {
    answer: Option<T>,
    unwanted: Option<Box<dyn FnOnce(T) + Send>>,
}

impl<T> UndoGuard<T> {
    pub(super) fn new(answer: T, unwanted: impl FnOnce(T) + Send + 'static) -> UndoGuard<T> {
        UndoGuard { answer: Some(answer), unwanted: Some(Box::new(unwanted)) }
    }

    pub(super) fn take(mut self) -> Option<T> {
        self.unwanted = None;
        self.answer.take()
    }
}

impl<T> Drop for UndoGuard<T> {
    fn drop(&mut self) {
        if let (Some(answer), Some(unwanted)) = (self.answer.take(), self.unwanted.take()) {
            unwanted(answer);
        }
    }
}
