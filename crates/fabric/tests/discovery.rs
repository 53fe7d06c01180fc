//! Discovery on recorded machines: trees of `/sys` and `/proc` as the kernel lays them out, made anew by each test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use pelton_fabric::discover::{GpuFact, GpuFacts, NvLinkFact, PcieLink};
use pelton_fabric::{
    GB_PER_S, GpuSource, Link, LinkKind, Sources, Survey, Topology, Vertex, fingerprint, survey,
};
use tempfile::TempDir;

/// A directory that stands for `/`.
struct Recorded(TempDir);

impl Recorded {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// A relative link, as all of sysfs are.
    fn link(&self, path: &str, target: &str) -> &Self {
        fs::create_dir_all(self.root().join(target)).unwrap();
        let up = "../".repeat(path.matches('/').count());
        let link = self.root().join(path);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(format!("{up}{target}"), link).unwrap();
        self
    }

    fn node(&self, id: u32, cores: &str, gibibytes: u64, distances: &str) -> &Self {
        let directory = format!("sys/devices/system/node/node{id}");
        self.file(&format!("{directory}/cpulist"), cores);
        let kilobytes = gibibytes << 20;
        let meminfo = format!("Node {id} MemTotal:       {kilobytes} kB\nNode {id} MemFree:        1 kB\n");
        self.file(&format!("{directory}/meminfo"), meminfo);
        self.file(&format!("{directory}/distance"), format!("{distances}\n"))
    }

    /// A device or bridge; `path` is that of its directory below `sys/devices`.
    fn pci(&self, path: &str, speed: &str, width: &str, node: &str) -> &Self {
        let address = path.rsplit('/').next().unwrap();
        let directory = format!("sys/devices/{path}");
        self.file(&format!("{directory}/max_link_speed"), format!("{speed}\n"));
        self.file(&format!("{directory}/max_link_width"), format!("{width}\n"));
        self.file(&format!("{directory}/numa_node"), format!("{node}\n"));
        self.link(&format!("sys/bus/pci/devices/{address}"), &directory)
    }

    fn nvme(&self, number: u32, pci: &str, gibibytes: u64) -> &Self {
        let directory = format!("sys/devices/{pci}/nvme/nvme{number}/nvme{number}n1");
        self.file(&format!("{directory}/size"), format!("{}\n", gibibytes << 21));
        self.file(&format!("{directory}/device/model"), "Example SSD 990                         \n");
        self.link(&format!("sys/block/nvme{number}n1"), &directory)
    }

    fn network_card(&self, name: &str, pci: &str, megabits: &str) -> &Self {
        let directory = format!("sys/devices/{pci}/net/{name}");
        self.file(&format!("{directory}/speed"), format!("{megabits}\n"));
        self.link(&format!("sys/class/net/{name}"), &directory);
        symlink("../..", self.root().join(format!("{directory}/device"))).unwrap();
        self
    }

    fn rdma(&self, name: &str, pci: &str, rate: &str) -> &Self {
        let directory = format!("sys/devices/{pci}/infiniband/{name}");
        self.file(&format!("{directory}/ports/1/rate"), format!("{rate}\n"));
        self.link(&format!("sys/class/infiniband/{name}"), &directory);
        symlink("../..", self.root().join(format!("{directory}/device"))).unwrap();
        self
    }

    fn survey(&self, gpus: GpuFacts) -> Survey {
        self.survey_in_order(gpus, &[])
    }

    fn survey_in_order(&self, gpus: GpuFacts, addresses: &[&str]) -> Survey {
        let survey = survey(&Sources {
            root: self.root().to_path_buf(),
            gpus: GpuSource::Given(gpus),
            device_addresses: addresses.iter().map(|address| address.to_string()).collect(),
        })
        .unwrap();
        survey.topology.validate().unwrap();
        survey
    }
}

fn gpu(address: &str) -> GpuFact {
    GpuFact {
        name: "NVIDIA Example".to_string(),
        pci_address: Some(address.to_string()),
        memory_bytes: 80 << 30,
        memory_bytes_per_s: Some(2000.0 * GB_PER_S),
        pcie: Some(PcieLink { generation: 4, width: 16 }),
        ..GpuFact::default()
    }
}

fn gpus(addresses: &[&str]) -> GpuFacts {
    let gpus = addresses.iter().map(|address| gpu(address)).collect();
    GpuFacts { driver_version: Some("580.1".to_string()), gpus, ..GpuFacts::default() }
}

fn nvlinks(count: usize, remote: Option<&str>) -> Vec<NvLinkFact> {
    vec![NvLinkFact { remote_address: remote.map(str::to_string), bytes_per_s: 25.0 * GB_PER_S }; count]
}

fn link(topology: &Topology, a: Vertex, b: Vertex) -> &Link {
    let index = topology.link_between(a, b).unwrap_or_else(|| panic!("no link {a} - {b} in {topology:#?}"));
    &topology.links[index]
}

const PCIE4: &str = "16.0 GT/s PCIe";
const UPSTREAM: &str = "pci0000:16/0000:16:01.0/0000:17:00.0";

/// Two sockets; on the second a switch with two GPUs, an NVMe drive and a network card; a drive and a card beside it.
fn server() -> Recorded {
    let recorded = Recorded::new();
    recorded.node(0, "0-15,32-47\n", 128, "10 21").node(1, "16-31,48-63\n", 128, "21 10");
    recorded.file("sys/devices/system/cpu/online", "0-63\n");
    recorded.file("proc/sys/kernel/hostname", "server\n");
    recorded.pci("pci0000:16/0000:16:01.0", "32.0 GT/s PCIe", "16", "1");
    recorded.pci(UPSTREAM, PCIE4, "16", "1");
    for (port, device, speed, width) in [
        ("0000:18:00.0", "0000:19:00.0", PCIE4, "16"),
        ("0000:18:01.0", "0000:1a:00.0", PCIE4, "16"),
        ("0000:18:02.0", "0000:1b:00.0", PCIE4, "4"),
        ("0000:18:03.0", "0000:1c:00.0", PCIE4, "16"),
    ] {
        recorded.pci(&format!("{UPSTREAM}/{port}"), PCIE4, "16", "1");
        recorded.pci(&format!("{UPSTREAM}/{port}/{device}"), speed, width, "1");
    }
    recorded.nvme(0, &format!("{UPSTREAM}/0000:18:02.0/0000:1b:00.0"), 1024);
    recorded.network_card("eth1", &format!("{UPSTREAM}/0000:18:03.0/0000:1c:00.0"), "100000");
    recorded.rdma("mlx5_0", &format!("{UPSTREAM}/0000:18:03.0/0000:1c:00.0"), "100 Gb/sec (4X EDR)");
    recorded.pci("pci0000:00/0000:00:1d.0", "8.0 GT/s PCIe", "4", "0");
    recorded.pci("pci0000:00/0000:00:1d.0/0000:02:00.0", PCIE4, "4", "0");
    recorded.nvme(1, "pci0000:00/0000:00:1d.0/0000:02:00.0", 512);
    recorded.pci("pci0000:00/0000:00:1f.6", "Unknown", "0", "0");
    recorded.network_card("eth0", "pci0000:00/0000:00:1f.6", "1000");
    recorded
}

#[test]
fn gpus_and_a_drive_below_one_bridge_share_the_uplink_of_a_switch() {
    let found = server().survey(gpus(&["0000:19:00.0", "0000:1a:00.0"]));
    let topology = &found.topology;
    assert_eq!(topology.name, "server");
    assert_eq!(topology.nodes.iter().map(|node| node.core_count).collect::<Vec<_>>(), [32, 32]);
    assert_eq!(topology.nodes[1].memory_bytes, 128 << 30);
    assert_eq!(
        topology.switches.iter().map(|switch| switch.name.as_str()).collect::<Vec<_>>(),
        ["0000:17:00.0"]
    );
    let switch = Vertex::Switch(0);
    let pcie = |generation, width| LinkKind::Pcie { generation, width };
    // The root port is faster than the switch's upstream port, which decides.
    assert_eq!(link(topology, Vertex::Node(1), switch).kind, pcie(4, 16));
    assert_eq!(link(topology, switch, Vertex::Device(0)).kind, pcie(4, 16));
    assert_eq!(link(topology, switch, Vertex::Device(1)).kind, pcie(4, 16));
    assert_eq!(link(topology, switch, Vertex::Storage(0)).kind, pcie(4, 4));
    assert_eq!(link(topology, switch, Vertex::Nic(1)).kind, pcie(4, 16));
    assert_eq!(link(topology, Vertex::Node(0), Vertex::Node(1)).kind, LinkKind::Socket);
    assert_eq!(topology.links.len(), 8);
    assert!(topology.links.iter().all(|link| !link.is_measured));
    assert_eq!(topology.devices[1].node, 1);
    assert_eq!(found.notes, Vec::<String>::new());
}

#[test]
fn storage_and_network_cards_are_described() {
    let found = server().survey(gpus(&[])).topology;
    let storage = &found.storages[0];
    assert_eq!((storage.name.as_str(), storage.model.as_str()), ("nvme0n1", "Example SSD 990"));
    assert_eq!((storage.bytes, storage.is_nvme), (1 << 40, true));
    let cards: Vec<_> = found.nics.iter().map(|nic| (nic.name.as_str(), nic.has_rdma)).collect();
    assert_eq!(cards, [("eth0", false), ("eth1", true)]);
    // A generation 4 drive behind a generation 3 port.
    let drive = link(&found, Vertex::Node(0), Vertex::Storage(1));
    assert_eq!(drive.kind, LinkKind::Pcie { generation: 3, width: 4 });
    let card = link(&found, Vertex::Node(0), Vertex::Nic(0));
    assert_eq!((card.kind, card.forward_bytes_per_s), (LinkKind::Attachment, 0.125 * GB_PER_S));
    let fast = link(&found, Vertex::Switch(0), Vertex::Nic(1));
    assert_eq!(fast.forward_bytes_per_s, 12.5 * GB_PER_S);
}

#[test]
fn laptop_without_anything_is_one_node_with_its_disk() {
    let recorded = Recorded::new();
    recorded.node(0, "0-7", 16, "10");
    recorded.pci("pci0000:00/0000:00:06.0", "16.0 GT/s PCIe", "4", "-1");
    recorded.pci("pci0000:00/0000:00:06.0/0000:01:00.0", "16.0 GT/s PCIe", "4", "-1");
    recorded.nvme(0, "pci0000:00/0000:00:06.0/0000:01:00.0", 512);
    for name in ["loop0", "ram0", "zram0", "dm-0", "sr0"] {
        recorded.file(&format!("sys/devices/virtual/block/{name}/size"), "2048\n");
        recorded.link(&format!("sys/block/{name}"), &format!("sys/devices/virtual/block/{name}"));
    }
    recorded
        .file("sys/devices/virtual/net/lo/speed", "")
        .link("sys/class/net/lo", "sys/devices/virtual/net/lo");
    let found = recorded.survey(GpuFacts::default());
    assert_eq!(found.topology.nodes.len(), 1);
    assert_eq!(found.topology.storages.len(), 1);
    assert!(found.topology.devices.is_empty() && found.topology.nics.is_empty());
    assert_eq!(found.topology.links.len(), 1);
    // One node: there is nothing to assume about where things are.
    assert_eq!(found.notes, Vec::<String>::new());
}

#[test]
fn drive_of_several_paths_is_placed_by_its_controller() {
    let recorded = Recorded::new();
    recorded.node(0, "0-7", 16, "10");
    let controller = "pci0000:00/0000:00:06.0";
    recorded.pci(controller, PCIE4, "4", "0");
    recorded.link("sys/class/nvme/nvme0", &format!("sys/devices/{controller}/nvme/nvme0"));
    let directory = "sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1";
    recorded.file(&format!("{directory}/size"), "4096").link("sys/block/nvme0n1", directory);
    let path = format!("sys/devices/{controller}/nvme/nvme0/nvme0c0n1");
    recorded.file(&format!("{path}/size"), "4096").file(&format!("{path}/hidden"), "1");
    recorded.link("sys/block/nvme0c0n1", &path);
    let topology = recorded.survey(GpuFacts::default()).topology;
    assert_eq!(topology.storages.len(), 1);
    let kind = link(&topology, Vertex::Node(0), Vertex::Storage(0)).kind;
    assert_eq!(kind, LinkKind::Pcie { generation: 4, width: 4 });
}

#[test]
fn odd_files_are_left_out_and_noted() {
    let recorded = Recorded::new();
    recorded.node(0, "0-3,x,9-", 8, "10 2x 99").node(1, "4-7", 8, "");
    recorded.file("sys/devices/system/cpu/online", "0-2,4-7");
    recorded.file("sys/devices/system/node/node1/meminfo", [0xff, 0xfe, 0x00, b'M']);
    recorded.file("sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: lots kB");
    recorded.file("sys/devices/system/node/nodeX/cpulist", "0-3");
    recorded.file("sys/devices/system/node/has_cpu", "0-1");
    recorded.pci("pci0000:00/0000:00:01.0", "fast", "255", "-1");
    recorded.pci("pci0000:00/0000:00:01.0/0000:01:00.0", "", "x16", "7");
    recorded.nvme(0, "pci0000:00/0000:00:01.0/0000:01:00.0", 1);
    recorded.file("sys/block/sda/size", "garbage").file("sys/block/sdb/size", "18446744073709551615");
    recorded.file("sys/block/sdc/size", "4096").file("sys/block/sdc/removable", "1");
    recorded.file("sys/block/sdd/size", "4096");
    fs::create_dir_all(recorded.root().join("sys/block/sde/size")).unwrap();
    symlink("nowhere", recorded.root().join("sys/block/vda")).unwrap();
    let mut facts = gpus(&["0000:99:00.0"]);
    facts.gpus[0].pcie = None;
    let found = recorded.survey(facts);
    let topology = &found.topology;
    assert_eq!(topology.nodes.iter().map(|node| node.core_count).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(topology.nodes[1].memory_bytes, 0);
    assert_eq!(topology.storages.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["nvme0n1", "sdd"]);
    assert_eq!(topology.name, "this machine");
    assert_eq!(
        found.notes,
        [
            "gpu0: its node is not known; node0 is assumed",
            "gpu0: its PCIe link is not known; generation 3 with 16 lanes is assumed",
            "nvme0n1: its node is not known; node0 is assumed",
            "sdd: its node is not known; node0 is assumed",
        ]
    );
}

#[test]
fn machine_without_nodes_in_sysfs_is_one_node() {
    let recorded = Recorded::new();
    recorded.file("proc/meminfo", "MemTotal:       16777216 kB\n");
    recorded.file("proc/cpuinfo", "processor\t: 0\nflags : x\n\nprocessor\t: 1\n");
    let node = &recorded.survey(GpuFacts::default()).topology.nodes[0];
    assert_eq!((node.core_count, node.memory_bytes), (2, 16 << 30));
}

#[test]
fn machine_without_any_memory_is_an_error_that_says_what_to_mount() {
    let recorded = Recorded::new();
    let sources = Sources { root: recorded.root().to_path_buf(), ..Sources::default() };
    let error = survey(&sources).unwrap_err().to_string();
    assert!(error.contains("mount sysfs"), "{error}");
}

#[test]
fn memory_of_a_gpu_is_no_host_node_and_gaps_in_numbers_are_closed() {
    let recorded = Recorded::new();
    recorded.node(0, "0-3", 8, "10 40 80").node(8, "4-7", 8, "40 10 80").node(252, "", 16, "80 80 10");
    recorded.pci("pci0000:00/0000:00:01.0", PCIE4, "16", "8");
    let mut facts = gpus(&["0000:00:01.0"]);
    facts.gpus[0].memory_node = Some(252);
    let found = recorded.survey(facts);
    assert_eq!(found.topology.nodes.len(), 2);
    assert_eq!(found.topology.devices[0].node, 1);
    assert_eq!(found.notes, ["node1 is what the operating system calls node 8"]);
    assert_eq!(link(&found.topology, Vertex::Node(0), Vertex::Node(1)).kind, LinkKind::Socket);
}

/// One node and GPUs on ports of their own, with these NVLinks.
fn with_nvlinks(links: &[Vec<NvLinkFact>], peers: &[(usize, usize)]) -> (Recorded, GpuFacts) {
    let recorded = Recorded::new();
    recorded.node(0, "0-7", 64, "10");
    let addresses: Vec<String> = (0..links.len()).map(|index| format!("0000:0{index}:00.0")).collect();
    let mut facts = gpus(&addresses.iter().map(String::as_str).collect::<Vec<_>>());
    for (gpu, links) in facts.gpus.iter_mut().zip(links) {
        gpu.nvlinks = links.clone();
    }
    facts.nvlink_peers = peers.to_vec();
    (recorded, facts)
}

fn nvlink_count(topology: &Topology, a: Vertex, b: Vertex) -> u32 {
    match link(topology, a, b).kind {
        LinkKind::NvLink { count } => count,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nvlinks_of_a_pair_become_one_link() {
    let (recorded, facts) =
        with_nvlinks(&[nvlinks(4, Some("00000000:01:00.0")), nvlinks(4, Some("00000000:00:00.0"))], &[]);
    let topology = recorded.survey(facts).topology;
    assert_eq!(nvlink_count(&topology, Vertex::Device(0), Vertex::Device(1)), 4);
    let gb_per_s = link(&topology, Vertex::Device(0), Vertex::Device(1)).forward_bytes_per_s / GB_PER_S;
    assert!((80.0..100.0).contains(&gb_per_s), "{gb_per_s}");
    assert!(topology.switches.is_empty());
}

#[test]
fn nvlinks_to_bridges_of_nvidia_lead_to_one_switch() {
    let remote = "0000:c1:00.0";
    let (recorded, facts) = with_nvlinks(&[nvlinks(6, Some(remote)), nvlinks(6, Some(remote))], &[]);
    recorded.pci("pci0000:c0/0000:c1:00.0", PCIE4, "2", "0");
    recorded.file("sys/devices/pci0000:c0/0000:c1:00.0/vendor", "0x10de\n");
    recorded.file("sys/devices/pci0000:c0/0000:c1:00.0/class", "0x068000\n");
    let topology = recorded.survey(facts).topology;
    assert_eq!(topology.switches[0].name, "NVSwitch");
    assert_eq!(nvlink_count(&topology, Vertex::Device(1), Vertex::Switch(0)), 6);
}

#[test]
fn nvlinks_to_the_processor_take_the_place_of_pcie() {
    let (recorded, facts) = with_nvlinks(&[nvlinks(3, Some("0004:00:00.0"))], &[]);
    recorded.pci("pci0004:00/0004:00:00.0", "Unknown", "0", "0");
    recorded.file("sys/devices/pci0004:00/0004:00:00.0/vendor", "0x1014\n");
    recorded.file("sys/devices/pci0004:00/0004:00:00.0/class", "0x068000\n");
    let topology = recorded.survey(facts).topology;
    assert_eq!(nvlink_count(&topology, Vertex::Device(0), Vertex::Node(0)), 3);
    assert_eq!(topology.links.len(), 1);
}

#[test]
fn hidden_ends_are_joined_by_what_the_driver_calls_peers() {
    let (recorded, facts) = with_nvlinks(&[nvlinks(18, None), nvlinks(18, None)], &[(0, 1)]);
    let found = recorded.survey(facts);
    assert_eq!(nvlink_count(&found.topology, Vertex::Device(0), Vertex::Device(1)), 18);
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);

    let all = [(0, 1), (0, 2), (1, 2)];
    let (recorded, facts) = with_nvlinks(&[nvlinks(12, None), nvlinks(12, None), nvlinks(12, None)], &all);
    let found = recorded.survey(facts);
    assert_eq!(nvlink_count(&found.topology, Vertex::Device(2), Vertex::Switch(0)), 12);

    let some = [(0, 1), (0, 2)];
    let (recorded, facts) = with_nvlinks(&[nvlinks(4, None), nvlinks(2, None), nvlinks(2, None)], &some);
    let found = recorded.survey(facts);
    assert_eq!(nvlink_count(&found.topology, Vertex::Device(0), Vertex::Device(2)), 2);
    assert_eq!(found.topology.link_between(Vertex::Device(1), Vertex::Device(2)), None);

    // What is hidden adds to what is known.
    let links = |known: &str| [nvlinks(2, Some(known)), nvlinks(3, None)].concat();
    let (recorded, facts) = with_nvlinks(&[links("0000:01:00.0"), links("0000:00:00.0")], &[(0, 1)]);
    let found = recorded.survey(facts);
    assert_eq!(nvlink_count(&found.topology, Vertex::Device(0), Vertex::Device(1)), 5);

    let (recorded, facts) = with_nvlinks(&[nvlinks(4, None), Vec::new()], &[]);
    let found = recorded.survey(facts);
    assert_eq!(found.topology.links.len(), 2);
    assert!(found.notes[0].contains("left out"), "{:?}", found.notes);
}

#[test]
fn devices_are_numbered_in_the_order_that_is_asked_for() {
    let (recorded, mut facts) =
        with_nvlinks(&[nvlinks(2, None), nvlinks(2, None), Vec::new()], &[(0, 1), (1, 2)]);
    facts.gpus[1].name = "second".to_string();
    let found = recorded.survey_in_order(facts, &["0000:01:00.0", "0000:77:00.0", "00000000:00:00.0"]);
    let devices = &found.topology.devices;
    assert_eq!(
        devices.iter().map(|device| device.name.as_str()).collect::<Vec<_>>(),
        ["second", "NVIDIA Example"]
    );
    assert_eq!(nvlink_count(&found.topology, Vertex::Device(0), Vertex::Device(1)), 2);
    assert_eq!(found.notes[0], "no GPU at '0000:77:00.0'; it is left out");
}

#[test]
fn fingerprint_tells_parts_apart_and_ignores_measurements() {
    let found = server().survey(gpus(&["0000:19:00.0"]));
    assert_eq!(found.fingerprint(), server().survey(gpus(&["0000:19:00.0"])).fingerprint());
    let mut measured = found.topology.clone();
    measured.links[0].forward_bytes_per_s *= 2.0;
    measured.links[0].is_measured = true;
    measured.name = "renamed".to_string();
    assert_eq!(fingerprint(&measured, Some("580.1")), found.fingerprint());
    let changes: [fn(&mut Topology); 5] = [
        |topology| topology.devices[0].name.push('x'),
        |topology| topology.devices[0].pci_address = None,
        |topology| topology.nodes[0].core_count += 1,
        |topology| topology.storages.truncate(1),
        |topology| topology.links[0].kind = LinkKind::Attachment,
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut changed = found.topology.clone();
        change(&mut changed);
        assert_ne!(fingerprint(&changed, Some("580.1")), found.fingerprint(), "change {index}");
    }
    assert_ne!(fingerprint(&found.topology, Some("580.2")), found.fingerprint());
    assert_ne!(fingerprint(&found.topology, None), found.fingerprint());
}

#[test]
fn a_virtual_machine_whose_memory_grows_stays_the_same_machine() {
    let of_memory = |gibibytes: u64| {
        let recorded = Recorded::new();
        recorded.node(0, "0-15", gibibytes, "10");
        recorded.survey(gpus(&["0000:19:00.0"])).fingerprint()
    };
    assert_eq!(of_memory(5), of_memory(126));
}

#[test]
fn this_machine_is_found_whatever_it_is() {
    let found = survey(&Sources::default()).unwrap();
    found.topology.validate().unwrap();
    assert!(found.topology.nodes[0].memory_bytes > 0);
    assert!(found.topology.nodes[0].core_count > 0);
    println!("{found:#?}\nfingerprint {}", found.fingerprint());
}
