//! Requests that carry documents: held once within the budget, stamped off the async threads, passed on as splices.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};
use hyper::{Request, Response};
use tracing::{debug, warn};

use super::Proxy;
use super::answer::{Body, BoxError, Refusal};
use super::body::{self, Unpacked};
use super::budget::Reservation;
use super::headers::{self, Encoding};
use super::router::Target;
use super::settle::{Landing, Unsettled, verdict};
use super::threads;
use super::upstream::set_length;
use crate::bulk::Op;
use crate::engine::{NotUnderstood, Resolution, Stamped};
use crate::shutdown::Passenger;

/// What stamping a line takes in memory on top of the body: half an item, a stamp, an edit and a ticket.
const BYTES_PER_LINE: usize = 320;

/// Smaller bodies don't make spinney ask for the cluster's limit: no cluster is set below it.
const ASK_LIMIT_ABOVE: u64 = 1 << 20;

/// The size of the pieces in which a stamped body goes out.
const PIECE: usize = 128 << 10;

/// A request that carries documents for a route.
pub enum Write {
    Bulk {
        index: Option<String>,
    },
    Document {
        op: Op,
        index: String,
        id: Option<String>,
    },
}

/// A body after the text work.
struct Worked {
    /// As it came, packed or not.
    raw: Bytes,
    /// Unpacked, when it came packed.
    plain: Option<Bytes>,
    reservation: Reservation,
    stamped: Result<Stamped, NotUnderstood>,
}

impl Write {
    /// Whether the request carries documents that a route may want. What is not JSON or packed otherwise than by gzip
    /// is relayed, and counted.
    pub fn of(target: Target<'_>, request: &Request<Incoming>, proxy: &Proxy) -> Option<Write> {
        let write = match target {
            Target::Bulk { index } if proxy.engine.has_routes() => Write::Bulk {
                index: index.map(Into::into),
            },
            Target::Document { op, index, id } if proxy.engine.routes(&index) => Write::Document {
                op,
                index: index.into(),
                id: id.map(Into::into),
            },
            _ => return None,
        };
        let readable = headers::is_json(request.headers())
            && headers::encoding(request.headers()) != Encoding::Other;
        if readable {
            return Some(write);
        }
        let wanted = match &write {
            Write::Bulk { index: Some(index) } => proxy.engine.routes(index),
            _ => true,
        };
        if wanted {
            proxy.counters.bodies_not_understood.add(1);
            warn!(
                content_type = ?request.headers().get(CONTENT_TYPE),
                content_encoding = ?request.headers().get(CONTENT_ENCODING),
                "passed on unstamped: neither JSON nor NDJSON, or packed otherwise than with gzip"
            );
        }
        None
    }

    /// Stamps the documents, passes them on, and settles them by the answer.
    pub async fn pass_on(
        self,
        proxy: Arc<Proxy>,
        request: Request<Incoming>,
        passenger: Passenger,
    ) -> Result<Response<Body>, Refusal> {
        let (mut parts, body) = request.into_parts();
        let is_bulk = matches!(self, Write::Bulk { .. });
        if is_bulk {
            &proxy.counters.bulk_requests
        } else {
            &proxy.counters.document_requests
        }
        .add(1);
        let (raw, reservation) = body::hold(&proxy.budget, body, &parts.headers).await?;
        proxy.counters.write_bytes.add(raw.len() as u64);
        let packed = headers::encoding(&parts.headers) == Encoding::Gzip;
        let Worked {
            raw,
            plain,
            reservation,
            stamped,
        } = self.work(&proxy, raw, packed, reservation).await?;

        let mut unsettled = None;
        let body = match stamped {
            Ok(stamped) => {
                proxy.tally(&stamped);
                let (splice, placed) = stamped.into_parts();
                unsettled = Some(Unsettled::new(
                    proxy.engine.clone(),
                    proxy.counters.clone(),
                    placed,
                ));
                if splice.is_empty() {
                    Held::whole(raw, reservation)
                } else {
                    if headers::body_is_signed(&parts.headers) {
                        return Err(Refusal::Signed);
                    }
                    let unpacked = plain.unwrap_or(raw);
                    let length = splice.len(unpacked.len()) as u64;
                    proxy
                        .check_limit(unpacked.len() as u64, length, &parts.headers)
                        .await?;
                    parts.headers.remove(CONTENT_ENCODING);
                    Held {
                        chunks: Box::new(splice.chunks(unpacked, PIECE)),
                        left: length,
                        _reservation: reservation,
                    }
                }
            }
            Err(reason) => {
                proxy.counters.bodies_not_understood.add(1);
                warn!(%reason, "passed on unstamped");
                Held::whole(raw, reservation)
            }
        };
        set_length(&mut parts.headers, body.left);
        if let Some(unsettled) = &mut unsettled {
            unsettled.sent();
        }
        let sent = proxy
            .upstream
            .send(Request::from_parts(parts, body.boxed_unsync()))
            .await;
        let Some(mut unsettled) = unsettled else {
            return Ok(sent?.map(|body| Landing::relay(body, passenger).boxed()));
        };
        let response = match sent {
            Ok(response) => response,
            Err(refusal) => {
                let nothing_sent = matches!(refusal, Refusal::Unreachable(_));
                unsettled.settle(if nothing_sent {
                    &Resolution::Refused
                } else {
                    &Resolution::Unknown
                });
                return Err(refusal);
            }
        };
        let (parts, body) = response.into_parts();
        let landing = if is_bulk && parts.status.is_success() {
            Landing::bulk(body, passenger, &parts.headers, unsettled)
        } else {
            unsettled.settle(&if parts.status.is_success() {
                Resolution::Unknown
            } else {
                verdict(parts.status)
            });
            Landing::relay(body, passenger)
        };
        Ok(Response::from_parts(parts, landing.boxed()))
    }

    /// Unpacks and stamps on the engine's threads.
    async fn work(
        self,
        proxy: &Arc<Proxy>,
        raw: Bytes,
        packed: bool,
        mut reservation: Reservation,
    ) -> Result<Worked, Refusal> {
        let engine = proxy.engine.clone();
        let call = proxy.call();
        let work = move || {
            let plain = if packed {
                body::unpack(&raw, &mut reservation)?
            } else {
                Unpacked::No
            };
            let body: &[u8] = match &plain {
                Unpacked::No => &raw,
                Unpacked::Yes(plain) => plain,
                Unpacked::Broken(reason) => {
                    let stamped = Err(NotUnderstood::Packing(reason.clone()));
                    return Ok(Worked {
                        raw,
                        plain: None,
                        reservation,
                        stamped,
                    });
                }
            };
            let lines = memchr::memchr_iter(b'\n', body).count() + 1;
            reservation.grow_to(reservation.bytes() + lines * BYTES_PER_LINE)?;
            let stamped = match &self {
                Write::Bulk { index } => engine.stamp_bulk(body, index.as_deref(), call),
                Write::Document { op, index, id } => {
                    engine.stamp_document(body, *op, index, id.as_deref(), call)
                }
            };
            if let Ok(stamped) = &stamped {
                self.tell(&engine, body, stamped);
            }
            let plain = if let Unpacked::Yes(plain) = plain {
                Some(plain)
            } else {
                None
            };
            Ok(Worked {
                raw,
                plain,
                reservation,
                stamped,
            })
        };
        let settling = proxy.engine.clone();
        threads::run(proxy, work, move |worked: Worked| {
            // Nothing will be sent.
            if let Ok(stamped) = worked.stamped {
                settling.settle(stamped.into_parts().1, &Resolution::Refused);
            }
        })
        .await
    }
}

impl Proxy {
    fn tally(&self, stamped: &Stamped) {
        let (tally, counters) = (stamped.tally(), &self.counters);
        counters.documents_stamped.add(tally.stamped);
        counters.documents_without_text.add(tally.without_text);
        counters.documents_unstamped.add(tally.unstamped);
        counters.documents_joined.add(tally.joined);
        counters.refusals.add(stamped.reasons());
        debug!(?tally, "stamped");
    }

    /// A stamp can push a legal body over the cluster's limit: then it is ours to say so. A body that was too large as
    /// it came is the cluster's to refuse.
    async fn check_limit(
        &self,
        plain: u64,
        stamped: u64,
        caller: &hyper::HeaderMap,
    ) -> Result<(), Refusal> {
        if stamped <= ASK_LIMIT_ABOVE {
            return Ok(());
        }
        match self.upstream.max_content_length(caller).await {
            Some(limit) if plain <= limit && stamped > limit => {
                Err(Refusal::StampOverLimit { stamped, limit })
            }
            _ => Ok(()),
        }
    }
}

/// A request body that is here; it gives its part of the budget back when it has gone out.
struct Held {
    chunks: Box<dyn Iterator<Item = Bytes> + Send>,
    left: u64,
    _reservation: Reservation,
}

impl Held {
    fn whole(bytes: Bytes, reservation: Reservation) -> Held {
        let left = bytes.len() as u64;
        Held {
            chunks: Box::new(std::iter::once(bytes)),
            left,
            _reservation: reservation,
        }
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let chunk = self.chunks.next();
        if let Some(chunk) = &chunk {
            self.left = self.left.saturating_sub(chunk.len() as u64);
        }
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
