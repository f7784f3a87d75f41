//! Answers that somebody has to settle.

/// An answer on its way: if nobody takes it, wherever it is dropped, it is undone.
pub(super) struct Parcel<T> {
    answer: Option<T>,
    unwanted: Option<Box<dyn FnOnce(T) + Send>>,
}

impl<T> Parcel<T> {
    pub(super) fn new(answer: T, unwanted: impl FnOnce(T) + Send + 'static) -> Parcel<T> {
        Parcel {
            answer: Some(answer),
            unwanted: Some(Box::new(unwanted)),
        }
    }

    pub(super) fn take(mut self) -> Option<T> {
        self.unwanted = None;
        self.answer.take()
    }
}

impl<T> Drop for Parcel<T> {
    fn drop(&mut self) {
        if let (Some(answer), Some(unwanted)) = (self.answer.take(), self.unwanted.take()) {
            unwanted(answer);
        }
    }
}
