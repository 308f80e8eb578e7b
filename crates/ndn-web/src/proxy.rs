//! Answers an HTTP request (RFC 9110).
//!
//! The request has an absolute URL (forward proxy) or only a path (gateway for one site). The
//! object's metadata provide status, headers and size; a range needs only its own segments.
#![allow(clippy::result_large_err)] // the error is an answer too, and goes where all answers go

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use plexus_ndn_apps::Failure;
use plexus_ndn_apps::metadata::Metadata;
use plexus_wire::ndn::{NameBuf, types};
use tokio::sync::Semaphore;
use tokio::sync::mpsc;

use crate::body::{Reply, Segments, WAITING_MAX};
use crate::desk::{Desk, Order};
use crate::names::{BadUrl, name_of};
use crate::range::{self, Wanted};

/// Response headers that are forwarded: those that belong to the object and not to the connection
/// or the client.
pub const PASSED: [HeaderName; 12] = [
    header::CONTENT_TYPE,
    header::CONTENT_LANGUAGE,
    header::CONTENT_ENCODING,
    header::CONTENT_DISPOSITION,
    header::CONTENT_SECURITY_POLICY,
    header::X_CONTENT_TYPE_OPTIONS,
    header::CACHE_CONTROL,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::LOCATION,
    header::LINK,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// Answers requests from named data.
pub struct Proxy {
    /// The prefix of all names.
    pub prefix: NameBuf,
    /// The site of requests with only a path, as in names.
    pub site: String,
    /// Fetches named data.
    pub desk: Desk,
    /// The limit on concurrent requests.
    pub places: Arc<Semaphore>,
    /// How long to wait for metadata.
    pub patience: Duration,
}

fn reply(status: StatusCode, text: impl Into<String>) -> Response<Reply> {
    let mut response = Response::new(Reply::text(text.into() + "\n"));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

impl Proxy {
    /// Answers a request; its body is ignored.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Reply> {
        let mut response = match self.try_answer(&request).await {
            Ok(response) | Err(response) => response,
        };
        if request.method() == Method::HEAD {
            // hyper keeps a length that is set.
            if let Reply::Bytes(Some(bytes)) = response.body() {
                let len = HeaderValue::from(bytes.len());
                response.headers_mut().insert(header::CONTENT_LENGTH, len);
            }
            *response.body_mut() = Reply::empty();
        }
        let via = HeaderValue::from_static("1.1 plexus");
        response.headers_mut().insert(header::VIA, via);
        response
    }

    fn name(&self, uri: &Uri) -> Result<NameBuf, Response<Reply>> {
        let host = match (uri.scheme_str(), uri.authority()) {
            (None, _) => self.site.as_str(),
            (Some("http"), Some(authority)) => authority.as_str(),
            (Some(scheme), _) => {
                let why = format!("{scheme}: only http is carried by name");
                return Err(reply(StatusCode::NOT_IMPLEMENTED, why));
            }
        };
        let target = uri.path_and_query().map_or("/", |t| t.as_str());
        // `http://host?query` has no path.
        let rooted;
        let target = match target.starts_with('?') {
            true => {
                rooted = format!("/{target}");
                &rooted
            }
            false => target,
        };
        name_of(self.prefix.as_name(), host, target).map_err(|why| match why {
            BadUrl::TooLong => reply(StatusCode::URI_TOO_LONG, why.to_string()),
            _ => reply(StatusCode::BAD_REQUEST, why.to_string()),
        })
    }

    async fn try_answer<B>(
        &self,
        request: &Request<B>,
    ) -> Result<Response<Reply>, Response<Reply>> {
        let method = request.method();
        if method == Method::CONNECT {
            let why = "CONNECT (and so https) cannot be carried by name: use http";
            return Err(reply(StatusCode::NOT_IMPLEMENTED, why));
        }
        if method != Method::GET && method != Method::HEAD {
            let mut response = reply(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD");
            let allowed = HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(header::ALLOW, allowed);
            return Err(response);
        }
        let name = self.name(request.uri())?;
        let Ok(permit) = self.places.clone().try_acquire_owned() else {
            let mut response = reply(StatusCode::SERVICE_UNAVAILABLE, "too many requests at once");
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            return Err(response);
        };
        let asked = tokio::time::timeout(self.patience, self.desk.metadata(name.clone())).await;
        let metadata = match asked {
            Ok(Some(Ok(metadata))) => metadata,
            Ok(Some(Err(failure))) => return Err(failed(&failure)),
            Ok(None) => return Err(reply(StatusCode::BAD_GATEWAY, "no connection to a forwarder")),
            Err(_) => {
                let why = format!("no answer for {name}");
                return Err(reply(StatusCode::GATEWAY_TIMEOUT, why));
            }
        };
        let (mut response, part) = head(request, &metadata)?;
        let Some(part) = part.filter(|_| method == Method::GET) else { return Ok(response) };
        if part.len == Some(0) {
            return Ok(response);
        }
        let (sink, receiver) = mpsc::channel(WAITING_MAX);
        let Part { first, last, skip, len } = part;
        let shape = metadata.segment_size.zip(metadata.last);
        self.desk.order(Order { object: metadata.name, first, last, shape, sink });
        let desk = self.desk.clone();
        let segments = Segments { receiver, desk, skip, remaining: len, permit };
        *response.body_mut() = Reply::Segments(segments);
        Ok(response)
    }
}

fn failed(failure: &Failure) -> Response<Reply> {
    let status = match failure {
        Failure::Absent(_) => StatusCode::NOT_FOUND,
        Failure::NoAnswer { .. } => StatusCode::GATEWAY_TIMEOUT,
        Failure::NoRoute(_) | Failure::Misfit { .. } => StatusCode::BAD_GATEWAY,
    };
    reply(status, failure.to_string())
}

/// The segments of a body.
struct Part {
    first: u64,
    last: Option<u64>,
    skip: u64,
    len: Option<u64>,
}

impl Part {
    /// The whole object.
    fn all(metadata: &Metadata) -> Part {
        Part { first: 0, last: metadata.last, skip: 0, len: metadata.size }
    }
}

/// Status and headers of the answer, and its body; `None` if it has none. Also for HEAD.
fn head<B>(
    request: &Request<B>,
    metadata: &Metadata,
) -> Result<(Response<Reply>, Option<Part>), Response<Reply>> {
    let unfit = || reply(StatusCode::BAD_GATEWAY, "the published object is not a valid response");
    let name = metadata.name.as_name();
    let version = name.last().and_then(|c| c.number(types::VERSION)).ok_or_else(unfit)?;
    let status = StatusCode::from_u16(metadata.http_status.unwrap_or(200)).map_err(|_| unfit())?;
    if status.is_informational() {
        return Err(unfit());
    }
    let etag = format!("\"{version}\"");
    let mut response = Response::new(Reply::empty());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for line in &metadata.http_headers {
        // Lines that cannot be a header are dropped.
        if let Some((name, value)) = line.split_once(':')
            && let Ok(name) = HeaderName::from_bytes(name.trim().as_bytes())
            && let Ok(value) = HeaderValue::from_str(value.trim())
            && PASSED.contains(&name)
            && let Some(value) = passed(&name, value)
        {
            headers.append(name, value);
        }
    }
    if status != StatusCode::OK {
        let has_body = status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED;
        set_length(headers, metadata.size.filter(|_| has_body));
        return Ok((response, has_body.then(|| Part::all(metadata))));
    }
    if !headers.contains_key(header::LAST_MODIFIED)
        && let Some(modified) = metadata.mtime_ns.and_then(date)
    {
        headers.insert(header::LAST_MODIFIED, modified);
    }
    if let Ok(value) = HeaderValue::from_str(&etag) {
        headers.insert(header::ETAG, value);
    }
    let is_known = is_known(request.headers(), &etag, headers.get(header::LAST_MODIFIED));
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok((response, None));
    }
    // Without size and segment size, the segment of a byte is unknown.
    let shape = metadata.size.zip(metadata.segment_size.filter(|size| *size > 0));
    let Some((size, segment_size)) = shape else {
        set_length(headers, metadata.size);
        return Ok((response, Some(Part::all(metadata))));
    };
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    match wanted(request, &etag, headers.get(header::LAST_MODIFIED), size) {
        Wanted::All => {
            set_length(headers, Some(size));
            Ok((response, Some(Part::all(metadata))))
        }
        Wanted::Part(first, last) => {
            let range = format!("bytes {first}-{last}/{size}");
            if let Ok(range) = HeaderValue::from_str(&range) {
                headers.insert(header::CONTENT_RANGE, range);
            }
            set_length(headers, Some(last - first + 1));
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let slice = range::slice(first, last, segment_size);
            let len = Some(slice.len);
            let part = Part { first: slice.first, last: Some(slice.last), skip: slice.skip, len };
            Ok((response, Some(part)))
        }
        Wanted::Unsatisfiable => {
            let mut response = reply(StatusCode::RANGE_NOT_SATISFIABLE, "no such bytes");
            if let Ok(range) = HeaderValue::from_str(&format!("bytes */{size}")) {
                response.headers_mut().insert(header::CONTENT_RANGE, range);
            }
            Err(response)
        }
    }
}

/// A forwarded header without the parts that would make a browser use https, which is not
/// supported. `None` if nothing is left.
fn passed(name: &HeaderName, value: HeaderValue) -> Option<HeaderValue> {
    if *name != header::CONTENT_SECURITY_POLICY {
        return Some(value);
    }
    let is_kept = |directive: &&str| {
        let name = directive.split_ascii_whitespace().next().unwrap_or_default();
        let is = |other| name.eq_ignore_ascii_case(other);
        !is("upgrade-insecure-requests") && !is("block-all-mixed-content")
    };
    // RFC 9110, 5.3: several policies may be in one line, separated by commas.
    let policies = value.to_str().ok()?.split(',').map(|policy| {
        let kept: Vec<_> = policy.split(';').filter(is_kept).map(str::trim).collect();
        kept.join("; ")
    });
    let policies: Vec<_> = policies.filter(|policy| !policy.is_empty()).collect();
    let value = policies.join(", ");
    HeaderValue::from_str(&value).ok().filter(|_| !value.is_empty())
}

fn set_length(headers: &mut HeaderMap, len: Option<u64>) {
    if let Some(len) = len {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    }
}

fn date(ns: u64) -> Option<HeaderValue> {
    let at = UNIX_EPOCH + Duration::from_secs(ns / 1_000_000_000);
    // httpdate supports no year above 9999.
    let last = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    (at <= last).then(|| HeaderValue::from_str(&httpdate::fmt_http_date(at)).ok())?
}

fn parse_date(value: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(value.to_str().ok()?).ok()
}

/// Whether the client has the object already (RFC 9110, 13.1.2 and 13.1.3).
fn is_known(asked: &HeaderMap, etag: &str, modified: Option<&HeaderValue>) -> bool {
    let mut tags = asked.get_all(header::IF_NONE_MATCH).iter().peekable();
    if tags.peek().is_some() {
        let same = |tag: &str| {
            let tag = tag.trim();
            tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag
        };
        return tags.any(|value| value.to_str().is_ok_and(|tags| tags.split(',').any(same)));
    }
    let since = asked.get(header::IF_MODIFIED_SINCE).and_then(parse_date);
    let modified = modified.and_then(parse_date);
    since.zip(modified).is_some_and(|(since, modified)| modified <= since)
}

/// The requested bytes, if the object is still the version that the client means (RFC 9110, 13.1.5
/// and 14.2).
fn wanted<B>(
    request: &Request<B>,
    etag: &str,
    modified: Option<&HeaderValue>,
    size: u64,
) -> Wanted {
    let asked = request.headers();
    let range = asked.get(header::RANGE).and_then(|value| value.to_str().ok());
    let Some(range) = range.filter(|_| request.method() == Method::GET) else {
        return Wanted::All;
    };
    let is_same = match asked.get(header::IF_RANGE) {
        None => true,
        Some(tag) if tag.as_bytes().contains(&b'"') => tag == etag,
        Some(date) => {
            parse_date(date).is_some() && parse_date(date) == modified.and_then(parse_date)
        }
    };
    match is_same {
        true => range::parse(range, size),
        false => Wanted::All,
    }
}

#[cfg(test)]
mod tests;
