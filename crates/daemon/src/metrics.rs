//! Prometheus metrics (text exposition format 0.0.4) over plain HTTP: GET /metrics.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How long a scraper may take to ask and to read.
const PATIENCE: Duration = Duration::from_secs(5);

/// Begins a family of samples.
pub(crate) fn begin_family(out: &mut String, name: &str, help: &str, kind: &str) {
    // Writing to a String does not fail.
    let _ = writeln!(out, "# HELP {name} {help}.\n# TYPE {name} {kind}");
}

/// Listens, in a thread of its own that serves one scraper at a time. `text` gives the metrics, or
/// says why there are none.
///
/// # Errors
/// When the address cannot be listened on.
pub(crate) fn serve(
    address: SocketAddr,
    text: impl Fn() -> Result<String, String> + Send + 'static,
) -> Result<(), String> {
    let listener = TcpListener::bind(address)
        .map_err(|e| format!("metrics at {address}: {e}: choose another `metrics` address"))?;
    tracing::info!("metrics at http://{address}/metrics");
    std::thread::Builder::new()
        .name("metrics".into())
        .spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Err(error) = respond(&text, stream) {
                    tracing::debug!(%error, "metrics client");
                }
            }
        })
        .map_err(|e| format!("starting a thread for metrics: {e}"))?;
    Ok(())
}

fn respond(text: &impl Fn() -> Result<String, String>, mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = [0; 2048];
    let mut len = 0;
    let limit = Instant::now() + PATIENCE;
    // One that sends a byte now and then would keep the others waiting.
    while Instant::now() < limit
        && len < request.len()
        && !request[..len].windows(4).any(|w| w == b"\r\n\r\n")
    {
        match stream.read(&mut request[len..])? {
            0 => break,
            n => len += n,
        }
    }
    let (status, body) = if !request.starts_with(b"GET /metrics") {
        ("404 Not Found", "metrics are at /metrics\n".to_string())
    } else {
        match text() {
            Ok(text) => ("200 OK", text),
            Err(why) => ("503 Service Unavailable", format!("{why}\n")),
        }
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
