//! What `pelton.connect` may be told, by the words that the command knows.

use std::path::PathBuf;

use pelton_engine::{SessionOptions, THREADS_MAX, memory_shares};
use pelton_error::{Error, Result};
use pelton_io::{IoMode, IoOptions};
use pelton_limits::{
    MemoryLimit, SpillLimit, SpillOptions, ceiling_bytes, set_process_limit, set_purge_delay,
};
use pyo3::prelude::*;

/// A size in bytes, or as a text such as `512MiB`.
#[derive(FromPyObject)]
pub(crate) enum Size {
    Bytes(u64),
    Text(String),
}

impl Size {
    pub(crate) fn bytes(&self) -> Result<u64> {
        match self {
            Size::Bytes(0) => Err(Error::invalid_input("'0' is not a positive size")),
            Size::Bytes(bytes) => Ok(*bytes),
            Size::Text(text) => pelton_cli::parse_size(text).map_err(Error::invalid_input),
        }
    }
}

impl Size {
    /// A memory limit: bytes, or a text with a size, a share such as `50%`, or `none`; without any, that of the command.
    pub(crate) fn limit(given: Option<&Self>) -> Result<MemoryLimit> {
        match given {
            None => Ok(MemoryLimit::default()),
            Some(Size::Text(text)) => text.parse().map_err(Error::invalid_input),
            Some(size) => size.bytes().map(MemoryLimit::Bytes),
        }
    }
}

/// Where to spill, and how much.
pub(crate) fn spill_options(directory: Option<PathBuf>, limit: Option<&Size>) -> Result<SpillOptions> {
    let from_environment = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let directory = directory.or_else(|| from_environment("PELTON_SPILL_DIR").map(PathBuf::from));
    let limit = match limit {
        Some(Size::Bytes(bytes)) => SpillLimit::Bytes(*bytes),
        Some(Size::Text(text)) => text.parse().map_err(Error::invalid_input)?,
        None => match from_environment("PELTON_SPILL_LIMIT") {
            Some(text) => text.to_string_lossy().parse().map_err(Error::invalid_input)?,
            None => SpillLimit::default(),
        },
    };
    Ok(SpillOptions { directory, limit })
}

/// Holds all sessions of the process together to the limit of a command, or of one that was given more.
fn limit_process(session_bytes: Option<u64>) {
    let limit =
        session_bytes.zip(MemoryLimit::default().bytes()).map(|(session, default)| session.max(default));
    set_purge_delay(limit);
    if let Some(limit) = limit {
        set_process_limit(limit, ceiling_bytes(limit));
    }
}

/// The keyword arguments of `pelton.connect`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SessionArgs {
    threads: Option<usize>,
    memory_limit: Option<Size>,
    spill_dir: Option<PathBuf>,
    spill_limit: Option<Size>,
    batch_rows: usize,
    io: String,
    io_uring: bool,
    skip: String,
    join_order: bool,
    device: String,
    devices: u32,
    device_memory_limit: Option<Size>,
    pin: Vec<String>,
}

impl SessionArgs {
    pub(crate) fn options(&self) -> Result<SessionOptions> {
        if self.batch_rows == 0 {
            return Err(Error::invalid_input("batch_rows must be at least 1"));
        }
        if self.threads.is_some_and(|threads| !(1..=THREADS_MAX).contains(&threads)) {
            return Err(Error::invalid_input(format!("threads must be from 1 to {THREADS_MAX}")));
        }
        let mode = match self.io.as_str() {
            "auto" => IoMode::Auto,
            "direct" => IoMode::Direct,
            "buffered" => IoMode::Buffered,
            other => {
                let message = format!("io is 'auto', 'direct' or 'buffered', not '{other}'");
                return Err(Error::invalid_input(message));
            }
        };
        let device = self.device.parse()?;
        let (memory_limit_bytes, host_kernel_bytes) =
            memory_shares(Size::limit(self.memory_limit.as_ref())?.bytes(), device);
        limit_process(memory_limit_bytes);
        Ok(SessionOptions {
            threads: self.threads,
            batch_rows: self.batch_rows,
            memory_limit_bytes,
            spill: spill_options(self.spill_dir.clone(), self.spill_limit.as_ref())?,
            io: IoOptions { mode, ring: self.io_uring, ..IoOptions::default() },
            scan: pelton_cli::scan_options(&self.skip)?,
            reorder_joins: self.join_order,
            device,
            host_kernel_bytes,
            device_count: self.devices,
            device_memory_limit_bytes: self.device_memory_limit.as_ref().map(Size::bytes).transpose()?,
            pin: self.pin.clone(),
            ..SessionOptions::default()
        })
    }
}
