//! The library and this crate are of one mind, as far as that shows without a GPU; and errors that say what to do.

use std::path::Path;

use pelton_device::libraries::CUDA_LIBRARY_VARIABLE;
use pelton_device::{DeviceId, LaunchTarget, MemoryKind, OnFull, host};
use pelton_error::ErrorKind;
use pelton_kernels::{Library, fill_random};

/// The library where it is looked for, or where `make cuda` puts it.
fn built() -> Option<std::sync::Arc<Library>> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../build/cuda/libpelton_cuda.so");
    if std::env::var_os(CUDA_LIBRARY_VARIABLE).is_none() && default.is_file() {
        return Some(Library::open_at(&default).unwrap());
    }
    match Library::open() {
        Ok(library) => Some(library),
        Err(error) => {
            assert!(
                std::env::var_os(CUDA_LIBRARY_VARIABLE).is_none(),
                "the library that is named opens: {error}"
            );
            eprintln!("library: SKIPPED: {error}");
            None
        }
    }
}

#[test]
fn the_library_has_the_sizes_and_constants_of_this_crate() {
    let Some(library) = built() else { return };
    assert!(library.build_text().starts_with("nvcc "), "{library:?}");
    assert!(library.build_text().contains("sm_"), "{library:?}");
}

#[test]
fn a_file_that_is_no_library_is_refused_by_name() {
    let this = std::env::current_exe().unwrap();
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    for path in [manifest.as_path(), this.as_path(), Path::new("/nowhere/lib.so")] {
        let error = Library::open_at(path).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Unsupported);
        let message = error.to_string();
        assert!(message.contains(&path.display().to_string()) && message.contains("make cuda"), "{message}");
    }
}

#[test]
fn without_the_library_a_launch_says_how_to_get_it() {
    let machine = host::open(&host::HostOptions::default());
    let buffer = machine.allocate(MemoryKind::Device(DeviceId(0)), 100, OnFull::Refuse).unwrap();
    let form = fill_random(None, buffer.span(), 1).cuda.expect("every kernel has a form for CUDA");
    let target = LaunchTarget { device: DeviceId(0), stream: std::ptr::null_mut(), multiprocessors: 1 };
    let error = form(target).unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unsupported);
    assert!(error.to_string().contains("make cuda"), "{error}");
}
