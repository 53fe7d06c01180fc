//! Places in order, variables that decide alone, refusals that say what to do.

use super::*;

/// Opens nothing, and says of files that it was asked for them.
fn closed(path: &Path) -> Result<()> {
    Err(Error::unsupported(format!("{} was refused", path.display())))
}

fn refusal(library: &SharedLibrary, named: &str) -> String {
    let refusal = open_from(library, Some(named.into()), &[], closed).unwrap_err();
    refusal.into_error(|refusals| format!("nowhere{refusals}")).to_string()
}

#[test]
fn a_variable_decides_alone() {
    for library in [NVRTC, NVCOMP] {
        let (variable, file) = (library.variable.unwrap(), library.files[0]);
        let error = refusal(&library, &format!("/nowhere/{file}"));
        assert!(
            error.contains(variable) && error.contains(&format!("/nowhere/{file} was refused")),
            "{error}"
        );
        assert!(error.ends_with(library.remedy), "{error}");
        let error = refusal(&library, file);
        assert!(error.contains("no full path"), "a relative path would be of the working directory: {error}");
        assert!(refusal(&library, "").contains("nowhere"), "an empty variable is none");
    }
}

#[test]
fn files_of_folders_come_before_the_loader_and_the_preferred_name_first() {
    let root = std::env::temp_dir().join(format!("pelton-libraries-{}", std::process::id()));
    let (first, second) = (root.join("first"), root.join("second"));
    for (folder, file) in
        [(&first, "libnvrtc.so.12"), (&second, "libnvrtc.so.12"), (&second, "libnvrtc.so.13")]
    {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join(file), "").unwrap();
    }
    let asked = std::cell::RefCell::new(Vec::new());
    let open = |path: &Path| {
        asked.borrow_mut().push(path.to_path_buf());
        closed(path)
    };
    let refusal = open_from(&NVRTC, None, &[first.clone(), second.clone()], open).unwrap_err();
    std::fs::remove_dir_all(&root).unwrap();
    let by_loader = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"].map(PathBuf::from);
    let files = [first.join("libnvrtc.so.12"), second.join("libnvrtc.so.13"), second.join("libnvrtc.so.12")];
    assert_eq!(*asked.borrow(), [files, by_loader].concat());
    let error = refusal.into_error(|refusals| refusals.to_string()).to_string();
    assert!(error.contains("second/libnvrtc.so.13 was refused"), "{error}");
}

#[test]
fn nvrtc_is_looked_for_beside_the_executable_where_the_program_says_and_in_the_toolkit() {
    let named = ["/site/nvidia/cu13/lib".into(), "relative/lib".into()];
    let places = nvrtc_folders(Some("/opt/cuda".into()), Some(Path::new("/usr/bin/pelton")), &named);
    for place in
        ["/usr/bin", "/site/nvidia/cu13/lib", "/opt/cuda/lib64", "/opt/cuda/lib", "/usr/local/cuda/lib64"]
    {
        assert!(places.contains(&PathBuf::from(place)), "{place} in {places:?}");
    }
    assert!(places.iter().all(|place| place.is_absolute()), "{places:?}");
    assert!(!nvrtc_folders(Some("cuda".into()), None, &[]).contains(&PathBuf::from("cuda/lib")));
}

#[test]
fn wheels_are_found_above_the_executable_and_those_of_nvcomp_in_the_active_environment() {
    let root = std::env::temp_dir().join(format!("pelton-wheels-{}", std::process::id()));
    let site = |at: &str| root.join(at).join("lib/python3.12/site-packages");
    let (made, active) = (site("build/cuda-venv"), site("active"));
    let folders = [made.join("nvidia/libnvcomp/lib64"), active.join("nvidia/libnvcomp/lib64")];
    folders.iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
    let executable = root.join("target/release/pelton");
    let nvcomp = nvcomp_folders(Some(root.join("active").into()), Some(&executable));
    let nvrtc = nvrtc_folders(None, Some(&executable), &[]);
    std::fs::remove_dir_all(&root).unwrap();
    let [made_nvcomp, active_nvcomp] = folders;
    assert_eq!(nvcomp, [root.join("target/release"), made_nvcomp, active_nvcomp]);
    assert!(nvrtc.contains(&made.join("nvidia/cu13/lib")), "{nvrtc:?}");
    assert!(!nvrtc.contains(&active.join("nvidia/cu13/lib")), "{nvrtc:?}");
}

/// Of an executable, and of a Python package.
fn cuda_library_folders() -> [&'static Path; 2] {
    [Path::new("/nowhere/bin"), Path::new("/elsewhere/site-packages/pelton")]
}

#[test]
fn the_variable_of_the_cuda_library_decides_alone() {
    let this = std::env::current_exe().unwrap();
    assert_eq!(find_cuda_library_from(Some(this.clone().into()), None).unwrap(), this);
    let error =
        find_cuda_library_from(Some("/nowhere/lib.so".into()), this.parent()).unwrap_err().to_string();
    assert!(
        error.contains("PELTON_CUDA_LIBRARY names /nowhere/lib.so") && error.contains("make cuda"),
        "{error}"
    );
}

#[test]
fn a_refusal_of_the_cuda_library_names_every_place_and_the_remedy() {
    let error = find_cuda_library_from(None, cuda_library_folders()).unwrap_err().to_string();
    for part in [
        "/nowhere/bin/libpelton_cuda.so",
        "/nowhere/lib/libpelton_cuda.so",
        "/nowhere/build/cuda/libpelton_cuda.so",
        "/elsewhere/site-packages/pelton/libpelton_cuda.so",
        "make cuda",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn an_empty_variable_of_the_cuda_library_is_none() {
    let error = find_cuda_library_from(Some(OsString::new()), cuda_library_folders()).unwrap_err();
    assert!(error.to_string().starts_with("no libpelton_cuda.so"), "{error}");
}
