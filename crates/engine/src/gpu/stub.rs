//! stub
#![allow(missing_docs, unused)]
use pelton_error::*;
use pelton_pipeline::{Rows, TextSource, Dictionary};
use pelton_pipeline::ir::Plan;
use pelton_store::{IoEngine, Table, TableId};
use pelton_device::DeviceId;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetChoice { Cuda { device: u32 }, Host }
#[derive(Debug, Clone)]
pub struct RuntimeOptions { pub target: TargetChoice, pub device_cap_bytes: Option<u64>, pub pinned_cap_bytes: Option<u64>, pub cache: Option<PathBuf>, pub overlap: bool, pub equal_hashes: bool, pub morsel_bytes: usize, pub slots: usize, pub device_cache_bytes: u64, pub workers: u32 }
impl Default for RuntimeOptions { fn default() -> Self { Self { target: TargetChoice::Host, device_cap_bytes: None, pinned_cap_bytes: None, cache: None, overlap: true, equal_hashes: false, morsel_bytes: 32<<20, slots: 3, device_cache_bytes: 0, workers: 1 } } }
pub struct Runtime { homes: Arc<Homes> }
pub struct Homes;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home { Disk, Pinned, Device(DeviceId) }
pub struct PinReport { pub bytes: u64, pub elapsed: Duration, pub columns_left_out: Vec<(String, String)> }
#[derive(Debug)]
pub struct ColumnText;
impl TextSource for ColumnText { fn dictionary(&self) -> Result<Arc<Dictionary>> { Err(Error::unsupported("stub")) } }
impl Homes {
    pub fn pin(&self, _t: &Arc<Table>, _c: Option<&[usize]>, _f: &CancelFlag) -> Result<PinReport> { Err(Error::unsupported("stub")) }
    pub fn text(self: &Arc<Self>, _t: &Arc<Table>, _c: usize) -> Arc<ColumnText> { Arc::new(ColumnText) }
    pub fn home(&self, _t: &Table, _c: usize, _d: DeviceId) -> Home { Home::Disk }
}
impl Runtime {
    pub fn open(_o: RuntimeOptions, _io: Arc<IoEngine>) -> Result<Arc<Self>> { Ok(Arc::new(Self { homes: Arc::new(Homes) })) }
    pub fn homes(&self) -> &Arc<Homes> { &self.homes }
    pub fn run(&self, _p: &Plan, _u: Vec<Rows>, _c: &CancelFlag) -> Result<(Rows, RunReport)> { Err(Error::unsupported("stub")) }
    pub fn check(&self, _p: &Plan) -> Result<()> { Ok(()) }
    pub fn device(&self) -> DeviceId { DeviceId(0) }
    pub fn describe(&self) -> String { "host target".into() }
}
#[derive(Debug, Clone)]
pub struct RunReport { pub pipelines: Vec<PipelineReport>, pub elapsed: Duration }
impl RunReport { pub fn lines(&self) -> Vec<String> { vec![] } }
#[derive(Debug, Clone)]
pub struct PipelineReport { pub name: String, pub rows_in: u64, pub rows_out: u64, pub bytes_read_disk: u64, pub bytes_link: u64, pub bytes_device: u64, pub skipped_late: u64, pub compile: Duration, pub elapsed: Duration }
pub fn text_supported(_t: &Table, _c: usize) -> std::result::Result<(), String> { Ok(()) }
