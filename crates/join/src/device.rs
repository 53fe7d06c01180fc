//! Joins on a device.

mod hybrid;
mod radix;
mod rig;
mod single;
mod table;

pub(crate) use hybrid::{hybrid, resident_rows};
pub(crate) use radix::{radix, radix_bytes};
pub(crate) use rig::Rig;
pub(crate) use single::{single, single_bytes};
