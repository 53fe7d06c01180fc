//! Where one table lies: kernels reach it by loads and stores, so that only memory differs (Lutz et al. 2020, sections 5.2,
//! 5.3 and 6.3).
//!
//! ```text
//!   device        ├────────── device ──────────┤
//!   host          ├───── pinned, over the link ─────┤          of a size that the device's memory does not bound
//!   hybrid        ├── device ──┼──── pinned ────┤              one range of addresses, split at whole pages
//!   interleaved   ├ 0 ┼ 1 ┼ 2 ┼ 0 ┼ 1 ┼ 2 ┤                  pages in turn, over the links between devices
//!   peer          ├────── another device ──────┤
//! ```
//!
//! A row whose slot is elsewhere costs a random access of the link instead of one of the device's memory. Of a hybrid
//! table with the share A on the device, uniform keys take A / G + (1 - A) / C seconds an access, of G and C accesses a
//! second there and over the link, and no less than the slower part alone if both are kept busy.

use pelton_device::{MemoryKind, OnFull, Span, VIRTUAL_PAGE_BYTES};
use pelton_error::{Result, ResultExt};

use super::rig::Rig;
use crate::options::TablePlace;

/// Memory of a table.
pub(crate) struct TableMemory {
    pub(crate) span: Span,
    /// Bytes on the device that joins.
    pub(crate) device_bytes: u64,
}

/// Takes memory for a table of `bytes` where the options put it. `reserve` bytes of the device stay free.
///
/// # Errors
///
/// `OutOfMemory` if that place does not hold it; `Unsupported` if the device does not reach it.
pub(crate) fn take_table(rig: &Rig<'_>, bytes: usize, reserve: u64) -> Result<TableMemory> {
    let device = rig.options.device;
    let (kind, device_bytes) = match &rig.options.table {
        TablePlace::Device => {
            return Ok(TableMemory { span: rig.take(bytes, "a table")?, device_bytes: bytes as u64 });
        }
        TablePlace::Host(node) => (MemoryKind::Pinned(*node), 0),
        TablePlace::Hybrid => {
            let page = VIRTUAL_PAGE_BYTES as u64;
            let room = rig.left().saturating_sub(reserve) / page * page;
            // All of it takes whole pages, too.
            let on_device = room.min((bytes as u64).next_multiple_of(page));
            rig.reserve(on_device, "a part of a table")?;
            let node = rig.machine.device(device)?.node;
            (
                MemoryKind::Hybrid { device, device_bytes: on_device as usize, node },
                on_device.min(bytes as u64),
            )
        }
        TablePlace::Interleaved(devices) => {
            let pages = bytes.div_ceil(VIRTUAL_PAGE_BYTES);
            let place = devices.iter().position(|one| *one == device);
            let share = place.map_or(0, |place| (pages + devices.len() - 1 - place) / devices.len());
            let share = (share * VIRTUAL_PAGE_BYTES) as u64;
            rig.reserve(share, "a part of a table")?;
            (MemoryKind::Interleaved(devices.clone()), share.min(bytes as u64))
        }
        TablePlace::Peer(peer) => (MemoryKind::Device(*peer), if *peer == device { bytes as u64 } else { 0 }),
    };
    let what = || format!("a table of {bytes} bytes, {kind}");
    let buffer = rig.machine.allocate(kind.clone(), bytes, OnFull::Refuse).context(what)?;
    Ok(TableMemory { span: buffer.span(), device_bytes })
}
