//! Chunks compressed, moved and decompressed on a GPU, or on a logical device where there is none.

use std::sync::OnceLock;

use pelton_chunk::{
    ChunkView, Column, Encoding, PhysicalType, Validity, Values, decompress_chunk, decompressed_bytes,
    encode_chunk,
};
use pelton_device::cuda::{self, CudaOptions};
use pelton_device::host::HostOptions;
use pelton_device::{MemoryKind, OnFull, Place, Span, host};
use pelton_fabric::Rates;

use super::*;

const DEVICE: DeviceId = DeviceId(0);
const CODECS: [Codec; 4] = [Codec::Lz4, Codec::Snappy, Codec::Zstd, Codec::Deflate];

/// A GPU with nvCOMP, or a logical device; one for all tests, so that the kernel is compiled once.
fn open() -> (Machine, DeviceDecompressor) {
    static OPENED: OnceLock<(Machine, DeviceDecompressor)> = OnceLock::new();
    let open = || {
        let gpu = cuda::open(&CudaOptions::default()).and_then(|gpu| cuda::nvcomp().map(|_| gpu));
        let machine = gpu.unwrap_or_else(|error| {
            println!("a logical device in place of a GPU: {error}");
            host::open(&HostOptions::default())
        });
        let cache = tempfile::tempdir().unwrap();
        let cache = Some(cache.path().to_path_buf());
        let decompression =
            Decompression::open(Decompress::Device, &machine, &[DEVICE], cache, &Rates::of_preset()).unwrap();
        let on_device = decompression.on_devices[0].1.clone();
        (machine, DeviceDecompressor(on_device.unwrap()))
    };
    OPENED.get_or_init(open).clone()
}

/// A chunk as stored, and what it is of.
struct Stored {
    bytes: Vec<u8>,
    ty: PhysicalType,
    rows: u32,
}

impl Stored {
    fn new(column: &Column, encoding: &str, codec: Codec, page_rows: u32) -> Self {
        let encoding = encoding.parse::<Encoding>().unwrap().with_codec(codec);
        let bytes = encode_chunk(column, encoding, page_rows).unwrap();
        Self { bytes, ty: column.values.physical_type(), rows: column.len() as u32 }
    }

    fn view(&self) -> ChunkView<'_> {
        ChunkView::parse(&self.bytes, self.ty, self.rows).unwrap()
    }

    fn decompressed(&self) -> Vec<u8> {
        let mut decompressed = vec![0; decompressed_bytes(&self.view())];
        decompress_chunk(&self.view(), &mut decompressed).unwrap();
        decompressed
    }
}

/// What came of chunks: each without its codec, and for each section of a decoder whether it was whole.
struct Decompressed {
    chunks: Vec<Vec<u8>>,
    is_whole: Vec<bool>,
    batches: usize,
}

/// Stages `chunks`, lets `change` have the bytes of sections, decompresses them on the device with room to work in for
/// `at_once` sections of the greatest size.
fn decompress(chunks: &[Stored], at_once: usize, change: impl Fn(&Part, &mut [u8])) -> Decompressed {
    let (machine, decompressor) = open();
    let compressed_sizes: Vec<CompressedSize> =
        chunks.iter().map(|chunk| CompressedSize::of(&chunk.view())).collect();
    let rooms: Vec<usize> =
        chunks.iter().map(|chunk| decompressed_bytes(&chunk.view()).next_multiple_of(128)).collect();
    let mut compressed = vec![0xA5; compressed_sizes.iter().map(CompressedSize::bytes).sum()];
    let (mut body, mut parts) = (Body { row_group: 0, column: 0, compressed: 0, target: 0 }, Vec::new());
    for ((chunk, compressed_size), room) in chunks.iter().zip(&compressed_sizes).zip(&rooms) {
        let bytes = &mut compressed[body.compressed..body.compressed + compressed_size.body];
        parts.extend(write_body(&chunk.view(), &chunk.bytes, body, bytes).unwrap());
        body =
            Body { compressed: body.compressed + compressed_size.body, target: body.target + room, ..body };
    }
    for part in parts.iter().filter(|part| part.section.is_some()) {
        change(part, &mut compressed[part.compressed.clone()]);
    }
    let room = CODECS.map(|codec| decompressor.temp_bytes(codec, at_once, job::SECTION_BYTES_MAX).unwrap());
    let room = room.into_iter().max().unwrap();
    let batches =
        batches(&mut parts, room, |codec, count, bytes| decompressor.temp_bytes(codec, count, bytes))
            .unwrap();

    let allocate = |kind, bytes| machine.allocate(kind, bytes, OnFull::Refuse).unwrap();
    let device = allocate(MemoryKind::Device(DEVICE), body.target + compressed.len());
    let (target, on_device) = (device.slice(0..body.target), device.slice(body.target..device.len()));
    let at = Addresses { compressed: on_device.address(), target: target.address() };
    let words = Words::write(&mut compressed, body.compressed, &parts, at);
    let stream = machine.stream(Place::Device(DEVICE)).unwrap();
    let pinned = allocate(MemoryKind::PINNED, device.len());
    pinned.with_bytes_mut(|bytes| bytes.fill(0x5A)).unwrap();
    stream.copy(&pinned.span(), &device.span()).unwrap();
    stream.wait_blocking().unwrap();
    pinned.with_bytes_mut(|bytes| bytes[body.target..].copy_from_slice(&compressed)).unwrap();
    stream.copy(&pinned.slice(body.target..device.len()), &on_device).unwrap();
    let temp = allocate(MemoryKind::Device(DEVICE), room).span();
    let count = batches.len();
    let job = Job { compressed: on_device, target, temp, words, batches };
    decompressor.enqueue(&stream, &job).unwrap();
    finish(&stream, &device.span(), &pinned.span());
    pinned
        .with_bytes(|bytes| {
            let sections = parts.iter().filter(|part| part.section.is_some()).enumerate();
            let is_whole = sections.map(|(index, part)| {
                words.outcome_of(&bytes[body.target..], index) == (part.target.len() as u64, 0)
            });
            let mut start = 0;
            let chunks = chunks.iter().zip(&rooms).map(|(chunk, room)| {
                let decompressed = bytes[start..start + decompressed_bytes(&chunk.view())].to_vec();
                start += room;
                decompressed
            });
            Decompressed { chunks: chunks.collect(), is_whole: is_whole.collect(), batches: count }
        })
        .unwrap()
}

fn finish(stream: &Stream, device: &Span, pinned: &Span) {
    stream.copy(device, pinned).unwrap();
    stream.wait_blocking().unwrap();
}

fn check(chunks: &[Stored], at_once: usize) -> Decompressed {
    let decompressed = decompress(chunks, at_once, |_, _| {});
    assert!(decompressed.is_whole.iter().all(|is_whole| *is_whole), "{:?}", decompressed.is_whole);
    for (index, (chunk, decompressed)) in chunks.iter().zip(&decompressed.chunks).enumerate() {
        assert!(chunk.decompressed() == *decompressed, "chunk {index}");
    }
    decompressed
}

/// Values that every codec shrinks; every fifth is NULL where that is asked for.
fn dates(rows: u64, has_nulls: bool) -> Column {
    let values = Values::I32((0..rows).map(|row| 8036 + (row / 60 + row * row % 7) as i32).collect());
    let validity = has_nulls.then(|| Validity::from_bools((0..rows as usize).map(|row| row % 5 != 0)));
    Column { values, validity }
}

#[test]
fn every_codec_and_every_size_of_page_is_decompressed_as_by_the_host() {
    for codec in CODECS {
        let mut chunks = Vec::new();
        for rows in [1, 7, 1023, 1024, 1025, 5000, 70_001] {
            // A dictionary is for values that come more than once.
            let with_dictionary = (rows > 1000).then_some("dict+bitpack");
            for encoding in ["plain", "bitpack", "delta", "rle"].into_iter().chain(with_dictionary) {
                chunks.push(Stored::new(&dates(rows, rows % 2 == 0), encoding, codec, 1024));
            }
            chunks.push(Stored::new(&dates(rows, true), "plain", codec, 16 << 10));
        }
        assert!(!check(&chunks, 4096).is_whole.is_empty(), "{codec}");
    }
}

#[test]
fn codecs_are_mixed_in_a_morsel_and_little_memory_makes_more_batches() {
    let column = dates(50_000, false);
    let chunks: Vec<Stored> =
        Codec::ALL.into_iter().map(|codec| Stored::new(&column, "plain", codec, 1024)).collect();
    assert!(check(&chunks, 4096).batches >= CODECS.len());
    check(&chunks, 1);
}

#[test]
fn sections_that_are_too_large_are_the_hosts() {
    let noise = |row: u64| row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60;
    let column = Column::new(Values::I64((0..100_000).map(|row| noise(row) as i64).collect()));
    for codec in CODECS {
        let decompressed = check(&[Stored::new(&column, "plain", codec, 64 << 10)], 4096);
        // 512 KiB, and a last page of 34,464 rows, which is larger than 256 KiB too.
        assert_eq!(decompressed.is_whole.len(), 0, "{codec}");
        let decompressed = check(&[Stored::new(&column, "plain", codec, 32 << 10)], 4096);
        assert_eq!(decompressed.is_whole.len(), 4, "{codec}");
    }
}

#[test]
fn damage_is_told_by_the_device_and_spares_other_sections() {
    // Other decoders promise nothing for bytes that no compressor wrote, so that a GPU is not asked.
    let is_gpu = matches!(open().0.device(DEVICE).unwrap().kind, DeviceKind::Cuda { .. });
    for codec in if is_gpu { &CODECS[..1] } else { &CODECS } {
        let chunks = [Stored::new(&dates(5000, false), "plain", *codec, 1024)];
        let is_damaged =
            |part: &Part| part.section.as_ref().is_some_and(|(_, section)| section.page == Some(2));
        let decompressed = decompress(&chunks, 4096, |part, bytes| {
            if is_damaged(part) {
                bytes.fill(0xFF);
            }
        });
        let damaged = decompressed.is_whole.iter().filter(|is_whole| !**is_whole).count();
        assert_eq!(damaged, 1, "{codec}: {:?}", decompressed.is_whole);
    }
}

#[test]
fn batches_are_of_one_codec_and_fit_the_memory() {
    let body = Body { row_group: 0, column: 0, compressed: 0, target: 0 };
    let part = |codec: Codec, bytes: usize| {
        let chunk = Stored::new(&dates(bytes as u64 / 4, false), "plain", codec, 64 << 10);
        let mut compressed = vec![0; CompressedSize::of(&chunk.view()).body];
        write_body(&chunk.view(), &chunk.bytes, body, &mut compressed).unwrap().remove(1)
    };
    let sizes = [(Codec::Zstd, 4000), (Codec::Lz4, 400), (Codec::Zstd, 40_000), (Codec::Zstd, 4000)];
    let mut parts: Vec<Part> = sizes.iter().map(|(codec, bytes)| part(*codec, *bytes)).collect();
    let found = batches(&mut parts, 80_000, |_, count, largest| Ok(count * largest)).unwrap();
    let found: Vec<_> =
        found.iter().map(|batch| (batch.codec, batch.first, batch.count, batch.section_bytes_max)).collect();
    assert_eq!(found, [(Codec::Lz4, 0, 1, 400), (Codec::Zstd, 1, 2, 40_000), (Codec::Zstd, 3, 1, 4000)]);
}

#[test]
fn the_kernel_that_places_parts_compiles_for_a_gpu() {
    let source = place_source();
    match pelton_pipeline::compile_for_check(&source, 9, 0, pelton_pipeline::Effort::Full) {
        Ok(image) => assert!(image.starts_with(b"\x7fELF")),
        Err(error) => {
            assert!(pelton_pipeline::nvrtc_status().is_err(), "{error}");
            println!("SKIPPED: {error}");
        }
    }
}

#[test]
fn choices_are_named_on_the_command_line() {
    let parsed = |text: &str| text.parse::<Decompress>();
    assert_eq!(parsed("auto").unwrap(), Decompress::Auto);
    assert_eq!(parsed("host").unwrap(), Decompress::Host);
    assert_eq!(parsed("device").unwrap(), Decompress::Device);
    assert!(parsed("gpu").unwrap_err().to_string().contains("auto, host or device"));
}
