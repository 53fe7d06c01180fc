//! A kernel loaded at run time, where there is a CUDA device.

use pelton_device::cuda::{self, CudaOptions, Grid, Module};
use pelton_device::{DeviceId, MemoryKind, OnFull, Place, Work};

/// `fill(u32 *p, u32 n, u32 v)`: n words become v.
const PTX: &str = "
.version 6.4
.target sm_75
.address_size 64
.visible .entry fill(.param .u64 p, .param .u32 n, .param .u32 v)
{
    .reg .pred %outside;
    .reg .b32 %r<6>;
    .reg .b64 %a<4>;
    ld.param.u64 %a1, [p];
    ld.param.u32 %r1, [n];
    ld.param.u32 %r5, [v];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %outside, %r2, %r1;
    @%outside bra done;
    cvta.to.global.u64 %a1, %a1;
    mul.wide.u32 %a2, %r2, 4;
    add.s64 %a3, %a1, %a2;
    st.global.u32 [%a3], %r5;
done:
    ret;
}
\0";

fn load(device: DeviceId, text: &str) -> pelton_error::Result<Module> {
    assert!(text.ends_with('\0'));
    // SAFETY: text that ends with a zero byte is whole.
    unsafe { Module::load(device, text.as_bytes()) }
}

#[test]
fn a_kernel_of_a_module_runs_on_every_device() {
    let machine = match cuda::open(&CudaOptions::default()) {
        Ok(machine) => machine,
        Err(error) => {
            println!("SKIPPED: {error}");
            assert!(load(DeviceId(0), PTX).is_err(), "no driver, no module");
            return;
        }
    };
    for device in machine.info().devices.iter().map(|device| device.id) {
        let count: u32 = 10_007;
        let words = machine.allocate(MemoryKind::Device(device), count as usize * 4, OnFull::Refuse).unwrap();
        let back = machine.allocate(MemoryKind::PINNED, words.len(), OnFull::Refuse).unwrap();
        let function = load(device, PTX).unwrap().function("fill").unwrap();
        let address = words.address();
        let work = Work::new("fill", vec![], vec![words.span()]).with_cuda(move |target| {
            let (mut address, mut count, mut value) = (address, count, 0xC0FF_EE00_u32);
            let mut arguments = [(&raw mut address).cast(), (&raw mut count).cast(), (&raw mut value).cast()];
            let grid = Grid { blocks: count.div_ceil(128), threads: 128, shared_bytes: 0 };
            // SAFETY: the kernel takes a pointer and two words; the work's span keeps the memory alive.
            unsafe { function.launch(target, grid, &mut arguments) }
        });
        let stream = machine.stream(Place::Device(device)).unwrap();
        stream.run(work).unwrap();
        stream.copy(&words.span(), &back.span()).unwrap();
        stream.wait_blocking().unwrap();
        back.with_bytes(|bytes| assert!(bytes.chunks(4).all(|word| word == 0xC0FF_EE00_u32.to_le_bytes())))
            .unwrap();
    }
    let refusal = load(DeviceId(0), "not an image\0").unwrap_err().to_string();
    assert!(refusal.contains("device 0: loading a kernel image"), "{refusal}");
    let module = load(DeviceId(0), PTX).unwrap();
    assert!(module.function("empty").unwrap_err().to_string().contains("'empty'"));
    assert!(load(DeviceId(999), PTX).is_err());
}
