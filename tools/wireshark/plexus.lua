-- Wireshark dissector of the fabric protocol (crates/wire/src/fabric/SPEC.md).
--
-- What it reads: captures of link type USER0 (147: a fabric port, native or not), EtherType 0x88B5,
-- and UDP port 18773. What is sealed is shown as ciphertext.

local fabric = Proto("plexus", "Plexus Fabric")
local control = Proto("plexus.control", "Plexus Control Message")

local FIXED_LEN = 6
local HOPS_MAX = 100
local CONTROL_HOP = 0xFF
local ETHERTYPE = 0x88B5
local UDP_PORT = 18773
local LENGTH_MAX = 1430
local TAG_LEN = 16

local TREE = 3
local TREE_LEN = 4
local types = { [0] = "Ethernet", [1] = "Control", [2] = "Error", [TREE] = "Tree" }
local kinds = {
  [1] = "Hello", [2] = "Sealed", [3] = "Keyed",
  [0x82] = "Sealed, short", [0x83] = "Reply", [0x84] = "Reply that records a route",
}

local f = {
  kind = ProtoField.uint8("plexus.type", "Type", base.DEC, types, 0xF0),
  length = ProtoField.uint24("plexus.header_length", "Header length", base.DEC, nil, 0x0FFFF0),
  forward_count = ProtoField.uint16("plexus.forward_hops", "Forward hops", base.DEC, nil, 0x0FFF),
  reverse_count = ProtoField.uint16("plexus.reverse_hops", "Reverse hops", base.DEC, nil, 0xFFF0),
  routed = ProtoField.bool("plexus.routed", "Routed", 8, nil, 0x01),
  forward = ProtoField.string("plexus.forward", "Forward path"),
  reverse = ProtoField.string("plexus.reverse", "Reverse path"),
  hop = ProtoField.uint8("plexus.hop", "Hop", base.DEC),
  tree = ProtoField.uint32("plexus.tree", "Tree", base.DEC),
  credits = ProtoField.uint8("plexus.credits", "Credits", base.DEC),
}
fabric.fields = f

local c = {
  version = ProtoField.uint8("plexus.control.version", "Version"),
  kind = ProtoField.uint8("plexus.control.kind", "Kind", base.DEC, kinds),
  length = ProtoField.uint16("plexus.control.length", "Length"),
  step = ProtoField.uint8("plexus.control.step", "Step"),
  reserved = ProtoField.bytes("plexus.control.reserved", "Reserved"),
  sender = ProtoField.uint32("plexus.control.sender", "Sender's session", base.HEX),
  receiver = ProtoField.uint32("plexus.control.receiver", "Receiver's session", base.HEX),
  noise = ProtoField.bytes("plexus.control.noise", "Noise message"),
  counter = ProtoField.uint64("plexus.control.counter", "Counter"),
  exchange = ProtoField.uint64("plexus.control.exchange", "Exchange", base.HEX),
  routes = ProtoField.uint64("plexus.control.routes", "Version of the routes"),
  nonce = ProtoField.bytes("plexus.control.nonce", "Nonce"),
  ciphertext = ProtoField.bytes("plexus.control.ciphertext", "Ciphertext"),
  tag = ProtoField.bytes("plexus.control.tag", "Tag"),
  padding = ProtoField.bytes("plexus.control.padding", "Padding"),
}
control.fields = c

local function fault(abbreviation, text)
  return ProtoExpert.new(abbreviation, text, expert.group.MALFORMED, expert.severity.ERROR)
end

-- Named as the document names the refusals.
local bad = {
  truncated = fault("plexus.bad.truncated", "The frame ends before its header does"),
  type = fault("plexus.bad.type", "Unknown type"),
  too_many_hops = fault("plexus.bad.too_many_hops", "More than 100 hops"),
  header_length = fault("plexus.bad.header_length", "Header length is not 6 + forward + reverse"),
  tree = fault("plexus.bad.tree", "A tree's number has four bytes"),
  -- No refusal of the document: the frame may be sound, the capture does not show it.
  capture = ProtoExpert.new("plexus.capture", "The capture ends before the header does",
    expert.group.UNDECODED, expert.severity.NOTE),
}
fabric.experts = bad
local unsound = {
  truncated = fault("plexus.control.bad.truncated", "The message is cut short"),
  version = fault("plexus.control.bad.version", "Not version 1"),
  oversized = fault("plexus.control.bad.oversized", "Longer than any message may be"),
  malformed = fault("plexus.control.bad.malformed", "A field has a value that it cannot have"),
  kind = fault("plexus.control.bad.kind", "Unknown kind"),
  capture = ProtoExpert.new("plexus.control.capture", "The capture ends before the message does",
    expert.group.UNDECODED, expert.severity.NOTE),
}
control.experts = unsound

local ethernet = Dissector.get("eth_withoutfcs")
local data = Dissector.get("data")

-- A path as SPEC.md and `plexus trace` write it: "3.4.ctl", or "-".
local function path_text(range)
  if not range then return "-" end
  local hops = {}
  for i = 0, range:len() - 1 do
    local hop = range(i, 1):uint()
    hops[#hops + 1] = hop == CONTROL_HOP and "ctl" or tostring(hop)
  end
  return table.concat(hops, ".")
end

local function add_path(tree, field, tvb, at, count)
  local range = count > 0 and tvb(at, count) or nil
  local text = path_text(range)
  local item = range and tree:add(field, range, text) or tree:add(field, text)
  for i = 0, count - 1 do
    local hop = item:add(f.hop, tvb(at + i, 1))
    if tvb(at + i, 1):uint() == CONTROL_HOP then hop:append_text(" (control plane)") end
  end
  return text
end

local function dissect_hello(tvb, tree)
  local step = tvb(4, 1):uint()
  local sender, receiver = tvb(6, 4):uint(), tvb(10, 4):uint()
  tree:add(c.step, tvb(4, 1))
  tree:add(c.reserved, tvb(5, 1))
  tree:add(c.sender, tvb(6, 4))
  tree:add(c.receiver, tvb(10, 4))
  if tvb:len() > 14 then tree:add(c.noise, tvb(14)) end
  if step < 1 or step > 3 or tvb(5, 1):uint() ~= 0 or sender == 0
    or (step == 1) ~= (receiver == 0) then
    tree:add_proto_expert_info(unsound.malformed)
  end
  return string.format("Hello %d, session 0x%08x", step, sender)
end

local function add_reserved(tvb, tree)
  tree:add(c.reserved, tvb(4, 2))
  if tvb(4, 2):uint() ~= 0 then tree:add_proto_expert_info(unsound.malformed) end
end

local function add_ciphertext(tvb, tree, at, length)
  local len = length - at - TAG_LEN
  if len < 0 then
    tree:add_proto_expert_info(unsound.truncated)
    return
  end
  local shown = math.min(len, tvb:len() - at)
  if shown > 0 then tree:add(c.ciphertext, tvb(at, shown)) end
  if tvb:len() == length then
    tree:add(c.tag, tvb(at + len, TAG_LEN))
  else
    tree:add_proto_expert_info(unsound.capture)
  end
end

local function dissect_sealed(tvb, tree, length)
  add_reserved(tvb, tree)
  tree:add(c.receiver, tvb(6, 4))
  tree:add(c.counter, tvb(10, 8))
  add_ciphertext(tvb, tree, 18, length)
  local session, counter = tvb(6, 4):uint(), tvb(10, 8):uint64()
  return string.format("Sealed, session 0x%08x, counter %s", session, tostring(counter))
end

local function dissect_keyed(tvb, tree, length)
  add_reserved(tvb, tree)
  tree:add(c.exchange, tvb(6, 8))
  tree:add(c.nonce, tvb(14, 12))
  add_ciphertext(tvb, tree, 26, length)
  return "Keyed, exchange 0x" .. tvb(6, 8):uint64():tohex()
end

-- Short messages (SPEC.md, section 5.1): their first byte is the kind, the second the length.
local function dissect_short_sealed(tvb, tree, length)
  local session, counter = tvb(2, 4):uint(), tvb(6, 3):uint()
  tree:add(c.receiver, tvb(2, 4))
  tree:add(c.counter, tvb(6, 3), UInt64(counter)):append_text(" (its lowest 24 bits)")
  add_ciphertext(tvb, tree, 9, length)
  return string.format("Sealed, session 0x%08x, counter ..%d", session, counter)
end

local function dissect_reply(tvb, tree, length)
  local exchange = tvb(2, 4):uint()
  tree:add(c.exchange, tvb(2, 4), UInt64(exchange)):append_text(" (its highest 32 bits)")
  tree:add(c.routes, tvb(6, 8))
  add_ciphertext(tvb, tree, 14, length)
  return string.format("Reply, exchange 0x%08x..", exchange)
end

local shorts = {
  [0x82] = { 9, dissect_short_sealed },
  [0x83] = { 14, dissect_reply },
  [0x84] = { 14, dissect_reply },
}

local bodies = {
  [1] = { 14, dissect_hello },
  [2] = { 18, dissect_sealed },
  [3] = { 26, dissect_keyed },
}

-- `reported`: bytes that the frame had here, which the capture need not have.
local function dissect_message(tvb, pinfo, root, reported)
  pinfo.cols.protocol = "Plexus"
  local tree = root:add(control, tvb())
  local function refuse(reason)
    tree:add_proto_expert_info(unsound[reason])
    pinfo.cols.info = (reason == "capture" and "" or "bad: ") .. reason
    return tvb:len()
  end
  -- Adds the fields of a message whose length is known to be sound.
  local function show(body, length)
    if tvb:len() < body[1] then return refuse("capture") end
    local there = math.min(length, tvb:len())
    local summary = body[2](tvb(0, there):tvb(), tree, length)
    tree:set_len(there)
    tree:append_text(", " .. summary)
    pinfo.cols.info = summary
    if tvb:len() > length then root:add(c.padding, tvb(length)) end
    return tvb:len()
  end
  local short = tvb:len() > 0 and shorts[tvb(0, 1):uint()]
  if short then
    if reported < 2 then return refuse("truncated") end
    if tvb:len() < 2 then return refuse("capture") end
    local length = tvb(1, 1):uint()
    tree:add(c.kind, tvb(0, 1))
    tree:add(c.length, tvb(1, 1))
    if reported < length or length < short[1] + TAG_LEN then return refuse("truncated") end
    return show(short, length)
  end
  if reported < 4 then return refuse("truncated") end
  if tvb:len() < 4 then return refuse("capture") end
  local version, kind, length = tvb(0, 1):uint(), tvb(1, 1):uint(), tvb(2, 2):uint()
  tree:add(c.version, tvb(0, 1))
  tree:add(c.kind, tvb(1, 1))
  tree:add(c.length, tvb(2, 2))
  if version ~= 1 then return refuse("version") end
  if length > LENGTH_MAX then return refuse("oversized") end
  if length < 4 then return refuse("malformed") end
  if reported < length then return refuse("truncated") end
  local body = bodies[kind]
  if not body then return refuse("kind") end
  if length < body[1] then return refuse("truncated") end
  return show(body, length)
end

function control.dissector(tvb, pinfo, root)
  return dissect_message(tvb, pinfo, root, tvb:reported_len())
end

-- The reason of a refusal, in the order of SPEC.md, section 1; or the fields.
local function read_header(tvb)
  if tvb:reported_len() < FIXED_LEN then return "truncated" end
  if tvb:len() < FIXED_LEN then return "capture" end
  local forward = bit.band(tvb(2, 2):uint(), 0xFFF)
  local reverse = bit.rshift(tvb(4, 2):uint(), 4)
  local length = bit.band(bit.rshift(tvb(0, 3):uint(), 4), 0xFFFF)
  if not types[bit.rshift(tvb(0, 1):uint(), 4)] then return "type" end
  if forward + reverse > HOPS_MAX then return "too_many_hops" end
  if length ~= FIXED_LEN + forward + reverse then return "header_length" end
  if tvb:reported_len() < length then return "truncated" end
  if tvb:len() < length then return "capture" end
  return nil, forward, reverse, length
end

function fabric.dissector(tvb, pinfo, root)
  pinfo.cols.protocol = "Plexus"
  pinfo.cols.info = ""
  local reason, forward, reverse, length = read_header(tvb)
  local tree = root:add(fabric, tvb(0, length or tvb:len()))
  if tvb:len() >= FIXED_LEN then
    tree:add(f.kind, tvb(0, 1))
    tree:add(f.length, tvb(0, 3))
    tree:add(f.forward_count, tvb(2, 2))
    tree:add(f.reverse_count, tvb(4, 2))
    tree:add(f.routed, tvb(5, 1))
  end
  if reason then
    tree:add_proto_expert_info(bad[reason])
    pinfo.cols.info = (reason == "capture" and "" or "bad: ") .. reason
    return tvb:len()
  end
  local kind = bit.rshift(tvb(0, 1):uint(), 4)
  local to = add_path(tree, f.forward, tvb, FIXED_LEN, forward)
  local back = add_path(tree, f.reverse, tvb, FIXED_LEN + forward, reverse)
  local way = string.format("%s to %s back %s", types[kind], to, back)
  if kind == TREE then
    local credits = forward - TREE_LEN
    if credits < 0 then
      tree:add_proto_expert_info(bad.tree)
    else
      local number = tvb(FIXED_LEN + credits, TREE_LEN)
      tree:add(f.tree, number)
      tree:add(f.credits, credits)
      way = string.format("Tree %d credits %d back %s", number:uint(), credits, back)
    end
  end
  tree:append_text(", " .. way)
  if tvb:len() > length then
    local carried = tvb(length):tvb()
    -- An error is whatever it was before: most often a host's frame, or a message.
    local is_message = kind == 1
    if kind == 2 and carried:len() >= 4 then
      is_message = carried(0, 1):uint() == 1 and bodies[carried(1, 1):uint()] ~= nil
        and carried(2, 2):uint() <= carried:reported_len()
    end
    if is_message then
      dissect_message(carried, pinfo, root, tvb:reported_len() - length)
    elseif carried:len() >= 14 then
      ethernet:call(carried, pinfo, root)
    else
      data:call(carried, pinfo, root)
    end
  end
  pinfo.cols.info:prepend(way .. " | ")
  return tvb:len()
end

-- A fabric port's capture, or a datagram: native frames, or link messages and frames behind an
-- Ethernet header.
-- The latter begin with a unicast or group address whose first bytes make no fabric header.
local port = Proto("plexus.port", "Plexus Fabric Port")
function port.dissector(tvb, pinfo, root)
  local is_ethernet = tvb:len() >= 14 and tvb(12, 2):uint() == ETHERTYPE
  if is_ethernet and read_header(tvb) then
    return ethernet:call(tvb, pinfo, root)
  end
  return fabric.dissector(tvb, pinfo, root)
end

-- Older versions call the table of link types `wtap`.
DissectorTable.get("wtap_encap"):add((wtap_encaps or wtap).USER0, port)
DissectorTable.get("ethertype"):add(ETHERTYPE, fabric)
DissectorTable.get("udp.port"):add(UDP_PORT, port)
