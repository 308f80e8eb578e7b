//! Packets written by other implementations, as hexadecimal text.

/// Bytes of hexadecimal text; spaces between them do not count.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

/// python-ndn 0.5.2, `make_interest`: /a/b/v=3/seg=0 with every optional element but parameters;
/// lifetime 6 s, hop limit 64, hints /hint/one and /two.
pub(crate) const INTEREST_FULL: &str = "0535070c08016108016236010332010021001200\
    1e14070b080468696e7408036f6e650705080374776f0a04010203040c021770220140";

/// python-ndn 0.5.2, `make_interest`: /local/cmd, parameters 01 02 03, signed by a digest.
pub(crate) const INTEREST_SIGNED: &str = "057a072e08056c6f63616c0803636d64\
    0220edb60ab0c7ff6f87cc5ff656f9d17456f21b817c6f43e1a5f2108fb131806c9c\
    0a04aabbccdd0c020fa024030102032c171b010026082f164f3e4ac0be732808000001a206866676\
    2e20656df2a1b544051964aed11cd56d2fb8edf8bcb4646b866f38f5d24bc701c800";

/// python-ndn 0.5.2, `make_interest`: /local/params, parameters "hello", not signed.
pub(crate) const INTEREST_PARAMETERS: &str = "0544073108056c6f63616c0806706172616d73\
    0220d88c6f9963f079128a0f678bd931dc608a9ba26cfdfa486b6f0b4f4887fb6838\
    0a04000000070c0203e8240568656c6c6f";

/// python-ndn 0.5.2, `make_command_v2("rib", "register", …)` as its `app` sends it.
pub(crate) const REGISTER: &str = "05a8075f08096c6f63616c686f737408036e66640803726962\
    0808726567697374657208 1c681a070908026d7908036170706f01006a010a6c01016d040036ee80\
    0220916150d27c18d694da9a58090caf0cdeae0e8e68efea5d4d75a85b2988bf5a65\
    0a04112233440c0203e824002c171b01002608b966892f379a1fb22808000001a20686668b\
    2e20b10fc4101e7c006c617b39d990af7cf78b880df63eabd6a6a6516d1fbad5aa01";

/// NDNts `@ndn/packet` 0.0.20250307: /A/B with hint /FH, lifetime 2.5 s, hop limit 30.
pub(crate) const NDNTS_INTEREST: &str =
    "05210706080141080142210012001e060704080246480a0485ac85790c0209c422011e";

/// NDNts `@ndn/packet` 0.0.20250307: /A/cmd, parameters C0 C1, signed by a digest, with nonce, time
/// and sequence number of the signature.
pub(crate) const NDNTS_INTEREST_SIGNED: &str = "0574072a0801410803636d64\
    0220e700570aaec168b8915c6cb4743f6711ba2085a88a11907d2fd71ee2ffab5c2a\
    0a04000012342402c0c12c1a1b01002608010203040506070828080000018bcfe568002a0105\
    2e20b172333bf2474f37daea938ae7da4de93c4e9cf634243929aa43aea8d964552e";

/// python-ndn 0.5.2, `make_data`: /a/b/v=3/seg=0 of /…/seg=9, fresh for 10 s, "hello, world",
/// signed by a digest.
pub(crate) const DATA_DIGEST: &str = "0651070c080161080162360103320100140c180100190227101a03320109\
    150c68656c6c6f2c20776f726c6416031b0100\
    1720b67e12a36cdbf47a73f3ce566648eed05cb65c57dc3c5e84842a485a716a8c44";

/// python-ndn 0.5.2, `make_data`: the same name, content type KEY, content "key", HMAC under
/// /key/hmac.
pub(crate) const DATA_HMAC: &str = "064e070c080161080162360103320100140318010215036b6579\
    16121b01041c0d070b08036b65790804686d6163\
    1720e81ea78da15dd21ef5a589fab7596be9c97b2a66af3152214b4986974db09da7";

/// python-ndn 0.5.2, `make_data`: the same name, ECDSA by /me/KEY/%01/self/v=1.
pub(crate) const DATA_ECDSA: &str = "0696070c080161080162360103320100140c180100190227101a03320109\
    151078787878787878787878787878787878\
    161c1b01031c17071508026d6508034b4559080101080473656c66360101\
    17483046022100abb1dff23f5aad832f2243007927bd587045ea08cfe5928f34ef47ffd0cfdfa8\
    022100a3e8fc6f16ec11eee3819b9f987c4c2902899570756001261472e51b67b8f972";

/// NDNts `@ndn/packet` 0.0.20250307: /A/B/v=7/seg=3, the last of its sequence, Ed25519.
pub(crate) const NDNTS_DATA_ED25519: &str = "067b070c080141080142360107320103\
    1409190201f41a03320103150301020316191b01051c14071208014b08034b45593808000660e98096c190\
    17409377756db34c0090f74c0b43cae70bae5a0dbd5e53515f40ac058f1d2e96863b\
    708923aca435165078561542a0304659d424823ae1bae9d025410a1465d72004";

/// python-ndn 0.5.2, `make_network_nack`: no route to /a/b.
pub(crate) const LP_NACK: &str =
    "641ffd032005fd032101965014051207060801610801620a04000000050c020fa0";

/// python-ndn 0.5.2, `LpPacket`: every header that it has; TxSequence comes before Ack.
pub(crate) const LP_ALL: &str = "644362080001020304050607fd032c020102fd03300107fd033405fd03350101\
    fd03400101fd034808000000000000002afd0344080000000000000029fd034c0050020a0b";

/// NDNts `@ndn/lp` 0.0.20250307: the second of three fragments, with PIT token and mark.
pub(crate) const NDNTS_LP_FRAGMENT: &str =
    "641f51080000000000001000520101530103620401020304fd034001015002a0a1";

/// python-ndn 0.5.2, `nfd_mgmt`: `ControlParameters` with every field; in an order of its own.
pub(crate) const CONTROL_PARAMETERS: &str = "6898070908026d79080361707069020106\
    7215756470343a2f2f3139322e302e322e313a36333633\
    8115756470343a2f2f3139322e302e322e323a36333633\
    6f01ff6a010a830400010000840103870405f5e100880400010000890205786c0105700107\
    6b2b072908096c6f63616c686f737408036e666408087374726174656779080a626573742d726f757465360105\
    6d040036ee80850102";

/// python-ndn 0.5.2, `nfd_mgmt`: `ControlResponse` to a registration.
pub(crate) const CONTROL_RESPONSE: &str =
    "65216601c867024f4b6818070908026d790803617070690201066f01006a010a6c0101";

/// python-ndn 0.5.2, `nfd_mgmt`: `FaceStatus`.
pub(crate) const FACE_STATUS: &str = "8067690201067215746370343a2f2f3139322e302e322e313a36333633\
    8115746370343a2f2f3139322e302e322e323a343030306d02025884010085010086010087010188010289022260\
    9001019101029701039201049301059801069404000111709501086c0101";

/// python-ndn 0.5.2, `nfd_mgmt`: `FaceEventNotification`.
pub(crate) const FACE_EVENT: &str = "c036c1010169020107720766643a2f2f3330\
    8118756e69783a2f2f2f72756e2f6e66642f6e66642e736f636b8401018501018601006c0100";

/// python-ndn 0.5.2, `nfd_mgmt`: `FaceQueryFilter`.
pub(crate) const FACE_QUERY: &str = "9609830475647034840100";

/// python-ndn 0.5.2, `nfd_mgmt`: `FibStatus` of one entry.
pub(crate) const FIB: &str = "801c070908026d7908036170708107690201066a010a81066901016a0100";

/// python-ndn 0.5.2, `nfd_mgmt`: `RibStatus` of one entry.
pub(crate) const RIB: &str = "8020070908026d7908036170708113690201066f01006a010a6c01016d040036ee80";

/// python-ndn 0.5.2, `nfd_mgmt`: `StrategyChoiceMsg` of one entry, for the root.
pub(crate) const STRATEGY_CHOICE: &str = "802f07006b2b072908096c6f63616c686f737408036e6664\
    08087374726174656779080a626573742d726f757465360105";

/// python-ndn 0.5.2, `nfd_mgmt`: `CsInfo`.
pub(crate) const CS_INFO: &str = "80128304000100006c0103870105810106820107";

/// python-ndn 0.5.2, `nfd_mgmt`: `GeneralStatus`, with two of the counters that it has of others.
pub(crate) const GENERAL_STATUS: &str = "800532342e303781080000018bcfe5680082080000018bcfe56be8\
    8301018401028501038601048701059001069101079701089201099\
    3010a98010b99010c9a010dc80163c90162";
