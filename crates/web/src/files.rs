//! The page's files. `page/` has their sources, and `npm run build` there writes those in
//! `assets/`.

/// A file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File {
    /// Its media type.
    pub(crate) media: &'static str,
    pub(crate) bytes: &'static [u8],
}

const HTML: &str = "text/html; charset=utf-8";

/// Shown in the place of the page until the reader has given the token.
pub(crate) const LOGIN: File =
    File { media: HTML, bytes: include_bytes!("../page/src/login.html") };

/// The file of a path. None of them says anything about the network.
pub(crate) fn at(path: &str) -> Option<File> {
    let (media, bytes): (_, &[u8]) = match path {
        "/" => (HTML, include_bytes!("../page/src/index.html")),
        "/page.js" => ("text/javascript; charset=utf-8", include_bytes!("../assets/page.js")),
        "/page.css" => ("text/css; charset=utf-8", include_bytes!("../assets/page.css")),
        "/icon.svg" => ("image/svg+xml", include_bytes!("../page/src/icon.svg")),
        "/licences.txt" => ("text/plain; charset=utf-8", include_bytes!("../assets/licences.txt")),
        _ => return None,
    };
    Some(File { media, bytes })
}
