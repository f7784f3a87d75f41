//! Request bodies that are read whole, held within the budget and decompressed within it.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::{Body as HttpBody, Incoming};
use hyper::header::EXPECT;
use hyper::http::request;
use tokio::time::{Instant, timeout_at};

use super::budget::{Budget, Reservation};
use super::error::ProxyError;
use super::headers::Encoding;
use super::wire::ClientAddress;

/// How long a client may pause inside a body while it holds a part of the budget.
const PAUSE: Duration = Duration::from_secs(60);

/// Minimum average rate of a body in bytes per second, after [`RATE_GRACE`]. Any real link to a cluster is far faster;
/// a slower sender only occupies memory.
const LEAST_RATE: usize = 1 << 10;

/// How long a body may be slower than [`LEAST_RATE`]: connections start slowly, and a lost packet can cost seconds.
const RATE_GRACE: Duration = Duration::from_secs(30);

/// Timeout for discarding the rest of an unwanted body.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(60);

/// First allocation for a body; more is allocated as bytes arrive, whatever `Content-Length` says.
const FIRST_ROOM: usize = 64 << 10;

/// A whole body and its part of the budget.
pub(crate) struct Buffered {
    pub bytes: Bytes,
    pub reservation: Reservation,
}

/// Reads a request body into one buffer, within the budget and `limit`. The reservation grows with the bytes
/// received, not with the announced length.
///
/// # Errors
/// When the body does not fit, is too slow or breaks off. The rest of it is discarded.
pub(crate) async fn buffer(
    budget: &Arc<Budget>,
    limit: Duration,
    head: &request::Parts,
    body: Incoming,
) -> Result<Buffered, ProxyError> {
    buffer_up_to(usize::MAX, budget, limit, head, body).await
}

/// As [`buffer`], with a limit in bytes.
///
/// # Errors
/// As [`buffer`], and [`ProxyError::LongBody`].
pub(crate) async fn buffer_up_to(
    most: usize,
    budget: &Arc<Budget>,
    limit: Duration,
    head: &request::Parts,
    body: Incoming,
) -> Result<Buffered, ProxyError> {
    let reservation = budget.enter(ClientAddress::of(&head.extensions).0);
    let read = collect(most, budget, reservation, limit, body).await;
    read.map_err(|(error, rest)| {
        discard(rest, &head.headers);
        error
    })
}

/// Discards an unwanted body. Most clients send all of it before they read the response and would otherwise see a
/// broken pipe. A client that sent `Expect: 100-continue` without getting that response has sent nothing.
pub(crate) fn discard(body: Incoming, headers: &HeaderMap) {
    if !headers.contains_key(EXPECT) && !body.is_end_stream() {
        tokio::spawn(read_to_end(body));
    }
}

/// Reads a body to its end, for a limited time, and keeps nothing of it.
pub(crate) async fn read_to_end<B>(mut body: B)
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let all = async { while let Some(Ok(_)) = body.frame().await {} };
    // A client that sends for longer gets a broken pipe.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, all).await;
}

async fn collect<B>(
    most: usize,
    budget: &Budget,
    mut reservation: Reservation,
    limit: Duration,
    mut body: B,
) -> Result<Buffered, (ProxyError, B)>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Display,
{
    let length = body.size_hint().exact();
    let length = length.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    let could_hold = |length: usize| match length > most {
        true => Err(ProxyError::LongBody(most)),
        false => budget.could_hold(length),
    };
    if let Some(Err(error)) = length.map(could_hold) {
        return Err((error, body));
    }
    let pace = MinimumRate::new(limit);
    let mut bytes = Vec::new();
    loop {
        let (deadline, too_late) = pace.deadline(bytes.len());
        let error = match timeout_at(deadline, body.frame()).await {
            Err(_) => too_late,
            Ok(None) => {
                return Ok(Buffered { bytes: bytes.into(), reservation });
            }
            Ok(Some(Err(error))) => ProxyError::BadBody(error.to_string()),
            Ok(Some(Ok(frame))) => {
                let Some(data) = frame.data_ref() else {
                    continue;
                };
                let wanted = bytes.len() + data.len();
                let received = match wanted > most {
                    true => Err(ProxyError::LongBody(most)),
                    false => reservation.receive(wanted),
                };
                match received {
                    Ok(()) => {
                        make_room(&mut bytes, data.len(), length);
                        bytes.extend_from_slice(data);
                        continue;
                    }
                    Err(error) => error,
                }
            }
        };
        return Err((error, body));
    }
}

/// Reserves room for `more` bytes by doubling, so that each byte is moved only a few times, but not beyond the length
/// of the body.
fn make_room(bytes: &mut Vec<u8>, more: usize, length: Option<usize>) {
    let needed = bytes.len() + more;
    if needed > bytes.capacity() {
        let room = (bytes.capacity() * 2).max(FIRST_ROOM);
        let room = length.map_or(room, |length| room.min(length)).max(needed);
        bytes.reserve_exact(room - bytes.len());
    }
}

/// Enforces the minimum rate of a body.
struct MinimumRate {
    began: Instant,
    limit: Duration,
}

impl MinimumRate {
    fn new(limit: Duration) -> MinimumRate {
        MinimumRate { began: Instant::now(), limit }
    }

    /// Time by which the next byte must arrive, and the error otherwise.
    fn deadline(&self, received: usize) -> (Instant, ProxyError) {
        let now = Instant::now();
        let pause = (now + PAUSE, ProxyError::BodyTimeout(PAUSE.as_secs()));
        let bytes_last = Duration::from_secs((received / LEAST_RATE) as u64).max(RATE_GRACE);
        let too_slow = ProxyError::BodyTooSlow { received, seconds: bytes_last.as_secs() };
        let rate = (self.began + bytes_last, too_slow);
        // A limit beyond all times is none.
        let end = self.began.checked_add(self.limit);
        let whole = end.map(|end| (end, ProxyError::BodyTooLong(self.limit.as_secs())));
        let first = |a: (Instant, ProxyError), b: (Instant, ProxyError)| if b.0 < a.0 { b } else { a };
        whole.into_iter().fold(first(pause, rate), first)
    }
}

/// Why a body could not be decompressed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecompressError {
    /// The decompressed body exceeds the budget or the limit of its endpoint.
    #[error(transparent)]
    Budget(#[from] ProxyError),
    /// The body does not match its encoding.
    #[error("{0}")]
    Malformed(#[from] std::io::Error),
}

/// Decompresses a body within the budget: gzip (also of several members) or deflate. Other encodings stay as they
/// are.
///
/// # Errors
/// When the body does not match its encoding, or the result does not fit.
pub(crate) fn decompress(
    raw: &Bytes,
    encoding: Encoding,
    reservation: &mut Reservation,
) -> Result<Bytes, DecompressError> {
    decompress_up_to(usize::MAX, raw, encoding, reservation)
}

/// As [`decompress`], with a limit in decompressed bytes.
///
/// # Errors
/// As [`decompress`], and [`ProxyError::LongBody`].
pub(crate) fn decompress_up_to(
    most: usize,
    raw: &Bytes,
    encoding: Encoding,
    reservation: &mut Reservation,
) -> Result<Bytes, DecompressError> {
    match encoding {
        Encoding::Gzip => read_all(most, MultiGzDecoder::new(&**raw), raw.len(), reservation),
        Encoding::Deflate if is_zlib(raw) => read_all(most, ZlibDecoder::new(&**raw), raw.len(), reservation),
        Encoding::Deflate => read_all(most, DeflateDecoder::new(&**raw), raw.len(), reservation),
        Encoding::Identity | Encoding::Other => Ok(raw.clone()),
    }
}

/// Whether deflated bytes have the frame of zlib. As the servers' own decoder decides it.
fn is_zlib(raw: &[u8]) -> bool {
    let head = raw.first_chunk().map(|head| u16::from_be_bytes(*head));
    head.is_some_and(|head| head & 0x7800 == 0x7800 && head % 31 == 0)
}

fn read_all(
    most: usize,
    mut decoder: impl std::io::Read,
    raw: usize,
    reservation: &mut Reservation,
) -> Result<Bytes, DecompressError> {
    let mut plain = Vec::with_capacity(raw.saturating_mul(3).min(8 << 20).min(most));
    let mut piece = [0; 32 << 10];
    loop {
        let read = decoder.read(&mut piece)?;
        if read == 0 {
            return Ok(plain.into());
        }
        if plain.len() + read > most {
            return Err(ProxyError::LongBody(most).into());
        }
        reservation.grow_to(raw + plain.len() + read)?;
        plain.extend_from_slice(piece.get(..read).unwrap_or_default());
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the clock is paused: time goes by at once")]
mod tests {
    use std::convert::Infallible;
    use std::io::Write as _;
    use std::net::{IpAddr, Ipv4Addr};
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use hyper::body::{Frame, SizeHint};
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
    use tokio::task::JoinHandle;
    use tokio::time::sleep;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(600);
    const SECOND: Duration = Duration::from_secs(1);
    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    /// A body that comes when the test sends it.
    struct Sent {
        pieces: UnboundedReceiver<Bytes>,
        length: Option<u64>,
    }

    impl HttpBody for Sent {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let polled = self.pieces.poll_recv(cx);
            polled.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
        }

        fn size_hint(&self) -> SizeHint {
            self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
        }
    }

    type Reading = JoinHandle<Result<Buffered, ProxyError>>;

    /// A client that sends a body, and the task that reads it.
    fn send(budget: &Arc<Budget>, client: IpAddr, length: Option<u64>) -> (UnboundedSender<Bytes>, Reading) {
        send_up_to(usize::MAX, budget, client, length)
    }

    fn send_up_to(
        most: usize,
        budget: &Arc<Budget>,
        client: IpAddr,
        length: Option<u64>,
    ) -> (UnboundedSender<Bytes>, Reading) {
        let (sender, pieces) = unbounded_channel();
        let budget = budget.clone();
        let reading = async move {
            let (reservation, body) = (budget.enter(client), Sent { pieces, length });
            let read = collect(most, &budget, reservation, LIMIT, body).await;
            read.map_err(|(error, _)| error)
        };
        (sender, tokio::spawn(reading))
    }

    fn piece(bytes: usize) -> Bytes {
        vec![b'x'; bytes].into()
    }

    /// Lets the tasks read what was sent.
    async fn read() {
        sleep(Duration::from_millis(1)).await;
    }

    /// A budget of which a client may hold half, however little that is.
    fn halved(capacity: usize) -> Arc<Budget> {
        let budget = Budget::new(capacity, 50);
        budget.expect_bodies_of(1);
        budget
    }

    fn reserved(budget: &Arc<Budget>, bytes: usize) -> Reservation {
        let mut reservation = budget.enter(A);
        reservation.receive(bytes).unwrap();
        reservation
    }

    async fn error(reading: Reading) -> ProxyError {
        match reading.await.unwrap() {
            Ok(_) => panic!("the body was taken"),
            Err(error) => error,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_budget_is_taken_as_bytes_come() {
        let budget = halved(1000);
        let (first, reading) = send(&budget, A, Some(500));
        read().await;
        assert_eq!(budget.used(), 0, "a length is no byte");
        first.send(piece(100)).unwrap();
        read().await;
        assert_eq!(budget.used(), 100);
        first.send(piece(400)).unwrap();
        drop(first);
        let buffered = reading.await.unwrap().ok().unwrap();
        assert_eq!((buffered.bytes.len(), buffered.reservation.bytes()), (500, 500));
        drop(buffered);
        assert_eq!(budget.used(), 0);
        // What can never fit is refused before a byte of it has come.
        for (length, allowed) in [(1001, None), (501, Some(500))] {
            let (_silent, reading) = send(&budget, A, Some(length));
            let wanted = usize::try_from(length).unwrap();
            let expected = match allowed {
                None => ProxyError::LargerThanBudget { wanted, budget: 1000 },
                Some(allowed) => ProxyError::LargerThanShare { wanted, allowed },
            };
            assert_eq!(error(reading).await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_that_fill_the_budget_stop_nobody_for_ever() {
        let budget = halved(1000);
        let all: Vec<_> = [A, A, B, B].map(|client| send(&budget, client, Some(400))).into();
        for (sender, _) in &all {
            sender.send(piece(250)).unwrap();
        }
        read().await;
        assert_eq!(budget.used(), 1000);
        // None of them can go on, and none waits for the others.
        let mut senders = Vec::new();
        for (at, (sender, reading)) in all.into_iter().enumerate() {
            sender.send(piece(150)).unwrap();
            if at % 2 == 0 {
                let error = error(reading).await;
                assert!(matches!(error, ProxyError::OverShare { wanted: 150, .. }), "{error}");
            } else {
                drop(sender);
                senders.push(reading);
            }
        }
        // With the room of those that were refused the others end.
        for reading in senders {
            assert_eq!(reading.await.unwrap().ok().unwrap().bytes.len(), 400);
        }
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_have_to_come_at_some_pace() {
        let budget = Budget::new(1 << 20, 50);
        // Not a byte, and a byte now and then.
        for bytes in [0, 1] {
            let (sender, reading) = send(&budget, A, None);
            sender.send(piece(bytes)).unwrap();
            sleep(RATE_GRACE - SECOND).await;
            assert!(!reading.is_finished());
            sender.send(piece(bytes)).unwrap();
            sleep(2 * SECOND).await;
            let expected = ProxyError::BodyTooSlow { received: 2 * bytes, seconds: 30 };
            assert_eq!(error(reading).await, expected);
            assert_eq!(budget.used(), 0);
        }
        // Slow, but fast enough; then a pause, which is longer than any.
        let (sender, reading) = send(&budget, A, None);
        for _ in 0..120 {
            sender.send(piece(2 * LEAST_RATE)).unwrap();
            sleep(SECOND).await;
        }
        sleep(PAUSE - 2 * SECOND).await;
        assert!(!reading.is_finished());
        sleep(3 * SECOND).await;
        assert_eq!(error(reading).await, ProxyError::BodyTimeout(60));
        // Many bytes at first, and then too few.
        let (sender, reading) = send(&budget, A, None);
        sender.send(piece(100 * LEAST_RATE)).unwrap();
        for _ in 0..3 {
            sleep(30 * SECOND).await;
            assert!(!reading.is_finished());
            sender.send(piece(1)).unwrap();
        }
        sleep(11 * SECOND).await;
        assert!(matches!(error(reading).await, ProxyError::BodyTooSlow { seconds: 100, .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_have_to_end() {
        let budget = Budget::new(1 << 30, 50);
        let (sender, reading) = send(&budget, A, None);
        for _ in 0..599 {
            sender.send(piece(10 * LEAST_RATE)).unwrap();
            sleep(SECOND).await;
        }
        assert!(!reading.is_finished());
        sleep(2 * SECOND).await;
        assert_eq!(error(reading).await, ProxyError::BodyTooLong(600));
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_have_a_limit_of_their_own() {
        let budget = halved(1000);
        for length in [Some(101), None] {
            let (sender, reading) = send_up_to(100, &budget, A, length);
            for _ in 0..101 {
                // Nobody reads a body whose length says already that it is too long.
                let _ = sender.send(piece(1));
            }
            assert_eq!(error(reading).await, ProxyError::LongBody(100));
            assert_eq!(budget.used(), 0);
        }
        for length in [Some(100), None] {
            let (sender, reading) = send_up_to(100, &budget, A, length);
            sender.send(piece(100)).unwrap();
            drop(sender);
            assert_eq!(reading.await.unwrap().ok().unwrap().bytes.len(), 100);
        }
    }

    #[test]
    fn room_is_made_as_a_body_comes() {
        for length in [None, Some(1_000_000)] {
            let (mut bytes, mut moved) = (Vec::new(), 0);
            for _ in 0..1000 {
                let before = bytes.capacity();
                make_room(&mut bytes, 1000, length);
                if bytes.capacity() != before {
                    moved += bytes.len();
                }
                assert!(bytes.capacity() <= 2 * (bytes.len() + 1000).max(FIRST_ROOM));
                bytes.extend_from_slice(&[b'x'; 1000]);
            }
            assert!(moved <= 2 * bytes.len(), "{moved}");
            assert!(length.is_none_or(|length| bytes.capacity() == length));
        }
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_within_the_budget() {
        let budget = Budget::new(100_000, 50);
        let two_members = [gzip(b"one "), gzip(b"two")].concat();
        let two_members = Bytes::from(two_members);
        let mut reservation = reserved(&budget, two_members.len());
        let plain = decompress(&two_members, Encoding::Gzip, &mut reservation).unwrap();
        assert_eq!(plain, "one two");
        assert_eq!(budget.used(), two_members.len() + plain.len());

        let bomb = Bytes::from(gzip(&vec![b' '; 1 << 20]));
        let result = decompress(&bomb, Encoding::Gzip, &mut reserved(&budget, bomb.len()));
        assert!(matches!(result, Err(DecompressError::Budget(_))));
        for encoding in [Encoding::Gzip, Encoding::Deflate] {
            let no_gzip = Bytes::from_static(b"no gzip");
            let result = decompress(&no_gzip, encoding, &mut reservation);
            assert!(matches!(result, Err(DecompressError::Malformed(_))));
        }
    }

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let fast = flate2::Compression::fast();
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), fast);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let fast = flate2::Compression::fast();
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), fast);
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_comes_out_has_a_limit_of_its_own() {
        let budget = Budget::new(1 << 20, 50);
        let plain = vec![b'x'; 100_000];
        let packed =
            [(Encoding::Gzip, gzip(&plain)), (Encoding::Deflate, zlib(&plain)), (Encoding::Deflate, deflate(&plain))];
        for (encoding, packed) in packed {
            let (packed, mut reservation) = (Bytes::from(packed), budget.enter(A));
            let mut of = |most: usize| decompress_up_to(most, &packed, encoding, &mut reservation);
            assert_eq!(of(100_000).unwrap(), plain);
            let longer = of(99_999).unwrap_err();
            assert_eq!(longer.to_string(), ProxyError::LongBody(99_999).to_string());
        }
    }
}
