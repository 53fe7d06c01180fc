//! The CUDA library, loaded.
//!
//! ```text
//!   find ──► dlopen ──► k_abi_version, k_abi_report ──► entries
//!                            refused if they differ from what this crate was built with
//! ```
//!
//! It is never unloaded: kernels in flight and the driver's bookkeeping refer to it until the process ends.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pelton_device::LaunchTarget;
use pelton_device::libraries::{CUDA_LIBRARY, find_cuda_library};
use pelton_error::{Error, Result};

use crate::join_args;
use crate::mix::{GOLDEN_GAMMA, fingerprint_term, mix, permuted, random_word};
use crate::order::{KeyOrder, KeyType};
use crate::sys;

/// How work is mapped to a device. Never changes a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum Policy {
    /// What is fastest on the machines that were measured.
    #[default]
    Default = 0,
    /// Fewer threads, more loads in flight for each.
    Deep = 1,
    /// Few threads, one load in flight for each.
    Narrow = 2,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 3] = [Policy::Default, Policy::Deep, Policy::Narrow];
}

/// The CUDA library, checked and ready to launch from any thread.
#[derive(Clone)]
pub struct Library {
    path: PathBuf,
    build_text: String,
    policy: Policy,
    entries: Entries,
}

/// What work launches.
#[derive(Clone, Copy)]
pub(crate) struct Entries {
    pub(crate) fill_random: Entry<sys::FillRandomArgs>,
    pub(crate) fill_word: Entry<sys::FillWordArgs>,
    pub(crate) fill_cycle: Entry<sys::FillCycleArgs>,
    pub(crate) fingerprint: Entry<sys::FingerprintArgs>,
    pub(crate) read: Entry<sys::ReadArgs>,
    pub(crate) gather: Entry<sys::GatherArgs>,
    pub(crate) chase: Entry<sys::ChaseArgs>,
    pub(crate) copy: Entry<sys::CopyArgs>,
    pub(crate) sort: Entry<sys::SortArgs>,
    pub(crate) merge: Entry<sys::MergeArgs>,
    pub(crate) take: Entry<sys::TakeArgs>,
    pub(crate) take_bits: Entry<sys::TakeBitsArgs>,
    pub(crate) count_digits: Entry<sys::CountDigitsArgs>,
    pub(crate) count_buckets: Entry<sys::CountBucketsArgs>,
    pub(crate) partition: Entry<sys::PartitionArgs>,
    pub(crate) scan: Entry<sys::ScanArgs>,
    pub(crate) number_segments: Entry<sys::NumberSegmentsArgs>,
    pub(crate) join_build: Entry<join_args::BuildArgs>,
    pub(crate) join_probe: Entry<join_args::ProbeArgs>,
    pub(crate) join_units: Entry<join_args::UnitsArgs>,
    pub(crate) join_count: Entry<join_args::PartitionArgs>,
    pub(crate) join_scatter: Entry<join_args::PartitionArgs>,
    pub(crate) join_pairs: Entry<join_args::PairsArgs>,
    pub(crate) mark_groups: Entry<sys::MarkGroupsArgs>,
    pub(crate) group_edges: Entry<sys::GroupEdgesArgs>,
    pub(crate) segmented_scan: Entry<sys::SegmentedScanArgs>,
    pub(crate) rank: Entry<sys::RankArgs>,
    pub(crate) pick: Entry<sys::PickArgs>,
    pub(crate) frame_values: Entry<sys::FrameArgs>,
    pub(crate) key_frames: Entry<sys::KeyFramesArgs>,
    error_text: sys::ErrorText,
}

/// One entry that enqueues.
#[derive(Clone, Copy)]
pub(crate) struct Entry<A> {
    name: &'static str,
    call: sys::Operation<A>,
}

impl Library {
    /// Finds the library and loads it.
    ///
    /// # Errors
    ///
    /// `Unsupported` if there is none or it is of another build than this program, with the remedy.
    pub fn open() -> Result<Arc<Self>> {
        Self::open_at(&find_cuda_library()?)
    }

    /// Loads the library at `path`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_at(path: &Path) -> Result<Arc<Self>> {
        // SAFETY: what runs on loading is the CUDA runtime's own registration of kernels, which needs no device. That
        // the file is Pelton's is the word of whoever put it there; the checks below find honest mistakes.
        let loaded = unsafe { libloading::Library::new(path) };
        let image = Image { library: ManuallyDrop::new(loaded.map_err(|error| refuse(path, error))?), path };
        image.check()?;
        let build_text: sys::BuildText = image.symbol("k_build_text")?;
        // SAFETY: the entry takes nothing and returns a string constant.
        let build_text = unsafe { text(build_text()) };
        let entries = image.entries()?;
        Ok(Arc::new(Self { path: path.into(), build_text, policy: Policy::Default, entries }))
    }

    /// The same library, launching under `policy`.
    #[must_use]
    pub fn with_policy(&self, policy: Policy) -> Arc<Self> {
        Arc::new(Self { policy, ..self.clone() })
    }

    /// What it launches under.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The compiler and the architectures that it was built with.
    pub fn build_text(&self) -> &str {
        &self.build_text
    }

    /// Calls the entry that `choose` picks, with the arguments that `fill` makes.
    ///
    /// The arguments hold addresses of spans that the work names, in bounds: every caller in this crate sees to that.
    pub(crate) fn launch<A>(
        &self,
        choose: fn(&Entries) -> Entry<A>,
        target: LaunchTarget,
        fill: impl FnOnce(sys::Launch) -> A,
    ) -> Result<()> {
        let entry = choose(&self.entries);
        let launch = sys::Launch { multiprocessors: target.multiprocessors, policy: self.policy as u32 };
        let args = fill(launch);
        // SAFETY: the entry copies `args` before it returns. It enqueues on the stream of the launch target, whose
        // context is current. The memory that `args` names is of spans that the stream holds leases on until the
        // work is known to be complete, so it outlives the work and the host stays away from it.
        let code = unsafe { (entry.call)(&raw const args, target.stream) };
        if code == 0 { Ok(()) } else { Err(self.failure(entry.name, code)) }
    }

    fn failure(&self, name: &str, code: c_int) -> Error {
        // SAFETY: the entry takes a number and returns a string constant.
        let meaning = unsafe { text((self.entries.error_text)(code)) };
        let message = format!("{name}: CUDA error {code}: {meaning}");
        match code {
            // cudaErrorInsufficientDriver
            35 => Error::unsupported(format!(
                "{message}; the library ({}) needs a newer driver: install one, or build the library with an older \
                 CUDA toolkit by cuda/build.sh",
                self.build_text
            )),
            // cudaErrorNoKernelImageForDevice
            209 => Error::unsupported(format!(
                "{message}; the library is built for {}: build it with cuda/build.sh --arch for this device",
                self.build_text
            )),
            // Illegal addresses and instructions, assertions, failed launches: the context is of no more use.
            700 | 702 | 709 | 710 | 714..=719 => Error::device_lost(message),
            _ => Error::unsupported(message),
        }
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}), {:?} policy", self.path.display(), self.build_text, self.policy)
    }
}

/// A form of work for CUDA: launches if there is a library, else says how to get one.
pub(crate) fn cuda_form<A>(
    library: Option<&Arc<Library>>,
    choose: fn(&Entries) -> Entry<A>,
    fill: impl FnOnce(sys::Launch) -> A + Send + 'static,
) -> impl FnOnce(LaunchTarget) -> Result<()> + Send + 'static
where
    A: 'static,
{
    let library = library.cloned();
    move |target| match library {
        Some(library) => library.launch(choose, target, fill),
        None => {
            Err(Error::unsupported(format!("kernels need Pelton's CUDA library; {}", CUDA_LIBRARY.remedy)))
        }
    }
}

/// A file that has been loaded but not been checked.
struct Image<'a> {
    library: ManuallyDrop<libloading::Library>,
    path: &'a Path,
}

impl Image<'_> {
    /// A function by name, of the type that the caller gives.
    fn symbol<T: Copy>(&self, name: &'static str) -> Result<T> {
        // SAFETY: `T` is the type that the C header declares for `name`, which each caller below takes from there;
        // the version says whether the library was built from the same headers. It stays loaded for good.
        let symbol = unsafe { self.library.get::<T>(name) };
        symbol.map(|symbol| *symbol).map_err(|error| refuse(self.path, error))
    }

    fn entry<A: Copy>(&self, name: &'static str) -> Result<Entry<A>> {
        Ok(Entry { name, call: self.symbol(name)? })
    }

    fn entries(&self) -> Result<Entries> {
        Ok(Entries {
            fill_random: self.entry("k_fill_random")?,
            fill_word: self.entry("k_fill_word")?,
            fill_cycle: self.entry("k_fill_cycle")?,
            fingerprint: self.entry("k_fingerprint")?,
            read: self.entry("k_read")?,
            gather: self.entry("k_gather")?,
            chase: self.entry("k_chase")?,
            copy: self.entry("k_copy")?,
            sort: self.entry("k_sort")?,
            merge: self.entry("k_merge")?,
            take: self.entry("k_take")?,
            take_bits: self.entry("k_take_bits")?,
            count_digits: self.entry("k_count_digits")?,
            count_buckets: self.entry("k_count_buckets")?,
            partition: self.entry("k_partition")?,
            scan: self.entry("k_scan")?,
            number_segments: self.entry("k_number_segments")?,
            join_build: self.entry("k_join_build")?,
            join_probe: self.entry("k_join_probe")?,
            join_units: self.entry("k_join_units")?,
            join_count: self.entry("k_join_count")?,
            join_scatter: self.entry("k_join_scatter")?,
            join_pairs: self.entry("k_join_pairs")?,
            mark_groups: self.entry("k_mark_groups")?,
            group_edges: self.entry("k_group_edges")?,
            segmented_scan: self.entry("k_segmented_scan")?,
            rank: self.entry("k_rank")?,
            pick: self.entry("k_pick")?,
            frame_values: self.entry("k_frame_values")?,
            key_frames: self.entry("k_key_frames")?,
            error_text: self.symbol("k_error_text")?,
        })
    }

    /// Refuses a library whose interface is not the one that this crate mirrors.
    fn check(&self) -> Result<()> {
        let version: sys::AbiVersion = self.symbol("k_abi_version")?;
        // SAFETY: the entry takes nothing and returns a number, in every version.
        let version = unsafe { version() };
        if version != sys::ABI_VERSION {
            let wanted = sys::ABI_VERSION;
            return Err(refuse(self.path, format!("its interface has version {version}, not {wanted}")));
        }
        let report = self.report()?;
        if report != expected_report() {
            let both = format!("it reports {report:?}, not {:?}", expected_report());
            return Err(refuse(self.path, both));
        }
        Ok(())
    }

    fn report(&self) -> Result<sys::AbiReport> {
        let report: sys::Report = self.symbol("k_abi_report")?;
        let mut result = sys::AbiReport::default();
        // SAFETY: the entry writes as many bytes as it is told, and refuses a size that is not its own.
        let code = unsafe { report(&raw mut result, size_of::<sys::AbiReport>() as u64) };
        if code == 0 { Ok(result) } else { Err(refuse(self.path, "its report has another size")) }
    }
}

/// What a library of this crate's own sources says of itself.
fn expected_report() -> sys::AbiReport {
    sys::AbiReport {
        launch_bytes: size_of::<sys::Launch>() as u64,
        fill_random_bytes: size_of::<sys::FillRandomArgs>() as u64,
        fill_word_bytes: size_of::<sys::FillWordArgs>() as u64,
        fill_cycle_bytes: size_of::<sys::FillCycleArgs>() as u64,
        fingerprint_bytes: size_of::<sys::FingerprintArgs>() as u64,
        read_bytes: size_of::<sys::ReadArgs>() as u64,
        gather_bytes: size_of::<sys::GatherArgs>() as u64,
        chase_bytes: size_of::<sys::ChaseArgs>() as u64,
        copy_bytes: size_of::<sys::CopyArgs>() as u64,
        sort_bytes: size_of::<sys::SortArgs>() as u64,
        merge_bytes: size_of::<sys::MergeArgs>() as u64,
        take_bytes: size_of::<sys::TakeArgs>() as u64,
        take_bits_bytes: size_of::<sys::TakeBitsArgs>() as u64,
        count_digits_bytes: size_of::<sys::CountDigitsArgs>() as u64,
        count_buckets_bytes: size_of::<sys::CountBucketsArgs>() as u64,
        partition_bytes: size_of::<sys::PartitionArgs>() as u64,
        scan_bytes: size_of::<sys::ScanArgs>() as u64,
        number_segments_bytes: size_of::<sys::NumberSegmentsArgs>() as u64,
        mark_groups_bytes: size_of::<sys::MarkGroupsArgs>() as u64,
        group_edges_bytes: size_of::<sys::GroupEdgesArgs>() as u64,
        segmented_scan_bytes: size_of::<sys::SegmentedScanArgs>() as u64,
        rank_bytes: size_of::<sys::RankArgs>() as u64,
        pick_bytes: size_of::<sys::PickArgs>() as u64,
        frame_values_bytes: size_of::<sys::FrameArgs>() as u64,
        key_frames_bytes: size_of::<sys::KeyFramesArgs>() as u64,
        policy_count: Policy::ALL.len() as u64,
        golden_gamma: GOLDEN_GAMMA,
        mixed_one: mix(1),
        random_word: random_word(42, 7),
        permuted: permuted(5, 10, 42).into(),
        whole_term: fingerprint_term(7, 42, 8),
        short_term: fingerprint_term(7, 42, 3),
        single_word: KeyOrder::descending(KeyType::F32).word(0xFF80_0001) as u64,
        double_word: KeyOrder::ascending(KeyType::F64).word(0xBFF8_0000_0000_0000) as u64,
        join_build_bytes: size_of::<join_args::BuildArgs>() as u64,
        join_probe_bytes: size_of::<join_args::ProbeArgs>() as u64,
        join_units_bytes: size_of::<join_args::UnitsArgs>() as u64,
        join_partition_bytes: size_of::<join_args::PartitionArgs>() as u64,
        join_pairs_bytes: size_of::<join_args::PairsArgs>() as u64,
    }
}

fn refuse(path: &Path, why: impl fmt::Display) -> Error {
    let (path, remedy) = (path.display(), CUDA_LIBRARY.remedy);
    Error::unsupported(format!("{path}: not the CUDA library of this build: {why}; {remedy}"))
}

/// # Safety
///
/// `pointer` is a string that ends with a zero byte and stays.
unsafe fn text(pointer: *const c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}
