//! A client of an NDN forwarder by ndn-app: files by name. README.md says how it is called.
//!
//! The library goes to `/var/run/nfd/nfd.sock` and nowhere else; `run` puts the forwarder's socket
//! there. It writes no nonce into Interests and takes no packets from several reads of its socket,
//! so there is one Interest at a time.

use std::fs;
use std::process::exit;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use ndn_app::app::{App, AppHandler};
use ndn_app::error::Error;
use ndn_app::verifier::AllowAll;
use ndn_protocol::data::{FinalBlockId, FreshnessPeriod, MetaInfo};
use ndn_protocol::name::{KeywordNameComponent, NameComponent};
use ndn_protocol::name::{SegmentNameComponent, VersionNameComponent};
use ndn_protocol::{Data, DigestSha256, Interest, Name};
use ndn_tlv::{NonNegativeInteger, TlvDecode, TlvEncode};

const CHUNK_LEN: usize = 8000;
const FRESHNESS_MS: u64 = 60_000;
const RETRIES: usize = 15;
const USAGE: &str = "usage: ndn-app-client unix://PATH serve|fetch PREFIX FILE: see README.md";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words == ["--help"] {
        return println!("{USAGE}");
    }
    let [_, operation, prefix, file] = &words[..] else { fail(USAGE) };
    let Ok(prefix) = Name::from_str(prefix) else { fail("PREFIX is no name") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.expect("a runtime").block_on(async {
        match operation.as_str() {
            "serve" => serve(prefix, file).await,
            "fetch" => fetch(prefix, file).await,
            _ => fail(USAGE),
        }
    });
    fail(ended.map_or_else(|e| e.to_string(), |()| "the connection has ended".into()));
}

fn fail(why: impl std::fmt::Display) -> ! {
    eprintln!("ndn-app-client: {why}");
    exit(1)
}

fn with(name: &Name, component: impl Into<NameComponent>) -> Name {
    let mut name = name.clone();
    name.components.push(component.into());
    name
}

fn segment(number: usize) -> NameComponent {
    SegmentNameComponent::from(number).into()
}

fn metadata() -> NameComponent {
    KeywordNameComponent::new(Bytes::from_static(b"metadata")).into()
}

fn packet(name: Name, content: Bytes, last: NameComponent) -> Data<Bytes> {
    let mut data = Data::new(name, content);
    data.set_meta_info(Some(MetaInfo {
        content_type: None,
        freshness_period: Some(FreshnessPeriod::new(FRESHNESS_MS)),
        final_block_id: Some(FinalBlockId { final_block_id: last }),
    }));
    data
}

/// Publishes a file: segments by version, and metadata that names the version.
async fn serve(prefix: Name, file: &str) -> Result<(), Error> {
    let content = fs::read(file).unwrap_or_else(|e| fail(e));
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    let version = NonNegativeInteger::new(since_1970.as_micros() as u64);
    let version: NameComponent = VersionNameComponent::new(version).into();
    let versioned = with(&prefix, version.clone());
    let count = content.len().div_ceil(CHUNK_LEN).max(1);
    let packets = (0..count).map(|i| {
        let chunk = &content[i * CHUNK_LEN..content.len().min((i + 1) * CHUNK_LEN)];
        let name = with(&versioned, segment(i));
        packet(name, Bytes::copy_from_slice(chunk), segment(count - 1))
    });
    let packets: Arc<Vec<_>> = Arc::new(packets.collect());
    let name = with(&with(&with(&prefix, metadata()), version), segment(0));
    let described = packet(name, versioned.encode(), segment(0));
    let answer = move |_: AppHandler, interest: Interest<()>, _: ()| {
        let (packets, described) = (packets.clone(), described.clone());
        async move {
            if described.name().has_prefix(interest.name()) {
                return Some(described);
            }
            packets.iter().find(|packet| packet.name() == interest.name()).cloned()
        }
    };
    let app = App::new(DigestSha256::new(), ()).route(prefix, AllowAll, answer);
    // Where its registration was answered.
    app.on_start(|_, ()| async { println!("ready") }).start().await
}

/// Asks for the metadata, then for one segment after the other, and ends the program.
async fn fetch(prefix: Name, file: &str) -> Result<(), Error> {
    let file = file.to_string();
    let consume = move |mut handler: AppHandler, ()| {
        let (prefix, file) = (prefix.clone(), file.clone());
        async move {
            let mut newest = Interest::<()>::new(with(&prefix, metadata()));
            newest.set_can_be_prefix(true).set_must_be_fresh(true);
            let described = ask(&mut handler, newest).await;
            let mut named = described.content().cloned().unwrap_or_default();
            let name = Name::decode(&mut named).unwrap_or_else(|e| fail(e));
            let mut content = Vec::new();
            let mut count = 0;
            loop {
                let data = ask(&mut handler, Interest::new(with(&name, segment(count)))).await;
                content.extend_from_slice(data.content().map_or(&[], |bytes| &bytes[..]));
                count += 1;
                let last = data.meta_info().as_ref().and_then(|i| i.final_block_id.as_ref());
                if last
                    .is_some_and(|last| data.name().components.last() == Some(&last.final_block_id))
                {
                    break;
                }
            }
            fs::write(&file, &content).unwrap_or_else(|e| fail(e));
            println!("{{\"segments\": {count}, \"bytes\": {}}}", content.len());
            exit(0);
        }
    };
    App::new(DigestSha256::new(), ()).on_start(consume).start().await
}

async fn ask(handler: &mut AppHandler, interest: Interest<()>) -> Data<Bytes> {
    for _ in 0..RETRIES {
        match handler.express_interest_unsigned(interest.clone(), AllowAll).await {
            Err(Error::Timeout) => {}
            Ok(data) => return data,
            Err(Error::NackReceived) => fail(format!("Nack for {}", interest.name().to_uri())),
            Err(other) => fail(other),
        }
    }
    fail(format!("no Data for {}", interest.name().to_uri()))
}
