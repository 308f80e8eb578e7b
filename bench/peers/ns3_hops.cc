// Packet hops per second of ns-3 (https://www.nsnam.org) on the network and traffic that its
// standard input describes, as `plexus bench` writes it for `sim-hops` and `sim-fat-tree`:
//
//     devices N                          boxes and hosts, from 0
//     link A B BITS_PER_S DELAY_NS       one cable
//     flow FROM TO BITS_PER_S BYTES START_NS DURATION_NS
//
// All links are point-to-point devices with a drop-tail queue, the cheapest that ns-3 has with
// both. What forwards is chosen on the command line:
//
//     ipv4   IPv4 and UDP, routed by nix-vectors, the cheapest of ns-3's: the sender puts the whole
//            way into the packet
//     bare   nothing but ns-3's core: a callback that looks up the next device in an array. No IP,
//            no UDP, no address, no checks; nobody simulates so, it is as fast as ns-3 can be
//
// The answer is one line of JSON; the clock runs while events do.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/nix-vector-routing-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

struct Cable
{
    uint32_t ends[2];
    Ptr<PointToPointNetDevice> devices[2];
};

struct Flow
{
    uint32_t from, to;
    uint64_t bits_per_s;
    uint32_t bytes;
    int64_t start_ns, duration_ns;
};

// EtherType of IPv4: PPP knows no others.
constexpr uint16_t PROTOCOL = 0x0800;
constexpr uint16_t PORT = 9;

[[noreturn]] void
fail(const std::string& why)
{
    std::cerr << "ns3_hops: " << why << "\n";
    std::exit(1);
}

// How long a payload takes at the flow's rate: datagrams are that far apart.
Time
interval(const Flow& flow)
{
    return NanoSeconds(int64_t(flow.bytes) * 8'000'000'000 / int64_t(flow.bits_per_s));
}

// Forwarding with nothing but a table.
class Table
{
  public:
    Table(NodeContainer& nodes, const std::vector<Cable>& cables, const std::vector<Flow>& flows)
        : m_flows(flows), m_next(nodes.GetN(), std::vector<Ptr<NetDevice>>(flows.size()))
    {
        for (uint32_t node = 0; node < nodes.GetN(); node++)
            nodes.Get(node)->RegisterProtocolHandler(MakeCallback(&Table::Receive, this), PROTOCOL,
                                                     nullptr);
        std::vector<std::vector<std::pair<uint32_t, Ptr<NetDevice>>>> around(nodes.GetN());
        for (const auto& cable : cables)
            for (int i = 0; i < 2; i++)
                around[cable.ends[i]].emplace_back(cable.ends[1 - i], cable.devices[i]);
        for (uint32_t f = 0; f < flows.size(); f++)
            Route(f, around);
    }

    void Start(uint32_t f)
    {
        Simulator::Schedule(NanoSeconds(m_flows[f].start_ns), &Table::Send, this, f,
                            NanoSeconds(m_flows[f].start_ns + m_flows[f].duration_ns));
    }

    uint64_t received = 0;

  private:
    // A shortest way; of several, another for each flow.
    void Route(uint32_t f,
               const std::vector<std::vector<std::pair<uint32_t, Ptr<NetDevice>>>>& around)
    {
        std::vector<uint32_t> hops(around.size(), UINT32_MAX);
        std::deque<uint32_t> queue{m_flows[f].to};
        hops[m_flows[f].to] = 0;
        for (; !queue.empty(); queue.pop_front())
            for (const auto& [other, device] : around[queue.front()])
                if (hops[other] == UINT32_MAX)
                {
                    hops[other] = hops[queue.front()] + 1;
                    queue.push_back(other);
                }
        if (hops[m_flows[f].from] == UINT32_MAX)
            fail("no way for a flow");
        for (uint32_t at = m_flows[f].from; at != m_flows[f].to;)
        {
            std::vector<std::pair<uint32_t, Ptr<NetDevice>>> nearer;
            for (const auto& next : around[at])
                if (hops[next.first] + 1 == hops[at])
                    nearer.push_back(next);
            const auto& [next, device] = nearer[f % nearer.size()];
            m_next[at][f] = device;
            at = next;
        }
    }

    void Send(uint32_t f, Time until)
    {
        if (Simulator::Now() >= until)
            return;
        std::vector<uint8_t> bytes(m_flows[f].bytes + 28);
        std::memcpy(bytes.data(), &f, sizeof f);
        const auto& device = m_next[m_flows[f].from][f];
        device->Send(Create<Packet>(bytes.data(), bytes.size()), device->GetBroadcast(), PROTOCOL);
        Simulator::Schedule(interval(m_flows[f]), &Table::Send, this, f, until);
    }

    void Receive(Ptr<NetDevice> at, Ptr<const Packet> packet, uint16_t, const Address&,
                 const Address&, NetDevice::PacketType)
    {
        uint32_t f = 0;
        packet->CopyData(reinterpret_cast<uint8_t*>(&f), sizeof f);
        const auto& device = m_next[at->GetNode()->GetId()][f];
        if (device)
            device->Send(packet->Copy(), device->GetBroadcast(), PROTOCOL);
        else
            received++;
    }

    const std::vector<Flow>& m_flows;
    // By node and flow; none: it has arrived.
    std::vector<std::vector<Ptr<NetDevice>>> m_next;
};

} // namespace

int
main(int count, char** arguments)
{
    const std::string forward = count > 1 ? arguments[1] : "ipv4";
    if (forward != "ipv4" && forward != "bare")
        fail("write ipv4 or bare, and the network on standard input");
    NodeContainer nodes;
    std::vector<Cable> cables;
    std::vector<Flow> flows;
    PointToPointHelper helper;
    helper.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000p"));
    for (std::string word; std::cin >> word;)
    {
        uint32_t a, b;
        uint64_t rate;
        int64_t delay;
        if (word == "devices" && std::cin >> a)
        {
            nodes.Create(a);
        }
        else if (word == "link" && std::cin >> a >> b >> rate >> delay)
        {
            if (a >= nodes.GetN() || b >= nodes.GetN())
                fail("a link of a device that is none");
            helper.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate)));
            helper.SetChannelAttribute("Delay", TimeValue(NanoSeconds(delay)));
            NetDeviceContainer made = helper.Install(nodes.Get(a), nodes.Get(b));
            Cable cable{{a, b}, {}};
            for (int i = 0; i < 2; i++)
                cable.devices[i] = DynamicCast<PointToPointNetDevice>(made.Get(i));
            cables.push_back(cable);
        }
        else if (Flow f; word == "flow" && std::cin >> f.from >> f.to >> f.bits_per_s >> f.bytes >>
                                               f.start_ns >> f.duration_ns)
        {
            if (f.from >= nodes.GetN() || f.to >= nodes.GetN() || f.bits_per_s == 0)
                fail("a flow that cannot be");
            flows.push_back(f);
        }
        else
        {
            fail("not a line of a network: " + word);
        }
    }

    std::unique_ptr<Table> table;
    std::vector<Ptr<PacketSink>> sinks;
    if (forward == "bare")
    {
        table = std::make_unique<Table>(nodes, cables, flows);
        for (uint32_t f = 0; f < flows.size(); f++)
            table->Start(f);
    }
    else
    {
        Ipv4NixVectorHelper routing;
        InternetStackHelper internet;
        internet.SetRoutingHelper(routing);
        internet.SetIpv6StackInstall(false);
        internet.Install(nodes);
        Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.252");
        std::vector<Ipv4Address> address(nodes.GetN());
        TrafficControlHelper control;
        for (const auto& cable : cables)
        {
            NetDeviceContainer both;
            both.Add(cable.devices[0]);
            both.Add(cable.devices[1]);
            Ipv4InterfaceContainer given = addresses.Assign(both);
            for (int i = 0; i < 2; i++)
                address[cable.ends[i]] = given.GetAddress(i);
            // The device's queue is the only one.
            control.Uninstall(both);
            addresses.NewNetwork();
        }
        PacketSinkHelper sink("ns3::UdpSocketFactory", InetSocketAddress("0.0.0.0", PORT));
        std::vector<bool> has_sink(nodes.GetN());
        for (const auto& flow : flows)
        {
            UdpClientHelper client(address[flow.to], PORT);
            client.SetAttribute("Interval", TimeValue(interval(flow)));
            client.SetAttribute("PacketSize", UintegerValue(flow.bytes));
            client.SetAttribute("MaxPackets", UintegerValue(0));
            ApplicationContainer sender = client.Install(nodes.Get(flow.from));
            sender.Start(NanoSeconds(flow.start_ns));
            sender.Stop(NanoSeconds(flow.start_ns + flow.duration_ns));
            if (!has_sink[flow.to])
                sinks.push_back(DynamicCast<PacketSink>(sink.Install(nodes.Get(flow.to)).Get(0)));
            has_sink[flow.to] = true;
        }
    }

    const auto begin = std::chrono::steady_clock::now();
    Simulator::Run();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;

    uint64_t hops = 0, dropped = 0;
    for (const auto& cable : cables)
        for (const auto& device : cable.devices)
        {
            hops += device->GetQueue()->GetTotalReceivedPackets();
            dropped += device->GetQueue()->GetTotalDroppedPackets();
        }
    uint64_t received = table ? table->received : 0;
    for (const auto& sink : sinks)
        received += sink->GetTotalRx() / flows[0].bytes;
    std::cout << "{\"name\":\"ns3_hops\",\"forward\":\"" << forward << "\",\"hops\":" << hops
              << ",\"dropped\":" << dropped << ",\"received\":" << received
              << ",\"seconds\":" << seconds.count()
              << ",\"mhops\":" << double(hops) / seconds.count() / 1e6 << "}\n";
    Simulator::Destroy();
    return 0;
}
