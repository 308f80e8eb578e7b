//! Element type numbers (packet format, "TLV Type Registry"; NDNLPv2, "TLV-TYPE Number
//! Assignments"). Those of management are in the `nfd` module, where some have different meanings
//! in different places.
#![allow(missing_docs)] // the names say it all

pub const INTEREST: u32 = 5;
pub const DATA: u32 = 6;
pub const NAME: u32 = 7;

pub const IMPLICIT_SHA256_DIGEST: u32 = 1;
pub const PARAMETERS_SHA256_DIGEST: u32 = 2;
pub const GENERIC_COMPONENT: u32 = 8;
pub const KEYWORD: u32 = 32;
pub const SEGMENT: u32 = 50;
pub const BYTE_OFFSET: u32 = 52;
pub const VERSION: u32 = 54;
pub const TIMESTAMP: u32 = 56;
pub const SEQUENCE_NUM: u32 = 58;

pub const CAN_BE_PREFIX: u32 = 33;
pub const MUST_BE_FRESH: u32 = 18;
pub const FORWARDING_HINT: u32 = 30;
pub const NONCE: u32 = 10;
pub const INTEREST_LIFETIME: u32 = 12;
pub const HOP_LIMIT: u32 = 34;
pub const APPLICATION_PARAMETERS: u32 = 36;
pub const INTEREST_SIGNATURE_INFO: u32 = 44;
pub const INTEREST_SIGNATURE_VALUE: u32 = 46;

pub const META_INFO: u32 = 20;
pub const CONTENT: u32 = 21;
pub const SIGNATURE_INFO: u32 = 22;
pub const SIGNATURE_VALUE: u32 = 23;
pub const CONTENT_TYPE: u32 = 24;
pub const FRESHNESS_PERIOD: u32 = 25;
pub const FINAL_BLOCK_ID: u32 = 26;

pub const SIGNATURE_TYPE: u32 = 27;
pub const KEY_LOCATOR: u32 = 28;
pub const KEY_DIGEST: u32 = 29;
pub const SIGNATURE_NONCE: u32 = 38;
pub const SIGNATURE_TIME: u32 = 40;
pub const SIGNATURE_SEQ_NUM: u32 = 42;
pub const VALIDITY_PERIOD: u32 = 253;
pub const NOT_BEFORE: u32 = 254;
pub const NOT_AFTER: u32 = 255;

pub const LP_PACKET: u32 = 100;
pub const LP_FRAGMENT: u32 = 80;
pub const LP_SEQUENCE: u32 = 81;
pub const LP_FRAG_INDEX: u32 = 82;
pub const LP_FRAG_COUNT: u32 = 83;
pub const LP_PIT_TOKEN: u32 = 98;
pub const LP_NACK: u32 = 800;
pub const LP_NACK_REASON: u32 = 801;
pub const LP_INCOMING_FACE_ID: u32 = 812;
pub const LP_NEXT_HOP_FACE_ID: u32 = 816;
pub const LP_CACHE_POLICY: u32 = 820;
pub const LP_CACHE_POLICY_TYPE: u32 = 821;
pub const LP_CONGESTION_MARK: u32 = 832;
pub const LP_ACK: u32 = 836;
pub const LP_TX_SEQUENCE: u32 = 840;
pub const LP_NON_DISCOVERY: u32 = 844;
pub const LP_PREFIX_ANNOUNCEMENT: u32 = 848;
