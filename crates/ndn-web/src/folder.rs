//! Publishes a folder as a site.

use std::time::Duration;

use plexus_ndn_apps::files::{Mapping, Tree};
use plexus_ndn_apps::object::{About, Body};
use plexus_wire::ndn::Name;

use crate::names::{target_of, unescape};

/// The files of a folder, by their URLs.
pub struct Folder {
    /// The files.
    pub tree: Tree,
    /// The site's host, as in names.
    pub host: String,
    /// Bytes of a segment.
    pub segment_size: usize,
    /// How long caches may serve a file as the newest version.
    pub freshness: Duration,
}

impl Mapping for Folder {
    fn find(&self, path: Name<'_>) -> Option<(Body, About)> {
        let (host, target) = target_of(path)?;
        if host != self.host {
            return None;
        }
        // Files ignore a query.
        let path = target.split('?').next().unwrap_or_default();
        let parts = path.split('/').skip(1).map(|part| unescape(part.as_bytes()));
        let mut parts = parts.collect::<Option<Vec<_>>>()?;
        if parts.last().is_some_and(Vec::is_empty) {
            parts.pop();
            parts.push(b"index.html".to_vec());
        }
        let about = About {
            segment_size: self.segment_size,
            freshness: self.freshness,
            ..About::default()
        };
        let all = || parts.iter().map(Vec::as_slice);
        if let Some(file) = self.tree.file(all()) {
            let name = parts.last().map(Vec::as_slice).unwrap_or_default();
            let http_headers = vec![format!("content-type: {}", media_type(name))];
            let body = Body::file(file).ok()?;
            return Some((body, About { http_status: Some(200), http_headers, ..about }));
        }
        // Relative links in an index need the trailing slash.
        self.tree.is_folder(all()).then(|| {
            let http_headers = vec![format!("location: {path}/")];
            let about = About { http_status: Some(301), http_headers, ..about };
            (Body::Memory(Vec::new()), about)
        })
    }
}

/// The media type of a file by its extension: those that matter to browsers.
fn media_type(name: &[u8]) -> &'static str {
    let end = name.rsplit(|b| *b == b'.').next().unwrap_or_default().to_ascii_lowercase();
    match &end[..] {
        b"html" | b"htm" => "text/html; charset=utf-8",
        b"css" => "text/css; charset=utf-8",
        b"js" | b"mjs" => "text/javascript; charset=utf-8",
        b"txt" | b"md" => "text/plain; charset=utf-8",
        b"csv" => "text/csv; charset=utf-8",
        b"json" | b"map" => "application/json",
        b"xml" => "application/xml",
        b"wasm" => "application/wasm",
        b"pdf" => "application/pdf",
        b"zip" => "application/zip",
        b"gz" | b"tgz" => "application/gzip",
        b"png" => "image/png",
        b"jpg" | b"jpeg" => "image/jpeg",
        b"gif" => "image/gif",
        b"webp" => "image/webp",
        b"avif" => "image/avif",
        b"svg" => "image/svg+xml",
        b"ico" => "image/x-icon",
        b"mp4" | b"m4v" => "video/mp4",
        b"webm" => "video/webm",
        b"mp3" => "audio/mpeg",
        b"ogg" | b"oga" => "audio/ogg",
        b"wav" => "audio/wav",
        b"woff" => "font/woff",
        b"woff2" => "font/woff2",
        b"ttf" => "font/ttf",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use plexus_wire::ndn::NameBuf;

    use super::*;

    #[test]
    fn urls_lead_to_files_and_nowhere_else() {
        let site = tempfile::tempdir().unwrap();
        std::fs::create_dir(site.path().join("sub dir")).unwrap();
        std::fs::write(site.path().join("index.html"), "<p>").unwrap();
        std::fs::write(site.path().join("sub dir/a.b.PNG"), "png").unwrap();
        let tree = Tree::open(site.path()).unwrap();
        let (segment_size, freshness) = (8000, Duration::ZERO);
        let folder = Folder { tree, host: "h".into(), segment_size, freshness };
        let find = |host: &str, target: &str| {
            let name = crate::names::name_of(Name::ROOT, host, target).unwrap();
            let (body, about) = folder.find(name.as_name())?;
            Some((body.size(), about.http_status.unwrap(), about.http_headers[0].clone()))
        };
        let html = || Some((3, 200, "content-type: text/html; charset=utf-8".to_string()));
        assert_eq!(find("h", "/"), html());
        assert_eq!(find("h", "/index.html?v=2"), html());
        let png = Some((3, 200, "content-type: image/png".to_string()));
        assert_eq!(find("h", "/sub%20dir/a.b.PNG"), png);
        let moved = Some((0, 301, "location: /sub%20dir/".to_string()));
        assert_eq!(find("h", "/sub%20dir"), moved);
        for (host, target) in [
            ("other", "/"),
            ("h", "/none"),
            ("h", "/sub%20dir/"),
            ("h", "/../secret"),
            ("h", "/%2E%2E/secret"),
            ("h", "/sub%20dir%2Fa.b.PNG"),
            ("h", "//index.html"),
            ("h", "/index.html%00"),
        ] {
            assert_eq!(find(host, target), None, "{host} {target}");
        }
        assert!(folder.find(NameBuf::new().as_name()).is_none());
    }
}
