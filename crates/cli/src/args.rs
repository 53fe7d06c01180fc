//! The command line. Help texts are the reference: what a flag does, its unit and its default.

mod parse;
mod session;
mod spill;
mod text;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use pelton_limits::MemoryLimit;

pub(crate) use parse::parse;
pub use pelton_limits::parse_size;
use session::parse_threads;
pub(crate) use session::{FiltersArg, IoModeArg, OverflowChecksArg, SessionArgs};
pub(crate) use spill::SpillArgs;
pub(crate) use text::TextArgs;

/// Analytical SQL on compressed tables, on NVIDIA GPUs and on the CPU.
#[derive(Debug, Parser)]
#[command(name = "pelton", version, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Without a command the shell opens.
    #[command(flatten)]
    pub(crate) shell: ShellArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Open the shell, as `pelton` alone does: SQL and dot commands, typed or piped in.
    Shell(ShellArgs),
    /// Run SQL over Pelton tables, and over Parquet and CSV files by path or URL.
    Sql(SqlArgs),
    /// Load Parquet, CSV, JSON or Arrow files into a table.
    Load(LoadArgs),
    /// Serve queries to other programs: Arrow Flight SQL.
    Serve(crate::serve::ServeArgs),
    /// Write a benchmark data set as files.
    Generate(GenerateArgs),
    /// List the tables of a warehouse.
    Tables(WarehouseArgs),
    /// Delete a table.
    Drop(DropArgs),
    /// Show how each column of a table is stored, and what else was tried.
    Inspect(InspectArgs),
    /// Show what this machine is made of and how fast its links are.
    Topology(TopologyArgs),
    /// Say what was found, what is missing, what that would give, and the command that installs it.
    Doctor(DoctorArgs),
    /// Run an experiment and print what it measured.
    Bench(BenchArgs),
    /// Compile kernels for the process that starts this, which speaks to it in bytes.
    #[command(hide = true)]
    CompileKernels,
}

/// Where tables are.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct WarehouseArgs {
    /// Directory that holds the tables.
    #[arg(long, value_name = "DIR", env = "PELTON_WAREHOUSE", default_value = "warehouse")]
    pub(crate) warehouse: PathBuf,
}

/// What the shell starts with.
#[derive(Debug, ClapArgs)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    pub(crate) warehouse: WarehouseArgs,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SqlArgs {
    #[command(flatten)]
    pub(crate) warehouse: WarehouseArgs,
    /// The query. Tables by name; files, directories and patterns as 'path/file.parquet', 's3://bucket/year=*/*.parquet'
    /// or 'https://host/file.parquet'.
    /// Without a query, statements are read from standard input.
    pub(crate) query: Option<String>,
    /// Read the statements from a file (- for standard input) instead; separated by semicolons, run in order.
    #[arg(long, value_name = "FILE", conflicts_with = "query")]
    pub(crate) file: Option<PathBuf>,
    /// Run the Substrait plan in a file (protobuf or JSON) instead, as other systems write them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["query", "file"])]
    pub(crate) substrait: Option<PathBuf>,
    /// How rows are written [default: as the ending of --output says, else table].
    #[arg(long, value_enum)]
    pub(crate) format: Option<Format>,
    /// Write rows to a file instead of standard output: .csv .tsv .json .jsonl .ndjson .md .txt, each also .gz and .zst,
    /// .parquet .arrow .feather. The file appears only when it is complete.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Rows that a table shows on a terminal before it is cut; 0 shows all.
    #[arg(long, default_value_t = 200)]
    pub(crate) max_rows: usize,
    /// Print the time and what was read and skipped, to standard error.
    #[arg(long)]
    pub(crate) stats: bool,
    /// Write what the query did when, and what that cost, to this file: a page (.html) or data (.json); of several
    /// statements the last.
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    #[command(flatten)]
    pub(crate) text: TextArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A drawn table.
    Table,
    /// Comma-separated values with a header line.
    Csv,
    /// Tab-separated values with a header line.
    Tsv,
    /// One JSON object a line.
    Json,
    /// A Markdown table.
    Markdown,
    /// A line for each value.
    Line,
    /// A Parquet file (Snappy).
    Parquet,
    /// An Arrow IPC file, also called Feather.
    Arrow,
    /// Nothing: all rows are made and dropped, to see with --stats how long that takes.
    None,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pub(crate) warehouse: WarehouseArgs,
    /// Name of the table.
    #[arg(long)]
    pub(crate) table: String,
    /// Files, directories or globs, also s3://bucket/… and https://host/file; the format follows from the ending (.parquet
    /// .csv .tsv .tbl .json .jsonl .ndjson .arrow .feather .ipc, text also .gz and .zst). Folders such as year=2024 are
    /// columns.
    #[arg(required = true, value_name = "FILES")]
    pub(crate) files: Vec<String>,
    /// Add rows to the table if it exists.
    #[arg(long, conflicts_with = "replace")]
    pub(crate) append: bool,
    /// Replace the table if it exists.
    #[arg(long)]
    pub(crate) replace: bool,
    /// Sort rows before storing them, so that more can be skipped: `auto`, `auto:a,b,c` (ascending number of
    /// distinct values) or `a,b,c` (this order). Attributes of declared dimensions are named `dimension.column`.
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) cluster_by: Option<String>,
    /// Declare a dimension, `fact_column=dimension.key`, so that filters on it skip row groups of this table. Repeatable;
    /// the dimension must be loaded first.
    #[arg(long = "star", value_name = "LINK")]
    pub(crate) star: Vec<String>,
    /// Format of the files, where the ending does not say.
    #[arg(long, value_enum)]
    pub(crate) format: Option<InputFormatArg>,
    /// Which way the bytes will come to those who read them, which decides what encodings are chosen [default: auto].
    #[arg(long = "for", value_name = "WHAT", value_enum, conflicts_with_all = ["objective", "storage_rate", "force_codec", "force_encoding"])]
    pub(crate) purpose: Option<PurposeArg>,
    /// What the choice of encodings aims at, more exactly than `--for` says.
    #[arg(long, value_enum, hide_short_help = true)]
    pub(crate) objective: Option<ObjectiveArg>,
    /// Storage rate that `--objective fastest` assumes, per second [default: 1GB].
    #[arg(long, value_name = "SIZE", value_parser = parse_size, hide_short_help = true)]
    pub(crate) storage_rate: Option<u64>,
    /// Share of the input that encodings are tried on.
    #[arg(long, value_name = "RATIO", default_value_t = 0.1)]
    pub(crate) sample: f64,
    /// Rows of a row group, the unit of skipping; several, comma-separated, are tried on the sample.
    #[arg(long, value_name = "ROWS", value_delimiter = ',', default_value = "131072")]
    pub(crate) row_group_rows: Vec<u32>,
    /// Rows of a page inside a chunk; a multiple of 1024.
    #[arg(long, value_name = "ROWS", default_value_t = 16384, hide_short_help = true)]
    pub(crate) page_rows: u32,
    /// Store every column under this codec instead of choosing.
    #[arg(long, value_name = "CODEC", hide_short_help = true)]
    pub(crate) force_codec: Option<String>,
    /// Store every column that can have it in this encoding, such as `plain` or `fsst+plain`, instead of choosing.
    #[arg(long, value_name = "ENCODING", hide_short_help = true)]
    pub(crate) force_encoding: Option<String>,
    /// Memory for staging, sorting and encoding, beyond which rows spill: a size, a share of what there is, or none.
    #[arg(long, value_name = "SIZE|PERCENT|none", default_value = "80%")]
    pub(crate) memory_limit: MemoryLimit,
    #[command(flatten)]
    pub(crate) spill: SpillArgs,
    /// Encoding threads [default: all cores].
    #[arg(long, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// Seed of the random sample.
    #[arg(long, default_value_t = 42, hide_short_help = true)]
    pub(crate) seed: u64,
    /// No progress bar and no summary.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) text: TextArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InputFormatArg {
    Parquet,
    Csv,
    Json,
    Arrow,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PurposeArg {
    /// From a local disk, to the CPU and to a GPU: size is weighed against the time to decode.
    Auto,
    /// To a GPU: the smallest of what its kernels decode while they read, without codecs.
    Gpu,
    /// From memory to the CPU: the fastest to decode.
    Cpu,
    /// Fewest bytes.
    Archive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectiveArg {
    /// The slower of reading and decoding, minimised.
    Fastest,
    /// Fewest bytes.
    Smallest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DatasetArg {
    /// Star Schema Benchmark; scale 1 is 6 million lineorders.
    Ssb,
    /// TPC-H; scale 1 is 6 million lineitems.
    Tpch,
    /// Taxi trips; scale 1 is 10 million trips over five years.
    Taxi,
    /// Page views with the columns and queries of ClickBench, not its rows; scale 1 is 100 million.
    Hits,
}

/// How much of a data set.
#[derive(Debug, Clone, Copy, ClapArgs)]
pub(crate) struct SizeArgs {
    /// Size of the data set [default: 1, or of hits a million rows].
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) scale: Option<f64>,
    /// Size of hits in rows.
    #[arg(long, value_name = "N", conflicts_with = "scale")]
    pub(crate) rows: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct GenerateArgs {
    #[arg(value_enum)]
    pub(crate) dataset: DatasetArg,
    #[command(flatten)]
    pub(crate) size: SizeArgs,
    /// Directory to write to, one folder a table.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Only these tables, comma-separated.
    #[arg(long, value_delimiter = ',')]
    pub(crate) tables: Vec<String>,
    /// Compression of the Parquet files.
    #[arg(long, value_enum, default_value_t = CompressionArg::Snappy)]
    pub(crate) compression: CompressionArg,
    /// The same seed gives the same rows.
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
    /// Generating threads [default: all cores].
    #[arg(long, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// No progress bar.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionArg {
    None,
    Snappy,
    Zstd,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DropArgs {
    #[command(flatten)]
    pub(crate) warehouse: WarehouseArgs,
    /// Name of the table.
    pub(crate) table: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) warehouse: WarehouseArgs,
    /// Name of the table.
    pub(crate) table: String,
    /// Runners-up to show for each column.
    #[arg(long, default_value_t = 3)]
    pub(crate) runners_up: usize,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) experiment: Experiment,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// A data set's queries on Pelton tables, and on Parquet through plain DataFusion beside them.
    Queries(QueriesArgs),
    /// Bytes of Pelton tables beside Parquet with Snappy and with Zstd.
    Storage(StorageArgs),
    /// How good a choice of encodings from a sample is, beside the choice from the whole column.
    Sampling(SamplingArgs),
    /// How a device comes to host memory, by every transfer method, and what its loads cost (Lutz et al. 2020).
    Transfer(TransferArgs),
    /// How fast bytes travel between host and devices, and between devices (Maltenberger et al. 2022).
    P2p(P2pArgs),
    /// Sort keys of the host's memory on devices, over several, by chunks, and on the CPU (Maltenberger et al. 2022).
    Sort(SortArgs),
    /// Join rows of the host's or of a device's memory on a device, beyond its memory, and on the CPU (Lutz et al. 2020).
    Join(JoinArgs),
    /// Compressed scans, skipping and a device in the data path, from throttled storage (Boeschen et al. 2024).
    Golap(GolapArgs),
    /// Operations that need memory, each in a process of its own under memory limits; DuckDB beside them.
    Limits(LimitsArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TopologyArgs {
    /// A machine of the literature instead of this one: ac922, delta, dgx-a100, dgx1, edr-cluster, h200-x2,
    /// power9-v100, xeon-v100.
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    pub(crate) preset: Option<String>,
    /// A machine from a JSON file instead, as `--json` writes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Measure every link, and keep the result for this machine. A preset or file is measured in the simulator.
    #[arg(long)]
    pub(crate) measure: bool,
    /// Bytes of the largest copies measured.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size, hide_short_help = true)]
    pub(crate) bytes: u64,
    /// Measure reads from the storage under this directory as well; a file of `--bytes` is made there for the time.
    #[arg(long, value_name = "DIR")]
    pub(crate) storage: Option<PathBuf>,
    /// Print JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
    /// Also draw the machine, with the bandwidth of each link, to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) warehouse: WarehouseArgs,
    /// Print JSON instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show what a GPU would need also where there is none.
    #[arg(long)]
    pub(crate) gpu: bool,
}

/// What an experiment on the machine layer runs on and where its results go.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct LayerArgs {
    /// Share of the paper's data to move; buffers also stay within a quarter of a device's memory.
    #[arg(long)]
    pub(crate) scale: Option<f64>,
    /// Counted repetitions; mean and standard error are shown.
    #[arg(long, default_value_t = 10)]
    pub(crate) repetitions: u32,
    /// Limit on each device's memory [default: what is free less 1 GiB; 256MiB for logical devices].
    #[arg(long, alias = "device-memory", value_name = "SIZE", value_parser = parse_size)]
    pub(crate) device_memory_limit: Option<u64>,
    /// Also write the report to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also draw its figures into this directory, as SVG.
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TransferArgs {
    /// Where: auto (GPUs if there are any, else logical devices), cuda, host (logical devices), or a preset.
    #[arg(long, value_name = "MACHINE", default_value = "auto")]
    pub(crate) machine: String,
    #[command(flatten)]
    pub(crate) layer: LayerArgs,
    /// Bytes of a chunk.
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_size)]
    pub(crate) chunk: u64,
    /// Chunks in flight.
    #[arg(long, default_value_t = 3)]
    pub(crate) depth: usize,
    /// Threads that copy to pinned memory [default: one a core, at most 8].
    #[arg(long, value_parser = parse_threads)]
    pub(crate) copy_threads: Option<usize>,
    /// Also read a file, made in this directory for the time, into device memory.
    #[arg(long, value_name = "DIR")]
    pub(crate) storage: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct P2pArgs {
    /// Where, comma-separated: auto, cuda, host or presets [default: the paper's machines, simulated, and this one].
    #[arg(long, value_name = "MACHINES", value_delimiter = ',')]
    pub(crate) machine: Vec<String>,
    #[command(flatten)]
    pub(crate) layer: LayerArgs,
    /// Cut each copy into chunks of this size [default: one copy].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) chunk: Option<u64>,
    /// Do not compare what arrived with what was sent.
    #[arg(long, hide_short_help = true)]
    pub(crate) no_check: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct JoinArgs {
    /// Where: auto (a GPU if there is one, else a logical device), cuda, or host (a logical device).
    #[arg(long, value_name = "MACHINE", default_value = "auto")]
    pub(crate) machine: String,
    /// How, comma-separated: auto, gpu, radix, hybrid, nopa, pro, or all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "auto")]
    pub(crate) algorithm: Vec<String>,
    /// Build rows, with unique keys.
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 20)]
    pub(crate) build: u64,
    /// Probe rows.
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 22)]
    pub(crate) probe: u64,
    /// Bytes of a key, and of the value beside it: 4 or 8.
    #[arg(long, value_name = "BYTES", default_value_t = 8)]
    pub(crate) width: usize,
    /// Exponent of Zipf's law that probe keys are drawn by; 0 is uniform.
    #[arg(long, value_name = "EXPONENT", default_value_t = 0.0)]
    pub(crate) zipf: f64,
    /// Share of probe rows that have a match.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub(crate) selectivity: f64,
    /// Where both sides lie: pinned (memory of the host) or device.
    #[arg(long, value_name = "TIER", default_value = "pinned", value_parser = ["pinned", "device"])]
    pub(crate) tier: String,
    /// Let gpu know that build keys are dense, so that its table is an array by key.
    #[arg(long)]
    pub(crate) dense: bool,
    /// Write the values of both sides of each match, where the sides lie, and not only count and sum.
    #[arg(long)]
    pub(crate) pairs: bool,
    /// The device.
    #[arg(long, value_name = "ID", default_value_t = 0)]
    pub(crate) device: u32,
    /// Limit on what a join takes of the device's memory, besides sides that lie there [default: what is free].
    #[arg(long, alias = "device-memory", value_name = "SIZE", value_parser = parse_size)]
    pub(crate) device_memory_limit: Option<u64>,
    /// Threads of the CPU [default: one a core].
    #[arg(long, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// Counted repetitions, after one that is not.
    #[arg(long, default_value_t = 3)]
    pub(crate) repetitions: u32,
    /// Instead, the paper's own experiments on its machines, simulated, beside the numbers of its text
    /// (Lutz et al. 2020, section 7).
    #[arg(long)]
    pub(crate) paper: bool,
    /// Rows held of the probe side of each simulated join, whatever number they stand for.
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 21, requires = "paper")]
    pub(crate) held: usize,
    /// Also draw the paper's figures into this folder, as SVG.
    #[arg(long, value_name = "DIR", requires = "paper")]
    pub(crate) plots: Option<PathBuf>,
    /// Also write the report to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SortArgs {
    /// Where: auto (GPUs if there are any, else logical devices), cuda, or host (logical devices).
    #[arg(long, value_name = "MACHINE", default_value = "auto")]
    pub(crate) machine: String,
    /// How, comma-separated: auto, cpu, paradis, gpu, p2p, rp, het-2n, het-3n, range, or all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "auto")]
    pub(crate) algorithm: Vec<String>,
    /// Keys.
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 24)]
    pub(crate) keys: usize,
    /// Their type: u32, i32, u64, i64, f32, f64 or i128.
    #[arg(long = "type", value_name = "TYPE", default_value = "u32")]
    pub(crate) key: String,
    /// How they are distributed: uniform, normal, sorted, reverse, nearly-sorted, zipf or all-equal.
    #[arg(long, value_name = "NAME", default_value = "uniform")]
    pub(crate) distribution: String,
    /// Bytes that travel with each key: 0, 4 or 8.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) payload: usize,
    /// Devices, in order [default: all].
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) devices: Option<Vec<u32>>,
    /// Limit on what a sort takes of each device's memory [default: what is free less 1 GiB].
    #[arg(long, alias = "device-memory", value_name = "SIZE", value_parser = parse_size)]
    pub(crate) device_memory_limit: Option<u64>,
    /// Merge groups of chunks on the CPU while devices go on.
    #[arg(long)]
    pub(crate) eager: bool,
    /// Let whole chunks change places mirrored, as the paper does, in P2P.
    #[arg(long)]
    pub(crate) mirrored: bool,
    /// Threads of the CPU [default: one a core].
    #[arg(long, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// Counted repetitions, after one that is not.
    #[arg(long, default_value_t = 3)]
    pub(crate) repetitions: u32,
    /// Instead, the paper's own experiments on its machines, simulated, beside the numbers of its text
    /// (Maltenberger et al. 2022, section 6).
    #[arg(long)]
    pub(crate) paper: bool,
    /// Keys held for each simulated sort, whatever number they stand for.
    #[arg(long, value_name = "COUNT", default_value_t = 1 << 20, requires = "paper")]
    pub(crate) held: usize,
    /// Also draw the paper's figures into this folder, as SVG.
    #[arg(long, value_name = "DIR", requires = "paper")]
    pub(crate) plots: Option<PathBuf>,
    /// Also write the report to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct WorkloadArgs {
    #[arg(value_enum)]
    pub(crate) dataset: DatasetArg,
    #[command(flatten)]
    pub(crate) size: SizeArgs,
    /// Where files and tables are made, and found again by the next run.
    #[arg(long, value_name = "DIR", default_value = "build/bench")]
    pub(crate) dir: PathBuf,
    /// Also write the results to this file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct QueriesArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Counted runs of each query; the median is shown.
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: usize,
    /// Drop the data files from the page cache before every run.
    #[arg(long)]
    pub(crate) cold: bool,
    /// Only queries whose name starts with one of these, comma-separated.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Sort order of the fact table, as `pelton load --cluster-by`; `none` keeps the generated order.
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) cluster_by: Option<String>,
    /// Skip the runs on Parquet.
    #[arg(long)]
    pub(crate) pelton_only: bool,
    /// With --device gpu: the memory tier of all tables' columns while queries run. One session then runs them all.
    #[arg(long, alias = "home", value_enum)]
    pub(crate) data_tier: Option<DataTierArg>,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}

/// A memory tier for columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DataTierArg {
    /// In the tables' files.
    Disk,
    /// In pinned host memory.
    Pinned,
    /// In device memory.
    Device,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StorageArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SamplingArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Seed of the random samples.
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct GolapArgs {
    /// Only these experiments of the paper, comma-separated: e1, e2, e3, e4, e5, e6, e7, e8, e10.
    #[arg(long, value_name = "EXPERIMENTS", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Size of the data sets [default: 1, quick: 0.02].
    #[arg(long)]
    pub(crate) scale: Option<f64>,
    /// Where files and tables are made, and found again by the next run.
    #[arg(long, value_name = "DIR", default_value = "build/bench")]
    pub(crate) dir: PathBuf,
    /// Where queries run: auto (a GPU if there is one, else the CPU), cpu, gpu, gpu:<number>, or host (kernels on the
    /// host's cores, in place of a GPU).
    #[arg(long, default_value = "auto")]
    pub(crate) device: String,
    /// Rate that reads of tables are held to, per second.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "2GB")]
    pub(crate) storage_rate: u64,
    /// Few queries and sizes, small data: seconds in all.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Counted repetitions; mean and standard error are shown [default: 5, quick: 2].
    #[arg(long)]
    pub(crate) repetitions: Option<u32>,
    /// Threads of the CPU engine and of loading [default: all cores].
    #[arg(long, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// DuckDB's times to show beside ours, as `tests/perf/peers.py --json` writes them.
    #[arg(long, value_name = "FILE")]
    pub(crate) duckdb_json: Option<PathBuf>,
    /// Also write the report to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also draw its figures into this directory, as SVG.
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LimitsArgs {
    /// Memory limits to run under, comma-separated.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = parse_size,
        default_value = "20MB,50MB,100MB,200MB,1GB")]
    pub(crate) limits: Vec<u64>,
    /// Rows of the large tables.
    #[arg(long, default_value_t = 5_000_000)]
    pub(crate) rows: u64,
    /// Only operations whose name starts with one of these, comma-separated.
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Runs of each operation under each limit; all have to end alike.
    #[arg(long, default_value_t = 1)]
    pub(crate) runs: u32,
    /// Threads of each engine [default: all cores].
    #[arg(long, value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
    /// Where tables are made, and found again by the next run.
    #[arg(long, value_name = "DIR", default_value = "build/bench")]
    pub(crate) dir: PathBuf,
    /// Python with the packages duckdb and pyarrow; where it has none, or for none, Pelton runs alone.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub(crate) python: String,
    /// Seconds after which a run is given up.
    #[arg(long, default_value_t = 300)]
    pub(crate) time_limit: u64,
    /// Also write the results to this file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Run this operation here, and print what came of it.
    #[arg(long, value_name = "OPERATION", hide = true)]
    pub(crate) child: Option<String>,
    /// Of the operation that runs here.
    #[arg(long, value_name = "SIZE", default_value = "none", hide = true)]
    pub(crate) memory_limit: MemoryLimit,
    #[command(flatten)]
    pub(crate) spill: SpillArgs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use pelton_engine::DeviceChoice;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_query_may_name_its_device() {
        let device = |words: &[&str]| {
            let line = ["pelton", "sql", "SELECT 1"].iter().chain(words);
            Args::try_parse_from(line).map(|args| match args.command {
                Some(Command::Sql(args)) => args.session.device,
                _ => unreachable!("sql was asked for"),
            })
        };
        assert_eq!(device(&[]).unwrap(), DeviceChoice::Auto);
        assert_eq!(device(&["--device", "gpu:1"]).unwrap(), DeviceChoice::Gpu(Some(1)));
        assert!(device(&["--device", "abacus"]).unwrap_err().to_string().contains("abacus"));
    }

    #[test]
    fn the_shell_needs_no_name_but_has_one() {
        let shell = |words: &[&str]| {
            let args = Args::try_parse_from([&["pelton"], words].concat()).unwrap();
            match args.command {
                None => args.shell,
                Some(Command::Shell(shell)) => shell,
                Some(other) => unreachable!("{other:?}"),
            }
        };
        assert_eq!(shell(&[]).session.device, DeviceChoice::Auto);
        for words in
            [&["--warehouse", "w", "--device", "cpu"][..], &["shell", "--warehouse", "w", "--device", "cpu"]]
        {
            let args = shell(words);
            assert_eq!((args.warehouse.warehouse, args.session.device), ("w".into(), DeviceChoice::Cpu));
        }
        assert!(Args::try_parse_from(["pelton", "--device", "cpu", "tables"]).is_err());
    }
}
