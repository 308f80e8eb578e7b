//! A request to upstream, by http or https.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;

use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use plexus_ndn_apps::object::About;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::origin::{Origin, Whither};
use super::spool::Spool;
use super::{Config, Job, Outcome, Validators};
use crate::body::Reply;
use crate::freshness;
use crate::proxy::PASSED;

/// Longest response header in bytes.
const HEAD_MAX: usize = 64 << 10;
/// Longest validator that is stored, in bytes.
const VALIDATOR_MAX: usize = 1 << 10;

/// A connection, which is driven by a separate task.
struct Connection {
    sender: SendRequest<Reply>,
    task: JoinHandle<hyper::Result<()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Fetches the job's target; follows a redirect of the same request from http to https.
pub(super) async fn get(config: &Config, job: &Job) -> Result<Outcome, String> {
    let mut origin = config.origin.clone();
    loop {
        let (_connection, response) = ask(config, &origin, job).await?;
        match redirect(config, job, &response) {
            Some(Whither::Secure(port)) if !origin.is_secure => origin = origin.secure(port),
            Some(Whither::Secure(_) | Whither::Here) => {
                let why = "it redirects this request to itself; sites do so that want a cookie, \
                           which names do not carry, or http where they are asked by https";
                return Err(why.into());
            }
            Some(Whither::Elsewhere) | None => return read(config, job, response).await,
        }
    }
}

fn redirect<B>(config: &Config, job: &Job, response: &Response<B>) -> Option<Whither> {
    let location = location(response.status(), response.headers())?;
    Some(config.origin.whither(&config.host, &job.target, location))
}

fn location(status: StatusCode, headers: &HeaderMap) -> Option<&str> {
    let is_redirect = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    headers.get(header::LOCATION).filter(|_| is_redirect)?.to_str().ok()
}

async fn ask(
    config: &Config,
    origin: &Origin,
    job: &Job,
) -> Result<(Connection, Response<Incoming>), String> {
    let late = || format!("no data for {:?}", config.patience);
    let connecting = async {
        let stream = TcpStream::connect((origin.address(), origin.port)).await;
        let stream = stream.map_err(|e| format!("cannot be reached: {e}"))?;
        match origin.is_secure {
            true => {
                let name = Origin::name_in(&config.host);
                speak_http(config.tls.connect(name, stream).await?).await
            }
            false => speak_http(stream).await,
        }
    };
    let mut connection = timeout(config.patience, connecting).await.map_err(|_| late())??;
    let mut request = Request::get(&job.target)
        .header(header::HOST, &config.host)
        .header(header::USER_AGENT, concat!("plexus/", env!("CARGO_PKG_VERSION")))
        .header(header::ACCEPT_ENCODING, "identity")
        .header(header::VIA, "1.1 plexus");
    if let Some(etag) = &job.validators.etag {
        request = request.header(header::IF_NONE_MATCH, etag);
    }
    if let Some(modified) = &job.validators.modified {
        request = request.header(header::IF_MODIFIED_SINCE, modified);
    }
    let request = request.body(Reply::empty()).map_err(|e| e.to_string())?;
    let response = timeout(config.patience, connection.sender.send_request(request)).await;
    let response = response.map_err(|_| late())?.map_err(|e| in_full(&e))?;
    Ok((connection, response))
}

async fn speak_http<S>(stream: S) -> Result<Connection, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut client = http1::Builder::new();
    let shaken = client.max_buf_size(HEAD_MAX).handshake(TokioIo::new(stream)).await;
    let (sender, driver) = shaken.map_err(|e| in_full(&e))?;
    Ok(Connection { sender, task: tokio::spawn(driver) })
}

fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    text
}

async fn read(config: &Config, job: &Job, response: Response<Incoming>) -> Result<Outcome, String> {
    let (head, mut incoming) = response.into_parts();
    let told = head.headers.get_all(header::CACHE_CONTROL).iter();
    let told: Vec<&str> = told.filter_map(|value| value.to_str().ok()).collect();
    let cache_control = (!told.is_empty()).then(|| told.join(", "));
    let freshness = freshness::of(cache_control.as_deref(), config.freshness);
    let was_conditional = job.validators.etag.is_some() || job.validators.modified.is_some();
    if head.status == StatusCode::NOT_MODIFIED && was_conditional {
        return Ok(Outcome::NotModified { freshness });
    }
    let mut spool = Spool::Memory(Vec::new());
    let mut len = 0u64;
    loop {
        let frame = poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx));
        let frame =
            timeout(config.patience, frame).await.map_err(|_| "it stopped in the middle")?;
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|e| in_full(&e))?;
        let Some(bytes) = frame.data_ref() else { continue };
        len += bytes.len() as u64;
        if len > config.body_max {
            return Err(format!("the response has more than {} bytes", config.body_max));
        }
        spool.write(bytes).map_err(|e| format!("no room to keep it: {e}"))?;
    }
    let body = spool.body().map_err(|e| format!("no room to keep it: {e}"))?;
    let passed = PASSED.iter().flat_map(|name| {
        head.headers.get_all(name).iter().filter_map(move |v| Some((name, v.to_str().ok()?)))
    });
    let http_headers = passed.map(|(name, value)| match name {
        &header::LOCATION => format!("{name}: {}", config.origin.here(&config.host, value)),
        _ => format!("{name}: {value}"),
    });
    let http_headers = http_headers.collect();
    let about = About {
        segment_size: config.segment_size,
        freshness,
        mtime_ns: None,
        http_status: Some(head.status.as_u16()),
        http_headers,
    };
    let is_kept = head.status == StatusCode::OK;
    let validator = |name| head.headers.get(name).filter(|_| is_kept).and_then(validator);
    let validators =
        Validators { etag: validator(header::ETAG), modified: validator(header::LAST_MODIFIED) };
    Ok(Outcome::New { body, about, validators })
}

/// A copy, because a clone would keep the whole read buffer alive.
fn validator(value: &HeaderValue) -> Option<HeaderValue> {
    let bytes = Some(value.as_bytes()).filter(|bytes| bytes.len() <= VALIDATOR_MAX)?;
    HeaderValue::from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validators_are_kept_only_when_short_and_apart_from_what_was_read() {
        let read = hyper::body::Bytes::from(vec![b'a'; VALIDATOR_MAX + 1]);
        let value = |len| HeaderValue::from_maybe_shared(read.slice(..len)).unwrap();
        assert_eq!(validator(&value(VALIDATOR_MAX + 1)), None);
        let kept = validator(&value(VALIDATOR_MAX)).unwrap();
        assert_eq!(kept, value(VALIDATOR_MAX));
        assert!(read.is_unique(), "what was read is still held");
    }
}
