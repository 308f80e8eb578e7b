use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn name(uri: &str) -> NameBuf {
    uri.parse().unwrap()
}

#[test]
fn uris_are_read_and_written_as_the_packet_format_says() {
    // "NDN URI Scheme", and the values that it lists.
    for (uri, value) in [
        ("/42=Hello%20world", &b"\x2A\x0BHello world"[..]),
        ("/Hello%20world", b"\x08\x0BHello world"),
        ("/a/b", b"\x08\x01a\x08\x01b"),
        ("/...", b"\x08\x00"),
        ("/....", b"\x08\x01."),
        ("/.....", b"\x08\x02.."),
        ("/.a.", b"\x08\x03.a."),
        ("/-._~", b"\x08\x04-._~"),
        ("/%2B%3D%2F%25", b"\x08\x04+=/%"),
        ("/65535=...", b"\xFD\xFF\xFF\x00"),
        ("/seg=0/off=256/v=65536", b"\x32\x01\0\x34\x02\x01\0\x36\x04\0\x01\0\0"),
        ("/t=4294967296/seq=1", b"\x38\x08\0\0\0\x01\0\0\0\0\x3A\x01\x01"),
        ("/50=%00%01", b"\x32\x02\x00\x01"),
        ("/54=abc", b"\x36\x03abc"),
        ("/32=meta", b"\x20\x04meta"),
        ("/", b""),
    ] {
        let parsed = name(uri);
        assert_eq!(parsed.as_name().value(), value, "{uri}");
        assert_eq!(Name::new_checked(value).unwrap().to_string(), uri);
    }
    let digest = "893259d98aca58c451453f29ec7dc38688e690dd0b59ef4f3b9d33738bff0b8d";
    for (kind, prefix) in [(1, "sha256digest"), (2, "params-sha256")] {
        let uri = format!("/{prefix}={digest}");
        let parsed = name(&uri);
        assert_eq!(parsed.as_name().value()[..4], [kind, 32, 0x89, 0x32]);
        assert_eq!(parsed.to_string(), uri);
        assert_eq!(name(&format!("/{prefix}={}", digest.to_uppercase())), parsed);
    }
}

#[test]
fn uris_have_other_forms_too() {
    for other in
        ["ndn:/a/b", "NDN:/a/b", "ndn://host:1/a/b", "//host/a/b", "/a/b/", "/8=a/b", "/%61/b"]
    {
        assert_eq!(name(other), name("/a/b"), "{other}");
    }
    for root in ["/", "ndn:/", "//host", "//host/"] {
        assert!(name(root).as_name().is_empty(), "{root}");
    }
    assert_eq!(name("/é"), name("/%C3%A9"));
    assert_eq!(name("/8=a=b"), name("/a%3Db"));
}

#[test]
fn invalid_names_are_explained() {
    for (uri, told) in [
        ("", "\"\" in a name: it has to begin with \"/\""),
        ("a/b", "\"a/b\" in a name: it has to begin with \"/\""),
        ("/a//b", "\"\" in a name: an empty component is written \"...\", and one period \"....\""),
        (
            "/a/..",
            "\"..\" in a name: an empty component is written \"...\", and one period \"....\"",
        ),
        ("/a%2", "\"a%2\" in a name: two digits belong behind a %"),
        ("/a%xy", "\"a%xy\" in a name: two hexadecimal digits belong behind a %"),
        (
            "/seg=a",
            "\"seg=a\" in a name: behind the \"=\" belongs a number below 2^64 without zeros in \
             front",
        ),
    ] {
        assert_eq!(uri.parse::<NameBuf>().unwrap_err().to_string(), told);
    }
    for uri in [
        "/a=b",
        "/0=a",
        "/08=a",
        "/65536=a",
        "/-1=a",
        "/=a",
        "/SEG=1",
        "/seg=",
        "/seg=01",
        "/seg=+1",
        "/v=18446744073709551616",
        "/sha256digest=00",
        "/1=short",
        "/2=",
        "/3=",
        "/3=..",
    ] {
        assert!(uri.parse::<NameBuf>().is_err(), "{uri}");
    }
}

#[test]
fn components_are_checked() {
    let refused = |value: &[u8]| Name::new_checked(value).unwrap_err().to_string();
    assert_eq!(refused(&[8, 1]), "NDN name: truncated, 3 bytes needed and 2 there");
    assert_eq!(refused(&[0, 0]), "NDN name: bad element type 0");
    assert_eq!(refused(&[0xFE, 0, 1, 0, 0, 0]), "NDN name: bad component type 65536");
    assert_eq!(refused(&[1, 1, 0]), "NDN name: bad digest length 1");
    assert_eq!(refused(&[2, 0]), "NDN name: bad digest length 0");
    assert!(Component::new_checked(&[8, 0, 8, 0]).is_err());
    assert_eq!(Component::new_checked(&[8, 1, 7]), Ok(Component::generic(&[7])));
    let mut buf = NameBuf::new();
    assert!(buf.push(Component { kind: 0, value: &[] }).is_err());
    assert!(buf.push(Component { kind: 1, value: &[] }).is_err());
    assert!(buf.as_name().is_empty());
}

#[test]
fn prefixes_are_found_by_where_they_end() {
    let long = name("/a").with(vec![7; 300]).with_number(types::SEGMENT, 9);
    let whole = long.as_name();
    assert_eq!(whole.ends().collect::<Vec<_>>(), [3, 3 + 304, 3 + 304 + 3]);
    assert_eq!(whole.len(), 3);
    for (len, end) in [0].into_iter().chain(whole.ends()).enumerate() {
        let prefix = whole.prefix(len);
        assert_eq!((prefix.len(), prefix.value()), (len, &whole.value()[..end]));
        assert_eq!(Name::new_checked(prefix.value()), Ok(prefix));
        assert!(prefix.is_prefix_of(&whole));
        assert_eq!(whole.is_prefix_of(&prefix), len == 3);
    }
    assert_eq!(whole.prefix(9), whole);
    assert_eq!(whole.last().unwrap().number(types::SEGMENT), Some(9));
    assert_eq!(whole.last().unwrap().number(types::VERSION), None);
    assert_eq!(whole.get(0), Some(Component::generic(b"a")));
    let mut cut = long.clone();
    cut.truncate(1);
    assert_eq!(cut, name("/a"));
    assert!(!name("/ab").as_name().is_prefix_of(&name("/abc").as_name()));
}

#[test]
fn the_canonical_order_is_by_component() {
    let digest = "00".repeat(32);
    let order = [
        "/".to_string(),
        format!("/sha256digest={digest}"),
        format!("/params-sha256={digest}"),
        "/...".into(),
        "/D".into(),
        "/D/sha256digest=ff".replace("ff", &"ff".repeat(32)),
        "/D/D".into(),
        "/F".into(),
        "/AA".into(),
        "/32=A".into(),
        "/seg=1".into(),
        "/seg=256".into(),
    ];
    let names: Vec<NameBuf> = order.iter().map(|uri| name(uri)).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
}

#[test]
fn a_list_of_names_is_checked_whole() {
    let (a, b) = (name("/a/b"), name("/c"));
    let mut bytes = vec![0; 32];
    let mut writer = Writer::new(&mut bytes);
    a.as_name().write(&mut writer);
    writer.element(32, b"x");
    b.as_name().write(&mut writer);
    let len = writer.finish(Format::NdnName).unwrap();
    let names = Names::new_checked(&bytes[..len]).unwrap();
    assert!(names.iter().eq([a.as_name(), b.as_name()]));
    assert!(Names::new_checked(&[]).is_err() && Names::new_checked(&[32, 0]).is_err());
    assert!(Names::new_checked(&[7, 0, 31, 0]).is_err());
    assert!(Names::new_checked(&bytes[..len - 1]).is_err());
}

#[test]
fn maps_can_be_asked_for_a_part_of_a_name() {
    let map = std::collections::HashSet::from([name("/a/b")]);
    let asked = name("/a/b/c");
    let found: Vec<bool> =
        asked.as_name().ends().map(|end| map.contains(&asked.as_name().value()[..end])).collect();
    assert_eq!(found, [false, true, false]);
}

fn component_strategy() -> impl Strategy<Value = (u16, Vec<u8>)> {
    prop_oneof![
        (3u16.., vec(any::<u8>(), 0..40)),
        (Just(8u16), vec(prop_oneof![Just(b'.'), any::<u8>()], 0..5)),
        (prop_oneof![Just(50u16), Just(52), Just(54), Just(56), Just(58)], vec(any::<u8>(), 0..9)),
        (1u16..3, vec(any::<u8>(), 32)),
        (Just(8u16), vec(any::<u8>(), 250..260)),
    ]
}

fn name_strategy() -> impl Strategy<Value = NameBuf> {
    vec(component_strategy(), 0..6).prop_map(|components| {
        let mut name = NameBuf::new();
        for (kind, value) in &components {
            name.push(Component { kind: *kind, value }).unwrap();
        }
        name
    })
}

proptest! {
    #[test]
    fn names_survive_text(name in name_strategy()) {
        prop_assert_eq!(name.to_string().parse(), Ok(name.clone()));
        let checked = Name::new_checked(name.as_name().value()).unwrap();
        prop_assert_eq!(checked.len(), name.as_name().len());
    }

    #[test]
    fn the_order_of_bytes_is_the_order_of_components(a in name_strategy(), b in name_strategy()) {
        let (a, b) = (a.as_name(), b.as_name());
        prop_assert_eq!(a.cmp(&b), a.components().cmp(b.components()));
        let common = a.components().zip(b.components()).take_while(|(x, y)| x == y).count();
        prop_assert_eq!(a.is_prefix_of(&b), common == a.len());
    }
}
