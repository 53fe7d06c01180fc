//! The eight methods by which a device comes to host memory (Lutz et al. 2020, section 4.2, Table 1).
//!
//! | method | who moves | memory | kernels read | needs |
//! | --- | --- | --- | --- | --- |
//! | pageable copy | the driver, by the CPU | pageable | a copy | - |
//! | staged copy | CPU threads, then a copy engine | pageable | a copy | - |
//! | dynamic pinning | a copy engine | pageable, locked for the time | a copy | page-locking |
//! | pinned copy | a copy engine | pinned | a copy | - |
//! | unified-memory prefetch | the driver | managed | the memory itself | concurrent managed access |
//! | unified-memory migration | page faults | managed | the memory itself | concurrent managed access |
//! | zero-copy | the kernel's loads | pinned | the memory itself | - |
//! | coherence | the kernel's loads | pageable | the memory itself | pageable access |
//!
//! The first five push chunks, the last three let kernels pull.

use std::fmt;
use std::str::FromStr;

use pelton_device::{DeviceId, Machine, MemoryKind, NodeId, PageableAccess};
use pelton_error::{Error, Result};

/// How a device comes to host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// The driver copies from pageable memory.
    PageableCopy,
    /// Threads copy to pinned memory, a copy engine on from there.
    StagedCopy,
    /// Pages are locked, copied by a copy engine, unlocked.
    DynamicPinning,
    /// A copy engine copies from pinned memory.
    PinnedCopy,
    /// The driver moves pages of managed memory ahead of the kernel.
    UnifiedPrefetch,
    /// Pages of managed memory move when the kernel touches them.
    UnifiedMigration,
    /// The kernel loads from pinned memory over the link.
    ZeroCopy,
    /// The kernel loads from pageable memory over the link.
    Coherence,
}

impl Method {
    /// All of them, in the order of the source.
    pub const ALL: [Method; 8] = [
        Method::PageableCopy,
        Method::StagedCopy,
        Method::DynamicPinning,
        Method::PinnedCopy,
        Method::UnifiedPrefetch,
        Method::UnifiedMigration,
        Method::ZeroCopy,
        Method::Coherence,
    ];

    /// Its name on command lines and in results.
    pub fn name(self) -> &'static str {
        match self {
            Method::PageableCopy => "pageable-copy",
            Method::StagedCopy => "staged-copy",
            Method::DynamicPinning => "dynamic-pinning",
            Method::PinnedCopy => "pinned-copy",
            Method::UnifiedPrefetch => "um-prefetch",
            Method::UnifiedMigration => "um-migration",
            Method::ZeroCopy => "zero-copy",
            Method::Coherence => "coherence",
        }
    }

    /// True if chunks are moved ahead of the kernel, false if the kernel reaches over the link itself.
    pub fn is_push(self) -> bool {
        !matches!(self, Method::UnifiedMigration | Method::ZeroCopy | Method::Coherence)
    }

    /// True if the kernel reads a copy in device memory.
    pub(crate) fn makes_copy(self) -> bool {
        self.is_push() && self != Method::UnifiedPrefetch
    }

    /// The memory that it reads from, at `node`.
    pub fn source_kind(self, node: NodeId) -> MemoryKind {
        match self {
            Method::PageableCopy | Method::StagedCopy | Method::DynamicPinning | Method::Coherence => {
                MemoryKind::Pageable(node)
            }
            Method::PinnedCopy | Method::ZeroCopy => MemoryKind::Pinned(node),
            Method::UnifiedPrefetch | Method::UnifiedMigration => MemoryKind::Managed,
        }
    }

    /// True if it reads memory of this kind.
    pub fn reads(self, kind: &MemoryKind) -> bool {
        match (self.source_kind(NodeId(0)), kind) {
            (MemoryKind::Pageable(_), MemoryKind::Pageable(_))
            | (MemoryKind::Pinned(_), MemoryKind::Pinned(_))
            | (MemoryKind::Managed, MemoryKind::Managed) => true,
            // Zero-copy reads whatever is mapped for the device.
            (MemoryKind::Pinned(_), MemoryKind::Hybrid { .. } | MemoryKind::Interleaved(_)) => {
                self == Method::ZeroCopy
            }
            _ => false,
        }
    }

    /// Refuses what `device` cannot do.
    ///
    /// # Errors
    ///
    /// `Unsupported` that names the missing capability.
    pub fn check(self, machine: &Machine, device: DeviceId) -> Result<()> {
        let capabilities = &machine.device(device)?.capabilities;
        let missing = match self {
            Method::DynamicPinning if !capabilities.host_register => "page-locking of existing host memory",
            Method::UnifiedPrefetch | Method::UnifiedMigration if !capabilities.concurrent_managed => {
                "concurrent managed access"
            }
            Method::Coherence if capabilities.pageable_access == PageableAccess::None => "pageable access",
            _ => return Ok(()),
        };
        Err(Error::unsupported(format!("no {missing} ({self} on {device})")))
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|method| method.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|method| method.name()).collect();
            Error::invalid_input(format!("no transfer method '{text}'; there are {}", names.join(", ")))
        })
    }
}
