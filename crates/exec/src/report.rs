//! What a run did, pipeline by pipeline.

use std::time::Duration;

use pelton_pipeline::{CompileReport, Origin};
use pelton_scan::PrefetchReport;

/// One pipeline of a run.
#[derive(Debug, Clone, Default)]
pub struct PipelineReport {
    /// As in the plan.
    pub name: String,
    /// Rows of the row groups that were scanned.
    pub rows_in: u64,
    /// Rows, or groups, that came out.
    pub rows_out: u64,
    /// Of the rows that went in, how many each worker took, where several divided them.
    pub rows_by_worker: Vec<u64>,
    /// The last of them was the host's cores, beside devices.
    pub is_with_host: bool,
    /// How many workers ran it, each over all rows.
    pub copies: usize,
    /// Row groups that were skipped while the query ran: ruled out by finished hash tables, or beyond the threshold of a top-k.
    pub row_groups_skipped: u64,
    /// Of them, by the single keys of a table, where the range of its keys did not.
    pub row_groups_skipped_by_keys: u64,
    /// Of them, beyond the threshold of a top-k.
    pub row_groups_beyond_top: u64,
    /// Bytes of chunks asked of the table's files.
    pub disk_bytes: u64,
    /// Bytes of chunks taken from pinned memory, where they lie without their heavy codec.
    pub pinned_bytes: u64,
    /// Bytes of chunks moved over the link.
    pub link_bytes: u64,
    /// Of them, over the links of other devices.
    pub helper_link_bytes: u64,
    /// Bytes of chunks that were on the device.
    pub device_bytes: u64,
    /// Bytes of the columns before encoding, of the row groups that were scanned.
    pub raw_bytes: u64,
    /// Bytes of chunks that the host decompressed, compressed, and the time that its threads took.
    pub codec_bytes: u64,
    /// See `codec_bytes`.
    pub codec_time: Duration,
    /// Why the host did.
    pub codec_reason: Option<String>,
    /// Bytes of chunks that the device decompressed, compressed.
    pub device_codec_bytes: u64,
    /// The same chunks, decompressed.
    pub device_codec_bytes_after: u64,
    /// Time of the device for it; morsels that were decompressed at once count each.
    pub device_codec_time: Duration,
    /// What decompressed on the device.
    pub device_codec_name: Option<String>,
    /// Time spent waiting for files.
    pub disk_wait: Duration,
    /// Time spent waiting for who takes the rows that are given out.
    pub reader_wait: Duration,
    /// Device memory that buffers for chunks took, bytes.
    pub staging_bytes: u64,
    /// Buffers in flight.
    pub staging_buffers: usize,
    /// The most row groups read ahead of the morsel that was worked on, that one included.
    pub row_groups_ahead_max: usize,
    /// Device memory of tables, groups and rows, bytes.
    pub state_bytes: u64,
    /// Time that compilers took, and how many programs were compiled anew.
    pub compile: Duration,
    /// See `compile`.
    pub compiled: usize,
    /// Time to admit columns to memory of the device or to pinned memory, and how many were.
    pub admit: Duration,
    /// See `admit`.
    pub admitted: usize,
    /// Runs that found keys not unique, and were repeated.
    pub repeats: usize,
    /// What it ends in, for the reader.
    pub sink: &'static str,
    /// How often that became larger while rows came.
    pub sink_grown: usize,
    /// Rows that found no room there and waited for it, each as often as it did.
    pub rows_waited: u64,
    /// How often it gave its device memory to other queries, and how long it waited for it to come back.
    pub parked: usize,
    /// See `parked`.
    pub parked_for: Duration,
    /// Bytes of tables, groups and sinks that were copied to the host since device memory was short.
    pub moved_down_bytes: u64,
    /// Bytes of them that were copied back.
    pub moved_up_bytes: u64,
    /// How often all groups so far were spilled to the host.
    pub spilled_runs: usize,
    /// Groups in these runs, each as often as it was spilled.
    pub spilled_groups: u64,
    /// Rows that were sorted, how long that took (up to the first of them that went to the host in order, or to the last
    /// that did as part of a run), and who sorted them.
    pub sorted_rows: u64,
    /// See `sorted_rows`.
    pub sort: Duration,
    /// See `sorted_rows`.
    pub sorted_by: &'static str,
    /// Rows among them whose texts begin alike, which the host put in order by whole texts.
    pub tied_rows: u64,
    /// Sorted runs that went to the host: what a device has no room for, or what several sort.
    pub sorted_runs: usize,
    /// Bytes of these runs, and of them over the link of each worker, where several divided the rows.
    pub run_bytes: u64,
    /// See `run_bytes`.
    pub run_bytes_by_worker: Vec<u64>,
    /// Time to merge sorted runs on the host.
    pub merge: Duration,
    /// Bytes of sorted rows that went to the host in order.
    pub ordered_bytes: u64,
    /// Partitions by which runs were merged.
    pub spilled_partitions: usize,
    /// Rows of the hash table that it builds that went to the host, bytes of them, and the partitions that they are in.
    pub spilled_table_rows: u64,
    /// See `spilled_table_rows`.
    pub spilled_table_bytes: u64,
    /// See `spilled_table_rows`.
    pub spilled_table_partitions: usize,
    /// Rows that went to the host to wait for partitions of spilled tables that they are looked up in, each once a table,
    /// and bytes of them.
    pub rows_waited_for_tables: u64,
    /// See `rows_waited_for_tables`.
    pub bytes_waited_for_tables: u64,
    /// Partitions of spilled tables that came back for them, and those that did not fit and were made smaller.
    pub partitions_joined: usize,
    /// See `partitions_joined`.
    pub partitions_split: usize,
    /// Time of the kernels on the device, all together; those of several morsels may run at once.
    pub kernels: Duration,
    /// Time to look up how columns are stored, and dictionaries.
    pub prepare: Duration,
    /// Time to generate source.
    pub generate: Duration,
    /// Time to take and clear memory.
    pub allocate: Duration,
    /// Time to prefetch and run all morsels.
    pub run: Duration,
    /// Time to bring the result to the host.
    pub finish: Duration,
    /// Time of the pipeline, without writing and compiling its source, admitting columns, and waiting for who takes its rows.
    pub elapsed: Duration,
    /// What was done with less memory than wanted, and which knob gives more.
    pub notes: Vec<String>,
}

impl PipelineReport {
    pub(crate) fn add_prefetch(&mut self, prefetcher: &PrefetchReport) {
        self.disk_bytes += prefetcher.disk_bytes;
        self.pinned_bytes += prefetcher.pinned_bytes;
        self.link_bytes += prefetcher.moved_bytes;
        self.helper_link_bytes += prefetcher.helper_link_bytes;
        self.device_bytes += prefetcher.device_bytes;
        self.codec_bytes += prefetcher.codec_bytes_before;
        self.codec_time += prefetcher.codec_time;
        self.codec_reason = prefetcher.codec_reason.clone().or(self.codec_reason.take());
        self.device_codec_bytes += prefetcher.device_codec_bytes_before;
        self.device_codec_bytes_after += prefetcher.device_codec_bytes_after;
        self.device_codec_time += prefetcher.device_codec_time;
        self.device_codec_name = prefetcher.device_codec_name.clone().or(self.device_codec_name.take());
        self.disk_wait += prefetcher.disk_wait;
        self.row_groups_skipped += prefetcher.row_groups_dropped;
        self.staging_buffers = prefetcher.staging_buffers;
        self.row_groups_ahead_max = self.row_groups_ahead_max.max(prefetcher.row_groups_ahead_max);
        self.staging_bytes = (prefetcher.staging_buffers * prefetcher.buffer_device_bytes) as u64;
    }

    /// Adds what another worker did for the same pipeline at the same time: for other rows where `is_divided`, else for
    /// the same ones. Bytes, rows that waited and times of devices and decoders are those of all workers together;
    /// what workers do at once takes as long as the slowest of them.
    pub(crate) fn add_worker(&mut self, other: Self, is_divided: bool) {
        if is_divided {
            self.rows_by_worker.push(other.rows_in);
            self.run_bytes_by_worker.push(other.run_bytes);
            self.sorted_rows += other.sorted_rows;
            self.rows_in += other.rows_in;
            self.rows_out += other.rows_out;
            self.raw_bytes += other.raw_bytes;
            self.row_groups_skipped += other.row_groups_skipped;
            self.row_groups_skipped_by_keys += other.row_groups_skipped_by_keys;
            self.row_groups_beyond_top += other.row_groups_beyond_top;
        } else {
            self.copies += 1;
        }
        self.disk_bytes += other.disk_bytes;
        self.pinned_bytes += other.pinned_bytes;
        self.link_bytes += other.link_bytes;
        self.helper_link_bytes += other.helper_link_bytes;
        self.device_bytes += other.device_bytes;
        self.codec_bytes += other.codec_bytes;
        self.codec_time += other.codec_time;
        self.codec_reason = self.codec_reason.take().or(other.codec_reason);
        self.device_codec_bytes += other.device_codec_bytes;
        self.device_codec_bytes_after += other.device_codec_bytes_after;
        self.device_codec_time += other.device_codec_time;
        self.device_codec_name = self.device_codec_name.take().or(other.device_codec_name);
        self.disk_wait = self.disk_wait.max(other.disk_wait);
        self.reader_wait = self.reader_wait.max(other.reader_wait);
        self.staging_bytes += other.staging_bytes;
        self.staging_buffers += other.staging_buffers;
        self.row_groups_ahead_max = self.row_groups_ahead_max.max(other.row_groups_ahead_max);
        self.state_bytes += other.state_bytes;
        self.compile = self.compile.max(other.compile);
        self.compiled += other.compiled;
        self.admit = self.admit.max(other.admit);
        self.admitted += other.admitted;
        self.repeats = self.repeats.max(other.repeats);
        self.sink_grown += other.sink_grown;
        self.rows_waited += other.rows_waited;
        self.parked += other.parked;
        self.parked_for = self.parked_for.max(other.parked_for);
        self.moved_down_bytes += other.moved_down_bytes;
        self.moved_up_bytes += other.moved_up_bytes;
        self.sort = self.sort.max(other.sort);
        if self.sorted_by.is_empty() || other.sorted_by == "host" {
            self.sorted_by = other.sorted_by;
        }
        self.tied_rows += other.tied_rows;
        self.sorted_runs += other.sorted_runs;
        self.run_bytes += other.run_bytes;
        self.merge = self.merge.max(other.merge);
        self.ordered_bytes += other.ordered_bytes;
        self.spilled_runs += other.spilled_runs;
        self.spilled_groups += other.spilled_groups;
        self.spilled_partitions += other.spilled_partitions;
        self.spilled_table_rows += other.spilled_table_rows;
        self.spilled_table_bytes += other.spilled_table_bytes;
        self.spilled_table_partitions += other.spilled_table_partitions;
        self.rows_waited_for_tables += other.rows_waited_for_tables;
        self.bytes_waited_for_tables += other.bytes_waited_for_tables;
        self.partitions_joined += other.partitions_joined;
        self.partitions_split += other.partitions_split;
        self.kernels += other.kernels;
        self.prepare = self.prepare.max(other.prepare);
        self.generate = self.generate.max(other.generate);
        self.allocate = self.allocate.max(other.allocate);
        self.run = self.run.max(other.run);
        self.finish = self.finish.max(other.finish);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.notes
            .extend(other.notes.into_iter().filter(|note| !self.notes.contains(note)).collect::<Vec<_>>());
    }

    pub(crate) fn add_compile(&mut self, report: &CompileReport) {
        self.compile += report.elapsed;
        self.compiled += usize::from(matches!(report.origin, Origin::Compiled));
    }

    /// The report as text, the first line the pipeline itself.
    pub fn lines(&self) -> Vec<String> {
        let rate = |bytes: u64| bytes as f64 / self.elapsed.as_secs_f64().max(1e-9) / 1e9;
        let mut lines = vec![format!(
            "{}: {} rows in, {} out, {:.2} ms, kernels {:.2} ms",
            self.name,
            self.rows_in,
            self.rows_out,
            self.elapsed.as_secs_f64() * 1e3,
            self.kernels.as_secs_f64() * 1e3
        )];
        lines.push(format!(
            "  chunks: {:.2} MB from files, {:.2} MB over the link ({:.1} GB/s), {:.2} MB on the device; \
             {:.2} MB uncompressed ({:.1} GB/s)",
            self.disk_bytes as f64 / 1e6,
            self.link_bytes as f64 / 1e6,
            rate(self.link_bytes),
            self.device_bytes as f64 / 1e6,
            self.raw_bytes as f64 / 1e6,
            rate(self.raw_bytes)
        ));
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        lines.push(format!(
            "  time: prepare {:.2} ms, generate {:.2}, memory {:.2}, morsels {:.2}, result {:.2}",
            ms(self.prepare),
            ms(self.generate),
            ms(self.allocate),
            ms(self.run),
            ms(self.finish)
        ));
        lines.push(format!(
            "  memory: {} buffers of {:.2} MB for chunks, {:.2} MB of state",
            self.staging_buffers,
            self.staging_bytes as f64 / 1e6 / self.staging_buffers.max(1) as f64,
            self.state_bytes as f64 / 1e6
        ));
        if self.reader_wait > Duration::from_millis(1) {
            lines.push(format!("  waited {:.2} ms more for who takes the rows", ms(self.reader_wait)));
        }
        if !self.rows_by_worker.is_empty() {
            let rows: Vec<String> = self.rows_by_worker.iter().map(u64::to_string).collect();
            let of_host = if self.is_with_host { ", the last on the host's cores" } else { "" };
            lines.push(format!("  workers: {} rows{of_host}", rows.join(", ")));
        }
        if self.copies > 0 {
            lines.push(format!("  workers: {}, each over all rows", self.copies));
        }
        if self.helper_link_bytes > 0 {
            lines.push(format!(
                "  multi-link: {:.2} MB over links of other devices",
                self.helper_link_bytes as f64 / 1e6
            ));
        }
        let by_tables = self.row_groups_skipped.saturating_sub(self.row_groups_beyond_top);
        if by_tables > 0 {
            let by_keys = self.row_groups_skipped_by_keys;
            lines.push(format!(
                "  skipped by finished hash tables: {by_tables} row groups, {by_keys} of them by single keys"
            ));
        }
        if self.row_groups_beyond_top > 0 {
            lines.push(format!("  skipped beyond the threshold: {} row groups", self.row_groups_beyond_top));
        }
        lines.extend(self.codec_lines());
        if self.compiled > 0 || self.compile > Duration::from_millis(1) {
            lines.push(format!(
                "  compile: {:.1} ms ({})",
                self.compile.as_secs_f64() * 1e3,
                if self.compiled > 0 { "new" } else { "from the cache" }
            ));
        }
        if self.admitted > 0 {
            lines.push(format!(
                "  admitted {} columns to the cache: {:.2} ms more",
                self.admitted,
                ms(self.admit)
            ));
        }
        if self.repeats > 0 {
            lines.push(format!("  repeated {} times with another table", self.repeats));
        }
        if self.sink_grown > 0 || self.rows_waited > 0 {
            let (sink, grown, waited) = (self.sink, self.sink_grown, self.rows_waited);
            lines.push(format!("  {sink} grew {grown} times, {waited} rows waited"));
        }
        if self.spilled_runs > 0 {
            let (groups, runs, partitions) =
                (self.spilled_groups, self.spilled_runs, self.spilled_partitions);
            lines
                .push(format!("  spilled {groups} groups in {runs} runs, merged in {partitions} partitions"));
        }
        lines.extend(self.table_lines());
        if !self.sorted_by.is_empty() {
            let (rows, by, took) = (self.sorted_rows, self.sorted_by, ms(self.sort));
            lines.push(format!("  sorted {rows} rows on the {by} in {took:.2} ms"));
            if self.tied_rows > 0 {
                let rows = self.tied_rows;
                lines.push(format!("  {rows} rows whose texts begin alike: put in order by the host"));
            }
            lines.extend(self.run_lines());
        }
        if self.parked > 0 {
            lines.push(format!("  parked {} times, waited {:.1} ms", self.parked, ms(self.parked_for)));
        }
        if self.moved_down_bytes + self.moved_up_bytes > 0 {
            let (down, up) = (self.moved_down_bytes as f64 / 1e6, self.moved_up_bytes as f64 / 1e6);
            lines.push(format!("  device memory was short: {down:.2} MB moved to the host, {up:.2} MB back"));
        }
        lines.extend(self.notes.iter().map(|note| format!("  {note}")));
        lines
    }

    /// What of hash tables, and of rows that they wait for, went to the host.
    fn table_lines(&self) -> Vec<String> {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        let mut lines = Vec::new();
        if self.spilled_table_partitions > 0 {
            lines.push(format!(
                "  spilled a hash table of {} rows, {:.2} MB, in {} partitions",
                self.spilled_table_rows,
                mb(self.spilled_table_bytes),
                self.spilled_table_partitions
            ));
        }
        if self.partitions_joined + self.partitions_split > 0 || self.rows_waited_for_tables > 0 {
            lines.push(format!(
                "  {} rows, {:.2} MB, waited on the host for {} partitions of spilled hash tables, {} of which were split \
                 further",
                self.rows_waited_for_tables,
                mb(self.bytes_waited_for_tables),
                self.partitions_joined,
                self.partitions_split
            ));
        }
        lines
    }

    /// What of sorted rows went over which link.
    fn run_lines(&self) -> Vec<String> {
        let mb = |bytes: u64| format!("{:.2}", bytes as f64 / 1e6);
        let mut lines = Vec::new();
        if self.ordered_bytes > 0 {
            lines.push(format!("  sorted rows over the link to the host: {} MB", mb(self.ordered_bytes)));
        }
        if self.sorted_runs > 0 {
            let by_link: Vec<String> = self.run_bytes_by_worker.iter().map(|bytes| mb(*bytes)).collect();
            let links = match by_link.len() {
                0 => String::from("the link"),
                _ => format!("the links of the workers, {} each", by_link.join(", ")),
            };
            let merged_ms = self.merge.as_secs_f64() * 1e3;
            lines.push(format!(
                "  sorted runs: {}, {} MB spilled to the host over {links}; merged there in {merged_ms:.2} ms",
                self.sorted_runs,
                mb(self.run_bytes)
            ));
        }
        lines
    }

    /// Who undid heavy codecs, how fast, and why the host did what it did.
    fn codec_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.codec_bytes > 0 {
            let reason = self.codec_reason.as_ref().map_or(String::new(), |reason| format!("; {reason}"));
            lines.push(format!(
                "  decompressed on the host: {:.2} MB in {:.2} ms of thread time{reason}",
                self.codec_bytes as f64 / 1e6,
                self.codec_time.as_secs_f64() * 1e3
            ));
        }
        if let Some(name) = self.device_codec_name.as_ref().filter(|_| self.device_codec_bytes > 0) {
            lines.push(format!(
                "  decompressed by {name}: {:.2} MB to {:.2} MB in {:.2} ms, all morsels together",
                self.device_codec_bytes as f64 / 1e6,
                self.device_codec_bytes_after as f64 / 1e6,
                self.device_codec_time.as_secs_f64() * 1e3
            ));
        }
        lines
    }
}

/// A run.
#[derive(Debug, Clone, Default)]
pub struct RunReport {
    /// Its pipelines, in order.
    pub pipelines: Vec<PipelineReport>,
    /// From the call to the rows.
    pub elapsed: Duration,
    /// The host's cores took some of the rows beside the devices.
    pub is_with_host: bool,
    /// They were to, and the devices did all of it after they had failed together.
    pub is_without_host: bool,
}

impl RunReport {
    /// The report as text.
    pub fn lines(&self) -> Vec<String> {
        self.pipelines.iter().flat_map(PipelineReport::lines).collect()
    }

    /// Whether a repetition would take as long: no program was compiled, no column admitted to a cache.
    pub fn is_warm(&self) -> bool {
        self.pipelines.iter().all(|pipeline| pipeline.compiled == 0 && pipeline.admitted == 0)
    }

    /// Time that compilers took.
    pub fn compile(&self) -> Duration {
        self.pipelines.iter().map(|pipeline| pipeline.compile).sum()
    }
}
