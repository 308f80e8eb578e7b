//! Prometheus metrics (text exposition format 0.0.4) over plain HTTP: GET /metrics.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How long a scraper may take to ask and to read.
const PATIENCE: Duration = Duration::from_secs(5);

/// Listens, in a thread of its own that serves one scraper at a time. `text` gives the metrics at
/// what follows `/metrics` in the path, or says why there are none. Returns the address, whose port
/// the system chose if it was 0.
///
/// # Errors
/// When the address cannot be listened on.
pub fn serve_metrics(
    address: SocketAddr,
    text: impl Fn(&str) -> Result<String, String> + Send + 'static,
) -> Result<SocketAddr, String> {
    let unusable = |e| format!("metrics at {address}: {e}: choose another `metrics` address");
    let listener = TcpListener::bind(address).map_err(unusable)?;
    let address = listener.local_addr().map_err(unusable)?;
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
    Ok(address)
}

fn respond(
    text: &impl Fn(&str) -> Result<String, String>,
    mut stream: TcpStream,
) -> io::Result<()> {
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
    let head = String::from_utf8_lossy(&request[..len]);
    let (status, body) = match head.split(' ').nth(1).and_then(|path| path.strip_prefix("/metrics"))
    {
        Some(of) if head.starts_with("GET ") => match text(of.trim_start_matches('/')) {
            Ok(text) => ("200 OK", text),
            Err(why) => ("503 Service Unavailable", format!("{why}\n")),
        },
        _ => ("404 Not Found", "metrics are at /metrics\n".to_string()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
