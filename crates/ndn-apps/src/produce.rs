//! A producer that answers every Interest below its prefix, with Data of one size, prepared in
//! advance except for the name.

use std::time::Duration;

use plexus_ndn::link::{Kind, Received};
use plexus_wire::Time;
use plexus_wire::ndn::data::MetaInfo;
use plexus_wire::ndn::lp::Headers;
use plexus_wire::ndn::name::DIGEST_LEN;
use plexus_wire::ndn::signature::{SignatureInfo, SignatureType};
use plexus_wire::ndn::tlv::{Writer, element_len};
use plexus_wire::ndn::{Component, Interest, Name, NameBuf, tlv, types};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sha2::{Digest, Sha256};

use crate::app::{Application, Output};
use crate::digest::sha256;

/// How answers are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signing {
    /// By a digest of each, which costs more than all other work.
    #[default]
    Digest,
    /// Not at all (signature type 200, no value): for consumers that do not validate.
    None,
}

impl std::str::FromStr for Signing {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Signing, &'static str> {
        match text {
            "digest" => Ok(Signing::Digest),
            "none" => Ok(Signing::None),
            _ => Err("write digest or none"),
        }
    }
}

/// Configuration of the answers.
#[derive(Clone, Debug)]
pub struct Config {
    /// The prefix that is answered.
    pub prefix: NameBuf,
    /// Bytes of content.
    pub size: usize,
    /// How long answers are fresh.
    pub freshness: Duration,
    /// How they are signed.
    pub signing: Signing,
    /// The FinalBlockId of each; `None`: it has none.
    pub last: Option<u64>,
    /// Determines the content.
    pub seed: u64,
}

/// Counters of a producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Interests received.
    pub interests: u64,
    /// Data sent.
    pub data: u64,
    /// Interests that cannot be answered: for other prefixes, with another digest, or malformed.
    pub ignored: u64,
    /// Bytes of content sent.
    pub bytes: u64,
}

/// Answers every Interest below a prefix.
pub struct Producer {
    config: Config,
    /// Everything between name and signature.
    tail: Vec<u8>,
    packet: Vec<u8>,
    counters: Counters,
}

impl Producer {
    /// Prepares the answers.
    pub fn new(config: Config) -> Producer {
        let mut content = vec![0; config.size];
        Pcg64Mcg::seed_from_u64(config.seed).fill_bytes(&mut content);
        let number = config.last.unwrap_or(0).to_be_bytes();
        let value = &number[8 - tlv::number_len(config.last.unwrap_or(0))..];
        let meta = MetaInfo {
            content_type: None,
            freshness_ms: Some(config.freshness.as_millis() as u64).filter(|ms| *ms > 0),
            final_block: config.last.map(|_| Component { kind: types::SEGMENT as u16, value }),
        };
        let kind = match config.signing {
            Signing::Digest => SignatureType::DIGEST_SHA256,
            Signing::None => SignatureType::NULL,
        };
        let write = |w: &mut Writer<'_>| {
            w.nested(types::META_INFO, |w| meta.write(w));
            w.element(types::CONTENT, &content);
            SignatureInfo::new(kind).write(types::SIGNATURE_INFO, w);
        };
        let mut tail = vec![0; Writer::count(write)];
        write(&mut Writer::new(&mut tail));
        Producer { config, tail, packet: Vec::new(), counters: Counters::default() }
    }

    /// Its counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The prefix that is answered.
    pub fn prefix(&self) -> &NameBuf {
        &self.config.prefix
    }

    /// The Data with a name, valid until the next call.
    fn data(&mut self, name: Name<'_>) -> &[u8] {
        let signature_len = match self.config.signing {
            Signing::Digest => DIGEST_LEN,
            Signing::None => 0,
        };
        let signature = element_len(types::SIGNATURE_VALUE, signature_len);
        let value_len = name.encoded_len() + self.tail.len() + signature;
        self.packet.resize(element_len(types::DATA, value_len), 0);
        let mut w = Writer::new(&mut self.packet);
        w.head(types::DATA, value_len);
        let signed_at = w.len();
        name.write(&mut w);
        w.bytes(&self.tail);
        let signed_end = w.len();
        w.head(types::SIGNATURE_VALUE, signature_len);
        let value_at = w.len();
        if signature_len > 0 {
            let digest = Sha256::digest(&self.packet[signed_at..signed_end]);
            self.packet[value_at..].copy_from_slice(&digest);
        }
        &self.packet
    }
}

impl Application for Producer {
    fn packet(&mut self, _: Time, received: &Received<'_>, out: &mut dyn Output) {
        if received.kind != Kind::Interest {
            return;
        }
        self.counters.interests += 1;
        let name = match Interest::new_checked(received.packet) {
            Ok(interest) => interest.name(),
            Err(_) => return self.counters.ignored += 1,
        };
        if !self.config.prefix.as_name().is_prefix_of(&name) {
            self.counters.ignored += 1;
            return;
        }
        // A full name matches only the packet with that digest.
        let digest = name.last().and_then(|c| c.digest(types::IMPLICIT_SHA256_DIGEST));
        let name = name.prefix(name.len() - usize::from(digest.is_some()));
        if digest.is_some_and(|digest| sha256(self.data(name)) != *digest) {
            self.counters.ignored += 1;
            return;
        }
        let headers = Headers { pit_token: received.headers.pit_token, ..Headers::default() };
        out.send(&headers, self.data(name));
        self.counters.data += 1;
        self.counters.bytes += self.config.size as u64;
    }
}

#[cfg(test)]
mod tests {
    use plexus_wire::ndn::Data;
    use plexus_wire::ndn::interest::Repr;
    use proptest::prelude::*;

    use super::*;
    use crate::digest::{Integrity, integrity};

    fn answer(config: Config, name: &NameBuf) -> Vec<(Option<Vec<u8>>, Vec<u8>)> {
        let repr = Repr { nonce: Some([1; 4]), ..Repr::new(name.as_name()) };
        let packet = repr.to_bytes().unwrap();
        let headers = Headers { pit_token: Some(&[7, 8]), ..Headers::default() };
        let received = Received { kind: Kind::Interest, headers, packet: &packet };
        let mut out = Vec::new();
        Producer::new(config).packet(Time::ZERO, &received, &mut out);
        out
    }

    proptest! {
        #[test]
        fn every_answer_is_valid_data_of_the_size(
            component in proptest::collection::vec(any::<u8>(), 0..400),
            size in 0usize..9000,
            last: Option<u64>,
            is_signed: bool,
        ) {
            let signing = if is_signed { Signing::Digest } else { Signing::None };
            let config = Config {
                prefix: "/p".parse().unwrap(),
                size,
                freshness: Duration::from_millis(5),
                signing,
                last,
                seed: 1,
            };
            let name = config.prefix.clone().with(component);
            let out = answer(config, &name);
            let (token, packet) = &out[0];
            prop_assert_eq!(token.as_deref(), Some(&[7, 8][..]));
            let data = Data::new_checked(packet).unwrap();
            prop_assert_eq!(data.as_bytes().len(), packet.len());
            prop_assert_eq!(data.name(), name.as_name());
            prop_assert_eq!(data.content().len(), size);
            let number = data.meta().final_block.and_then(|c| c.number(types::SEGMENT));
            prop_assert_eq!(number, last);
            let expected = if is_signed { Integrity::Intact } else { Integrity::Unknown };
            prop_assert_eq!(integrity(&data), expected);
        }
    }

    #[test]
    fn other_prefixes_and_digests_are_left_alone_and_the_right_digest_answered() {
        let config = Config {
            prefix: "/p".parse().unwrap(),
            size: 1,
            freshness: Duration::ZERO,
            signing: Signing::Digest,
            last: None,
            seed: 1,
        };
        let digest = format!("/p/x/sha256digest={}", "00".repeat(32));
        for name in ["/q/p", &digest] {
            assert!(answer(config.clone(), &name.parse().unwrap()).is_empty(), "{name}");
        }
        let (_, packet) = answer(config.clone(), &"/p/x".parse().unwrap()).pop().unwrap();
        let digest: String = sha256(&packet).iter().map(|byte| format!("{byte:02x}")).collect();
        let full = format!("/p/x/sha256digest={digest}").parse().unwrap();
        assert_eq!(answer(config, &full).pop().unwrap().1, packet);
    }
}
