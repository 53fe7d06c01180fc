//! Address ranges put together from pages of several memories.
//!
//! ```text
//!   hybrid        │ device pages ............ │ host pages .... │     first what fits on the device (Lutz et al. 2020)
//!   interleaved   │ dev 0 │ dev 1 │ dev 0 │ dev 1 │ ...             one page each in turn
//! ```
//!
//! Code that works on one array works on these unchanged.

use cudarc::driver::sys;
use pelton_error::Result;

use super::driver::{Context, check};
use super::memory::{device_location, node_location, read_write};
use crate::machine::{VIRTUAL_PAGE_BYTES, hybrid_split};
use crate::place::{DeviceId, NodeId};

/// A reserved range and the pages behind it; unmapped and released on drop.
#[derive(Debug)]
pub(crate) struct AddressRange {
    context: Context,
    address: u64,
    bytes: usize,
    pieces: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    offset: usize,
    bytes: usize,
    handle: sys::CUmemGenericAllocationHandle,
}

impl AddressRange {
    /// `device_bytes` of `device`, then pages of `node`.
    pub(crate) fn hybrid(
        contexts: &[Context],
        device: DeviceId,
        device_bytes: usize,
        node: NodeId,
        bytes: usize,
    ) -> Result<Self> {
        let (first, rest) = hybrid_split(bytes, device_bytes);
        let context = contexts[device.0 as usize];
        let mut range = Self::reserve(context, first + rest)?;
        if first > 0 {
            range.map(0, first, device_location(context.device))?;
        }
        if rest > 0 {
            range.map(first, rest, node_location(node))?;
        }
        let users: Vec<Context> = contexts
            .iter()
            .filter(|user| user.id == device || first == 0 || user.reaches(&context))
            .copied()
            .collect();
        range.open_to(&users)?;
        Ok(range)
    }

    /// Pages of `devices` in turn.
    pub(crate) fn interleaved(contexts: &[Context], devices: &[DeviceId], bytes: usize) -> Result<Self> {
        let context = contexts[devices[0].0 as usize];
        let pages = bytes.div_ceil(VIRTUAL_PAGE_BYTES);
        let mut range = Self::reserve(context, pages * VIRTUAL_PAGE_BYTES)?;
        for page in 0..pages {
            let owner = contexts[devices[page % devices.len()].0 as usize];
            range.map(page * VIRTUAL_PAGE_BYTES, VIRTUAL_PAGE_BYTES, device_location(owner.device))?;
        }
        let users: Vec<Context> = devices.iter().map(|device| contexts[device.0 as usize]).collect();
        range.open_to(&users)?;
        Ok(range)
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    fn reserve(context: Context, bytes: usize) -> Result<Self> {
        context.bind()?;
        let mut address = 0;
        // SAFETY: `address` outlives the call.
        let code = unsafe { sys::cuMemAddressReserve(&raw mut address, bytes, VIRTUAL_PAGE_BYTES, 0, 0) };
        check(code, || format!("{}: reserving {bytes} bytes of address space", context.id))?;
        Ok(Self { context, address, bytes, pieces: Vec::new() })
    }

    fn map(&mut self, offset: usize, bytes: usize, location: sys::CUmemLocation) -> Result<()> {
        let doing = || format!("{}: taking {bytes} bytes for an address range", self.context.id);
        let properties = sys::CUmemAllocationProp {
            type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            requestedHandleTypes: sys::CUmemAllocationHandleType(0),
            location,
            win32HandleMetaData: std::ptr::null_mut(),
            allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
                compressionType: 0,
                gpuDirectRDMACapable: 0,
                usage: 0,
                reserved: [0; 4],
            },
        };
        let mut handle = 0;
        // SAFETY: pointers are to locals that outlive the call.
        check(unsafe { sys::cuMemCreate(&raw mut handle, bytes, &raw const properties, 0) }, doing)?;
        // SAFETY: the range is reserved and nothing is mapped there yet.
        let code = unsafe { sys::cuMemMap(self.address + offset as u64, bytes, 0, handle, 0) };
        if let Err(error) = check(code, doing) {
            // SAFETY: the handle is ours and mapped nowhere.
            let _ = unsafe { sys::cuMemRelease(handle) };
            return Err(error);
        }
        self.pieces.push(Piece { offset, bytes, handle });
        Ok(())
    }

    fn open_to(&self, users: &[Context]) -> Result<()> {
        let access: Vec<sys::CUmemAccessDesc> = users.iter().map(|user| read_write(user.device)).collect();
        // SAFETY: the whole range is mapped; `access` outlives the call and has the length said.
        check(unsafe { sys::cuMemSetAccess(self.address, self.bytes, access.as_ptr(), access.len()) }, || {
            format!("{}: opening an address range to {} devices", self.context.id, users.len())
        })
    }
}

impl Drop for AddressRange {
    fn drop(&mut self) {
        if self.context.bind().is_err() {
            return;
        }
        // SAFETY: no operation uses the range any more; each piece is mapped and released once.
        unsafe {
            for piece in &self.pieces {
                let _ = sys::cuMemUnmap(self.address + piece.offset as u64, piece.bytes);
                let _ = sys::cuMemRelease(piece.handle);
            }
            let _ = sys::cuMemAddressFree(self.address, self.bytes);
        }
    }
}
