//! The result of a job that a caller awaits.

use futures_channel::oneshot;

use super::port::Unavailable;

/// The sending half of a job's result, which always answers. Dropped by a panic, it reports the panic; dropped
/// otherwise, that the threads are stopping.
pub(super) struct Promise<T> {
    answer: Option<oneshot::Sender<Result<T, Unavailable>>>,
    /// The job's name, for a panic message.
    what: String,
}

impl<T> Promise<T> {
    /// A promise and its receiver. `what`: the job's name.
    pub(super) fn new(what: String) -> (Promise<T>, oneshot::Receiver<Result<T, Unavailable>>) {
        let (answer, answered) = oneshot::channel();
        let answer = Some(answer);
        (Promise { answer, what }, answered)
    }

    /// Sends the result, unless the receiver was dropped. Otherwise the answer is dropped here.
    pub(super) fn answer(mut self, answer: Result<T, Unavailable>) {
        if let Some(waits) = self.answer.take() {
            let _ = waits.send(answer);
        }
    }

    /// Whether the receiver is gone.
    pub(super) fn is_unwanted(&self) -> bool {
        self.answer.as_ref().is_none_or(oneshot::Sender::is_canceled)
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(waits) = self.answer.take() {
            let error = match std::thread::panicking() {
                true => Unavailable::Panicked(self.what.clone()),
                false => Unavailable::Stopped,
            };
            let _ = waits.send(Err(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_executor::block_on;

    use super::*;

    #[test]
    fn whoever_waits_is_answered() {
        let answer = |work: fn(Promise<u8>)| {
            let (promise, answered) = Promise::new("counting".into());
            let _ = std::thread::spawn(move || work(promise)).join();
            block_on(answered).unwrap()
        };
        assert_eq!(answer(|promise| promise.answer(Ok(3))), Ok(3));
        assert_eq!(answer(drop), Err(Unavailable::Stopped));
        let panicked = answer(|promise| {
            let _owed = promise;
            panic!("the test says so");
        });
        assert_eq!(panicked, Err(Unavailable::Panicked("counting".into())));
        let (promise, answered) = Promise::<u8>::new(String::new());
        assert!(!promise.is_unwanted());
        drop(answered);
        assert!(promise.is_unwanted());
    }
}
