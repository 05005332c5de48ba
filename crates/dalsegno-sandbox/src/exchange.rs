//! One request and its response over a connection of their own.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};
use wasmtime_wasi_http::{Error, WasiBody};

/// A response whose body is still on its way.
pub(crate) struct Exchanged {
    pub(crate) response: Response<Incoming>,
    /// What moves the body along. The connection ends with it.
    pub(crate) driver: Box<dyn Future<Output = Result<(), Error>> + Send>,
}

/// Sends a request and waits for the head of its response. `place` is given back when the connection ends.
pub(crate) async fn exchange<T>(
    stream: T,
    mut request: Request<WasiBody>,
    place: OwnedSemaphorePermit,
) -> Result<Exchanged, Error>
where
    T: Read + Write + Unpin + Send + 'static,
{
    let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    // The address of a whole URI in the request line is for proxies.
    *request.uri_mut() =
        Uri::builder().path_and_query(path).build().map_err(|_| Error::HttpRequestUriInvalid)?;
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX);
    let (mut sender, mut connection) = builder.handshake(stream).await?;
    let response = {
        let mut sending = Box::pin(sender.send_request(request));
        let mut is_open = true;
        std::future::poll_fn(|context| {
            if let Poll::Ready(response) = sending.as_mut().poll(context) {
                return Poll::Ready(response);
            }
            if is_open && let Poll::Ready(ended) = Pin::new(&mut connection).poll(context) {
                is_open = false;
                if let Err(error) = ended {
                    return Poll::Ready(Err(error));
                }
                return sending.as_mut().poll(context);
            }
            Poll::Pending
        })
        .await
        .map(|response| (response, is_open))?
    };
    let (response, is_open) = response;
    let driver = async move {
        let _place = place;
        if is_open { connection.await.map_err(Error::from) } else { Ok(()) }
    };
    Ok(Exchanged { response, driver: Box::new(driver) })
}

/// The response with a body of at most `limit` bytes that ends at the deadline.
pub(crate) fn bounded(response: Response<Incoming>, limit: u64, deadline: Instant) -> Response<WasiBody> {
    let deadline = Box::pin(tokio::time::sleep_until(deadline));
    response.map(|body| Bounded { body, left: limit, limit, deadline }.boxed_unsync())
}

struct Bounded {
    body: Incoming,
    left: u64,
    limit: u64,
    deadline: Pin<Box<Sleep>>,
}

impl Body for Bounded {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, |data| data.len() as u64);
                if length > self.left {
                    return Poll::Ready(Some(Err(Error::HttpResponseBodySize(Some(self.limit)))));
                }
                self.left -= length;
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(Error::from(error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                self.deadline.as_mut().poll(context).map(|()| Some(Err(Error::HttpResponseTimeout)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What is gathered of a response before its body begins.
const HEAD_BYTES_MAX: usize = 64 * 1024;
