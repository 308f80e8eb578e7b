//! Parses `fabric/SPEC.md`: its tables of bodies, structures and codes; with an encoder and a
//! decoder based only on these tables.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Map, Value, json};

pub(crate) const TEXT: &str = include_str!("../../src/fabric/SPEC.md");

/// Name and type of each field, in order.
pub(crate) type Fields = Vec<(String, String)>;

/// The contents of the tables.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tables {
    /// By kind: the name.
    pub(crate) bodies: BTreeMap<u8, String>,
    /// Of bodies and of structures in them, by name.
    pub(crate) fields: BTreeMap<String, Fields>,
    /// By name: the meaning of each number.
    pub(crate) codes: BTreeMap<String, BTreeMap<u8, String>>,
}

impl Tables {
    pub(crate) fn read() -> Tables {
        let mut tables = Tables::default();
        let (mut section, mut name) = ("", String::new());
        for line in TEXT.lines() {
            if let Some(heading) = line.strip_prefix("## ") {
                (section, name) = (heading, String::new());
            } else if let Some(heading) = line.strip_prefix("### ") {
                name = heading.to_string();
                match section {
                    "9. Bodies" => {
                        let (kind, body) = heading.split_once(' ').expect("kind and name");
                        name = body.to_string();
                        let kind = kind.parse().expect("a kind is a number");
                        let twice = tables.bodies.insert(kind, name.clone());
                        assert_eq!(twice, None, "kind {kind} stands twice");
                        tables.fields.insert(name.clone(), vec![]);
                    }
                    "Structures in bodies" => drop(tables.fields.insert(name.clone(), vec![])),
                    "Codes in bodies" => {
                        drop(tables.codes.insert(name.clone(), BTreeMap::new()));
                    }
                    _ => {}
                }
            } else if let Some(row) = line.strip_prefix("| ") {
                let cells: Vec<String> = row.split(" | ").map(str::to_string).collect();
                let [first, second, ..] = &cells[..] else { continue };
                if let Ok(code) = first.parse()
                    && let Some(codes) = tables.codes.get_mut(&name)
                {
                    codes.insert(code, second.clone());
                } else if first != "field"
                    && let Some(fields) = tables.fields.get_mut(&name)
                {
                    fields.push((first.clone(), second.clone()));
                }
            }
        }
        tables
    }

    /// The bytes of `{"body_name": {fields}}`.
    pub(crate) fn encode_body(&self, request: u32, body: &Value) -> Vec<u8> {
        let (name, fields) = body.as_object().unwrap().iter().next().unwrap();
        let found = self.bodies.iter().find(|(_, n)| snake(n) == *name);
        let (kind, name) = found.unwrap_or_else(|| panic!("no body {name}"));
        let mut out = vec![*kind];
        if *kind < 128 {
            out.extend(request.to_be_bytes());
        }
        self.encode(name, fields, &mut out);
        out
    }

    fn encode(&self, type_: &str, value: &Value, out: &mut Vec<u8>) {
        if let Some(item) = type_.strip_suffix('?') {
            out.push(u8::from(!value.is_null()));
            if !value.is_null() {
                self.encode(item, value, out);
            }
        } else if let Some(item) = list_of(type_) {
            let items = value.as_array().unwrap();
            out.extend((items.len() as u16).to_be_bytes());
            items.iter().for_each(|v| self.encode(item, v, out));
        } else if let Some(codes) = self.codes.get(type_) {
            let code = codes.iter().find(|(_, name)| value.as_str() == Some(&snake(name)));
            out.push(*code.expect("a code of its table").0);
        } else if let Some(fields) = self.fields.get(type_) {
            assert_eq!(value.as_object().unwrap().len(), fields.len(), "{value}");
            fields.iter().for_each(|(name, t)| self.encode(t, &value[name], out));
        } else if let Some(len) = integer_len(type_) {
            out.extend(&value.as_u64().unwrap().to_be_bytes()[8 - len..]);
        } else {
            match type_ {
                "bool" => out.push(value.as_bool().unwrap().into()),
                "mac" => out.extend(mac(value)),
                "ip" => match value.as_str().unwrap().parse().unwrap() {
                    IpAddr::V4(ip) => out.extend([&[4], &ip.octets()[..]].concat()),
                    IpAddr::V6(ip) => out.extend([&[6], &ip.octets()[..]].concat()),
                },
                "key" | "secret" => out.extend(value.as_array().unwrap().iter().map(byte)),
                "number" => {
                    let bytes = value.as_u64().unwrap().to_be_bytes();
                    let bytes: Vec<u8> = bytes.into_iter().skip_while(|b| *b == 0).collect();
                    out.extend([&[bytes.len() as u8], &bytes[..]].concat());
                }
                "ips" => {
                    let (version, both) = value.as_object().unwrap().iter().next().unwrap();
                    out.push(version[1..].parse().unwrap());
                    for ip in both.as_array().unwrap() {
                        match ip.as_str().unwrap().parse().unwrap() {
                            IpAddr::V4(ip) => out.extend(ip.octets()),
                            IpAddr::V6(ip) => out.extend(ip.octets()),
                        }
                    }
                }
                "routes" => {
                    let routes = value.as_array().unwrap().iter();
                    let hops = |r: &Value| r.as_array().unwrap().iter().map(byte).collect();
                    out.extend(pack(&routes.map(hops).collect::<Vec<Vec<u8>>>()));
                }
                other => panic!("the type {other} has no encoding"),
            }
        }
    }

    /// Request and body; or the name of the error.
    pub(crate) fn decode_body(&self, bytes: &[u8]) -> Result<(u32, Value), String> {
        let mut rest = bytes;
        let kind = self.decode("u8", &mut rest)?.as_u64().unwrap() as u8;
        let request = if kind < 128 { integer(take(&mut rest, 4)?) as u32 } else { 0 };
        let name = self.bodies.get(&kind).ok_or("kind")?;
        let fields = self.decode(name, &mut rest)?;
        if rest.is_empty() {
            Ok((request, json!({ snake(name): fields })))
        } else {
            Err("length".into())
        }
    }

    fn decode(&self, type_: &str, rest: &mut &[u8]) -> Result<Value, String> {
        if let Some(item) = type_.strip_suffix('?') {
            let is_there = self.decode("bool", rest)? == true;
            return if is_there { self.decode(item, rest) } else { Ok(Value::Null) };
        }
        if let Some(item) = list_of(type_) {
            let count = integer(take(rest, 2)?) as usize;
            if rest.len() < count * self.shortest(item) {
                return Err("truncated".into());
            }
            return (0..count).map(|_| self.decode(item, rest)).collect();
        }
        if let Some(codes) = self.codes.get(type_) {
            let code = take(rest, 1)?[0];
            return codes.get(&code).map(|n| snake(n).into()).ok_or(snake(type_));
        }
        if let Some(fields) = self.fields.get(type_) {
            let mut out = Map::new();
            for (name, t) in fields {
                out.insert(name.clone(), self.decode(t, rest)?);
            }
            return Ok(out.into());
        }
        if let Some(len) = integer_len(type_) {
            return Ok(integer(take(rest, len)?).into());
        }
        match type_ {
            "bool" => match take(rest, 1)?[0] {
                0 => Ok(false.into()),
                1 => Ok(true.into()),
                _ => Err("bool".into()),
            },
            "mac" => {
                let parts = take(rest, 6)?.iter().map(|b| format!("{b:02x}"));
                Ok(parts.collect::<Vec<_>>().join(":").into())
            }
            "ip" => {
                let ip = match take(rest, 1)?[0] {
                    4 => IpAddr::from(<[u8; 4]>::try_from(take(rest, 4)?).unwrap()),
                    6 => IpAddr::from(<[u8; 16]>::try_from(take(rest, 16)?).unwrap()),
                    _ => return Err("ip_version".into()),
                };
                Ok(ip.to_string().into())
            }
            "key" => Ok(take(rest, 32)?.into()),
            "secret" => Ok(take(rest, 16)?.into()),
            "number" => match take(rest, 1)?[0] {
                len @ 0..=8 => match take(rest, len.into())? {
                    [0, ..] => Err("number".into()),
                    bytes => Ok(integer(bytes).into()),
                },
                _ => Err("number".into()),
            },
            "ips" => {
                let version = take(rest, 1)?[0];
                let mut ip = || -> Result<String, String> {
                    Ok(match version {
                        4 => IpAddr::from(<[u8; 4]>::try_from(take(rest, 4)?).unwrap()),
                        6 => IpAddr::from(<[u8; 16]>::try_from(take(rest, 16)?).unwrap()),
                        _ => return Err("ip_version".into()),
                    }
                    .to_string())
                };
                let both = [ip()?, ip()?];
                Ok(json!({ format!("v{version}"): both }))
            }
            "routes" => unpack(rest).map(|routes| json!(routes)),
            other => panic!("the type {other} has no encoding"),
        }
    }

    /// Fewest bytes of a value.
    fn shortest(&self, type_: &str) -> usize {
        match type_ {
            _ if type_.ends_with('?') || type_ == "bool" || self.codes.contains_key(type_) => 1,
            _ if list_of(type_).is_some() => 2,
            "mac" => 6,
            "ip" => 5,
            "key" => 32,
            _ => match self.fields.get(type_) {
                Some(fields) => fields.iter().map(|(_, t)| self.shortest(t)).sum(),
                None => integer_len(type_).expect("a type of the tables"),
            },
        }
    }
}

/// Routes as the document writes them: digits of 0 and 1, eight to a byte.
fn pack(routes: &[Vec<u8>]) -> Vec<u8> {
    let on_the_way = || routes.iter().flat_map(|r| &r[..r.len() - 1]).copied();
    let low = on_the_way().min().unwrap_or(0);
    let highest = on_the_way().max().map_or(0, |high| high - low);
    let width = if highest == 0 { 0 } else { format!("{highest:b}").len() };
    let mut out = vec![(routes.len() * 16 + width) as u8];
    out.extend((!routes.is_empty()).then_some(low));
    for route in routes {
        let (last, way) = route.split_last().unwrap();
        out.extend([route.len() as u8, *last]);
        let text = |hop: &u8| format!("{:0width$b}", hop - low)[..width].to_string();
        let digits: String =
            if width == 0 { String::new() } else { way.iter().map(text).collect() };
        let bytes = digits.as_bytes().chunks(8).map(|eight| {
            let eight = format!("{:0<8}", str::from_utf8(eight).unwrap());
            u8::from_str_radix(&eight, 2).unwrap()
        });
        out.extend(bytes);
    }
    out
}

fn unpack(rest: &mut &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let whole = *rest;
    let head = take(rest, 1)?[0];
    let (count, width) = (head / 16, usize::from(head % 16));
    if width > 8 {
        return Err("routes".into());
    }
    let low = if count > 0 { take(rest, 1)?[0] } else { 0 };
    let mut routes = vec![];
    for _ in 0..count {
        let [len, last] = *take(rest, 2)? else { unreachable!("two were taken") };
        if len == 0 {
            return Err("routes".into());
        }
        let way = usize::from(len) - 1;
        let bytes = take(rest, (way * width).div_ceil(8))?;
        let digits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
        let mut route = vec![];
        for at in 0..way {
            let digits = &digits[at * width..(at + 1) * width];
            let more = if width == 0 { 0 } else { u32::from_str_radix(digits, 2).unwrap() };
            route.push(u8::try_from(u32::from(low) + more).map_err(|_| "routes")?);
        }
        route.push(last);
        routes.push(route);
    }
    if pack(&routes) != whole[..whole.len() - rest.len()] {
        return Err("routes".into());
    }
    Ok(routes)
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], String> {
    if rest.len() < len {
        return Err("truncated".into());
    }
    let (head, tail) = rest.split_at(len);
    *rest = tail;
    Ok(head)
}

fn integer(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| n * 256 + u64::from(*b))
}

fn integer_len(type_: &str) -> Option<usize> {
    match type_ {
        "u8" => Some(1),
        "u16" => Some(2),
        "u32" => Some(4),
        "u64" => Some(8),
        _ => None,
    }
}

fn list_of(type_: &str) -> Option<&str> {
    if matches!(type_, "hops" | "bytes") { Some("u8") } else { type_.strip_suffix("[]") }
}

fn byte(value: &Value) -> u8 {
    value.as_u64().unwrap().try_into().unwrap()
}

/// The six bytes of an address in text.
pub(crate) fn mac(value: &Value) -> Vec<u8> {
    let parts = value.as_str().unwrap().split(':');
    parts.map(|p| u8::from_str_radix(p, 16).unwrap()).collect()
}

/// `TooSmall` as `too_small`.
pub(crate) fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}
