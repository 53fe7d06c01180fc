//! `.device` and `.pin`: where queries run.

use pelton_engine::DeviceChoice;

/// `choice` as the command line takes it.
pub(super) fn name(choice: DeviceChoice) -> String {
    match choice {
        DeviceChoice::Auto => "auto".to_owned(),
        DeviceChoice::Cpu => "cpu".to_owned(),
        DeviceChoice::Gpu(None) => "gpu".to_owned(),
        DeviceChoice::Gpu(Some(number)) => format!("gpu:{number}"),
        DeviceChoice::GpuAndHost(number) => format!("{}+host", name(DeviceChoice::Gpu(number))),
        DeviceChoice::Host => "host".to_owned(),
        DeviceChoice::AutoHost => "auto-host".to_owned(),
    }
}

/// What `choice` means, in a sentence's end.
pub(super) fn meaning(choice: DeviceChoice) -> &'static str {
    match choice {
        DeviceChoice::Auto => {
            "on the first GPU, or without one in compiled kernels, where that turned out to be faster, else on the CPU"
        }
        DeviceChoice::Cpu => "on the CPU",
        DeviceChoice::Gpu(_) => "on the GPU, whatever can run there",
        DeviceChoice::GpuAndHost(_) => "on the GPU and the host's cores together, whatever can run there",
        DeviceChoice::Host => "as kernels compiled for the host's cores",
        DeviceChoice::AutoHost => "as auto, with kernels compiled for the host's cores",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for text in ["auto", "cpu", "gpu", "gpu:3", "gpu+host", "gpu:3+host", "host", "auto-host"] {
            assert_eq!(name(text.parse().unwrap()), text);
        }
    }
}
