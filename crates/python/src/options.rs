//! What `pelton.connect` may be told, by the words that the command knows.

use pelton_engine::SessionOptions;
use pelton_error::{Error, Result};
use pelton_store::{IoMode, IoOptions};
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

/// The keyword arguments of `pelton.connect`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SessionArgs {
    threads: Option<usize>,
    memory_limit: Option<Size>,
    batch_rows: usize,
    io: String,
    io_uring: bool,
    skip: String,
    join_order: bool,
    device: String,
    device_mem_cap: Option<Size>,
    pin: Vec<String>,
}

impl SessionArgs {
    pub(crate) fn options(&self) -> Result<SessionOptions> {
        if self.batch_rows == 0 || self.threads == Some(0) {
            return Err(Error::invalid_input("batch_rows and threads must be at least 1"));
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
        Ok(SessionOptions {
            threads: self.threads,
            batch_rows: self.batch_rows,
            memory_limit_bytes: self.memory_limit.as_ref().map(Size::bytes).transpose()?,
            io: IoOptions { mode, ring: self.io_uring, ..IoOptions::default() },
            scan: pelton_cli::scan_options(&self.skip)?,
            reorder_joins: self.join_order,
            device: self.device.parse()?,
            device_mem_cap_bytes: self.device_mem_cap.as_ref().map(Size::bytes).transpose()?,
            pin: self.pin.clone(),
            ..SessionOptions::default()
        })
    }
}
