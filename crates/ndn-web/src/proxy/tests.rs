//! Response headers, for given metadata and requests.

use super::*;

fn metadata() -> Metadata {
    Metadata {
        name: "/web/h/a/v=77".parse().unwrap(),
        last: Some(2),
        segment_size: Some(100),
        size: Some(250),
        // 1994-11-15T12:45:26Z
        mtime_ns: Some(784_903_526_000_000_000),
        http_status: Some(200),
        http_headers: vec!["content-type: text/html".into()],
    }
}

fn ask(headers: &[(&str, &str)], metadata: &Metadata) -> (Response<Reply>, Option<Part>) {
    let mut request = Request::get("/a");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    match head(&request.body(()).unwrap(), metadata) {
        Ok(answer) => answer,
        Err(response) => (response, None),
    }
}

fn status(headers: &[(&str, &str)]) -> u16 {
    ask(headers, &metadata()).0.status().as_u16()
}

#[test]
fn the_whole_object_is_described() {
    let (response, part) = ask(&[], &metadata());
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_string();
    assert_eq!(response.status(), 200);
    assert_eq!(header("content-length"), "250");
    assert_eq!(header("content-type"), "text/html");
    assert_eq!(header("etag"), "\"77\"");
    assert_eq!(header("accept-ranges"), "bytes");
    assert_eq!(header("last-modified"), "Tue, 15 Nov 1994 12:45:26 GMT");
    let part = part.unwrap();
    assert_eq!((part.first, part.last, part.skip, part.len), (0, Some(2), 0, Some(250)));
}

#[test]
fn ranges_need_only_their_segments_and_only_of_the_same_object() {
    let range = ("range", "bytes=120-205");
    let (response, part) = ask(&[range], &metadata());
    assert_eq!(response.status(), 206);
    assert_eq!(response.headers()["content-range"], "bytes 120-205/250");
    assert_eq!(response.headers()["content-length"], "86");
    let part = part.unwrap();
    assert_eq!((part.first, part.last, part.skip, part.len), (1, Some(2), 20, Some(86)));
    assert_eq!(status(&[range, ("if-range", "\"77\"")]), 206);
    assert_eq!(status(&[range, ("if-range", "\"76\"")]), 200);
    // RFC 9110, 13.1.5: a weak tag never matches.
    assert_eq!(status(&[range, ("if-range", "W/\"77\"")]), 200);
    assert_eq!(status(&[range, ("if-range", "Tue, 15 Nov 1994 12:45:26 GMT")]), 206);
    assert_eq!(status(&[range, ("if-range", "Tue, 15 Nov 1994 12:45:27 GMT")]), 200);
    assert_eq!(status(&[range, ("if-range", "nonsense")]), 200);
    let (response, part) = ask(&[("range", "bytes=250-")], &metadata());
    assert_eq!((response.status().as_u16(), part.is_none()), (416, true));
    assert_eq!(response.headers()["content-range"], "bytes */250");
}

#[test]
fn clients_with_the_object_get_not_modified() {
    for (tags, expected) in [
        ("\"77\"", 304),
        ("W/\"77\"", 304),
        ("\"1\", \"77\"", 304),
        ("*", 304),
        ("\"7\"", 200),
        ("77", 200),
    ] {
        assert_eq!(status(&[("if-none-match", tags)]), expected, "{tags}");
    }
    let since = |date| status(&[("if-modified-since", date)]);
    assert_eq!(since("Tue, 15 Nov 1994 12:45:26 GMT"), 304);
    assert_eq!(since("Tue, 15 Nov 1994 12:45:25 GMT"), 200);
    assert_eq!(since("yesterday"), 200);
    // A tag takes precedence.
    let both = [("if-none-match", "\"7\""), ("if-modified-since", "Tue, 15 Nov 1994 12:45:26 GMT")];
    assert_eq!(status(&both), 200);
    assert_eq!(status(&[("range", "bytes=0-1"), ("if-none-match", "\"77\"")]), 304);
}

#[test]
fn publishers_cannot_inject_headers() {
    let bad = [
        "content-type: a\r\nset-cookie: x=1",
        "set-cookie: x=1",
        "transfer-encoding: chunked",
        "connection: close",
        "content-length: 5",
        "\u{e9}: b",
        "none",
        ": x",
    ];
    let metadata = Metadata {
        http_headers: bad.iter().map(|h| h.to_string()).collect(),
        mtime_ns: Some(u64::MAX),
        ..metadata()
    };
    let (response, _) = ask(&[], &metadata);
    let mut names: Vec<_> = response.headers().keys().map(|n| n.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept-ranges", "content-length", "etag", "last-modified"]);
    assert_eq!(response.headers()["content-length"], "250");
    for metadata in [
        Metadata { http_status: Some(99), ..self::metadata() },
        Metadata { http_status: Some(101), ..self::metadata() },
        Metadata { name: "/web/h/a".parse().unwrap(), ..self::metadata() },
    ] {
        assert_eq!(ask(&[], &metadata).0.status(), 502);
    }
}

#[test]
fn other_objects_than_ours_are_passed_on_as_far_as_they_are_known() {
    let foreign = Metadata { name: metadata().name, ..Metadata::default() };
    let (response, part) = ask(&[("range", "bytes=0-1")], &foreign);
    assert_eq!(response.status(), 200);
    assert!(!response.headers().contains_key("content-length"));
    assert!(!response.headers().contains_key("accept-ranges"));
    assert_eq!(part.map(|p| (p.last, p.len)), Some((None, None)));
    let moved = Metadata {
        http_status: Some(301),
        http_headers: vec!["location: /b/".into()],
        size: Some(0),
        ..metadata()
    };
    let (response, _) = ask(&[("range", "bytes=0-1"), ("if-none-match", "*")], &moved);
    assert_eq!(
        (response.status().as_u16(), &response.headers()["location"]),
        (301, &"/b/".parse().unwrap())
    );
}

#[test]
fn policies_do_not_send_browsers_to_https() {
    for (policy, passed) in [
        ("upgrade-insecure-requests", None),
        ("default-src 'self'; Upgrade-Insecure-Requests", Some("default-src 'self'")),
        ("block-all-mixed-content; img-src a b", Some("img-src a b")),
        ("img-src a, upgrade-insecure-requests , font-src b", Some("img-src a, font-src b")),
        ("img-src upgrade-insecure-requests", Some("img-src upgrade-insecure-requests")),
    ] {
        let http_headers = vec![format!("content-security-policy: {policy}")];
        let (response, _) = ask(&[], &Metadata { http_headers, ..metadata() });
        let header = response.headers().get("content-security-policy");
        assert_eq!(header.map(|value| value.to_str().unwrap()), passed, "{policy}");
    }
}
