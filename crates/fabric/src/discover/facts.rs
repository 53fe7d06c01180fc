//! What the driver says about the GPUs, before it is laid over what the operating system says.
//!
//! [`super::nvml`] fills these structures on a machine with a driver; tests fill them by hand.

/// The GPUs of a machine in the words of its driver.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuFacts {
    /// Such as `580.159.04`.
    pub driver_version: Option<String>,
    /// In the driver's order.
    pub gpus: Vec<GpuFact>,
    /// Pairs of GPUs, by place in `gpus`, that the driver calls peers over NVLink.
    pub nvlink_peers: Vec<(usize, usize)>,
    /// What could not be found out, in sentences.
    pub notes: Vec<String>,
}

/// A GPU in the words of its driver.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GpuFact {
    /// Such as `NVIDIA H200`.
    pub name: String,
    /// Such as `0000:1b:00.0`.
    pub pci_address: Option<String>,
    /// Its memory.
    pub memory_bytes: u64,
    /// What the memory's clock and bus width allow.
    pub memory_bytes_per_s: Option<f64>,
    /// Generation and lanes that card and slot allow.
    pub pcie: Option<PcieLink>,
    /// The host node that its own memory appears as, on machines where it does.
    pub memory_node: Option<u32>,
    /// Its NVLinks that are up.
    pub nvlinks: Vec<NvLinkFact>,
}

/// An NVLink that is up.
#[derive(Debug, Clone, PartialEq)]
pub struct NvLinkFact {
    /// PCI address of the other end. In a virtual machine it is often hidden.
    pub remote_address: Option<String>,
    /// What it signals in each direction, bytes per second.
    pub bytes_per_s: f64,
}

/// Generation and lanes of a PCIe link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PcieLink {
    /// 1 to 6.
    pub generation: u32,
    /// Lanes.
    pub width: u32,
}

impl PcieLink {
    /// What two ends or two sections in a row agree on.
    pub(crate) fn narrower(self, other: PcieLink) -> PcieLink {
        PcieLink { generation: self.generation.min(other.generation), width: self.width.min(other.width) }
    }
}
