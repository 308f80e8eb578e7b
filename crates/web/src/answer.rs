//! Answers to requests.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::{Body, Bytes};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use plexus_api::answer::network::Pair;
use plexus_wire::{MacAddr, Prefix};

use crate::Command;
use crate::desk::{Desk, Question};
use crate::files::{self, File};
use crate::gate::Gate;
use crate::readers::Reader;
use crate::stream::{self, Reply};

/// Most bytes of a request's body, and how long they may take.
const BODY: usize = 2048;
const BODY_TIME: Duration = Duration::from_secs(10);
/// How long somebody waits who gives a wrong token.
const WRONG_TOKEN: Duration = Duration::from_secs(1);

/// Only the page's own files run and are loaded, and no other page shows this one in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// With every answer.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    // With `no-referrer` a browser hides the origin of the form that gives the token.
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-cache"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Answers readers.
pub(crate) struct Clerk {
    pub(crate) gate: Gate,
    pub(crate) desk: Desk,
}

fn reply(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Response<Reply> {
    let mut response = Response::new(Reply::Bytes(Some(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    response
}

fn refuse(status: StatusCode, why: impl std::fmt::Display) -> Response<Reply> {
    reply(status, "text/plain; charset=utf-8", format!("{why}\n"))
}

fn file(status: StatusCode, file: File) -> Response<Reply> {
    reply(status, file.media, file.bytes)
}

impl Clerk {
    /// Answers a request of this reader.
    pub(crate) async fn answer<B: Body<Data = Bytes> + Unpin>(
        &self,
        request: Request<B>,
        reader: &Rc<Reader>,
    ) -> Response<Reply> {
        reader.takes();
        let is_head = request.method() == Method::HEAD;
        let mut response = match self.gate.admit(&request) {
            Ok(()) => self.admitted(request, reader).await,
            Err(why) => refuse(StatusCode::FORBIDDEN, why),
        };
        if is_head {
            *response.body_mut() = Reply::Bytes(None);
        }
        for (name, value) in HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }

    async fn admitted<B: Body<Data = Bytes> + Unpin>(
        &self,
        request: Request<B>,
        reader: &Rc<Reader>,
    ) -> Response<Reply> {
        let path = request.uri().path().to_string();
        let is_open = self.gate.is_open_to(request.headers());
        if is_open {
            reader.is_known();
        }
        let is_post = request.method() == Method::POST;
        match (path.as_str(), is_post) {
            ("/login", true) => self.log_in(request.into_body()).await,
            ("/api/command", true) if is_open => self.command(request.into_body()).await,
            (_, false) if !request.method().is_safe() => self.method(),
            (_, true) if is_open => self.method(),
            ("/", false) if !is_open => file(StatusCode::UNAUTHORIZED, files::LOGIN),
            ("/api/stream", false) if is_open && request.method() == Method::GET => {
                let mut response = Response::new(stream::events(&self.desk, reader.clone()));
                let media = HeaderValue::from_static("text/event-stream");
                response.headers_mut().insert(header::CONTENT_TYPE, media);
                response
            }
            (path, false) => match (files::at(path), path.strip_prefix("/api/")) {
                (Some(found), _) => file(StatusCode::OK, found),
                (None, Some(what)) if is_open => match question(what) {
                    Some(question) => self.ask(question).await,
                    None => refuse(StatusCode::NOT_FOUND, "there is no such question"),
                },
                (None, None) => refuse(StatusCode::NOT_FOUND, "there is no such page"),
                _ => refuse(StatusCode::UNAUTHORIZED, "this page needs its token"),
            },
            _ => refuse(StatusCode::UNAUTHORIZED, "this page needs its token"),
        }
    }

    fn method(&self) -> Response<Reply> {
        let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        response
    }

    async fn log_in(&self, body: impl Body<Data = Bytes> + Unpin) -> Response<Reply> {
        let Some(form) = whole(body).await else {
            return refuse(StatusCode::BAD_REQUEST, "the form is too long or incomplete");
        };
        let Some(cookie) = self.gate.log_in(&form).and_then(|c| HeaderValue::from_str(&c).ok())
        else {
            tokio::time::sleep(WRONG_TOKEN).await;
            return file(StatusCode::UNAUTHORIZED, files::LOGIN);
        };
        let mut response = reply(StatusCode::SEE_OTHER, "text/plain", "");
        response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
        response.headers_mut().insert(header::SET_COOKIE, cookie);
        response
    }

    async fn command(&self, body: impl Body<Data = Bytes> + Unpin) -> Response<Reply> {
        let Some(json) = whole(body).await else {
            return refuse(StatusCode::BAD_REQUEST, "the command is too long or incomplete");
        };
        match serde_json::from_slice::<Command>(&json) {
            Ok(command) => self.ask(Question::Command(command)).await,
            Err(error) => refuse(StatusCode::BAD_REQUEST, format!("not a command: {error}")),
        }
    }

    async fn ask(&self, question: Question) -> Response<Reply> {
        match self.desk.ask(question).await {
            Some(Ok(value)) => reply(StatusCode::OK, "application/json", value.to_string()),
            Some(Err(why)) => refuse(StatusCode::CONFLICT, why),
            None => refuse(StatusCode::SERVICE_UNAVAILABLE, "too many readers ask: ask again"),
        }
    }
}

/// The question of a path below `/api/`: `ways/FROM/TO`, where `-` is any host, `routes/PREFIX`
/// and `route/ADDRESS`.
fn question(path: &str) -> Option<Question> {
    let (what, rest) = path.split_once('/')?;
    let host = |text: &str| match text {
        "-" => Some(None),
        mac => mac.parse::<MacAddr>().ok().map(Some),
    };
    match what {
        "ways" => {
            let (from, to) = rest.split_once('/')?;
            let pair = Pair { from: host(from)?, to: host(to)? };
            (pair.from.is_some() || pair.to.is_some()).then_some(Question::Ways(pair))
        }
        "routes" => rest.parse::<Prefix>().ok().map(Question::Routes),
        "route" => rest.parse::<IpAddr>().ok().map(Question::Route),
        _ => None,
    }
}

/// A short body; `None` if it is too long, or does not come.
async fn whole(mut body: impl Body<Data = Bytes> + Unpin) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = async {
        while let Some(frame) =
            std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await
        {
            let Ok(data) = frame.ok()?.into_data() else { continue };
            if bytes.len() + data.len() > BODY {
                return None;
            }
            bytes.extend_from_slice(&data);
        }
        Some(())
    };
    tokio::time::timeout(BODY_TIME, read).await.ok()??;
    Some(bytes)
}
