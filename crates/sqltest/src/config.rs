//! The configurations: each turns one thing away from the default.

use pelton_engine::{DeviceChoice, MemoryTest, ScanOptions, SessionOptions};
use pelton_io::{IoMode, IoOptions};
use pelton_load::LoadOptions;
use pelton_store::SampleOptions;
use pelton_zone::SkipKinds;

/// Threads of a query, so that plans are those of a small machine wherever tests run.
const THREADS: usize = 2;

/// How tables are stored and how queries run.
#[derive(Debug, Clone)]
pub struct Config {
    /// The label for `onlyif` and `skipif`.
    pub name: &'static str,
    /// For every query.
    pub session: SessionOptions,
    /// For every load.
    pub load: LoadOptions,
}

impl Config {
    /// What users get, on a machine of two cores.
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            session: SessionOptions { threads: Some(THREADS), ..SessionOptions::default() },
            load: LoadOptions { thread_count: THREADS, ..LoadOptions::default() },
        }
    }

    /// Batches of `rows` rows between operators.
    pub fn batch_rows(mut self, rows: usize) -> Self {
        self.session.batch_rows = rows;
        self
    }

    /// Queries and loads in `count` threads.
    pub fn threads(mut self, count: usize) -> Self {
        self.session.threads = Some(count);
        self.load.thread_count = count;
        self
    }

    /// Row groups of `rows` rows with pages of `page_rows`.
    pub fn row_groups(mut self, rows: u32, page_rows: u32) -> Self {
        self.load.choose = SampleOptions { row_group_rows: vec![rows], page_rows, ..self.load.choose };
        self
    }

    /// Every column under `codec`.
    pub fn codec(mut self, codec: &str) -> Self {
        self.load.choose.force_codec = Some(codec.parse().expect("the name of a codec"));
        self
    }

    /// Every column that can have it under `encoding`, such as `plain` or `dict+bitpack`.
    pub fn encoding(mut self, encoding: &str) -> Self {
        self.load.choose.force_encoding = Some(encoding.parse().expect("the name of an encoding"));
        self
    }

    /// No metadata skips anything.
    pub fn no_skipping(mut self) -> Self {
        self.session.scan =
            ScanOptions { skip: SkipKinds::NONE, sideways: false, dynamic: false, ..self.session.scan };
        self
    }

    /// Joins in the order in which they are written.
    pub fn no_join_order(mut self) -> Self {
        self.session.reorder_joins = false;
        self
    }

    /// Joins of integers build tables of Pelton's own, however few their rows are.
    pub fn own_tables(mut self) -> Self {
        self.session.table_rows_min = 0;
        self
    }

    /// Whatever kernels can do runs as kernels, compiled for the host and kept in the folder `programs`. Every source
    /// must compile for a GPU too, where there is NVRTC (CI installs it). The environment variable `PELTON_SLT_DEVICE`
    /// names another device, such as `gpu`.
    pub fn kernels(mut self, programs: &str) -> Self {
        self.session.device = std::env::var("PELTON_SLT_DEVICE").map_or(DeviceChoice::Host, |device| {
            device.parse().unwrap_or_else(|error| panic!("PELTON_SLT_DEVICE: {error}"))
        });
        self.session.runtime.cache = Some(programs.into());
        self.session.runtime.workers = THREADS as u32;
        // However few groups there are.
        self.session.runtime.sorted_groups_min = 0;
        self.session.runtime.check_for = pelton_pipeline::nvrtc_status().is_ok().then_some((9, 0));
        self
    }

    /// Kernels take at most `bytes` of device memory, and of pinned memory.
    pub fn device_memory_limit(mut self, bytes: u64) -> Self {
        self.session.device_memory_limit_bytes = Some(bytes);
        self.session.runtime.pinned_memory_limit_bytes = Some(bytes);
        self
    }

    /// Kernels on `count` logical devices and on the host's cores as one worker more, which run each query together. One configuration that compiles all for a GPU
    /// is enough.
    pub fn devices(mut self, count: u32) -> Self {
        self.session.runtime.check_for = None;
        self.session.runtime.more_devices = (1..count).collect();
        self.session.runtime.host_worker_bytes = Some(256 << 20);
        self.session.runtime.always_with_host = true;
        self
    }

    /// Memory of kernels is made short this way, and tables have room for one row at first.
    pub fn memory_test(mut self, test: MemoryTest) -> Self {
        self.session.runtime.check_for = None;
        self.session.runtime.memory_test = test;
        self.session.runtime.first_rows = Some(1);
        self
    }

    /// Table files read this way, with io_uring or without.
    pub fn io(mut self, mode: IoMode, ring: bool) -> Self {
        self.session.io = IoOptions { mode, ring, ..self.session.io };
        self
    }
}
